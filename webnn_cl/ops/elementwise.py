"""Element-wise arithmetic: the binary and unary operators and `where` (W3C WebNN, operators.json)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.dtypes import DataType, dtype_of
from webnn_cl.ops.base import BuilderBase, Call, broadcast
from webnn_cl.ops.expression import Expression
from webnn_cl.ops.record import ANY, FLOATS, SIGNED, UINT8, Operand, OpRecord, Output, register

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.operand import MLOperand

__all__ = ["ElementwiseMixin", "binary_record", "broadcast_shape", "typed", "unary_record"]

Text: TypeAlias = str | Callable[["Node"], str]


def typed(floating: str, integer: str) -> Callable[[Node], str]:
    """An expression's text by the kind of its first operand."""

    def text(node: Node) -> str:
        first = next(iter(node.inputs.values()))
        return floating if dtype_of(first.data_type).is_float else integer

    return text


def unary_record(
    name: str, dtypes: Sequence[DataType], text: Text, js: str = "", params: Sequence[str] = ()
) -> OpRecord:
    """Register an operator of one operand `input` whose output has the input's type and shape."""
    return register(
        OpRecord(
            name,
            js or name,
            operands=(Operand("input", tuple(dtypes)),),
            outputs=(Output(like="input"),),
            expression=Expression(text, tuple(params)),
        )
    )


def binary_record(
    name: str,
    text: Text,
    js: str = "",
    dtypes: Sequence[DataType] = ANY,
    result: Sequence[DataType] | None = None,
    before: Callable[[Node], Sequence[str]] | None = None,
) -> OpRecord:
    """Register an operator of `a` and `b`, which have one type; the output's is that, or `result`."""
    output = Output(like="a") if result is None else Output(dtypes=tuple(result), rank=(0, 8))
    return register(
        OpRecord(
            name,
            js or name,
            operands=(Operand("a", tuple(dtypes)), Operand("b", tuple(dtypes), same_as="a")),
            outputs=(output,),
            expression=Expression(text, before=before),
        )
    )


def broadcast_shape(call: Call, first: Sequence[int], role: str, second: Sequence[int]) -> tuple[int, ...]:
    """Bidirectional broadcast of two shapes; `role` is the operand of the second one, named in the error."""
    shape = broadcast(first, second)
    if shape is None:
        raise call.error(role, f"shape {list(second)}", f"a shape that broadcasts with {list(first)}")
    return shape


# Powers that models are full of, in exact or cheaper operations.
_POWERS = {
    0.0: "({V})(1)",
    1.0: "{a}",
    2.0: "({a} * {a})",
    3.0: "({a} * {a} * {a})",
    0.5: "wn_pow_half{W}({a})",
    -0.5: "(({V})(1) / wn_pow_half{W}({a}))",
    -1.0: "(({V})(1) / {a})",
}


def _pow_text(node: Node) -> str:
    if not dtype_of(node.inputs["a"].data_type).is_float:
        return "WN_POW{W}({T}, {a}, {b})"
    exponent = node.inputs["b"].scalar
    return _POWERS.get(math.nan if exponent is None else exponent, "wn_pow_end{W}({a}, {b}, {t}high, {t}low)")


def _pow_before(node: Node) -> tuple[str, ...]:
    return _POW_STAGES if "{t}" in _pow_text(node) else ()


_POW_STAGES = (
    "{V} {t}e, {t}f; const {V} {t}cube = wn_pow_split{W}(wn_abs{W}({a}), &{t}e, &{t}f);",
    "{V} {t}low; const {V} {t}high = wn_pow_product{W}({t}e, {t}f, {t}cube, {b}, &{t}low);",
)

# Arithmetic on integers wraps; the WN_ macros go through unsigned types, since signed overflow is undefined in C.
ADD = binary_record("add", typed("({a} + {b})", "WN_ADD{W}({T}, {a}, {b})"))
SUB = binary_record("sub", typed("({a} - {b})", "WN_SUB{W}({T}, {a}, {b})"))
MUL = binary_record("mul", typed("({a} * {b})", "WN_MUL{W}({T}, {a}, {b})"))
DIV = binary_record("div", typed("({a} / {b})", "WN_DIV{W}({T}, {a}, {b})"))
POW = binary_record("pow", _pow_text, before=_pow_before)
# Selecting a where it is NaN, and b where the comparison fails, propagates NaN from either side.
MAX = binary_record("max", typed("SEL{W}({b}, {a}, ({a} >= {b}) | ({a} != {a}))", "SEL{W}({b}, {a}, {a} >= {b})"))
MIN = binary_record("min", typed("SEL{W}({b}, {a}, ({a} <= {b}) | ({a} != {a}))", "SEL{W}({b}, {a}, {a} <= {b})"))

