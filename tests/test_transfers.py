"""How bytes move: one copy where the device shares memory with the host, pinned memory where it does not."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import webnn_cl
from tests.test_timeline import Program, graphs_of
from tests.work import Kernels, affine, in_threads, tensor
from webnn_cl import InvalidStateError
from webnn_cl.opencl import in_place, staging
from webnn_cl.opencl.memory import live_bytes

ML = webnn_cl.ML()
LARGE = 4 << 20  # floats: 16 MiB


@pytest.fixture
def discrete() -> Iterator[webnn_cl.MLContext]:
    """A context that takes its device for one with memory of its own."""
    with ML.create_context() as context:
        context._facts = dataclasses.replace(context._facts, unified_memory=False)
        context._timeline.facts = context._facts
        yield context


class Copies:
    """Counts the bytes that OpenCL commands copy."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        real = cl.enqueue_copy

        def enqueue_copy(queue: Any, dest: Any, src: Any, **options: Any) -> Any:
            self.bytes += options.get("byte_count") or getattr(dest, "nbytes", 0) or getattr(src, "nbytes", 0)
            return real(queue, dest, src, **options)

        monkeypatch.setattr(cl, "enqueue_copy", enqueue_copy)


def large(context: webnn_cl.MLContext, **flags: bool) -> webnn_cl.MLTensor:
    """A tensor of 16 MiB."""
    return tensor(context, shape=(LARGE,), **flags)


@pytest.mark.parametrize("exportable", [False, True])
def test_a_write_to_idle_shared_memory_enqueues_no_copy(
    context: webnn_cl.MLContext, monkeypatch: pytest.MonkeyPatch, exportable: bool
) -> None:
    """The host's copy into the tensor's (or its new) memory is the only one."""
    if not context.device.unified_memory:
        pytest.skip("device does not share memory with the host")
    monkeypatch.setattr(in_place, "IDLE_SECONDS", 30.0)  # a loaded machine may be slow to map
    made, data = large(context, exportable=exportable), np.arange(LARGE, dtype=np.float32)
    context.finish()
    copies = Copies(monkeypatch)
    before = live_bytes()
    context.write_tensor(made, data)
    assert copies.bytes == 0 and live_bytes() == before
    data[:] = 0
    assert context.read_tensor(made)[-1] == LARGE - 1


