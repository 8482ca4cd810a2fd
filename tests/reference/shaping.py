"""Tensor manipulation (operators.json: tensor manipulation)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.reference.numbers import Array, is_float, parameter
from tests.reference.registry import operator


@operator()
def concat(inputs: Sequence[Array], axis: int) -> Array:
    return np.concatenate(list(inputs), axis=axis)


@operator()
def expand(input: Array, new_shape: Sequence[int]) -> Array:
    return np.broadcast_to(input, tuple(new_shape)).copy()


@operator()
def pad(
    input: Array,
    beginning_padding: Sequence[int],
    ending_padding: Sequence[int],
    *,
    mode: str = "constant",
    value: Any = 0,
) -> Array:
    y = input
    for axis, (begin, end) in enumerate(zip(beginning_padding, ending_padding, strict=True)):
        y = _pad_axis(y, axis, begin, end, mode, np.asarray(parameter(value, input.dtype)).astype(input.dtype))
    return y


def _pad_axis(x: Array, axis: int, begin: int, end: int, mode: str, value: Array) -> Array:
    n = x.shape[axis]
    p = np.arange(-begin, n + end)
    if mode == "reflection":
        p = np.where(p < 0, -p, np.where(p >= n, 2 * (n - 1) - p, p))
    inside = (p >= 0) & (p < n)
    y = np.take(x, p.clip(0, n - 1), axis=axis)
    if mode == "constant":
        y = np.where(np.expand_dims(inside, [d for d in range(x.ndim) if d != axis]), y, value)
    return y


@operator()
def reshape(input: Array, new_shape: Sequence[int]) -> Array:
    return input.reshape(tuple(new_shape)).copy()


def _source_positions(size_in: int, size_out: int) -> tuple[Array, Array]:
    """Half-pixel source coordinate of every output position as an exact fraction: numerator, over 2 * size_out."""
    numerator = (2 * np.arange(size_out, dtype=np.int64) + 1) * size_in - size_out
    return numerator.clip(0, 2 * size_out * (size_in - 1)), np.int64(2 * size_out)


def _resample_axis(x: Array, axis: int, size: int, mode: str) -> Array:
    u, unit = _source_positions(x.shape[axis], size)
    if mode == "nearest-neighbor":
        return np.take(x, -((unit - 2 * u) // (2 * unit)), axis=axis)  # ceil(u - 1/2), in integers
    low = u // unit
    high = np.minimum(low + (u % unit != 0), x.shape[axis] - 1)
    t = np.expand_dims((u % unit) / unit, [d for d in range(x.ndim) if d != axis])
    return np.take(x, low, axis=axis) * (1.0 - t) + np.take(x, high, axis=axis) * t


@operator()
def resample2d(
    input: Array,
    *,
    mode: str = "nearest-neighbor",
    scales: Sequence[float] = (1.0, 1.0),
    sizes: Sequence[int] | None = None,
    axes: Sequence[int] = (2, 3),
) -> Array:
    if sizes is None:
        sizes = [math.floor(input.shape[axis] * scale) for axis, scale in zip(axes, scales, strict=True)]
    y = input if mode == "nearest-neighbor" else input.astype(np.float64)
    for axis, size in zip(axes, sizes, strict=True):
        y = _resample_axis(y, axis, size, mode)
    return y if is_float(input.dtype) else np.rint(y)  # a mean of two integers: half to even (gap 18)


@operator()
def reverse(input: Array, *, axes: Sequence[int] | None = None) -> Array:
    return np.flip(input, tuple(range(input.ndim)) if axes is None else tuple(axes)).copy()


@operator()
def slice_(input: Array, starts: Sequence[int], sizes: Sequence[int], *, strides: Sequence[int] | None = None) -> Array:
    steps = [1] * input.ndim if strides is None else strides
    return input[tuple(slice(s, s + n, k) for s, n, k in zip(starts, sizes, steps, strict=True))].copy()


@operator()
def split(input: Array, splits: int | Sequence[int], *, axis: int = 0) -> list[Array]:
    if isinstance(splits, int):
        splits = [input.shape[axis] // splits] * splits
    return list(np.split(input, np.cumsum(splits)[:-1], axis=axis))


@operator()
def tile(input: Array, repetitions: Sequence[int]) -> Array:
    return np.tile(input, tuple(repetitions))


@operator()
def transpose(input: Array, *, permutation: Sequence[int] | None = None) -> Array:
    return np.transpose(input, None if permutation is None else tuple(permutation)).copy()


@operator()
def triangular(input: Array, *, upper: bool = True, diagonal: int = 0) -> Array:
    row, column = np.ogrid[: input.shape[-2], : input.shape[-1]]
    keep = column - row >= diagonal if upper else column - row <= diagonal
    return np.where(keep, input, np.zeros((), input.dtype))


@operator("true_value")
def where(condition: Array, true_value: Array, false_value: Array) -> Array:
    return np.where(condition != 0, true_value, false_value)
