"""Matrix products and convolutions for GPUs: work-group tiles in local memory (local_tiles.h)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.groups import group_size
from webnn_cl.tiles.plan import ceil_div

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering
    from webnn_cl.compiler.tail import Tail
    from webnn_cl.opencl.facts import DeviceFacts
    from webnn_cl.ops.conv_direct import Convolution
    from webnn_cl.tiles.product import Product

__all__ = [
    "VARIANTS",
    "LocalTile",
    "Result",
    "conv_depth",
    "conv_extents",
    "finish_parts",
    "lower_local_conv",
    "lower_local_product",
    "parts_of",
    "suits_local",
    "tile_for",
]

HEADERS = ("local_tiles.h", "addend.h")
# Below so many rows or columns of the result most of a tile would lie idle: the plain kernels do better.
MIN_EXTENT = 16
# Groups per compute unit that hide the latency of loads.
GROUPS_PER_UNIT = 2
# Depth of a part of a product that is cut along its depth, at least.
PART_DEPTH = 256


@dataclass(frozen=True)
class LocalTile:
    """Results per work-item (`rm` x `rn`), depth `tk` of a tile, work-items of a group (`gx` x `gy`)."""

    rm: int
    rn: int
    tk: int
    gx: int
    gy: int

    @property
    def name(self) -> str:
        """As tuning tables call it."""
        return f"local {self.rows}x{self.columns}x{self.tk} by {self.threads}"

    @property
    def rows(self) -> int:
        return self.rm * self.gy

    @property
    def columns(self) -> int:
        return self.rn * self.gx

    @property
    def threads(self) -> int:
        return self.gx * self.gy

    def groups(self, rows: int, columns: int) -> int:
        """Groups for a result of `rows` x `columns`."""
        return ceil_div(rows, self.rows) * ceil_div(columns, self.columns)

    @property
    def local_bytes(self) -> int:
        """Local memory of a group."""
        return 4 * self.tk * (self.rows + 1 + self.columns + 1)

    def fits(self, facts: DeviceFacts) -> bool:
        """Whether the device's limits allow it."""
        return self.threads <= facts.max_work_group_size and self.local_bytes <= facts.local_memory_bytes

    def defines(self) -> dict[str, object]:
        """The macros of local_tiles.h."""
        names = {"RM": self.rm, "RN": self.rn, "TK": self.tk, "GX": self.gx, "GY": self.gy}
        return {f"LOCAL_{name}": value for name, value in names.items()}


# Largest first. What public tuners found on GPUs of three vendors: 64 to 128 square, 16 deep, 4x4 to 8x8 each.
VARIANTS = (
    LocalTile(8, 8, 16, 16, 16),
    LocalTile(4, 4, 16, 16, 16),
    LocalTile(4, 4, 16, 8, 8),
    LocalTile(2, 2, 8, 8, 8),
    LocalTile(2, 2, 8, 4, 4),
)


def tile_for(rows: int, columns: int, stack: int, facts: DeviceFacts, depth: int = 0) -> LocalTile | None:
    """The largest tile that the device allows and that still gives every compute unit groups, those of parts of the
    `depth` counted; None if none fits.
    """
    fitting = [tile for tile in VARIANTS if tile.fits(facts)]
    for tile in fitting:
        half_empty = tile.rows >= 2 * rows or tile.columns >= 2 * columns
        groups = tile.groups(rows, columns) * stack
        if not half_empty and groups * parts_of(groups, depth, facts) >= _wanted(facts):
            return tile
    return fitting[-1] if fitting else None


