"""Activation functions (W3C WebNN, operators.json: activation), all element-wise; softmax is a reduction."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.dtypes import DataType, cast_parameter, dtype_of
from webnn_cl.ops.base import BuilderBase, Call
from webnn_cl.ops.elementwise import broadcast_shape, typed, unary_record
from webnn_cl.ops.expression import Expression
from webnn_cl.ops.record import ANY, FLOATS, SIGNED, Operand, OpRecord, Output, register

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.operand import MLOperand

__all__ = ["ActivationMixin"]

# max(0, x) and min(0, x) with NaN kept.
_ABOVE = "SEL{W}({input}, ({V})(0), {input} < ({V})(0))"
_BELOW = "SEL{W}({input}, ({V})(0), {input} > ({V})(0))"


def _clamp_text(node: Node) -> str:
    """Missing bounds are filled in with the type's extremes, so that one kernel serves all clamps of a type."""
    low = "SEL{W}({input}, ({V})({min_value}), {input} < ({V})({min_value}))"
    return "SEL{W}(" + low + ", ({V})({max_value}), {input} > ({V})({max_value}))"


CLAMP = unary_record("clamp", ANY, _clamp_text, params=("min_value", "max_value"))
ELU = unary_record("elu", FLOATS, f"({_ABOVE} + {{alpha}} * wn_expm1{{W}}({_BELOW}))", params=("alpha",))
GELU = unary_record("gelu", FLOATS, "wn_gelu{W}({input})")
HARD_SIGMOID = unary_record(
    "hard_sigmoid",
    FLOATS,
    "wn_clip{W}({alpha} * {input} + {beta}, 0.0f, 1.0f)",
    "hardSigmoid",
    params=("alpha", "beta"),
)
HARD_SWISH = unary_record("hard_swish", FLOATS, "wn_hard_swish{W}({input})", "hardSwish")
LEAKY_RELU = unary_record(
    "leaky_relu", FLOATS, f"({_ABOVE} + {{alpha}} * {_BELOW})", "leakyRelu", params=("alpha",)
)
LINEAR = unary_record("linear", FLOATS, "({alpha} * {input} + {beta})", params=("alpha", "beta"))
RELU = unary_record("relu", SIGNED, _ABOVE)
SIGMOID = unary_record("sigmoid", FLOATS, "wn_sigmoid{W}({input})")
SOFTPLUS = unary_record("softplus", FLOATS, "wn_softplus{W}({input})")
SOFTSIGN = unary_record("softsign", FLOATS, "wn_softsign{W}({input})")
TANH = unary_record("tanh", FLOATS, "wn_tanh{W}({input})")
PRELU = register(
    OpRecord(
        "prelu",
        "prelu",
        operands=(Operand("input", SIGNED), Operand("slope", SIGNED, same_as="input")),
        outputs=(Output(like="input"),),
        expression=Expression(
            typed(
                f"({_ABOVE} + {{slope}} * {_BELOW})",
                f"WN_ADD{{W}}({{T}}, {_ABOVE}, WN_MUL{{W}}({{T}}, {{slope}}, {_BELOW}))",
            )
        ),
    )
)


