"""Failing OpenCL calls: for each call of a scenario, what if it fails? No crash, no hang, the right error."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import webnn_cl
from tests.faults import Injector, injected
from tests.work import affine, tensor
from webnn_cl import InvalidStateError, MLTypeError, OperationError
from webnn_cl.opencl import in_place
from webnn_cl.opencl.loss import is_loss

ML = webnn_cl.ML()
user_marker = cl.enqueue_marker  # the user's own calls don't fail
TWO = np.array([1.0, 2.0], np.float32)


def lifecycle(context: webnn_cl.MLContext, result: list[Any]) -> None:
    """Everything once, at the size of two floats."""
    one = tensor(context, shape=(2,), exportable=True)
    two, three = tensor(context, shape=(2,)), tensor(context, shape=(2,))
    builder = context.create_graph_builder()
    constant = builder.constant(context.create_constant_tensor(TWO))
    graph = builder.build({"y": builder.add(builder.input("x", [2]), constant)})
    context.write_tensor(one, TWO)
    context.write_tensor(two, TWO)
    context.dispatch(graph, {"x": one}, {"y": two})
    pending = context.read_tensor_async(two)
    with context.export_tensor(one) as lease:
        assert lease.buffer is not None
        context.dispatch(graph, {"x": one}, {"y": three})  # deferred
        later = context.read_tensor_async(three, np.zeros(2, np.float32))
    with context.map_tensor(one) as view:
        view[0] = 5
    context.copy_tensor(one, two)
    context.finish()
    result += [pending.result(60).tolist(), later.result(60).tolist(), context.read_tensor(two).tolist()]
    result.append(context.compute(graph, {"x": TWO})["y"].tolist())


def two_contexts(context: webnn_cl.MLContext, result: list[Any]) -> None:
    """Copies between contexts with and without a common pyopencl.Context, and a lease to a foreign queue."""
    source = tensor(context, TWO, (2,), exportable=True)
    for options in ({}, {"opencl": context.cl_context}):
        with ML.create_context(**options) as other:
            target = tensor(other, shape=(2,))
            other.copy_tensor(source, target)
            result.append(other.read_tensor(target).tolist())
            with context.export_tensor(source, queue=other.queue) as lease:
                event = user_marker(lease.queue)
                lease.done(event)
            context.finish()
            result.append(context.read_tensor(source).tolist())


def in_place_and_pinned(context: webnn_cl.MLContext, result: list[Any]) -> None:
    """Transfers through maps, and through pinned memory, at sizes that would not take these paths otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("COPIED_TWICE", 1), ("REPLACED", 1), ("IDLE_SECONDS", 30.0)):
            patch.setattr(in_place, name, value)
        transfers(context, result)
        context._facts = dataclasses.replace(context._facts, unified_memory=False)
        context._timeline.facts = context._facts
        transfers(context, result)


def transfers(context: webnn_cl.MLContext, result: list[Any]) -> None:
    """Write and read each kind of tensor in each way."""
    for exportable in (False, True):
        made = tensor(context, shape=(2,), exportable=exportable)
        context.write_tensor(made, TWO)
        result.append(context.read_tensor(made, np.zeros(2, np.float32)).tolist())
        result.append(context.read_tensor_async(made).result(60).tolist())
        with context.map_tensor(made) as view:
            result.append(view.tolist())


SCENARIOS: dict[str, tuple[Callable[[Any, list[Any]], None], list[Any]]] = {
    "lifecycle": (lifecycle, [[2, 4], [2, 4], [5, 2], [2, 4]]),
    "two contexts": (two_contexts, [[1, 2]] * 4),
    "in place and pinned": (in_place_and_pinned, [[1, 2]] * 12),
}


def run(name: str, fail_at: int = 0, forever: bool = False) -> tuple[Injector, BaseException | None]:
    """Run a scenario with a failing call; the error it raised."""
    scenario, expected = SCENARIOS[name]
    result: list[Any] = []
    error: BaseException | None = None
    with injected(fail_at, forever) as injector:
        try:
            context = ML.create_context()
            try:
                scenario(context, result)
            finally:
                context.destroy()
        except (OperationError, InvalidStateError, MLTypeError, cl.Error) as raised:
            error = raised.with_traceback(None)
    if error is None:
        assert result == expected, "a failure that nobody heard of must not change a result"
    return injector, error


def check(injector: Injector, error: BaseException | None, where: str) -> None:
    """The error is one of the library's, and says what failed."""
    if error is None:
        return
    assert not isinstance(error, cl.Error), f"{where}: pyopencl's own error got out: {error!r}"
    assert "injected" in str(error) or isinstance(error, (InvalidStateError, MLTypeError)), f"{where}: {error!r}"
    del injector


