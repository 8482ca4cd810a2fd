"""Leases and maps: the tensor's own memory in the user's hands, in order."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import webnn_cl
from tests.work import Kernels, affine, in_threads, tensor
from webnn_cl import InvalidStateError, MLTypeError
from webnn_cl.dtypes import DATA_TYPES

ML = webnn_cl.ML()


@pytest.fixture(scope="module")
def kernels(context: webnn_cl.MLContext) -> Kernels:
    """User-written kernels for the shared context."""
    return Kernels(context.cl_context)


def shared(context: webnn_cl.MLContext, value: Any = 1.0, shape: Any = (8,), **flags: Any) -> webnn_cl.MLTensor:
    """An exportable tensor."""
    return tensor(context, value, shape, exportable=True, **flags)


# The lease itself ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data_type", DATA_TYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 5)])
def test_a_lease_shows_exactly_the_tensor(context: webnn_cl.MLContext, data_type: str, shape: Any) -> None:
    made = context.create_tensor(shape, data_type, readable=True, writable=True, exportable=True)
    data = np.arange(1, 1 + int(np.prod(shape))).astype(data_type).reshape(shape)
    context.write_tensor(made, data)
    with context.export_tensor(made) as lease:
        assert lease.tensor is made and lease.zero_copy is True
        assert lease.queue is context.queue and lease.ready is None
        assert isinstance(lease.buffer, cl.Buffer) and lease.buffer.size == made.nbytes
        assert lease.buffer.context == context.cl_context
        array = lease.array
        assert isinstance(array, cl.array.Array) and array.shape == shape and array.dtype == data_type
        assert array.base_data.int_ptr == lease.buffer.int_ptr
        assert array.get().tobytes() == data.tobytes()


def test_the_memory_is_the_tensors_own_each_time(context: webnn_cl.MLContext) -> None:
    made = shared(context)
    handles = set()
    for value in range(4):
        context.write_tensor(made, np.full(8, value, np.float32))
        context.dispatch(affine(context, 1.0, (8,)), {"x": made}, {"y": shared(context)})
        with context.export_tensor(made) as lease:
            handles.add(lease.buffer.int_ptr)
            assert lease.array.get()[0] == value
    assert len(handles) == 1


def test_order_around_a_lease(context: webnn_cl.MLContext, kernels: Kernels) -> None:
    graph = affine(context, 3.0, (8,))
    source, middle, out = shared(context, 5.0), shared(context), tensor(context, shape=(8,))
    kernels.spin(context.queue, 0.1)
    context.dispatch(graph, {"x": source}, {"y": middle})
    with context.export_tensor(middle) as lease:
        kernels.twice(lease.queue, lease.buffer, 8)
        context.dispatch(graph, {"x": middle}, {"y": out})
        context.write_tensor(middle, np.zeros(8, np.float32))
        future = context.read_tensor_async(middle)
        assert not future.done()
    assert (context.read_tensor(out) == 5 * 3 * 2 * 3).all()
    assert (future.result(60) == 0).all()


def test_independent_work_goes_on(context: webnn_cl.MLContext) -> None:
    graph = affine(context, 2.0, (8,))
    held, free, out = shared(context), tensor(context, 4.0, (8,)), tensor(context, shape=(8,))
    with context.export_tensor(held):
        context.dispatch(graph, {"x": free}, {"y": out})
        context.write_tensor(free, np.ones(8, np.float32))
        assert (context.read_tensor(out) == 8).all()
        assert (context.read_tensor(free) == 1).all()
        assert (context.compute(graph, {"x": np.ones(8, np.float32)})["y"] == 2).all()
        context.finish()


def test_dependence_through_other_tensors(context: webnn_cl.MLContext, kernels: Kernels) -> None:
    graph = affine(context, 2.0, (8,))
    held, middle, out = shared(context, 1.0), tensor(context, 9.0, (8,)), tensor(context, 9.0, (8,))
    lease = context.export_tensor(held)
    context.dispatch(graph, {"x": held}, {"y": middle})
    context.dispatch(graph, {"x": middle}, {"y": out})
    reads = [context.read_tensor_async(t) for t in (out, middle, held)]
    kernels.set(lease.queue, lease.buffer, 8, 10.0)
    time.sleep(0.05)
    assert not any(r.done() for r in reads)
    lease.release()
    assert [float(r.result(60)[0]) for r in reads] == [40, 20, 10]


def test_blocking_on_ones_own_lease_raises(context: webnn_cl.MLContext) -> None:
    graph = affine(context, 2.0, (8,))
    held, out = shared(context), shared(context)
    out_array = np.zeros(8, np.float32)
    with context.export_tensor(held):
        context.dispatch(graph, {"x": held}, {"y": out})
        for blocked in (
            lambda: context.read_tensor(held),
            lambda: context.read_tensor(held, timeout=5),
            lambda: context.read_tensor(out, out_array),
            lambda: context.read_tensor_async(out).result(),
            context.finish,
            lambda: context.export_tensor(out),
            lambda: context.export_tensor_async(out).result(),
            lambda: context.map_tensor(out),
        ):
            with pytest.raises(InvalidStateError, match="lease"):
                blocked()
    context.finish()
    assert (context.read_tensor(out) == 2).all() and not out_array.any()
    with context.export_tensor(out):  # the refused requests have left the line
        pass


def test_blocking_on_another_threads_lease_waits(context: webnn_cl.MLContext) -> None:
    held = shared(context, 3.0)
    lease = context.export_tensor(held)
    got: list[Any] = []
    threads = [
        threading.Thread(target=lambda work=work: got.append(work()), daemon=True)
        for work in (
            lambda: float(context.read_tensor(held)[0]),
            lambda: float(context.read_tensor(held, timeout=60)[0]),
            lambda: float(context.read_tensor_async(held).result(60)[0]),
        )
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    assert got == []
    lease.release()
    for thread in threads:
        thread.join(60)
    assert got == [3.0] * 3


def test_finish_waits_for_work_behind_another_threads_lease(context: webnn_cl.MLContext) -> None:
    graph = affine(context, 2.0, (8,))
    held, out = shared(context), tensor(context, shape=(8,))
    lease = context.export_tensor(held)
    context.dispatch(graph, {"x": held}, {"y": out})
    finished = threading.Event()
    thread = threading.Thread(target=lambda: (context.finish(), finished.set()), daemon=True)
    thread.start()
    assert not finished.wait(0.1)
    lease.release()
    thread.join(60)
    assert finished.is_set()


def test_a_second_lease_is_refused(context: webnn_cl.MLContext) -> None:
    made = shared(context)
    with context.export_tensor(made):
        for again in (
            lambda: context.export_tensor(made),
            lambda: context.export_tensor_async(made).result(60),
            lambda: context.map_tensor(made),
        ):
            with pytest.raises(InvalidStateError, match="leased"):
                again()
        with pytest.raises(InvalidStateError):
            in_threads(1, lambda _: context.export_tensor(made) and None)
    with context.map_tensor(made), pytest.raises(InvalidStateError, match="leased"):
        context.export_tensor(made)
    with context.export_tensor(made):
        pass


def test_leaving_by_an_exception_returns_the_tensor(context: webnn_cl.MLContext, kernels: Kernels) -> None:
    made = shared(context, 4.0)
    with pytest.raises(KeyError), context.export_tensor(made) as lease:
        kernels.twice(lease.queue, lease.buffer, 8)
        raise KeyError
    assert (context.read_tensor(made) == 8).all()
    with pytest.raises(KeyError), context.map_tensor(made) as view:
        slice_ = view[1:]
        raise KeyError
    del slice_
    assert (context.read_tensor(made) == 8).all()


def test_a_returned_lease_is_of_no_use(context: webnn_cl.MLContext) -> None:
    made = shared(context)
    with context.export_tensor(made) as lease:
        pass
    lease.release()  # double return does nothing
    for use in (
        lambda: lease.buffer,
        lambda: lease.array,
        lambda: lease.queue,
        lambda: lease.ready,
        lambda: lease.done(cl.enqueue_marker(context.queue)),
        lease.__dlpack__,
        lease.__enter__,
    ):
        with pytest.raises(InvalidStateError):
            use()
    assert lease.zero_copy and lease.tensor is made and "returned" in repr(lease)


def test_a_lease_without_a_block(context: webnn_cl.MLContext) -> None:
    made = shared(context)
    lease = context.export_tensor(made)
    future = context.read_tensor_async(made)
    assert not future.done()
    lease.release()
    assert (future.result(60) == 1).all()


def test_a_forgotten_lease_is_returned(context: webnn_cl.MLContext) -> None:
    made = shared(context)
    lease = context.export_tensor(made)
    future = context.read_tensor_async(made)
    del lease
    gc.collect()
    assert (future.result(60) == 1).all()
    host = context.map_tensor(made)
    future = context.read_tensor_async(made)
    del host
    gc.collect()
    assert (future.result(60) == 1).all()


def test_a_lease_outlived_by_its_tensor(context: webnn_cl.MLContext, kernels: Kernels) -> None:
    made = shared(context)
    with context.export_tensor(made) as lease:
        buffer = lease.buffer
        made.destroy()
        with pytest.raises(InvalidStateError, match="destroyed"):
            _ = lease.buffer
        kernels.twice(context.queue, buffer, 8)  # the memory is still there
        context.finish()
    with pytest.raises(InvalidStateError):
        _ = lease.array
    with context.map_tensor(shared(context)) as view:
        assert view[0] == 1


def test_a_lease_outlived_by_its_context() -> None:
    context = ML.create_context()
    made = shared(context)
    graph, out = affine(context, 2.0, (8,)), tensor(context, shape=(8,))
    lease, host = context.export_tensor(made), context.map_tensor(shared(context))
    context.dispatch(graph, {"x": made}, {"y": out})
    pending = context.read_tensor_async(out)
    context.destroy()
    with pytest.raises(InvalidStateError):
        pending.result(60)
    for ended in (lease, host):
        with pytest.raises(InvalidStateError):
            _ = ended.array
        ended.release()
    with pytest.raises(InvalidStateError):
        context.export_tensor(made)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: c.export_tensor(c.create_tensor([1])),
        lambda c: c.export_tensor(c.create_tensor([1], readable=True, writable=True)),
        lambda c: c.export_tensor(c.create_constant_tensor(np.ones(1, np.float32))),
        lambda c: c.export_tensor(None),
        lambda c: c.export_tensor(np.zeros(1)),
        lambda c: c.export_tensor(shared(c), queue=5),
        lambda c: c.export_tensor(shared(c), queue=c.cl_context),
        lambda c: c.export_tensor_async(c.create_tensor([1])).result(60),
        lambda c: c.map_tensor(c.create_tensor([1])),
        lambda c: c.map_tensor(c.create_constant_tensor(np.ones(1, np.float32))),
        lambda c: c.map_tensor("tensor"),
        lambda c: c.copy_tensor(shared(c), None),
        lambda c: c.copy_tensor(None, shared(c)),
        lambda c: c.copy_tensor(shared(c), shared(c, shape=(9,))),
        lambda c: c.copy_tensor(shared(c), shared(c, shape=(2, 4))),
        lambda c: c.copy_tensor(shared(c), shared(c, data_type="int32")),
        lambda c: c.copy_tensor(c.create_constant_tensor(np.ones(8, np.float32)), shared(c)),
        lambda c: c.copy_tensor(shared(c), c.create_constant_tensor(np.ones(8, np.float32))),
    ],
)
def test_wrong_arguments(context: webnn_cl.MLContext, wrong: Any) -> None:
    with pytest.raises(MLTypeError):
        wrong(context)


def test_wrong_context(context: webnn_cl.MLContext) -> None:
    with ML.create_context() as other:
        made = shared(other)
        for wrong in (
            lambda: context.export_tensor(made),
            lambda: context.map_tensor(made),
            lambda: context.copy_tensor(shared(context), made),
        ):
            with pytest.raises(MLTypeError, match="another context"):
                wrong()


def test_copying_a_tensor_onto_itself_is_refused(context: webnn_cl.MLContext) -> None:
    made = shared(context)
    with pytest.raises(MLTypeError):
        context.copy_tensor(made, made)


# Other queues -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out_of_order", [False, True])
def test_a_second_queue_of_the_same_context(context: webnn_cl.MLContext, kernels: Kernels, out_of_order: bool) -> None:
    properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE if out_of_order else 0
    try:
        queue = cl.CommandQueue(context.cl_context, properties=properties)
    except cl.Error:
        pytest.skip("device without out-of-order queues")
    made, graph = shared(context, 1.0), affine(context, 3.0, (8,))
    other = shared(context)
    for round_ in range(10):
        kernels.spin(context.queue, 0.02)
        context.write_tensor(made, np.full(8, round_, np.float32))
        context.dispatch(graph, {"x": made}, {"y": other})
        with context.export_tensor(other, queue=queue) as lease:
            assert lease.zero_copy and lease.queue is queue and isinstance(lease.ready, cl.Event)
            kernels.spin(queue, 0.02)
            event = kernels.twice(queue, lease.buffer, 8)
            if round_ % 2:
                lease.done(event)
        assert (context.read_tensor(other) == 6 * round_).all()


def test_yet_another_queue_with_events(context: webnn_cl.MLContext, kernels: Kernels) -> None:
    """The lease is on the context's queue; the user works on one of his own with ready and done."""
    mine = cl.CommandQueue(context.cl_context)
    made = shared(context)
    for value in range(10):
        context.write_tensor(made, np.full(8, value, np.float32))
        with context.export_tensor(made) as lease:
            before = cl.enqueue_marker(lease.queue)
            lease.queue.flush()
            cl.enqueue_barrier(mine, wait_for=[before])
            kernels.spin(mine, 0.02)
            lease.done(kernels.twice(mine, lease.buffer, 8))  # flushed by done()
        assert (context.read_tensor(made) == 2 * value).all()


