"""The kernels that a product or a convolution may take on a GPU, by name, and which one when nothing was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from webnn_cl.compiler.tail import Tail
from webnn_cl.ops.conv_direct import Convolution
from webnn_cl.ops.image_items import lower_conv_items
from webnn_cl.tiles.convolution import as_product, is_product
from webnn_cl.tiles.dots import lower_dots
from webnn_cl.tiles.local import (
    VARIANTS,
    LocalTile,
    conv_depth,
    conv_extents,
    lower_local_conv,
    lower_local_product,
    parts_of,
    suits_local,
    tile_for,
)
from webnn_cl.tiles.product import Product

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Lowering
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["default_on_gpu", "variants_on_gpu"]

ITEMS = "items"  # a work-item for each output element of a convolution
DOTS = "dots"  # work-groups share the columns of a product with few rows
# Most rows (or columns) for which the latter is a candidate.
MOST_DOTS = 64
Lower = Callable[["Node", "Lowering"], None]


def variants_on_gpu(node: Node, facts: DeviceFacts) -> dict[str, Lower]:
    """Variants of a matmul, gemm, conv2d or conv_transpose2d; " split" after a tile's name: its depth is cut."""
    rows, columns, stack, depth = _extents(node)
    found: dict[str, Lower] = {ITEMS: _items} if _is_convolution(node) else {}
    if _has_dots(node) and min(rows, columns) <= MOST_DOTS:
        found[DOTS] = _dots
    if suits_local(rows, columns):
        for tile, cut in _cuts(rows, columns, stack, depth, facts):
            found[_name(tile, cut)] = _with_tile(tile, cut)
    return found


def default_on_gpu(node: Node, facts: DeviceFacts) -> str | None:
    """The variant of an untuned device; None where only the plain kernel can do it."""
    rows, columns, stack, depth = _extents(node)
    tile = tile_for(rows, columns, stack, facts, depth) if suits_local(rows, columns) else None
    if tile is not None:
        return _name(tile, parts_of(tile.groups(rows, columns) * stack, depth, facts) > 1)
    if _has_dots(node):
        return DOTS
    return ITEMS if _is_convolution(node) else None


def _is_convolution(node: Node) -> bool:
    return node.op.name in ("conv2d", "conv_transpose2d")


def _convolution(node: Node) -> Convolution:
    return Convolution(node, transposed=node.op.name == "conv_transpose2d")


def _has_dots(node: Node) -> bool:
    return node.op.name in ("matmul", "gemm") or (node.op.name == "conv2d" and is_product(_convolution(node)))


def _extents(node: Node) -> tuple[int, int, int, int]:
    """Rows, columns, stack and depth of the product that `node` is."""
    if _is_convolution(node):
        conv = _convolution(node)
        return *conv_extents(conv), conv_depth(conv)
    p = Product.of(node, Tail(node.output))
    return p.m, p.n, math.prod(p.batch), p.k


def _cuts(
    rows: int, columns: int, stack: int, depth: int, facts: DeviceFacts
) -> Iterator[tuple[LocalTile, bool]]:
    """The tiles that the device allows, whole, and cut where that makes a difference."""
    for tile in VARIANTS:
        if tile.fits(facts):
            yield tile, False
            if parts_of(tile.groups(rows, columns) * stack, depth, facts) > 1:
                yield tile, True


def _name(tile: LocalTile, cut: bool) -> str:
    return f"{tile.name} split" if cut else tile.name


def _with_tile(tile: LocalTile, cut: bool) -> Lower:
    def lower(node: Node, lw: Lowering) -> None:
        if _is_convolution(node):
            lower_local_conv(_convolution(node), lw, tile, cut)
        else:
            lower_local_product(Product.of(node, lw.tail(node)).read_in_place(lw), lw, tile, cut)

    return lower


def _items(node: Node, lw: Lowering) -> None:
    lower_conv_items(_convolution(node), lw)


def _dots(node: Node, lw: Lowering) -> None:
    tail = lw.tail(node)
    if _is_convolution(node):
        lower_dots(as_product(_convolution(node), tail), lw)
    else:
        lower_dots(Product.of(node, tail).read_in_place(lw), lw)
