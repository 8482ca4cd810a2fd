"""Blockwise linear quantization (W3C WebNN, "quantizeLinear" and "dequantizeLinear")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webnn_cl.compiler.ir import TensorDesc, Value
from webnn_cl.dtypes import DataType, dtype_of
from webnn_cl.ops.base import BuilderBase, Call
from webnn_cl.ops.expression import Expression
from webnn_cl.ops.record import FLOATS, Operand, OpRecord, Output, register

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.operand import MLOperand

__all__ = ["QuantizationMixin"]

QUANTIZED: tuple[DataType, ...] = ("uint8", "int8", "uint32", "int32")


def _quantize_text(node: Node) -> str:
    """Eight-bit sums are exact in float where they are in range; 32-bit ones need integers."""
    ratio = "wn_round{W}({input} / {scale})"
    if dtype_of(node.output.data_type).size == 1:
        return f"WN_SATURATE{{W}}({{OT}}, {ratio} + CONVERT{{W}}(float, {{zero_point}}))"
    return f"WN_QUANTIZE{{W}}({{OT}}, {ratio}, CONVERT{{W}}(long, {{zero_point}}))"


def _dequantize_text(node: Node) -> str:
    kind = "float" if dtype_of(node.inputs["input"].data_type).size == 1 else "long"
    difference = f"CONVERT{{W}}({kind}, {{input}}) - CONVERT{{W}}({kind}, {{zero_point}})"
    return f"(({difference}) * {{scale}})" if kind == "float" else f"(CONVERT{{W}}(float, {difference}) * {{scale}})"


QUANTIZE_LINEAR = register(
    OpRecord(
        "quantize_linear",
        "quantizeLinear",
        operands=(
            Operand("input", FLOATS),
            Operand("scale", FLOATS, rank="input", same_as="input"),
            Operand("zero_point", QUANTIZED, rank="input"),
        ),
        outputs=(Output(like="zero_point"),),
        expression=Expression(_quantize_text),
    )
)
DEQUANTIZE_LINEAR = register(
    OpRecord(
        "dequantize_linear",
        "dequantizeLinear",
        operands=(
            Operand("input", QUANTIZED),
            Operand("scale", FLOATS, rank="input"),
            Operand("zero_point", QUANTIZED, rank="input", same_as="input"),
        ),
        outputs=(Output(like="scale"),),
        expression=Expression(_dequantize_text),
    )
)


class QuantizationMixin(BuilderBase):
    """Quantization of MLGraphBuilder."""

    def quantize_linear(
        self, input: MLOperand, scale: MLOperand, zero_point: MLOperand, *, label: str = ""
    ) -> MLOperand:
        """``saturate(round_even(input / scale) + zero_point)`` (W3C WebNN, "quantizeLinear").

        `input`: float32 or float16, rank 0 to 8. `scale`: the input's type; `zero_point`: uint8, int8, uint32 or
        int32, the type of the result. Both have the input's rank and one shape, whose dimensions divide the
        input's: each of their elements serves a block. The result has the input's shape; NaN gives 0.
        MLTypeError: other data types, ranks or shapes, an operand of another builder.
        """
        call = self._call(QUANTIZE_LINEAR, label)
        x, _, zero = _operands(call, input, scale, zero_point)
        return call.emit(TensorDesc(zero.data_type, x.shape))

    def dequantize_linear(
        self, input: MLOperand, scale: MLOperand, zero_point: MLOperand, *, label: str = ""
    ) -> MLOperand:
        """``(input - zero_point) * scale`` (W3C WebNN, "dequantizeLinear").

        `input`: uint8, int8, uint32 or int32, rank 0 to 8. `scale`: float32 or float16, the type of the result;
        `zero_point`: the input's type. Both have the input's rank and one shape, whose dimensions divide the
        input's: each of their elements serves a block. The result has the input's shape.
        MLTypeError: other data types, ranks or shapes, an operand of another builder.
        """
        call = self._call(DEQUANTIZE_LINEAR, label)
        x, steps, _ = _operands(call, input, scale, zero_point)
        return call.emit(TensorDesc(steps.data_type, x.shape))


def _operands(call: Call, input: object, scale: object, zero_point: object) -> tuple[Value, Value, Value]:
    """The three operands with their block shapes checked."""
    x = call.operand("input", input)
    steps = call.operand("scale", scale)
    zero = call.operand("zero_point", zero_point)
    if steps.shape != zero.shape:
        raise call.error("zero_point", f"shape {list(zero.shape)}", f"{list(steps.shape)}, as scale")
    if any(dim % blocks for dim, blocks in zip(x.shape, steps.shape, strict=True)):
        raise call.error("scale", f"shape {list(steps.shape)}", f"dimensions that divide {list(x.shape)}")
    return x, steps, zero