def test_done_refuses_what_is_no_event_of_this_context(context: webnn_cl.MLContext) -> None:
    foreign = cl.CommandQueue(cl.Context([context.device.cl_device]))
    with context.export_tensor(shared(context)) as lease:
        for wrong in (None, 5, context.queue, cl.enqueue_marker(foreign)):
            with pytest.raises(MLTypeError):
                lease.done(wrong)
    assert not context.is_lost


def test_a_queue_of_another_context_gets_a_copy(context: webnn_cl.MLContext) -> None:
    foreign = cl.Context([context.device.cl_device])
    queue, theirs = cl.CommandQueue(foreign), Kernels(foreign)
    made, graph = shared(context, 2.0), affine(context, 3.0, (8,))
    out = shared(context)
    context.dispatch(graph, {"x": made}, {"y": out})
    with context.export_tensor(out, queue=queue) as lease:
        assert lease.zero_copy is False and lease.queue is queue and lease.ready is None
        assert lease.buffer.context == foreign and lease.buffer.size == 32
        assert (lease.array.get() == 6).all()
        theirs.spin(queue, 0.05)
        event = theirs.twice(queue, lease.buffer, 8)
        lease.done(event)
        later = context.read_tensor_async(out)
    context.write_tensor(made, np.zeros(8, np.float32))
    assert (later.result(60) == 12).all() and (context.read_tensor(out) == 12).all()
    context.finish()


