"""Lowering of conv2d and conv_transpose2d to the direct kernels, right for every option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import kernels_cl
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.spatial import Image
from webnn_cl.ops.strided import packed_strides
from webnn_cl.ops.widen import widen
from webnn_cl.ops.work import local_of

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node, Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering

__all__ = ["Convolution", "lower_conv2d", "lower_conv_transpose2d"]

LANES = 8
# Below so many output channels a group, lanes are better spent on neighbouring pixels.
FEW_CHANNELS = 4


def lower_conv2d(node: Node, lw: Lowering) -> None:
    """conv2d."""
    lower_direct(Convolution(node, transposed=False), lw)


def lower_conv_transpose2d(node: Node, lw: Lowering) -> None:
    """conv_transpose2d."""
    lower_direct(Convolution(node, transposed=True), lw)


@dataclass(frozen=True)
class Filter:
    """A filter's extents by meaning and its element strides: group, output channel, input channel, row, column."""

    height: int
    width: int
    strides: tuple[int, int, int, int, int]


class Convolution:
    """Geometry of a conv2d or conv_transpose2d node."""

    def __init__(self, node: Node, transposed: bool) -> None:
        attrs = node.attrs
        self.node = node
        self.transposed = transposed
        self.input = Image.of(node.inputs["input"].shape, attrs["input_layout"])
        self.output = Image.of(node.output.shape, attrs["input_layout"])
        self.groups: int = attrs["groups"]
        self.filter = self._filter(node.inputs["filter"], attrs["filter_layout"])

    @property
    def inputs_a_group(self) -> int:
        return self.input.channels // self.groups

    @property
    def outputs_a_group(self) -> int:
        return self.output.channels // self.groups

    def _filter(self, value: Value, layout: str) -> Filter:
        strides = dict(zip(layout, packed_strides(value.shape), strict=True))
        # A conv2d filter stacks the groups along o, a transposed one along i.
        group = self.inputs_a_group * strides["i"] if self.transposed else self.outputs_a_group * strides["o"]
        height, width = value.shape[layout.index("h")], value.shape[layout.index("w")]
        return Filter(height, width, (group, strides["o"], strides["i"], strides["h"], strides["w"]))

    def geometry(self) -> list[bytes]:
        """The arguments `in`, `out`, `taps` and `window` of the kernels."""
        attrs = self.node.attrs
        top, _, left, _ = attrs["padding"]
        return [
            *(dims((image.height, image.width, *image.strides)) for image in (self.input, self.output)),
            dims((self.filter.height, self.filter.width, self.inputs_a_group, self.outputs_a_group, self.groups)),
            dims((*attrs["strides"], *attrs["dilations"], top, left)),
        ]

    def row_tiles(self) -> int:
        """Work-items for one output row, eight pixels each."""
        apart = self.node.attrs["strides"][1] if self.transposed else 1
        return int(-(-self.output.width // (LANES * apart)) * apart)


def lower_direct(conv: Convolution, lw: Lowering) -> None:
    """One launch (and packing of the filter): lanes along output channels, groups or pixels, whichever there are."""
    planar = conv.output.layout == "nchw"
    if planar and conv.outputs_a_group < FEW_CHANNELS:
        _lower_planar(conv, lw)
    else:
        depthwise = not planar and not conv.transposed and conv.inputs_a_group == conv.outputs_a_group == 1
        _lower_blocks(conv, lw, depthwise)


def _operands(conv: Convolution, lw: Lowering, filter: Buffer) -> list[Arg]:
    inputs = conv.node.inputs
    bias: list[Arg] = [inputs["bias"]] if "bias" in inputs else []
    return [widen(lw, inputs["input"]), filter, *bias, lw.tail(conv.node).output, *conv.geometry()]


def _defines(conv: Convolution) -> dict[str, object]:
    return {"TRANSPOSED": int(conv.transposed), "HAS_BIAS": int("bias" in conv.node.inputs)}


def _lower_planar(conv: Convolution, lw: Lowering) -> None:
    defines = _defines(conv) | {"T": "float", "OUT": dtype_of(conv.node.output.data_type).storage}
    tail = lw.tail(conv.node)
    code = kernels_cl.read("window8.cl") + tail.code
    kernel = Kernel("conv_planar.cl", "conv_planar", defines | tail.defines, code, ("blocks.h", *tail.headers))
    args = _operands(conv, lw, widen(lw, conv.node.inputs["filter"]))
    args += [dims(conv.filter.strides), np.int64(conv.node.inputs["input"].desc.size), *tail.args]
    grid = (conv.output.height, conv.output.channels, conv.output.batch)
    lw.launch(kernel, args, grid, local_of(lw.facts, 3))


def _lower_blocks(conv: Convolution, lw: Lowering, depthwise: bool) -> None:
    groups, outputs = (1, conv.groups) if depthwise else (conv.groups, conv.outputs_a_group)
    panels = groups * -(-outputs // LANES)
    packed = _packed_filter(conv, lw, depthwise, outputs, panels)
    defines = _defines(conv) | {"DEPTHWISE": int(depthwise), "T": dtype_of(conv.node.output.data_type).storage}
    tail = lw.tail(conv.node)
    headers = ("blocks.h", *tail.headers)
    kernel = Kernel("conv_direct.cl", "conv_direct", defines | tail.defines, tail.code, headers)
    items = (conv.output.height * conv.row_tiles(), panels, conv.output.batch)
    lw.launch(kernel, [*_operands(conv, lw, packed), *tail.args], items, local_of(lw.facts, 3))


def _packed_filter(conv: Convolution, lw: Lowering, depthwise: bool, outputs: int, panels: int) -> Buffer:
    """The filter as conv_direct.cl reads it."""
    value, taps = conv.node.inputs["filter"], conv.filter
    depth = taps.height * taps.width * conv.inputs_a_group
    group, output, *rest = taps.strides
    strides = (0, group, *rest) if depthwise else (group, output, *rest)

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        kernel = Kernel("conv_pack.cl", "conv_pack", {"T": dtype_of(source.data_type).storage})
        extents = dims((taps.height, taps.width, conv.inputs_a_group, outputs))
        lw.launch(kernel, [source, target, dims(strides), extents], (depth, panels), (8, 1))

    key = ("conv_direct", strides, taps.height, taps.width, conv.inputs_a_group, outputs, panels)
    return lw.packed(value, key, 4 * LANES * depth * panels, emit)
