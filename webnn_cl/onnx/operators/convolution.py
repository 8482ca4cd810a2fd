"""Conv, ConvTranspose and Col2Im in one, two and three spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.operators.common import cast, pad_axes, reshape, slice_axis, transpose
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__ = ["Window", "convolve", "window_of"]


@dataclass(frozen=True)
class Window:
    """Kernel geometry per spatial dimension: `pads` are (begin, end) pairs."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    def extent(self, axis: int) -> int:
        """Input elements that the kernel spans."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1


def window_of(c: Call, spatial: Sequence[int], kernel: Sequence[int]) -> Window:
    """The attributes of a convolution or pooling, with auto_pad resolved for an input of size `spatial`."""
    rank = len(spatial)
    if len(kernel) != rank or any(k < 1 for k in kernel):
        c.refuse(f"kernel shape {list(kernel)} for {rank} spatial dimensions")
    strides, dilations = (tuple(c.integers(name) or [1] * rank) for name in ("strides", "dilations"))
    if len(strides) != rank or len(dilations) != rank or min(*strides, *dilations) < 1:
        c.refuse(f"strides {list(strides)}, dilations {list(dilations)} for {rank} spatial dimensions")
    window = Window(tuple(kernel), strides, dilations, ((0, 0),) * rank)
    return Window(window.kernel, strides, dilations, _pads(c, spatial, window))


def _pads(c: Call, spatial: Sequence[int], window: Window) -> tuple[tuple[int, int], ...]:
    rank, auto = len(spatial), c.text("auto_pad", "NOTSET")
    if auto == "VALID":
        return ((0, 0),) * rank
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        return tuple(_same(spatial[i], window, i, auto == "SAME_UPPER") for i in range(rank))
    pads = c.integers("pads") or [0] * (2 * rank)
    if auto not in ("NOTSET", "") or len(pads) != 2 * rank or min(pads) < 0:
        c.refuse(f"auto_pad {auto!r}, pads {pads} for {rank} spatial dimensions")
    return tuple(zip(pads[:rank], pads[rank:], strict=True))


def _same(size: int, window: Window, axis: int, upper: bool) -> tuple[int, int]:
    """Padding after which there is one output for each stride that starts in the input."""
    outputs = -(-size // window.strides[axis])
    total = max(0, (outputs - 1) * window.strides[axis] + window.extent(axis) - size)
    small = total // 2
    return (small, total - small) if upper else (total - small, small)


@op("Conv")
def conv(c: Call) -> MLOperand:
    shape, weight = c.shape(0), c.shape(1)
    if not 3 <= len(shape) <= 5 or len(weight) != len(shape):
        c.refuse(f"input {list(shape)} with weights {list(weight)}; 1 to 3 spatial dimensions are expressed")
    window = window_of(c, shape[2:], c.integers("kernel_shape") or weight[2:])
    if window.kernel != tuple(weight[2:]):
        c.refuse(f"kernel_shape {list(window.kernel)} for weights of shape {list(weight)}")
    groups = c.integer("group", 1)
    if len(shape) == 3:
        return _conv_1d(c, window, groups)
    if len(shape) == 4:
        return convolve(c, c.x(0), c.x(1), window, groups, c.optional(2))
    return _conv_3d(c, window, groups)


def convolve(
    c: Call, x: MLOperand, weight: MLOperand, window: Window, groups: int, bias: MLOperand | None = None
) -> MLOperand:
    """conv2d in NCHW and OIHW."""
    (top, bottom), (left, right) = window.pads
    options: dict[str, Any] = {} if bias is None else {"bias": bias}
    return c.b.conv2d(
        x,
        weight,
        padding=[top, bottom, left, right],
        strides=list(window.strides),
        dilations=list(window.dilations),
        groups=groups,
        **options,
    )


def flat(window: Window) -> Window:
    """A one-dimensional window as a two-dimensional one of height 1."""
    return Window((1, *window.kernel), (1, *window.strides), (1, *window.dilations), ((0, 0), *window.pads))


def _conv_1d(c: Call, window: Window, groups: int) -> MLOperand:
    (n, channels, length), (out, inner, k) = c.shape(0), c.shape(1)
    x, weight = c.reshaped(0, (n, channels, 1, length)), c.reshaped(1, (out, inner, 1, k))
    y = convolve(c, x, weight, flat(window), groups, c.optional(2))
    return reshape(c, y, (n, out, y.shape[3]))


def _conv_3d(c: Call, window: Window, groups: int) -> MLOperand:
    """A sum over the depth of the kernel of two-dimensional convolutions; depth becomes part of the batch."""
    x, weight = c.x(0), c.x(1)
    n, channels = x.shape[:2]
    first, last = window.pads[0]
    x = pad_axes(c, x, (0, 0, first, 0, 0), (0, 0, last, 0, 0))
    stride, dilation, extent = window.strides[0], window.dilations[0], window.extent(0)
    depth = (x.shape[2] - extent) // stride + 1
    if depth < 1:
        c.refuse(f"the kernel spans {extent} of {x.shape[2]} layers")
    plane = Window(window.kernel[1:], window.strides[1:], window.dilations[1:], window.pads[1:])
    total: MLOperand | None = None
    for k in range(window.kernel[0]):
        layers = slice_axis(c, x, 2, k * dilation, (depth - 1) * stride + 1, stride)
        batch = reshape(c, transpose(c, layers, (0, 2, 1, 3, 4)), (n * depth, channels, *x.shape[3:]))
        kernel = slice_axis(c, weight, 2, k, 1)
        kernel = reshape(c, kernel, (*weight.shape[:2], *weight.shape[3:]))
        part = convolve(c, batch, kernel, plane, groups, c.optional(2) if k == 0 else None)
        total = part if total is None else c.b.add(total, part)
    assert total is not None
    return transpose(c, reshape(c, total, (n, depth, *total.shape[1:])), (0, 2, 1, 3, 4))


# Transposed -------------------------------------------------------------------------------------------------


@op("ConvTranspose")
def conv_transpose(c: Call) -> MLOperand:
    shape, weight = c.shape(0), c.shape(1)
    rank = len(shape) - 2
    if not 1 <= rank <= 3 or len(weight) != len(shape):
        c.refuse(f"input {list(shape)} with weights {list(weight)}; 1 to 3 spatial dimensions are expressed")
    extra = tuple(c.integers("output_padding") or [0] * rank)
    window, extra = _transposed_window(c, shape[2:], c.integers("kernel_shape") or weight[2:], extra)
    if window.kernel != tuple(weight[2:]):
        c.refuse(f"kernel_shape {list(window.kernel)} for weights of shape {list(weight)}")
    groups, bias = c.integer("group", 1), c.optional(2)
    if rank == 1:
        x, kernel = c.reshaped(0, (*shape[:2], 1, shape[2])), c.reshaped(1, (*weight[:2], 1, weight[2]))
        y = _transposed(c, x, kernel, flat(window), (0, *extra), groups, bias)
        return reshape(c, y, (*y.shape[:2], y.shape[3]))
    if rank == 2:
        return _transposed(c, c.x(0), c.x(1), window, extra, groups, bias)
    return _transposed_3d(c, window, extra, groups, bias)


def _transposed_window(
    c: Call, spatial: Sequence[int], kernel: Sequence[int], extra: tuple[int, ...]
) -> tuple[Window, tuple[int, ...]]:
    """The window with its padding, which output_shape and auto_pad decide here, and the output padding."""
    rank, auto = len(spatial), c.text("auto_pad", "NOTSET")
    strides, dilations = (tuple(c.integers(name) or [1] * rank) for name in ("strides", "dilations"))
    window = Window(tuple(kernel), strides, dilations, ((0, 0),) * rank)
    wanted = c.integers("output_shape")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [d * s for d, s in zip(spatial, strides, strict=True)]
    if wanted is None:
        return Window(window.kernel, strides, dilations, _pads(c, spatial, window)), extra
    pads, more = [], list(extra)
    for axis, size in enumerate(wanted[-rank:]):
        total = strides[axis] * (spatial[axis] - 1) + extra[axis] + window.extent(axis) - size
        if total < 0:  # the output is larger than what the input reaches
            more[axis] += -total
            total = 0
        small = total // 2
        pads.append((small, total - small) if auto == "SAME_UPPER" else (total - small, small))
    return Window(window.kernel, strides, dilations, tuple(pads)), tuple(more)


def _transposed(
    c: Call,
    x: MLOperand,
    weight: MLOperand,
    window: Window,
    extra: tuple[int, ...],
    groups: int,
    bias: MLOperand | None,
) -> MLOperand:
    """conv_transpose2d in NCHW and IOHW."""
    (top, bottom), (left, right) = window.pads
    options: dict[str, Any] = {} if bias is None else {"bias": bias}
    if any(e >= s for e, s in zip(extra, window.strides, strict=True)):
        c.refuse(f"output_padding {list(extra)} with strides {list(window.strides)}")
    return c.b.conv_transpose2d(
        x,
        weight,
        padding=[top, bottom, left, right],
        strides=list(window.strides),
        dilations=list(window.dilations),
        output_padding=list(extra),
        groups=groups,
        **options,
    )


def _transposed_3d(
    c: Call, window: Window, extra: tuple[int, ...], groups: int, bias: MLOperand | None
) -> MLOperand:
    """Each layer of the kernel gives layers of the output at a distance of the stride; they are added in place."""
    x, weight = c.x(0), c.x(1)
    n, channels, depth = x.shape[:3]
    plane = Window(window.kernel[1:], window.strides[1:], window.dilations[1:], window.pads[1:])
    batch = reshape(c, transpose(c, x, (0, 2, 1, 3, 4)), (n * depth, channels, *x.shape[3:]))
    reach = (depth - 1) * window.strides[0] + window.extent(0) + extra[0]
    total: MLOperand | None = None
    for k in range(window.kernel[0]):
        kernel = reshape(c, slice_axis(c, weight, 2, k, 1), (*weight.shape[:2], *weight.shape[3:]))
        part = _transposed(c, batch, kernel, plane, extra[1:], groups, None)
        spread = _spread(c, reshape(c, part, (n, depth, *part.shape[1:])), window.strides[0])
        offset = k * window.dilations[0]
        begin, end = [0, offset, 0, 0, 0], [0, reach - offset - spread.shape[1], 0, 0, 0]
        placed = pad_axes(c, spread, begin, end)
        total = placed if total is None else c.b.add(total, placed)
    assert total is not None
    first, last = window.pads[0]
    y = transpose(c, slice_axis(c, total, 1, first, reach - first - last), (0, 2, 1, 3, 4))
    return y if bias is None else c.b.add(y, reshape(c, bias, (*bias.shape, 1, 1, 1)))


def _spread(c: Call, x: MLOperand, stride: int) -> MLOperand:
    """Axis 1 with stride - 1 zero layers between its layers."""
    if stride == 1:
        return x
    n, depth, *rest = x.shape
    wide = pad_axes(c, reshape(c, x, (n, depth, 1, *rest)), [0] * 6, [0, 0, stride - 1, 0, 0, 0])
    return slice_axis(c, reshape(c, wide, (n, depth * stride, *rest)), 1, 0, (depth - 1) * stride + 1)


@op("Col2Im")
def col2im(c: Call) -> MLOperand:
    """A transposed convolution whose kernel puts each column element at its own place."""
    image, block = c.known_ints(1, "image_shape"), c.known_ints(2, "block_shape")
    rank = len(image)
    if rank != 2 or len(block) != 2:
        c.refuse(f"image_shape {image}; two dimensions are expressed")
    window = window_of(c, image, block)
    size = [(image[i] + sum(window.pads[i]) - window.extent(i)) // window.strides[i] + 1 for i in range(rank)]
    x, area = c.x(0), math.prod(block)
    n, rows = x.shape[0], x.shape[1]
    channels = rows // area
    columns = reshape(c, x, (n * channels, area, *size))
    kernel = c.constant(np.eye(area, dtype=np.float32).reshape(area, 1, *block))
    reached = [(s - 1) * window.strides[i] + window.extent(i) - sum(window.pads[i]) for i, s in enumerate(size)]
    extra = tuple(image[i] - reached[i] for i in range(rank))
    y = _transposed(c, columns, cast(c, kernel, x.data_type), window, extra, 1, None)
    return reshape(c, y, (n, channels, *image))
