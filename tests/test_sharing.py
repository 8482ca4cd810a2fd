"""Imports and copies: the user's memory as tensors, and tensors across contexts."""

from __future__ import annotations

import gc
import time
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import webnn_cl
from tests.test_leases import shared
from tests.work import Kernels, affine, tensor, until
from webnn_cl import InvalidStateError, MLTypeError
from webnn_cl.dtypes import DATA_TYPES

ML = webnn_cl.ML()


@pytest.fixture(scope="module")
def kernels(context: webnn_cl.MLContext) -> Kernels:
    """User-written kernels for the shared context."""
    return Kernels(context.cl_context)


# import_buffer ------------------------------------------------------------------------------------------------


def buffer_of(context: webnn_cl.MLContext, data: Any, flags: int = 0) -> Any:
    """A user's buffer."""
    return cl.Buffer(
        context.cl_context, (flags or cl.mem_flags.READ_WRITE) | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.asarray(data)
    )


def test_import_a_buffer(context: webnn_cl.MLContext, kernels: Kernels) -> None:
    mine = buffer_of(context, np.arange(8, dtype=np.float32))
    made = context.import_buffer(mine, (2, 4), readable=True, writable=True, exportable=True)
    assert (made.shape, made.data_type, made.readable, made.exportable) == ((2, 4), "float32", True, True)
    assert context.read_tensor(made).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    graph, out = affine(context, 2.0, (2, 4)), tensor(context, shape=(2, 4))
    context.dispatch(graph, {"x": made}, {"y": out})
    context.dispatch(graph, {"x": out}, {"y": made})
    with context.export_tensor(made) as lease:
        assert lease.buffer.int_ptr == mine.int_ptr and lease.zero_copy
        kernels.twice(lease.queue, lease.buffer, 8)
    context.write_tensor(out, context.read_tensor(made))
    context.finish()
    host = np.empty(8, np.float32)
    cl.enqueue_copy(context.queue, host, mine)
    assert host.tolist() == [0, 8, 16, 24, 32, 40, 48, 56]
    context.write_tensor(made, np.ones(8, np.float32))
    cl.enqueue_copy(context.queue, host, mine)
    assert (host == 1).all(), "a write goes to the user's own memory"


def test_import_a_larger_buffer_and_defaults(context: webnn_cl.MLContext) -> None:
    made = context.import_buffer(buffer_of(context, np.arange(100, dtype=np.int32)), [3], "int32", readable=True)
    assert context.read_tensor(made).tolist() == [0, 1, 2]
    plain = context.import_buffer(buffer_of(context, np.zeros(4, np.float32)), [4])
    assert not (plain.readable or plain.writable or plain.exportable)
    with pytest.raises(MLTypeError):
        context.read_tensor(plain)
    with pytest.raises(MLTypeError):
        context.export_tensor(plain)


