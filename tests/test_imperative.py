"""The web-platform-tests of WebNN that are sequences of calls; the specification's side where WPT differs from it."""

from __future__ import annotations

import multiprocessing.shared_memory
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import webnn_cl
from tests.work import Kernels, affine, binary, tensor
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


# conformance/parallel-dispatch --------------------------------------------------------------------------------


def one(context: webnn_cl.MLContext, value: float = 0.0) -> webnn_cl.MLTensor:
    """A float32 [1] tensor."""
    return tensor(context, value)


def numbers(reads: list[Any]) -> list[float]:
    """The values of pending reads."""
    return [float(r.result(60)[0]) for r in reads]


def test_dispatch_queues_behind_read(context: webnn_cl.MLContext) -> None:
    graph, first, second, out = affine(context, 2), one(context, 1), one(context, 10), one(context)
    reads = []
    for source in (first, second):
        context.dispatch(graph, {"x": source}, {"y": out})
        reads.append(context.read_tensor_async(out))
    assert numbers(reads) == [2, 20]


def test_same_graph_write_dispatch_read(context: webnn_cl.MLContext) -> None:
    graph, reads = affine(context, 3), []
    for value in (1, 2, 3, 4):
        source, out = one(context, value), one(context)
        context.dispatch(graph, {"x": source}, {"y": out})
        reads.append(context.read_tensor_async(out))
    assert numbers(reads) == [3, 6, 9, 12]


def test_same_graph_writes_first(context: webnn_cl.MLContext) -> None:
    graph, sources, reads = affine(context, 10), [one(context, v) for v in (1, 2, 3, 4)], []
    for source in sources:
        out = one(context)
        context.dispatch(graph, {"x": source}, {"y": out})
        reads.append(context.read_tensor_async(out))
    assert numbers(reads) == [10, 20, 30, 40]


def test_same_graph_reads_last(context: webnn_cl.MLContext) -> None:
    graph, sources = affine(context, 9), [one(context, v) for v in (1, 2, 3, 4)]
    outs = [one(context) for _ in sources]
    for source, out in zip(sources, outs, strict=True):
        context.dispatch(graph, {"x": source}, {"y": out})
    assert numbers([context.read_tensor_async(out) for out in outs]) == [9, 18, 27, 36]


def serial(context: webnn_cl.MLContext, factors: list[float]) -> list[float]:
    """A chain of tensors from 1."""
    chain = [one(context, 1)] + [one(context) for _ in factors]
    graphs = {factor: affine(context, factor) for factor in set(factors)}
    for index, factor in enumerate(factors):
        context.dispatch(graphs[factor], {"x": chain[index]}, {"y": chain[index + 1]})
    return numbers([context.read_tensor_async(made) for made in chain])


def test_same_and_different_graphs_serial(context: webnn_cl.MLContext) -> None:
    assert serial(context, [2, 2, 2, 2]) == [1, 2, 4, 8, 16]
    assert serial(context, [3, 2, 3, 2]) == [1, 3, 6, 18, 36]


def test_different_graphs(context: webnn_cl.MLContext) -> None:
    sources, reads = [one(context, v) for v in (1, 2, 3, 4)], []
    for factor, source in zip((1, 2, 3, 4), sources, strict=True):
        out = one(context)
        context.dispatch(affine(context, factor), {"x": source}, {"y": out})
        reads.append(context.read_tensor_async(out))
    assert numbers(reads) == [1, 4, 9, 16]
    outs = [one(context) for _ in sources]
    graphs = [affine(context, factor) for factor in (2, 4, 6, 8)]
    for graph, source, out in zip(graphs, sources, outs, strict=True):
        context.dispatch(graph, {"x": source}, {"y": out})
    assert numbers([context.read_tensor_async(out) for out in outs]) == [2, 8, 18, 32]