class ActivationMixin(BuilderBase):
    """Activations of MLGraphBuilder."""

    def _activation(self, record: OpRecord, input: object, label: str, **numbers: object) -> MLOperand:
        """`numbers` are finite scalars, cast to the input's data type."""
        call = self._call(record, label)
        x = call.operand("input", input)
        attrs = {name: cast_parameter(call.f64(name, given), x.data_type) for name, given in numbers.items()}
        return call.emit(x.desc, attrs)

    def clamp(
        self,
        input: MLOperand,
        *,
        min_value: float | None = None,
        max_value: float | None = None,
        label: str = "",
    ) -> MLOperand:
        """``min(max(input, min_value), max_value)`` (W3C WebNN, "clamp"); NaN elements stay NaN.

        `input`: any data type, rank 0 to 8; the result has its type and shape. The bounds are any numbers, infinite
        ones too, cast to the input's type (saturating, halves to even for integers); None, or NaN for a float input:
        no bound on that side.
        MLTypeError: `min_value` above `max_value` after the cast, a bound that is no number, an operand of another
        builder.
        """
        call = self._call(CLAMP, label)
        x = call.operand("input", input)
        low, high = _extremes(x.data_type)
        low = _bound(call, "min_value", min_value, x.data_type, low)
        high = _bound(call, "max_value", max_value, x.data_type, high)
        if low > high:
            raise call.error("min_value", low, f"at most max_value, {high}")
        return call.emit(x.desc, {"min_value": low, "max_value": high})

    def elu(self, input: MLOperand, *, alpha: float = 1.0, label: str = "") -> MLOperand:
        """``max(0, x) + alpha * (exp(min(0, x)) - 1)`` (W3C WebNN, "elu").

        `input`: float32 or float16, rank 0 to 8; the result has its type and shape. `alpha`: finite, cast to the
        input's type. MLTypeError: another data type, an `alpha` that is no finite number, an operand of another
        builder.
        """
        return self._activation(ELU, input, label, alpha=alpha)

    def gelu(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``0.5 * x * (1 + erf(x / sqrt(2)))``, the exact form (W3C WebNN, "gelu").

        `input`: float32 or float16, rank 0 to 8; the result has its type and shape.
        MLTypeError: another data type, an operand of another builder.
        """
        return self._activation(GELU, input, label)

    def hard_sigmoid(
        self, input: MLOperand, *, alpha: float = 0.2, beta: float = 0.5, label: str = ""
    ) -> MLOperand:
        """``max(0, min(1, alpha * x + beta))`` (W3C WebNN, "hardSigmoid").

        Types, shapes, parameters and errors as `elu`.
        """
        return self._activation(HARD_SIGMOID, input, label, alpha=alpha, beta=beta)

    def hard_swish(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``x * max(0, min(6, x + 3)) / 6`` (W3C WebNN, "hardSwish"); 0 for minus infinity.

        Types, shapes and errors as `gelu`.
        """
        return self._activation(HARD_SWISH, input, label)

    def leaky_relu(self, input: MLOperand, *, alpha: float = 0.01, label: str = "") -> MLOperand:
        """``max(0, x) + alpha * min(0, x)`` (W3C WebNN, "leakyRelu").

        Types, shapes, parameters and errors as `elu`.
        """
        return self._activation(LEAKY_RELU, input, label, alpha=alpha)

    def linear(self, input: MLOperand, *, alpha: float = 1.0, beta: float = 0.0, label: str = "") -> MLOperand:
        """``alpha * x + beta`` (W3C WebNN, "linear"). Types, shapes, parameters and errors as `elu`."""
        return self._activation(LINEAR, input, label, alpha=alpha, beta=beta)

    def prelu(self, input: MLOperand, slope: MLOperand, *, label: str = "") -> MLOperand:
        """``max(0, x) + slope * min(0, x)`` (W3C WebNN, "prelu"). Integers wrap around.

        `input`, `slope`: one data type of float32, float16, int64, int32, int8, rank 0 to 8; the result has their
        bidirectional broadcast shape. MLTypeError: other or different data types, shapes that don't broadcast, an
        operand of another builder.
        """
        call = self._call(PRELU, label)
        x, s = call.operand("input", input), call.operand("slope", slope)
        return call.emit(TensorDesc(x.data_type, broadcast_shape(call, x.shape, "slope", s.shape)))

    def relu(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``max(0, x)`` (W3C WebNN, "relu"); NaN stays NaN.

        `input`: float32, float16, int64, int32 or int8, rank 0 to 8; the result has its type and shape.
        MLTypeError: another data type, an operand of another builder.
        """
        return self._activation(RELU, input, label)

    def sigmoid(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``1 / (1 + exp(-x))`` (W3C WebNN, "sigmoid"). Types, shapes and errors as `gelu`."""
        return self._activation(SIGMOID, input, label)

    def softplus(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``log(1 + exp(x))`` without overflow (W3C WebNN, "softplus"). Types, shapes and errors as `gelu`."""
        return self._activation(SOFTPLUS, input, label)

    def softsign(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``x / (1 + abs(x))`` (W3C WebNN, "softsign"); 1 and -1 at the infinities.

        Types, shapes and errors as `gelu`.
        """
        return self._activation(SOFTSIGN, input, label)

    def tanh(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Hyperbolic tangent (W3C WebNN, "tanh"). Types, shapes and errors as `gelu`."""
        return self._activation(TANH, input, label)


def _bound(call: Call, argument: str, given: object, data_type: DataType, missing: int | float) -> int | float:
    """A bound of clamp cast to the input's type; None and NaN count as missing (issue 874 of the specification)."""
    if given is None:
        return missing
    bound = call.number(argument, given, data_type)
    return missing if isinstance(bound, float) and math.isnan(bound) else bound


def _extremes(data_type: DataType) -> tuple[int | float, int | float]:
    """Bounds that exclude nothing."""
    dtype = dtype_of(data_type)
    return (-math.inf, math.inf) if dtype.is_float else (dtype.minimum, dtype.maximum)
