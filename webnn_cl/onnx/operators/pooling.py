"""Max, average and Lp pooling in one to three spatial dimensions, their global forms, MaxUnpool."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.operators.common import cast, pad_axes, reshape, slice_axis
from webnn_cl.onnx.operators.convolution import Window, flat, window_of
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__: list[str] = []

Pool = Callable[..., "MLOperand"]


def _window(c: Call) -> tuple[Window, tuple[int, ...]]:
    """The pooling window and the size of the output."""
    spatial = c.shape(0)[2:]
    if not 1 <= len(spatial) <= 3:
        c.refuse(f"input of shape {list(c.shape(0))}; 1 to 3 spatial dimensions are expressed")
    kernel = c.integers("kernel_shape")
    if kernel is None:
        c.refuse("kernel_shape is missing")
    window = window_of(c, spatial, kernel)
    return window, tuple(_size(c, window, i, d) for i, d in enumerate(spatial))


def _size(c: Call, window: Window, axis: int, size: int) -> int:
    span = size + sum(window.pads[axis]) - window.extent(axis)
    stride = window.strides[axis]
    if span < 0:
        c.refuse(f"the kernel spans {window.extent(axis)} of {size + sum(window.pads[axis])} elements")
    if not c.integer("ceil_mode") or c.text("auto_pad", "NOTSET") not in ("NOTSET", ""):
        return span // stride + 1
    count = -(-span // stride) + 1
    # A last window that would start in the padding at the end is left out.
    return count - 1 if (count - 1) * stride >= size + window.pads[axis][0] else count


def _pool_2d(c: Call, pool: Pool, x: MLOperand, window: Window, size: Sequence[int]) -> MLOperand:
    (top, bottom), (left, right) = window.pads
    spans = [x.shape[i + 2] + sum(window.pads[i]) - window.extent(i) for i in (0, 1)]
    floor = all(s == span // t + 1 for s, span, t in zip(size, spans, window.strides, strict=True))
    y = pool(
        x,
        window_dimensions=list(window.kernel),
        padding=[top, bottom, left, right],
        strides=list(window.strides),
        dilations=list(window.dilations),
        output_shape_rounding="floor" if floor else "ceil",
    )
    # Rounding up may add a window that lies in the padding.
    return slice_axis(c, slice_axis(c, y, 2, 0, size[0]), 3, 0, size[1])


def _pool(c: Call, pool: Pool, x: MLOperand, window: Window, size: Sequence[int]) -> MLOperand:
    """1-D as rows of height 1; 3-D, for poolings that can be done axis by axis, as planes and then depth."""
    lead, spatial = x.shape[:2], x.shape[2:]
    if len(spatial) == 2:
        return _pool_2d(c, pool, x, window, size)
    if len(spatial) == 1:
        y = _pool_2d(c, pool, reshape(c, x, (*lead, 1, *spatial)), flat(window), (1, *size))
        return reshape(c, y, (*lead, *size))
    depth, height, width = spatial
    plane = Window(window.kernel[1:], window.strides[1:], window.dilations[1:], window.pads[1:])
    y = _pool_2d(c, pool, reshape(c, x, (lead[0], lead[1] * depth, height, width)), plane, size[1:])
    column = Window((window.kernel[0], 1), (window.strides[0], 1), (window.dilations[0], 1), (window.pads[0], (0, 0)))
    area = size[1] * size[2]
    y = _pool_2d(c, pool, reshape(c, y, (*lead, depth, area)), column, (size[0], area))
    return reshape(c, y, (*lead, *size))


# Max --------------------------------------------------------------------------------------------------------


@op("MaxPool")
def max_pool(c: Call) -> list[Any]:
    window, size = _window(c)
    if c.wants(1):
        return _max_pool_with_indices(c, window, size)
    return [_pool(c, c.b.max_pool2d, c.x(0), window, size)]


MAX_WINDOW = 128


def _max_pool_with_indices(c: Call, window: Window, size: Sequence[int]) -> list[Any]:
    """Each place of the kernel is a strided slice of the input; the largest of them tells value and place."""
    x, lead, spatial = c.x(0), c.shape(0)[:2], c.shape(0)[2:]
    if math.prod(window.kernel) > MAX_WINDOW:
        c.refuse(f"indices of a window of {math.prod(window.kernel)} elements")
    lowest = -math.inf if x.data_type in ("float32", "float16") else int(np.iinfo(x.data_type).min)
    reach = [(s - 1) * t + window.extent(i) for i, (s, t) in enumerate(zip(size, window.strides, strict=True))]
    end = [max(0, r - d - p[0]) for r, d, p in zip(reach, spatial, window.pads, strict=True)]
    padded = pad_axes(c, x, (0, 0, *(p[0] for p in window.pads)), (0, 0, *end), value=lowest)
    planes = []
    for place in itertools.product(*(range(k) for k in window.kernel)):
        plane = padded
        for axis, k in enumerate(place):
            start, stride = k * window.dilations[axis], window.strides[axis]
            plane = slice_axis(c, plane, axis + 2, start, (size[axis] - 1) * stride + 1, stride)
        planes.append(reshape(c, plane, (*lead, 1, *size)))
    stacked = c.b.concat(planes, 2) if len(planes) > 1 else planes[0]
    winner = c.b.arg_max(stacked, 2, keep_dimensions=True)
    value = reshape(c, c.b.reduce_max(stacked, axes=[2], keep_dimensions=True), (*lead, *size))
    table = c.constant(_places(window, spatial, size, lead, bool(c.integer("storage_order"))))
    index = c.b.gather_elements(c.b.expand(table, stacked.shape), winner, axis=2)
    offsets = np.arange(math.prod(lead)).reshape(*lead, *[1] * len(size)) * math.prod(spatial)
    return [value, c.b.add(reshape(c, index, (*lead, *size)), c.constant(offsets, "int64"))]


def _places(window: Window, spatial: Sequence[int], size: Sequence[int], lead: Sequence[int], columns: bool) -> Any:
    """For each kernel place and output element, the flat index of the input element within its channel."""
    grids = np.meshgrid(*(np.arange(s) for s in size), indexing="ij")
    rows = []
    for place in itertools.product(*(range(k) for k in window.kernel)):
        at = [
            np.clip(g * window.strides[i] - window.pads[i][0] + place[i] * window.dilations[i], 0, spatial[i] - 1)
            for i, g in enumerate(grids)
        ]
        rows.append(np.ravel_multi_index(at, tuple(spatial), order="F" if columns else "C"))
    return np.stack(rows).astype(np.int64)[None, None]


@op("MaxUnpool")
def max_unpool(c: Call) -> MLOperand:
    """The values scattered to their flat indices in a tensor of zeros."""
    shape, kernel = c.shape(0), c.integers("kernel_shape") or []
    rank = len(shape) - 2
    strides, pads = c.integers("strides") or [1] * rank, c.integers("pads") or [0] * 2 * rank
    spatial = [(shape[i + 2] - 1) * strides[i] - pads[i] - pads[i + rank] + kernel[i] for i in range(rank)]
    if c.has(2):
        return _unpool_into(c, shape, spatial, c.known_ints(2, "output_shape"))
    output = [*shape[:2], *spatial]
    return reshape(c, _scatter_flat(c, c.x(0), c.x(1), math.prod(output)), output)


def _scatter_flat(c: Call, values: MLOperand, indices: MLOperand, size: int) -> MLOperand:
    zeros = c.constant(np.broadcast_to(np.zeros((), values.data_type), (size,)))
    flat_shape = (math.prod(values.shape),)
    return c.b.scatter_nd(zeros, reshape(c, indices, (*flat_shape, 1)), reshape(c, values, flat_shape))


def _unpool_into(c: Call, shape: Sequence[int], spatial: Sequence[int], output: Sequence[int]) -> MLOperand:
    """A given output_shape: indices count within the inferred size, so the result is placed in its corner."""
    small = [*shape[:2], *spatial]
    y = reshape(c, _scatter_flat(c, c.x(0), c.x(1), math.prod(small)), small)
    if any(o < s for o, s in zip(output, small, strict=True)):
        c.refuse(f"output_shape {list(output)} below {small}")
    return pad_axes(c, y, [0] * len(small), [o - s for o, s in zip(output, small, strict=True)])


# Average and Lp ---------------------------------------------------------------------------------------------


@op("AveragePool")
def average_pool(c: Call) -> MLOperand:
    """WebNN divides by the elements inside the input; padding counts as elements once it is made explicit."""
    window, size = _window(c)
    x = c.x(0)
    if c.integer("count_include_pad") and any(any(p) for p in window.pads):
        x = pad_axes(c, x, (0, 0, *(p[0] for p in window.pads)), (0, 0, *(p[1] for p in window.pads)))
        window = replace(window, pads=((0, 0),) * len(size))
    # Means of means are the mean, since all windows that share a row or a plane count the same elements of it.
    return _pool(c, c.b.average_pool2d, x, window, size)


@op("LpPool")
def lp_pool(c: Call) -> MLOperand:
    window, size = _window(c)
    p, x = c.integer("p", 2), c.x(0)
    if p == 2:
        return _pool(c, c.b.l2_pool2d, x, window, size)
    magnitude = c.b.abs(x)
    powered = magnitude if p == 1 else c.b.pow(magnitude, c.scalar(p, x))
    mean = _pool(c, c.b.average_pool2d, powered, window, size)
    total = c.b.mul(mean, cast(c, c.constant(_counts(c.shape(0)[2:], window, size), "float32"), x.data_type))
    return total if p == 1 else c.b.pow(total, c.scalar(1 / p, x))


def _counts(spatial: Sequence[int], window: Window, size: Sequence[int]) -> Any:
    """How many input elements each window covers."""
    total = np.ones((), np.float32)
    for axis, (length, count) in enumerate(zip(spatial, size, strict=True)):
        starts = np.arange(count) * window.strides[axis] - window.pads[axis][0]
        places = starts[:, None] + np.arange(window.kernel[axis]) * window.dilations[axis]
        total = np.multiply.outer(total, ((places >= 0) & (places < length)).sum(axis=1).astype(np.float32))
    return total


@op("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(c: Call) -> MLOperand:
    x, shape = c.x(0), c.shape(0)
    axes = list(range(2, len(shape)))
    if c.node.op_type == "GlobalMaxPool":
        return c.b.reduce_max(x, axes=axes, keep_dimensions=True)
    if c.node.op_type == "GlobalAveragePool":
        if len(shape) == 4:
            return c.b.average_pool2d(x)
        return c.b.reduce_mean(x, axes=axes, keep_dimensions=True)
    p = c.integer("p", 2)
    if p == 2:
        return c.b.reduce_l2(x, axes=axes, keep_dimensions=True)
    if p == 1:
        return c.b.reduce_l1(x, axes=axes, keep_dimensions=True)
    total = c.b.reduce_sum(c.b.pow(c.b.abs(x), c.scalar(p, x)), axes=axes, keep_dimensions=True)
    return c.b.pow(total, c.scalar(1 / p, x))
