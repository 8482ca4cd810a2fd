"""cast: element-wise conversion between the data types (W3C WebNN, "cast")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.dtypes import DATA_TYPES, DataType, dtype_of, normalize_data_type
from webnn_cl.errors import MLTypeError
from webnn_cl.ops.base import BuilderBase
from webnn_cl.ops.expression import Expression
from webnn_cl.ops.record import ANY, Operand, OpRecord, Output, register

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.operand import MLOperand

__all__ = ["CastingMixin"]


def _cast_text(node: Node) -> str:
    source, target = dtype_of(node.inputs["input"].data_type), dtype_of(node.output.data_type)
    if source.compute == target.compute:
        return "{input}"
    if source.is_float:
        return "WN_SATURATE{W}({OT}, {input})"
    return "CONVERT{W}({OT}, {input})"


CAST = register(
    OpRecord(
        "cast",
        "cast",
        operands=(Operand("input", ANY),),
        outputs=(Output(dtypes=ANY, rank=(0, 8)),),
        expression=Expression(_cast_text),
    )
)


class CastingMixin(BuilderBase):
    """Casting of MLGraphBuilder."""

    def cast(self, input: MLOperand, data_type: DataType, *, label: str = "") -> MLOperand:
        """`input` converted to `data_type` (W3C WebNN, "cast").

        To a float: the nearest value, halves to even, overflow to infinity. From a float to an integer: truncated
        toward zero; out of range saturates and NaN gives 0 (the specification leaves both open). Between integers:
        the low bits, so that values that don't fit wrap around. int64 and uint64 are exact.

        `input`: any data type, rank 0 to 8; the result has its shape. MLTypeError: an unknown data type, an operand
        of another builder.
        """
        call = self._call(CAST, label)
        x = call.operand("input", input)
        try:
            target = normalize_data_type(data_type)
        except MLTypeError:
            raise call.error("data_type", repr(data_type), ", ".join(DATA_TYPES)) from None
        return call.emit(TensorDesc(target, x.shape), {"data_type": target})
