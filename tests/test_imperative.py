"""The web-platform-tests of WebNN that are sequences of calls; the specification's side where WPT differs from it."""

from __future__ import annotations

import multiprocessing.shared_memory
from typing import Any

import numpy as np
import pytest

import webnn_cl
from tests.work import Kernels, binary, tensor
from webnn_cl import InvalidStateError, MLTypeError

ML = webnn_cl.ML()
SHAPE = (3, 5)


@pytest.fixture
def other() -> Any:
    """A second context."""
    with ML.create_context() as made:
        yield made


def int32(*values: int) -> Any:
    """An int32 array."""
    return np.array(values, np.uint32).view(np.int32)


# conformance/tensor: create -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data_type", "shape"),
    [("float16", (2, 3)), ("float32", (1, 5)), ("int32", (4,)), ("uint8", (3, 2, 4))],
)
def test_create(context: webnn_cl.MLContext, data_type: str, shape: Any) -> None:
    assert data_type in context.op_support_limits()["input"]["dataTypes"]
    made = context.create_tensor(shape, data_type)
    assert (made.data_type, made.shape) == (data_type, shape)


def test_create_fails_for_empty_and_large(context: webnn_cl.MLContext) -> None:
    limit = context.op_support_limits()["maxTensorByteLength"]
    for shape in ([2, 0, 3], [2**32 - 1] * 3, [(limit + 1 + 3) // 4]):
        with pytest.raises(MLTypeError):
            context.create_tensor(shape, "int32", writable=True)


def test_destroy_twice(context: webnn_cl.MLContext) -> None:
    made = context.create_tensor([2, 3], "int32")
    made.destroy()
    made.destroy()


@pytest.mark.parametrize(("data_type", "shape"), [("int32", (4,)), ("uint8", (3, 2, 4))])
def test_create_constant(context: webnn_cl.MLContext, data_type: str, shape: Any) -> None:
    assert data_type in context.op_support_limits()["constant"]["dataTypes"]
    size = int(np.prod(shape)) * np.dtype(data_type).itemsize
    made = context.create_constant_tensor(b"\xaa" * size, shape=shape, data_type=data_type)
    assert (made.constant, made.readable, made.writable) == (True, False, False)
    for change in (-1, 1):
        with pytest.raises(MLTypeError):
            context.create_constant_tensor(
                b"\xaa" * (size + change * np.dtype(data_type).itemsize), shape=shape, data_type=data_type
            )
    with pytest.raises(MLTypeError):
        context.create_constant_tensor(b"", shape=[2, 0, 3], data_type="int32")


# conformance/tensor: read and write ---------------------------------------------------------------------------


def test_read_after_destroy_is_a_type_error(context: webnn_cl.MLContext) -> None:
    made = context.create_tensor([2, 2], "int32", readable=True)
    made.destroy()
    with pytest.raises(MLTypeError):
        context.read_tensor_async(made).result()


def test_read_before_destroy_is_rejected(context: webnn_cl.MLContext) -> None:
    made = context.create_tensor([2, 3], "int32", readable=True)
    Kernels(context.cl_context).spin(context.queue, 0.2)
    reads = [context.read_tensor_async(made), context.read_tensor_async(made)]
    made.destroy()
    for read in reads:
        with pytest.raises(InvalidStateError):
            read.result(60)


def test_read_uninitialized(context: webnn_cl.MLContext) -> None:
    assert context.read_tensor(context.create_tensor([1024], "int32", readable=True)).tolist() == [0] * 1024


def test_overwrite(context: webnn_cl.MLContext) -> None:
    made = tensor(context, data_type="int32")
    context.write_tensor(made, np.full(4, 0xAA, np.uint8))
    context.write_tensor(made, int32(0xBBBBBBBB))
    assert context.read_tensor(made).view(np.uint32) == [0xBBBBBBBB]
    with pytest.raises(MLTypeError):
        context.write_tensor(made, np.array([0xBBBBBBBB], np.uint32))


def test_context_mismatch(context: webnn_cl.MLContext, other: webnn_cl.MLContext) -> None:
    for mine, foreign in ((context, other), (other, context)):
        made = tensor(foreign, shape=(6,), data_type="int32")
        with pytest.raises(MLTypeError):
            mine.read_tensor_async(made).result()
        with pytest.raises(MLTypeError):
            mine.write_tensor(made, b"\xaa" * 24)


def test_write_with_different_kinds_of_buffers(context: webnn_cl.MLContext) -> None:
    plain = bytearray(np.full(4, 7, np.int32).tobytes())
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=16)
    try:
        shared.buf[:16] = plain
        view = np.frombuffer(shared.buf, np.int32, 4)
        for source in (plain, np.frombuffer(plain, np.int32), shared.buf[:16], view):
            made = tensor(context, shape=(4,), data_type="int32")
            context.write_tensor(made, source)
            assert context.read_tensor(made).tolist() == [7, 7, 7, 7]
        del source, view
    finally:
        shared.close()
        shared.unlink()


def test_write_with_buffer_of_wrong_size(context: webnn_cl.MLContext) -> None:
    made = tensor(context, data_type="int32")
    for size in (5, 3):
        with pytest.raises(MLTypeError):
            context.write_tensor(made, bytes(size))


def test_write_after_destroy_is_a_type_error(context: webnn_cl.MLContext) -> None:
    made = tensor(context, shape=(2, 2), data_type="int32")
    made.destroy()
    with pytest.raises(MLTypeError):
        context.write_tensor(made, np.zeros((2, 2), np.int32))


def test_write_scalar(context: webnn_cl.MLContext) -> None:
    made = tensor(context, shape=(), data_type="int32")
    context.write_tensor(made, int32(0xAAAABBBB))
    assert context.read_tensor(made).view(np.uint32) == 0xAAAABBBB


def test_write_detached(context: webnn_cl.MLContext) -> None:
    made = tensor(context, shape=(2, 2), data_type="int32")
    source = memoryview(bytearray(int32(*[0xBBBBBBBB] * 4).tobytes()))
    context.write_tensor(made, source)
    source.release()
    with pytest.raises(MLTypeError):
        context.write_tensor(made, source)
    assert (context.read_tensor(made).view(np.uint32) == 0xBBBBBBBB).all()


# conformance/tensor: dispatch ---------------------------------------------------------------------------------


class Dispatch:
    """WPT's set-up: a graph with lhs, rhs, output1, output2, and good tensors for them."""

    def __init__(self, context: webnn_cl.MLContext, operator: str = "add") -> None:
        self.context = context
        self.graph = binary(context, operator, SHAPE)
        self.inputs = {"lhs": tensor(context, shape=SHAPE), "rhs": tensor(context, shape=SHAPE)}
        self.outputs = {"output1": tensor(context, shape=SHAPE), "output2": tensor(context, shape=SHAPE)}

    def make(self, value: float) -> webnn_cl.MLTensor:
        return tensor(self.context, value, SHAPE)

    def pair(self, one: float, two: float) -> dict[str, Any]:
        return {"lhs": self.make(one), "rhs": self.make(two)}

    def empty(self) -> dict[str, Any]:
        return {"output1": tensor(self.context, shape=SHAPE), "output2": tensor(self.context, shape=SHAPE)}

    def run(self, inputs: Any = None, outputs: Any = None) -> None:
        self.context.dispatch(
            self.graph, self.inputs if inputs is None else inputs, self.outputs if outputs is None else outputs
        )

    def fails(self, inputs: Any = None, outputs: Any = None) -> None:
        self.run()  # the control
        with pytest.raises(MLTypeError):
            self.run(inputs, outputs)
        self.run()

    def check(self, made: webnn_cl.MLTensor, value: float) -> None:
        assert (self.context.read_tensor(made) == value).all()


@pytest.fixture
def dispatch(context: webnn_cl.MLContext) -> Dispatch:
    """The set-up with add."""
    return Dispatch(context)


def test_dispatch_context_mismatch(dispatch: Dispatch, other: webnn_cl.MLContext) -> None:
    foreign = tensor(other, shape=SHAPE)
    dispatch.fails(inputs={**dispatch.inputs, "lhs": foreign})
    dispatch.fails(outputs={**dispatch.outputs, "output1": foreign})
    with pytest.raises(MLTypeError):
        other.dispatch(dispatch.graph, dispatch.inputs, dispatch.outputs)


@pytest.mark.parametrize(
    ("name", "shape"), [("lhs", (3, 5, 2)), ("rhs", (5,)), ("output1", (5, 5)), ("output2", (3, 4)), ("lhs", (15,))]
)
def test_dispatch_invalid_shape(dispatch: Dispatch, name: str, shape: Any) -> None:
    wrong = tensor(dispatch.context, shape=shape)
    if name in dispatch.inputs:
        dispatch.fails(inputs={**dispatch.inputs, name: wrong})
    else:
        dispatch.fails(outputs={**dispatch.outputs, name: wrong})


@pytest.mark.parametrize("name", ["lhs", "rhs", "output1", "output2"])
def test_dispatch_invalid_data_type(dispatch: Dispatch, name: str) -> None:
    wrong = tensor(dispatch.context, shape=SHAPE, data_type="int32")
    if name in dispatch.inputs:
        dispatch.fails(inputs={**dispatch.inputs, name: wrong})
        dispatch.fails(inputs={**dispatch.inputs, name: dispatch.context.read_tensor_async(wrong)})
    else:
        dispatch.fails(outputs={**dispatch.outputs, name: wrong})


def test_dispatch_invalid_name(dispatch: Dispatch) -> None:
    lhs, rhs = dispatch.inputs.values()
    one, two = dispatch.outputs.values()
    more = dispatch.make(0)
    dispatch.fails(inputs={}, outputs={})
    dispatch.fails(inputs={"aDifferentInputName": lhs, "rhs": rhs})
    dispatch.fails(inputs={"lhs": lhs, "aDifferentInputName": rhs})
    dispatch.fails(outputs={"aDifferentOutputName": one, "output2": two})
    dispatch.fails(outputs={"output1": one, "aDifferentOutputName": two})
    dispatch.fails(inputs={"lhs": lhs})
    dispatch.fails(inputs={**dispatch.inputs, "aDifferentInputName": more})
    dispatch.fails(outputs={"output1": one})
    dispatch.fails(outputs={**dispatch.outputs, "aDifferentOutputName": more})


def test_dispatch_invalid_tensor(dispatch: Dispatch) -> None:
    lhs, rhs = dispatch.inputs.values()
    one, two = dispatch.outputs.values()
    dispatch.fails(outputs={"output1": one, "output2": one})
    dispatch.fails(outputs={"output1": lhs, "output2": two})
    dispatch.fails(inputs={"lhs": one, "rhs": rhs})
    dispatch.fails(inputs={"lhs": lhs, "rhs": lhs})
    dispatch.fails(inputs={"lhs": None, "rhs": rhs})
    dispatch.fails(outputs={"output1": None, "output2": two})
    dispatch.fails(inputs=None, outputs=5)
    dispatch.fails(inputs=[("lhs", lhs), ("rhs", rhs)])
    constant = dispatch.context.create_constant_tensor(np.zeros(SHAPE, np.float32))
    dispatch.fails(inputs={"lhs": constant, "rhs": rhs})
    dispatch.fails(outputs={"output1": constant, "output2": two})
    gone = dispatch.make(1)
    gone.destroy()
    dispatch.fails(inputs={"lhs": gone, "rhs": rhs})
    dispatch.fails(outputs={"output1": gone, "output2": two})


def test_dispatch_checks_in_order(dispatch: Dispatch, other: webnn_cl.MLContext) -> None:
    foreign, lhs = tensor(other, shape=(1,)), dispatch.inputs["lhs"]
    for graph in (None, 5, dispatch):
        with pytest.raises(MLTypeError, match="graph"):
            dispatch.context.dispatch(graph, {}, {})  # type: ignore[arg-type]
    with pytest.raises(MLTypeError, match="another context"):
        other.dispatch(dispatch.graph, {}, {})
    with pytest.raises(MLTypeError, match="once"):
        dispatch.run({"lhs": foreign, "other": foreign}, {})
    with pytest.raises(MLTypeError, match="another context"):
        dispatch.run({"wrong name": foreign}, {})
    with pytest.raises(MLTypeError, match=r"inputs.*names"):
        dispatch.run({"lhs": lhs}, {"wrong": dispatch.make(0)})
    with pytest.raises(MLTypeError, match=r"outputs.*names"):
        dispatch.run(None, {})
    dispatch.graph.destroy()
    with pytest.raises(InvalidStateError, match="destroy"):
        dispatch.run({"lhs": foreign, "other": foreign}, {})
    with pytest.raises(MLTypeError):
        dispatch.run({"lhs": None}, {})


def test_same_inputs(dispatch: Dispatch) -> None:
    inputs, a, b = dispatch.pair(1, 1), dispatch.empty(), dispatch.empty()
    dispatch.run(inputs, a)
    dispatch.run(inputs, b)
    for made in (*a.values(), *b.values()):
        dispatch.check(made, 2)


def test_same_outputs(dispatch: Dispatch) -> None:
    outputs = dispatch.empty()
    dispatch.run(dispatch.pair(1, 1), outputs)
    dispatch.run(dispatch.pair(2, 2), outputs)
    for made in outputs.values():
        dispatch.check(made, 4)


def test_same_inputs_and_outputs(dispatch: Dispatch) -> None:
    inputs, outputs = dispatch.pair(1, 1), dispatch.empty()
    dispatch.run(inputs, outputs)
    dispatch.run(inputs, outputs)
    for made in outputs.values():
        dispatch.check(made, 2)


def test_outputs_as_inputs(dispatch: Dispatch) -> None:
    a, b = dispatch.empty(), dispatch.empty()
    dispatch.run(dispatch.pair(1, 1), a)
    dispatch.run({"lhs": a["output1"], "rhs": a["output2"]}, b)
    dispatch.run({"lhs": b["output1"], "rhs": b["output2"]}, a)
    for made in a.values():
        dispatch.check(made, 8)


def test_same_name_different_input_tensors(context: webnn_cl.MLContext) -> None:
    dispatch = Dispatch(context, "sub")
    one, two = dispatch.pair(5, 3).values()
    dispatch.run({"lhs": one, "rhs": two})
    dispatch.check(dispatch.outputs["output1"], 2)
    dispatch.run({"lhs": two, "rhs": one})
    dispatch.check(dispatch.outputs["output1"], -2)


def test_same_name_different_output_tensors(dispatch: Dispatch) -> None:
    inputs, outputs, fresh = dispatch.pair(1, 1), dispatch.empty(), dispatch.make(0)
    dispatch.run(inputs, outputs)
    for made in inputs.values():
        dispatch.context.write_tensor(made, np.full(SHAPE, 2, np.float32))
    dispatch.run(inputs, {"output1": outputs["output1"], "output2": fresh})
    dispatch.check(outputs["output2"], 2)
    dispatch.check(outputs["output1"], 4)
    dispatch.check(fresh, 4)


def test_same_name_different_input_tensors_destroyed(dispatch: Dispatch) -> None:
    inputs, outputs = dispatch.pair(1, 1), dispatch.empty()
    dispatch.run(inputs, outputs)
    for name, expected in (("lhs", 3), ("rhs", 4)):
        inputs[name].destroy()
        inputs[name] = dispatch.make(2)
        dispatch.run(inputs, outputs)
        dispatch.check(outputs["output1"], expected)


def test_same_name_different_output_tensors_destroyed(dispatch: Dispatch) -> None:
    inputs, outputs = dispatch.pair(1, 1), dispatch.empty()
    dispatch.run(inputs, outputs)
    outputs["output1"].destroy()
    outputs["output1"] = dispatch.make(0)
    dispatch.context.write_tensor(inputs["lhs"], np.full(SHAPE, 2, np.float32))
    dispatch.run(inputs, outputs)
    dispatch.check(outputs["output1"], 3)


def test_same_constant_same_graph(context: webnn_cl.MLContext) -> None:
    constant = context.create_constant_tensor(np.full(SHAPE, 3, np.float32))
    builder = context.create_graph_builder()
    graph = builder.build({"output": builder.add(builder.constant(constant), builder.constant(constant))})
    assert dict(graph.inputs) == {}
    out = tensor(context, shape=SHAPE)
    context.dispatch(graph, {}, {"output": out})
    assert (context.read_tensor(out) == 6).all()


def test_same_constant_multiple_graphs(context: webnn_cl.MLContext) -> None:
    constant = context.create_constant_tensor(np.full(SHAPE, 3, np.float32))
    out = tensor(context, shape=SHAPE)
    for value in (5.0, 4.0):
        builder = context.create_graph_builder()
        graph = builder.build({"y": builder.sub(builder.input("x", SHAPE), builder.constant(constant))})
        context.dispatch(graph, {"x": tensor(context, value, SHAPE)}, {"y": out})
    assert (context.read_tensor(out) == 1).all()


# conformance/byob_readtensor ----------------------------------------------------------------------------------


@pytest.fixture
def eight(context: webnn_cl.MLContext) -> webnn_cl.MLTensor:
    """The int32 [2, 4] tensor of 0..7."""
    made = tensor(context, shape=(2, 4), data_type="int32")
    context.write_tensor(made, np.arange(8, dtype=np.int32))
    return made


def both(context: webnn_cl.MLContext, made: webnn_cl.MLTensor, out: Any) -> None:
    """Both ways of reading refuse `out`."""
    for read in (context.read_tensor, lambda *a: context.read_tensor_async(*a).result(60)):
        with pytest.raises(MLTypeError):
            read(made, out)


def test_byob_too_small_or_too_large(context: webnn_cl.MLContext, eight: webnn_cl.MLTensor) -> None:
    long = bytearray(64)
    for out in (bytearray(28), np.zeros(7, np.int32), long, np.frombuffer(long, np.int32)):
        both(context, eight, out)
    both(context, eight, np.frombuffer(bytearray(68), np.int32)[1:])
    assert not any(long)


def test_byob_detached(context: webnn_cl.MLContext, eight: webnn_cl.MLTensor) -> None:
    view = memoryview(bytearray(32))
    view.release()
    both(context, eight, view)


def test_byob_exact(context: webnn_cl.MLContext, eight: webnn_cl.MLTensor) -> None:
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=32)
    try:
        typed = np.frombuffer(shared.buf, np.int32, 8)
        for out in (bytearray(32), shared.buf[:32], typed):
            assert context.read_tensor_async(eight, out).result(60) is out
            assert np.frombuffer(out, np.int32).tolist() == list(range(8))
        del out, typed
    finally:
        shared.close()
        shared.unlink()


def test_byob_view_at_an_offset(context: webnn_cl.MLContext, eight: webnn_cl.MLTensor) -> None:
    whole = np.full(9, -1, np.int32)
    context.read_tensor_async(eight, whole[1:]).result(60)
    assert whole.tolist() == [-1, *range(8)]


def test_byob_destroyed(context: webnn_cl.MLContext, eight: webnn_cl.MLTensor) -> None:
    Kernels(context.cl_context).spin(context.queue, 0.2)
    outs = [bytearray(32), np.zeros(8, np.int32)]
    reads = [context.read_tensor_async(eight, out) for out in outs]
    eight.destroy()
    for read in reads:
        with pytest.raises(InvalidStateError):
            read.result(60)
    for out in outs:
        both(context, eight, out)
    context.finish()
    assert not any(outs[0]) and not outs[1].any()