ABS = unary_record(
    "abs",
    SIGNED,
    typed("wn_abs{W}({input})", "SEL{W}({input}, WN_SUB{W}({T}, ({V})(0), {input}), {input} < ({V})(0))"),
)
CEIL = unary_record("ceil", FLOATS, "wn_ceil{W}({input})")
COS = unary_record("cos", FLOATS, "wn_cos{W}({input})")
ERF = unary_record("erf", FLOATS, "wn_erf{W}({input})")
EXP = unary_record("exp", FLOATS, "wn_exp{W}({input})")
FLOOR = unary_record("floor", FLOATS, "wn_floor{W}({input})")
LOG = unary_record("log", FLOATS, "wn_log{W}({input})")
NEG = unary_record("neg", SIGNED, typed("(-{input})", "WN_SUB{W}({T}, ({V})(0), {input})"))
RECIPROCAL = unary_record("reciprocal", FLOATS, "(({V})(1) / {input})")
ROUND_EVEN = unary_record("round_even", FLOATS, "wn_round{W}({input})", "roundEven")
SIN = unary_record("sin", FLOATS, "wn_sin{W}({input})")
SIGN = unary_record(
    "sign",
    SIGNED,
    "SEL{W}(SEL{W}(({V})(0), ({V})(-1), {input} < ({V})(0)), ({V})(1), {input} > ({V})(0))",
)
SQRT = unary_record("sqrt", FLOATS, "sqrt({input})")
TAN = unary_record("tan", FLOATS, "wn_tan{W}({input})")

# Without arithmetic the copy keeps every bit, NaN payloads too.
IDENTITY = register(
    OpRecord("identity", "identity", operands=(Operand("input", ANY),), outputs=(Output(like="input"),), view=True)
)

WHERE = register(
    OpRecord(
        "where",
        "where",
        operands=(
            Operand("condition", UINT8),
            Operand("true_value", ANY),
            Operand("false_value", ANY, same_as="true_value"),
        ),
        outputs=(Output(like="true_value"),),
        expression=Expression("SEL{W}({false_value}, {true_value}, WN_TRUE{W}({OT}, {condition}))"),
    )
)


