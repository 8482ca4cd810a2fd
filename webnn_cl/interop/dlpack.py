"""DLPack, by hand: capsules of kDLOpenCL memory out, capsules of any memory in (dmlc/dlpack, version 0 and 1)."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from webnn_cl.dtypes import dtype_of
from webnn_cl.errors import InvalidStateError, MLError, argument_error

if TYPE_CHECKING:
    from webnn_cl.interop.lease import Lease

__all__ = ["KDL_CPU", "KDL_OPENCL", "View", "export_lease", "import_view", "opencl_device"]

KDL_CPU, KDL_OPENCL = 1, 4

_CODES = {"int": 0, "uint": 1, "float": 2}


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))

# Names must outlive the capsules, which keep the pointer only.
_LEGACY, _USED = b"dltensor", b"used_dltensor"
_VERSIONED, _USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"


def opencl_device(queue: Any) -> tuple[int, int]:
    """(kDLOpenCL, index of the queue's device in its pyopencl.Context)."""
    return KDL_OPENCL, list(queue.context.devices).index(queue.device)


class _Holder:
    """Keeps a lease's buffer, and its count of capsules, as long as somebody has the capsule or what it held."""

    def __init__(self, lease: Lease) -> None:
        desc, self.buffer, self.count = lease.tensor._desc, lease.buffer, lease._capsules
        # numpy's capsule needs an address; nobody reads there, since the pointer is replaced at once.
        self.nowhere = ctypes.create_string_buffer(64)
        typestr = dtype_of(desc.data_type).numpy.str
        data = (ctypes.addressof(self.nowhere), False)
        self.__array_interface__ = {"shape": desc.shape, "typestr": typestr, "data": data, "version": 3}
        self.count.value += 1

    def __del__(self) -> None:
        self.count.value -= 1


def export_lease(lease: Lease, options: Mapping[str, Any]) -> Any:
    """A capsule whose data pointer is the lease's cl_mem handle; the lease counts it until it is deleted.

    numpy makes the capsule, because its destructor must be C: it may run while an exception is being raised.
    """
    if options.get("copy"):
        raise BufferError("a lease shares its memory; a copy is what read_tensor gives")
    device = options.get("dl_device")
    if device is not None and tuple(device) != lease.__dlpack_device__():
        raise BufferError(f"a lease's memory is on device {lease.__dlpack_device__()}, not on {tuple(device)}")
    capsule = np.asarray(_Holder(lease)).__dlpack__()
    tensor = _Managed.from_address(_pointer(capsule, _LEGACY)).tensor
    tensor.data = lease.buffer.int_ptr
    tensor.device_type, tensor.device_id = lease.__dlpack_device__()
    return capsule


class View:
    """A tensor taken out of a capsule, whose producer is told when this object goes."""

    def __init__(self, tensor: _DLTensor, delete: Any) -> None:
        kind = {code: name for name, code in _CODES.items()}.get(tensor.code, f"code{tensor.code}")
        self.data = int(tensor.data or 0)
        self.byte_offset = int(tensor.byte_offset)
        self.device_type = int(tensor.device_type)
        self.shape = tuple(int(tensor.shape[i]) for i in range(tensor.ndim))
        strides = tuple(int(tensor.strides[i]) for i in range(tensor.ndim)) if tensor.strides else None
        self.packed = tensor.lanes == 1 and (strides is None or strides == packed_strides(self.shape))
        self.data_type = f"{kind}{tensor.bits}"
        self._finalizer = weakref.finalize(self, delete)


def packed_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for dim in reversed(shape):
        strides.insert(0, step)
        step *= dim
    return tuple(strides)


def import_view(given: Any, where: str) -> View:
    """The tensor of a DLPack object; MLTypeError when it is not packed or can't be had."""
    try:
        capsule = given.__dlpack__()
        view = _consume(capsule)
    except InvalidStateError:
        raise
    except (MLError, cl.Error, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise argument_error(where, "buffer", f"a DLPack object that refuses ({error})", "a DLPack object") from error
    if not view.packed:
        raise argument_error(where, "buffer", "a DLPack tensor with gaps", "a packed row-major tensor")
    return view


def _consume(capsule: Any) -> View:
    name = _name_of(capsule)
    if name == _LEGACY:
        legacy = _Managed.from_address(_pointer(capsule, _LEGACY))
        _rename(capsule, _USED)
        return View(legacy.tensor, _deleter_call(legacy, ctypes.addressof(legacy)))
    if name == _VERSIONED:
        versioned = _Versioned.from_address(_pointer(capsule, _VERSIONED))
        if versioned.major != 1:
            raise BufferError(f"DLPack version {versioned.major}.{versioned.minor}")
        _rename(capsule, _USED_VERSIONED)
        return View(versioned.tensor, _deleter_call(versioned, ctypes.addressof(versioned)))
    raise BufferError(f"a capsule named {name!r}")


def _deleter_call(managed: Any, address: int) -> Any:
    if not managed.deleter:
        return lambda: None
    deleter = _Deleter(managed.deleter)
    return lambda: deleter(address)
