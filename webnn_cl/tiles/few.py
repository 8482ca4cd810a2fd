"""Lowering of convolutions of few input channels to channels-last results (conv_few.cl)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.strided import View
from webnn_cl.tiles.plan import ROWS, ceil_div, pieces
from webnn_cl.tiles.product import tile_kernel
from webnn_cl.tiles.rows import Axis, packed_filter

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.ops.conv_direct import Convolution

__all__ = ["is_few", "lower_few"]

# Above so many channels, rows are read where they lie (conv_rows.cl).
MOST_CHANNELS = 15
# Of conv_few.cl: floats of the copied rows, and the most taps times channels.
ROOM, DEPTH = 8192, 256
# Floats of copied rows that leave room for filter and results in the first cache.
GOOD_ROOM = 4096


def is_few(conv: Convolution) -> bool:
    """Whether the kernel here computes `conv`."""
    if conv.transposed or conv.groups != 1 or conv.output.layout != "nhwc" or conv.input.channels > MOST_CHANNELS:
        return False
    depth = conv.filter.height * conv.filter.width * conv.input.channels
    return depth <= DEPTH and _room(conv, 1, 1) <= ROOM


def lower_few(conv: Convolution, lw: Lowering) -> None:
    """One launch."""
    inputs, attrs, out, tail = conv.node.inputs, conv.node.attrs, conv.output, lw.tail(conv.node)
    source, view = _source(inputs["input"], lw)
    image, row, column, channel = view.strides
    part = Part.of(conv, lw)
    defines = {"T": dtype_of(conv.node.output.data_type).storage, "HAS_BIAS": int("bias" in inputs), "ROOM": ROOM}
    bias: list[Arg] = [inputs["bias"]] if "bias" in inputs else []
    w = packed_filter(conv, lw, Axis.of(conv, 0)[0], Axis.of(conv, 1)[0])
    top, _, left, _ = attrs["padding"]
    args: list[Arg] = [source, w, *bias, tail.output]
    args.append(dims((*view.shape[1:], image, channel, row, column, view.offset)))
    args += [dims((out.height, out.width, out.channels)), dims((conv.filter.height, conv.filter.width))]
    args += [dims((*attrs["strides"], *attrs["dilations"], top, left))]
    args += [np.int64(part.rows), np.int64(part.columns), *tail.args]
    items = (ceil_div(out.width, part.columns), ceil_div(out.height, part.rows), out.batch)
    lw.launch(tile_kernel("conv_few.cl", "conv_few", defines, tail), args, items)


def _source(value: Value, lw: Lowering) -> tuple[Value, View]:
    """What holds an image, and how it lies there, channels last: as it is where its columns or the channels of its
    pixels are neighbours, else turned."""
    found = lw.view_of(value)
    if found is not None:
        _, _, column, channel = found[1].strides
        if column == 1 or (channel == 1 and column == value.shape[3]):
            return found
    return value, View.packed(value.shape)


@dataclass(frozen=True)
class Part:
    """Rows and columns that a work-item computes."""

    rows: int
    columns: int

    @classmethod
    def of(cls, conv: Convolution, lw: Lowering) -> Part:
        """Whole rows if their copy fits, as many as make a work-item worth its launch and stay in the first cache."""
        out = conv.output
        columns = _most(out.width, lambda n: _room(conv, 1, n) <= ROOM)
        depth = conv.filter.height * conv.filter.width * conv.input.channels
        worth = pieces(out.height * out.batch, 2.0 * columns * depth * out.channels, lw.facts)
        rows = _most(min(worth, out.height), lambda n: _room(conv, n, columns) <= GOOD_ROOM)
        return cls(rows, columns)


def _room(conv: Convolution, rows: int, columns: int) -> int:
    """Floats that a work-item copies."""
    attrs = conv.node.attrs
    extents = (rows, ceil_div(columns, ROWS) * ROWS)
    taps = (conv.filter.height, conv.filter.width)
    height, width = (
        (extents[d] - 1) * attrs["strides"][d] + (taps[d] - 1) * attrs["dilations"][d] + 1 for d in (0, 1)
    )
    return int(height * width * conv.input.channels)


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `limit` that fits; 1 if none does."""
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
