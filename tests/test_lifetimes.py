"""Lifetimes: what destroy() means behind queued work, objects dropped in any order, no leaks of objects or memory."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from typing import Any

import numpy as np
import psutil
import pyopencl as cl
import pytest

import webnn_cl
from tests.work import Kernels, affine, in_threads, python, tensor, until
from webnn_cl import InvalidStateError, MLTypeError, OperationError
from webnn_cl.opencl.memory import live_buffers, live_bytes

ML = webnn_cl.ML()
MIB = 1 << 20


class Census:
    """Counts what a context's work leaves behind: OpenCL objects, our buffers, resident memory."""

    def __init__(self, context: webnn_cl.MLContext) -> None:
        self.context = context
        self.counts = self.count()
        self.memory = psutil.Process().memory_info().rss

    def count(self) -> tuple[int, int, int, int]:
        """Every buffer, event, queue, kernel and program holds a reference to its cl_context or cl_command_queue."""
        self.context.finish()
        gc.collect()
        return (
            self.context.cl_context.reference_count,
            self.context.queue.reference_count,
            live_buffers(),
            live_bytes(),
        )

    def check(self, growth: int) -> None:
        """Nothing is left, and resident memory grew by at most `growth` bytes."""
        until(lambda: self.count() == self.counts, 20)
        assert psutil.Process().memory_info().rss - self.memory <= growth


def cycle(context: webnn_cl.MLContext, data: Any, exportable: bool) -> None:
    """Create, write, read, destroy."""
    made = context.create_tensor(data.shape, readable=True, writable=True, exportable=exportable)
    context.write_tensor(made, data)
    assert context.read_tensor(made)[0] == data[0]
    made.destroy()


def test_ten_thousand_cycles_leave_nothing() -> None:
    with ML.create_context() as context:
        data = np.arange(1000, dtype=np.float32)
        for index in range(200):
            cycle(context, data, index % 2 == 0)
        census = Census(context)
        for index in range(10_000):
            cycle(context, data, index % 2 == 0)
        census.check(24 * MIB)  # 10,000 leaked tensors would be 40 MiB, 10,000 leaked reads as much again


def test_a_thousand_builds_leave_nothing() -> None:
    with ML.create_context() as context:

        def build(index: int) -> None:
            graph = affine(context, float(index % 7), (64,), 1.0)
            if index % 3 == 0:
                context.compute(graph, {"x": np.zeros(64, np.float32)})
            if index % 2:
                graph.destroy()

        for index in range(21):
            build(index)
        census = Census(context)
        for index in range(1000):
            build(index)
        census.check(24 * MIB)


def test_thousands_of_asynchronous_reads_and_leases_leave_nothing() -> None:
    with ML.create_context() as context:
        made = tensor(context, 1.0, (1000,), exportable=True)

        def work(count: int) -> None:
            futures = [context.read_tensor_async(made) for _ in range(count)]
            for _ in range(count):
                with context.export_tensor(made) as lease:
                    assert lease.buffer.size == 4000
            with context.map_tensor(made) as view:
                assert view[0] == 1
            assert all(f.result(60)[0] == 1 for f in futures)

        work(100)
        census = Census(context)
        for _ in range(20):
            work(100)
        census.check(24 * MIB)


def test_contexts_come_and_go() -> None:
    def live() -> None:
        with ML.create_context() as context:
            made = tensor(context, 2.0, (1000,))
            future = context.read_tensor_async(made)
            assert future.result(60)[0] == 2

    for _ in range(10):
        live()
    gc.collect()
    before, threads = psutil.Process().memory_info().rss, threading.active_count()
    for _ in range(100):
        live()
    gc.collect()
    until(lambda: threading.active_count() <= threads + 1)
    assert psutil.Process().memory_info().rss - before <= 64 * MIB


def test_the_completion_thread_ends_with_its_context() -> None:
    context = ML.create_context()
    context.read_tensor_async(tensor(context, 1.0)).result(60)
    thread = context._timeline.completion._thread
    assert thread is not None and thread.is_alive() and thread.daemon
    del context
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()


# destroy() behind queued work ---------------------------------------------------------------------------------


