"""Reading models: malformed and huge ones, external data, what is refused and how it is told."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import webnn_cl
from tests.onnx.models import FLOAT, INT64, model, numbers
from webnn_cl.onnx import InferenceSession, check

node = helper.make_node


def relu() -> onnx.ModelProto:
    return model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, [2, 3])}, ["y"])


def test_a_model_from_path_bytes_and_message(context: webnn_cl.MLContext, tmp_path: Path) -> None:
    path = tmp_path / "relu.onnx"
    path.write_bytes(relu().SerializeToString())
    x = numbers(2, 3)
    for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), relu()):
        np.testing.assert_array_equal(InferenceSession(source, context).run(None, {"x": x})[0], np.maximum(x, 0))
    with pytest.raises(webnn_cl.MLTypeError, match="allowed: a path, bytes"):
        InferenceSession(7, context)
    with pytest.raises(FileNotFoundError):
        InferenceSession(tmp_path / "nowhere.onnx", context)


@pytest.mark.parametrize("cut", [0, 1, 10, 40, -1])
def test_truncated_files_are_one_line(context: webnn_cl.MLContext, tmp_path: Path, cut: int) -> None:
    whole = relu().SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[:cut])
    with pytest.raises(webnn_cl.NotSupportedError) as error:
        InferenceSession(path, context)
    assert "cut.onnx" in str(error.value) and "\n" not in str(error.value)


def test_noise_never_crashes(context: webnn_cl.MLContext) -> None:
    """Every single-byte change of a model gives a session, or an MLError."""
    whole, generator = bytearray(relu().SerializeToString()), np.random.default_rng(0)
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= int(generator.integers(1, 256))
        try:
            check(bytes(changed), context)
        except webnn_cl.MLError as error:
            assert str(error)


def test_newer_operator_sets_are_refused(context: webnn_cl.MLContext) -> None:
    made = relu()
    made.opset_import[0].version = 999
    with pytest.raises(webnn_cl.NotSupportedError, match="operator set 999 is too new"):
        InferenceSession(made, context)


# What is refused --------------------------------------------------------------------------------------------


def test_everything_unsupported_is_listed_at_once(context: webnn_cl.MLContext) -> None:
    nodes = [
        node("NonZero", ["x"], ["a"], name="first"),
        node("Unheard", ["x"], ["b"], name="second"),
        node("Neg", ["a"], ["c"], name="after"),
        node("Unique", ["x"], ["d"], name="third"),
    ]
    made = model(nodes, {"x": (FLOAT, [3])}, ["c", "b", "d"])
    with pytest.raises(webnn_cl.NotSupportedError) as error:
        InferenceSession(made, context)
    lines = str(error.value).splitlines()
    assert "3 nodes" in lines[0] and len(lines) == 4
    expected = (("first", "NonZero", "values"), ("second", "Unheard"), ("third", "Unique"))
    for line, words in zip(lines[1:], expected, strict=True):
        assert all(word in line for word in words)
    report = check(made, context)
    assert not report.ok and [n.name for n in report.unsupported] == ["first", "second", "third"]
    assert {n.name: n.how for n in report.nodes}["after"] == "skipped"
    assert "3 unsupported" in str(report)


def test_what_nothing_uses_is_not_refused(context: webnn_cl.MLContext) -> None:
    made = model([node("NonZero", ["x"], ["a"]), node("Neg", ["x"], ["y"])], {"x": (FLOAT, [3])}, ["y"])
    assert check(made, context).ok


def test_nothing_is_uploaded_by_a_check(context: webnn_cl.MLContext) -> None:
    made = model([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, [1, 64])}, ["y"], weights={"w": numbers(64, 64)})
    before = len(context._tensors)
    report = check(made, context)
    assert report.ok and len(context._tensors) == before
    assert [n.how for n in report.nodes] == ["direct"] and report.nodes[0].operators == ("matmul",)


def test_a_report_tells_how_each_node_is_expressed(context: webnn_cl.MLContext) -> None:
    nodes = [node("Shape", ["x"], ["s"]), node("Reshape", ["x", "s"], ["r"])]
    nodes += [node("Mish", ["r"], ["y"]), node("Tile", ["y", "n"], ["t"])]
    made = model(nodes, {"x": (FLOAT, ["batch", 3]), "n": (INT64, [2])}, ["t"])
    report = check(made, context)
    assert [n.how for n in report.nodes] == ["folded", "folded", "composed", "by value"]
    assert report.assumed == {"batch": 1} and "batch=1" in str(report) and report.ok


def test_strings_are_refused(context: webnn_cl.MLContext) -> None:
    made = model([node("StringConcat", ["x", "x"], ["y"])], {"x": (TensorProto.STRING, [2])}, ["y"], opset=20)
    with pytest.raises(webnn_cl.NotSupportedError, match="string tensors have no counterpart"):
        InferenceSession(made, context)


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([node("ConstantOfShape", ["big"], ["y"])], "elements"),
        ([node("Expand", ["one", "big"], ["y"])], "elements"),
        ([node("Tile", ["one", "many"], ["y"])], "repetitions"),
        ([node("Range", ["zero", "far", "step"], ["y"])], "elements"),
        ([node("Pad", ["one", "wide"], ["y"])], "ending_padding"),
    ],
)
def test_huge_results_are_refused_before_memory_is_asked_for(
    context: webnn_cl.MLContext, nodes: list[onnx.NodeProto], text: str
) -> None:
    weights = {
        "big": np.array([2**20, 2**20]), "one": np.ones(1, np.float32), "many": np.array([2**40]), "zero": np.array(0),
        "far": np.array(2**45), "step": np.array(1), "wide": np.array([0, 2**40]),
    }  # fmt: skip
    made = model([*nodes, node("Add", ["x", "y"], ["z"])], {"x": (FLOAT, [1])}, ["z"], weights=weights)
    with pytest.raises(webnn_cl.NotSupportedError, match=text):
        InferenceSession(made, context)


def test_inconsistent_initializers_are_refused(context: webnn_cl.MLContext) -> None:
    made = model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, [4])}, ["y"], weights={"w": numbers(4)})
    for dims in ([5], [2**20, 2**20], [-1]):
        broken = onnx.ModelProto()
        broken.CopyFrom(made)
        broken.graph.initializer[0].dims[:] = dims
        with pytest.raises(webnn_cl.NotSupportedError, match="'w'"):
            InferenceSession(broken, context)


def test_names_that_nothing_defines(context: webnn_cl.MLContext) -> None:
    made = model([node("Add", ["x", "ghost"], ["y"])], {"x": (FLOAT, [4])}, ["y"])
    with pytest.raises(webnn_cl.NotSupportedError, match="'ghost' is used before anything defines it"):
        InferenceSession(made, context)


def test_functions_that_call_themselves_end(context: webnn_cl.MLContext) -> None:
    def call(a: str, b: str) -> onnx.NodeProto:
        return node("Again", [a], [b], domain="local")

    again = helper.make_function("local", "Again", ["a"], ["b"], [call("a", "b")], [helper.make_opsetid("local", 1)])
    inputs = {"x": (FLOAT, [1])}
    made = model([call("x", "y")], inputs, ["y"], functions=[again], domains=["local"], infer=False)
    with pytest.raises(webnn_cl.NotSupportedError, match="nested more than"):
        InferenceSession(made, context)


# External data ----------------------------------------------------------------------------------------------


def with_external_weights(location: str, **entries: int) -> onnx.ModelProto:
    made = model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, [300])}, ["y"], weights={"w": numbers(300)})
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    for key, value in entries.items():
        weight.external_data.add(key=key, value=str(value))
    return made


def test_external_data_next_to_the_model(context: webnn_cl.MLContext, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(b"\0" * 64 + numbers(300).tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(with_external_weights("weights/w.bin", offset=64, length=1200).SerializeToString())
    (y,) = InferenceSession(path, context).run(None, {"x": np.zeros(300, np.float32)})
    np.testing.assert_array_equal(y, numbers(300))


def test_external_data_outside_the_folder_is_never_read(context: webnn_cl.MLContext, tmp_path: Path) -> None:
    secret, home = tmp_path / "secret.bin", tmp_path / "home"
    secret.write_bytes(numbers(300).tobytes())
    home.mkdir()
    os.symlink(secret, home / "link.bin")
    for location in ("../secret.bin", str(secret), "link.bin", "x/../../secret.bin", ""):
        (home / "m.onnx").write_bytes(with_external_weights(location).SerializeToString())
        with pytest.raises(webnn_cl.NotSupportedError, match="outside the model's folder"):
            InferenceSession(home / "m.onnx", context)


def test_external_data_that_is_missing_or_short(context: webnn_cl.MLContext, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(with_external_weights("gone.bin").SerializeToString())
    with pytest.raises(webnn_cl.NotSupportedError, match=r"gone\.bin"):
        InferenceSession(path, context)
    (tmp_path / "short.bin").write_bytes(bytes(1199))
    for made in (with_external_weights("short.bin"), with_external_weights("short.bin", offset=-4)):
        path.write_bytes(made.SerializeToString())
        with pytest.raises(webnn_cl.NotSupportedError, match="do not fit"):
            InferenceSession(path, context)
    with pytest.raises(webnn_cl.NotSupportedError, match="bytes have no folder"):
        InferenceSession(with_external_weights("short.bin").SerializeToString(), context)


def test_sparse_weights_become_dense(context: webnn_cl.MLContext) -> None:
    made = model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, [2, 3])}, ["y"])
    values = numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "w")
    made.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([1, 5]), "i"), [2, 3])
    )
    (y,) = InferenceSession(made, context).run(None, {"x": np.zeros((2, 3), np.float32)})
    np.testing.assert_array_equal(y, [[0, 1.5, 0], [0, 0, 2.5]])
