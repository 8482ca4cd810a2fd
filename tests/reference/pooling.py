"""Pooling (operators.json: pooling); semantics.md gaps 5 to 7: padding counts as nothing, not even in a divisor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.reference.convolution import FROM_NCHW, TO_NCHW
from tests.reference.numbers import Array, is_float, wide
from tests.reference.registry import operator


def output_sizes_of(
    spatial: Sequence[int],
    window: Sequence[int],
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Output height and width by floor and by ceil of the exact quotient."""
    floor, ceil = [], []
    for d in range(2):
        slack = spatial[d] - (window[d] - 1) * dilations[d] - 1 + padding[2 * d] + padding[2 * d + 1]
        floor.append(slack // strides[d] + 1)
        ceil.append(-(-slack // strides[d]) + 1)
    return (floor[0], floor[1]), (ceil[0], ceil[1])


def _windows(
    input: Array,
    fill: Any,
    window_dimensions: Sequence[int] | None = None,
    padding: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    layout: str = "nchw",
    output_shape_rounding: str = "floor",
    output_sizes: Sequence[int] | None = None,
) -> tuple[Array, Array]:
    """Window elements as [N, C, outH, outW, taps] with `fill` for padding, and the count of real ones."""
    x = input.transpose(TO_NCHW[layout])
    height, width = x.shape[2:]
    window = window_dimensions or (height, width)
    floor, ceil = output_sizes_of((height, width), window, padding, strides, dilations)
    oh, ow = output_sizes or (ceil if output_shape_rounding == "ceil" else floor)
    rows = np.arange(oh)[:, None] * strides[0] + np.arange(window[0]) * dilations[0] - padding[0]
    columns = np.arange(ow)[:, None] * strides[1] + np.arange(window[1]) * dilations[1] - padding[2]
    rows, columns = rows[:, None, :, None], columns[None, :, None, :]
    real = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    taken = x[:, :, rows.clip(0, height - 1), columns.clip(0, width - 1)]
    elements = np.where(real, taken, np.asarray(fill, x.dtype)).reshape(*x.shape[:2], oh, ow, -1)
    return elements, real.reshape(oh, ow, -1).sum(-1)


@operator()
def average_pool2d(
    input: Array,
    *,
    window_dimensions: Sequence[int] | None = None,
    padding: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    layout: str = "nchw",
    output_shape_rounding: str = "floor",
    output_sizes: Sequence[int] | None = None,
) -> Array:
    options = (window_dimensions, padding, strides, dilations, layout, output_shape_rounding, output_sizes)
    elements, count = _windows(wide(input), 0, *options)
    return (elements.sum(-1) / count).transpose(FROM_NCHW[layout])


@operator()
def l2_pool2d(
    input: Array,
    *,
    window_dimensions: Sequence[int] | None = None,
    padding: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    layout: str = "nchw",
    output_shape_rounding: str = "floor",
    output_sizes: Sequence[int] | None = None,
) -> Array:
    options = (window_dimensions, padding, strides, dilations, layout, output_shape_rounding, output_sizes)
    elements, _ = _windows(wide(input), 0, *options)
    return np.sqrt((elements * elements).sum(-1)).transpose(FROM_NCHW[layout])


@operator()
def max_pool2d(
    input: Array,
    *,
    window_dimensions: Sequence[int] | None = None,
    padding: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    layout: str = "nchw",
    output_shape_rounding: str = "floor",
    output_sizes: Sequence[int] | None = None,
) -> Array:
    lowest = -np.inf if is_float(input.dtype) else np.iinfo(input.dtype).min
    options = (window_dimensions, padding, strides, dilations, layout, output_shape_rounding, output_sizes)
    elements, _ = _windows(input, lowest, *options)
    return elements.max(-1).transpose(FROM_NCHW[layout])