def test_queued_work_survives_the_destruction_of_its_tensors_and_graph(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    size = 1 << 18
    graph = affine(context, 3.0, (size,))
    one, two, out = tensor(context, 5.0, (size,)), tensor(context, shape=(size,)), tensor(context, shape=(size,))
    second = affine(context, 1.0, (size,), 1.0)
    event = kernels.spin(context.queue, 0.3)
    context.dispatch(graph, {"x": one}, {"y": two})
    one.destroy()
    graph.destroy()
    context.dispatch(second, {"x": two}, {"y": out})
    two.destroy()
    second.destroy()
    junk = [tensor(context, -1.0, (size,)) for _ in range(4)]  # would land in the freed memory, if it were freed
    assert event.command_execution_status != 0
    assert (context.read_tensor(out) == 16).all()
    del junk


def test_dropping_instead_of_destroying_behind_queued_work(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    out = tensor(context, shape=(4096,))
    kernels.spin(context.queue, 0.3)

    def enqueue() -> None:
        graph = affine(context, 2.0, (4096,))
        context.dispatch(graph, {"x": tensor(context, 4.0, (4096,))}, {"y": out})

    enqueue()
    gc.collect()
    assert (context.read_tensor(out) == 8).all()


def test_device_memory_is_released_by_destroy(context: webnn_cl.MLContext) -> None:
    before = live_bytes()
    made = context.create_tensor([MIB])
    assert live_bytes() - before == 4 * MIB
    made.destroy()
    assert live_bytes() == before


def test_device_memory_is_released_by_collection(context: webnn_cl.MLContext) -> None:
    before = live_bytes()
    made = context.create_tensor([MIB])
    del made
    gc.collect()
    assert live_bytes() == before


def test_a_dropped_tensor_with_a_pending_read(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    made = tensor(context, 9.0)
    kernels.spin(context.queue, 0.2)
    future = context.read_tensor_async(made)
    del made
    gc.collect()
    assert future.result(60) == [9.0]


def test_a_dropped_future_still_completes_quietly(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    made = tensor(context, 9.0)
    kernels.spin(context.queue, 0.2)
    for _ in range(50):
        context.read_tensor_async(made, np.zeros(1, np.float32))
    gc.collect()
    assert context.read_tensor(made) == [9.0]


def test_objects_dropped_in_any_order() -> None:
    for seed in range(12):
        context = ML.create_context()
        graph = affine(context, 2.0, (8,))
        one, two = tensor(context, 1.0, (8,), exportable=True), tensor(context, shape=(8,))
        builder = context.create_graph_builder()
        operand = builder.input("x", [8])
        context.dispatch(graph, {"x": one}, {"y": two})
        future = context.read_tensor_async(two)
        lease = context.export_tensor(one)
        later = context.read_tensor_async(one)
        held = {"context": context, "graph": graph, "one": one, "two": two, "builder": builder, "operand": operand,
                "lease": lease}  # fmt: skip
        references = [weakref.ref(v) for v in held.values()]
        del context, graph, one, two, builder, operand, lease
        names = list(held)
        random.Random(seed).shuffle(names)
        for name in names:
            del held[name]
        assert (future.result(60) == 2).all()
        assert (later.result(60) == 1).all()  # the dropped lease was returned
        del future, later
        gc.collect()
        until(lambda references=references: all(r() is None for r in references))


def test_nothing_needs_the_garbage_collector() -> None:
    """Memory is freed when the last reference goes, also after work that was deferred, leased or copied."""
    gc.collect()
    gc.disable()
    try:
        references = [weakref.ref(o) for o in _busy_objects()]
        until(lambda: all(r() is None for r in references))
    finally:
        gc.enable()


def _busy_objects() -> list[Any]:
    context, other = ML.create_context(), ML.create_context()
    graph = affine(context, 2.0, (8,))
    one, two, far = tensor(context, 1.0, (8,), exportable=True), tensor(context, 0.0, (8,)), tensor(other, 0.0, (8,))
    with context.export_tensor(one) as lease:
        context.dispatch(graph, {"x": one}, {"y": two})
        reads = [context.read_tensor_async(two), context.read_tensor_async(one, np.zeros(8, np.float32))]
        other.copy_tensor(one, far)
    assert all(r.result(60) is not None for r in reads)
    with context.map_tensor(two) as view:
        assert view[0] == 2
    assert (other.read_tensor(far) == 1).all()
    return [context, other, graph, one, two, far, lease, one._storage, two._storage, far._storage]


def test_destroying_everything_in_any_order() -> None:
    for seed in range(12):
        context = ML.create_context()
        graph = affine(context, 2.0, (8,))
        one, two = tensor(context, 1.0, (8,), exportable=True), tensor(context, shape=(8,))
        builder = context.create_graph_builder()
        lease = context.export_tensor(one)
        context.dispatch(graph, {"x": one}, {"y": two})
        reads = [context.read_tensor_async(t) for t in (one, two)]
        ends: list[Any] = [context.destroy, graph.destroy, one.destroy, two.destroy, builder.destroy, lease.release]
        random.Random(seed).shuffle(ends)
        for end in ends + ends:
            end()
        for read in reads:
            assert read.exception(60) is None or isinstance(read.exception(), InvalidStateError)


def test_destroy_races_with_everything() -> None:
    """Threads use a context while others destroy its tensors, graphs and at last itself: only the right errors."""
    for _ in range(6):
        context = ML.create_context()
        graph = affine(context, 2.0, (8,))
        made = [tensor(context, 1.0, (8,), exportable=True) for _ in range(4)]
        def use(index: int, context: Any = context, graph: Any = graph, made: Any = made) -> None:
            chance = random.Random(index)
            for _ in range(300):
                one, two = chance.sample(made, 2)
                step = chance.choice(["write", "dispatch", "read", "future", "lease", "map", "copy", "finish"])
                try:
                    if step == "write":
                        context.write_tensor(one, np.ones(8, np.float32))
                    elif step == "dispatch":
                        context.dispatch(graph, {"x": one}, {"y": two})
                    elif step == "read":
                        context.read_tensor(one)
                    elif step == "future":
                        context.read_tensor_async(one).result(60)
                    elif step == "lease":
                        with context.export_tensor(one) as lease:
                            assert lease.buffer is not None
                    elif step == "map":
                        with context.map_tensor(one) as view:
                            assert view is not None
                    elif step == "copy":
                        context.copy_tensor(one, two)
                    else:
                        context.finish()
                except (InvalidStateError, MLTypeError):
                    continue

        def work(index: int, context: Any = context, graph: Any = graph, made: Any = made, use: Any = use) -> None:
            if index < 4:
                use(index)
                return
            for one in made[: index - 3]:
                one.destroy()
            if index == 5:
                graph.destroy()
                context.destroy()

        in_threads(6, work)
        assert context.is_lost


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "context.destroy()",
        "del context, made, future",
        "future.result(60)",
        "webnn_cl.ML().create_context_async()",
        "b = context.create_graph_builder(); b.build_async({'y': b.tan(b.input('x', [3]))})",
    ],
)
def test_a_process_ends_cleanly_with_work_in_flight(ending: str) -> None:
    code = f"""
import numpy as np, webnn_cl
from tests.work import Kernels, affine, tensor
context = webnn_cl.ML().create_context()
made = tensor(context, 1.0, (8,), exportable=True)
graph, out = affine(context, 2.0, (8,)), tensor(context, shape=(8,))
Kernels(context.cl_context).spin(context.queue, 0.3)
future = context.read_tensor_async(made)
lease = context.export_tensor(made)
context.dispatch(graph, {{"x": made}}, {{"y": out}})
host = context.map_tensor(tensor(context, 1.0))
{ending}
print("end")
"""
    assert python(code).strip() == "end"


# Reads in progress in another thread --------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["tensor", "context"])
def test_a_blocking_read_in_another_thread_is_rejected(end: str) -> None:
    context = ML.create_context()
    kernels = Kernels(context.cl_context)
    made, out = tensor(context, 1.0), np.zeros(1, np.float32)
    kernels.spin(context.queue, 0.6)
    caught: list[BaseException] = []

    def read() -> None:
        try:
            context.read_tensor(made, out)
        except InvalidStateError as error:
            caught.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    until(lambda: len(made._pending) > 0)
    (made if end == "tensor" else context).destroy()
    thread.join(60)
    assert len(caught) == 1 and "destroy" in str(caught[0])
    assert out == [0.0]


def fail_behind(context: webnn_cl.MLContext, call: Any) -> Any:
    """What `call` returns, with a command enqueued before it that fails on the device afterwards."""
    gate = cl.UserEvent(context.cl_context)
    marker = cl.enqueue_marker(context.queue, wait_for=[gate])
    result = call()
    gate.set_status(-5)
    # PoCL 3.0 aborts the process when the event of a command that fails has been dropped, so `marker` is kept.
    try:
        until(lambda: marker.command_execution_status < 0, 5)
    except AssertionError:
        pytest.skip("device does not run, nor fail, what waits for a failed event")
    return result


def test_a_command_that_fails_later_loses_the_context_at_a_read() -> None:
    context = ML.create_context()
    made, graph = tensor(context, 1.0), affine(context, 2.0)
    future = fail_behind(context, lambda: context.read_tensor_async(made))
    assert isinstance(future.exception(60), InvalidStateError)
    check_lost(context, graph, made)


def test_a_command_that_fails_later_loses_the_context_at_finish() -> None:
    context = ML.create_context()
    made, out, graph = tensor(context, 1.0), tensor(context), affine(context, 2.0)
    fail_behind(context, lambda: context.dispatch(graph, {"x": made}, {"y": out}))
    with pytest.raises(OperationError) as caught:
        context.finish()
    assert isinstance(caught.value, InvalidStateError), "it is also the error of a lost context"
    check_lost(context, graph, made)


def test_a_command_that_fails_later_loses_the_context_at_the_latest_after_some_calls() -> None:
    context = ML.create_context()
    made, out, graph = tensor(context, 1.0), tensor(context), affine(context, 2.0)
    fail_behind(context, lambda: context.dispatch(graph, {"x": made}, {"y": out}))
    with pytest.raises((OperationError, InvalidStateError)):
        for _ in range(1000):
            context.dispatch(graph, {"x": made}, {"y": out})
    check_lost(context, graph, made)


def check_lost(context: webnn_cl.MLContext, graph: webnn_cl.MLGraph, made: webnn_cl.MLTensor) -> None:
    """As after destroy(), with the cause in the message, and a new context works."""
    assert context.is_lost
    for future in (context.lost, graph.lost):
        assert "fail" in future.result(60)
    with pytest.raises(InvalidStateError):
        context.create_tensor([1])
    with pytest.raises(InvalidStateError):
        context.finish()
    with pytest.raises(MLTypeError):
        context.read_tensor(made)
    with pytest.raises(MLTypeError):
        context.write_tensor(made, np.zeros(1, np.float32))
    with ML.create_context() as another:
        assert another.read_tensor(tensor(another, 2.0)) == [2.0]