def test_import_sub_buffers(context: webnn_cl.MLContext) -> None:
    step = context.device.facts.mem_base_align_bytes
    whole = buffer_of(context, np.arange(2 * step, dtype=np.float32))
    parts = [whole.get_sub_region(i * step, step) for i in range(4)]
    made = [context.import_buffer(p, [step // 4], readable=True, writable=True, exportable=True) for p in parts]
    for index, one in enumerate(made):
        assert context.read_tensor(one)[0] == index * step // 4
    context.write_tensor(made[1], np.full(step // 4, -1, np.float32))
    assert context.read_tensor(made[2])[0] == 2 * step // 4
    with context.export_tensor(made[0]):  # disjoint parts are independent
        assert (context.read_tensor(made[1]) == -1).all()


def test_import_after_the_parents_of_imported_sub_buffers_were_let_go(context: webnn_cl.MLContext) -> None:
    step = context.device.facts.mem_base_align_bytes
    made = []
    for i in range(4):
        whole = buffer_of(context, np.full(step // 2, i, np.float32))
        made.append(context.import_buffer(whole.get_sub_region(step, step), [step // 4], readable=True))
        del whole
        gc.collect()
    for i, part in enumerate(made):
        np.testing.assert_array_equal(context.read_tensor(part), np.full(step // 4, i, np.float32))


def test_overlapping_imports_depend_on_each_other(context: webnn_cl.MLContext, kernels: Kernels) -> None:
    step = context.device.facts.mem_base_align_bytes
    whole = buffer_of(context, np.zeros(step, np.float32))
    flags = {"readable": True, "writable": True, "exportable": True}
    all_of_it = context.import_buffer(whole, [step], **flags)
    again = context.import_buffer(whole, [2, step // 2], **flags)
    part = context.import_buffer(whole.get_sub_region(step, step), [step // 4], **flags)
    with context.export_tensor(part) as lease:
        reads = [context.read_tensor_async(t) for t in (all_of_it, again)]
        with pytest.raises(InvalidStateError):
            context.read_tensor(all_of_it)
        kernels.set(lease.queue, lease.buffer, step // 4, 3.0)
        assert not any(r.done() for r in reads)
    assert [r.result(60).ravel()[step // 4] for r in reads] == [3.0, 3.0]
    graph = affine(context, 1.0, (step,))
    out = tensor(context, shape=(step,))
    context.dispatch(graph, {"x": all_of_it}, {"y": out})
    builder = context.create_graph_builder()
    both = builder.build({"y": builder.add(builder.input("a", [step]), builder.constant(1.0, data_type="float32"))})
    second = context.import_buffer(whole, [step], **flags)
    with pytest.raises(MLTypeError, match=r"overlap|memory"):
        context.dispatch(both, {"a": all_of_it}, {"y": second})
    with pytest.raises(MLTypeError):
        context.copy_tensor(all_of_it, second)


def test_import_pyopencl_arrays(context: webnn_cl.MLContext) -> None:
    array = cl.array.to_device(context.queue, np.arange(12, dtype=np.float32).reshape(3, 4))
    made = context.import_buffer(array, (3, 4), readable=True)
    assert np.array_equal(context.read_tensor(made), array.get())
    flat = context.import_buffer(array, (12,), np.float32, readable=True)
    assert context.read_tensor(flat).tolist() == list(range(12))
    for wrong in (
        lambda: context.import_buffer(array, (3, 4), "int32"),
        lambda: context.import_buffer(array, (3, 5)),
        lambda: context.import_buffer(array[:, 1:3], (3, 2)),
        lambda: context.import_buffer(array.T, (4, 3)),
    ):
        with pytest.raises(MLTypeError):
            wrong()


def test_import_an_array_at_an_offset(context: webnn_cl.MLContext) -> None:
    step = context.device.facts.mem_base_align_bytes // 4
    array = cl.array.to_device(context.queue, np.arange(3 * step, dtype=np.float32))
    made = context.import_buffer(array[step : 2 * step], (step,), readable=True)
    assert context.read_tensor(made)[0] == step
    if step > 1:
        with pytest.raises(MLTypeError, match="offset"):
            context.import_buffer(array[1 : step + 1], (step,))


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (cl.mem_flags.READ_ONLY, {"writable": True}),
        (cl.mem_flags.WRITE_ONLY, {}),
        (cl.mem_flags.READ_WRITE | cl.mem_flags.HOST_NO_ACCESS, {"readable": True}),
        (cl.mem_flags.READ_WRITE | cl.mem_flags.HOST_READ_ONLY, {"writable": True}),
        (cl.mem_flags.READ_WRITE | cl.mem_flags.HOST_WRITE_ONLY, {"readable": True}),
    ],
)
def test_import_honours_the_buffers_flags(context: webnn_cl.MLContext, flags: int, options: Any) -> None:
    with pytest.raises(MLTypeError):
        context.import_buffer(cl.Buffer(context.cl_context, flags, 64), [4], **options)


def test_read_only_memory_is_an_input_only(context: webnn_cl.MLContext) -> None:
    made = context.import_buffer(
        buffer_of(context, np.full(8, 4, np.float32), cl.mem_flags.READ_ONLY), [8], readable=True
    )
    graph, other = affine(context, 2.0, (8,)), tensor(context, shape=(8,))
    context.dispatch(graph, {"x": made}, {"y": other})
    assert (context.read_tensor(other) == 8).all()
    with pytest.raises(MLTypeError, match="read-only"):
        context.dispatch(graph, {"x": other}, {"y": made})
    with pytest.raises(MLTypeError, match="read-only"):
        context.copy_tensor(other, made)


def test_import_refuses(context: webnn_cl.MLContext) -> None:
    good = cl.Buffer(context.cl_context, cl.mem_flags.READ_WRITE, 64)
    foreign = cl.Buffer(cl.Context([context.device.cl_device]), cl.mem_flags.READ_WRITE, 64)
    for buffer, shape in ((foreign, [4]), (good, [17]), (None, [4]), (5, [4]), (bytes(64), [4])):
        with pytest.raises(MLTypeError):
            context.import_buffer(buffer, shape)
    for shape, data_type in (([0], "float32"), ([4], "float64"), ("4", "float32"), ([1.5], "float32")):
        with pytest.raises(MLTypeError):
            context.import_buffer(good, shape, data_type)
    with pytest.raises(MLTypeError):
        context.import_buffer(good, [4], readable=1)  # type: ignore[arg-type]


def test_who_frees_an_imported_buffer(context: webnn_cl.MLContext, kernels: Kernels) -> None:
    mine = buffer_of(context, np.full(8, 3, np.float32))
    count = mine.reference_count
    made = context.import_buffer(mine, [8], readable=True)
    assert mine.reference_count == count + 1
    made.destroy()
    assert mine.reference_count == count, "destroy() leaves the user's buffer to the user"
    made = context.import_buffer(mine, [8], readable=True)
    mine.release()  # the user frees first: the tensor keeps the memory
    assert (context.read_tensor(made) == 3).all()
    host = np.full(1024, 4, np.float32)
    start = (-host.ctypes.data) % 64 // 4
    view = host[start : start + 64]
    used = cl.Buffer(context.cl_context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=view)
    made = context.import_buffer(used, [64], readable=True)
    del used, view, host
    gc.collect()
    assert (context.read_tensor(made) == 4).all()


def test_misaligned_host_memory_is_refused(context: webnn_cl.MLContext) -> None:
    host = np.zeros(1024, np.float32)
    start = (-host.ctypes.data) % 64 // 4 + 1
    view = host[start : start + 64]
    used = cl.Buffer(context.cl_context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=view)
    with pytest.raises(MLTypeError, match="align"):
        context.import_buffer(used, [64])


def test_a_released_handle_of_a_lease_does_not_take_the_tensor_with_it(context: webnn_cl.MLContext) -> None:
    made = shared(context, 2.0)
    with context.export_tensor(made) as lease:
        lease.buffer.release()
    assert (context.read_tensor(made) == 2).all()


# copy_tensor --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data_type", DATA_TYPES)
def test_copy_within_a_context(context: webnn_cl.MLContext, data_type: str) -> None:
    data = np.arange(6).astype(data_type).reshape(2, 3)
    source, target = (context.create_tensor((2, 3), data_type, readable=True, writable=True) for _ in range(2))
    context.write_tensor(source, data)
    assert context.copy_tensor(source, target) is None
    context.write_tensor(source, np.zeros((2, 3), data_type))
    assert np.array_equal(context.read_tensor(target), data)


def test_copy_needs_no_flags(context: webnn_cl.MLContext) -> None:
    source, middle, target = tensor(context, 6.0), context.create_tensor([1]), tensor(context)
    context.copy_tensor(source, middle)
    context.copy_tensor(middle, target)
    assert context.read_tensor(target) == [6.0]


def another(context: webnn_cl.MLContext, same: bool) -> webnn_cl.MLContext:
    """A second context on the device, in the same pyopencl.Context or in one of its own."""
    if same:
        return ML.create_context(device=context.device)
    return ML.create_context(opencl=cl.Context([context.device.cl_device]))


@pytest.mark.parametrize("same", [False, True])
def test_copy_between_contexts_is_in_order_on_both(context: webnn_cl.MLContext, same: bool) -> None:
    with another(context, same) as other:
        kernels, theirs = Kernels(context.cl_context), Kernels(other.cl_context)
        source, target = tensor(context, shape=(1000,)), tensor(other, shape=(1000,))
        reads = []
        for value in range(30):
            if value % 10 == 0:
                kernels.spin(context.queue, 0.02)
                theirs.spin(other.queue, 0.02)
            context.write_tensor(source, np.full(1000, value, np.float32))
            other.copy_tensor(source, target)
            context.write_tensor(source, np.full(1000, -1, np.float32))
            reads.append(other.read_tensor_async(target))
        for value, read in enumerate(reads):
            assert (read.result(60) == value).all()
        source.destroy()
        other.copy_tensor(tensor(context, 5.0, (1000,)), target)
        other.finish()
        context.finish()
        assert (other.read_tensor(target) == 5).all()


def test_copy_waits_for_leases_on_either_side(context: webnn_cl.MLContext, kernels: Kernels) -> None:
    for same in (False, True):
        with another(context, same) as other:
            source, target = shared(context, 1.0), shared(other, 0.0)
            lease = context.export_tensor(source)
            other.copy_tensor(source, target)
            context.write_tensor(source, np.zeros(8, np.float32))
            after = other.read_tensor_async(target)
            kernels.set(lease.queue, lease.buffer, 8, 7.0)
            assert not after.done()
            lease.release()
            assert (after.result(60) == 7).all()
            lease = other.export_tensor(target)
            context.write_tensor(source, np.full(8, 9, np.float32))
            other.copy_tensor(source, target)
            after = other.read_tensor_async(target)
            time.sleep(0.02)
            assert not after.done() and lease.array.get()[0] == 7
            lease.release()
            assert (after.result(60) == 9).all()
            until(lambda other=other: other._timeline.gate.open)
            until(lambda: context._timeline.gate.open)