def check_fresh_context() -> None:
    """Later contexts work."""
    with ML.create_context() as context:
        assert context.compute(affine(context, 2.0, (2,)), {"x": TWO})["y"].tolist() == [2, 4]


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_call_fails_once(name: str) -> None:
    total, error = run(name)
    assert error is None and total.count > 20
    silent = []
    for fail_at in range(1, total.count + 1):
        injector, error = run(name, fail_at)
        if injector.failed:
            check(injector, error, f"call {fail_at}, {injector.failed[0]}")
            silent += [] if error is not None else injector.failed
        if fail_at % 10 == 0:
            check_fresh_context()
    # pyopencl itself builds from source when building from its cache fails. A flush that fails behind a deferred read
    # is told by finish(), unless the device was faster than the news.
    assert set(silent) <= {"Program.build", "CommandQueue.flush"}, "every failure is heard of"
    gc.collect()
    check_fresh_context()


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_call_fails_from_one_on(name: str) -> None:
    """The device is gone for good: the context is lost, and still nothing hangs."""
    total, _ = run(name)
    for fail_at in range(1, total.count + 1, 2):
        injector, error = run(name, fail_at, forever=True)
        if injector.failed:
            assert error is not None
            check(injector, error, f"from call {fail_at}, {injector.failed[0]}")
    gc.collect()
    check_fresh_context()


def test_a_refused_enqueue_settles_graph_lost_and_the_context_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    with ML.create_context() as context:
        graph, other = affine(context, 2.0), affine(context, 3.0)
        one, two = tensor(context, 4.0), tensor(context)
        context.dispatch(graph, {"x": one}, {"y": two})

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise cl.RuntimeError("clEnqueueNDRangeKernel failed: OUT_OF_RESOURCES")

        with monkeypatch.context() as patch:
            patch.setattr(cl, "enqueue_nd_range_kernel", refuse)
            with pytest.raises(OperationError, match="OUT_OF_RESOURCES") as caught:
                context.dispatch(graph, {"x": one}, {"y": two})
        assert not isinstance(caught.value, InvalidStateError)
        assert "OUT_OF_RESOURCES" in graph.lost.result(1)
        assert not context.is_lost
        with pytest.raises(InvalidStateError, match="OUT_OF_RESOURCES"):
            context.dispatch(graph, {"x": one}, {"y": two})
        context.dispatch(other, {"x": one}, {"y": two})
        assert context.read_tensor(two) == [12.0]


def test_a_refused_deferred_dispatch_is_told_by_graph_lost_and_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    with ML.create_context() as context:
        graph = affine(context, 2.0)
        one, two = tensor(context, 4.0, exportable=True), tensor(context)
        lease = context.export_tensor(one)
        context.dispatch(graph, {"x": one}, {"y": two})

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise cl.RuntimeError("clEnqueueNDRangeKernel failed: OUT_OF_RESOURCES")

        with monkeypatch.context() as patch:
            patch.setattr(cl, "enqueue_nd_range_kernel", refuse)
            lease.release()
        assert "OUT_OF_RESOURCES" in graph.lost.result(1)
        with pytest.raises(OperationError, match="OUT_OF_RESOURCES"):
            context.finish()
        context.finish()
        assert not context.is_lost and context.read_tensor(one) == [4.0]


def test_a_device_that_is_gone_loses_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ML.create_context()
    made, graph = tensor(context, 1.0), affine(context, 2.0)
    pending = context.read_tensor_async(made)
    pending.result(60)

    def gone(*args: Any, **kwargs: Any) -> Any:
        raise cl.LogicError("clEnqueue failed: INVALID_COMMAND_QUEUE")

    with monkeypatch.context() as patch:
        for name in ("enqueue_copy", "enqueue_marker", "enqueue_nd_range_kernel", "enqueue_fill_buffer"):
            patch.setattr(cl, name, gone)
        with pytest.raises(OperationError) as caught:
            context.dispatch(graph, {"x": made}, {"y": tensor_of(context)})
    assert isinstance(caught.value, InvalidStateError)
    assert context.is_lost and "INVALID_COMMAND_QUEUE" in context.lost.result(1)
    with pytest.raises(MLTypeError):
        context.read_tensor(made)
    check_fresh_context()


def tensor_of(context: webnn_cl.MLContext) -> webnn_cl.MLTensor:
    """A tensor made without any command: its memory is another's, so that only the dispatch can fail."""
    from webnn_cl.compiler.ir import TensorDesc
    from webnn_cl.opencl.memory import Storage, allocate

    return context._new_tensor(TensorDesc("float32", (1,)), Storage(allocate(context._cl, 4), 4))


def test_which_errors_mean_a_lost_device() -> None:
    with ML.create_context() as context:
        assert not is_loss(cl.RuntimeError("whatever"), context.queue)


def test_allocation_failures_are_readable() -> None:
    with ML.create_context() as context, injected() as injector:
        injector.fail_at = injector.count + 1
        with pytest.raises(OperationError) as caught:
            context.create_tensor([1 << 20])
        text = str(caught.value)
        assert str(4 << 20) in text and context.device.name in text and "MEM_OBJECT_ALLOCATION_FAILURE" in text
        assert context.read_tensor(tensor(context, 1.0)) == [1.0]
