"""Quantization: QuantizeLinear and its relatives, and the operators on quantized tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.elements import carrier_of, is_float, name_of_elem, short_range
from webnn_cl.onnx.operators.casting import round_short_float
from webnn_cl.onnx.operators.common import cast, reshape, slice_axis, unsqueeze_to
from webnn_cl.onnx.operators.convolution import Window, convolve, flat, window_of
from webnn_cl.onnx.operators.matrix import EXACT, exact_parts, matmul_any
from webnn_cl.onnx.registry import op
from webnn_cl.onnx.values import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webnn_cl.onnx.call import Call
    from webnn_cl.onnx.values import Array
    from webnn_cl.operand import MLOperand

__all__: list[str] = []

_DIRECT = ("int8", "uint8", "int32", "uint32")


def _parameter_shape(c: Call, index: int) -> list[int]:
    """The shape, with the rank of input 0, of a scale or zero point: one value, one per slice, or one per block."""
    shape, given = c.shape(0), c.shape(index)
    if math.prod(given) == 1:
        return [1] * len(shape)
    axis = c.axis(c.integer("axis", 1), len(shape))
    block = c.integer("block_size")
    if block == 0 and len(given) == 1 and given[0] == shape[axis]:
        return list(unsqueeze_to(given, len(shape), axis))
    fits = len(given) == len(shape) and (*given[:axis], *given[axis + 1 :]) == (*shape[:axis], *shape[axis + 1 :])
    if not fits or block < 1 or given[axis] * block != shape[axis]:
        c.refuse(f"scale of shape {list(given)}, axis {axis}, block_size {block} for {list(shape)}")
    return list(given)


@op("QuantizeLinear")
def quantize_linear(c: Call) -> Any:
    if c.has(2):
        dtype = c.dtype(2)
    else:
        dtype = name_of_elem(c.integer("output_dtype") or 2)
    x = c.x(0)
    shape = _parameter_shape(c, 1)
    scale = cast(c, c.reshaped(1, shape), x.data_type)
    if is_float(dtype):
        return _quantize_float(c, x, scale, dtype)
    limits = short_range(dtype)
    if limits is None:
        zero = c.reshaped(2, shape) if c.has(2) else c.constant(np.zeros(shape, carrier_of(dtype)))
        return Tensor(c.b.quantize_linear(x, scale, zero), dtype, c.sources())
    zero = cast(c, c.reshaped(2, shape), "int32") if c.has(2) else c.constant(np.zeros(shape, np.int32))
    wide = c.b.clamp(c.b.quantize_linear(x, scale, zero), min_value=limits[0], max_value=limits[1])
    return c.tensor(wide, dtype)


def _quantize_float(c: Call, x: MLOperand, scale: MLOperand, dtype: str) -> Any:
    if c.has(2) and (c.peek(2) is None or np.any(np.asarray(c.peek(2), np.float32))):
        zero = c.known(2, "the zero point")
        if np.any(np.asarray(zero, np.float32)):
            c.refuse(f"a zero point other than 0 for {dtype}")
    shape = np.broadcast_shapes(x.shape, _blocks(x.shape, scale.shape))
    ratio = c.b.div(x, _repeat(c, scale, shape))
    rounded = round_short_float(c, cast(c, ratio, "float32"), dtype, bool(c.integer("saturate", 1)))
    return Tensor(rounded, dtype, c.sources())


def _blocks(shape: Sequence[int], scale: Sequence[int]) -> tuple[int, ...]:
    return tuple(1 if s == 1 else d for d, s in zip(shape, scale, strict=True))


def _repeat(c: Call, scale: MLOperand, shape: Sequence[int]) -> MLOperand:
    """Each element of a blocked scale repeated over its block."""
    for axis, (size, count) in enumerate(zip(shape, scale.shape, strict=True)):
        if count not in (1, size):
            index = np.repeat(np.arange(count, dtype=np.int32), size // count)
            scale = c.b.gather(scale, c.constant(index), axis=axis)
    return scale


@op("DequantizeLinear")
def dequantize_linear(c: Call) -> Any:
    dtype = name_of_elem(c.integer("output_dtype")) if c.integer("output_dtype") else c.dtype(1)
    x, shape = c.x(0), _parameter_shape(c, 1)
    scale = cast(c, c.reshaped(1, shape), carrier_of(c.dtype(1)))
    if x.data_type in _DIRECT and scale.data_type in ("float32", "float16"):
        zero = c.reshaped(2, shape) if c.has(2) else c.constant(np.zeros(shape, x.data_type))
        return c.tensor(c.b.dequantize_linear(x, scale, cast(c, zero, x.data_type)), dtype)
    if not is_float(c.dtype(0)):
        c.refuse(f"DequantizeLinear of {c.dtype(0)}")
    if c.has(2):
        x = c.b.sub(x, c.reshaped(2, shape))
    return c.tensor(c.b.mul(cast(c, x, scale.data_type), _repeat(c, scale, x.shape)), dtype)


@op("DynamicQuantizeLinear")
def dynamic_quantize_linear(c: Call) -> list[Any]:
    x = c.x(0)
    zero = c.scalar(0, x)
    low, high = c.b.min(c.b.reduce_min(x), zero), c.b.max(c.b.reduce_max(x), zero)
    scale = c.b.div(c.b.sub(high, low), c.scalar(255, x))
    start = c.b.round_even(c.b.clamp(c.b.div(c.b.neg(low), scale), min_value=0, max_value=255))
    point = c.b.cast(start, "uint8")
    ones = [1] * len(x.shape)
    y = c.b.quantize_linear(x, reshape(c, scale, ones), reshape(c, point, ones))
    return [y, scale, point]


# Integer products -------------------------------------------------------------------------------------------


def _dequantized(
    c: Call, index: int, zero_index: int, shape: Sequence[int], axis: int, part: tuple[int, int]
) -> MLOperand:
    """`part` (start, length) along `axis` of input `index`, as float32 less its zero point, which lies in `shape`.

    By dequantize_linear, so that a product of two is one of integers where the device is faster so.
    """
    rank, (start, length) = c.rank(index), part
    known = c.peek(index)
    if known is None:
        x = slice_axis(c, c.x(index), axis, start, length)
    else:
        place = [slice(None)] * rank
        place[axis] = slice(start, start + length)
        x = c.constant(np.ascontiguousarray(known[tuple(place)]))
    places = (*[1] * (rank - len(shape)), *shape)
    if c.has(zero_index):
        zero = cast(c, c.reshaped(zero_index, places), x.data_type)
    else:
        zero = c.constant(np.zeros(places, x.data_type))
    return c.b.dequantize_linear(x, c.constant(np.ones(places, np.float32)), zero)


def _known_shifted(c: Call, index: int, zero_index: int, shape: Sequence[int]) -> Array | None:
    """Input `index` less its zero point, where both are known."""
    value, zero = c.peek(index), c.peek(zero_index) if c.has(zero_index) else np.zeros((), np.float32)
    if value is None or zero is None:
        return None
    return np.asarray(value.astype(np.float32) - zero.astype(np.float32).reshape(tuple(shape)))


def _largest(c: Call, index: int, zero_index: int) -> int:
    """The largest magnitude of input `index` less its zero point."""
    low, high = (-128, 127) if c.dtype(index) == "int8" else (0, 255)
    if c.dtype(index) not in ("int8", "uint8"):
        c.refuse(f"input {index} of type {c.dtype(index)}")
    zero = c.peek(zero_index)
    if not c.has(zero_index):
        return max(-low, high)
    zeros = [low, high] if zero is None else [int(zero.min()), int(zero.max())]
    return max(high - min(zeros), max(zeros) - low)


@op("MatMulInteger")
def matmul_integer(c: Call) -> MLOperand:
    return _matmul_integer(c, (0, 2), (1, 3))


def _matmul_integer(c: Call, a: tuple[int, int], b: tuple[int, int]) -> MLOperand:
    """The exact int32 product of (tensor, zero point) input pairs; zero points per tensor, per row, per column."""
    known = _known_shifted(c, *b, _zero_shape(c, *b, row=False))
    depth = max(c.rank(b[0]) - 2, 0)
    columns = np.full((c.shape(b[0])[depth], 1), float(_largest(c, *b)))
    if known is not None and known.ndim == 2:
        columns = np.abs(known)
    total: MLOperand | None = None
    for part in exact_parts(columns * _largest(c, *a)):
        left = _dequantized(c, *a, _zero_shape(c, *a, row=True), c.rank(a[0]) - 1, part)
        right = _dequantized(c, *b, _zero_shape(c, *b, row=False), depth, part)
        whole = c.b.cast(matmul_any(c, left, right), "int32")
        total = whole if total is None else c.b.add(total, whole)
    assert total is not None
    return total


def _zero_shape(c: Call, index: int, zero_index: int, row: bool) -> tuple[int, ...]:
    if not c.has(zero_index) or len(c.shape(zero_index)) != 1 or c.shape(zero_index) == (1,):
        return () if not c.has(zero_index) or math.prod(c.shape(zero_index)) == 1 else c.shape(zero_index)
    size = c.shape(zero_index)[0]
    return (size, 1) if row and c.rank(index) > 1 else (size,)


@op("ConvInteger")
def conv_integer(c: Call) -> MLOperand:
    return _conv_integer(c, (0, 2), (1, 3))


def _conv_integer(c: Call, x: tuple[int, int], w: tuple[int, int]) -> MLOperand:
    """The exact int32 convolution of (tensor, zero point) input pairs.

    Sums are computed in float32, in which they are exact up to 2^24: the channels are cut so that none is larger.
    Rounding takes away what a transformed algorithm may leave behind the point.
    """
    shape, weight = c.shape(x[0]), c.shape(w[0])
    if len(shape) not in (3, 4) or len(weight) != len(shape):
        c.refuse(f"input of shape {list(shape)}; 1 or 2 spatial dimensions are expressed")
    window = window_of(c, shape[2:], c.integers("kernel_shape") or weight[2:])
    many = c.has(w[1]) and c.rank(w[1]) == 1 and c.shape(w[1]) != (1,)
    places = unsqueeze_to(c.shape(w[1]), len(weight), 0) if many else ()
    known = _known_shifted(c, *w, places)
    area = math.prod(weight[2:])
    sizes = np.full((weight[1], 1), float(area * _largest(c, *w)))
    if known is not None:
        sizes = np.abs(known).reshape(*weight[:2], area).sum(axis=2).T
    parts = exact_parts(sizes * _largest(c, *x))
    if area * _largest(c, *x) * _largest(c, *w) > EXACT or (len(parts) > 1 and c.integer("group", 1) > 1):
        c.refuse(f"sums of {math.prod(weight[1:])} products are not exact in float32")
    total: MLOperand | None = None
    for part in parts:
        # Of several groups the filter has fewer channels than the input; then there is one part.
        data = _dequantized(c, *x, (), 1, part if len(parts) > 1 else (0, shape[1]))
        kernel = _dequantized(c, *w, places, 1, part)
        whole = c.b.cast(c.b.round_even(_conv_any(c, data, kernel, window)), "int32")
        total = whole if total is None else c.b.add(total, whole)
    assert total is not None
    return total


def _conv_any(c: Call, data: MLOperand, kernel: MLOperand, window: Window) -> MLOperand:
    if len(data.shape) == 4:
        return convolve(c, data, kernel, window, c.integer("group", 1))
    data = reshape(c, data, (*data.shape[:2], 1, data.shape[2]))
    kernel = reshape(c, kernel, (*kernel.shape[:2], 1, kernel.shape[2]))
    y = convolve(c, data, kernel, flat(window), c.integer("group", 1))
    return reshape(c, y, (*y.shape[:2], y.shape[3]))


def _requantize(c: Call, total: MLOperand, factor: MLOperand, zero_index: int) -> Tensor:
    """int32 sums times a factor, rounded and saturated to the type of the zero point."""
    dtype = c.dtype(zero_index)
    scaled = c.b.mul(c.b.cast(total, "float32"), factor)
    ones = [1] * len(scaled.shape)
    zero = c.reshaped(zero_index, ones)
    unit = c.constant(np.ones(ones, np.float32))
    return Tensor(c.b.quantize_linear(scaled, unit, zero), dtype, c.sources())


def _single(c: Call, index: int) -> MLOperand:
    """A float32 parameter that holds one value, as a scalar."""
    if math.prod(c.shape(index)) != 1:
        c.refuse(f"input {index} of shape {list(c.shape(index))}; one value is expressed")
    return cast(c, c.reshaped(index, ()), "float32")


@op("QLinearMatMul")
def qlinear_matmul(c: Call) -> Tensor:
    total = _matmul_integer(c, (0, 2), (3, 5))
    rows = cast(c, c.reshaped(1, (*c.shape(1), 1) if c.rank(1) == 1 and c.shape(1) != (1,) else ()), "float32")
    columns = cast(c, c.reshaped(4, c.shape(4) if math.prod(c.shape(4)) > 1 else ()), "float32")
    factor = c.b.div(c.b.mul(rows, columns), _single(c, 6))
    return _requantize(c, total, factor, 7)


@op("QLinearConv")
def qlinear_conv(c: Call) -> Tensor:
    total = _conv_integer(c, (0, 2), (3, 5))
    rank = len(total.shape)
    if c.has(8):
        total = c.b.add(total, c.reshaped(8, unsqueeze_to(c.shape(8), rank, 1)))
    many = math.prod(c.shape(4)) > 1
    weights = cast(c, c.reshaped(4, unsqueeze_to(c.shape(4), rank, 1) if many else ()), "float32")
    factor = c.b.div(c.b.mul(_single(c, 1), weights), _single(c, 6))
    return _requantize(c, total, factor, 7)
