"""GridSample, RoiAlign, DeformConv: reading images at positions that are computed on the device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.onnx.operators.common import cast, reshape, slice_axis, transpose
from webnn_cl.onnx.operators.convolution import Window, window_of
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.onnx.values import Array
    from webnn_cl.operand import MLOperand

__all__: list[str] = []


@dataclass(frozen=True)
class _Tap:
    """One neighbour along one axis: its index as int32, its weight, and whether it lies inside (None: always)."""

    index: MLOperand
    weight: MLOperand | None
    inside: MLOperand | None


def _index(c: Call, position: MLOperand, size: int) -> MLOperand:
    """A whole float position as an index that is inside, whatever it was."""
    return c.b.cast(c.b.clamp(position, min_value=0, max_value=size - 1), "int32")


def _inside(c: Call, position: MLOperand, size: int) -> MLOperand:
    zero, last = c.scalar(0, position), c.scalar(size - 1, position)
    return c.b.logical_and(c.b.greater_or_equal(position, zero), c.b.lesser_or_equal(position, last))


def _reflect(c: Call, x: MLOperand, low: float, high: float) -> MLOperand:
    """Positions outside folded back at the borders, as often as needed."""
    span = high - low
    if span <= 0:
        return c.b.mul(x, c.scalar(0, x))
    away = c.b.abs(c.b.sub(x, c.scalar(low, x)))
    turns = c.b.floor(c.b.div(away, c.scalar(2 * span, x)))
    rest = c.b.sub(away, c.b.mul(turns, c.scalar(2 * span, x)))
    return c.b.sub(c.scalar(high, x), c.b.abs(c.b.sub(rest, c.scalar(span, x))))


def _linear_weights(c: Call, t: MLOperand) -> list[tuple[int, MLOperand]]:
    return [(0, c.b.sub(c.scalar(1, t), t)), (1, t)]


def _cubic_weights(c: Call, t: MLOperand) -> list[tuple[int, MLOperand]]:
    """Keys' kernel with a = -0.75 at the distances of four neighbours."""
    a, one = -0.75, c.scalar(1, t)

    def near(d: MLOperand) -> MLOperand:
        inner = c.b.sub(c.b.mul(d, c.scalar(a + 2, d)), c.scalar(a + 3, d))
        return c.b.add(c.b.mul(c.b.mul(inner, d), d), one)

    def far(d: MLOperand) -> MLOperand:
        inner = c.b.sub(c.b.mul(d, c.scalar(a, d)), c.scalar(5 * a, d))
        outer = c.b.add(c.b.mul(inner, d), c.scalar(8 * a, d))
        return c.b.sub(c.b.mul(outer, d), c.scalar(4 * a, d))

    rest = c.b.sub(one, t)
    return [(-1, far(c.b.add(t, one))), (0, near(t)), (1, near(rest)), (2, far(c.b.add(rest, one)))]


def _gathered(
    c: Call, rows: MLOperand, taps: Sequence[Sequence[_Tap]], dims: Sequence[int], base: MLOperand
) -> MLOperand:
    """The weighted sum over all combinations of taps; `rows` holds the channels of each pixel, `base` each image."""
    total: MLOperand | None = None
    for combination in itertools.product(*taps):
        at = base
        for axis, tap in enumerate(combination):
            stride = math.prod(dims[axis + 1 :])
            at = c.b.add(at, tap.index if stride == 1 else c.b.mul(tap.index, c.scalar(stride, tap.index)))
        value = c.b.gather(rows, at, axis=0)
        for tap in combination:
            if tap.inside is not None:
                inside = reshape(c, tap.inside, (*tap.inside.shape, 1))
                value = c.b.where(inside, value, c.scalar(0, value))
        for tap in combination:
            if tap.weight is not None:
                value = c.b.mul(value, cast(c, reshape(c, tap.weight, (*tap.weight.shape, 1)), value.data_type))
        total = value if total is None else c.b.add(total, value)
    assert total is not None
    return total


