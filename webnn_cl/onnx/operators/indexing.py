"""Gather and scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.elements import is_float, numpy_type
from webnn_cl.onnx.operators.common import cast, concat, expand, reshape, transpose
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__ = ["flat_indices"]

MAX_MASK = 2**26  # elements of the mask over all pairs of target and update that a scatter with reduction may make


def _indices(c: Call, index: int) -> MLOperand:
    """Indices in a type that WebNN gathers by; small known ones as int32."""
    known = c.peek(index)
    if known is not None and known.dtype == np.int64 and known.size and np.abs(known).max() < 2**31:
        return c.constant(known.astype(np.int32))
    x = c.x(index)
    return x if x.data_type in ("int32", "int64", "uint32") else c.b.cast(x, "int64")


@op("Gather")
def gather(c: Call) -> MLOperand:
    return c.b.gather(c.x(0), _indices(c, 1), axis=c.axis(c.integer("axis", 0), c.rank(0)))


@op("GatherElements")
def gather_elements(c: Call) -> MLOperand:
    """ONNX lets the indices cover less than the data along the other axes: the data is cut to them."""
    x, indices = c.x(0), _indices(c, 1)
    axis = c.axis(c.integer("axis", 0), c.rank(0))
    return c.b.gather_elements(_cut(c, x, indices.shape, axis), indices, axis=axis)


def _cut(c: Call, x: MLOperand, shape: Sequence[int], axis: int) -> MLOperand:
    sizes = [d if i == axis else s for i, (d, s) in enumerate(zip(x.shape, shape, strict=True))]
    if any(s > d for s, d in zip(sizes, x.shape, strict=True)):
        c.refuse(f"indices of shape {list(shape)} for data of shape {list(x.shape)}")
    return x if tuple(sizes) == x.shape else c.b.slice(x, [0] * len(sizes), sizes)


def flat_indices(c: Call, indices: MLOperand, dims: Sequence[int]) -> MLOperand:
    """The row numbers that index tuples (the last axis) name in a tensor whose leading dimensions are `dims`."""
    size = c.constant(np.array(dims), indices.data_type)
    wrapped = c.b.where(c.b.lesser(indices, c.scalar(0, indices)), c.b.add(indices, size), indices)
    strides = np.array([math.prod(dims[i + 1 :]) for i in range(len(dims))])
    places = c.b.mul(wrapped, c.constant(strides, indices.data_type))
    return c.b.reduce_sum(places, axes=[len(indices.shape) - 1], keep_dimensions=False)


@op("GatherND")
def gather_nd(c: Call) -> MLOperand:
    x, indices, batch = c.x(0), _indices(c, 1), c.integer("batch_dims")
    if batch == 0:
        return c.b.gather_nd(x, indices)
    if batch >= min(len(x.shape), len(indices.shape)) or x.shape[:batch] != indices.shape[:batch]:
        c.refuse(f"batch_dims {batch} for shapes {list(x.shape)} and {list(indices.shape)}")
    numbers = [np.arange(d).reshape([-1 if j == i else 1 for j in range(len(indices.shape))])
               for i, d in enumerate(x.shape[:batch])]  # fmt: skip
    lead = indices.shape[:-1]
    parts = [expand(c, c.constant(n, indices.data_type), (*lead, 1)) for n in numbers]
    return c.b.gather_nd(x, concat(c, [*parts, indices], len(indices.shape) - 1))


@op("Compress")
def compress(c: Call) -> Any:
    """The condition decides the shape, so it has to be known."""
    condition = np.asarray(c.known(1, "the condition")).reshape(-1).astype(bool)
    shape = c.shape(0)
    axis = c.axis(c.integer("axis"), len(shape)) if "axis" in c.node.attrs else 0
    x = c.x(0) if "axis" in c.node.attrs else c.reshaped(0, (math.prod(shape),))
    index = np.flatnonzero(condition[: x.shape[axis]])
    if index.size == 0:
        return np.zeros([0 if i == axis else d for i, d in enumerate(x.shape)], numpy_type(c.dtype(0)))
    return c.b.gather(x, c.constant(index.astype(np.int32)), axis=axis)


@op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(c: Call) -> MLOperand:
    x, indices = c.x(0), c.reshaped(1, (math.prod(c.shape(1)),))
    y = c.b.gather(x, indices, axis=c.rank(0) - 1)
    return reshape(c, y, (1, *y.shape)) if c.rank(0) == 1 else y


@op("Binarizer", domain="ai.onnx.ml")
def binarizer(c: Call) -> MLOperand:
    x = c.x(0)
    return cast(c, c.b.greater(x, c.scalar(c.real("threshold"), x)), x.data_type)


# Scatter ----------------------------------------------------------------------------------------------------


def _reduction(c: Call) -> str:
    reduction = c.text("reduction", "none") if c.version >= 16 else "none"
    if reduction not in ("none", "add", "mul", "max", "min"):
        c.refuse(f"reduction {reduction!r}")
    return reduction


@op("Scatter", "ScatterElements")
def scatter_elements(c: Call) -> MLOperand:
    x, indices, updates = c.x(0), _indices(c, 1), c.x(2)
    axis = c.axis(c.integer("axis", 0), c.rank(0))
    reduction = _reduction(c)
    if indices.shape != updates.shape:
        c.refuse(f"indices of shape {list(indices.shape)}, updates of shape {list(updates.shape)}")
    if reduction != "none":
        return _scatter_reduced(c, x, indices, updates, axis, reduction)
    same = all(i == axis or a == b for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)))
    if same:
        return c.b.scatter_elements(x, indices, updates, axis=axis)
    return _scatter_by_place(c, x, indices, updates, axis)


def _scatter_by_place(c: Call, x: MLOperand, indices: MLOperand, updates: MLOperand, axis: int) -> MLOperand:
    """Indices that cover less than the data: each becomes the full index tuple of its element."""
    grids = np.meshgrid(*(np.arange(d) for d in indices.shape), indexing="ij")
    wide = (*indices.shape, 1)
    parts = [reshape(c, indices, wide) if i == axis else c.constant(g.reshape(wide), indices.data_type)
             for i, g in enumerate(grids)]  # fmt: skip
    return c.b.scatter_nd(x, concat(c, parts, len(indices.shape)), updates)


_COMBINE = {"add": ("add", "reduce_sum"), "mul": ("mul", "reduce_product"), "max": ("max", "reduce_max"),
            "min": ("min", "reduce_min")}  # fmt: skip


def _neutral(c: Call, reduction: str, x: MLOperand) -> float:
    if reduction in ("add", "mul"):
        return 0 if reduction == "add" else 1
    if is_float(x.data_type):
        return -math.inf if reduction == "max" else math.inf
    info = np.iinfo(x.data_type)
    return int(info.min if reduction == "max" else info.max)


def _combined(c: Call, x: MLOperand, hit: MLOperand, updates: MLOperand, axis: int, reduction: str) -> MLOperand:
    """x combined with the updates that `hit` selects, reduced over `axis`."""
    combine, reduce = _COMBINE[reduction]
    chosen = c.b.where(hit, updates, c.scalar(_neutral(c, reduction, x), x))
    total = getattr(c.b, reduce)(chosen, axes=[axis], keep_dimensions=False)
    result: MLOperand = getattr(c.b, combine)(x, total)
    return result


def _scatter_reduced(
    c: Call, x: MLOperand, indices: MLOperand, updates: MLOperand, axis: int, reduction: str
) -> MLOperand:
    """Every target looks at every update of its line: right also where indices repeat."""
    rank, size = len(x.shape), x.shape[axis]
    if math.prod(indices.shape) * size > MAX_MASK:
        c.refuse(f"{math.prod(indices.shape)} updates onto {size} targets are too many to compare")
    others = [d for i, d in enumerate(x.shape) if i != axis]
    if [d for i, d in enumerate(indices.shape) if i != axis] != others:
        indices, updates = (_cover(c, v, x.shape, axis, fill) for v, fill in ((indices, size), (updates, 0)))
    wrapped = c.b.where(c.b.lesser(indices, c.scalar(0, indices)), c.b.add(indices, c.scalar(size, indices)), indices)
    # A new axis for the targets comes before the axis of the updates.
    wide = (*indices.shape[:axis], 1, *indices.shape[axis:])
    places = np.arange(size).reshape([size if i == axis else 1 for i in range(rank + 1)])
    hit = c.b.equal(reshape(c, wrapped, wide), c.constant(places, indices.data_type))
    return _combined(c, x, hit, reshape(c, updates, wide), axis + 1, reduction)


def _cover(c: Call, x: MLOperand, shape: Sequence[int], axis: int, fill: int) -> MLOperand:
    """Indices or updates that cover less than the data along other axes, filled up with what hits nothing."""
    end = [0 if i == axis else s - d for i, (s, d) in enumerate(zip(shape, x.shape, strict=True))]
    return c.b.pad(x, [0] * len(end), end, value=fill)


@op("ScatterND")
def scatter_nd(c: Call) -> MLOperand:
    x, indices, updates = c.x(0), _indices(c, 1), c.x(2)
    reduction = _reduction(c)
    if reduction == "none":
        return c.b.scatter_nd(x, indices, updates)
    depth = indices.shape[-1]
    rows, inner, count = math.prod(x.shape[:depth]), math.prod(x.shape[depth:]), math.prod(indices.shape[:-1])
    if rows * count * inner > MAX_MASK:
        c.refuse(f"{count} updates onto {rows} targets are too many to compare")
    at = reshape(c, flat_indices(c, indices, x.shape[:depth]), (1, count, 1))
    hit = c.b.equal(at, c.constant(np.arange(rows).reshape(rows, 1, 1), indices.data_type))
    flat = reshape(c, x, (rows, inner))
    return reshape(c, _combined(c, flat, hit, reshape(c, updates, (1, count, inner)), 1, reduction), x.shape)


@op("TensorScatter")
def tensor_scatter(c: Call) -> MLOperand:
    """Each batch's block of updates goes to its own place along `axis`."""
    cache, updates, mode = c.x(0), c.x(1), c.text("mode", "linear")
    rank = len(cache.shape)
    axis = c.axis(c.integer("axis", -2), rank)
    if mode not in ("linear", "circular") or axis == 0:
        c.refuse(f"mode {mode!r}, axis {axis}")
    batch, count, size = cache.shape[0], updates.shape[axis], cache.shape[axis]
    start = reshape(c, _indices(c, 2), (batch, 1)) if c.has(2) else c.constant(np.zeros((batch, 1), np.int64))
    at = c.b.add(start, c.constant(np.arange(count).reshape(1, count), start.data_type))
    if mode == "circular":
        turns = c.b.mul(c.b.div(at, c.scalar(size, at)), c.scalar(size, at))
        at = c.b.sub(at, turns)
    # With the axis second, an index tuple is (batch, place).
    order = [0, axis, *(i for i in range(1, rank) if i != axis)]
    back = [order.index(i) for i in range(rank)]
    rows = c.constant(np.broadcast_to(np.arange(batch).reshape(batch, 1, 1), (batch, count, 1)), at.data_type)
    tuples = c.b.concat([rows, reshape(c, at, (batch, count, 1))], 2)
    y = c.b.scatter_nd(transpose(c, cache, order), tuples, transpose(c, updates, order))
    return transpose(c, y, back)