def parts_of(groups: int, depth: int, facts: DeviceFacts) -> int:
    """Into how many parts the `depth` of a product of `groups` tiles is cut, so that every compute unit has work."""
    return max(1, min(ceil_div(_wanted(facts), groups), depth // PART_DEPTH))


def suits_local(rows: int, columns: int) -> bool:
    """Whether a result of `rows` x `columns` fills a tile well enough."""
    return min(rows, columns) >= MIN_EXTENT


def lower_local_product(product: Product, lw: Lowering, tile: LocalTile, cut: bool) -> None:
    """Launch `product` with `tile`; `cut`: its depth may be cut into parts."""
    p, stack = product, math.prod(product.batch)
    four = (p.m if p.a_transposed else p.k) % 4 == 0, (p.k if p.b_transposed else p.n) % 4 == 0
    defines = {"T": p.storage, "A_BY_FOUR": int(four[0]), "W_BY_FOUR": int(four[1]), **tile.defines()}
    defines |= {"A_ALONG_K": int(not p.a_transposed), "W_ALONG_K": int(p.b_transposed)}
    a_strides = (1, p.m) if p.a_transposed else (p.k, 1)
    w_strides = (1, p.k) if p.b_transposed else (p.n, 1)
    sizes: list[Arg] = [np.int64(v) for v in (p.m, p.n, p.k, *a_strides, *w_strides)]
    sizes += [*p.stack(p.m * p.k, p.k * p.n), np.float32(p.alpha)]
    result = Result(p.tail, p.storage, p.m * p.n * stack, p.m, p.n, p.alpha, tuple(p.addend()))
    parts = parts_of(tile.groups(p.m, p.n) * stack, p.k, lw.facts) if cut else 1
    _launch("product_local", {"HAS_C": 0} | defines, [p.a, p.b], sizes, result, (p.n, p.m, stack), p.k, parts, tile, lw)


def conv_extents(conv: Convolution) -> tuple[int, int, int]:
    """Rows, columns and stack of the product that a conv2d or conv_transpose2d is."""
    output = conv.output
    pixels, outputs = output.height * output.width, conv.outputs_a_group
    rows, columns = (pixels, outputs) if output.layout == "nhwc" else (outputs, pixels)
    return rows, columns, output.batch * conv.groups


def conv_depth(conv: Convolution) -> int:
    """Products that are added up for an output element."""
    return conv.filter.height * conv.filter.width * conv.inputs_a_group


def lower_local_conv(conv: Convolution, lw: Lowering, tile: LocalTile, cut: bool) -> None:
    """Launch a conv2d or conv_transpose2d with `tile`; `cut`: its depth may be cut into parts."""
    rows, columns, stack = conv_extents(conv)
    inputs, tail, size = conv.node.inputs, lw.tail(conv.node), conv.node.output.desc.size
    last = conv.output.layout == "nhwc"
    storage, pixels = dtype_of(conv.node.output.data_type).storage, conv.output.height * conv.output.width
    defines: dict[str, object] = {"T": storage, "CHANNELS_LAST": int(last), "TRANSPOSED": int(conv.transposed)}
    defines |= tile.defines()
    sizes: list[Arg] = [*conv.geometry(), dims(conv.filter.strides), np.int64(size)]
    # Bias as the addend of a product of all channels: one row of it, or one column.
    strides = (np.int64(0), np.int64(1)) if last else (np.int64(1), np.int64(0))
    addend: list[Arg] = [inputs["bias"], *strides, np.float32(1)] if "bias" in inputs else []
    extents = (1, conv.output.channels) if last else (conv.output.channels, pixels)
    result = Result(tail, storage, size, *extents, 1.0, tuple(addend))
    depth = conv_depth(conv)
    parts = parts_of(tile.groups(rows, columns) * stack, depth, lw.facts) if cut else 1
    operands: list[Arg] = [inputs["input"], inputs["filter"]]
    _launch("conv_local", defines, operands, sizes, result, (columns, rows, stack), depth, parts, tile, lw)


@dataclass(frozen=True)
class Result:
    """Where the `size` results of a product go: rows and columns, factor, and the arguments of an addend (c, strides
    of row and column, beta) by which split_sum.cl finishes them.
    """

    tail: Tail
    storage: str
    size: int
    rows: int
    columns: int
    alpha: float
    addend: tuple[Arg, ...]


def _launch(
    name: str,
    defines: dict[str, object],
    operands: list[Arg],
    sizes: list[Arg],
    result: Result,
    extents: tuple[int, int, int],
    depth: int,
    parts: int,
    tile: LocalTile,
    lw: Lowering,
) -> None:
    """Launch kernel `name` over results of `extents` (columns, rows, stack), in `parts` of its depth."""
    columns, rows, stack = extents
    each = ceil_div(ceil_div(depth, parts), tile.tk) * tile.tk
    parts = ceil_div(depth, each)
    grid = (ceil_div(columns, tile.columns) * tile.gx, ceil_div(rows, tile.rows) * tile.gy, stack * parts)
    numbers: list[Arg] = [*sizes, np.int64(parts), np.int64(each)]
    local = (tile.gx, tile.gy, 1)
    if parts > 1:
        partial = lw.scratch(4 * parts * result.size)
        kernel = Kernel(f"{name}.cl", name, {**defines, "SPLIT": 1}, headers=HEADERS)
        lw.launch(kernel, [*operands, partial, *numbers], grid, local)
        finish_parts(partial, parts, result, lw)
        return
    tail = result.tail
    added: tuple[Arg, ...] = result.addend
    if name == "conv_local":
        defines, added = defines | {"HAS_BIAS": int(bool(added))}, added[:1]
    else:
        defines = defines | {"HAS_C": int(bool(added))}
    kernel = Kernel(f"{name}.cl", name, {**defines, **tail.defines}, tail.code, (*HEADERS, *tail.headers))
    lw.launch(kernel, [*operands, *added, tail.output, *numbers, *tail.args], grid, local)


def finish_parts(partial: Buffer, parts: int, result: Result, lw: Lowering) -> None:
    """Launch split_sum.cl: the results from the partial sums of `parts`."""
    tail = result.tail
    defines = {"T": result.storage, "HAS_C": int(bool(result.addend)), **tail.defines}
    kernel = Kernel("split_sum.cl", "split_sum", defines, tail.code, ("addend.h", *tail.headers))
    numbers = [np.int64(v) for v in (result.size, parts, result.rows, result.columns)]
    args = [partial, *result.addend, tail.output, *numbers, np.float32(result.alpha), *tail.args]
    lw.launch(kernel, args, (result.size,), (group_size(lw.facts),))


def _wanted(facts: DeviceFacts) -> int:
    """Groups that keep the device busy."""
    return GROUPS_PER_UNIT * max(facts.compute_units, 1)
