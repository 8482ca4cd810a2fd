"""The timeline: calls that don't wait, effects in the order of calls, from one thread and many, with asyncio or not."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import webnn_cl
from tests.work import Kernels, affine, in_threads, tensor, until
from webnn_cl import InvalidStateError, OperationError
from webnn_cl.opencl import timeline as timeline_module

ML = webnn_cl.ML()


def test_calls_return_while_the_device_is_busy(context: webnn_cl.MLContext) -> None:
    """Writes, dispatches, async reads and creations take a small part of the time that the device is busy."""
    kernels = Kernels(context.cl_context)
    made = [tensor(context, shape=(1 << 18,), exportable=e) for e in (False, True)]
    graph = affine(context, 2.0, (1 << 18,))
    out = tensor(context, shape=(1 << 18,))
    data = np.ones(1 << 18, np.float32)
    context.dispatch(graph, {"x": made[0]}, {"y": out})
    context.finish()
    start = time.perf_counter()
    event = kernels.spin(context.queue, 2.0)
    calls = time.perf_counter()
    for one in made:
        context.write_tensor(one, data)
    context.dispatch(graph, {"x": made[0]}, {"y": out})
    future = context.read_tensor_async(out)
    fresh = context.create_tensor([1000])
    context.copy_tensor(made[0], made[1])
    calls = time.perf_counter() - calls
    assert event.command_execution_status != cl.command_execution_status.COMPLETE
    assert not future.done()
    assert (future.result(120) == 2).all()
    busy = time.perf_counter() - start
    assert calls < busy / 10, (calls, busy)
    fresh.destroy()


def test_reads_see_what_came_before_and_nothing_after(context: webnn_cl.MLContext) -> None:
    made = tensor(context, shape=(64,))
    futures = []
    for value in range(200):
        context.write_tensor(made, np.full(64, value, np.float32))
        futures.append(context.read_tensor_async(made))
    for value, future in enumerate(futures):
        assert (future.result(60) == value).all()


def test_a_read_of_large_data_is_not_torn_by_later_writes(context: webnn_cl.MLContext) -> None:
    size = 1 << 20
    for exportable in (False, True):
        made = tensor(context, 1.0, (size,), exportable=exportable)
        out = np.zeros(size, np.float32)
        for value in range(8):
            context.write_tensor(made, np.full(size, value, np.float32))
            future = context.read_tensor_async(made)
            into = context.read_tensor_async(made, out)
            context.write_tensor(made, np.full(size, -1, np.float32))
            assert (future.result(60) == value).all() and (into.result(60) == value).all()


# Random programs ----------------------------------------------------------------------------------------------

GRAPHS = {1.0: 3.0, 2.0: 0.0, -1.0: 1.0}


class Program:
    """Random calls against a simple sequential model: each tensor's value is a plain array."""

    def __init__(
        self, context: webnn_cl.MLContext, graphs: dict[float, Any], seed: int, leases: bool, kernels: Kernels
    ) -> None:
        self.context = context
        self.graphs = graphs
        self.random = random.Random(seed)
        self.kernels = kernels
        self.tensors = [self.create() for _ in range(5)]
        self.reads: list[tuple[Any, Any, Any]] = []  # future, expected value, tensor
        self.leases: list[tuple[Any, Any]] = []
        self.steps: list[Any] = [self.write, self.dispatch, self.read, self.read_out, self.replace, self.copy]
        if leases:
            self.steps += [self.open_lease, self.close_lease, self.close_lease]

    def create(self) -> list[Any]:
        exportable = self.random.random() < 0.5
        return [tensor(self.context, shape=(4,), exportable=exportable), np.zeros(4, np.float32)]

    def pick(self) -> list[Any]:
        return self.random.choice(self.tensors)

    def write(self) -> None:
        slot = self.pick()
        data = np.array([self.random.randrange(100) for _ in range(4)], np.float32)
        self.context.write_tensor(slot[0], data)
        slot[1] = data.copy()
        data[:] = -7  # the call copied it

    def dispatch(self) -> None:
        source, target = self.random.sample(self.tensors, 2)
        factor = self.random.choice(list(self.graphs))
        self.context.dispatch(self.graphs[factor], {"x": source[0]}, {"y": target[0]})
        target[1] = np.float32(factor) * source[1] % np.float32(1e9) + np.float32(GRAPHS[factor])
        if abs(target[1]).max() > 1e6:
            self.context.write_tensor(target[0], np.zeros(4, np.float32))
            target[1] = np.zeros(4, np.float32)

    def read(self) -> None:
        slot = self.pick()
        self.reads.append((self.context.read_tensor_async(slot[0]), slot[1], slot[0]))

    def read_out(self) -> None:
        slot = self.pick()
        self.reads.append((self.context.read_tensor_async(slot[0], np.zeros(4, np.float32)), slot[1], slot[0]))

    def replace(self) -> None:
        slot = self.pick()
        if any(lease.tensor is slot[0] for lease, _ in self.leases):
            return
        slot[0].destroy()
        slot[:] = self.create()

    def copy(self) -> None:
        source, target = self.random.sample(self.tensors, 2)
        self.context.copy_tensor(source[0], target[0])
        target[1] = source[1]

    def open_lease(self) -> None:
        slot = self.pick()
        if not slot[0].exportable or any(lease.tensor is slot[0] for lease, _ in self.leases):
            return
        try:
            lease = self.context.export_tensor(slot[0])
        except InvalidStateError:
            return  # earlier work on it waits for another lease of this thread
        self.kernels.twice(lease.queue, lease.buffer, 4)
        slot[1] = slot[1] * np.float32(2)
        self.leases.append((lease, slot))

    def close_lease(self) -> None:
        if self.leases:
            self.leases.pop(self.random.randrange(len(self.leases)))[0].release()

    def run(self, count: int) -> None:
        """`count` random calls, then every read against the model."""
        for _ in range(count):
            self.random.choice(self.steps)()
        while self.leases:
            self.close_lease()
        for future, expected, made in self.reads:
            try:
                assert np.array_equal(future.result(60), expected)
            except InvalidStateError:
                assert "destroyed" in repr(made)  # rejected by destroy(), unless the device was faster
        for made, expected in self.tensors:
            assert np.array_equal(self.context.read_tensor(made), expected)