def _rows(c: Call, x: MLOperand) -> MLOperand:
    """[N, C, ...] as one row of channels per pixel of all images."""
    rank = len(x.shape)
    last = transpose(c, x, [0, *range(2, rank), 1])
    return reshape(c, last, (x.shape[0] * math.prod(x.shape[2:]), x.shape[1]))


# GridSample -------------------------------------------------------------------------------------------------


@op("GridSample")
def grid_sample(c: Call) -> MLOperand:
    x, grid = c.x(0), cast(c, c.x(1), "float32")
    dims, places = x.shape[2:], grid.shape[1:-1]
    if grid.shape[-1] != len(dims) or len(places) != len(dims):
        c.refuse(f"grid of shape {list(grid.shape)} for an input of shape {list(x.shape)}")
    count = math.prod(places)
    flat = reshape(c, grid, (x.shape[0], count, len(dims)))
    taps = []
    for axis, size in enumerate(dims):  # the grid lists the last dimension first
        part = reshape(c, slice_axis(c, flat, 2, len(dims) - 1 - axis, 1), (x.shape[0], count))
        taps.append(_taps(c, part, size))
    base = c.constant((np.arange(x.shape[0]) * math.prod(dims)).astype(np.int32).reshape(-1, 1))
    y = _gathered(c, _rows(c, x), taps, dims, base)
    y = transpose(c, y, (0, 2, 1))
    return reshape(c, y, (*x.shape[:2], *places))


def _taps(c: Call, normalized: MLOperand, size: int) -> list[_Tap]:
    """The neighbours of positions given in -1..1 along an axis of `size`."""
    mode, padding, corners = c.text("mode", "linear"), c.text("padding_mode", "zeros"), bool(c.integer("align_corners"))
    if padding not in ("zeros", "border", "reflection"):
        c.refuse(f"padding_mode {padding!r}")
    one, half = c.scalar(1, normalized), c.scalar(0.5, normalized)
    shifted = c.b.add(normalized, one)
    if corners:
        at = c.b.mul(c.b.mul(shifted, half), c.scalar(size - 1, shifted))
        low, high = 0.0, size - 1.0
    else:
        at = c.b.mul(c.b.sub(c.b.mul(shifted, c.scalar(size, shifted)), one), half)
        low, high = -0.5, size - 0.5
    at = c.b.round_even(at) if mode == "nearest" else at
    if not mode.endswith("cubic"):  # as in PyTorch and onnxruntime, cubic neighbours are moved one by one
        at = _brought_in(c, at, size, low, high, padding)
    if mode == "nearest":
        offsets: list[tuple[int, MLOperand | None]] = [(0, None)]
        first = at if padding == "zeros" else c.b.round_even(at)
    elif mode in ("bilinear", "linear", "bicubic", "cubic"):
        first = c.b.floor(at)
        weights = _linear_weights if mode.endswith("linear") else _cubic_weights
        offsets = [*weights(c, c.b.sub(at, first))]
    else:
        c.refuse(f"mode {mode!r}")
    return [_tap(c, first, offset, weight, size, (low, high), padding) for offset, weight in offsets]


def _brought_in(c: Call, at: MLOperand, size: int, low: float, high: float, padding: str) -> MLOperand:
    """Positions beyond the border, moved as the padding mode says."""
    if padding == "zeros":
        return at
    outside = c.b.logical_or(c.b.lesser(at, c.scalar(low, at)), c.b.greater(at, c.scalar(high, at)))
    if padding == "border":
        return c.b.where(outside, c.b.clamp(at, min_value=0, max_value=size - 1), at)
    return c.b.where(outside, _reflect(c, at, low, high), at)


