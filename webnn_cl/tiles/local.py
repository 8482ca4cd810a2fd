"""Matrix products and convolutions for GPUs: work-group tiles in local memory (local_tiles.h)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.tiles.plan import ceil_div

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.compiler.tail import Tail
    from webnn_cl.opencl.facts import DeviceFacts
    from webnn_cl.ops.conv_direct import Convolution
    from webnn_cl.tiles.matrix import Product

__all__ = [
    "VARIANTS",
    "LocalTile",
    "conv_extents",
    "lower_local_conv",
    "lower_local_product",
    "suits_local",
    "tile_for",
]

HEADERS = ("local_tiles.h",)
# Below so many rows or columns of the result most of a tile would lie idle: the plain kernels do better.
MIN_EXTENT = 16
# Groups per compute unit that hide the latency of loads.
GROUPS_PER_UNIT = 2


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


def tile_for(rows: int, columns: int, stack: int, facts: DeviceFacts) -> LocalTile | None:
    """The largest tile that the device allows and that still gives every compute unit groups; None if none fits."""
    fitting = [tile for tile in VARIANTS if tile.fits(facts)]
    wanted = GROUPS_PER_UNIT * max(facts.compute_units, 1)
    for tile in fitting:
        if ceil_div(rows, tile.rows) * ceil_div(columns, tile.columns) * stack >= wanted:
            return tile
    return fitting[-1] if fitting else None


def suits_local(rows: int, columns: int) -> bool:
    """Whether a result of `rows` x `columns` fills a tile well enough."""
    return min(rows, columns) >= MIN_EXTENT


def lower_local_product(product: Product, lw: Lowering, tile: LocalTile) -> None:
    """Launch `product` with `tile`."""
    p, stack = product, math.prod(product.batch)
    defines = {"T": p.storage, "HAS_C": int(p.c is not None), **tile.defines()}
    defines |= {"A_ALONG_K": int(not p.a_transposed), "W_ALONG_K": int(p.b_transposed)}
    a_strides = (1, p.m) if p.a_transposed else (p.k, 1)
    w_strides = (1, p.k) if p.b_transposed else (p.n, 1)
    args: list[Arg] = [p.a, p.b, *p.addend(), p.tail.output]
    args += [np.int64(v) for v in (p.m, p.n, p.k, *a_strides, *w_strides)]
    args += [*p.stack(p.m * p.k, p.k * p.n), np.float32(p.alpha), *p.tail.args]
    _launch("product_local", defines, p.tail, args, (p.n, p.m, stack), tile, lw)


def conv_extents(conv: Convolution) -> tuple[int, int, int]:
    """Rows, columns and stack of the product that a conv2d or conv_transpose2d is."""
    output = conv.output
    pixels, outputs = output.height * output.width, conv.outputs_a_group
    rows, columns = (pixels, outputs) if output.layout == "nhwc" else (outputs, pixels)
    return rows, columns, output.batch * conv.groups


def lower_local_conv(conv: Convolution, lw: Lowering, tile: LocalTile) -> None:
    """Launch a conv2d or conv_transpose2d with `tile`."""
    rows, columns, stack = conv_extents(conv)
    inputs, tail = conv.node.inputs, lw.tail(conv.node)
    bias = [inputs["bias"]] if "bias" in inputs else []
    defines: dict[str, object] = {"T": dtype_of(conv.node.output.data_type).storage, "HAS_BIAS": len(bias)}
    defines |= {"CHANNELS_LAST": int(conv.output.layout == "nhwc"), "TRANSPOSED": int(conv.transposed)}
    defines |= tile.defines()
    args: list[Arg] = [inputs["input"], inputs["filter"], *bias, tail.output, *conv.geometry()]
    args += [dims(conv.filter.strides), *tail.args]
    _launch("conv_local", defines, tail, args, (columns, rows, stack), tile, lw)


def _launch(
    name: str,
    defines: dict[str, object],
    tail: Tail,
    args: list[Arg],
    extents: tuple[int, int, int],
    tile: LocalTile,
    lw: Lowering,
) -> None:
    """Launch kernel `name` over results of `extents` (columns, rows, stack)."""
    columns, rows, stack = extents
    headers = (*HEADERS, *tail.headers)
    kernel = Kernel(f"{name}.cl", name, {**defines, **tail.defines}, tail.code, headers)
    grid = (ceil_div(columns, tile.columns) * tile.gx, ceil_div(rows, tile.rows) * tile.gy, stack)
    lw.launch(kernel, args, grid, (tile.gx, tile.gy, 1))
