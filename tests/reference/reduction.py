"""Reductions (operators.json: reduction). Missing axes reduce everything, an empty list reduces nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.reference.numbers import Array, is_float, wide
from tests.reference.registry import operator

Axes = Sequence[int] | None


def _axes(x: Array, axes: Axes) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axes is None else tuple(axes)


def _total(x: Array, axes: Axes, keep: bool) -> Array:
    return np.sum(x, axis=_axes(x, axes), keepdims=keep, dtype=x.dtype)  # integers wrap at their own width


@operator()
def reduce_l1(input: Array, *, axes: Axes = None, keep_dimensions: bool = False) -> Array:
    return _total(np.abs(wide(input)), axes, keep_dimensions)


@operator()
def reduce_l2(input: Array, *, axes: Axes = None, keep_dimensions: bool = False) -> Array:
    return np.sqrt(_total(np.square(wide(input)), axes, keep_dimensions))


@operator()
def reduce_log_sum(input: Array, *, axes: Axes = None, keep_dimensions: bool = False) -> Array:
    return np.log(_total(wide(input), axes, keep_dimensions))


@operator()
def reduce_log_sum_exp(input: Array, *, axes: Axes = None, keep_dimensions: bool = False) -> Array:
    x, over = wide(input), _axes(input, axes)
    top = x.max(axis=over, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0.0)  # an infinite maximum must not give inf - inf
    y = shift + np.log(np.exp(x - shift).sum(axis=over, keepdims=True))
    return y if keep_dimensions else np.squeeze(y, axis=over)


@operator()
def reduce_max(input: Array, *, axes: Axes = None, keep_dimensions: bool = False) -> Array:
    return np.max(input, axis=_axes(input, axes), keepdims=keep_dimensions)  # NaN propagates


@operator()
def reduce_mean(input: Array, *, axes: Axes = None, keep_dimensions: bool = False) -> Array:
    return np.mean(wide(input), axis=_axes(input, axes), keepdims=keep_dimensions)


@operator()
def reduce_min(input: Array, *, axes: Axes = None, keep_dimensions: bool = False) -> Array:
    return np.min(input, axis=_axes(input, axes), keepdims=keep_dimensions)


@operator()
def reduce_product(input: Array, *, axes: Axes = None, keep_dimensions: bool = False) -> Array:
    x = wide(input)
    return np.prod(x, axis=_axes(x, axes), keepdims=keep_dimensions, dtype=x.dtype)


@operator()
def reduce_sum(input: Array, *, axes: Axes = None, keep_dimensions: bool = False) -> Array:
    return _total(wide(input), axes, keep_dimensions)


@operator()
def reduce_sum_square(input: Array, *, axes: Axes = None, keep_dimensions: bool = False) -> Array:
    return _total(wide(input) * wide(input), axes, keep_dimensions)


def _arg(choose: Callable[..., Array], worst: float, x: Array, axis: int, keep: bool) -> Array:
    """First of the best elements; NaN is never chosen while a number is there (gaps 23 and 34)."""
    if is_float(x.dtype):
        real = ~np.isnan(x)
        # A real infinity must beat a masked NaN that comes before it, so look for the best value among the real ones.
        best = choose(np.where(real, x, worst), axis=axis)
        target = np.take_along_axis(np.where(real, x, worst), np.expand_dims(best, axis), axis)
        index = np.argmax(real & (x == target), axis=axis)
    else:
        index = choose(x, axis=axis)
    return np.expand_dims(index, axis) if keep else index


@operator("output_data_type")
def arg_min(input: Array, axis: int, *, keep_dimensions: bool = False, output_data_type: str = "int32") -> Array:
    return _arg(np.argmin, np.inf, input, axis, keep_dimensions)


@operator("output_data_type")
def arg_max(input: Array, axis: int, *, keep_dimensions: bool = False, output_data_type: str = "int32") -> Array:
    return _arg(np.argmax, -np.inf, input, axis, keep_dimensions)


@operator()
def cumulative_sum(input: Array, axis: int, *, exclusive: bool = False, reversed: bool = False) -> Array:
    x = np.flip(wide(input), axis) if reversed else wide(input)
    y = np.cumsum(x, axis=axis, dtype=x.dtype)
    if exclusive:  # shifted, not subtracted: an infinity must not spoil the sum before it
        y = np.concatenate([np.zeros_like(y.take([0], axis)), np.delete(y, -1, axis)], axis)
    return np.flip(y, axis) if reversed else y
