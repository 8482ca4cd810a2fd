"""Lowering of 3 x 3 convolutions to Winograd F(4x4, 3x3) and F(2x2, 3x3) (winograd.cl)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.tiles.plan import PANEL, TUNING, ceil_div, workers
from webnn_cl.tiles.product import tile_kernel
from webnn_cl.tiles.rows import Axis, packed_filter

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering
    from webnn_cl.opencl.facts import DeviceFacts
    from webnn_cl.ops.conv_direct import Convolution

__all__ = ["LARGE", "SMALL", "Tile", "can_winograd", "lower_winograd", "winograd_tile"]


@dataclass(frozen=True)
class Tile:
    """A form of the algorithm, by the name of its variant: `results` along each dimension of a tile; the most input
    channels for which its error was found to stay below 2e-5 of the largest result; the cycles of one core that the
    transform of eight channels of a tile takes, one way.

    Rounding errors grow with the length of a sum, so winograd.cl sums 64 terms at a time. The largest error found
    over random, skewed, offset and structured (ramp) data was then 1.4e-5 with LARGE, at any number of channels from
    64 on, and 1e-6 with SMALL.
    """

    name: str
    results: int
    most_channels: int
    transform_cycles: float

    @property
    def points(self) -> int:
        return (self.results + 2) ** 2


LARGE = Tile("winograd", 4, 1024, 320.0)
SMALL = Tile("winograd2", 2, 1 << 30, 120.0)

BLOCK = 24  # tiles: a multiple of the rows of both register tiles

INPUT, PRODUCTS, OUTPUT = 1, 2, 4
ALL_STAGES = INPUT | PRODUCTS | OUTPUT

# Cycles of one core: what the choice between Winograd and the direct way weighs.
STREAM_BYTES = 8.0  # of filter that arrive from beyond the second cache
ADVANTAGE = 0.9


def can_winograd(conv: Convolution, facts: DeviceFacts, tile: Tile = LARGE) -> bool:
    """Whether Winograd's algorithm computes `conv` with `tile`: 3 x 3 taps, stride 1, a constant filter, and an error
    below 2e-5 of the largest result.

    Contexts of precision "exact" and the variable WEBNN_CL_WINOGRAD=0 turn it off.
    """
    attrs = conv.node.attrs
    plain = conv.filter.height == conv.filter.width == 3 and conv.groups == 1
    plain = plain and tuple(attrs["strides"]) == (1, 1)
    if not plain or not conv.node.inputs["filter"].is_constant:
        return False
    if facts.precision == "exact" or os.environ.get("WEBNN_CL_WINOGRAD") == "0":
        return False
    return 8 <= conv.input.channels <= tile.most_channels and conv.output.channels >= 8


def winograd_tile(conv: Convolution, facts: DeviceFacts) -> Tile | None:
    """The tile with which Winograd's algorithm computes `conv` fastest; None where the direct way is faster."""
    able = [tile for tile in (LARGE, SMALL) if can_winograd(conv, facts, tile)]
    best = min(able, key=lambda tile: _winograd_cycles(conv, facts, tile), default=None)
    if best is None or _winograd_cycles(conv, facts, best) >= ADVANTAGE * _direct_cycles(conv, facts):
        return None
    return best


def _winograd_cycles(conv: Convolution, facts: DeviceFacts, tile: Tile) -> float:
    c, o, tiles = conv.input.channels, conv.output.channels, _tiles(conv, tile)
    products = tile.points * ceil_div(tiles, 6) * 6 * c * ceil_div(o, 8) * 8 / 16
    transforms = tiles * (ceil_div(c, 8) + ceil_div(o, 8)) * tile.transform_cycles
    return (products + transforms) / workers(facts) + _stream_cycles(4 * tile.points * c * o, facts)


def _direct_cycles(conv: Convolution, facts: DeviceFacts) -> float:
    c, o = conv.input.channels, conv.output.channels
    pixels = conv.output.batch * conv.output.height * conv.output.width
    products = 9 * ceil_div(pixels, 6) * 6 * c * ceil_div(o, 8) * 8 / 16
    return products / workers(facts) + _stream_cycles(4 * 9 * c * o, facts)


