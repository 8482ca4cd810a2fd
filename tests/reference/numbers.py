"""Number rules shared by the models: widening, rounding, parameter casts, wrapping integer arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DATA_TYPES = ("float32", "float16", "int32", "uint32", "int64", "uint64", "int8", "uint8")


def is_float(data_type: Any) -> bool:
    """Whether the data type (name, dtype) is float32 or float16."""
    return np.dtype(data_type).kind == "f"


def wide(x: Array) -> Array:
    """Float operands as float64; integers stay as they are, since their arithmetic must wrap at their own width."""
    return np.asarray(x, np.float64) if is_float(x.dtype) else np.asarray(x)


def round_to(x: Array, data_type: str) -> Array:
    """Round a raw result once to the output type (nearest even, overflow to infinity)."""
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(data_type, copy=False)


def parameter(value: float | int, data_type: Any) -> Any:
    """Cast a scalar parameter to an operand's type (the spec's 'cast a number'): float64 or exact Python int.

    Integers saturate, round half to even and turn NaN into 0; floats round to nearest even and may become infinite.
    """
    kind = np.dtype(data_type)
    if kind.kind == "f":
        with np.errstate(all="ignore"):
            return float(np.asarray(float(value), np.float64).astype(kind))
    info = np.iinfo(kind)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return int(info.max if value > 0 else info.min)
    return int(min(max(value if isinstance(value, int) else round(value), int(info.min)), int(info.max)))


def saturate(x: Array, data_type: str) -> Array:
    """Float values that are already integral to an integer type: NaN to 0, out of range to the nearest bound."""
    info = np.iinfo(data_type)
    # Comparing in float64 is exact: every bound is a power of two or one less, and x >= 2**N decides the upper one.
    top = float(info.max) if info.bits < 64 else float(2 ** (64 if info.min == 0 else 63))
    low, high = x <= float(info.min), x >= top
    body = np.where(low | high | np.isnan(x), 0, x).astype(data_type)
    return np.where(low, np.array(info.min, data_type), np.where(high, np.array(info.max, data_type), body))


def bits64(x: Array) -> Array:
    """Two's complement bits of integers as uint64 (sign extended): arithmetic on them is exact modulo 2**64."""
    return x.astype(np.int64).astype(np.uint64) if x.dtype.kind == "i" else x.astype(np.uint64)


def magnitude(x: Array) -> Array:
    """|x| of integers as uint64, right for the most negative value too."""
    unsigned = bits64(x)
    return np.where(x < 0, np.uint64(0) - unsigned, unsigned) if x.dtype.kind == "i" else unsigned


def signed_quotient(numerator: Array, denominator: Array) -> Array:
    """Integer quotient truncated toward zero; x/0 = 0; the most negative value over -1 wraps to itself."""
    a, b = np.broadcast_arrays(numerator, denominator)
    zero = b == 0
    quotient = magnitude(a) // np.where(zero, np.uint64(1), magnitude(b))
    negative = (a < 0) != (b < 0)
    wrapped = np.where(negative, np.uint64(0) - quotient, quotient)
    return np.where(zero, np.uint64(0), wrapped).astype(a.dtype)


def integer_power(base: Array, exponent: Array) -> Array:
    """base ** exponent modulo 2**bits; a negative exponent gives 1/base**|exponent| truncated toward zero (1/0 = 0)."""
    a, b = np.broadcast_arrays(base, exponent)
    result, square, rest = np.full(a.shape, 1, np.uint64), bits64(a), magnitude(b)
    for _ in range(64):
        result = np.where(rest & np.uint64(1), result * square, result)
        square, rest = square * square, rest >> np.uint64(1)
    unit = np.where(magnitude(a) == 1, result, np.uint64(0))  # only 1 and -1 have an integral reciprocal
    return np.where(b < 0, unit, result).astype(a.dtype)


def erf(x: Array) -> Array:
    """Gauss error function in float64."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), np.float64)


def erfc(x: Array) -> Array:
    """Complementary error function in float64, accurate in its tail."""
    return np.asarray(np.frompyfunc(math.erfc, 1, 1)(x), np.float64)