# asyncio ------------------------------------------------------------------------------------------------------


def test_leases_on_a_loop(context: webnn_cl.MLContext, kernels: Kernels) -> None:
    made, graph, out = shared(context, 1.0), affine(context, 2.0, (8,)), shared(context)

    async def main() -> None:
        lease = await context.export_tensor_async(made)
        context.dispatch(graph, {"x": made}, {"y": out})
        read = asyncio.ensure_future(_await(context.read_tensor_async(out)))
        second = asyncio.ensure_future(_await(context.export_tensor_async(out)))
        await asyncio.sleep(0.02)
        assert not read.done() and not second.done()
        kernels.set(lease.queue, lease.buffer, 8, 21.0)
        lease.release()
        assert (await read == 42).all()
        with await second as other:
            assert other.array.get()[0] == 42

    asyncio.run(main())
    assert (context.read_tensor(out) == 42).all()


async def _await(future: Any) -> Any:
    return await future


def test_threads_lease_in_turns(context: webnn_cl.MLContext) -> None:
    """Only one holds a tensor at a time; all increments arrive."""
    made = shared(context, 0.0)
    holders: list[int] = []

    def work(index: int) -> None:
        mine = Kernels(context.cl_context)
        done = 0
        while done < 20:
            try:
                lease = context.export_tensor(made)
            except InvalidStateError:
                time.sleep(0.001)
                continue
            holders.append(index)
            assert holders == [index]
            value = float(lease.array.get()[0])
            mine.set(lease.queue, lease.buffer, 8, value + 1)
            holders.remove(index)
            lease.release()
            done += 1

    in_threads(4, work)
    assert (context.read_tensor(made) == 80).all()


