"""Lowering of matmul and gemm to the CPU kernels gemm.cl and gemv.cl."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.widen import widen
from webnn_cl.tiles.plan import PANEL, ROWS, TUNING, ceil_div, pieces, workers
from webnn_cl.tiles.product import Lying, Product, lying, tile_kernel

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering

__all__ = [
    "COPIED",
    "Blocks",
    "Part",
    "cut",
    "lower_panels",
    "lower_product",
    "lower_unpacked",
    "row_groups",
    "transpose",
]

# Up to so many rows sums of one row after the other are faster than register tiles: of a constant b, whose panels tiles
# read as well, but as float16 tiles do not; of a second input; of a transposed one.
FEW_ROWS, FEW_ROWS_HALF, FEW_ROWS_ONCE, FEW_ROWS_TRANSPOSED = 2, 3, 4, 6
# From so many rows on, b is packed by a launch of its own, not by each work-item: 0.94 of the time at 192 rows of
# 1024 x 1024, 0.76 at 256, but 1.5 at 96.
MANY_ROWS = 192
# Copying six rows of a takes about a third of the time that a tile of them does, so they should serve some panels. Up
# to SOME_PANELS they are read in place: 0.87 of the time at 8 panels of depth 256, but 1.3 at 8 of depth 1024.
FEW_PANELS = 4
SOME_PANELS = 8
COPIED, PACKED, IN_PLACE = 0, 1, 2  # A_FORM of gemm.cl
# Of gemm.cl: steps of k that are copied at once, also where both operands are, and room for tiles, rows and panels of
# so many steps.
RUN, RUN_OF_BOTH, ROOM_TILES, ROOM_ROWS, ROOM_PANELS = 512, 128, 128, 60, 4
SUMS = 2048  # that a work-item of gemv_columns has room for: COLUMNS of gemv.cl
NARROWEST = 256  # columns of one, unless there are fewer


def lower_product(product: Product, lw: Lowering) -> None:
    """Emit the launches of `product` with the kernel that its shape asks for."""
    p = product
    if p.n == 1 and not p.a_transposed:
        _lower_dots(p, lw, swapped=True)
    elif not p.b.is_constant and _is_few(p):
        if p.b_transposed:
            _lower_dots(p, lw, swapped=False)
        else:
            _lower_columns(p, lw)
    elif p.b.is_constant or (p.m >= MANY_ROWS and not p.a.is_constant):
        lower_panels(p, lw)
    else:
        lower_unpacked(p, lw)


def _is_few(p: Product) -> bool:
    """Whether sums of one row after the other do better than tiles."""
    if p.b.is_constant:
        most = FEW_ROWS_HALF if p.storage == "half" else FEW_ROWS
    else:
        most = FEW_ROWS_TRANSPOSED if p.b_transposed else FEW_ROWS_ONCE
    return p.m <= most and not (p.a_transposed and p.m > 1)


def _lower_dots(p: Product, lw: Lowering, swapped: bool) -> None:
    """Dot products of rows; `swapped`: a's rows with the one column of b, else b's rows with those of a."""
    vectors, rows = (1, p.m) if swapped else (p.m, p.n)
    # With one column, c's column stride is that of the results.
    c_args = p.addend(swapped)
    x, w = (p.b, p.a) if swapped else (p.a, p.b)
    batch = [np.int32(len(p.batch)), dims(p.batch)]
    a_steps, b_steps = p.steps(p.a_batch, p.m * p.k), p.steps(p.b_batch, p.n * p.k)
    groups = ceil_div(rows, 8)
    each = pieces(groups, 16.0 * p.k * vectors, lw.facts)
    kernel = p.kernel("gemv.cl", "gemv_dots", swapped)
    args: list[Arg] = [x, w, *c_args, p.tail.output, np.int64(vectors), np.int64(rows), np.int64(p.k), np.int64(each)]
    args += [*batch, *((b_steps, a_steps) if swapped else (a_steps, b_steps)), np.float32(p.alpha), *p.tail.args]
    lw.launch(kernel, args, (ceil_div(groups, each), 1, math.prod(p.batch)))


def _lower_columns(p: Product, lw: Lowering) -> None:
    """Few rows times a matrix that is used once: not worth packing."""
    kernel = p.kernel("gemv.cl", "gemv_columns")
    # The wider, the longer the runs in which memory is read: one item a core is best.
    spread = ceil_div(p.n, ceil_div(workers(lw.facts), math.prod(p.batch)))
    each = 8 * min(SUMS // p.m // 8, ceil_div(max(spread, NARROWEST), 8))
    args: list[Arg] = [p.a, p.b, *p.addend(), p.tail.output, np.int64(p.m), np.int64(p.n), np.int64(p.k)]
    args += [np.int64(each), *p.stack(p.m * p.k, p.k * p.n), np.float32(p.alpha), *p.tail.args]
    lw.launch(kernel, args, (ceil_div(p.n, each), 1, math.prod(p.batch)))


def lower_panels(p: Product, lw: Lowering) -> None:
    """b in packed panels: register tiles, or sums of one row after the other where there are few."""
    if not _is_few(p):
        _lower_tiles(p, lw, b_packed=True)
        return
    # A product of few rows takes as long as reading b does.
    constant = p.b.constant
    storage = "float" if constant is None else "half" if constant.narrow is not None else p.storage
    panels = ceil_div(p.n, PANEL)
    each = pieces(panels, 2.0 * p.m * p.k * PANEL, lw.facts)
    kernel = p.kernel("gemv.cl", "gemv_panels", W=storage)
    args: list[Arg] = [widen(lw, p.a), panels_of_b(p, lw, storage), *p.addend(), p.tail.output]
    args += [np.int64(v) for v in (p.m, p.n, p.k, p.k, each)]
    args += [*p.stack(p.m * p.k, panels * p.k * PANEL), np.float32(p.alpha), *p.tail.args]
    lw.launch(kernel, args, (ceil_div(panels, each), 1, math.prod(p.batch)))


def lower_unpacked(p: Product, lw: Lowering) -> None:
    """Register tiles where b is met once: each work-item copies what it needs of b."""
    _lower_tiles(p, lw, b_packed=False)


def _lower_tiles(p: Product, lw: Lowering, b_packed: bool) -> None:
    """Register tiles (gemm.cl)."""
    panels, (sixes, groups), matrices = ceil_div(p.n, PANEL), row_groups(p.m), math.prod(p.batch)
    a = lying(lw, p.a, p.a_batch, p.a_extents, p.batch)
    a = a.swapped() if p.a_transposed else a
    form = _form_of_a(p, panels, b_packed, a)
    part = Part.of(groups, panels, p.k, matrices, form, b_packed, lw)
    if form == PACKED:
        a = Lying(rows_of_a(p, lw), p.k, 1, p.steps(p.a_batch, groups * ROWS * p.k))
    if b_packed:
        b = Lying(panels_of_b(p, lw), p.n, 1, p.steps(p.b_batch, panels * p.k * PANEL))
    else:
        b = lying(lw, p.b, p.b_batch, p.b_extents, p.batch)
        b = b.swapped() if p.b_transposed else b
    args: list[Arg] = [a.memory, b.memory, *p.addend(), p.tail.output]
    args += [np.int64(v) for v in (p.m, p.n, p.k, a.row, a.column, b.row, b.column, sixes, part.groups, part.panels)]
    args += [np.int32(len(p.batch)), dims(p.batch), a.steps, b.steps, np.float32(p.alpha), *p.tail.args]
    kernel = p.kernel("gemm.cl", "gemm", A_FORM=form, W_PACKED=int(b_packed))
    lw.launch(kernel, args, (ceil_div(panels, part.panels), ceil_div(groups, part.groups), matrices))


def _form_of_a(p: Product, panels: int, b_packed: bool, a: Lying) -> int:
    """A_FORM of gemm.cl."""
    if not b_packed:
        return PACKED if p.a.is_constant else COPIED
    in_place = panels <= SOME_PANELS and a.column == 1 and p.storage == "float"
    return IN_PLACE if in_place else COPIED


@dataclass(frozen=True)
class Part:
    """What one work-item of gemm.cl computes: `groups` of rows by `panels` of 16 columns."""

    groups: int
    panels: int

    @classmethod
    def of(cls, groups: int, panels: int, k: int, matrices: int, form: int, b_packed: bool, lw: Lowering) -> Part:
        """The part that suits a product of `groups` by `panels`, of which there are `matrices`.

        An operand that is copied should serve many tiles of the other, and fit the kernel's room; all cores should
        have work.
        """
        wanted = workers(lw.facts) * TUNING.items_per_core
        run = RUN_OF_BOTH if form == COPIED and not b_packed else RUN
        steps = max(1, min(k, run))
        tiles = ROOM_TILES if k > run else groups * panels
        if form != COPIED:
            most = ROOM_PANELS * run // steps if form == PACKED else SOME_PANELS
            wide = _even(panels, most)
            blocks = ceil_div(panels, wide) * matrices
            high = min(ceil_div(groups, ceil_div(wanted, blocks)), max(1, tiles // wide))
            if form == IN_PLACE:
                high = min(high, max(1, TUNING.rows_per_item // ROWS))
            return cls(_even(groups, high), wide)
        most = ROOM_ROWS * run // steps // ROWS
        if groups > most and b_packed:
            most = TUNING.rows_copied * run // steps // ROWS
        high = _even(groups, max(1, min(most, TUNING.rows_per_item // ROWS)))
        blocks = ceil_div(groups, high) * matrices
        worth = ceil_div(TUNING.item_flops, 2 * high * ROWS * steps * PANEL)
        wide = max(ceil_div(panels, ceil_div(wanted, blocks)), worth, FEW_PANELS)
        return cls(high, min(panels, wide, max(1, tiles // high)))


def row_groups(m: int) -> tuple[int, int]:
    """How many groups of six rows `m` rows are cut into before groups of four follow, and how many both are together.

    One or two rows beyond a multiple of six make two groups of four instead of a group of six that idles.
    """
    sixes, rest = divmod(m, ROWS)
    if rest in (0, 5):
        return ceil_div(m, ROWS), ceil_div(m, ROWS)
    sixes -= int(rest < 3 and sixes > 0)
    return sixes, sixes + ceil_div(m - ROWS * sixes, 4)


def _even(count: int, most: int) -> int:
    """How many of `count` a part gets where parts of at most `most` are as equal as can be."""
    return ceil_div(count, ceil_div(count, most))


def cut(m: int, panels: int, k: int, matrices: int, lw: Lowering) -> tuple[int, int]:
    """Rows and panels of one work-item that reads rows where they lie (conv_rows).

    Rows: a block that stays in half the second cache, at most `rows_per_item`, fewer where the cores would
    otherwise go without work. Panels: more than one only to make an item worth its launch.
    """
    t = TUNING
    fit = t.second_cache // 2 // (4 * k)
    tiles = max(1, min(ceil_div(m, ROWS), t.rows_per_item // ROWS, fit // ROWS))
    wanted = workers(lw.facts) * t.items_per_core
    while tiles > 1 and ceil_div(m, tiles * ROWS) * panels * matrices < wanted:
        tiles = ceil_div(tiles, 2)
    rows = tiles * ROWS
    return rows, pieces(panels, 2.0 * rows * k * PANEL, lw.facts)


def rows_of_a(p: Product, lw: Lowering) -> Buffer:
    """a in groups of rows [k][6]."""
    count, (sixes, groups) = math.prod(p.a_batch), row_groups(p.m)
    strides = (1, p.m) if p.a_transposed else (p.k, 1)

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        kernel = tile_kernel("pack.cl", "pack_rows", _storages(source, "float"))
        args: list[Arg] = [source, target, *(np.int64(v) for v in (p.m, p.k, *strides, sixes))]
        lw.launch(kernel, args, (groups, count))

    return lw.packed(p.a, ("rows", p.m, p.k, *strides), 4 * count * groups * ROWS * p.k, emit)


def panels_of_b(p: Product, lw: Lowering, storage: str = "float") -> Buffer:
    """b in panels of 16 columns, kept as `storage`; packed once if it is a constant."""
    count, panels = math.prod(p.b_batch), ceil_div(p.n, PANEL)
    size = panels * p.k * PANEL

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        if p.b_transposed:
            blocks = Blocks(PANEL, PANEL * p.k, PANEL, size, pad=True)
            transpose(lw, source, target, count, (p.n, p.k), blocks, storage)
            return
        each = max(1, min(p.k, 256))
        kernel = tile_kernel("pack.cl", "pack_columns", _storages(source, storage))
        args: list[Arg] = [source, target, np.int64(p.k), np.int64(p.n), np.int64(each)]
        lw.launch(kernel, args, (ceil_div(panels, 4), ceil_div(p.k, each), count))

    nbytes = 2 if storage == "half" else 4
    return lw.packed(p.b, ("panels", storage, p.k, p.n, p.b_transposed), nbytes * count * size, emit)


@dataclass(frozen=True)
class Blocks:
    """Where pack_transposed (pack.cl) puts a transposed matrix; numbers in elements."""

    width: int
    block: int
    pitch: int
    size: int
    pad: bool


def transpose(
    lw: Lowering,
    source: Value,
    target: Buffer,
    count: int,
    extents: tuple[int, int],
    blocks: Blocks,
    storage: str = "float",
) -> None:
    """Launch pack_transposed (pack.cl) on `count` matrices of `extents`."""
    i, j = extents
    each = max(8, min(j, 1024))
    kernel = tile_kernel("pack.cl", "pack_transposed", _storages(source, storage))
    numbers = [np.int64(v) for v in (i, j, blocks.width, blocks.block, blocks.pitch, blocks.size)]
    args: list[Arg] = [source, target, *numbers, np.int32(blocks.pad), np.int64(each)]
    rows = ceil_div(i, blocks.width) * blocks.width if blocks.pad else i
    lw.launch(kernel, args, (ceil_div(rows, 8), ceil_div(j, each), count))


def _storages(source: Value, packed: str) -> dict[str, str]:
    """The types S and D of pack.cl."""
    return {"S": dtype_of(source.data_type).storage, "D": packed}
