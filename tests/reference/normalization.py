"""Normalizations (operators.json: normalization); missing scale is 1, missing bias is 0 (gap 30)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.reference.numbers import Array, parameter, wide
from tests.reference.registry import operator


def _place(x: Array, rank: int, axes: Sequence[int]) -> Array:
    """Give dimension k of x the place axes[k] among `rank` dimensions, size 1 elsewhere."""
    order = sorted(range(len(axes)), key=lambda k: axes[k])
    shape = [1] * rank
    for k, axis in enumerate(axes):
        shape[axis] = x.shape[k]
    return wide(x).transpose(order).reshape(shape)


def _normalize(
    x: Array, mean: Array, variance: Array, epsilon: float, scale: Array | None, bias: Array | None, axes: Sequence[int]
) -> Array:
    y = (wide(x) - mean) / np.sqrt(variance + parameter(epsilon, x.dtype))
    if scale is not None:
        y = y * _place(scale, x.ndim, axes)
    return y if bias is None else y + _place(bias, x.ndim, axes)


@operator()
def batch_normalization(
    input: Array,
    mean: Array,
    variance: Array,
    *,
    scale: Array | None = None,
    bias: Array | None = None,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Array:
    m, v = _place(mean, input.ndim, [axis]), _place(variance, input.ndim, [axis])
    return _normalize(input, m, v, epsilon, scale, bias, [axis])


@operator()
def instance_normalization(
    input: Array,
    *,
    scale: Array | None = None,
    bias: Array | None = None,
    epsilon: float = 1e-5,
    layout: str = "nchw",
) -> Array:
    spatial, channel = ((2, 3), 1) if layout == "nchw" else ((1, 2), 3)
    x = wide(input)
    m, v = x.mean(spatial, keepdims=True), x.var(spatial, keepdims=True)
    return _normalize(input, m, v, epsilon, scale, bias, [channel])


@operator()
def layer_normalization(
    input: Array,
    *,
    scale: Array | None = None,
    bias: Array | None = None,
    axes: Sequence[int] | None = None,
    epsilon: float = 1e-5,
) -> Array:
    axes = list(range(1, input.ndim)) if axes is None else list(axes)
    x, over = wide(input), tuple(axes)
    # With no axes nothing is reduced: numpy's mean over () is the value itself, its variance 0.
    m, v = x.mean(over, keepdims=True), x.var(over, keepdims=True)
    return _normalize(input, m, v, epsilon, scale, bias, axes)
