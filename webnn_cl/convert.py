"""Number conversion that changes no value, for compute(): lists and arrays of other types."""

from __future__ import annotations

from typing import Any

import numpy as np

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.dtypes import dtype_of
from webnn_cl.errors import argument_error

__all__ = ["converted"]

Array = np.ndarray[Any, np.dtype[Any]]


def converted(data: Any, desc: TensorDesc, where: str) -> Any:
    """`data` as an array of the type of `desc`; MLTypeError when a value would change or nothing can be converted.

    Raw bytes, float16 bits (uint16) of the right shape and uint8 arrays of the byte length stay as they are.
    """
    if isinstance(data, (bytes, bytearray, memoryview)):
        return data
    array = _as_array(data, where)
    target = dtype_of(desc.data_type)
    if array.dtype == target.numpy:
        return array
    if array.dtype == np.uint8 and array.shape != desc.shape and array.nbytes == desc.nbytes:
        return array
    if array.dtype == np.uint16 and desc.data_type == "float16" and isinstance(data, np.ndarray):
        return array
    if array.dtype.kind not in "biuf":
        raise argument_error(where, "data", f"an array of {array.dtype}", f"numbers that {desc.data_type} can hold")
    if not _exact(array, target.numpy):
        raise argument_error(
            where, "data", f"{array.dtype} values that {desc.data_type} can't hold exactly", "values it can hold"
        )
    return array.astype(target.numpy)


def _as_array(data: Any, where: str) -> Array:
    try:
        array = np.asarray(data)
    except (TypeError, ValueError, OverflowError) as error:
        raise argument_error(where, "data", f"{type(data).__name__} ({error})", "numbers in a full shape") from error
    if array.dtype == object and array.size and all(type(x) is int for x in array.flat):
        raise argument_error(where, "data", "integers beyond 64 bits", "values that the input's type can hold")
    return array


def _exact(array: Array, target: np.dtype[Any]) -> bool:
    """Whether every value of `array` exists in `target`; NaN, infinities and zeros of either sign do in floats."""
    if array.size == 0 or array.dtype.kind == "b":
        return True
    if target.kind == "f":
        return _exact_in_float(array, target)
    low, high = int(np.iinfo(target).min), int(np.iinfo(target).max)
    if array.dtype.kind == "f":
        # high + 1 is a power of two, exact in every float type that reaches it.
        finite = bool(np.isfinite(array).all())
        return finite and bool(((array >= low) & (array < high + 1) & (np.trunc(array) == array)).all())
    return low <= int(array.min()) and int(array.max()) <= high


def _exact_in_float(array: Array, target: np.dtype[Any]) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(target)
    if array.dtype.kind == "f":
        return bool(((cast == array) | (np.isnan(cast) & np.isnan(array))).all())
    exact = 1 << (np.finfo(target).nmant + 1)
    signed = array.dtype.kind == "i"
    large = (array > exact) | (array < -exact) if signed else array > exact
    return all(
        np.isfinite(c) and int(c) == int(a) for a, c in zip(array[large].tolist(), cast[large].tolist(), strict=True)
    )
