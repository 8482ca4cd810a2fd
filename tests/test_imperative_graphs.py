"""The web-platform-tests that are sequences of calls, second half: parallel dispatch, builds, destruction."""

from __future__ import annotations

import multiprocessing.shared_memory
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import webnn_cl
from tests.test_imperative import Dispatch
from tests.work import Kernels, affine, tensor
from webnn_cl import InvalidStateError, MLTypeError

ML = webnn_cl.ML()


@pytest.fixture
def other() -> Any:
    """A second context."""
    with ML.create_context() as made:
        yield made


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
