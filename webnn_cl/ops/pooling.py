"""Pooling over windows of images (W3C WebNN, "Pooling operations")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.ops.base import BuilderBase, Call
from webnn_cl.ops.pool_direct import expand_global_pool, lower_pool
from webnn_cl.ops.record import ANY, FLOATS, Operand, OpRecord, Output, register
from webnn_cl.ops.spatial import IMAGE_LAYOUTS, Image, ImageLayout, Window, parse_window

if TYPE_CHECKING:
    from webnn_cl.dtypes import DataType
    from webnn_cl.operand import MLOperand

__all__ = ["AVERAGE_POOL2D", "L2_POOL2D", "MAX_POOL2D", "PoolingMixin"]

Rounding = Literal["floor", "ceil"]
ROUNDINGS: tuple[Rounding, ...] = ("floor", "ceil")


def _pool(name: str, js: str, dtypes: tuple[DataType, ...]) -> OpRecord:
    operands, outputs = (Operand("input", dtypes, rank=(4, 4)),), (Output("output", like="input"),)
    return register(
        OpRecord(name, js, operands, outputs, lower=lower_pool, expand=expand_global_pool, meta={"epilogue": 1})
    )


AVERAGE_POOL2D = _pool("average_pool2d", "averagePool2d", FLOATS)
L2_POOL2D = _pool("l2_pool2d", "l2Pool2d", FLOATS)
MAX_POOL2D = _pool("max_pool2d", "maxPool2d", ANY)


class PoolingMixin(BuilderBase):
    """average_pool2d, l2_pool2d and max_pool2d of MLGraphBuilder."""

    def average_pool2d(
        self,
        input: MLOperand,
        *,
        window_dimensions: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        layout: ImageLayout = "nchw",
        output_shape_rounding: Rounding = "floor",
        output_sizes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """Mean of each window's elements; padding counts as nothing, not even in the divisor.

        Args:
            input: float32 or float16, ``[batch, channels, height, width]`` or, by `layout`, channels last.
            window_dimensions: ``[height, width]`` of the window, at least 1; default: the whole image.
            padding: ``[top, bottom, left, right]`` around the image; default none.
            strides, dilations: ``[height, width]``, at least 1; default 1.
            layout: ``"nchw"`` or ``"nhwc"``, of input and output.
            output_shape_rounding: ``"floor"`` or ``"ceil"`` of the exact output size.
            output_sizes: ``[height, width]`` of the output, both the floor or both the ceil of the exact sizes; wins
                over `output_shape_rounding`.
            label: names the operator in messages.

        Returns:
            Input's type and layout; height and width are
            ``round((in - ((window - 1) * dilation + 1) + pads) / stride + 1)``. A window wholly in padding gives NaN.

        Raises:
            MLTypeError: data type, rank or options that don't fit, or an empty output.

        W3C WebNN, "Pooling operations". Padding is honoured with `output_sizes` too, as the conformance tests do.
        """
        call = self._call(AVERAGE_POOL2D, label)
        window = _parse(call, input, window_dimensions, padding, strides, dilations, layout)
        return _emit(call, *window, output_shape_rounding, output_sizes)

    def l2_pool2d(
        self,
        input: MLOperand,
        *,
        window_dimensions: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        layout: ImageLayout = "nchw",
        output_shape_rounding: Rounding = "floor",
        output_sizes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """Square root of the sum of each window's squared elements; padding counts as nothing.

        Options, result and errors are those of `average_pool2d`; a window wholly in padding gives 0.

        W3C WebNN, "Pooling operations".
        """
        call = self._call(L2_POOL2D, label)
        window = _parse(call, input, window_dimensions, padding, strides, dilations, layout)
        return _emit(call, *window, output_shape_rounding, output_sizes)

    def max_pool2d(
        self,
        input: MLOperand,
        *,
        window_dimensions: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        layout: ImageLayout = "nchw",
        output_shape_rounding: Rounding = "floor",
        output_sizes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """Largest of each window's elements, NaN if one is NaN; padding counts as nothing.

        Options, result and errors are those of `average_pool2d`, but `input` may have any data type. A window wholly
        in padding gives the lowest value of the type.

        W3C WebNN, "Pooling operations".
        """
        call = self._call(MAX_POOL2D, label)
        window = _parse(call, input, window_dimensions, padding, strides, dilations, layout)
        return _emit(call, *window, output_shape_rounding, output_sizes)


def _parse(
    call: Call,
    input: MLOperand,
    window_dimensions: Sequence[int] | None,
    padding: Sequence[int] | None,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    layout: str,
) -> tuple[TensorDesc, Image, Sequence[int], Window]:
    x = call.operand("input", input)
    image = Image.of(x.shape, call.enum("layout", layout, IMAGE_LAYOUTS))
    kernel: Sequence[int] = (image.height, image.width)
    if window_dimensions is not None:
        kernel = call.u32_list("window_dimensions", window_dimensions, length=2, minimum=1)
    return x.desc, image, kernel, parse_window(call, padding, strides, dilations)


def _emit(
    call: Call,
    desc: TensorDesc,
    image: Image,
    kernel: Sequence[int],
    window: Window,
    rounding: str,
    output_sizes: Sequence[int] | None,
) -> MLOperand:
    rounding = call.enum("output_shape_rounding", rounding, ROUNDINGS)
    slack = [window.slack(d, (image.height, image.width)[d], kernel[d]) for d in range(2)]
    floor = tuple(s // stride + 1 for s, stride in zip(slack, window.strides, strict=True))
    ceil = tuple(-(-s // stride) + 1 for s, stride in zip(slack, window.strides, strict=True))
    sizes: tuple[int, ...] = ceil if rounding == "ceil" else floor
    if output_sizes is not None:
        sizes = call.u32_list("output_sizes", output_sizes, length=2)
        if sizes not in (floor, ceil):
            raise call.error("output_sizes", list(sizes), f"{list(floor)} or {list(ceil)}")
    height, width = sizes
    output = Image(image.batch, image.channels, height, width, image.layout)
    attrs = {
        "window_dimensions": tuple(kernel),
        "padding": window.padding,
        "strides": window.strides,
        "dilations": window.dilations,
        "layout": image.layout,
    }
    return call.emit(TensorDesc(desc.data_type, output.shape), attrs)
