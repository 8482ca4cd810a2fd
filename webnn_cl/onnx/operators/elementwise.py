"""Arithmetic, comparison, logic and bit operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.elements import carrier_of, is_float, is_integer, short_range
from webnn_cl.onnx.operators.common import cast, expression, reshape, unsqueeze_to, wrap_short
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__: list[str] = []

# ONNX operators that are one WebNN operator on floats.
_UNARY = {
    "Ceil": "ceil", "Cos": "cos", "Erf": "erf", "Exp": "exp", "Floor": "floor", "Log": "log", "Round": "round_even",
    "Reciprocal": "reciprocal", "Sin": "sin", "Sqrt": "sqrt", "Tan": "tan",
}  # fmt: skip
_COMPARE = {
    "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_or_equal", "Less": "lesser",
    "LessOrEqual": "lesser_or_equal",
}  # fmt: skip
_LOGIC = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}
_ARITHMETIC = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}
_EXPRESSIONS = {name: f"{name.lower()}(x)" for name in (
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh")}  # fmt: skip


@op(*_UNARY)
def unary(c: Call) -> MLOperand:
    operator: Callable[[MLOperand], MLOperand] = getattr(c.b, _UNARY[c.node.op_type])
    return operator(c.x(0))


@op(*_EXPRESSIONS)
def transcendental(c: Call) -> MLOperand:
    """What WebNN has no operator for, by the OpenCL function of the same name."""
    return expression(c, _EXPRESSIONS[c.node.op_type], x=c.x(0))


@op("Abs", "Sign", "Neg")
def signed(c: Call) -> MLOperand:
    x, dtype = c.x(0), c.dtype(0)
    if x.data_type in ("uint8", "uint32", "uint64"):
        if c.node.op_type == "Neg":
            return c.refuse(f"Neg of {dtype}")
        return x if c.node.op_type == "Abs" else c.b.min(x, c.scalar(1, x))
    operator = {"Abs": c.b.abs, "Sign": c.b.sign, "Neg": c.b.neg}[c.node.op_type]
    return wrap_short(c, operator(x), dtype)


def _legacy_broadcast(c: Call, index: int) -> MLOperand:
    """The second operand of operator sets before 7, placed at `axis` of the first."""
    axis = c.integer("axis", -1)
    if c.version >= 7 or not c.integer("broadcast") or "axis" not in c.node.attrs:
        return c.x(index)
    rank, shape = c.rank(0), c.shape(index)
    return c.reshaped(index, unsqueeze_to(shape, rank, c.axis(axis, rank)))


@op(*_ARITHMETIC)
def arithmetic(c: Call) -> MLOperand:
    operator: Callable[..., MLOperand] = getattr(c.b, _ARITHMETIC[c.node.op_type])
    return wrap_short(c, operator(c.x(0), _legacy_broadcast(c, 1)), c.dtype(0))


@op(*_COMPARE)
def compare(c: Call) -> MLOperand:
    operator: Callable[..., MLOperand] = getattr(c.b, _COMPARE[c.node.op_type])
    return operator(c.x(0), _legacy_broadcast(c, 1))


@op(*_LOGIC)
def logic(c: Call) -> MLOperand:
    operator: Callable[..., MLOperand] = getattr(c.b, _LOGIC[c.node.op_type])
    return operator(c.x(0), _legacy_broadcast(c, 1))


@op("Not")
def logical_not(c: Call) -> MLOperand:
    return c.b.logical_not(c.x(0))


@op("Max", "Min", "Sum", "Mean")
def variadic(c: Call) -> MLOperand:
    operands = c.operands()
    operator = {"Max": c.b.max, "Min": c.b.min, "Sum": c.b.add, "Mean": c.b.add}[c.node.op_type]
    result = operands[0]
    for operand in operands[1:]:
        result = operator(result, operand)
    if c.node.op_type == "Mean" and len(operands) > 1:
        result = c.b.div(result, c.scalar(len(operands), result))
    return result if len(operands) > 1 else c.b.identity(result)


@op("Pow")
def power(c: Call) -> MLOperand:
    base, dtype = c.x(0), c.dtype(0)
    if c.peek(1) is not None:
        return _known_power(c, base, dtype, np.asarray(c.peek(1)))
    if is_integer(dtype) and is_float(c.dtype(1)):
        return _known_power(c, base, dtype, c.known(1, "the float exponent of an integer power"))
    exponent = cast(c, _legacy_broadcast(c, 1), base.data_type)
    return wrap_short(c, c.b.pow(base, exponent), dtype)


def _known_power(c: Call, base: MLOperand, dtype: str, exponent: np.ndarray[Any, Any]) -> MLOperand:
    """Integer bases keep integer arithmetic, which needs whole exponents that are not negative."""
    if is_integer(dtype) and not np.all((exponent == np.trunc(exponent)) & (exponent >= 0)):
        c.refuse("a power of integers with a negative or fractional exponent")
    if exponent.size == 1 and exponent.ndim <= len(base.shape) and exponent.reshape(()) == 2:
        return wrap_short(c, c.b.mul(base, base), dtype)
    return wrap_short(c, c.b.pow(base, c.constant(exponent, carrier_of(dtype))), dtype)


@op("Mod")
def modulo(c: Call) -> MLOperand:
    """The sign of the divisor, as in Python; with fmod=1 that of the dividend, as in C."""
    a, b = c.x(0), c.x(1)
    if is_float(c.dtype(0)):
        if c.integer("fmod"):
            return expression(c, "fmod(a, b)", a=a, b=b)
        if c.version < 28:
            c.refuse("Mod of floats needs fmod=1")
        text = "fmod(a, b) + ((fmod(a, b) != 0 && (fmod(a, b) < 0) != (b < 0)) ? b : 0)"
        return expression(c, text, a=a, b=b)
    rest = c.b.sub(a, c.b.mul(c.b.div(a, b), b))
    if c.integer("fmod") or a.data_type in ("uint8", "uint32", "uint64"):
        return rest
    zero = c.scalar(0, rest)
    differ = c.b.logical_xor(c.b.lesser(rest, zero), c.b.lesser(b, zero))
    wrong = c.b.logical_and(differ, c.b.not_equal(rest, zero))
    return c.b.where(wrong, c.b.add(rest, b), rest)


_BITS = {"BitwiseAnd": "a & b", "BitwiseOr": "a | b", "BitwiseXor": "a ^ b"}


@op(*_BITS)
def bitwise(c: Call) -> MLOperand:
    return expression(c, _BITS[c.node.op_type], a=c.x(0), b=c.x(1))


@op("BitwiseNot")
def bitwise_not(c: Call) -> MLOperand:
    limits = short_range(c.dtype(0))
    if limits is not None and limits[0] == 0:
        return c.b.sub(c.scalar(limits[1], c.x(0)), c.x(0))
    return expression(c, "~a", a=c.x(0))


@op("BitShift")
def bit_shift(c: Call) -> MLOperand:
    """Shifts by the width or more, or by less than 0, give 0 (-1 for negative numbers shifted right)."""
    direction = c.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        c.refuse(f"direction {direction!r}")
    a, b, dtype = c.x(0), c.x(1), c.dtype(0)
    bits = int("".join(ch for ch in dtype if ch.isdigit()))
    if direction == "LEFT":
        return wrap_short(c, expression(c, f"(b >= 0 && b < {bits}) ? a << b : a ^ a", a=a, b=b), dtype)
    return expression(c, f"(b >= 0 && b < {bits}) ? a >> b : (a < 0 ? ~(a ^ a) : a ^ a)", a=a, b=b)


@op("Where")
def where(c: Call) -> Any:
    return c.tensor(c.b.where(c.x(0), c.x(1), c.x(2)), c.dtype(1))


@op("IsNaN")
def is_nan(c: Call) -> MLOperand:
    return c.b.is_nan(c.x(0))


@op("IsInf")
def is_inf(c: Call) -> MLOperand:
    x = c.x(0)
    positive, negative = c.integer("detect_positive", 1), c.integer("detect_negative", 1)
    infinite = c.b.is_infinite(x)
    if positive and negative:
        return infinite
    if not positive and not negative:
        return c.b.logical_and(infinite, c.b.constant(0, data_type="uint8"))
    sign = (c.b.greater if positive else c.b.lesser)(x, c.scalar(0, x))
    return c.b.logical_and(infinite, sign)


@op("Identity")
def identity(c: Call) -> Any:
    value = c.inputs[0]
    return c.refuse("input 0 is missing") if value is None else value


@op("Clip")
def clip(c: Call) -> MLOperand:
    """Bounds that are known numbers become one clamp; a lower bound above the upper one yields the upper one."""
    x = c.x(0)
    if c.version < 11:
        low: Any = c.node.attrs.get("min")
        high: Any = c.node.attrs.get("max")
    else:
        low, high = (c.peek(i) for i in (1, 2))
    unknown = [i for i in (1, 2) if c.version >= 11 and c.has(i) and c.peek(i) is None]
    low, high = (None if b is None else np.asarray(b).reshape(()).item() for b in (low, high))
    if not unknown and (low is None or high is None or not low > high):
        if low is None and high is None:
            return c.b.identity(x)
        return c.b.clamp(x, min_value=low, max_value=high)
    for index, operator in ((1, c.b.max), (2, c.b.min)):
        if c.has(index):
            x = operator(x, reshape(c, c.x(index), ()))
    return x