def _tap(
    c: Call,
    first: MLOperand,
    offset: int,
    weight: MLOperand | None,
    size: int,
    border: tuple[float, float],
    padding: str,
) -> _Tap:
    at = c.b.add(first, c.scalar(offset, first)) if offset else first
    if padding == "zeros":
        return _Tap(_index(c, at, size), weight, _inside(c, at, size))
    if padding == "reflection":
        beyond = c.b.logical_or(c.b.lesser(at, c.scalar(0, at)), c.b.greater(at, c.scalar(size - 1, at)))
        at = c.b.where(beyond, c.b.round_even(_reflect(c, at, *border)), at)
    return _Tap(_index(c, at, size), weight, None)


# RoiAlign ---------------------------------------------------------------------------------------------------


@op("RoiAlign")
def roi_align(c: Call) -> MLOperand:
    """A fixed number of samples per bin, each from four neighbours."""
    x, rois, samples = c.x(0), cast(c, c.x(1), "float32"), c.integer("sampling_ratio")
    if samples < 1:
        c.refuse("sampling_ratio 0 takes as many samples as the size of a region asks for")
    count = rois.shape[0]
    half = c.version >= 16 and c.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    scale = c.scalar(c.real("spatial_scale", 1.0), rois)
    scaled = c.b.sub(c.b.mul(rois, scale), c.scalar(0.5 if half else 0.0, rois))
    left, top, right, bottom = (slice_axis(c, scaled, 1, i, 1) for i in range(4))
    bins = c.integer("output_height", 1), c.integer("output_width", 1)
    height, width = x.shape[2:]
    vertical = _bin_taps(c, top, bottom, bins[0], samples, height, half)
    horizontal = _bin_taps(c, left, right, bins[1], samples, width, half)
    rows, columns = bins[0] * samples, bins[1] * samples
    taps = [
        [_spread_tap(c, t, (count, rows, 1)) for t in vertical],
        [_spread_tap(c, t, (count, 1, columns)) for t in horizontal],
    ]
    base = c.b.mul(cast(c, c.x(2), "int32"), c.constant(np.int32(height * width)))
    return _pool_bins(c, x, taps, reshape(c, base, (count, 1, 1)), bins, samples)


def _bin_taps(
    c: Call, start: MLOperand, end: MLOperand, bins: int, samples: int, size: int, half: bool
) -> list[_Tap]:
    """Neighbours [regions, bins * samples] along one axis."""
    length = c.b.sub(end, start)
    if not half:
        length = c.b.max(length, c.scalar(1, length))
    steps = (np.arange(bins)[:, None] + (np.arange(samples) + 0.5) / samples).reshape(1, -1) / bins
    at = c.b.add(start, c.b.mul(length, c.constant(steps.astype(np.float32))))
    inside = c.b.logical_and(
        c.b.greater_or_equal(at, c.scalar(-1, at)), c.b.lesser_or_equal(at, c.scalar(size, at))
    )
    at = c.b.clamp(at, min_value=0, max_value=size - 1)
    low = c.b.floor(at)
    fraction = c.b.sub(at, low)
    upper = c.b.add(low, c.scalar(1, low))
    return [
        _Tap(_index(c, low, size), c.b.sub(c.scalar(1, fraction), fraction), inside),
        _Tap(_index(c, upper, size), fraction, inside),
    ]


def _spread_tap(c: Call, tap: _Tap, shape: Sequence[int]) -> _Tap:
    assert tap.weight is not None and tap.inside is not None
    return _Tap(reshape(c, tap.index, shape), reshape(c, tap.weight, shape), reshape(c, tap.inside, shape))


def _pool_bins(
    c: Call, x: MLOperand, taps: list[list[_Tap]], base: MLOperand, bins: tuple[int, int], samples: int
) -> MLOperand:
    """Mean of the samples of each bin, or their maximum."""
    count, channels, rows = base.shape[0], x.shape[1], _rows(c, x)
    mode = c.text("mode", "avg")
    if mode not in ("avg", "max"):
        c.refuse(f"mode {mode!r}")
    if mode == "avg":
        value = _gathered(c, rows, taps, x.shape[2:], base)
    else:  # of each sample the largest weighted neighbour, not their sum
        value = _gathered(c, rows, [taps[0][:1], taps[1][:1]], x.shape[2:], base)
        for i, j in ((0, 1), (1, 0), (1, 1)):
            one = [taps[0][i : i + 1], taps[1][j : j + 1]]
            value = c.b.max(value, _gathered(c, rows, one, x.shape[2:], base))
    split = reshape(c, value, (count, bins[0], samples, bins[1], samples, channels))
    pool = c.b.reduce_mean if mode == "avg" else c.b.reduce_max
    return transpose(c, pool(split, axes=[2, 4], keep_dimensions=False), (0, 3, 1, 2))


