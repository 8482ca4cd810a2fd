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
from webnn_cl.ops.spatial import Image
from webnn_cl.ops.widen import widen
from webnn_cl.tiles.matrix import Blocks, cut, transpose
from webnn_cl.tiles.plan import PANEL, ceil_div
from webnn_cl.tiles.product import tile_kernel

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering

__all__ = ["FEW_CHANNELS", "Axis", "channels_last", "lower_rows", "packed_filter"]


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


# Below so many channels a pixel's rows are copied together (PATCHES of conv_rows.cl), if they are at most DEPTH long.
FEW_CHANNELS = 16
DEPTH = 256


@dataclass(frozen=True)
class Source:
    """The input as the kernel reads it: float32 memory, element strides of plane, row and column, and zeros for rows
    outside the image. `patches`: the kernel copies rows together."""

    memory: Value | Buffer
    zeros: Value
    strides: tuple[int, int, int]
    patches: bool

    @classmethod
    def of(cls, conv: Convolution, lw: Lowering) -> Source:
        """The input of `conv`, turned to channels last unless it has few channels."""
        image, taps = conv.input, conv.filter
        depth = taps.height * taps.width * conv.inputs_a_group
        patches = conv.groups == 1 and image.channels < FEW_CHANNELS and depth <= DEPTH
        zeros = lw.host_constant(np.zeros(max(taps.width * conv.inputs_a_group, 8), np.float32))
        if patches:
            return cls(widen(lw, conv.node.inputs["input"]), zeros, image.strides[1:], True)
        last = Image(image.batch, image.channels, image.height, image.width, "nhwc")
        return cls(channels_last(conv, lw), zeros, last.strides[1:], False)

    @property
    def planes_first(self) -> bool:
        """Whether a copied row runs through one channel after the other."""
        return self.patches and self.strides[2] == 1


def lower_rows(conv: Convolution, lw: Lowering) -> None:
    """Register tiles of pixels by output channels, whose rows are read where they lie; one launch a phase."""
    source = Source.of(conv, lw)
    for row in Axis.of(conv, 0):
        for column in Axis.of(conv, 1):
            _launch_rows(conv, lw, source, row, column)


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


def _launch_rows(conv: Convolution, lw: Lowering, source: Source, row: Axis, column: Axis) -> None:
    inputs, tail = conv.node.inputs, lw.tail(conv.node)
    planar = conv.output.layout == "nchw" and conv.output.channels > 1
    defines = {
        "T": dtype_of(conv.node.output.data_type).storage,
        "HAS_BIAS": int("bias" in inputs),
        "PLANAR": int(planar),
        "PATCHES": int(source.patches),
    }
    bias: list[Arg] = [inputs["bias"]] if "bias" in inputs else []
    # A phase that no tap reaches is bias alone, and reads no filter.
    reached = row.taps * column.taps > 0
    w = packed_filter(conv, lw, row, column, source.planes_first) if reached else source.zeros
    panels, pixels = ceil_div(conv.outputs_a_group, PANEL), row.grid * column.grid * conv.output.batch
    depth = max(row.taps * column.taps, 1) * conv.inputs_a_group
    pixels_each, panels_each = cut(pixels, panels, depth, conv.groups, lw)
    if source.patches:
        panels_each = panels
    args: list[Arg] = [source.memory, w, source.zeros, *bias, tail.output]
    args += [*_geometry(conv, source, row, column), np.int64(conv.inputs_a_group), np.int64(conv.outputs_a_group)]
    args += [np.int64(pixels_each), np.int64(panels_each), *tail.args]
    items = (ceil_div(panels, panels_each), ceil_div(pixels, pixels_each), conv.groups)
    lw.launch(tile_kernel("conv_rows.cl", "conv_rows", defines, tail), args, items)


def _geometry(conv: Convolution, source: Source, row: Axis, column: Axis) -> Iterator[bytes]:
    """The arguments `in` to `taps` of conv_rows."""
    for image, strides in ((conv.input, source.strides), (conv.output, ())):
        elements = image.height * image.width * image.channels
        yield dims((image.height, image.width, image.channels, elements, *strides))
    yield dims((row.grid, column.grid, conv.output.batch))
    for name in ("first", "step", "origin", "stride", "dilation", "taps"):
        yield dims((getattr(row, name), getattr(column, name)))


def packed_filter(conv: Convolution, lw: Lowering, row: Axis, column: Axis, planes_first: bool = False) -> Buffer:
    """The taps of one launch in panels of 16 output channels; the order of k is row, column, input channel, or input
    channel, row, column."""
    value = conv.node.inputs["filter"]
    group, output, input_, height, width = conv.filter.strides
    panels = ceil_div(conv.outputs_a_group, PANEL)
    order = [
        (row.taps, row.tap_step * height),
        (column.taps, column.tap_step * width),
        (conv.inputs_a_group, input_),
    ]
    outer, middle, inner = order if not planes_first else (order[2], order[0], order[1])
    extents = (conv.outputs_a_group, inner[0], outer[0], middle[0])
    first = row.tap_first * height + column.tap_first * width
    steps = (first, group, output, inner[1], outer[1], middle[1])

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        kernel = tile_kernel("pack.cl", "pack_filter", {"S": dtype_of(source.data_type).storage})
        lw.launch(kernel, [source, target, *(np.int64(v) for v in (*extents, *steps))], (panels, conv.groups))

    size = row.taps * column.taps * conv.inputs_a_group * PANEL * panels * conv.groups
    return lw.packed(value, ("conv_rows", conv.groups, *extents, *steps), 4 * size, emit)
