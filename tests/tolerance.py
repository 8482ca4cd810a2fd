"""How far a result may be from the exact one, per operator, and why.

Notation: u = 2**-24 is the unit roundoff of float32, in which all arithmetic is done; ulp32(y) is the spacing of
float32 at y; ulp16(y) that of float16. A float output passes when |actual - exact| <= n * ulp32(exact) + A
(+ ulp16(exact) / 2 for float16, its single final rounding), where `exact` is the float64 model before rounding.

* n comes from the accuracy OpenCL C requires of the functions (add, sub, mul 0.5; divide 2.5; sqrt, exp, log 3; sin,
  cos 4; tan, tanh 5; erf, pow 16), plus half an ulp for each further rounding of the formula. WPT's numbers are wider.
* A bounds what cancellation can amplify. A sum of K terms may err by min(K, 16) * u * sum|terms|, so that the mean of
  2**24 numbers is right to 1e-6 of their mean magnitude: only pairwise or compensated summation meets that. A dot
  product (matmul, conv2d) may err by min(K + 2, 8 + 2 * sqrt(K)) * u * sum|terms|: the rounding errors of a plain loop
  add up like a random walk.
* Data movement, comparisons, min and max, integer arithmetic and casts are exact; bits are compared where the sign of
  zero is defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests import reference
from tests.reference.numbers import Array, is_float, parameter, round_to, wide

U = 2.0**-24


@dataclass(frozen=True)
class Tolerance:
    """Allowed distance: `ulps` of float32 at the exact value plus `absolute`; `bits`: the rounded value bit for bit."""

    ulps: float = 0.0
    absolute: Array | float = 0.0
    bits: bool = False


Operands = Mapping[str, Any]
Rule = Callable[[str, Operands, Operands, Sequence[Array]], Tolerance]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BITS = _words(
    """identity abs neg ceil floor round_even cast reshape expand pad reverse slice split tile transpose triangular
    where concat gather gather_elements gather_nd scatter_elements scatter_nd"""
)
VALUES = _words(
    """max min clamp relu sign equal not_equal greater greater_or_equal lesser lesser_or_equal logical_not logical_and
    logical_or logical_xor is_nan is_infinite reduce_max reduce_min arg_min arg_max max_pool2d"""
)
ULPS: dict[str, float] = {
    **dict.fromkeys(("add", "sub", "mul"), 0.5),
    "div": 2.5,
    "reciprocal": 2.5,
    "sqrt": 3,
    "exp": 3,
    "log": 3,
    "sin": 4,
    "cos": 4,
    "tan": 5,
    "tanh": 5,
    "erf": 16,
    "pow": 16,
    "prelu": 1,
    "leaky_relu": 1,
    "elu": 5,
    "hard_swish": 4,
    "sigmoid": 8,
    "softplus": 7,
    "softsign": 4,
    "dequantize_linear": 2,
}

RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def tolerance_of(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> list[Tolerance]:
    """Tolerances of an operator's outputs for these inputs (arrays of the operands' types)."""
    if op in BITS:
        return [Tolerance(bits=True)] * len(exact)
    if op in VALUES:
        return [Tolerance()] * len(exact)
    if op in ULPS:
        return [Tolerance(ULPS[op])] * len(exact)
    with np.errstate(all="ignore"):
        rules = [RULES[op](op, inputs, attrs, [output]) for output in exact]
    # Where a bound is not a number the exact value is not one either, and must be met exactly.
    return [replace(rule, absolute=np.nan_to_num(rule.absolute, nan=0.0, posinf=0.0)) for rule in rules]


def sum_error(count: int) -> float:
    """Allowed error of a sum of `count` terms, in units of u relative to the sum of magnitudes."""
    return min(count, 16)


def dot_error(count: int) -> float:
    """Allowed error of a dot product of `count` terms, in the same units."""
    return min(count + 2, 8 + 2 * math.sqrt(count))


def _magnitudes(inputs: Operands) -> dict[str, Any]:
    return {role: np.abs(x) for role, x in inputs.items()}


# Activations with cancellation ---------------------------------------------------------------------------------------


@_rule("linear", "hard_sigmoid")
def _linear(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    x = inputs["input"]
    alpha, beta = (1.0, 0.0) if op == "linear" else (0.2, 0.5)
    alpha, beta = parameter(attrs.get("alpha", alpha), x.dtype), parameter(attrs.get("beta", beta), x.dtype)
    return Tolerance(1, 2 * U * (np.abs(alpha * wide(x)) + abs(beta)))


@_rule("gelu")
def _gelu(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    x = wide(inputs["input"])
    # For large negative x the formula's 1 + erf(z) cancels; erf's 16 ulp near -1 leave 8 u, its sum one more.
    return Tolerance(20, np.where((x < 0) & np.isfinite(x), 9 * U * np.abs(x), 0.0))


@_rule("softmax")
def _softmax(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    x, axis = wide(inputs["input"]), attrs["axis"]
    # Rounding x - max moves exp(x - max) by |x - max| u of itself; exp, the sum and the division come on top.
    shift = np.nan_to_num(np.abs(x - x.max(axis=axis, keepdims=True)), posinf=0.0)
    return Tolerance(3, exact[0] * U * (shift + 20 + 2 * math.log2(x.shape[axis])))


# Sums ----------------------------------------------------------------------------------------------------------------


def _terms(op: str, inputs: Operands, attrs: Operands) -> tuple[int, Array]:
    """Number of terms of a reduction, and the sum of the terms' magnitudes."""
    x, axes = inputs["input"], attrs.get("axes")
    count = math.prod(x.shape if axes is None else [x.shape[a] for a in axes])
    return count, reference.exact(op, {"input": wide(x)}, attrs)[0]


