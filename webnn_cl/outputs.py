"""Where a read goes: a new array, or the caller's `out`, filled as a whole once the bytes are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.dtypes import dtype_of
from webnn_cl.errors import MLTypeError, argument_error

__all__ = ["Target", "target_for"]

Array = np.ndarray[Any, np.dtype[Any]]
Target = Callable[[Array], Any]
"""From the bytes of a tensor (1-D uint8, owned by the read) to what the read returns."""


def target_for(out: Any, desc: TensorDesc, where: str) -> Target:
    """How a read of a tensor described by `desc` is delivered; MLTypeError when `out` can't take it."""
    dtype = dtype_of(desc.data_type).numpy
    if out is None:
        return lambda data: data.view(dtype).reshape(desc.shape)
    view = _view(out, desc, where)
    if view.nbytes != desc.nbytes:
        raise argument_error(where, "out", f"{view.nbytes} bytes", f"{desc.nbytes} bytes")

    def fill(data: Array) -> Any:
        np.copyto(view, data.view(view.dtype).reshape(view.shape))
        return out

    return fill


def _view(out: Any, desc: TensorDesc, where: str) -> Array:
    """`out` as a writable array: of the tensor's type and shape, 1-D of equal length, or bytes of equal length."""
    dtype = dtype_of(desc.data_type).numpy
    if not isinstance(out, np.ndarray):
        return _byte_view(out, where)
    if not out.flags.writeable:
        raise argument_error(where, "out", "a read-only array", "a writable array")
    array = out.view(np.float16) if out.dtype == np.uint16 and desc.data_type == "float16" else out
    if array.dtype == np.uint8 and (desc.data_type != "uint8" or array.ndim == 1):
        return array
    if array.dtype != dtype:
        raise argument_error(where, "out", f"an array of {out.dtype}", f"{desc.data_type} or raw bytes")
    if array.shape != desc.shape and (array.ndim != 1 or array.size != desc.size):
        raise argument_error(where, "out", f"shape {list(out.shape)}", f"shape {list(desc.shape)}")
    return array


def _byte_view(out: Any, where: str) -> Array:
    try:
        view = memoryview(out)
    except (TypeError, ValueError) as error:  # not a buffer, or a released one (a detached ArrayBuffer)
        raise argument_error(where, "out", repr(out), "an array or a writable buffer of bytes") from error
    if view.readonly or view.format != "B" or not view.contiguous:
        raise MLTypeError(f"{where}: out: got a memoryview of format {view.format!r}; allowed: writable bytes")
    return np.frombuffer(view, np.uint8)