def graphs_of(context: webnn_cl.MLContext) -> dict[float, Any]:
    """One graph per entry of GRAPHS."""
    return {factor: affine(context, factor, (4,), offset) for factor, offset in GRAPHS.items()}


@pytest.mark.parametrize("leases", [False, True])
def test_thousands_of_random_calls_from_one_thread(context: webnn_cl.MLContext, leases: bool) -> None:
    graphs, kernels = graphs_of(context), Kernels(context.cl_context)
    for seed in range(4):
        Program(context, graphs, seed, leases, kernels).run(1500)


@pytest.mark.parametrize("leases", [False, True])
def test_thousands_of_random_calls_from_eight_threads(leases: bool) -> None:
    with ML.create_context() as context:
        graphs = graphs_of(context)
        kernels = [Kernels(context.cl_context) for _ in range(8)]
        in_threads(8, lambda index: Program(context, graphs, 100 + index, leases, kernels[index]).run(600))


def test_threads_share_tensors() -> None:
    """Increments by eight threads on one tensor: each is atomic on the timeline, none is lost."""
    with ML.create_context() as context:
        up = affine(context, 1.0, (16,), 1.0)
        totals = [tensor(context, 0.0, (16,)), tensor(context, 0.0, (16,))]
        lock = threading.Lock()
        state = [0]

        def work(index: int) -> None:
            for _ in range(100):
                with lock:  # the choice of source and target is the test's own state
                    source, target = totals[state[0] % 2], totals[(state[0] + 1) % 2]
                    context.dispatch(up, {"x": source}, {"y": target})
                    state[0] += 1
                context.read_tensor(totals[index % 2])

        in_threads(8, work)
        assert (context.read_tensor(totals[state[0] % 2]) == 800).all()


# asyncio ------------------------------------------------------------------------------------------------------


