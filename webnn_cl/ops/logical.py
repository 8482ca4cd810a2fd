"""Comparisons and logic, whose results are uint8 0 or 1 (W3C WebNN, "Element-wise logical operations")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.ops.elementwise import ElementwiseMixin, binary_record
from webnn_cl.ops.expression import Expression
from webnn_cl.ops.record import FLOATS, UINT8, Operand, OpRecord, Output, register

if TYPE_CHECKING:
    from webnn_cl.dtypes import DataType
    from webnn_cl.operand import MLOperand

__all__ = ["LogicalMixin"]


def _test_record(name: str, js: str, dtypes: tuple[DataType, ...], text: str) -> OpRecord:
    return register(
        OpRecord(
            name,
            js,
            operands=(Operand("a", dtypes),),
            outputs=(Output(dtypes=UINT8, rank=(0, 8)),),
            expression=Expression(text),
        )
    )


def _compare(name: str, js: str, symbol: str) -> OpRecord:
    return binary_record(name, f"BOOL{{W}}({{a}} {symbol} {{b}})", js, result=UINT8)


def _logic(name: str, js: str, symbol: str) -> OpRecord:
    text = f"BOOL{{W}}(({{a}} != ({{V}})(0)) {symbol} ({{b}} != ({{V}})(0)))"
    return binary_record(name, text, js, dtypes=UINT8, result=UINT8)


EQUAL = _compare("equal", "equal", "==")
NOT_EQUAL = _compare("not_equal", "notEqual", "!=")
GREATER = _compare("greater", "greater", ">")
GREATER_OR_EQUAL = _compare("greater_or_equal", "greaterOrEqual", ">=")
LESSER = _compare("lesser", "lesser", "<")
LESSER_OR_EQUAL = _compare("lesser_or_equal", "lesserOrEqual", "<=")
LOGICAL_AND = _logic("logical_and", "logicalAnd", "&")
LOGICAL_OR = _logic("logical_or", "logicalOr", "|")
LOGICAL_XOR = _logic("logical_xor", "logicalXor", "^")
LOGICAL_NOT = _test_record("logical_not", "logicalNot", UINT8, "BOOL{W}({a} == ({V})(0))")
IS_NAN = _test_record("is_nan", "isNaN", FLOATS, "BOOL{W}({a} != {a})")
IS_INFINITE = _test_record("is_infinite", "isInfinite", FLOATS, "BOOL{W}(wn_abs{W}({a}) == ({V})(INFINITY))")


class LogicalMixin(ElementwiseMixin):
    """Comparisons and logic of MLGraphBuilder; every result is uint8, 1 for true and 0 for false."""

    def _logical(self, record: OpRecord, a: object, b: object, label: str) -> MLOperand:
        return self._binary(record, a, b, label, "uint8")

    def _test(self, record: OpRecord, a: object, label: str) -> MLOperand:
        call = self._call(record, label)
        return call.emit(TensorDesc("uint8", call.operand("a", a).shape))

    def equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a == b`` (W3C WebNN, "Element-wise logical operations"); NaN equals nothing, +0 equals -0.

        `a`, `b`: one data type (any), rank 0 to 8; the result is uint8 of their bidirectional broadcast shape.
        MLTypeError: different types, shapes that don't broadcast, an operand of another builder.
        """
        return self._logical(EQUAL, a, b, label)

    def not_equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a != b`` (W3C WebNN, "Element-wise logical operations"); true if either is NaN.

        Types, shapes and errors as `equal`.
        """
        return self._logical(NOT_EQUAL, a, b, label)

    def greater(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a > b`` (W3C WebNN, "Element-wise logical operations"); false if either is NaN.

        Types, shapes and errors as `equal`.
        """
        return self._logical(GREATER, a, b, label)

    def greater_or_equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a >= b`` (W3C WebNN, "Element-wise logical operations"); false if either is NaN.

        Types, shapes and errors as `equal`.
        """
        return self._logical(GREATER_OR_EQUAL, a, b, label)

    def lesser(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a < b`` (W3C WebNN, "Element-wise logical operations"); false if either is NaN.

        Types, shapes and errors as `equal`.
        """
        return self._logical(LESSER, a, b, label)

    def lesser_or_equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a <= b`` (W3C WebNN, "Element-wise logical operations"); false if either is NaN.

        Types, shapes and errors as `equal`.
        """
        return self._logical(LESSER_OR_EQUAL, a, b, label)

    def logical_not(self, a: MLOperand, *, label: str = "") -> MLOperand:
        """Whether `a` is 0 (W3C WebNN, "Element-wise logical operations").

        `a`: uint8, rank 0 to 8, any value but 0 being true; the result is uint8 of its shape.
        MLTypeError: another data type, an operand of another builder.
        """
        return self._test(LOGICAL_NOT, a, label)

    def logical_and(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether both are not 0 (W3C WebNN, "Element-wise logical operations").

        `a`, `b`: uint8, rank 0 to 8; the result is uint8 of their bidirectional broadcast shape.
        MLTypeError: another data type, shapes that don't broadcast, an operand of another builder.
        """
        return self._logical(LOGICAL_AND, a, b, label)

    def logical_or(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether either is not 0 (W3C WebNN, "Element-wise logical operations").

        Types, shapes and errors as `logical_and`.
        """
        return self._logical(LOGICAL_OR, a, b, label)

    def logical_xor(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether exactly one is not 0 (W3C WebNN, "Element-wise logical operations").

        Types, shapes and errors as `logical_and`.
        """
        return self._logical(LOGICAL_XOR, a, b, label)

    def is_nan(self, a: MLOperand, *, label: str = "") -> MLOperand:
        """Whether each element is NaN (W3C WebNN, "Element-wise logical operations").

        `a`: float32 or float16, rank 0 to 8; the result is uint8 of its shape.
        MLTypeError: another data type, an operand of another builder.
        """
        return self._test(IS_NAN, a, label)

    def is_infinite(self, a: MLOperand, *, label: str = "") -> MLOperand:
        """Whether each element is infinite, of either sign (W3C WebNN, "Element-wise logical operations").

        Types, shapes and errors as `is_nan`.
        """
        return self._test(IS_INFINITE, a, label)
