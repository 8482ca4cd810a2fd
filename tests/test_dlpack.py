"""DLPack both ways: host memory of an open map to numpy and others, cl_mem of an open lease within one context."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import webnn_cl
from tests.work import Kernels, affine, tensor
from webnn_cl import InvalidStateError, MLTypeError
from webnn_cl.dtypes import DATA_TYPES
from webnn_cl.interop import dlpack

ML = webnn_cl.ML()


@pytest.fixture(scope="module")
def twin(context: webnn_cl.MLContext) -> Any:
    """A second MLContext on the same pyopencl.Context."""
    with ML.create_context(opencl=context.cl_context) as made:
        yield made


def shared(context: webnn_cl.MLContext, data: Any) -> webnn_cl.MLTensor:
    """An exportable tensor with the type and shape of `data`."""
    made = context.create_tensor(data.shape, data.dtype, readable=True, writable=True, exportable=True)
    context.write_tensor(made, data)
    return made


def name_of(capsule: Any) -> bytes:
    """The name of a capsule."""
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return bytes(get(capsule))


# Out: the host's view -----------------------------------------------------------------------------------------


def test_numpy_sees_a_map_through_dlpack(context: webnn_cl.MLContext) -> None:
    made = shared(context, np.arange(6, dtype=np.float32).reshape(2, 3))
    with context.map_tensor(made) as view:
        assert view.__dlpack_device__() == (dlpack.KDL_CPU, 0)
        other = np.from_dlpack(view)
        assert other.ctypes.data == view.ctypes.data and np.array_equal(other, view)
        view[0, 0] = 9
        assert other[0, 0] == 9
        del other
    assert context.read_tensor(made)[0, 0] == 9


@pytest.mark.parametrize("consumer", [name for name in ("numpy", "torch") if importlib.util.find_spec(name)])
def test_consumers_see_a_map_through_dlpack(context: webnn_cl.MLContext, consumer: str) -> None:
    made = shared(context, np.arange(6, dtype=np.float32).reshape(2, 3))
    with context.map_tensor(made) as view:
        other = importlib.import_module(consumer).from_dlpack(view)
        view += 1
        assert float(other[0, 0]) == 1
        del other
    assert context.read_tensor(made)[1, 2] == 6


def test_a_live_capsule_or_consumer_of_a_map_raises(context: webnn_cl.MLContext) -> None:
    made = shared(context, np.ones(4, np.float32))
    with pytest.raises(InvalidStateError), context.map_tensor(made) as view:
        capsule = view.__dlpack__()
    del capsule
    with context.map_tensor(made) as view:
        capsule = view.__dlpack__()
        del capsule
    lease = context.map_tensor(made)
    assert lease.__dlpack_device__() == (dlpack.KDL_CPU, 0)
    other = np.from_dlpack(lease)
    assert other.ctypes.data == lease.array.ctypes.data
    with pytest.raises(InvalidStateError):
        lease.release()
    for closed in (lease.__dlpack__, lease.__dlpack_device__):
        with pytest.raises(InvalidStateError):
            closed()


# Out and in: the cl_mem of a lease ----------------------------------------------------------------------------


@pytest.mark.parametrize("data_type", DATA_TYPES)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
def test_a_lease_within_one_context(
    context: webnn_cl.MLContext, twin: webnn_cl.MLContext, data_type: str, shape: Any
) -> None:
    data = np.arange(int(np.prod(shape))).astype(data_type).reshape(shape)
    made = shared(context, data)
    with context.export_tensor(made) as lease:
        assert lease.__dlpack_device__() == (dlpack.KDL_OPENCL, 0)
        context.finish()
        imported = twin.import_buffer(lease, shape, data_type, readable=True, exportable=True)
        with twin.export_tensor(imported) as other:
            assert other.buffer.int_ptr == lease.buffer.int_ptr
        assert np.array_equal(twin.read_tensor(imported), data)
        imported.destroy()


def test_both_contexts_work_on_the_same_memory(context: webnn_cl.MLContext, twin: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    made, out = shared(context, np.full(8, 3, np.float32)), tensor(twin, shape=(8,))
    graph = affine(twin, 2.0, (8,))
    with context.export_tensor(made, queue=twin.queue) as lease:
        imported = twin.import_buffer(lease, (8,), readable=True, writable=True)
        kernels.twice(lease.queue, lease.buffer, 8)
        twin.dispatch(graph, {"x": imported}, {"y": out})
        assert (twin.read_tensor(out) == 12).all()
        twin.write_tensor(imported, np.full(8, 5, np.float32))
        imported.destroy()
    assert (context.read_tensor(made) == 5).all()


def test_a_live_capsule_of_a_lease_raises(context: webnn_cl.MLContext, twin: webnn_cl.MLContext) -> None:
    made = shared(context, np.ones(4, np.float32))
    with pytest.raises(InvalidStateError, match="DLPack"), context.export_tensor(made) as lease:
        capsule = lease.__dlpack__()
        assert name_of(capsule) == b"dltensor"
    assert (context.read_tensor(made) == 1).all(), "the tensor is returned all the same"
    del capsule
    with pytest.raises(InvalidStateError, match="DLPack"), context.export_tensor(made) as lease:
        imported = twin.import_buffer(lease, [4], readable=True)
    assert (twin.read_tensor(imported) == 1).all()  # does not dangle
    imported.destroy()
    with context.export_tensor(made) as lease:
        capsule = lease.__dlpack__()
        del capsule
        imported = twin.import_buffer(lease, [4], readable=True)
        del imported
        gc.collect()


def test_leaving_by_an_exception_with_a_live_capsule(context: webnn_cl.MLContext) -> None:
    made = shared(context, np.ones(4, np.float32))
    with pytest.raises(KeyError), context.export_tensor(made) as lease:
        capsule = lease.__dlpack__()
        raise KeyError
    assert (context.read_tensor(made) == 1).all()
    del capsule


def test_what_the_capsule_says(context: webnn_cl.MLContext) -> None:
    made = shared(context, np.zeros((2, 3, 4), np.float16))
    with context.export_tensor(made) as lease:
        view = dlpack.import_view(lease, "test")
        assert (view.device_type, view.data_type, view.shape, view.byte_offset) == (4, "float16", (2, 3, 4), 0)
        assert view.data == lease.buffer.int_ptr and view.packed
        del view


def test_arguments_of_dlpack(context: webnn_cl.MLContext) -> None:
    made = shared(context, np.zeros(4, np.float32))
    with context.export_tensor(made) as lease:
        for options in ({"copy": True}, {"dl_device": (1, 0)}):
            with pytest.raises(BufferError):
                lease.__dlpack__(**options)
        capsule = lease.__dlpack__(stream=None, max_version=(1, 0), dl_device=(4, 0), copy=False)
        del capsule
        with pytest.raises((BufferError, RuntimeError, ValueError)):
            np.from_dlpack(lease)  # numpy knows no OpenCL
        gc.collect()
    for closed in (lease.__dlpack__, lease.__dlpack_device__):
        with pytest.raises(InvalidStateError):
            closed()


def test_a_capsule_is_consumed_once(context: webnn_cl.MLContext, twin: webnn_cl.MLContext) -> None:
    made = shared(context, np.zeros(4, np.float32))

    class Once:
        """Gives the same capsule each time."""

        def __init__(self, lease: Any) -> None:
            self.capsule, self.device = lease.__dlpack__(), lease.__dlpack_device__()

        def __dlpack__(self) -> Any:
            return self.capsule

        def __dlpack_device__(self) -> Any:
            return self.device

    with context.export_tensor(made) as lease:
        once = Once(lease)
        imported = twin.import_buffer(once, [4])
        assert name_of(once.capsule) == b"used_dltensor"
        with pytest.raises(MLTypeError):
            twin.import_buffer(once, [4])
        del imported, once
        gc.collect()


# In: host memory ----------------------------------------------------------------------------------------------


def aligned(count: int, data_type: str, offset: int = 0) -> Any:
    """Host memory that starts `offset` bytes behind a multiple of 64."""
    size = count * np.dtype(data_type).itemsize
    raw = np.zeros(size + 128, np.uint8)
    start = (-raw.ctypes.data) % 64 + offset
    return raw[start : start + size].view(data_type)


@pytest.mark.parametrize("data_type", DATA_TYPES)
def test_import_host_memory(context: webnn_cl.MLContext, data_type: str) -> None:
    if not context.device.unified_memory:
        pytest.skip("device does not share memory with the host")
    host = aligned(64, data_type)
    host[:] = np.arange(64)
    made = context.import_buffer(host, (8, 8), data_type, readable=True, writable=True)
    assert np.array_equal(context.read_tensor(made).ravel(), host)
    context.write_tensor(made, np.full((8, 8), 5, data_type))
    with context.map_tensor(made) as view:
        assert view.ctypes.data == host.ctypes.data
    assert (host == 5).all()
    del host
    gc.collect()
    assert (context.read_tensor(made) == 5).all()


def test_import_host_memory_refuses(context: webnn_cl.MLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    host = aligned(64, "float32")
    for wrong in (
        lambda: context.import_buffer(aligned(64, "float32", 4), [64]),
        lambda: context.import_buffer(host, [63]),
        lambda: context.import_buffer(host, [64], "int32"),
        lambda: context.import_buffer(host[::2], [32]),
        lambda: context.import_buffer(host.reshape(8, 8).T, [8, 8]),
        lambda: context.import_buffer(np.zeros(4, "U3"), [4]),
    ):
        with pytest.raises(MLTypeError):
            wrong()
    import dataclasses

    monkeypatch.setattr(context, "_facts", dataclasses.replace(context._facts, unified_memory=False))
    with pytest.raises(MLTypeError, match="kDLCPU"):
        context.import_buffer(host, [64])


def test_import_from_another_opencl_context(context: webnn_cl.MLContext) -> None:
    with ML.create_context(opencl=cl.Context([context.device.cl_device])) as other:
        made = shared(other, np.zeros(4, np.float32))
        with other.export_tensor(made) as lease:
            with pytest.raises(MLTypeError, match=r"pyopencl\.Context"):
                context.import_buffer(lease, [4])
            gc.collect()


def test_producers_that_misbehave(context: webnn_cl.MLContext) -> None:
    class Producer:
        """Gives whatever it was made with."""

        def __init__(self, made: Any) -> None:
            self.made = made

        def __dlpack__(self) -> Any:
            if isinstance(self.made, Exception):
                raise self.made
            return self.made

        def __dlpack_device__(self) -> Any:
            return (1, 0)

    for made in (None, 5, "capsule", RuntimeError("no"), BufferError("no"), TypeError("no")):
        with pytest.raises(MLTypeError):
            context.import_buffer(Producer(made), [4])


def test_thousands_of_capsules_leave_nothing(context: webnn_cl.MLContext, twin: webnn_cl.MLContext) -> None:
    made = shared(context, np.zeros(4, np.float32))

    def lend(times: int) -> int:
        """References to the pyopencl context that remain when nothing is in flight."""
        for _ in range(times):
            with context.export_tensor(made) as lease:
                capsule = lease.__dlpack__()
                del capsule
                imported = twin.import_buffer(lease, [4])
                imported.destroy()
                del imported
        del lease
        context.finish()
        twin.finish()
        gc.collect()
        return int(context.cl_context.reference_count)

    before = lend(3)
    assert lend(1000) == before
