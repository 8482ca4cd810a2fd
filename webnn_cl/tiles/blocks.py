"""Lowering of transposed convolutions whose windows tile the output (conv_blocks.cl)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.tiles.plan import PANEL, ceil_div, pieces
from webnn_cl.tiles.product import tile_kernel
from webnn_cl.tiles.rows import channels_last

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering
    from webnn_cl.ops.conv_direct import Convolution

__all__ = ["is_blocks", "lower_blocks"]


def is_blocks(conv: Convolution) -> bool:
    """Whether every input pixel of the transposed `conv` becomes a block of the output of its own."""
    attrs, taps = conv.node.attrs, (conv.filter.height, conv.filter.width)
    if not conv.transposed or conv.groups != 1 or any(attrs["padding"]) or taps != tuple(attrs["strides"]):
        return False
    if tuple(attrs["dilations"]) != (1, 1):
        return False
    x, y = conv.input, conv.output
    whole = (y.height, y.width) == (x.height * taps[0], x.width * taps[1])
    return whole and (y.layout == "nhwc" or y.channels == 1)


def lower_blocks(conv: Convolution, lw: Lowering) -> None:
    """One launch: a matrix product whose columns are scattered."""
    inputs, image, taps = conv.node.inputs, conv.input, conv.filter
    outputs, tail = conv.output.channels, lw.tail(conv.node)
    columns = taps.height * taps.width * outputs
    defines = {
        "T": dtype_of(conv.node.output.data_type).storage,
        "HAS_BIAS": int("bias" in inputs),
        "PAIRS": int(outputs == 1 and taps.width == 2 and columns <= 8),
    }
    bias: list[Arg] = [inputs["bias"]] if "bias" in inputs else []
    rows = image.height * image.batch
    each = pieces(rows, 2.0 * image.width * image.channels * columns, lw.facts)
    args: list[Arg] = [channels_last(conv, lw), _packed(conv, lw), *bias, tail.output]
    args.append(dims((image.height, image.width, image.channels, image.batch)))
    args += [dims((taps.height, taps.width, outputs)), np.int64(each), *tail.args]
    kernel = tile_kernel("conv_blocks.cl", "conv_blocks", defines, tail)
    lw.launch(kernel, args, (ceil_div(rows, each),))


def _packed(conv: Convolution, lw: Lowering) -> Buffer:
    """The filter in panels of 16 columns (row, column, output channel)."""
    _, output, input_, height, width = conv.filter.strides
    taps, inputs = (conv.filter.height, conv.filter.width, conv.output.channels), conv.input.channels
    panels = ceil_div(taps[0] * taps[1] * taps[2], PANEL)
    steps = (height, width, output, input_)

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        kernel = tile_kernel("pack.cl", "pack_blocks", {"S": dtype_of(source.data_type).storage})
        lw.launch(kernel, [source, target, np.int64(inputs), dims(taps), dims(steps)], (inputs, panels))

    key = ("conv_blocks", inputs, *taps, *steps)
    return lw.packed(conv.node.inputs["filter"], key, 4 * panels * inputs * PANEL, emit)