def test_a_small_write_to_memory_that_was_never_handed_out_enqueues_no_copy(
    context: webnn_cl.MLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not context.device.unified_memory:
        pytest.skip("device does not share memory with the host")
    made = tensor(context, shape=(1000,))
    Kernels(context.cl_context).spin(context.queue, 0.1)  # even while the device is busy
    copies = Copies(monkeypatch)
    context.write_tensor(made, np.ones(1000, np.float32))
    assert copies.bytes == 0
    assert (context.read_tensor(made) == 1).all() and copies.bytes == 4000


@pytest.mark.parametrize("exportable", [False, True])
def test_a_large_write_while_the_device_is_busy(context: webnn_cl.MLContext, exportable: bool) -> None:
    kernels, graph = Kernels(context.cl_context), affine(context, 2.0, (LARGE,))
    made, out = large(context, exportable=exportable), large(context)
    context.write_tensor(made, np.full(LARGE, 3, np.float32))
    kernels.spin(context.queue, 0.5)
    context.dispatch(graph, {"x": made}, {"y": out})
    data = np.full(LARGE, 4, np.float32)
    start = time.perf_counter()
    context.write_tensor(made, data)
    took = time.perf_counter() - start
    data[:] = 5
    assert (context.read_tensor(out) == 6).all(), "the dispatch came first"
    assert took < time.perf_counter() - start
    assert (context.read_tensor(made) == 4).all()


def test_a_blocking_read_into_out_enqueues_no_copy(
    context: webnn_cl.MLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not context.device.unified_memory:
        pytest.skip("device does not share memory with the host")
    made, out = large(context), np.zeros(LARGE, np.float32)
    context.write_tensor(made, np.full(LARGE, 3, np.float32))
    copies = Copies(monkeypatch)
    assert context.read_tensor(made, out) is out and (out == 3).all()
    assert copies.bytes == 0
    assert context._timeline.gate.open
    context.read_tensor(made)
    assert copies.bytes == LARGE * 4


def test_a_blocking_read_into_out_is_not_torn_by_other_threads(context: webnn_cl.MLContext) -> None:
    made = [large(context, exportable=e) for e in (False, True)]
    graph = affine(context, 1.0, (LARGE,), 1.0)

    def work(index: int) -> None:
        out = np.zeros(LARGE, np.float32)
        for round_ in range(6):
            if index == 0:
                context.write_tensor(made[0], np.full(LARGE, round_, np.float32))
            elif index == 1:
                context.dispatch(graph, {"x": made[0]}, {"y": made[1]})
            else:
                read = context.read_tensor(made[index % 2], out)
                assert (read == read[0]).all()

    in_threads(4, work)


def test_a_blocking_read_into_out_that_is_rejected(context: webnn_cl.MLContext) -> None:
    """destroy() in another thread, while the read waits: out stays as it is, and the timeline goes on."""
    made, out = large(context), np.zeros(LARGE, np.float32)
    context.write_tensor(made, np.ones(LARGE, np.float32))
    Kernels(context.cl_context).spin(context.queue, 0.4)

    def work(index: int) -> None:
        if index:
            while not made._pending:
                time.sleep(0.001)
            made.destroy()
        else:
            with pytest.raises(InvalidStateError):
                context.read_tensor(made, out)

    in_threads(2, work)
    assert not out.any() and context._timeline.gate.open
    context.finish()


# Devices with memory of their own -----------------------------------------------------------------------------


def test_transfers_through_pinned_memory(discrete: webnn_cl.MLContext) -> None:
    made, out = tensor(discrete, shape=(1000,)), np.zeros(1000, np.float32)
    kernels = Kernels(discrete.cl_context)
    reads = []
    kernels.spin(discrete.queue, 0.2)
    for value in range(50):
        data = np.full(1000, value, np.float32)
        discrete.write_tensor(made, data)
        data[:] = -1
        reads.append(discrete.read_tensor_async(made))
        reads.append(discrete.read_tensor_async(made, np.zeros(1000, np.float32)))
    for index, read in enumerate(reads):
        assert (read.result(60) == index // 2).all()
    assert discrete.read_tensor(made, out) is out and (out == 49).all()
    first = discrete.read_tensor(made)
    discrete.write_tensor(made, np.zeros(1000, np.float32))
    discrete.read_tensor(made)
    assert (first == 49).all(), "what a read returned is the caller's own"


def test_calls_return_while_a_discrete_device_is_busy(discrete: webnn_cl.MLContext) -> None:
    kernels = Kernels(discrete.cl_context)
    made = large(discrete)
    start = time.perf_counter()
    kernels.spin(discrete.queue, 1.0)
    begun = time.perf_counter()
    discrete.write_tensor(made, np.ones(LARGE, np.float32))
    future = discrete.read_tensor_async(made)
    calls = time.perf_counter() - begun
    assert (future.result(60) == 1).all()
    assert calls < (time.perf_counter() - start) / 4


def test_the_pool_is_bounded_and_reused(discrete: webnn_cl.MLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "KEPT_BYTES", 1 << 20)
    pool = discrete._timeline.staging
    made = tensor(discrete, shape=(1 << 16,))  # 256 KiB
    for value in range(100):
        discrete.write_tensor(made, np.full(1 << 16, value, np.float32))
        assert pool.kept_bytes <= 1 << 20
    assert (discrete.read_tensor(made) == 99).all()
    discrete.finish()
    before = live_bytes()
    for value in range(20):
        discrete.write_tensor(made, np.full(1 << 16, value, np.float32))
        assert (discrete.read_tensor(made) == value).all()
    assert live_bytes() <= before + made.nbytes, "one write and one read at a time need two slots"
    big = tensor(discrete, 7.0, (1 << 20,))  # more than the pool keeps
    assert (discrete.read_tensor(big) == 7).all() and pool.kept_bytes <= 1 << 20


def test_slots_by_themselves(context: webnn_cl.MLContext) -> None:
    pool = staging.StagingPool(context.cl_context, context.queue.device)
    small, other = pool.take(10), pool.take(1000)
    assert small is not other and small.array.nbytes == 10 and other.array.nbytes == 1000
    small.free()
    again = pool.take(5000)
    assert again is small and again.array.nbytes == 5000
    kept = pool.kept_bytes
    large_one = pool.take(staging.KEPT_BYTES)
    assert large_one.size == staging.KEPT_BYTES and pool.kept_bytes == kept


def test_pending_reads_of_a_discrete_device_are_rejected(discrete: webnn_cl.MLContext) -> None:
    made = tensor(discrete, 1.0)
    Kernels(discrete.cl_context).spin(discrete.queue, 0.2)
    reads = [discrete.read_tensor_async(made) for _ in range(10)]
    made.destroy()
    for read in reads:
        with pytest.raises(InvalidStateError):
            read.result(60)
    assert discrete.read_tensor(tensor(discrete, 2.0)) == [2.0]


@pytest.mark.parametrize("leases", [False, True])
def test_random_programs_on_a_discrete_device(discrete: webnn_cl.MLContext, leases: bool) -> None:
    graphs, kernels = graphs_of(discrete), Kernels(discrete.cl_context)
    for seed in range(2):
        Program(discrete, graphs, 50 + seed, leases, kernels).run(800)


def test_constants_and_compute_on_a_discrete_device(discrete: webnn_cl.MLContext) -> None:
    constant = discrete.create_constant_tensor(np.full(4, 3, np.float32))
    builder = discrete.create_graph_builder()
    graph = builder.build({"y": builder.add(builder.input("x", [4]), builder.constant(constant))})
    assert discrete.compute(graph, {"x": [1, 2, 3, 4]})["y"].tolist() == [4, 5, 6, 7]
