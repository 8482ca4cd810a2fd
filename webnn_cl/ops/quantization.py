"""Blockwise linear quantization (W3C WebNN, "quantizeLinear" and "dequantizeLinear")."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from webnn_cl.compiler.ir import TensorDesc, Value
from webnn_cl.dtypes import DataType, dtype_of
from webnn_cl.ops.base import BuilderBase, Call
from webnn_cl.ops.expansion import Expansion
from webnn_cl.ops.expression import Expression
from webnn_cl.ops.record import FLOATS, Operand, OpRecord, Output, register
from webnn_cl.ops.shaping import EXPAND
from webnn_cl.ops.strided import MAX_DIMS, View

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.operand import MLOperand

__all__ = ["QuantizationMixin"]

QUANTIZED: tuple[DataType, ...] = ("uint8", "int8", "uint32", "int32")


def _dequantize_text(node: Node) -> str:
    kind = "float" if dtype_of(node.inputs["input"].data_type).size == 1 else "long"
    difference = f"CONVERT{{W}}({kind}, {{input}}) - CONVERT{{W}}({kind}, {{zero_point}})"
    return f"(({difference}) * {{scale}})" if kind == "float" else f"(CONVERT{{W}}(float, {difference}) * {{scale}})"


def _expand_blocks(node: Node) -> list[Node]:
    """Blocks as dimensions of their own, [n] as [blocks, n / blocks], in which scale and zero point just broadcast.

    Nothing when they broadcast already: one element, or as many as the input has, in each dimension.
    """
    x, scale, zero_point = (node.inputs[role] for role in ("input", "scale", "zero_point"))
    axes = [axis for axis, (n, blocks) in enumerate(zip(x.shape, scale.shape, strict=True)) if 1 < blocks < n]
    if not axes:
        return []
    parts = Expansion(node)
    while len(_block_view(x.shape, scale.shape).collapsed().shape) > MAX_DIMS:
        axis = axes.pop()
        scale, zero_point = (_repeated(parts, v, axis, x.shape[axis]) for v in (scale, zero_point))
    shape = _block_view(x.shape, scale.shape).shape
    small = _factored(scale.shape, scale.shape, x.shape)
    inputs = {
        "input": parts.reshaped(x, shape),
        "scale": parts.reshaped(scale, small),
        "zero_point": parts.reshaped(zero_point, small),
    }
    result = parts.add(node.op, inputs, {}, TensorDesc(node.output.data_type, shape))
    parts.reshaped(result, node.output.shape)
    return parts.nodes


def _factored(shape: tuple[int, ...], blocks: tuple[int, ...], full: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` with each blocked dimension split in two: blocks, and elements of a block (1 for scale's own shape)."""
    dims: list[int] = []
    for n, count, whole in zip(shape, blocks, full, strict=True):
        dims += [count, n // count] if 1 < count < whole else [n]
    return tuple(dims)


def _block_view(shape: tuple[int, ...], blocks: tuple[int, ...]) -> View:
    """How scale is read under the input's split shape."""
    return View.packed(_factored(blocks, blocks, shape)).expanded(_factored(shape, blocks, shape))


def _repeated(parts: Expansion, value: Value, axis: int, size: int) -> Value:
    """`value` with each element along `axis` repeated until there are `size`."""
    before, after = math.prod(value.shape[: axis + 1]), math.prod(value.shape[axis + 1 :])
    shape = (before, size // value.shape[axis], after)
    flat = parts.reshaped(value, (before, 1, after))
    wide = parts.add(EXPAND, {"input": flat}, {"new_shape": shape}, TensorDesc(value.data_type, shape))
    return parts.reshaped(wide, (*value.shape[:axis], size, *value.shape[axis + 1 :]))


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
        expression=Expression("WN_QUANTIZE{W}({OT}, {input} / {scale}, {zero_point})"),
        expand=_expand_blocks,
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
        expand=_expand_blocks,
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