class ElementwiseMixin(BuilderBase):
    """Element-wise arithmetic of MLGraphBuilder."""

    def _binary(
        self, record: OpRecord, a: object, b: object, label: str, data_type: DataType | None = None
    ) -> MLOperand:
        call = self._call(record, label)
        left, right = call.operand("a", a), call.operand("b", b)
        shape = broadcast_shape(call, left.shape, "b", right.shape)
        return call.emit(TensorDesc(data_type or left.data_type, shape))

    def _unary(self, record: OpRecord, input: object, label: str) -> MLOperand:
        call = self._call(record, label)
        return call.emit(call.operand("input", input).desc)

    # Binary: "Element-wise binary operations" -------------------------------------------------------------------

    def add(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """``a + b`` (W3C WebNN, "Element-wise binary operations"). Integers wrap around.

        `a`, `b`: one data type (any), rank 0 to 8; the result has their bidirectional broadcast shape.
        MLTypeError: different types, shapes that don't broadcast, an operand of another builder.
        """
        return self._binary(ADD, a, b, label)

    def sub(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """``a - b`` (W3C WebNN, "Element-wise binary operations"). Integers wrap around.

        Types, shapes and errors as `add`.
        """
        return self._binary(SUB, a, b, label)

    def mul(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """``a * b`` (W3C WebNN, "Element-wise binary operations"). Integers wrap around.

        Types, shapes and errors as `add`.
        """
        return self._binary(MUL, a, b, label)

    def div(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """``a / b`` (W3C WebNN, "Element-wise binary operations").

        Floats follow IEEE 754. Integers truncate toward zero; x / 0 is 0 and the lowest value / -1 wraps to
        itself (the specification leaves both open). Types, shapes and errors as `add`.
        """
        return self._binary(DIV, a, b, label)

    def max(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """The greater of `a` and `b` (W3C WebNN, "Element-wise binary operations"); NaN if either is NaN.

        Types, shapes and errors as `add`.
        """
        return self._binary(MAX, a, b, label)

    def min(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """The lesser of `a` and `b` (W3C WebNN, "Element-wise binary operations"); NaN if either is NaN.

        Types, shapes and errors as `add`.
        """
        return self._binary(MIN, a, b, label)

    def pow(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """`a` to the power of `b` (W3C WebNN, "Element-wise binary operations").

        Floats follow C's pow(). Integers wrap around; a negative exponent gives the reciprocal truncated toward
        zero, and 0 for base 0. Types, shapes and errors as `add`.
        """
        return self._binary(POW, a, b, label)

    # Unary: "Element-wise unary operations" ---------------------------------------------------------------------

    def abs(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Absolute value (W3C WebNN, "Element-wise unary operations"); the lowest integer wraps to itself.

        `input`: float32, float16, int64, int32 or int8, rank 0 to 8; the result has its type and shape.
        MLTypeError: another data type, an operand of another builder.
        """
        return self._unary(ABS, input, label)

    def ceil(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """The least integer not below each element, as a float (W3C WebNN, "Element-wise unary operations").

        `input`: float32 or float16, rank 0 to 8; the result has its type and shape.
        MLTypeError: another data type, an operand of another builder.
        """
        return self._unary(CEIL, input, label)

    def cos(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Cosine of radians (W3C WebNN, "Element-wise unary operations"). Types, shapes and errors as `ceil`."""
        return self._unary(COS, input, label)

    def erf(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Gauss error function (W3C WebNN, "Element-wise unary operations"). Types, shapes and errors as `ceil`."""
        return self._unary(ERF, input, label)

    def exp(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """e to the power of `input` (W3C WebNN, "Element-wise unary operations"). Types and errors as `ceil`."""
        return self._unary(EXP, input, label)

    def floor(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """The greatest integer not above each element, as a float (W3C WebNN, "Element-wise unary operations").

        Types, shapes and errors as `ceil`.
        """
        return self._unary(FLOOR, input, label)

    def identity(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """`input` unchanged, bit for bit (W3C WebNN, "Element-wise unary operations").

        `input`: any data type, rank 0 to 8. It makes a graph input or a constant usable as a graph output.
        MLTypeError: an operand of another builder.
        """
        return self._unary(IDENTITY, input, label)

    def log(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Natural logarithm (W3C WebNN, "Element-wise unary operations"): -inf for 0, NaN below 0.

        Types, shapes and errors as `ceil`.
        """
        return self._unary(LOG, input, label)

    def neg(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Negation (W3C WebNN, "Element-wise unary operations"); the lowest integer wraps to itself.

        Types, shapes and errors as `abs`.
        """
        return self._unary(NEG, input, label)

    def reciprocal(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``1 / input`` (W3C WebNN, "Element-wise unary operations"). Types, shapes and errors as `ceil`."""
        return self._unary(RECIPROCAL, input, label)

    def round_even(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """The nearest integer, halves to the even one (W3C WebNN, "Element-wise unary operations").

        Types, shapes and errors as `ceil`.
        """
        return self._unary(ROUND_EVEN, input, label)

    def sin(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Sine of radians (W3C WebNN, "Element-wise unary operations"). Types, shapes and errors as `ceil`."""
        return self._unary(SIN, input, label)

    def sign(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """1 above zero, -1 below, else 0, for NaN too (W3C WebNN, "Element-wise unary operations").

        Types, shapes and errors as `abs`.
        """
        return self._unary(SIGN, input, label)

    def sqrt(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Square root (W3C WebNN, "Element-wise unary operations"): NaN below 0. Types and errors as `ceil`."""
        return self._unary(SQRT, input, label)

    def tan(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Tangent of radians (W3C WebNN, "Element-wise unary operations"). Types, shapes and errors as `ceil`."""
        return self._unary(TAN, input, label)

    def where(
        self, condition: MLOperand, true_value: MLOperand, false_value: MLOperand, *, label: str = ""
    ) -> MLOperand:
        """`true_value` where `condition` is not 0, else `false_value` (W3C WebNN, "where").

        `condition`: uint8; the values: one data type (any). All rank 0 to 8, broadcast against each other in both
        directions. A NaN in the value not taken has no effect. MLTypeError: another type of condition, values of
        different types, shapes that don't broadcast, an operand of another builder.
        """
        call = self._call(WHERE, label)
        test = call.operand("condition", condition)
        left, right = call.operand("true_value", true_value), call.operand("false_value", false_value)
        values = broadcast_shape(call, left.shape, "false_value", right.shape)
        shape = broadcast_shape(call, values, "condition", test.shape)
        return call.emit(TensorDesc(left.data_type, shape))