# DeformConv -------------------------------------------------------------------------------------------------


@op("DeformConv")
def deform_conv(c: Call) -> MLOperand:
    """Columns of sampled pixels times the weights."""
    x, weight, offset = c.x(0), c.shape(1), c.x(2)
    if len(x.shape) != 4:
        c.refuse(f"input of shape {list(x.shape)}; 2 spatial dimensions are expressed")
    (n, channels), groups, offset_groups = x.shape[:2], c.integer("group", 1), c.integer("offset_group", 1)
    window = window_of(c, x.shape[2:], c.integers("kernel_shape") or weight[2:])
    area, out = math.prod(window.kernel), offset.shape[2:]
    offsets = reshape(c, cast(c, offset, "float32"), (n, offset_groups, area, 2, *out))
    mask = reshape(c, c.x(4), (n, offset_groups, area, *out)) if c.has(4) else None
    each, columns = channels // offset_groups, []
    for group in range(offset_groups):
        image = slice_axis(c, x, 1, group * each, each)
        own = reshape(c, slice_axis(c, offsets, 1, group, 1), (n, area, 2, *out))
        taps = [_deformed(c, own, axis, x.shape[2 + axis], _window_places(window, out, axis)) for axis in (0, 1)]
        base = c.constant((np.arange(n) * math.prod(x.shape[2:])).astype(np.int32).reshape(n, 1, 1, 1))
        sampled = _gathered(c, _rows(c, image), taps, x.shape[2:], base)  # [n, area, rows, columns, channels]
        if mask is not None:
            sampled = c.b.mul(sampled, reshape(c, slice_axis(c, mask, 1, group, 1), (n, area, *out, 1)))
        columns.append(transpose(c, sampled, (0, 4, 1, 2, 3)))
    stacked = columns[0] if len(columns) == 1 else c.b.concat(columns, 1)
    matrix = reshape(c, stacked, (n, groups, channels // groups * area, math.prod(out)))
    kernel = c.reshaped(1, (groups, weight[0] // groups, weight[1] * area))
    y = reshape(c, c.b.matmul(kernel, matrix), (n, weight[0], *out))
    return c.b.add(y, c.reshaped(3, (weight[0], 1, 1))) if c.has(3) else y


def _window_places(window: Window, out: Sequence[int], axis: int) -> Array:
    """Where each kernel element of each output element lies without an offset: [area, rows, columns]."""
    starts = np.arange(out[axis]) * window.strides[axis] - window.pads[axis][0]
    places = np.arange(window.kernel[axis]) * window.dilations[axis]
    other = window.kernel[1 - axis]
    places = np.repeat(places, other) if axis == 0 else np.tile(places, other)
    at = places[:, None, None] + (starts[:, None] if axis == 0 else starts[None, :])
    return np.broadcast_to(at, (len(places), *out)).astype(np.float32)


def _deformed(c: Call, offsets: MLOperand, axis: int, size: int, places: Array) -> list[_Tap]:
    own = slice_axis(c, offsets, 2, axis, 1)
    own = reshape(c, own, (*offsets.shape[:2], *offsets.shape[3:]))
    at = c.b.add(own, c.constant(places))
    first = c.b.floor(at)
    weights = _linear_weights(c, c.b.sub(at, first))
    return [_tap(c, first, offset, weight, size, (0, 0), "zeros") for offset, weight in weights]
