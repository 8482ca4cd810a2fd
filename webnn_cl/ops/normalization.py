"""Batch, instance and layer normalization (W3C WebNN, "Normalization operations")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from webnn_cl.dtypes import cast_parameter
from webnn_cl.ops.base import BuilderBase, Call
from webnn_cl.ops.batch_norm import expand_batch_norm
from webnn_cl.ops.norm_lower import epilogue_run, lower_instance_norm, lower_layer_norm
from webnn_cl.ops.record import FLOATS, MAX_RANK, Operand, OpRecord, Output, register
from webnn_cl.ops.spatial import IMAGE_LAYOUTS, Image, ImageLayout

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.operand import MLOperand

__all__ = ["BATCH_NORMALIZATION", "INSTANCE_NORMALIZATION", "LAYER_NORMALIZATION", "NormalizationMixin"]


def _parameter(role: str, rank: tuple[int, int], optional: bool = True) -> Operand:
    return Operand(role, FLOATS, rank=rank, same_as="input", optional=optional)


_OUTPUTS = (Output("output", like="input"),)
BATCH_NORMALIZATION = register(
    OpRecord(
        "batch_normalization",
        "batchNormalization",
        (
            Operand("input", FLOATS, rank=(1, MAX_RANK)),
            _parameter("mean", (1, 1), optional=False),
            _parameter("variance", (1, 1), optional=False),
            _parameter("scale", (1, 1)),
            _parameter("bias", (1, 1)),
        ),
        _OUTPUTS,
        expand=expand_batch_norm,
    )
)
INSTANCE_NORMALIZATION = register(
    OpRecord(
        "instance_normalization",
        "instanceNormalization",
        (Operand("input", FLOATS, rank=(4, 4)), _parameter("scale", (1, 1)), _parameter("bias", (1, 1))),
        _OUTPUTS,
        lower=lower_instance_norm,
        meta={"epilogue": epilogue_run},
    )
)
LAYER_NORMALIZATION = register(
    OpRecord(
        "layer_normalization",
        "layerNormalization",
        (Operand("input", FLOATS), _parameter("scale", (0, MAX_RANK)), _parameter("bias", (0, MAX_RANK))),
        _OUTPUTS,
        lower=lower_layer_norm,
        meta={"epilogue": epilogue_run},
    )
)


class NormalizationMixin(BuilderBase):
    """batch_normalization, instance_normalization and layer_normalization of MLGraphBuilder."""

    def batch_normalization(
        self,
        input: MLOperand,
        mean: MLOperand,
        variance: MLOperand,
        *,
        scale: MLOperand | None = None,
        bias: MLOperand | None = None,
        axis: int = 1,
        epsilon: float = 1e-5,
        label: str = "",
    ) -> MLOperand:
        """``(input - mean) / sqrt(variance + epsilon) * scale + bias``, with one set of statistics per channel.

        Args:
            input: float32 or float16, rank 1 or more.
            mean, variance: input's type, ``[input.shape[axis]]``.
            scale, bias: input's type, ``[input.shape[axis]]``; missing means 1 and 0.
            axis: the channels' dimension.
            epsilon: finite, cast to input's type.
            label: names the operator in messages.

        Returns:
            Input's type and shape.

        Raises:
            MLTypeError: data types, ranks, shapes or an axis that don't fit.

        W3C WebNN, "The batchNormalization() method".
        """
        call = self._call(BATCH_NORMALIZATION, label)
        x = call.operand("input", input)
        parameters = {
            "mean": call.operand("mean", mean),
            "variance": call.operand("variance", variance),
            "scale": call.optional("scale", scale),
            "bias": call.optional("bias", bias),
        }
        axis = call.axis("axis", axis, x.desc.rank)
        for role, value in parameters.items():
            _check_shape(call, role, value, (x.shape[axis],))
        return call.emit(x.desc, {"axis": axis, "epsilon": _epsilon(call, epsilon, x)})

    def instance_normalization(
        self,
        input: MLOperand,
        *,
        scale: MLOperand | None = None,
        bias: MLOperand | None = None,
        epsilon: float = 1e-5,
        layout: ImageLayout = "nchw",
        label: str = "",
    ) -> MLOperand:
        """``(input - m) / sqrt(v + epsilon) * scale + bias``, m and v the mean and variance of each image's channel.

        Args:
            input: float32 or float16, ``[batch, channels, height, width]`` or, by `layout`, channels last.
            scale, bias: input's type, ``[channels]``; missing means 1 and 0.
            epsilon: finite, cast to input's type.
            layout: ``"nchw"`` or ``"nhwc"``.
            label: names the operator in messages.

        Returns:
            Input's type and shape.

        Raises:
            MLTypeError: data types, ranks or shapes that don't fit.

        W3C WebNN, "The instanceNormalization() method".
        """
        call = self._call(INSTANCE_NORMALIZATION, label)
        x = call.operand("input", input)
        parameters = {"scale": call.optional("scale", scale), "bias": call.optional("bias", bias)}
        image = Image.of(x.shape, call.enum("layout", layout, IMAGE_LAYOUTS))
        for role, value in parameters.items():
            _check_shape(call, role, value, (image.channels,))
        return call.emit(x.desc, {"epsilon": _epsilon(call, epsilon, x), "layout": image.layout})

    def layer_normalization(
        self,
        input: MLOperand,
        *,
        scale: MLOperand | None = None,
        bias: MLOperand | None = None,
        axes: Sequence[int] | None = None,
        epsilon: float = 1e-5,
        label: str = "",
    ) -> MLOperand:
        """``(input - m) / sqrt(v + epsilon) * scale + bias``, m and v the mean and variance over `axes`.

        Args:
            input: float32 or float16, any rank.
            scale, bias: input's type, ``[input.shape[a] for a in axes]`` (so in the order of `axes`); missing means
                1 and 0.
            axes: distinct dimensions; missing means all but the first. ``[]`` reduces nothing: the result is `bias`.
            epsilon: finite, cast to input's type.
            label: names the operator in messages.

        Returns:
            Input's type and shape.

        Raises:
            MLTypeError: data types, shapes or axes that don't fit.

        W3C WebNN, "The layerNormalization() method".
        """
        call = self._call(LAYER_NORMALIZATION, label)
        x = call.operand("input", input)
        parameters = {"scale": call.optional("scale", scale), "bias": call.optional("bias", bias)}
        parsed = call.axes("axes", axes, x.desc.rank)
        chosen = tuple(range(1, x.desc.rank)) if parsed is None else parsed
        for role, value in parameters.items():
            _check_shape(call, role, value, tuple(x.shape[a] for a in chosen))
        return call.emit(x.desc, {"axes": chosen, "epsilon": _epsilon(call, epsilon, x)})


def _check_shape(call: Call, role: str, value: Value | None, shape: tuple[int, ...]) -> None:
    if value is not None and value.shape != shape:
        raise call.error(role, f"shape {list(value.shape)}", list(shape))


def _epsilon(call: Call, given: float, x: Value) -> float:
    return float(cast_parameter(call.f64("epsilon", given), x.data_type))