# map_tensor ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data_type", DATA_TYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 5)])
def test_map(context: webnn_cl.MLContext, data_type: str, shape: Any) -> None:
    made = context.create_tensor(shape, data_type, readable=True, writable=True)
    data = np.arange(1, 1 + int(np.prod(shape))).astype(data_type).reshape(shape)
    context.write_tensor(made, data)
    with context.map_tensor(made) as view:
        assert type(view) is np.ndarray and view.dtype == data_type and view.shape == shape
        assert np.array_equal(view, data)
        view[...] = 7
    assert (context.read_tensor(made) == 7).all()


def test_a_map_comes_after_earlier_work_and_before_later(context: webnn_cl.MLContext, kernels: Kernels) -> None:
    graph, source, out = affine(context, 3.0, (8,)), tensor(context, 2.0, (8,)), tensor(context, shape=(8,))
    kernels.spin(context.queue, 0.05)
    context.dispatch(graph, {"x": source}, {"y": out})
    with context.map_tensor(out) as view:
        assert (view == 6).all()
        view += 1
        context.dispatch(graph, {"x": out}, {"y": source})
        future = context.read_tensor_async(source)
        context.write_tensor(out, np.zeros(8, np.float32))
        assert not future.done() and (view == 7).all()
    assert (future.result(60) == 21).all() and not context.read_tensor(out).any()


