"""import_buffer: the user's own OpenCL memory as a tensor, without a copy."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.dtypes import dtype_of
from webnn_cl.errors import OperationError, argument_error
from webnn_cl.interop import dlpack
from webnn_cl.opencl.memory import Storage
from webnn_cl.tensor import check_flags

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.tensor import MLTensor

__all__ = ["import_tensor"]

_WHERE = "import_buffer"
HOST_ALIGNMENT = 64
"""Bytes to which host memory behind a buffer must be aligned, for the vector loads of CPU kernels."""


def import_tensor(
    context: MLContext,
    buffer: Any,
    shape: Sequence[int],
    data_type: object,
    readable: bool,
    writable: bool,
    exportable: bool,
) -> MLTensor:
    """See ``MLContext.import_buffer``."""
    desc = context._checked_desc(shape, data_type, _WHERE)
    flags = {"readable": readable, "writable": writable, "exportable": exportable}
    check_flags(flags, _WHERE)
    context._check_alive()
    storage = import_storage(context, buffer, desc, flags)
    with context._timeline.lock:
        note_aliases(storage, list(context._tensors))
        return context._new_tensor(desc, storage, **flags)


def import_storage(context: MLContext, given: Any, desc: TensorDesc, flags: dict[str, bool]) -> Storage:
    """The Storage of `given` (a pyopencl.Buffer, a contiguous pyopencl array, or a DLPack object)."""
    buffer, owner = _buffer_of(context, given, desc)
    try:
        if buffer.context != context.cl_context:
            raise argument_error(_WHERE, "buffer", "one of another pyopencl.Context", "buffers of ctx.cl_context")
        if buffer.size < desc.nbytes:
            raise argument_error(_WHERE, "buffer", f"{buffer.size} bytes", f"at least {desc.nbytes} bytes for {desc}")
        _check_flags(int(buffer.flags), flags)
        _check_host_memory(buffer)
        own = cl.Buffer.from_int_ptr(buffer.int_ptr, True)
        # Intel's runtime forgets a sub-buffer's parent when the user lets go of it, and no longer tells the offset.
        parent = own.associated_memobject
    except cl.Error as error:
        raise argument_error(_WHERE, "buffer", f"one that OpenCL refuses ({error})", "a live buffer") from error
    read_only = bool(int(own.flags) & cl.mem_flags.READ_ONLY)
    return Storage(own, desc.nbytes, pinned=True, owner=(given, owner, parent), read_only=read_only)


def _buffer_of(context: MLContext, given: Any, desc: TensorDesc) -> tuple[Any, object]:
    """The cl.Buffer with the tensor at its start, and what must live as long."""
    if isinstance(given, cl.Buffer):
        return given, None
    if type(given).__module__.startswith("pyopencl.array"):
        return _array_buffer(context, given, desc), None
    if hasattr(given, "__dlpack__") and hasattr(given, "__dlpack_device__"):
        return _dlpack_buffer(context, given, desc)
    raise argument_error(
        _WHERE, "buffer", f"a {type(given).__name__}", "a pyopencl.Buffer, a pyopencl.array.Array, or a DLPack object"
    )


def _array_buffer(context: MLContext, array: Any, desc: TensorDesc) -> Any:
    if array.dtype != dtype_of(desc.data_type).numpy:
        raise argument_error(_WHERE, "data_type", desc.data_type, f"the array's type, {array.dtype}")
    if not array.flags.c_contiguous:
        raise argument_error(_WHERE, "buffer", "a pyopencl array with gaps", "a C-contiguous array")
    if array.size != desc.size:
        raise argument_error(_WHERE, "shape", list(desc.shape), f"a shape of {array.size} elements, as the array has")
    if array.base_data is None:
        raise argument_error(_WHERE, "buffer", "an array without memory", "a pyopencl array with a buffer")
    return _region(context, array.base_data, array.offset, desc)


def _dlpack_buffer(context: MLContext, given: Any, desc: TensorDesc) -> tuple[Any, object]:
    view = dlpack.import_view(given, _WHERE)
    if view.data_type != desc.data_type or math.prod(view.shape) != desc.size:
        raise argument_error(
            _WHERE, "buffer", f"a DLPack tensor of {view.data_type}{list(view.shape)}", f"data for {desc}"
        )
    if view.device_type == dlpack.KDL_OPENCL:
        buffer = cl.Buffer.from_int_ptr(view.data, True)
        return _region(context, buffer, view.byte_offset, desc), view
    if view.device_type == dlpack.KDL_CPU and context._facts.unified_memory:
        return _host_buffer(context, view.data + view.byte_offset, desc), view
    raise argument_error(
        _WHERE, "buffer", f"a DLPack tensor on device type {view.device_type}",
        "kDLOpenCL within this pyopencl.Context, or kDLCPU where the device shares memory with the host",
    )  # fmt: skip


def _host_buffer(context: MLContext, address: int, desc: TensorDesc) -> Any:
    if address % HOST_ALIGNMENT:
        raise argument_error(
            _WHERE, "buffer", f"host memory at {address:#x}", f"memory aligned to {HOST_ALIGNMENT} bytes"
        )
    interface = {"shape": (desc.nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}
    host = np.asarray(type("_Host", (), {"__array_interface__": interface})())
    try:
        return cl.Buffer(context.cl_context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=host)
    except cl.Error as error:
        raise OperationError(f"{_WHERE}: the device can't use this host memory: {error}") from error


def _region(context: MLContext, buffer: Any, offset: int, desc: TensorDesc) -> Any:
    """`buffer` from `offset` on, as a sub-buffer when that is not its start."""
    if offset == 0:
        return buffer
    alignment = context._facts.mem_base_align_bytes
    if offset % alignment:
        raise argument_error(_WHERE, "buffer", f"an offset of {offset} bytes", f"multiples of {alignment} bytes")
    return buffer.get_sub_region(offset, desc.nbytes)


def _check_flags(given: int, wanted: dict[str, bool]) -> None:
    """MLTypeError when the buffer's own flags forbid what the tensor's flags promise."""
    flags = cl.mem_flags
    if given & flags.WRITE_ONLY:
        raise argument_error(_WHERE, "buffer", "a buffer that kernels may only write", "READ_WRITE or READ_ONLY")
    forbidden = {
        "readable": flags.HOST_WRITE_ONLY | flags.HOST_NO_ACCESS,
        "writable": flags.HOST_READ_ONLY | flags.HOST_NO_ACCESS | flags.READ_ONLY,
    }
    for name, bits in forbidden.items():
        if wanted[name] and given & bits:
            raise argument_error(_WHERE, name, True, f"False, for a buffer made with flags {given:#x}")


def _check_host_memory(buffer: Any) -> None:
    """MLTypeError when a CPU kernel's aligned vector loads could fault on the host memory behind the buffer."""
    if not int(buffer.flags) & cl.mem_flags.USE_HOST_PTR:
        return
    address = buffer.get_host_array((buffer.size,), np.uint8).ctypes.data
    if address % HOST_ALIGNMENT:
        raise argument_error(
            _WHERE, "buffer", f"USE_HOST_PTR memory at {address:#x}", f"memory aligned to {HOST_ALIGNMENT} bytes"
        )


def note_aliases(storage: Storage, tensors: Iterable[MLTensor]) -> None:
    """Tell `storage` and the living tensors whose bytes it shares about each other. Under the timeline's lock."""
    mine = _extent(storage)
    for tensor in tensors:
        other: Storage | None = None if tensor._destroyed else tensor._storage
        if other is None or not other.pinned or other is storage:
            continue
        theirs = _extent(other)
        if mine[0] == theirs[0] and mine[1] < theirs[2] and theirs[1] < mine[2]:
            for a, b in ((storage, other), (other, storage)):
                if not a.aliases:
                    a.aliases = weakref.WeakSet()
                a.aliases.add(b)  # type: ignore[attr-defined]


def _extent(storage: Storage) -> tuple[int, int, int]:
    """Handle of the root buffer, and the bytes of it that the storage covers: from, to."""
    buffer, offset = storage.buffer, 0
    parent = buffer.associated_memobject
    if parent is not None:
        offset = int(buffer.offset)
        buffer = parent
    return int(buffer.int_ptr), offset, offset + storage.nbytes
