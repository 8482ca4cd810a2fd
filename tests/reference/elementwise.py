"""Element-wise binary, logical and unary operators (operators.json: elementwise binary, logical, unary)."""

from __future__ import annotations

import numpy as np

from tests.reference.numbers import Array, integer_power, is_float, signed_quotient, wide
from tests.reference.numbers import erf as _erf
from tests.reference.registry import operator


@operator()
def add(a: Array, b: Array) -> Array:
    return wide(a) + wide(b)


@operator()
def sub(a: Array, b: Array) -> Array:
    return wide(a) - wide(b)


@operator()
def mul(a: Array, b: Array) -> Array:
    return wide(a) * wide(b)


@operator()
def div(a: Array, b: Array) -> Array:
    return wide(a) / wide(b) if is_float(a.dtype) else signed_quotient(a, b)


@operator()
def max_(a: Array, b: Array) -> Array:
    return np.maximum(wide(a), wide(b))  # NaN propagates (semantics.md gap 23)


@operator()
def min_(a: Array, b: Array) -> Array:
    return np.minimum(wide(a), wide(b))


@operator()
def pow_(a: Array, b: Array) -> Array:
    return np.power(wide(a), wide(b)) if is_float(a.dtype) else integer_power(a, b)


@operator("uint8")
def equal(a: Array, b: Array) -> Array:
    return a == b


@operator("uint8")
def not_equal(a: Array, b: Array) -> Array:
    return a != b


@operator("uint8")
def greater(a: Array, b: Array) -> Array:
    return a > b


@operator("uint8")
def greater_or_equal(a: Array, b: Array) -> Array:
    return a >= b


@operator("uint8")
def lesser(a: Array, b: Array) -> Array:
    return a < b


@operator("uint8")
def lesser_or_equal(a: Array, b: Array) -> Array:
    return a <= b


@operator("uint8")
def logical_not(a: Array) -> Array:
    return a == 0


@operator("uint8")
def logical_and(a: Array, b: Array) -> Array:
    return (a != 0) & (b != 0)


@operator("uint8")
def logical_or(a: Array, b: Array) -> Array:
    return (a != 0) | (b != 0)


@operator("uint8")
def logical_xor(a: Array, b: Array) -> Array:
    return (a != 0) ^ (b != 0)


@operator("uint8")
def is_nan(a: Array) -> Array:
    return np.isnan(a)


@operator("uint8")
def is_infinite(a: Array) -> Array:
    return np.isinf(a)


@operator()
def abs_(input: Array) -> Array:
    return np.abs(wide(input))  # the most negative integer wraps to itself


@operator()
def ceil(input: Array) -> Array:
    return np.ceil(wide(input))


@operator()
def cos(input: Array) -> Array:
    return np.cos(wide(input))


@operator()
def erf(input: Array) -> Array:
    return _erf(wide(input))


@operator()
def exp(input: Array) -> Array:
    return np.exp(wide(input))


@operator()
def floor(input: Array) -> Array:
    return np.floor(wide(input))


@operator()
def identity(input: Array) -> Array:
    return input


@operator()
def log(input: Array) -> Array:
    return np.log(wide(input))


@operator()
def neg(input: Array) -> Array:
    return -wide(input)


@operator()
def reciprocal(input: Array) -> Array:
    return 1.0 / wide(input)


@operator()
def round_even(input: Array) -> Array:
    return np.rint(wide(input))


@operator()
def sin(input: Array) -> Array:
    return np.sin(wide(input))


@operator()
def sign(input: Array) -> Array:
    return (input > 0).astype(np.int8) - (input < 0).astype(np.int8)  # 0 for NaN: neither comparison holds


@operator()
def sqrt(input: Array) -> Array:
    return np.sqrt(wide(input))


@operator()
def tan(input: Array) -> Array:
    return np.tan(wide(input))
