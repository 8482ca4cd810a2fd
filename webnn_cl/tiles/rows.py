"""Lowering of convolutions of every kind to conv_rows (conv_rows.cl)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.conv_direct import Convolution
from webnn_cl.ops.widen import widen
from webnn_cl.tiles.matrix import Blocks, cut, tile_kernel, transpose
from webnn_cl.tiles.plan import PANEL, ceil_div

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering

__all__ = ["Axis", "channels_last", "lower_rows", "packed_filter"]


@dataclass(frozen=True)
class Axis:
    """One spatial dimension of a launch of conv_rows: output ``first + i * step`` reads, for each of `taps` taps t,
    input ``origin + i * stride + t * dilation`` and the filter's tap ``tap_first + t * tap_step``."""

    grid: int
    first: int
    step: int
    origin: int
    stride: int
    dilation: int
    taps: int
    tap_first: int = 0
    tap_step: int = 1

    @classmethod
    def of(cls, conv: Convolution, d: int) -> list[Axis]:
        """The launches that dimension `d` (0 rows, 1 columns) asks for: one, or the phases of a transposed one."""
        attrs = conv.node.attrs
        stride, dilation, pad = attrs["strides"][d], attrs["dilations"][d], attrs["padding"][2 * d]
        size = (conv.output.height, conv.output.width)[d]
        taps = (conv.filter.height, conv.filter.width)[d]
        if not conv.transposed:
            return [cls(size, 0, 1, -pad, stride, dilation, taps)]
        return [cls._phase(r, size, stride, dilation, pad, taps) for r in range(min(stride, size))]

    @classmethod
    def _phase(cls, r: int, size: int, stride: int, dilation: int, pad: int, taps: int) -> Axis:
        """Outputs r, r + stride, ...; input i adds tap t to output i * stride + t * dilation - pad."""
        step = stride // math.gcd(stride, dilation)
        hits = [t for t in range(min(step, taps)) if (r + pad - t * dilation) % stride == 0]
        grid = ceil_div(size - r, stride)
        if not hits:
            return cls(grid, r, stride, 0, 1, 1, 0)
        origin = (r + pad - hits[0] * dilation) // stride
        count = ceil_div(taps - hits[0], step)
        return cls(grid, r, stride, origin, 1, -(step * dilation // stride), count, hits[0], step)


def lower_rows(conv: Convolution, lw: Lowering) -> None:
    """Register tiles of pixels by output channels, whose rows are read where they lie; one launch a phase."""
    x = channels_last(conv, lw)
    rows, columns = Axis.of(conv, 0), Axis.of(conv, 1)
    longest = max((a.taps for a in columns), default=0) * conv.inputs_a_group
    zeros = lw.host_constant(np.zeros(max(longest, 8), np.float32))
    for row in rows:
        for column in columns:
            _launch_rows(conv, lw, (x, zeros), row, column)


def channels_last(conv: Convolution, lw: Lowering) -> Value | Buffer:
    """The input as float32 with channels last."""
    value, image = conv.node.inputs["input"], conv.input
    size = image.height * image.width
    if image.layout == "nhwc" or image.channels == 1 or size == 1:
        return widen(lw, value)

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        beyond = (image.channels // 8 + 1) * 8
        blocks = Blocks(beyond, 0, image.channels, size * image.channels, pad=False)
        transpose(lw, source, target, image.batch, (image.channels, size), blocks)

    return lw.packed(value, "channels last", 4 * value.desc.size, emit)


def _launch_rows(
    conv: Convolution, lw: Lowering, source: tuple[Value | Buffer, Value], row: Axis, column: Axis
) -> None:
    inputs = conv.node.inputs
    storage = dtype_of(conv.node.output.data_type).storage
    planar = conv.output.layout == "nchw" and conv.output.channels > 1
    defines = {"T": storage, "HAS_BIAS": int("bias" in inputs), "PLANAR": int(planar)}
    bias: list[Arg] = [inputs["bias"]] if "bias" in inputs else []
    # A phase that no tap reaches is bias alone, and reads no filter.
    w = packed_filter(conv, lw, row, column) if row.taps * column.taps else source[1]
    panels, pixels = ceil_div(conv.outputs_a_group, PANEL), row.grid * column.grid * conv.output.batch
    depth = max(row.taps * column.taps, 1) * conv.inputs_a_group
    pixels_each, panels_each = cut(pixels, panels, depth, conv.groups, lw)
    tail = lw.tail(conv.node)
    args: list[Arg] = [source[0], w, source[1], *bias, tail.output]
    args += [*_geometry(conv, row, column), np.int64(conv.inputs_a_group), np.int64(conv.outputs_a_group)]
    args += [np.int64(pixels_each), np.int64(panels_each), *tail.args]
    items = (ceil_div(panels, panels_each), ceil_div(pixels, pixels_each), conv.groups)
    lw.launch(tile_kernel("conv_rows.cl", "conv_rows", defines, tail), args, items)


def _geometry(conv: Convolution, row: Axis, column: Axis) -> Iterator[bytes]:
    """The arguments `in` to `taps` of conv_rows."""
    for image in (conv.input, conv.output):
        yield dims((image.height, image.width, image.channels, image.height * image.width * image.channels))
    yield dims((row.grid, column.grid, conv.output.batch))
    for name in ("first", "step", "origin", "stride", "dilation", "taps"):
        yield dims((getattr(row, name), getattr(column, name)))


def packed_filter(conv: Convolution, lw: Lowering, row: Axis, column: Axis) -> Buffer:
    """The taps of one launch in panels of 16 output channels."""
    value = conv.node.inputs["filter"]
    group, output, input_, height, width = conv.filter.strides
    panels = ceil_div(conv.outputs_a_group, PANEL)
    extents = (conv.outputs_a_group, conv.inputs_a_group, row.taps, column.taps)
    first = row.tap_first * height + column.tap_first * width
    steps = (first, group, output, input_, row.tap_step * height, column.tap_step * width)

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        kernel = tile_kernel("pack.cl", "pack_filter", {"S": dtype_of(source.data_type).storage})
        lw.launch(kernel, [source, target, *(np.int64(v) for v in (*extents, *steps))], (panels, conv.groups))

    size = row.taps * column.taps * conv.inputs_a_group * PANEL * panels * conv.groups
    return lw.packed(value, ("conv_rows", conv.groups, *extents, *steps), 4 * size, emit)