def test_different_graphs_ping_pong(context: webnn_cl.MLContext) -> None:
    twice, thrice = affine(context, 2), affine(context, 3)
    a, b = one(context, 1), one(context)
    for _ in range(3):
        context.dispatch(twice, {"x": a}, {"y": b})
        context.dispatch(thrice, {"x": b}, {"y": a})
    assert numbers([context.read_tensor_async(made) for made in (a, b)]) == [216, 72]


# The rest of conformance --------------------------------------------------------------------------------------


def test_shared_memory_constant(context: webnn_cl.MLContext) -> None:
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=32)
    try:
        shared.buf[:32] = np.arange(8, dtype=np.int32).tobytes()
        view = np.frombuffer(shared.buf, np.int32, 8)
        for data in (shared.buf[:32], view):
            builder = context.create_graph_builder()
            constant = builder.constant(data, shape=[8], data_type="int32")
            graph = builder.build({"y": builder.identity(constant)})
            assert context.compute(graph, {})["y"].tolist() == list(range(8))
        del data, view
    finally:
        shared.close()
        shared.unlink()


def test_inputs_are_not_modified(context: webnn_cl.MLContext) -> None:
    source, out = tensor(context, -2.5, (4,)), tensor(context, shape=(4,))
    builder = context.create_graph_builder()
    graph = builder.build({"y": builder.relu(builder.input("x", [4]))})
    context.dispatch(graph, {"x": source}, {"y": out})
    assert context.read_tensor(source).tolist() == [-2.5] * 4
    assert context.read_tensor(out).tolist() == [0] * 4
    assert context.read_tensor(source).tolist() == [-2.5] * 4


@pytest.mark.parametrize("operator", ["identity", "cast"])
@pytest.mark.parametrize("shape", [(10,), (1, 2, 1, 5)])
def test_float16_transport(context: webnn_cl.MLContext, operator: str, shape: Any) -> None:
    bits = np.array(
        [0x0000, 0x8000, 0x0001, 0x8001, 0x0003, 0x8003, 0x03FF, 0x83FF, 0x0400, 0x8400], np.uint16
    )
    builder = context.create_graph_builder()
    x = builder.input("x", shape, "float16")
    y = builder.identity(x) if operator == "identity" else builder.cast(x, "float16")
    graph = builder.build({"y": y})
    for state in (bits, bits[::-1].copy()):
        current, following = (tensor(context, shape=shape, data_type="float16") for _ in range(2))
        context.write_tensor(current, state)
        for _ in range(8):
            context.dispatch(graph, {"x": current}, {"y": following})
            for made in (following, current):
                assert context.read_tensor(made).view(np.uint16).ravel().tolist() == state.tolist()
            current, following = following, current


# validation/build-more-than-once ------------------------------------------------------------------------------


class Build:
    """a, b, c = add(a, b)."""

    def __init__(self, context: webnn_cl.MLContext) -> None:
        self.builder = context.create_graph_builder()
        self.a, self.b = self.builder.input("a", [2]), self.builder.input("b", [2])
        self.c = self.builder.add(self.a, self.b)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_build_more_than_once(context: webnn_cl.MLContext, asynchronous: bool) -> None:
    build = Build(context)
    builder = build.builder
    first = builder.build_async({"c": build.c}) if asynchronous else builder.build({"c": build.c})
    for again in (
        lambda: builder.build({"c": build.c}),
        lambda: builder.build_async({"c": build.c}).result(60),
        lambda: builder.sub(build.a, build.b),
        lambda: builder.input("d", [2]),
        lambda: builder.constant(bytes(8), shape=[2], data_type="float32"),
    ):
        with pytest.raises(InvalidStateError):
            again()
    assert isinstance(builder.build_async({"c": build.c}).exception(60), InvalidStateError)
    graph = first.result(60) if asynchronous else first
    assert context.compute(graph, {"a": [1, 2], "b": [3, 4]})["c"].tolist() == [4, 6]


