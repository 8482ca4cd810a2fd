"""Drawn calls of matrix products, reductions, running sums, softmax, layer normalization and recurrent networks."""

from __future__ import annotations

import math
from typing import Any

from tests.cases import T
from tests.cases.recurrent import DEFAULTS, EXTRAS, GATES, LAYOUTS
from tests.drawing.plan import ANY_VALUES, SUMMED, Plan, planner
from tests.drawing.source import Source, boolean, permutation, subset

Shape = tuple[int, ...]
ACTIVATIONS = ("sigmoid", "tanh", "relu")


@planner("matmul")
def matmul(source: Source, shape: Shape, data_type: str) -> Plan:
    batch = [1 if boolean(source) else size for size in shape[:-2]]
    batch = batch[source.integer(0, len(batch)) :]
    columns = source.choice((1, 2, 5, 8, 17))
    return Plan({"b": T((*batch, shape[-1], columns), data_type, source.choice(SUMMED))}, first=SUMMED)


@planner("gemm")
def gemm(source: Source, shape: Shape, data_type: str) -> Plan:
    a_transpose, b_transpose = boolean(source), boolean(source)
    m, k = shape[::-1] if a_transpose else shape
    n = source.choice((1, 2, 5, 8, 17))
    attrs: dict[str, Any] = {"a_transpose": a_transpose, "b_transpose": b_transpose}
    attrs |= {name: source.choice((1.0, 0.0, -0.5, 3.0)) for name in ("alpha", "beta") if boolean(source)}
    operands = {"b": T((n, k) if b_transpose else (k, n), data_type, "small")}
    if boolean(source):
        c = source.choice(((), (1,), (n,), (1, 1), (1, n), (m, 1), (m, n)))
        operands["c"] = T(c, data_type, "small")
    return Plan(operands, attrs, ("small", "positive", "unit", "ties"))


def _axes(source: Source, rank: int) -> dict[str, Any]:
    attrs: dict[str, Any] = {"axes": subset(source, range(rank))} if boolean(source) else {}
    return {**attrs, "keep_dimensions": True} if boolean(source) else attrs


@planner("reduce_sum", "reduce_mean", "reduce_l1", "reduce_l2", "reduce_sum_square")
def sums(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan(attrs=_axes(source, len(shape)), first=SUMMED)


@planner("reduce_max", "reduce_min")
def extremes(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan(attrs=_axes(source, len(shape)), first=ANY_VALUES)


@planner("reduce_product")
def product(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan(attrs=_axes(source, len(shape)), first=("near_one",) if "float" in data_type else ANY_VALUES)


@planner("reduce_log_sum")
def log_sum(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan(attrs=_axes(source, len(shape)), first=("positive",))


@planner("reduce_log_sum_exp")
def log_sum_exp(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan(attrs=_axes(source, len(shape)), first=("small", "range:-80:80", "nan"))


@planner("arg_min", "arg_max")
def arg(source: Source, shape: Shape, data_type: str) -> Plan:
    attrs = {"axis": source.integer(0, len(shape) - 1), "keep_dimensions": boolean(source)}
    return Plan(attrs={**attrs, "output_data_type": source.choice(("int32", "int64"))}, first=ANY_VALUES[::-1])


@planner("cumulative_sum")
def cumulative_sum(source: Source, shape: Shape, data_type: str) -> Plan:
    attrs = {"axis": source.integer(0, len(shape) - 1), "exclusive": boolean(source), "reversed": boolean(source)}
    return Plan(attrs=attrs, first=SUMMED if "float" in data_type else ANY_VALUES)


@planner("softmax")
def softmax(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan(attrs={"axis": source.integer(0, len(shape) - 1)}, first=("small", "range:-50:50", "ties", "nan"))


@planner("layer_normalization")
def layer_normalization(source: Source, shape: Shape, data_type: str) -> Plan:
    attrs: dict[str, Any] = {"epsilon": source.choice((1e-5, 0.01, 1.0))}
    axes = list(range(1, len(shape)))
    if boolean(source):
        axes = permutation(source, len(shape))[: source.integer(0, len(shape))]
        attrs["axes"] = axes
    inner = tuple(shape[axis] for axis in axes)
    operands = {role: T(inner, data_type, "small") for role in ("scale", "bias") if boolean(source)}
    return Plan(operands, attrs, ("small", "positive", "unit"))


def _network(
    source: Source, net: str, width: int, data_type: str, lead: Shape
) -> tuple[dict[str, T], dict[str, Any], int]:
    """Parameters of a network: weights small enough that it settles."""
    hidden = source.choice((1, 2, 5, 8))
    rows, limit = GATES[net] * hidden, 0.5 / math.sqrt(hidden)
    operands = {
        "weight": T((*lead, rows, width), data_type, "range:-0.4:0.4"),
        "recurrent_weight": T((*lead, rows, hidden), data_type, f"range:-{limit}:{limit}"),
    }
    attrs = {"hidden_size": hidden, "layout": source.choice(LAYOUTS[net])}
    if boolean(source):
        attrs["activations"] = [source.choice(ACTIVATIONS) for _ in DEFAULTS[net]]
    if net == "gru" and boolean(source):
        attrs["reset_after"] = False
    return operands, attrs, hidden


def _extras(source: Source, net: str, hidden: int, lead: Shape, batch: int, data_type: str) -> dict[str, T]:
    shapes = {
        "bias": (*lead, GATES[net] * hidden),
        "recurrent_bias": (*lead, GATES[net] * hidden),
        "peephole_weight": (*lead, 3 * hidden),
        "initial_hidden_state": (*lead, batch, hidden),
        "initial_cell_state": (*lead, batch, hidden),
    }
    roles = [role for role in EXTRAS[net] if lead or not role.startswith("initial")]
    return {role: T(shapes[role], data_type, "unit") for role in roles if boolean(source)}


def _unrolled(source: Source, shape: Shape, data_type: str, net: str) -> Plan:
    steps, batch, width = shape
    direction = source.choice(("forward", "backward", "both"))
    lead = (2 if direction == "both" else 1,)
    operands, attrs, hidden = _network(source, net, width, data_type, lead)
    operands |= _extras(source, net, hidden, lead, batch, data_type)
    attrs |= {"steps": steps, "direction": direction, "return_sequence": boolean(source)}
    return Plan(operands, attrs, ("unit",))


@planner("gru")
def gru(source: Source, shape: Shape, data_type: str) -> Plan:
    return _unrolled(source, shape, data_type, "gru")


@planner("lstm")
def lstm(source: Source, shape: Shape, data_type: str) -> Plan:
    return _unrolled(source, shape, data_type, "lstm")


def _cell(source: Source, shape: Shape, data_type: str, net: str, states: tuple[str, ...]) -> Plan:
    batch, width = shape
    operands, attrs, hidden = _network(source, net, width, data_type, ())
    operands |= {role: T((batch, hidden), data_type, "unit") for role in states}
    operands |= _extras(source, net, hidden, (), batch, data_type)
    return Plan(operands, attrs, ("unit",))


@planner("gru_cell")
def gru_cell(source: Source, shape: Shape, data_type: str) -> Plan:
    return _cell(source, shape, data_type, "gru", ("hidden_state",))


@planner("lstm_cell")
def lstm_cell(source: Source, shape: Shape, data_type: str) -> Plan:
    return _cell(source, shape, data_type, "lstm", ("hidden_state", "cell_state"))