@_rule("reduce_sum", "reduce_mean", "reduce_l1", "reduce_sum_square", "reduce_l2", "reduce_log_sum")
def _reduce(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    if not is_float(inputs["input"].dtype):
        return Tolerance()
    square = op in ("reduce_l2", "reduce_sum_square")
    count, total = _terms("reduce_sum_square" if square else "reduce_l1", inputs, attrs)
    error = (sum_error(count) + square) * U * total
    if op == "reduce_mean":
        return Tolerance(3, error / count)
    if op == "reduce_l2":
        return Tolerance(3, np.where(total > 0, error / (2 * np.sqrt(total)), 0.0))
    if op == "reduce_log_sum":
        return Tolerance(3, error / np.abs(np.exp(exact[0])))
    return Tolerance(0.5, error)


@_rule("reduce_log_sum_exp")
def _log_sum_exp(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    count, _ = _terms("reduce_l1", inputs, attrs)
    # Each exp is right to 3 ulp and its shifted argument to half of one; their sum and the logarithm follow.
    return Tolerance(4, U * (32 + 2 * math.log2(count)))


@_rule("reduce_product")
def _product(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    if not is_float(inputs["input"].dtype):
        return Tolerance()
    count, _ = _terms("reduce_l1", inputs, attrs)
    return Tolerance(0.5, U * count * np.abs(exact[0]))


@_rule("cumulative_sum")
def _cumulative(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    x, axis = inputs["input"], attrs["axis"]
    if not is_float(x.dtype):
        return Tolerance()
    (total,) = reference.exact(op, {"input": np.abs(wide(x))}, attrs)
    return Tolerance(0.5, min(x.shape[axis], 32) * U * total)


@_rule("average_pool2d", "l2_pool2d")
def _pool(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    x = inputs["input"]
    window = attrs.get("window_dimensions") or x.shape[2:]
    error = (sum_error(math.prod(window)) + 1) * U
    (total,) = reference.exact(op, _magnitudes({"input": wide(x)}), attrs)
    return Tolerance(3, error * total)


# Dot products --------------------------------------------------------------------------------------------------------


@_rule("matmul", "gemm", "conv2d", "conv_transpose2d")
def _dot(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    sizes = {k: attrs[k] for k in attrs if k not in ("alpha", "beta")}
    factors = {k: abs(attrs[k]) for k in ("alpha", "beta") if k in attrs}
    (total,) = reference.exact(op, _magnitudes({k: wide(x) for k, x in inputs.items()}), {**sizes, **factors})
    extra = 3 if op == "gemm" else 1
    return Tolerance(0.5, (dot_error(_dot_terms(op, inputs, attrs)) + extra) * U * total)


def _dot_terms(op: str, inputs: Operands, attrs: Operands) -> int:
    """Number of products in one output; for a transposed convolution the most that any output can get."""
    if op in ("matmul", "gemm"):
        return int(inputs["a"].shape[0 if attrs.get("a_transpose") else -1])
    layout = attrs.get("filter_layout") or ("oihw" if op == "conv2d" else "iohw")
    per_output = inputs["filter"].size // inputs["filter"].shape[layout.index("o")]
    return int(per_output if op == "conv2d" else per_output // attrs.get("groups", 1))


# Normalizations ------------------------------------------------------------------------------------------------------


@_rule("batch_normalization")
def _batch_normalization(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    # |x| s/d + |m| s/d + |b|: also what the folded form x * k + (b - m * k) may lose.
    parts = {k: np.abs(wide(v)) if k != "variance" else wide(v) for k, v in inputs.items()}
    parts["mean"] = -parts["mean"]
    epsilon = parameter(attrs.get("epsilon", 1e-5), inputs["input"].dtype)
    (total,) = reference.exact(op, parts, {**attrs, "epsilon": epsilon})
    return Tolerance(3, 6 * U * total)


@_rule("instance_normalization", "layer_normalization")
def _own_statistics(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    x = wide(inputs["input"])
    if op == "instance_normalization":
        axes: Sequence[int] = (2, 3) if attrs.get("layout", "nchw") == "nchw" else (1, 2)
    else:
        axes = range(1, x.ndim) if attrs.get("axes") is None else attrs["axes"]
    over = tuple(axes)
    count = math.prod(x.shape[a] for a in over)
    epsilon = parameter(attrs.get("epsilon", 1e-5), inputs["input"].dtype)
    size = np.abs(x).mean(over, keepdims=True)
    deviation = np.sqrt(x.var(over, keepdims=True) + epsilon)
    # The mean's error shifts every element; the variance's error and the square root scale the deviation.
    scale = _affine(op, inputs, attrs, "scale", 1.0)
    spread = np.abs(x - x.mean(over, keepdims=True)) * (sum_error(count) + 8)
    error = np.abs(scale) / deviation * ((sum_error(count) + 1) * size + spread)
    error = error + 2 * np.abs(_affine(op, inputs, attrs, "bias", 0.0))
    return Tolerance(1, U * error)


def _affine(op: str, inputs: Operands, attrs: Operands, role: str, missing: float) -> Array:
    """The scale or bias of a normalization placed against its input."""
    x = inputs["input"]
    if inputs.get(role) is None:
        return np.full(x.shape, missing)
    # A layer whose normalized input is 0 gives just the bias: let the model place the parameter.
    return reference.exact(op, {"input": np.zeros(x.shape), "bias": inputs[role]}, {**attrs, "epsilon": 1.0})[0]


# Recurrent networks --------------------------------------------------------------------------------------------------


@_rule("gru", "gru_cell", "lstm", "lstm_cell")
def _recurrent(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    # Cases keep |weights| small enough that a step does not amplify earlier errors; each of them adds the error of its
    # dot products and activations, and for float16 possibly the rounding of the state that it hands on.
    steps = attrs.get("steps", 1)
    width = inputs["input"].shape[-1] + attrs["hidden_size"]
    largest = max(1.0, float(np.max(np.abs(exact[0]))), float(np.max(np.abs(inputs["input"]))))
    error = steps * (dot_error(width) + 24) * U * largest
    if inputs["input"].dtype == np.float16:
        error += steps * 2.0**-11 * largest
    return Tolerance(1, error)


# Rounding to integers ------------------------------------------------------------------------------------------------


def _near_half(value: Array, distance: Array | float) -> Array:
    """1 where a value is so close to a tie (without being one) that float32 arithmetic may fall on its other side."""
    gap = np.abs(np.abs(value - np.floor(value)) - 0.5)
    return np.where((gap > 0) & (gap <= distance), 1.0, 0.0)


@_rule("quantize_linear")
def _quantize(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    x, s = wide(inputs["input"]), wide(inputs["scale"])
    for axis, size in enumerate(x.shape):
        s = np.repeat(s, size // s.shape[axis], axis=axis)
    # OpenCL's division is right to 2.5 last places, which from 2^23 on are integers apart.
    spacing = ulp(x / s, "float32")
    return Tolerance(0, np.where(spacing >= 1, 3 * spacing, _near_half(x / s, 3 * spacing)))


@_rule("resample2d")
def _resample(op: str, inputs: Operands, attrs: Operands, exact: Sequence[Array]) -> Tolerance:
    if attrs.get("mode", "nearest-neighbor") == "nearest-neighbor":
        return Tolerance(bits=True)
    x = inputs["input"]
    # The source position is right to a few u of the dimension, so the weights are too.
    error = U * (4 + 2 * max(x.shape)) * float(np.max(np.abs(wide(x)), initial=0, where=np.isfinite(x)))
    if is_float(x.dtype):
        return Tolerance(1, error)
    (value,) = reference.exact(op, {"input": x.astype(np.float64)}, attrs)
    return Tolerance(0, _near_half(value, error))


# Comparison ----------------------------------------------------------------------------------------------------------


def ulp(y: Array, data_type: str) -> Array:
    """Spacing of the data type at |y| (of the subnormals below its range)."""
    bits, lowest = (24, -126) if data_type == "float32" else (11, -14)
    _, exponent = np.frexp(np.where(np.isfinite(y), y, 1.0))
    return np.exp2(np.maximum(exponent - 1, lowest) - float(bits - 1))


def allowed(exact: Array, data_type: str, tolerance: Tolerance) -> Array:
    """The distance from the exact value that each element may have."""
    bound = tolerance.ulps * ulp(exact, "float32") + tolerance.absolute
    if data_type == "float16":
        bound = bound + 0.5 * ulp(exact, "float16")
    return np.asarray(bound * (1 + 1e-9))


def _wrong_floats(actual: Array, exact: Array, tolerance: Tolerance) -> Array:
    data_type = str(actual.dtype)
    rounded = round_to(exact, data_type)
    same = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
    if tolerance.bits:
        return ~(same & ((np.signbit(actual) == np.signbit(rounded)) | np.isnan(rounded)))
    # Beyond the largest finite value infinity stands for the next power of two; a true infinity must be met exactly.
    top = 2.0 ** (128 if data_type == "float32" else 16)
    near = np.abs(np.clip(wide(actual), -top, top) - np.clip(exact, -top, top)) <= allowed(exact, data_type, tolerance)
    return ~(same | (near & np.isfinite(exact)))


def mismatch(actual: Array, exact: Array, data_type: str, tolerance: Tolerance) -> str | None:
    """None when an output agrees with the exact values, else what is wrong with it."""
    if actual.shape != exact.shape or str(actual.dtype) != data_type:
        return f"got {actual.dtype}{list(actual.shape)}, expected {data_type}{list(exact.shape)}"
    a, e = actual.reshape(-1), np.asarray(exact).reshape(-1)
    flat = Tolerance(tolerance.ulps, np.broadcast_to(tolerance.absolute, exact.shape).reshape(-1), tolerance.bits)
    with np.errstate(all="ignore"):
        if is_float(data_type):
            wrong = _wrong_floats(a, wide(e), flat)
        else:
            rounded = round_to(e, data_type)
            off_by_one = (np.maximum(a, rounded) - np.minimum(a, rounded)) <= flat.absolute
            wrong = (a != rounded) & ~off_by_one
    bad = np.flatnonzero(wrong)
    if not bad.size:
        return None
    at = int(bad[0])
    where = np.unravel_index(at, actual.shape)
    expected = round_to(e[at : at + 1], data_type)[0]
    text = (
        f"{bad.size} of {a.size} wrong; first at {tuple(int(i) for i in where)}: got {a[at]!r}, expected {expected!r}"
    )
    if is_float(data_type):
        error = abs(float(a[at]) - float(e[at]))
        text += f" (error {error:.3g}, allowed {float(allowed(e, data_type, flat)[at]):.3g})"
    return text
