"""Gather and scatter (operators.json: gather/scatter).

Indices are clamped to [-N, N - 1] and then negative ones count from the end; the last duplicate in row-major order wins
(semantics.md gap 14).
"""

from __future__ import annotations

import numpy as np

from tests.reference.numbers import Array
from tests.reference.registry import operator


def _clamped(indices: Array, size: int | Array) -> Array:
    i = np.clip(indices.astype(np.int64), -np.asarray(size), np.asarray(size) - 1)
    return np.where(i < 0, i + size, i)


@operator()
def gather(input: Array, indices: Array, *, axis: int = 0) -> Array:
    return np.take(input, _clamped(indices, input.shape[axis]), axis=axis)


@operator()
def gather_elements(input: Array, indices: Array, *, axis: int = 0) -> Array:
    return np.take_along_axis(input, _clamped(indices, input.shape[axis]), axis)


@operator()
def gather_nd(input: Array, indices: Array) -> Array:
    k = indices.shape[-1]
    coordinates = _clamped(indices, np.array(input.shape[:k], np.int64))
    return input[tuple(np.moveaxis(coordinates, -1, 0))]


@operator()
def scatter_elements(input: Array, indices: Array, updates: Array, *, axis: int = 0) -> Array:
    targets = _clamped(indices, input.shape[axis])
    y = input.copy()
    for position in np.ndindex(indices.shape):  # one at a time: the order of duplicates matters
        y[(*position[:axis], targets[position], *position[axis + 1 :])] = updates[position]
    return y


@operator()
def scatter_nd(input: Array, indices: Array, updates: Array) -> Array:
    k = indices.shape[-1]
    coordinates = _clamped(indices, np.array(input.shape[:k], np.int64))
    y = input.copy()
    for position in np.ndindex(indices.shape[:-1]):
        y[tuple(coordinates[position])] = updates[position]
    return y