def test_a_refused_build_leaves_the_builder_usable(context: webnn_cl.MLContext) -> None:
    build = Build(context)
    for outputs in ({"a": build.a}, {}, {"": build.c}, {"c": None}, {"c": Build(context).c}, None):
        with pytest.raises(MLTypeError):
            build.builder.build(outputs)  # type: ignore[arg-type]
        assert isinstance(build.builder.build_async(outputs).exception(60), MLTypeError)  # type: ignore[arg-type]
    build.builder.build({"c": build.c})
    with pytest.raises(InvalidStateError):
        build.builder.build({"c": build.c})


def test_two_builders_with_the_same_names(context: webnn_cl.MLContext) -> None:
    one_, two = Build(context), Build(context)
    graphs = [b.builder.build({"c": b.c}) for b in (one_, two)]
    for graph in graphs:
        assert context.compute(graph, {"a": [1, 2], "b": [1, 1]})["c"].tolist() == [2, 3]


# validation/constant-changed-buffer ---------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["release", "overwrite"])
def test_constants_are_copied(context: webnn_cl.MLContext, change: str) -> None:
    source = bytearray(np.array([2, 3], np.float32).tobytes())
    view = memoryview(source)
    builder = context.create_graph_builder()
    constant = builder.constant(view, shape=[2], data_type="float32")
    if change == "release":
        view.release()
    else:
        source[:] = np.array([10, 20], np.float32).tobytes()
    graph = builder.build({"y": builder.add(constant, builder.input("b", [2]))})
    assert context.compute(graph, {"b": [5, 7]})["y"].tolist() == [7, 10]


def test_a_detached_constant_is_refused(context: webnn_cl.MLContext) -> None:
    view = memoryview(bytearray(8))
    view.release()
    with pytest.raises(MLTypeError):
        context.create_graph_builder().constant(view, shape=[2], data_type="float32")


# validation/destroyContext and destroyGraph -------------------------------------------------------------------


def after_destroy(make: Callable[[Any], Any]) -> Any:
    """What `make` gives for a context, once the context is destroyed; checks that `lost` resolved."""
    context = ML.create_context()
    made = make(context)
    context.destroy()
    context.destroy()
    assert isinstance(context.lost.result(60), str)
    return context, made


def test_destroy_context(other: webnn_cl.MLContext) -> None:
    context, build = after_destroy(Build)
    for refused in (
        lambda: build.builder.input("d", [2]),
        lambda: webnn_cl.MLGraphBuilder(context),
        lambda: build.builder.build({"c": build.c}),
        lambda: build.builder.build_async({"c": build.c}).result(60),
        lambda: context.create_tensor([1]),
    ):
        with pytest.raises(InvalidStateError):
            refused()
    context, dispatch = after_destroy(Dispatch)
    with pytest.raises(InvalidStateError):
        dispatch.run()
    context, made = after_destroy(one)
    with pytest.raises(MLTypeError):
        context.read_tensor_async(made).result(60)
    with pytest.raises(MLTypeError):
        context.write_tensor(made, bytes(4))
    survivor = one(other, 3)
    ML.create_context().destroy()
    assert other.read_tensor(survivor) == [3]


def test_destroy_context_with_a_read_in_progress() -> None:
    context = ML.create_context()
    made = one(context)
    Kernels(context.cl_context).spin(context.queue, 0.2)
    read = context.read_tensor_async(made)
    context.destroy()
    with pytest.raises(InvalidStateError):
        read.result(60)


def test_destroy_context_right_after_dispatch() -> None:
    context = ML.create_context()
    dispatch = Dispatch(context)
    dispatch.run()
    context.destroy()


def test_destroy_graph(context: webnn_cl.MLContext) -> None:
    dispatch = Dispatch(context, "mul")
    dispatch.run(dispatch.pair(2, 2))
    dispatch.graph.destroy()
    dispatch.graph.destroy()
    assert "destroy" in dispatch.graph.lost.result(60)
    dispatch.check(dispatch.outputs["output1"], 4)
    with pytest.raises(InvalidStateError):
        dispatch.run()