def _stream_cycles(nbytes: int, facts: DeviceFacts) -> float:
    """Reading a filter that does not stay in the cache, once if its panels are shared out between the cores."""
    return nbytes / STREAM_BYTES / workers(facts) if nbytes > TUNING.second_cache else 0.0


def _tiles(conv: Convolution, tile: Tile) -> int:
    """Tiles of all images; with dilation, pixels of equal remainder make images of their own."""
    image, (down, apart) = conv.output, conv.node.attrs["dilations"]
    rows = down * ceil_div(ceil_div(image.height, down), tile.results)
    return int(image.batch * rows * apart * ceil_div(ceil_div(image.width, apart), tile.results))


@dataclass(frozen=True)
class Blocks:
    """Scratch memory of the stages: `count` blocks of `tiles` tiles, in floats."""

    tiles: int
    count: int
    depth: int
    panel_step: int
    step: int

    @classmethod
    def of(cls, points: int, tiles: int, total: int, depth: int, panels: int) -> Blocks:
        """Blocks that together hold `total` tiles; `panels` results are kept apart, or one if 0."""
        panel = points * tiles * PANEL
        step = points * tiles * depth + panel * max(panels, 1)
        return cls(tiles, ceil_div(total, tiles), depth, panel if panels else 0, step)


def lower_winograd(conv: Convolution, lw: Lowering, tile: Tile = LARGE) -> None:
    """All stages in one launch over blocks that stay in the cache; where that leaves cores idle, one launch each."""
    points, tiles, panels = tile.points, _tiles(conv, tile), ceil_div(conv.output.channels, PANEL)
    depth = ceil_div(conv.input.channels, 8) * 8
    fit = TUNING.winograd_cache // (4 * points * (depth + PANEL)) // BLOCK * BLOCK
    size = max(BLOCK, min(fit, 4 * BLOCK))
    cores = workers(lw.facts)
    if ceil_div(tiles, size) >= 2 * cores:
        blocks = Blocks.of(points, size, tiles, depth, 0)
        items = min(blocks.count, cores * TUNING.items_per_core)
        scratch = lw.scratch(4 * blocks.step * items)
        _launch(conv, lw, tile, blocks, scratch, ALL_STAGES, (items, 1, 1))
        return
    blocks = Blocks.of(points, min(4, ceil_div(tiles, BLOCK)) * BLOCK, tiles, depth, panels)
    scratch = lw.scratch(4 * blocks.step * blocks.count)
    parts = ceil_div(4 * cores, blocks.count)
    splits = min(points, ceil_div(4 * cores, blocks.count * panels))
    _launch(conv, lw, tile, blocks, scratch, INPUT, (blocks.count, min(parts, blocks.tiles), 1))
    _launch(conv, lw, tile, blocks, scratch, PRODUCTS, (blocks.count, panels, splits))
    _launch(conv, lw, tile, blocks, scratch, OUTPUT, (blocks.count, panels, max(1, ceil_div(parts, panels))))


def _launch(
    conv: Convolution,
    lw: Lowering,
    tile: Tile,
    blocks: Blocks,
    scratch: Buffer,
    stages: int,
    items: tuple[int, int, int],
) -> None:
    inputs = conv.node.inputs
    planar = conv.input.layout == "nchw"
    storage = dtype_of(conv.node.output.data_type).storage
    defines = {"T": storage, "HAS_BIAS": int("bias" in inputs), "PLANAR": int(planar), "RESULTS": tile.results}
    filter, points = _filters(conv, lw, tile)
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


def _filters(conv: Convolution, lw: Lowering, tile: Tile) -> tuple[Buffer, Buffer]:
    """The filter in panels, and transformed."""
    (row,), (column,) = Axis.of(conv, 0), Axis.of(conv, 1)
    filter = packed_filter(conv, lw, row, column)
    c, panels = conv.input.channels, ceil_div(conv.output.channels, PANEL)

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        kernel = tile_kernel("winograd_filter.cl", "winograd_filter", {"RESULTS": tile.results})
        lw.launch(kernel, [filter, target, np.int64(c)], (c, panels))

    key = (tile.name, c, conv.output.channels, conv.filter.strides)
    return filter, lw.packed(conv.node.inputs["filter"], key, 4 * tile.points * c * panels * PANEL, emit)
