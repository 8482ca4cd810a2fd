"""Drawn calls of element-wise operators, activations, casts and quantization."""

from __future__ import annotations

from tests import spec
from tests.cases import T
from tests.drawing.plan import ANY_VALUES, Plan, planner
from tests.drawing.source import Source, boolean, broadcastable, divisor

Shape = tuple[int, ...]
ALPHAS = (1.0, -0.5, 0.1, 2.5, 1e-3)


@planner("add", "sub", "mul", "div", "max", "min", "pow")
def arithmetic(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan({"b": T(broadcastable(source, shape), data_type, source.choice(ANY_VALUES))})


@planner("equal", "not_equal", "greater", "greater_or_equal", "lesser", "lesser_or_equal")
def comparison(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan({"b": T(broadcastable(source, shape), data_type, source.choice(ANY_VALUES))}, first=ANY_VALUES[::-1])


@planner("logical_and", "logical_or", "logical_xor")
def logical(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan({"b": T(broadcastable(source, shape), data_type, "bool")}, first=("bool", "edges"))


@planner(
    *("logical_not", "is_nan", "is_infinite", "abs", "neg", "sign", "ceil", "cos", "erf", "exp", "floor", "identity"),
    *("log", "reciprocal", "round_even", "sin", "sqrt", "tan", "hard_swish", "relu", "sigmoid", "softplus"),
    *("softsign", "tanh"),
)
def unary(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan()


@planner("gelu")
def gelu(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan(first=("small", "finite", "wide"))  # gelu(-inf) is 0 or NaN


@planner("elu", "leaky_relu")
def alpha(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan(attrs={"alpha": source.choice(ALPHAS)} if boolean(source) else {})


@planner("hard_sigmoid", "linear")
def line(source: Source, shape: Shape, data_type: str) -> Plan:
    attrs = {name: source.choice(ALPHAS) for name in ("alpha", "beta") if boolean(source)}
    return Plan(attrs=attrs)


@planner("clamp")
def clamp(source: Source, shape: Shape, data_type: str) -> Plan:
    low = source.choice((None, 0, 1, -1.5, 2.5, -(10**25), float("-inf")))
    high = source.choice((None, 3, 2.5, 100, 300.5, 10**25, float("inf")))
    return Plan(attrs={k: v for k, v in (("min_value", low), ("max_value", high)) if v is not None})


@planner("prelu")
def prelu(source: Source, shape: Shape, data_type: str) -> Plan:
    slope = T(broadcastable(source, shape), data_type, source.choice(("small", "ties", "unit")))
    return Plan({"slope": slope}, first=("small", "finite", "wide"))


@planner("where")
def where(source: Source, shape: Shape, data_type: str) -> Plan:
    """The first operand is the condition."""
    kind = source.choice(spec.OPERANDS["where"]["true_value"].data_types)
    yes = broadcastable(source, shape, wider=False)
    no = broadcastable(source, shape, wider=False)
    values = {
        "true_value": T(yes, kind, source.choice(ANY_VALUES)),
        "false_value": T(no, kind, source.choice(ANY_VALUES)),
    }
    return Plan(values, first=("bool",))


@planner("cast")
def cast(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan(attrs={"data_type": source.choice(spec.OUTPUTS["cast"]["output"].data_types)})


def _blocks(source: Source, shape: Shape) -> Shape:
    return tuple(divisor(source, size) for size in shape)


@planner("dequantize_linear")
def dequantize(source: Source, shape: Shape, data_type: str) -> Plan:
    block = _blocks(source, shape)
    scale = T(block, source.choice(("float32", "float16")), "scale")
    return Plan({"scale": scale, "zero_point": T(block, data_type, source.choice(("small", "edges")))})


@planner("quantize_linear")
def quantize(source: Source, shape: Shape, data_type: str) -> Plan:
    block = _blocks(source, shape)
    zero = T(block, source.choice(("uint8", "int8", "uint32", "int32")), source.choice(("small", "edges")))
    # What NaN becomes is nowhere said.
    first = ("small", "finite", "wide", "range:-300:300")
    return Plan({"scale": T(block, data_type, "scale"), "zero_point": zero}, first=first)
