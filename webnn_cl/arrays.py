"""Caller's data as an array of a tensor's type and shape: what is accepted, copied, refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.dtypes import DATA_TYPES, DataType, dtype_of, normalize_data_type
from webnn_cl.errors import MLTypeError, argument_error

__all__ = ["data_for", "described_data"]

Array = np.ndarray[Any, np.dtype[Any]]


def data_for(data: object, desc: TensorDesc, where: str) -> Array:
    """`data` as a C-contiguous array of `desc`, without conversion of values; maybe a view of the caller's memory.

    Accepted are arrays of the very type (uint16 for float16: raw bits) and shape, or 1-D of equal length, and raw
    bytes of exactly the right length: bytes, bytearray, memoryview of bytes, uint8 arrays. MLTypeError otherwise.
    """
    raw = _raw_bytes(data, where)
    if raw is not None:
        if raw.nbytes == desc.nbytes and (desc.data_type != "uint8" or raw.ndim == 1 or raw.shape == desc.shape):
            return _reinterpret(raw, desc)
        allowed = f"{desc.nbytes} bytes" + (f" or shape {list(desc.shape)}" if desc.data_type == "uint8" else "")
        raise argument_error(where, "data", f"{raw.nbytes} bytes, shape {list(raw.shape)}", allowed)
    if not isinstance(data, np.ndarray):
        raise argument_error(where, "data", _kind(data), f"a numpy array of {desc} or its raw bytes")
    array = _native(data)
    if array.dtype == np.uint16 and desc.data_type == "float16":
        array = array.view(np.float16)
    if array.dtype != dtype_of(desc.data_type).numpy:
        raise argument_error(where, "data", f"an array of {data.dtype}", f"{desc.data_type} or raw bytes")
    if array.shape != desc.shape and (array.ndim != 1 or array.size != desc.size):
        raise argument_error(
            where, "data", f"shape {list(array.shape)}", f"shape {list(desc.shape)}, or 1-D of {desc.size} elements"
        )
    return array.reshape(desc.shape)


def described_data(
    data: object, shape: tuple[int, ...] | None, data_type: object | None, where: str
) -> tuple[TensorDesc, Array]:
    """Descriptor and array of constant data whose `shape` and `data_type` may follow from the data itself."""
    wanted = None if data_type is None else normalize_data_type(data_type, f"{where}: data_type")
    known = _known_type(data)
    result = wanted or known
    if result is None:
        raise argument_error(where, "data", _kind(data), f"an array of {', '.join(DATA_TYPES)}, or data_type and shape")
    if shape is None:
        if not isinstance(data, np.ndarray) or known != result:
            raise argument_error(where, "shape", None, "a shape, when data is raw bytes")
        shape = data.shape
    desc = TensorDesc(result, shape)
    if any(dim < 1 for dim in shape):
        raise argument_error(where, "shape", list(shape), "dimensions of at least 1")
    return desc, data_for(data, desc, where)


def _known_type(data: object) -> DataType | None:
    """The data type that an array has by itself; None for raw bytes and for types WebNN doesn't have."""
    if not isinstance(data, np.ndarray):
        return None
    if data.dtype == np.uint16:
        return "float16"
    return normalize_data_type(data.dtype) if data.dtype.name in DATA_TYPES else None


def _raw_bytes(data: object, where: str) -> Array | None:
    """An array of bytes over `data` when it is raw; None when it is not."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(data.shape) if data.dtype == np.uint8 else None
    if isinstance(data, (bytes, bytearray, memoryview)):
        try:
            view = memoryview(data)
            if view.format != "B" or not view.contiguous:
                raise argument_error(where, "data", f"a memoryview of format {view.format!r}", "contiguous bytes")
            return np.frombuffer(view, np.uint8)
        except ValueError as error:  # a released memoryview, the counterpart of a detached ArrayBuffer
            if isinstance(error, MLTypeError):
                raise
            raise argument_error(where, "data", str(error), "a live buffer") from error
    return None


def _reinterpret(raw: Array, desc: TensorDesc) -> Array:
    dtype = dtype_of(desc.data_type).numpy
    flat = raw.reshape(-1)
    # Views need an aligned start; unaligned bytes are copied first.
    if flat.ctypes.data % dtype.itemsize:
        flat = flat.copy()
    return flat.view(dtype).reshape(desc.shape)


def _native(array: Array) -> Array:
    """C-contiguous and in the machine's byte order (the shape of 0-D arrays kept)."""
    native: Array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)
    return native


def _kind(data: object) -> str:
    return f"an array of {data.dtype}" if isinstance(data, np.ndarray) else f"a {type(data).__name__}"


