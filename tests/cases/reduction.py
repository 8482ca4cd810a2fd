"""Reductions, arg reductions, running sums: axes missing, empty and listed, long axes, exact integers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cases.model import Case, T, floats_of, ranks_with_types, types_of

REDUCTIONS = (
    *("reduce_l1", "reduce_l2", "reduce_log_sum", "reduce_log_sum_exp", "reduce_max"),
    *("reduce_mean", "reduce_min", "reduce_product", "reduce_sum", "reduce_sum_square"),
)
RECIPES = {"reduce_log_sum": "positive", "reduce_product": "near_one"}
AXES: tuple[list[int] | None, ...] = (
    *(None, [], [0], [1], [2], [3], [0, 1], [0, 2], [2, 1], [3, 1], [0, 1, 3], [1, 2, 3], [3, 0, 2, 1]),
)
NAN, INF = float("nan"), float("inf")


def _attrs(axes: list[int] | None, keep: bool) -> dict[str, Any]:
    attrs: dict[str, Any] = {} if axes is None else {"axes": axes}
    return {**attrs, "keep_dimensions": True} if keep else attrs


def reduce_cases() -> Iterator[Case]:
    for op in REDUCTIONS:
        recipe = RECIPES.get(op, "small")
        types = types_of(op)
        for turn, axes in enumerate(AXES):
            for data_type in (types[0], types[1 + turn % (len(types) - 1)]):
                yield Case(op, {"input": T((2, 3, 4, 9), data_type, recipe)}, _attrs(axes, turn % 2 == 1))
        for shape, data_type in ranks_with_types(op):
            yield Case(op, {"input": T(shape, data_type, recipe)})
            yield Case(op, {"input": T(shape, data_type, recipe)}, {"axes": [], "keep_dimensions": True})
            if shape:
                yield Case(op, {"input": T(shape, data_type, recipe)}, {"axes": list(range(0, len(shape), 2))})
        for data_type in types:
            edges = "finite" if data_type.startswith("float") else "edges"
            if op not in ("reduce_l2", "reduce_sum_square", "reduce_log_sum", "reduce_product", "reduce_log_sum_exp"):
                edges = "edges" if op in ("reduce_max", "reduce_min") else edges
                yield Case(op, {"input": T((33, 2), data_type, edges)}, {"axes": [1]})
            if not data_type.startswith("float"):
                yield Case(op, {"input": T((4, 33), data_type, "wide")}, {"axes": [1]})
                yield Case(op, {"input": T((33, 9), data_type, "wide")}, {"axes": [0]})
        yield Case(op, {"input": T((3, 4), types[0], recipe)}, constants=frozenset({"input"}))
        yield Case(op, {"input": T((256, 1024), types[0], recipe)}, {"axes": [1]}, timed=True)


def long_cases() -> Iterator[Case]:
    """Long axes, where a plain loop loses digits; every shape of reduced and kept dimensions around them."""
    sums = ("reduce_sum", "reduce_mean", "reduce_l1", "reduce_l2", "reduce_sum_square", "reduce_log_sum_exp")
    for op in sums:
        for recipe in ("fill:0.1", "range:0:1", "small"):
            yield Case(op, {"input": T((200003,), values=recipe)})
        yield Case(op, {"input": T((100001, 3), values="range:0:1")}, {"axes": [0]})
        yield Case(op, {"input": T((3, 100001), values="range:0:1")}, {"axes": [1]})
        yield Case(op, {"input": T((7, 3, 5001), values="range:0:1")}, {"axes": [0, 2]})
        yield Case(op, {"input": T((20000,), "float16", "range:0:1")}, {})
    yield Case("reduce_sum", {"input": T((70000,), "int64", "wide")})
    yield Case("reduce_product", {"input": T((3000,), values="near_one")})
    for op in ("reduce_max", "reduce_min"):
        yield Case(op, {"input": T((100001,), values="wide")})
        yield Case(op, {"input": T((100001,), "uint64", "wide")})
    for op in ("arg_max", "arg_min"):
        yield Case(op, {"input": T((100001,), values="ties")}, {"axis": 0})
        yield Case(op, {"input": T((100001,), "int64", "wide")}, {"axis": 0})


def special_cases() -> Iterator[Case]:
    """Infinities and NaN inside sums, maxima, logarithms of sums of exponentials."""
    for data_type in ("float32", "float16"):
        rows = T((3, 4), data_type, [1.0, NAN, 2.0, 3.0, INF, 1.0, 2.0, 3.0, -INF, -INF, -INF, -INF])
        for op in ("reduce_max", "reduce_min", "reduce_sum", "reduce_mean", "reduce_log_sum_exp", "reduce_l1"):
            yield Case(op, {"input": rows}, {"axes": [1]})
        for values in ("range:80:90", "range:-200:-150", "fill:1000"):
            yield Case("reduce_log_sum_exp", {"input": T((3, 5), data_type, values)}, {"axes": [1]})
        yield Case("reduce_log_sum", {"input": T((2, 2), data_type, [-1.0, -2.0, 0.0, 0.0])}, {"axes": [1]})
        yield Case("reduce_product", {"input": T((3, 9), data_type, "small")}, {"axes": [0]})


def arg_cases() -> Iterator[Case]:
    for op in ("arg_min", "arg_max"):
        for turn, data_type in enumerate(types_of(op)):
            for axis in range(3):
                attrs = {"axis": axis, "keep_dimensions": axis == 1}
                yield Case(op, {"input": T((3, 9, 4), data_type, "ties")}, attrs)
                if turn < 2:
                    wide = {**attrs, "output_data_type": "int64"}
                    yield Case(op, {"input": T((3, 9, 4), data_type, "ties")}, wide)
            yield Case(op, {"input": T((107,), data_type, "edges")}, {"axis": 0})
            yield Case(op, {"input": T((5, 17), data_type, "wide")}, {"axis": 1})
            yield Case(op, {"input": T((5, 17), data_type, "fill:3")}, {"axis": 0})
        for shape, data_type in ranks_with_types(op):
            for axis in range(len(shape)):
                yield Case(op, {"input": T(shape, data_type)}, {"axis": axis})
        for data_type in floats_of(op):
            rows = [NAN, 1.0, 2.0, NAN, NAN, NAN, -INF, NAN, INF, NAN, INF, INF]
            yield Case(op, {"input": T((4, 3), data_type, rows)}, {"axis": 1})
        yield Case(op, {"input": T((256, 1024))}, {"axis": 1}, timed=True)


def cumulative_cases() -> Iterator[Case]:
    op = "cumulative_sum"
    for data_type in types_of(op):
        for axis in range(3):
            for exclusive in (False, True):
                for backwards in (False, True):
                    attrs = {"axis": axis, "exclusive": exclusive, "reversed": backwards}
                    yield Case(op, {"input": T((3, 5, 9), data_type)}, attrs)
        if not data_type.startswith("float"):
            yield Case(op, {"input": T((3, 40), data_type, "wide")}, {"axis": 1})
    for shape, data_type in ranks_with_types(op):
        yield Case(op, {"input": T(shape, data_type)}, {"axis": len(shape) - 1})
        yield Case(op, {"input": T(shape, data_type)}, {"axis": 0})
    for recipe in ("fill:0.1", "range:0:1", "small"):
        yield Case(op, {"input": T((100003,), values=recipe)}, {"axis": 0})
    yield Case(op, {"input": T((2, 5003, 3), values="range:0:1")}, {"axis": 1, "reversed": True, "exclusive": True})
    yield Case(op, {"input": T((4,), values=[1.0, INF, 2.0, 3.0])}, {"axis": 0, "exclusive": True})
    yield Case(op, {"input": T((3, 4))}, {"axis": 1}, constants=frozenset({"input"}))
    yield Case(op, {"input": T((256, 1024))}, {"axis": 1}, timed=True)


def cases() -> Iterator[Case]:
    yield from reduce_cases()
    yield from long_cases()
    yield from special_cases()
    yield from arg_cases()
    yield from cumulative_cases()
