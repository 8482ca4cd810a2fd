"""Reductions, arg-max, running sums and products, TopK."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.elements import is_float
from webnn_cl.onnx.operators.common import cast, pad_axes, slice_axis
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__: list[str] = []

_REDUCTIONS = {
    "ReduceL1": "reduce_l1", "ReduceL2": "reduce_l2", "ReduceLogSum": "reduce_log_sum", "ReduceMax": "reduce_max",
    "ReduceLogSumExp": "reduce_log_sum_exp", "ReduceMean": "reduce_mean", "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_product", "ReduceSum": "reduce_sum", "ReduceSumSquare": "reduce_sum_square",
}  # fmt: skip
_FLOAT_ONLY = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean")
# Operator set from which the axes are an input.
_AXES_INPUT = {"ReduceSum": 13}


@op(*_REDUCTIONS)
def reduce(c: Call) -> MLOperand:
    name, rank = c.node.op_type, c.rank(0)
    if name in _FLOAT_ONLY and not is_float(c.dtype(0)):
        c.refuse(f"{name} of {c.dtype(0)}")
    if c.version >= _AXES_INPUT.get(name, 18):
        axes = c.known_ints(1, "axes") if c.has(1) else []
    else:
        axes = c.integers("axes") or []
    if not axes and c.integer("noop_with_empty_axes"):
        return c.x(0)
    axes = c.axes(axes or list(range(rank)), rank)
    operator: Callable[..., MLOperand] = getattr(c.b, _REDUCTIONS[name])
    return operator(c.x(0), axes=axes, keep_dimensions=bool(c.integer("keepdims", 1)))


@op("ArgMax", "ArgMin")
def arg(c: Call) -> MLOperand:
    x, rank = c.x(0), c.rank(0)
    axis, keep = c.axis(c.integer("axis", 0), rank), bool(c.integer("keepdims", 1))
    operator = c.b.arg_max if c.node.op_type == "ArgMax" else c.b.arg_min
    if not c.integer("select_last_index"):
        return operator(x, axis, keep_dimensions=keep, output_data_type="int64")
    turned = operator(c.b.reverse(x, axes=[axis]), axis, keep_dimensions=keep, output_data_type="int64")
    return c.b.sub(c.scalar(x.shape[axis] - 1, turned), turned)


@op("CumSum")
def cumulative_sum(c: Call) -> MLOperand:
    axis = c.axis(c.known_ints(1, "axis")[0], c.rank(0))
    exclusive, turned = bool(c.integer("exclusive")), bool(c.integer("reverse"))
    return c.b.cumulative_sum(c.x(0), axis, exclusive=exclusive, reversed=turned)


@op("CumProd")
def cumulative_product(c: Call) -> MLOperand:
    """By doubling: after step k each element is the product of the 2^k elements up to it."""
    x = c.x(0)
    axis = c.axis(c.known_ints(1, "axis")[0], c.rank(0))
    turned, size = bool(c.integer("reverse")), x.shape[axis]
    if c.integer("exclusive"):
        x = _shift(c, x, axis, 1, turned)
    step = 1
    while step < size:
        x = c.b.mul(x, _shift(c, x, axis, step, turned))
        step *= 2
    return x


def _shift(c: Call, x: MLOperand, axis: int, step: int, turned: bool) -> MLOperand:
    """`x` moved by `step` along the axis, ones moving in."""
    size, none, amount = x.shape[axis], [0] * len(x.shape), [0] * len(x.shape)
    amount[axis] = step
    if turned:
        return slice_axis(c, pad_axes(c, x, none, amount, value=1), axis, step, size)
    return slice_axis(c, pad_axes(c, x, amount, none, value=1), axis, 0, size)


MAX_PAIRS = 2**26  # comparisons of all pairs that TopK may make


@op("TopK")
def top_k(c: Call) -> list[Any]:
    """By rank: an element's place is the number of elements that come before it, so no sort is needed."""
    k = c.known_ints(1, "k")[0] if c.version >= 10 else c.integer("k")
    x, rank = c.x(0), c.rank(0)
    axis = c.axis(c.integer("axis", -1), rank)
    size = x.shape[axis]
    largest = bool(c.integer("largest", 1))
    if not 0 <= k <= size:
        c.refuse(f"k is {k}, the axis has {size} elements")
    if k == 0:
        c.refuse("k is 0")
    if k == 1:
        return _best(c, x, axis, largest)
    if math.prod(x.shape) * size > MAX_PAIRS:
        c.refuse(f"{size} elements along the axis of {list(x.shape)} are too many to rank by comparing all pairs")
    return _ranked(c, x, axis, k, largest)


def _best(c: Call, x: MLOperand, axis: int, largest: bool) -> list[Any]:
    operator = c.b.arg_max if largest else c.b.arg_min
    index = operator(x, axis, keep_dimensions=True, output_data_type="int64")
    values = (c.b.reduce_max if largest else c.b.reduce_min)(x, axes=[axis], keep_dimensions=True)
    return [values, index]


def _ranked(c: Call, x: MLOperand, axis: int, k: int, largest: bool) -> list[Any]:
    """Pairs are laid out along two new trailing axes: the element, and the one that it is compared with."""
    rank, size = len(x.shape), x.shape[axis]
    order = [i for i in range(rank) if i != axis]
    rows = c.b.transpose(x, permutation=[*order, axis]) if axis != rank - 1 else x
    lead = rows.shape[:-1]
    mine, other = c.b.reshape(rows, [*lead, size, 1]), c.b.reshape(rows, [*lead, 1, size])
    before = (c.b.greater if largest else c.b.lesser)(other, mine)
    earlier = c.constant(np.tri(size, size, -1, dtype=np.uint8))
    before = c.b.logical_or(before, c.b.logical_and(c.b.equal(other, mine), earlier))
    place = c.b.reduce_sum(cast(c, before, "int32"), axes=[rank], keep_dimensions=False)
    hit = c.b.equal(c.b.reshape(place, [*lead, 1, size]), c.constant(np.arange(k, dtype=np.int32).reshape(k, 1)))
    numbers = c.constant(np.arange(size, dtype=np.int32))
    index = c.b.reduce_sum(c.b.mul(cast(c, hit, "int32"), numbers), axes=[rank], keep_dimensions=False)
    values = _pick(c, rows, index)
    back = [*range(axis), rank - 1, *range(axis, rank - 1)]
    if axis != rank - 1:
        values, index = c.b.transpose(values, permutation=back), c.b.transpose(index, permutation=back)
    return [values, index]


def _pick(c: Call, rows: MLOperand, index: MLOperand) -> MLOperand:
    """The elements of each row that `index` names."""
    return c.b.gather_elements(rows, index, axis=len(rows.shape) - 1)
