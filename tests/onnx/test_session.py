"""InferenceSession: names, feeds, shapes, tensors, weights, meta data."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings

import numpy as np
import pytest
from onnx import TensorProto, helper

import webnn_cl
from tests.onnx.models import BOOL, FLOAT, INT64, model, numbers
from webnn_cl.onnx import InferenceSession

node = helper.make_node


@pytest.fixture
def dense() -> bytes:
    """y = relu(x @ w), for any batch."""
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])]
    made = model(nodes, {"x": (FLOAT, ["batch", 64])}, ["y"], weights={"w": numbers(64, 32)})
    made.producer_name, made.model_version = "tests", 7
    made.metadata_props.add(key="letters", value="a\nb")
    return bytes(made.SerializeToString())


def expected(x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ numbers(64, 32), 0)


def test_names_and_meta_data(context: webnn_cl.MLContext, dense: bytes) -> None:
    session = InferenceSession(dense, context)
    (x,), (y,) = session.get_inputs(), session.get_outputs()
    assert (x.name, x.type, x.shape) == ("x", "tensor(float)", ["batch", 64])
    assert (y.name, y.type, y.shape) == ("y", "tensor(float)", ["batch", 32])
    meta = session.get_modelmeta()
    assert dict(meta.custom_metadata_map) == {"letters": "a\nb"}
    assert (meta.producer_name, meta.graph_name, meta.version) == ("tests", "test", 7)
    assert session.context is context


def test_every_shape_is_right_and_few_graphs_are_kept(context: webnn_cl.MLContext, dense: bytes) -> None:
    session = InferenceSession(dense, context)
    for _ in range(2):
        for batch in range(1, 12):
            x = numbers(batch, 64, seed=batch)
            (y,) = session.run(None, {"x": x})
            np.testing.assert_allclose(y, expected(x), rtol=1e-4, atol=1e-5)
    assert len(session._kept) == 8


def test_weights_are_uploaded_once(context: webnn_cl.MLContext, dense: bytes) -> None:
    session = InferenceSession(dense, context)
    for batch in (1, 2, 3):
        session.run(None, {"x": numbers(batch, 64)})
    assert session.weight_bytes == 64 * 32 * 4
    weights = {"w": numbers(64, 64), "same": numbers(64, 64), "other": numbers(64, 64, seed=1)}
    steps = (("x", "w", "a"), ("a", "same", "b"), ("b", "other", "y"))
    nodes = [node("MatMul", [a, b], [c]) for a, b, c in steps]
    twice = InferenceSession(model(nodes, {"x": (FLOAT, [2, 64])}, ["y"], weights=weights), context)
    assert twice.weight_bytes == 2 * 64 * 64 * 4, "equal weights are one"


def test_a_fixed_shape_is_compiled_at_once(context: webnn_cl.MLContext, dense: bytes) -> None:
    free = InferenceSession(dense, context)
    with pytest.raises(webnn_cl.InvalidStateError, match="run the session once"):
        _ = free.graph
    for fixed in ({"free_dimensions": {"batch": 3}}, {"input_shapes": {"x": (3, 64)}}):
        session = InferenceSession(dense, context, **fixed)  # type: ignore[arg-type]
        assert session.graph.inputs["x"].shape == (3, 64) and session.graph.outputs["y"].shape == (3, 32)
        assert session.get_inputs()[0].shape == [3, 64]


def test_a_context_of_its_own(dense: bytes) -> None:
    with InferenceSession(dense, input_shapes={"x": (1, 64)}) as session:
        context = session.context
        session.run(None, {"x": numbers(1, 64)})
    assert context.is_lost
    with pytest.raises(webnn_cl.InvalidStateError, match="destroyed"):
        session.run(None, {"x": numbers(1, 64)})


def test_chosen_outputs_in_the_order_asked_for(context: webnn_cl.MLContext) -> None:
    nodes = [node("Neg", ["x"], ["a"]), node("Abs", ["x"], ["b"])]
    x = numbers(3)
    session = InferenceSession(model(nodes, {"x": x}, ["a", "b"]), context)
    b, a = session.run(["b", "a"], {"x": x})
    np.testing.assert_array_equal(a, -x)
    np.testing.assert_array_equal(b, np.abs(x))
    (only,) = session.run(["b"], {"x": x})
    np.testing.assert_array_equal(only, b)


WRONG: dict[str, dict[str, object]] = {
    "no input is named 'z'; there are: x": {"x": numbers(2, 64), "z": 1},
    "no value for 'x'": {},
    "got float64": {"x": np.zeros((2, 64))},
    "float32[batch, 64]": {"x": numbers(2, 63)},
    "the shape [64]": {"x": numbers(64)},
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_feeds_are_one_readable_line(context: webnn_cl.MLContext, dense: bytes, text: str) -> None:
    session = InferenceSession(dense, context)
    with pytest.raises(webnn_cl.MLTypeError) as error:
        session.run(None, WRONG[text])
    assert text in str(error.value) and "\n" not in str(error.value)


def test_wrong_names(context: webnn_cl.MLContext, dense: bytes) -> None:
    session = InferenceSession(dense, context)
    with pytest.raises(webnn_cl.MLTypeError, match="no output is named 'q'; there are: y"):
        session.run(["q"], {"x": numbers(1, 64)})
    with pytest.raises(webnn_cl.MLTypeError, match="got the str 'y'"):
        session.run("y", {"x": numbers(1, 64)})
    with pytest.raises(webnn_cl.MLTypeError, match="no dimension is named 'depth'; there are: batch"):
        InferenceSession(dense, context, free_dimensions={"depth": 1})
    with pytest.raises(webnn_cl.MLTypeError, match="no input is named 'q'"):
        InferenceSession(dense, context, input_shapes={"q": (1, 64)})
    with pytest.raises(webnn_cl.MLTypeError, match=r"the model declares float32\[batch, 64\]"):
        InferenceSession(dense, context, input_shapes={"x": (1, 1, 64)})
    with pytest.raises(webnn_cl.NotSupportedError, match="do not multiply"):
        InferenceSession(dense, context, input_shapes={"x": (1, 65)})


def test_lists_are_taken_where_no_value_changes(context: webnn_cl.MLContext) -> None:
    session = InferenceSession(model([node("Add", ["x", "x"], ["y"])], {"x": (INT64, [2])}, ["y"]), context)
    np.testing.assert_array_equal(session.run(None, {"x": [1, 2**40]})[0], [2, 2**41])
    with pytest.raises(webnn_cl.MLTypeError, match="no int64 numbers"):
        session.run(None, {"x": [0.5, 1]})


def test_tensors_in_and_out_without_the_host(context: webnn_cl.MLContext, dense: bytes) -> None:
    session, x = InferenceSession(dense, context), numbers(4, 64)
    source, target = context.create_tensor((4, 64), writable=True), context.create_tensor((4, 32), readable=True)
    with source, target:
        context.write_tensor(source, x)
        session.run_tensors({"x": source}, {"y": target})
        np.testing.assert_allclose(context.read_tensor(target), expected(x), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(session.run(None, {"x": source})[0], expected(x), rtol=1e-4, atol=1e-5)
        with pytest.raises(webnn_cl.MLTypeError, match=r"the result has \[4, 32\]"):
            session.run_tensors({"x": source}, {"y": source})
        with pytest.raises(webnn_cl.MLTypeError, match="no output is named"):
            session.run_tensors({"x": source}, {"q": target})
    with context.create_tensor((4, 64), "int32") as wrong, pytest.raises(webnn_cl.MLTypeError, match="int32"):
        session.run_tensors({"x": wrong}, {})


def test_asynchronous_runs(context: webnn_cl.MLContext, dense: bytes) -> None:
    session = InferenceSession(dense, context)
    batches = [numbers(2, 64, seed=i) for i in range(5)]
    pending = [session.run_async(["y"], {"x": x}) for x in batches]

    async def gather() -> list[list[np.ndarray]]:
        return [await future for future in pending]

    for x, (y,) in zip(batches, asyncio.run(gather()), strict=True):
        np.testing.assert_allclose(y, expected(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(webnn_cl.MLTypeError):
        session.run_async(["q"], {"x": batches[0]})


def test_threads_share_a_session(context: webnn_cl.MLContext, dense: bytes) -> None:
    session, failures = InferenceSession(dense, context), list[BaseException]()

    def work(seed: int) -> None:
        try:
            for _ in range(5):
                x = numbers(1 + seed % 3, 64, seed=seed)
                np.testing.assert_allclose(session.run(None, {"x": x})[0], expected(x), rtol=1e-4, atol=1e-5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_outputs_that_are_inputs_or_weights_or_twice_the_same(context: webnn_cl.MLContext) -> None:
    nodes = [node("Identity", [a], [b]) for a, b in (("x", "same"), ("w", "weight"))]
    nodes += [node("Neg", ["x"], ["y"]), node("Identity", ["y"], ["z"])]
    x, w = numbers(3), numbers(2)
    session = InferenceSession(model(nodes, {"x": x}, ["same", "weight", "y", "z"], weights={"w": w}), context)
    for result, wanted in zip(session.run(None, {"x": x}), (x, w, -x, -x), strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_types_at_the_surface(context: webnn_cl.MLContext) -> None:
    nodes = [node("Not", ["b"], ["nb"]), node("Add", ["d", "dw"], ["dd"]), node("Add", ["s", "s"], ["ss"])]
    feeds = {"b": np.array([True, False]), "d": np.array([0.1, 0.2]), "s": np.array([300, -5], np.int16)}
    made = model(nodes, feeds, ["nb", "dd", "ss"], weights={"dw": np.array([1.0, 2.0])})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        session = InferenceSession(made, context)
    assert any("double weights are computed as float32" in str(w.message) for w in told)
    nb, dd, ss = session.run(None, feeds)
    assert nb.dtype == np.bool_ and dd.dtype == np.float64 and ss.dtype == np.int16
    np.testing.assert_array_equal(nb, [False, True])
    np.testing.assert_allclose(dd, [1.1, 2.2], rtol=1e-6)
    np.testing.assert_array_equal(ss, [600, -10])


def test_wide_integers_stay_exact(context: webnn_cl.MLContext) -> None:
    x = np.array([2**53 + 1, -(2**62) + 3], np.int64)
    made = model([node("Sub", ["x", "one"], ["y"])], {"x": x}, ["y"], weights={"one": np.array([1, 1])})
    session = InferenceSession(made, context)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x - 1)


def test_small_inputs_that_decide_shapes_are_compiled_by_value(context: webnn_cl.MLContext) -> None:
    made = model([node("Reshape", ["x", "shape"], ["y"])], {"x": (FLOAT, [2, 6]), "shape": (INT64, [2])}, ["y"])
    session, x = InferenceSession(made, context), numbers(2, 6)
    for shape in ([3, 4], [4, 3], [3, 4], [12, 1]):
        (y,) = session.run(None, {"x": x, "shape": np.array(shape)})
        np.testing.assert_array_equal(y, x.reshape(shape))
    assert len(session._kept) == 3


def test_an_empty_input_is_known(context: webnn_cl.MLContext) -> None:
    made = model([node("Concat", ["x", "e"], ["y"], axis=0)], {"x": (FLOAT, [2, 3]), "e": (FLOAT, ["n", 3])}, ["y"])
    session, x = InferenceSession(made, context), numbers(2, 3)
    np.testing.assert_array_equal(session.run(None, {"x": x, "e": np.zeros((0, 3), np.float32)})[0], x)
    np.testing.assert_array_equal(session.run(None, {"x": x, "e": x})[0], np.concatenate([x, x]))


def test_weights_listed_as_inputs_are_weights(context: webnn_cl.MLContext) -> None:
    x, w = numbers(2), numbers(2, seed=1)
    made = model([node("Add", ["x", "w"], ["y"])], {"x": x, "w": w}, ["y"], weights={"w": w})
    session = InferenceSession(made, context)
    assert [i.name for i in session.get_inputs()] == ["x"]
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x + w)


def test_a_session_leaves_nothing_behind(context: webnn_cl.MLContext, dense: bytes) -> None:
    gc.collect()
    before = len(context._tensors)
    with InferenceSession(dense, context, free_dimensions={"batch": 2}) as session:
        session.run(None, {"x": numbers(2, 64)})
    del session
    gc.collect()
    assert len(context._tensors) == before


def test_bool_inputs_take_uint8_tensors(context: webnn_cl.MLContext) -> None:
    session = InferenceSession(model([node("Not", ["x"], ["y"])], {"x": (BOOL, [3])}, ["y"]), context)
    with context.create_tensor((3,), "uint8", writable=True) as tensor:
        context.write_tensor(tensor, np.array([1, 0, 1], np.uint8))
        np.testing.assert_array_equal(session.run(None, {"x": tensor})[0], [False, True, False])


def test_bfloat16_weights(context: webnn_cl.MLContext) -> None:
    values = numbers(4)
    weight = helper.make_tensor("w", TensorProto.BFLOAT16, [4], values.tolist())
    made = model([node("Cast", ["w"], ["f"], to=FLOAT), node("Add", ["x", "f"], ["y"])], {"x": (FLOAT, [4])}, ["y"])
    made.graph.initializer.append(weight)
    (y,) = InferenceSession(made, context).run(None, {"x": np.zeros(4, np.float32)})
    np.testing.assert_allclose(y, values, rtol=2**-8)
