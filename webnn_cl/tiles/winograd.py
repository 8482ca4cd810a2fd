"""Lowering of 3 x 3 convolutions to Winograd F(4x4, 3x3) (winograd.cl)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.tiles.matrix import tile_kernel
from webnn_cl.tiles.plan import PANEL, TUNING, ceil_div, workers
from webnn_cl.tiles.rows import Axis, packed_filter

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering
    from webnn_cl.opencl.facts import DeviceFacts
    from webnn_cl.ops.conv_direct import Convolution

__all__ = ["can_winograd", "lower_winograd", "suits_winograd"]

TILE = 4  # outputs of a tile along each dimension
POINTS = 36
BLOCK = 24  # tiles: a multiple of the rows of both register tiles

INPUT, PRODUCTS, OUTPUT = 1, 2, 4
ALL_STAGES = INPUT | PRODUCTS | OUTPUT

# Cycles of one core: what the choice between Winograd and the direct way weighs.
TRANSFORM_CYCLES = 320.0  # of eight channels of a tile, one way
STREAM_BYTES = 8.0  # of filter that arrive from beyond the second cache
ADVANTAGE = 0.9


def can_winograd(conv: Convolution) -> bool:
    """Whether `conv` is a convolution of the kind that Winograd's algorithm computes: 3 x 3 taps, stride 1.

    The variable WEBNN_CL_WINOGRAD=0 turns it off: its error is about ten times the direct one's.
    """
    attrs = conv.node.attrs
    plain = conv.filter.height == conv.filter.width == 3 and conv.groups == 1
    plain = plain and tuple(attrs["strides"]) == (1, 1)
    if not plain or not conv.node.inputs["filter"].is_constant or os.environ.get("WEBNN_CL_WINOGRAD") == "0":
        return False
    return min(conv.input.channels, conv.output.channels) >= 8


def suits_winograd(conv: Convolution, facts: DeviceFacts) -> bool:
    """Whether Winograd's algorithm computes `conv`, and faster than the direct way."""
    return can_winograd(conv) and _winograd_cycles(conv, facts) < ADVANTAGE * _direct_cycles(conv, facts)


def _winograd_cycles(conv: Convolution, facts: DeviceFacts) -> float:
    c, o, tiles = conv.input.channels, conv.output.channels, _tiles(conv)
    products = POINTS * ceil_div(tiles, 6) * 6 * c * ceil_div(o, 8) * 8 / 16
    transforms = tiles * (ceil_div(c, 8) + ceil_div(o, 8)) * TRANSFORM_CYCLES
    return (products + transforms) / workers(facts) + _stream_cycles(4 * POINTS * c * o, conv, facts)


def _direct_cycles(conv: Convolution, facts: DeviceFacts) -> float:
    c, o = conv.input.channels, conv.output.channels
    pixels = conv.output.batch * conv.output.height * conv.output.width
    products = 9 * ceil_div(pixels, 6) * 6 * c * ceil_div(o, 8) * 8 / 16
    return products / workers(facts) + _stream_cycles(4 * 9 * c * o, conv, facts)


def _stream_cycles(nbytes: int, conv: Convolution, facts: DeviceFacts) -> float:
    """Reading a filter that does not stay in the cache, once if its panels are shared out between the cores."""
    return nbytes / STREAM_BYTES / workers(facts) if nbytes > TUNING.second_cache else 0.0


def _tiles(conv: Convolution) -> int:
    """Tiles of all images; with dilation, pixels of equal remainder make images of their own."""
    image, (down, apart) = conv.output, conv.node.attrs["dilations"]
    rows = down * ceil_div(ceil_div(image.height, down), TILE)
    return int(image.batch * rows * apart * ceil_div(ceil_div(image.width, apart), TILE))


