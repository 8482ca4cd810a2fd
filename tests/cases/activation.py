"""Activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cases.model import RANK_SHAPES, Case, T, floats_of, ranks_with_types, types_of

PLAIN = ("gelu", "hard_swish", "relu", "sigmoid", "softplus", "softsign", "tanh")
OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "elu": ({}, {"alpha": 2.5}, {"alpha": -0.5}, {"alpha": 0}, {"alpha": 1e-3}),
    "hard_sigmoid": ({}, {"alpha": 1 / 6}, {"beta": -0.25}, {"alpha": -0.5, "beta": 0.75}, {"alpha": 0, "beta": 2}),
    "leaky_relu": ({}, {"alpha": 1.5}, {"alpha": -0.25}, {"alpha": 0}, {"alpha": 100}),
    "linear": ({}, {"alpha": 3}, {"beta": -1.25}, {"alpha": -0.1, "beta": 7.7}, {"alpha": 0, "beta": 0.1}),
}
NAN, INF = float("nan"), float("inf")
CLAMPS: tuple[dict[str, Any], ...] = (
    {},
    {"min_value": -1},
    {"max_value": 2.5},
    {"min_value": -1.5, "max_value": 3.5},
    {"min_value": 0.5, "max_value": 0.5},
    {"min_value": -INF, "max_value": INF},
    {"min_value": -(10**30), "max_value": 10**30},
    {"min_value": -0.0},
    {"max_value": 300},
    {"min_value": 1, "max_value": 2**63 - 1},
)


def plain_cases() -> Iterator[Case]:
    for op in PLAIN:
        for data_type in types_of(op):
            # gelu(-inf) is 0 or NaN (the formula), the spec is silent: leave infinities out.
            yield Case(op, {"input": T((107,), data_type, "finite" if op == "gelu" else "edges")})
            yield Case(op, {"input": T((107,), data_type, "wide")})
            yield Case(op, {"input": T((403,), data_type, "range:-12:12")})
            yield Case(op, {"input": T((203,), data_type, "range:-0.01:0.01")})
        yield from _ranks(op, {})


def option_cases() -> Iterator[Case]:
    for op, variants in OPTIONS.items():
        for data_type in types_of(op):
            for attrs in variants:
                yield Case(op, {"input": T((203,), data_type, "range:-12:12")}, attrs)
            # 0 * inf is NaN by the formula and 0 by a selection; neither is wrong, so infinities need alpha != 0.
            yield Case(op, {"input": T((67,), data_type, "edges")}, variants[1])
            yield Case(op, {"input": T((203,), data_type, "range:-0.01:0.01")}, variants[0])
        yield from _ranks(op, variants[1])


def _ranks(op: str, attrs: dict[str, Any]) -> Iterator[Case]:
    for shape, data_type in ranks_with_types(op):
        yield Case(op, {"input": T(shape, data_type)}, attrs)
    yield Case(op, {"input": T(RANK_SHAPES[3])}, attrs, constants=frozenset({"input"}))
    yield Case(op, {"input": T((256, 1024))}, attrs, timed=True)


def clamp_cases() -> Iterator[Case]:
    for data_type in types_of("clamp"):
        for attrs in CLAMPS:
            yield Case("clamp", {"input": T((67,), data_type, "edges")}, attrs)
        yield Case("clamp", {"input": T((67,), data_type, "wide")}, CLAMPS[3])
    for data_type in floats_of("clamp"):
        yield Case("clamp", {"input": T((67,), data_type, "edges")}, {"min_value": NAN, "max_value": 1})
    yield from _ranks("clamp", CLAMPS[3])


def prelu_cases() -> Iterator[Case]:
    shapes = (((3, 5, 7), (3, 5, 7)), ((2, 3, 4, 4), (3, 1, 1)), ((4,), (2, 3, 4)), ((), ()), ((2, 1, 5), (1, 3, 1)))
    for turn, data_type in enumerate(types_of("prelu")):
        for x, slope in shapes if turn == 0 else (shapes[0], shapes[1 + turn % 4]):
            yield Case("prelu", {"input": T(x, data_type), "slope": T(slope, data_type)})
        slopes = T((33, 5), data_type, [-2, 0.5, 1, 3, 100])
        finite = "finite" if data_type.startswith("float") else "edges"
        yield Case("prelu", {"input": T((33, 5), data_type, finite), "slope": slopes})
    for shape, data_type in ranks_with_types("prelu"):
        inputs = {"input": T(shape, data_type), "slope": T(shape, data_type)}
        yield Case("prelu", inputs, constants=frozenset({"slope"}))
    big = {"input": T((16, 64, 16, 16)), "slope": T((64, 1, 1))}
    yield Case("prelu", big, constants=frozenset({"slope"}), timed=True)


def softmax_cases() -> Iterator[Case]:
    for data_type in types_of("softmax"):
        for shape in RANK_SHAPES[1:]:
            for axis in range(len(shape)):
                yield Case("softmax", {"input": T(shape, data_type)}, {"axis": axis})
        for values in ("fill:100", "range:-50:50", [-INF, 0.0, 1.0, -INF, 3.0, 2.0], [-INF], [NAN, 1.0, 2.0]):
            yield Case("softmax", {"input": T((4, 6), data_type, values)}, {"axis": 1})
        for shape, axis in (((3, 1000), 1), ((1000, 3), 0), ((2, 257, 5), 1), ((1, 20000), 1)):
            yield Case("softmax", {"input": T(shape, data_type)}, {"axis": axis})
    yield Case("softmax", {"input": T((2, 9))}, {"axis": 0}, constants=frozenset({"input"}))
    yield Case("softmax", {"input": T((256, 1024))}, {"axis": 1}, timed=True)


def cases() -> Iterator[Case]:
    yield from plain_cases()
    yield from option_cases()
    yield from clamp_cases()
    yield from prelu_cases()
    yield from softmax_cases()