def test_map_flags(context: webnn_cl.MLContext) -> None:
    readable = context.create_tensor([4], readable=True)
    with context.map_tensor(readable) as view:
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1
    exportable = context.create_tensor([4], exportable=True)
    with context.map_tensor(exportable) as view:
        view[:] = 3
    with context.map_tensor(exportable) as view:
        assert (view == 3).all()


def test_map_is_the_tensors_own_memory_where_the_host_shares_it(context: webnn_cl.MLContext) -> None:
    if not context.device.unified_memory:
        pytest.skip("device does not share memory with the host")
    made = shared(context)
    addresses = set()
    for _ in range(3):
        lease = context.map_tensor(made)
        assert lease.zero_copy
        addresses.add(lease.array.ctypes.data)
        lease.release()
    assert len(addresses) == 1


def test_views_must_be_gone_when_a_map_ends(context: webnn_cl.MLContext) -> None:
    made = shared(context, 5.0)
    kinds: list[Any] = [lambda v: v[2:], lambda v: v.reshape(2, 4), lambda v: v.view(np.uint8)]
    for make in [*kinds, np.from_dlpack, memoryview]:
        with pytest.raises(InvalidStateError, match="alive"), context.map_tensor(made) as view:
            kept = make(view)
        assert np.asarray(kept).nbytes > 0  # does not dangle
        del kept, view
        assert (context.read_tensor(made) == 5).all(), "the tensor is returned all the same"
    with context.map_tensor(made) as view:
        copies = [view[2:].copy(), view + 1, float(view[0]), view.sum()]
    assert copies[2] == 5.0
    assert not view.flags.writeable
    lease = context.map_tensor(made)
    with pytest.raises(InvalidStateError):
        kept = lease.array[1:]
        lease.release()
    del kept
    lease.release()


def test_a_map_on_a_device_that_does_not_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with a copy to the host and back, by pretending."""
    with ML.create_context() as context:
        pretend_discrete(context, monkeypatch)
        kernels = Kernels(context.cl_context)
        made = tensor(context, 5.0, (8,))
        kernels.spin(context.queue, 0.02)
        with context.map_tensor(made) as view:
            assert (view == 5).all()
            view[1] = 6
        assert context.read_tensor(made).tolist() == [5, 6, 5, 5, 5, 5, 5, 5]
        readable = context.create_tensor([4], readable=True)
        lease = context.map_tensor(readable)
        assert not lease.zero_copy and not lease.array.flags.writeable
        lease.release()


def pretend_discrete(context: webnn_cl.MLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the library take the paths for devices with memory of their own."""
    import dataclasses

    facts = dataclasses.replace(context._facts, unified_memory=False)
    monkeypatch.setattr(context, "_facts", facts)
    monkeypatch.setattr(context._timeline, "facts", facts)
