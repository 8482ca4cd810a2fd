"""The eight WebNN data types: their numpy and OpenCL C counterparts, ranges, and the specification's parameter cast."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, cast, get_args

import numpy as np

from webnn_cl.errors import MLTypeError

__all__ = ["DATA_TYPES", "INT16", "DType", "DataType", "cast_parameter", "dtype_of", "normalize_data_type"]

DataType = Literal["float32", "float16", "int32", "uint32", "int64", "uint64", "int8", "uint8"]
DATA_TYPES: tuple[DataType, ...] = get_args(DataType)


@dataclass(frozen=True)
class DType:
    """Facts about one data type.

    `storage` is the OpenCL C type in memory, `compute` the type arithmetic is done in (float for float16),
    `mask` the signed integer type that vector comparisons of `compute` give.
    """

    name: DataType
    size: int
    storage: str
    compute: str
    mask: str
    is_float: bool

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.name)

    @property
    def is_signed(self) -> bool:
        return not self.name.startswith("u")

    @property
    def minimum(self) -> int | float:
        """Lowest finite value."""
        return float(np.finfo(self.name).min) if self.is_float else int(np.iinfo(self.name).min)

    @property
    def maximum(self) -> int | float:
        """Largest finite value."""
        return float(np.finfo(self.name).max) if self.is_float else int(np.iinfo(self.name).max)


_DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("float32", 4, "float", "float", "int", True),
        DType("float16", 2, "half", "float", "int", True),
        DType("int32", 4, "int", "int", "int", False),
        DType("uint32", 4, "uint", "uint", "int", False),
        DType("int64", 8, "long", "long", "long", False),
        DType("uint64", 8, "ulong", "ulong", "long", False),
        DType("int8", 1, "char", "char", "char", False),
        DType("uint8", 1, "uchar", "uchar", "char", False),
    )
}


# Within compiled graphs only: quantized values less their zero points, as integer products read them.
INT16: DataType = cast(DataType, "int16")
_INT16 = DType(INT16, 2, "short", "short", "short", False)


def dtype_of(name: str) -> DType:
    """Facts about the data type called `name` (already normalized)."""
    return _INT16 if name == INT16 else _DTYPES[name]


def normalize_data_type(given: object, where: str = "data_type") -> DataType:
    """The specification's name for `given`, a name or anything numpy takes for a dtype; MLTypeError otherwise."""
    if isinstance(given, str):
        name = given
    else:
        if given is None or isinstance(given, (int, float, bool)):
            raise MLTypeError(f"{where}: got {given!r}; allowed: {', '.join(DATA_TYPES)}")
        try:
            name = np.dtype(given).name  # type: ignore[call-overload]
        except TypeError:
            name = repr(given)
    if name not in _DTYPES:
        raise MLTypeError(f"{where}: got {given!r}; allowed: {', '.join(DATA_TYPES)}")
    return _DTYPES[name].name


def cast_parameter(value: int | float, data_type: str) -> int | float:
    """`value` in the range and precision of `data_type` ("cast to data type" of the W3C WebNN specification).

    Integers saturate, round half to even and take NaN as 0; floats round to nearest even and overflow to infinity.
    Exact for integers of any size: nothing goes through float64 on the way to int64 or uint64.
    """
    dtype = _DTYPES[data_type]
    return _cast_to_float(value, dtype) if dtype.is_float else _cast_to_integer(value, dtype)


def _cast_to_integer(value: int | float, dtype: DType) -> int:
    low, high = int(dtype.minimum), int(dtype.maximum)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return high if value > 0 else low
    return min(max(round(Fraction(value)), low), high)


def _cast_to_float(value: int | float, dtype: DType) -> float:
    if isinstance(value, int):
        value = _int_to_double(value, dtype)
    with np.errstate(over="ignore"):
        return float(np.asarray(value, dtype=np.float64).astype(dtype.numpy))


def _int_to_double(value: int, dtype: DType) -> float:
    """A double that rounds to `dtype` as the exact integer would (a sticky bit avoids double rounding)."""
    bits = value.bit_length()
    if bits <= 53:
        return float(value)
    if bits > 1000:
        return math.inf if value > 0 else -math.inf
    shift = bits - 53
    magnitude = abs(value)
    kept = (magnitude >> shift) | (1 if magnitude & ((1 << shift) - 1) else 0)
    return math.copysign(math.ldexp(float(kept), shift), value)
