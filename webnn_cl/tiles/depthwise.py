"""Lowering of depthwise convolutions, one channel a group (depthwise.cl, depthwise_planar.cl)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.widen import widen
from webnn_cl.tiles.plan import ceil_div, pieces, workers
from webnn_cl.tiles.product import tile_kernel

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering
    from webnn_cl.ops.conv_direct import Convolution

__all__ = ["is_depthwise", "lower_depthwise"]

# Channels of a work-item, channels last: their weights stay in the first cache.
CHANNELS = 128
# Floats of the planar kernel's copy of its input rows: half the first cache.
ROOM = 4096
MOST_TAPS = 64  # of depthwise_planar.cl


def is_depthwise(conv: Convolution) -> bool:
    """Whether the kernels here compute `conv`."""
    if conv.transposed or not conv.inputs_a_group == conv.outputs_a_group == 1 or conv.groups == 1:
        return False
    return conv.input.layout == "nhwc" or _rows_that_fit(conv) >= 1


def lower_depthwise(conv: Convolution, lw: Lowering) -> None:
    """One launch."""
    if conv.input.layout == "nhwc":
        _lower_last(conv, lw)
    else:
        _lower_planar(conv, lw)


def _lower_last(conv: Convolution, lw: Lowering) -> None:
    channels, out = conv.input.channels, conv.output
    each = min(channels, CHANNELS)
    rows = pieces(out.height, _flops_a_row(conv) * each / channels, lw.facts)
    pitch = ceil_div(channels, 8) * 8
    args = _arguments(conv, lw, widen(lw, conv.node.inputs["input"]), _taps(conv, lw, 1, pitch))
    tail = lw.tail(conv.node)
    args += [np.int64(pitch), np.int64(each), np.int64(rows), *tail.args]
    kernel = tile_kernel("depthwise.cl", "depthwise", _defines(conv), tail)
    lw.launch(kernel, args, (ceil_div(channels, each), ceil_div(out.height, rows), out.batch))


def _lower_planar(conv: Convolution, lw: Lowering) -> None:
    out, taps = conv.output, conv.filter.height * conv.filter.width
    rows = _rows_that_fit(conv)
    while rows > 1 and ceil_div(out.height, rows) * out.channels * out.batch < 4 * workers(lw.facts):
        rows = ceil_div(rows, 2)
    channels = pieces(out.channels, _flops_a_row(conv) * rows / out.channels, lw.facts)
    args = _arguments(conv, lw, conv.node.inputs["input"], _taps(conv, lw, taps, 1))
    tail = lw.tail(conv.node)
    args += [np.int64(v) for v in (_phase_pitch(conv), rows, channels)]
    kernel = tile_kernel("depthwise_planar.cl", "depthwise_planar", {**_defines(conv), "ROOM": ROOM}, tail)
    items = (ceil_div(out.height, rows), ceil_div(out.channels, channels), out.batch)
    lw.launch(kernel, [*args, *tail.args], items)


def _flops_a_row(conv: Convolution) -> float:
    return 2.0 * conv.output.width * conv.output.channels * conv.filter.height * conv.filter.width


def _phase_pitch(conv: Convolution) -> int:
    """Floats of a copied row for each remainder by the stride: what the last vector of eight results reaches."""
    attrs = conv.node.attrs
    reach = (conv.filter.width - 1) * attrs["dilations"][1]
    return int(ceil_div(conv.output.width, 8) * 8 + reach // attrs["strides"][1])


def _rows_that_fit(conv: Convolution) -> int:
    """Rows of results whose input rows fit the copy; 0 when not even one does, or the window is too large."""
    attrs = conv.node.attrs
    if conv.filter.height * conv.filter.width > MOST_TAPS:
        return 0
    copied = ROOM // (_phase_pitch(conv) * attrs["strides"][1])
    rows = copied - (conv.filter.height - 1) * attrs["dilations"][0] - 1
    return min(conv.output.height, rows // attrs["strides"][0] + 1) if rows >= 0 else 0


def _defines(conv: Convolution) -> dict[str, object]:
    storage = dtype_of(conv.node.output.data_type).storage
    return {"T": storage, "HAS_BIAS": int("bias" in conv.node.inputs)}


def _arguments(conv: Convolution, lw: Lowering, x: Value | Buffer, taps: Buffer) -> list[Arg]:
    """The arguments that both kernels begin with."""
    inputs, attrs = conv.node.inputs, conv.node.attrs
    bias: list[Arg] = [inputs["bias"]] if "bias" in inputs else []
    top, _, left, _ = attrs["padding"]
    return [
        x, taps, *bias, lw.tail(conv.node).output,
        *(dims((image.height, image.width, image.channels)) for image in (conv.input, conv.output)),
        dims((conv.filter.height, conv.filter.width)),
        dims((*attrs["strides"], *attrs["dilations"], top, left)),
    ]  # fmt: skip


def _taps(conv: Convolution, lw: Lowering, channel_pitch: int, tap_pitch: int) -> Buffer:
    """The filter as float32, channel c's tap t at c * channel_pitch + t * tap_pitch."""
    group, _, _, height, width = conv.filter.strides
    channels, taps = conv.groups, conv.filter.height * conv.filter.width
    numbers = (channels, conv.filter.height, conv.filter.width, group, height, width, channel_pitch, tap_pitch)

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        kernel = tile_kernel("pack.cl", "pack_taps", {"S": dtype_of(source.data_type).storage})
        lw.launch(kernel, [source, target, *(np.int64(v) for v in numbers)], (channels,), (8,))

    size = max(channels * channel_pitch, taps * tap_pitch)
    return lw.packed(conv.node.inputs["filter"], ("taps", *numbers), 4 * size, emit)
