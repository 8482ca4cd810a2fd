"""Two-dimensional convolution and transposed convolution (W3C WebNN, "conv2d" and "convTranspose2d")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from webnn_cl.compiler.ir import TensorDesc, Value
from webnn_cl.ops.base import BuilderBase, Call
from webnn_cl.ops.record import FLOATS, Operand, OpRecord, Output, register
from webnn_cl.ops.spatial import IMAGE_LAYOUTS, Image, ImageLayout, Window, parse_window
from webnn_cl.ops.uneven_groups import expand_uneven_groups
from webnn_cl.tiles.variants import lower_variant

if TYPE_CHECKING:
    from webnn_cl.operand import MLOperand

__all__ = ["CONV2D", "CONV_TRANSPOSE2D", "ConvolutionMixin"]

FilterLayout = Literal["oihw", "hwio", "ohwi", "ihwo"]
FILTER_LAYOUTS: tuple[FilterLayout, ...] = ("oihw", "hwio", "ohwi", "ihwo")
TransposeFilterLayout = Literal["iohw", "hwoi", "ohwi"]
TRANSPOSE_FILTER_LAYOUTS: tuple[TransposeFilterLayout, ...] = ("iohw", "hwoi", "ohwi")

_OPERANDS = (
    Operand("input", FLOATS, rank=(4, 4)),
    Operand("filter", FLOATS, rank=(4, 4), same_as="input"),
    Operand("bias", FLOATS, rank=(1, 1), same_as="input", optional=True),
)
_OUTPUTS = (Output("output", like="input"),)


# Planar results may leave eight pixels at a time, across the ends of rows.
_META = {"epilogue": lambda node: 2 if node.attrs["input_layout"] == "nchw" else 1}

CONV2D = register(OpRecord("conv2d", "conv2d", _OPERANDS, _OUTPUTS, lower=lower_variant, meta=_META))
CONV_TRANSPOSE2D = register(
    OpRecord(
        "conv_transpose2d",
        "convTranspose2d",
        _OPERANDS,
        _OUTPUTS,
        lower=lower_variant,
        expand=expand_uneven_groups,
        meta=_META,
    )
)


class ConvolutionMixin(BuilderBase):
    """conv2d and conv_transpose2d of MLGraphBuilder."""

    def conv2d(
        self,
        input: MLOperand,
        filter: MLOperand,
        *,
        bias: MLOperand | None = None,
        padding: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        groups: int = 1,
        input_layout: ImageLayout = "nchw",
        filter_layout: FilterLayout = "oihw",
        label: str = "",
    ) -> MLOperand:
        """Cross-correlation of a batch of images with a filter.

        Args:
            input: float32 or float16, ``[batch, channels, height, width]`` or, by `input_layout`, channels last.
            filter: input's type; four dimensions in the order of `filter_layout`, where ``o`` is the number of
                output channels and ``i`` that of input channels divided by `groups`.
            bias: input's type, ``[output channels]``; missing adds nothing.
            padding: ``[top, bottom, left, right]`` zeros around the image; default none.
            strides, dilations: ``[height, width]``, at least 1; default 1.
            groups: channels fall into this many groups that don't see each other; it divides both channel counts.
            input_layout: ``"nchw"`` or ``"nhwc"``, of input and output.
            filter_layout: ``"oihw"``, ``"hwio"``, ``"ohwi"`` or ``"ihwo"``.
            label: names the operator in messages.

        Returns:
            Input's type and layout; height and width are
            ``floor((in - ((kernel - 1) * dilation + 1) + pads) / stride) + 1``.

        Raises:
            MLTypeError: data types, ranks, options or channel counts that don't fit, or an empty output.

        W3C WebNN, "The conv2d() method". Padding counts as zeros; an infinite or NaN weight may give NaN where it
        meets padding.
        """
        call = self._call(CONV2D, label)
        x, w = call.operand("input", input), call.operand("filter", filter)
        b = call.optional("bias", bias)
        window = parse_window(call, padding, strides, dilations)
        groups = call.u32("groups", groups, minimum=1)
        image = Image.of(x.shape, call.enum("input_layout", input_layout, IMAGE_LAYOUTS))
        filter_layout = call.enum("filter_layout", filter_layout, FILTER_LAYOUTS)
        o, i, *kernel = (w.shape[filter_layout.index(letter)] for letter in "oihw")
        _check_divides(call, groups, "input channels", image.channels)
        _check_divides(call, groups, "output channels", o)
        if i != image.channels // groups:
            allowed = f"{image.channels // groups} (input channels / groups)"
            raise call.error("filter", f"{i} input channels (shape {list(w.shape)})", allowed)
        _check_bias(call, b, o)
        height, width = (
            window.slack(d, extent, k) // window.strides[d] + 1
            for d, (extent, k) in enumerate(zip((image.height, image.width), kernel, strict=True))
        )
        output = Image(image.batch, o, height, width, image.layout)
        attrs = _attributes(window, groups, image.layout, filter_layout)
        return call.emit(TensorDesc(x.data_type, output.shape), attrs)

    def conv_transpose2d(
        self,
        input: MLOperand,
        filter: MLOperand,
        *,
        bias: MLOperand | None = None,
        padding: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        output_padding: Sequence[int] | None = None,
        output_sizes: Sequence[int] | None = None,
        groups: int = 1,
        input_layout: ImageLayout = "nchw",
        filter_layout: TransposeFilterLayout = "iohw",
        label: str = "",
    ) -> MLOperand:
        """Transposed convolution: each input pixel adds the filter, scaled by it, to the output.

        Args:
            input: float32 or float16, ``[batch, channels, height, width]`` or, by `input_layout`, channels last.
            filter: input's type; four dimensions in the order of `filter_layout`, where ``i`` is the number of
                input channels and ``o`` that of output channels divided by `groups`.
            bias: input's type, ``[output channels]``; missing adds nothing.
            padding: ``[top, bottom, left, right]`` rows and columns cut off the output; default none.
            strides, dilations: ``[height, width]``, at least 1; default 1.
            output_padding: ``[height, width]`` added at the end of the output, each below its stride; ignored when
                `output_sizes` is given.
            output_sizes: ``[height, width]`` of the output, each from the computed size to that size + stride - 1.
            groups: channels fall into this many groups that don't see each other. Where it does not divide the input
                channels, channel i belongs to group ``i // (channels / groups)``.
            input_layout: ``"nchw"`` or ``"nhwc"``, of input and output.
            filter_layout: ``"iohw"``, ``"hwoi"`` or ``"ohwi"``.
            label: names the operator in messages.

        Returns:
            Input's type and layout; height and width are `output_sizes`, or
            ``(in - 1) * stride + (kernel - 1) * dilation + 1 - pads + output_padding``.

        Raises:
            MLTypeError: data types, ranks, options or channel counts that don't fit, or an empty output.

        W3C WebNN, "The convTranspose2d() method".
        """
        call = self._call(CONV_TRANSPOSE2D, label)
        x, w = call.operand("input", input), call.operand("filter", filter)
        b = call.optional("bias", bias)
        window = parse_window(call, padding, strides, dilations)
        extra = (0, 0) if output_padding is None else call.u32_list("output_padding", output_padding, length=2)
        groups = call.u32("groups", groups, minimum=1)
        image = Image.of(x.shape, call.enum("input_layout", input_layout, IMAGE_LAYOUTS))
        filter_layout = call.enum("filter_layout", filter_layout, TRANSPOSE_FILTER_LAYOUTS)
        i, o, *kernel = (w.shape[filter_layout.index(letter)] for letter in "iohw")
        if i != image.channels:
            raise call.error("filter", f"{i} input channels (shape {list(w.shape)})", image.channels)
        _check_bias(call, b, o * groups)
        computed = [
            (extent - 1) * window.strides[d] + (k - 1) * window.dilations[d] + 1 - window.pads(d)
            for d, (extent, k) in enumerate(zip((image.height, image.width), kernel, strict=True))
        ]
        height, width = _transposed_sizes(call, computed, window, extra, output_sizes)
        output = Image(image.batch, o * groups, height, width, image.layout)
        attrs = _attributes(window, groups, image.layout, filter_layout)
        return call.emit(TensorDesc(x.data_type, output.shape), attrs)


def _transposed_sizes(
    call: Call, computed: Sequence[int], window: Window, extra: Sequence[int], given: Sequence[int] | None
) -> Sequence[int]:
    """Output height and width: `given` if it is in range, else `computed` plus the output padding `extra`."""
    if given is None:
        for size, stride in zip(extra, window.strides, strict=True):
            if size >= stride:
                raise call.error("output_padding", list(extra), f"values below the strides {list(window.strides)}")
        return [c + e for c, e in zip(computed, extra, strict=True)]
    sizes = call.u32_list("output_sizes", given, length=2)
    for size, low, stride in zip(sizes, computed, window.strides, strict=True):
        if not low <= size < low + stride:
            allowed = " and ".join(f"{c} to {c + s - 1}" for c, s in zip(computed, window.strides, strict=True))
            raise call.error("output_sizes", list(sizes), allowed)
    return sizes


def _check_divides(call: Call, groups: int, what: str, channels: int) -> None:
    if channels % groups:
        raise call.error("groups", groups, f"a divisor of the {channels} {what}")


def _check_bias(call: Call, bias: Value | None, channels: int) -> None:
    if bias is not None and bias.shape != (channels,):
        raise call.error("bias", f"shape {list(bias.shape)}", f"[{channels}] (output channels)")


def _attributes(window: Window, groups: int, input_layout: str, filter_layout: str) -> dict[str, object]:
    return {
        "padding": window.padding,
        "strides": window.strides,
        "dilations": window.dilations,
        "groups": groups,
        "input_layout": input_layout,
        "filter_layout": filter_layout,
    }