def test_hundreds_of_reads_in_flight_on_a_loop(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    made = [tensor(context, float(i), (8,)) for i in range(400)]

    async def one(index: int) -> None:
        out = np.zeros(8, np.float32) if index % 2 else None
        result = await context.read_tensor_async(made[index], out)
        assert (result == index).all() and (out is None or result is out)

    async def main() -> None:
        kernels.spin(context.queue, 0.2)
        ticks = 0
        reads = asyncio.gather(*(one(i) for i in range(400)))
        while not reads.done():
            await asyncio.sleep(0.001)
            ticks += 1
        await reads
        assert ticks > 1, "the loop went on while the reads were in flight"

    asyncio.run(main())


def test_a_future_can_be_awaited_often_and_from_several_loops(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    made = tensor(context, 2.0)
    kernels.spin(context.queue, 0.2)
    future = context.read_tensor_async(made, np.zeros(1, np.float32))

    async def await_it() -> Any:
        return await future

    in_threads(4, lambda index: _equal(asyncio.run(await_it()), 2.0))
    assert asyncio.run(await_it()) == [2.0] and future.result() == [2.0] and future.exception() is None


def _equal(array: Any, value: float) -> None:
    assert array == [value]


def test_cancelling_an_await_leaves_the_future_alone(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    made = tensor(context, 3.0)

    async def main() -> None:
        kernels.spin(context.queue, 0.3)
        future = context.read_tensor_async(made)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_await(future), 0.01)
        assert not future.done()
        assert await future == [3.0]

    asyncio.run(main())


async def _await(future: Any) -> Any:
    return await future


def test_a_loop_that_closes_before_the_device_is_done(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    made, out = tensor(context, 4.0), np.zeros(1, np.float32)
    futures = []

    async def main() -> None:
        kernels.spin(context.queue, 0.3)
        futures.append(context.read_tensor_async(made, out))
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_await(futures[0]), 0.01)

    asyncio.run(main())
    assert futures[0].result(60) is out and out == [4.0]


def test_done_callbacks(context: webnn_cl.MLContext) -> None:
    made = tensor(context, 1.0)
    future = context.read_tensor_async(made)
    called: list[Any] = []
    future.add_done_callback(called.append)
    future.result(60)
    until(lambda: called == [future])
    future.add_done_callback(called.append)
    assert called == [future, future]


def test_a_failing_callback_harms_nobody(context: webnn_cl.MLContext, caplog: pytest.LogCaptureFixture) -> None:
    made = tensor(context, 1.0)
    Kernels(context.cl_context).spin(context.queue, 0.05)
    futures = [context.read_tensor_async(made) for _ in range(3)]
    futures[0].add_done_callback(lambda future: 1 / 0)
    assert [float(f.result(60)[0]) for f in futures] == [1.0] * 3
    until(lambda: "ZeroDivisionError" in caplog.text)
    assert context.read_tensor_async(made).result(60) == [1.0]


def test_errors_arrive_through_the_future(context: webnn_cl.MLContext) -> None:
    plain = context.create_tensor([1])

    async def main() -> None:
        future = context.read_tensor_async(plain)
        with pytest.raises(webnn_cl.MLTypeError):
            await future

    asyncio.run(main())
    assert isinstance(context.read_tensor_async(plain).exception(), webnn_cl.MLTypeError)


# Bounds -------------------------------------------------------------------------------------------------------


def test_endless_dispatch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound a call waits for the oldest commands; never more than the bound and a little are in flight."""
    monkeypatch.setattr(timeline_module, "MAX_COMMANDS", 600)
    with ML.create_context() as context:
        kernels = Kernels(context.cl_context)
        graph = affine(context, 1.0, (4,), 1.0)
        one, two = tensor(context, 0.0, (4,)), tensor(context, 0.0, (4,))
        event = kernels.spin(context.queue, 0.5)
        flying = 0
        for _ in range(1000):
            context.dispatch(graph, {"x": one}, {"y": two})
            context.dispatch(graph, {"x": two}, {"y": one})
            flying += 2 * (event.command_execution_status != 0)
        assert 600 <= flying <= 600 + 600
        assert (context.read_tensor(one) == 2000).all()


def test_memory_of_replaced_tensors_in_flight_is_bounded() -> None:
    with ML.create_context() as context:
        kernels = Kernels(context.cl_context)
        context._timeline.max_bytes = 8 << 20
        graph = affine(context, 1.0, (1 << 18,), 1.0)
        made, out = tensor(context, shape=(1 << 18,)), tensor(context, shape=(1 << 18,))
        event = kernels.spin(context.queue, 0.5)
        flying = 0
        for value in range(40):  # 40 MiB of writes that queued dispatches keep alive
            context.write_tensor(made, np.full(1 << 18, value, np.float32))
            context.dispatch(graph, {"x": made}, {"y": out})
            flying += event.command_execution_status != 0
        assert 8 <= flying <= 12
        assert (context.read_tensor(out) == 40).all()


# submit, as user-made operators use it ------------------------------------------------------------------------


def test_submit_runs_at_once_or_in_call_order(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    made = tensor(context, 1.0, exportable=True)
    storage = made._storage

    def run(queue: Any) -> Any:
        assert queue is context.queue
        return [kernels.twice(queue, storage.buffer, 1)]

    assert context._timeline.submit([made], [made], run) is None
    assert context.read_tensor(made) == [2.0]
    with context.export_tensor(made):
        waiting = context._timeline.submit([made], [made], run)
        assert waiting is not None and waiting.waiting
    assert not waiting.waiting
    assert context.read_tensor(made) == [4.0]


def test_submit_turns_opencl_errors_into_operation_errors() -> None:
    with ML.create_context() as context:

        def refuse(queue: Any) -> Any:
            raise cl.LogicError("clEnqueueNDRangeKernel failed: INVALID_KERNEL_ARGS")

        with pytest.raises(OperationError, match="INVALID_KERNEL_ARGS"):
            context._timeline.submit([], [], refuse)
        made = tensor(context, 1.0, exportable=True)
        lease = context.export_tensor(made)
        context._timeline.submit([made], [], refuse)
        lease.release()
        with pytest.raises(OperationError, match="INVALID_KERNEL_ARGS"):
            context.finish()
        context.finish()
        assert context.read_tensor(made) == [1.0] and not context.is_lost


def test_building_does_not_wait_for_the_device(context: webnn_cl.MLContext) -> None:
    """Constants are uploaded and graphs compiled while the device is busy, and other threads are not held up."""
    kernels = Kernels(context.cl_context)
    affine(context, 5.0, (4,), 1.0)  # kernels are compiled by now
    made = tensor(context, shape=(4,))
    event = kernels.spin(context.queue, 2.0)
    start = time.perf_counter()
    graph = affine(context, 6.0, (4,), 1.0)
    context.dispatch(graph, {"x": made}, {"y": tensor(context, shape=(4,))})
    assert event.command_execution_status != cl.command_execution_status.COMPLETE
    calls = time.perf_counter() - start
    event.wait()
    assert calls < (time.perf_counter() - start) / 2
