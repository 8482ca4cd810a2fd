"""Activations (operators.json: activation)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.reference.numbers import Array, erfc, parameter, wide
from tests.reference.registry import operator


@operator()
def clamp(input: Array, *, min_value: Any = None, max_value: Any = None) -> Array:
    y = wide(input)
    for bound, choose in ((min_value, np.maximum), (max_value, np.minimum)):
        limit = math.nan if bound is None else parameter(bound, input.dtype)
        if not math.isnan(limit):  # a NaN bound counts as missing (issue 874; the WPT cases want it too)
            y = choose(y, np.asarray(limit, y.dtype))
    return y


@operator()
def elu(input: Array, *, alpha: float = 1.0) -> Array:
    x = wide(input)
    return np.maximum(0.0, x) + parameter(alpha, input.dtype) * np.expm1(np.minimum(0.0, x))


@operator()
def gelu(input: Array) -> Array:
    x = wide(input)
    return 0.5 * x * erfc(-x / math.sqrt(2.0))  # 1 + erf(z) = erfc(-z), without the cancellation


@operator()
def hard_sigmoid(input: Array, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    line = parameter(alpha, input.dtype) * wide(input) + parameter(beta, input.dtype)
    return np.maximum(0.0, np.minimum(1.0, line))


@operator()
def hard_swish(input: Array) -> Array:
    x = wide(input)
    gate = np.maximum(0.0, np.minimum(6.0, x + 3.0))
    return np.where(x == -np.inf, 0.0, x * gate / 6.0)  # the limit, where the formula has -inf * 0 (gap 36)


@operator()
def leaky_relu(input: Array, *, alpha: float = 0.01) -> Array:
    x = wide(input)
    return np.maximum(0.0, x) + parameter(alpha, input.dtype) * np.minimum(0.0, x)


@operator()
def linear(input: Array, *, alpha: float = 1.0, beta: float = 0.0) -> Array:
    return parameter(alpha, input.dtype) * wide(input) + parameter(beta, input.dtype)


@operator()
def prelu(input: Array, slope: Array) -> Array:
    x, zero = wide(input), np.zeros((), wide(input).dtype)
    return np.maximum(zero, x) + wide(slope) * np.minimum(zero, x)


@operator()
def relu(input: Array) -> Array:
    return np.maximum(np.zeros((), wide(input).dtype), wide(input))


@operator()
def sigmoid(input: Array) -> Array:
    x = wide(input)
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


@operator()
def softmax(input: Array, axis: int) -> Array:
    x = wide(input)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@operator()
def softplus(input: Array) -> Array:
    return np.logaddexp(0.0, wide(input))


@operator()
def softsign(input: Array) -> Array:
    x = wide(input)
    return np.where(np.isinf(x), np.sign(x), x / (1.0 + np.abs(x)))  # the limits +-1 at infinity (gap 36)


@operator()
def tanh(input: Array) -> Array:
    return np.tanh(wide(input))