@dataclass(frozen=True)
class Blocks:
    """Scratch memory of the stages: `count` blocks of `tiles` tiles, in floats."""

    tiles: int
    count: int
    depth: int
    panel_step: int
    step: int

    @classmethod
    def of(cls, tiles: int, total: int, depth: int, panels: int) -> Blocks:
        """Blocks that together hold `total` tiles; `panels` results are kept apart, or one if 0."""
        panel = POINTS * tiles * PANEL
        step = POINTS * tiles * depth + panel * max(panels, 1)
        return cls(tiles, ceil_div(total, tiles), depth, panel if panels else 0, step)


def lower_winograd(conv: Convolution, lw: Lowering) -> None:
    """All stages in one launch over blocks that stay in the cache; where that leaves cores idle, one launch each."""
    tiles, panels = _tiles(conv), ceil_div(conv.output.channels, PANEL)
    depth = ceil_div(conv.input.channels, 8) * 8
    fit = TUNING.winograd_cache // (4 * POINTS * (depth + PANEL)) // BLOCK * BLOCK
    size = max(BLOCK, min(fit, 4 * BLOCK))
    cores = workers(lw.facts)
    if ceil_div(tiles, size) >= 2 * cores:
        blocks = Blocks.of(size, tiles, depth, 0)
        items = min(blocks.count, cores * TUNING.items_per_core)
        scratch = lw.scratch(4 * blocks.step * items)
        _launch(conv, lw, blocks, scratch, ALL_STAGES, (items, 1, 1))
        return
    blocks = Blocks.of(min(4, ceil_div(tiles, BLOCK)) * BLOCK, tiles, depth, panels)
    scratch = lw.scratch(4 * blocks.step * blocks.count)
    parts = ceil_div(4 * cores, blocks.count)
    splits = min(POINTS, ceil_div(4 * cores, blocks.count * panels))
    _launch(conv, lw, blocks, scratch, INPUT, (blocks.count, min(parts, blocks.tiles), 1))
    _launch(conv, lw, blocks, scratch, PRODUCTS, (blocks.count, panels, splits))
    _launch(conv, lw, blocks, scratch, OUTPUT, (blocks.count, panels, max(1, ceil_div(parts, panels))))


def _launch(
    conv: Convolution, lw: Lowering, blocks: Blocks, scratch: Buffer, stages: int, items: tuple[int, int, int]
) -> None:
    inputs = conv.node.inputs
    planar = conv.input.layout == "nchw"
    storage = dtype_of(conv.node.output.data_type).storage
    defines = {"T": storage, "HAS_BIAS": int("bias" in inputs), "PLANAR": int(planar)}
    filter, points = _filters(conv, lw)
    tail = lw.tail(conv.node)
    bias: list[Arg] = [inputs["bias"]] if "bias" in inputs else []
    args: list[Arg] = [inputs["input"], points, filter, *bias, tail.output, scratch]
    for image in (conv.input, conv.output):
        args.append(dims((image.height, image.width, image.channels, image.batch)))
    top, _, left, _ = conv.node.attrs["padding"]
    args += [
        dims((*conv.node.attrs["dilations"], top, left)),
        np.int64(blocks.tiles),
        np.int64(blocks.count),
        np.int64(blocks.depth),
    ]
    args += [np.int64(blocks.step), np.int64(blocks.panel_step), np.int32(stages), *tail.args]
    lw.launch(tile_kernel("winograd.cl", "winograd", defines, tail), args, items)


def _filters(conv: Convolution, lw: Lowering) -> tuple[Buffer, Buffer]:
    """The filter in panels, and transformed."""
    (row,), (column,) = Axis.of(conv, 0), Axis.of(conv, 1)
    filter = packed_filter(conv, lw, row, column)
    c, panels = conv.input.channels, ceil_div(conv.output.channels, PANEL)

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        kernel = tile_kernel("winograd_filter.cl", "winograd_filter", {})
        lw.launch(kernel, [filter, target, np.int64(c)], (c, panels))

    key = ("winograd", c, conv.output.channels, conv.filter.strides)
    return filter, lw.packed(conv.node.inputs["filter"], key, 4 * POINTS * c * panels * PANEL, emit)
