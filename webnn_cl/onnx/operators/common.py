"""Small steps that several families share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.elements import short_range
from webnn_cl.onnx.values import Refusal

if TYPE_CHECKING:
    from webnn_cl.dtypes import DataType
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__ = [
    "broadcast_shape", "cast", "concat", "expand", "expression", "pad_axes", "reshape", "slice_axis", "stack",
    "transpose", "unsqueeze_to", "where_scalar", "wrap_short",
]  # fmt: skip


def reshape(c: Call, x: MLOperand, shape: Sequence[int]) -> MLOperand:
    """`x` in another shape; `x` itself when it has that shape."""
    return x if x.shape == tuple(shape) else c.b.reshape(x, list(shape))


def transpose(c: Call, x: MLOperand, permutation: Sequence[int]) -> MLOperand:
    """`x` with its axes permuted; `x` itself when nothing moves."""
    if list(permutation) == sorted(permutation):
        return x
    return c.b.transpose(x, permutation=list(permutation))


def cast(c: Call, x: MLOperand, data_type: DataType) -> MLOperand:
    """`x` as `data_type`; `x` itself when it has that type."""
    return x if x.data_type == data_type else c.b.cast(x, data_type)


def concat(c: Call, parts: Sequence[MLOperand], axis: int) -> MLOperand:
    """The parts joined along `axis`; a single part as it is."""
    return parts[0] if len(parts) == 1 else c.b.concat(list(parts), axis)


def stack(c: Call, parts: Sequence[MLOperand], axis: int) -> MLOperand:
    """The parts joined along a new axis."""
    shape = parts[0].shape
    wide = (*shape[:axis], 1, *shape[axis:])
    return concat(c, [reshape(c, p, wide) for p in parts], axis)


def expand(c: Call, x: MLOperand, shape: Sequence[int]) -> MLOperand:
    """`x` broadcast to `shape`; `x` itself when it has that shape."""
    return x if x.shape == tuple(shape) else c.b.expand(x, list(shape))


def slice_axis(c: Call, x: MLOperand, axis: int, start: int, size: int, stride: int = 1) -> MLOperand:
    """`size` elements of the window from `start` along one axis, every `stride`-th of them."""
    if start == 0 and size == x.shape[axis] and stride == 1:
        return x
    starts, sizes, strides = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    starts[axis], sizes[axis], strides[axis] = start, size, stride
    if stride == 1:
        return c.b.slice(x, starts, sizes)
    return c.b.slice(x, starts, sizes, strides=strides)


def pad_axes(
    c: Call, x: MLOperand, begin: Sequence[int], end: Sequence[int], value: float = 0.0, mode: Any = "constant"
) -> MLOperand:
    """`x` padded; `x` itself when nothing is added."""
    if not any(begin) and not any(end):
        return x
    if mode == "constant":
        return c.b.pad(x, list(begin), list(end), value=value)
    return c.b.pad(x, list(begin), list(end), mode=mode)


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that `shapes` broadcast to, as numpy does it; a Refusal when they don't."""
    try:
        return tuple(int(d) for d in np.broadcast_shapes(*(tuple(s) for s in shapes)))
    except ValueError:
        raise Refusal(f"shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast") from None


def unsqueeze_to(shape: Sequence[int], rank: int, axis: int) -> tuple[int, ...]:
    """`shape` placed so that its first dimension is `axis` of a tensor of `rank`: ones before and after."""
    after = rank - axis - len(shape)
    if after < 0:
        raise Refusal(f"shape {list(shape)} does not fit axis {axis} of rank {rank}")
    return (*[1] * axis, *shape, *[1] * after)


def where_scalar(c: Call, condition: MLOperand, x: MLOperand, otherwise: float) -> MLOperand:
    """`x` where the condition holds, else a number."""
    return c.b.where(condition, x, c.scalar(otherwise, x))


def wrap_short(c: Call, x: MLOperand, dtype: str) -> MLOperand:
    """Two's complement wrap of int16 and uint16 results, which a wider type carries; other types as they are."""
    limits = short_range(dtype)
    if limits is None:
        return x
    low, span = limits[0], limits[1] - limits[0] + 1
    shifted = c.b.sub(x, c.scalar(low, x)) if low else x
    whole = c.b.mul(c.b.div(shifted, c.scalar(span, x)), c.scalar(span, x))
    rest = c.b.sub(shifted, whole)
    rest = c.b.where(c.b.lesser(rest, c.scalar(0, x)), c.b.add(rest, c.scalar(span, x)), rest)
    return c.b.add(rest, c.scalar(low, x)) if low else rest


def expression(c: Call, text: str, **operands: MLOperand) -> MLOperand:
    """A scalar expression of the operands, for what WebNN has no operator for."""
    return c.b.elementwise(text, **operands)  # type: ignore[arg-type]  # operands are never called label
