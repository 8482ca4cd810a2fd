"""Drawn calls of data movement, gather and scatter."""

from __future__ import annotations

import math
from typing import Any

from tests import spec
from tests.cases import T
from tests.drawing.plan import Plan, planner
from tests.drawing.source import MAX_ELEMENTS, Source, boolean, divisor, permutation, subset

Shape = tuple[int, ...]
EXACT = ("wide", "edges", "small", "nan")
INDICES = ("int32", "uint32", "int64")


@planner("concat")
def concat(source: Source, shape: Shape, data_type: str) -> Plan:
    """The other inputs are given under "inputs.1" and so on."""
    axis = source.integer(0, len(shape) - 1)
    others = {}
    for k in range(source.integer(0, 3)):
        size = source.integer(1, 4)
        others[f"inputs.{k + 1}"] = T((*shape[:axis], size, *shape[axis + 1 :]), data_type, "wide")
    return Plan(others, {"axis": axis}, EXACT)


@planner("expand")
def expand(source: Source, shape: Shape, data_type: str) -> Plan:
    room = MAX_ELEMENTS // math.prod(shape)
    sizes = list(shape)
    for axis, size in enumerate(shape):
        if size == 1 and room >= 4 and boolean(source):
            sizes[axis], room = source.integer(2, 4), room // 4
    while len(sizes) < spec.MAX_RANK and room >= 3 and boolean(source):
        sizes.insert(0, source.integer(1, 3))
        room //= 3
    return Plan(attrs={"new_shape": sizes}, first=EXACT)


@planner("pad")
def pad(source: Source, shape: Shape, data_type: str) -> Plan:
    modes = ("constant", "edge", "reflection")
    mode, room = source.choice(modes), 4 * MAX_ELEMENTS // math.prod(shape)
    begin, end = [], []
    for size in shape:
        most = min(3, room - 1, size - 1 if mode == "reflection" else 3)
        before, after = source.integer(0, max(0, most)), source.integer(0, max(0, most))
        room = max(1, room * size // (size + before + after))
        begin.append(before)
        end.append(after)
    attrs: dict[str, Any] = {"beginning_padding": begin, "ending_padding": end, "mode": mode}
    if boolean(source):
        attrs["value"] = source.choice((1, -1.5, 300, float("inf"), float("nan"), 2**62))
    return Plan(attrs=attrs, first=EXACT)


@planner("reshape")
def reshape(source: Source, shape: Shape, data_type: str) -> Plan:
    rest, sizes = math.prod(shape), []
    while len(sizes) < spec.MAX_RANK - 1 and boolean(source):
        sizes.append(divisor(source, rest))
        rest //= sizes[-1]
    return Plan(attrs={"new_shape": [*sizes, rest] if rest > 1 or boolean(source) else sizes}, first=EXACT)


@planner("reverse")
def reverse(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan(attrs={"axes": subset(source, range(len(shape)))} if boolean(source) else {}, first=EXACT)


@planner("slice")
def slice_(source: Source, shape: Shape, data_type: str) -> Plan:
    starts = [source.integer(0, size - 1) for size in shape]
    sizes = [source.integer(1, size - start) for size, start in zip(shape, starts, strict=True)]
    attrs = {"starts": starts, "sizes": sizes}
    strided = {"strides": [source.integer(1, 3) for _ in shape]} if boolean(source) else {}
    return Plan(attrs={**attrs, **strided}, first=EXACT)


@planner("split")
def split(source: Source, shape: Shape, data_type: str) -> Plan:
    axis = source.integer(0, len(shape) - 1)
    if boolean(source):
        return Plan(attrs={"splits": divisor(source, shape[axis]), "axis": axis}, first=EXACT)
    rest, parts = shape[axis], []
    while rest:
        parts.append(source.integer(1, rest))
        rest -= parts[-1]
    return Plan(attrs={"splits": parts, "axis": axis}, first=EXACT)


@planner("tile")
def tile(source: Source, shape: Shape, data_type: str) -> Plan:
    room, repetitions = 4 * MAX_ELEMENTS // math.prod(shape), []
    for _ in shape:
        repetitions.append(source.integer(1, max(1, min(3, room))))
        room //= repetitions[-1]
    return Plan(attrs={"repetitions": repetitions}, first=EXACT)


@planner("transpose")
def transpose(source: Source, shape: Shape, data_type: str) -> Plan:
    attrs = {"permutation": permutation(source, len(shape))} if boolean(source) else {}
    return Plan(attrs=attrs, first=EXACT)


@planner("triangular")
def triangular(source: Source, shape: Shape, data_type: str) -> Plan:
    return Plan(attrs={"upper": boolean(source), "diagonal": source.integer(-5, 5)}, first=EXACT)


def _indices(source: Source, shape: Shape, size: int) -> T:
    return T(shape, source.choice(INDICES), f"{source.choice(('index', 'wild'))}:{size}")


@planner("gather")
def gather(source: Source, shape: Shape, data_type: str) -> Plan:
    axis = source.integer(0, len(shape) - 1)
    room = 4 * MAX_ELEMENTS * shape[axis] // math.prod(shape)
    lead: list[int] = []
    while len(lead) + len(shape) <= spec.MAX_RANK and room >= 4 and boolean(source):
        lead.append(source.integer(1, 4))
        room //= lead[-1]
    return Plan({"indices": _indices(source, tuple(lead), shape[axis])}, {"axis": axis}, EXACT)


def _along(source: Source, shape: Shape) -> tuple[int, T]:
    axis = source.integer(0, len(shape) - 1)
    sizes = (*shape[:axis], source.integer(1, 6), *shape[axis + 1 :])
    return axis, _indices(source, sizes, shape[axis])


@planner("gather_elements")
def gather_elements(source: Source, shape: Shape, data_type: str) -> Plan:
    axis, indices = _along(source, shape)
    return Plan({"indices": indices}, {"axis": axis}, EXACT)


@planner("scatter_elements")
def scatter_elements(source: Source, shape: Shape, data_type: str) -> Plan:
    axis, indices = _along(source, shape)
    return Plan({"indices": indices, "updates": T(indices.shape, data_type, "ramp")}, {"axis": axis}, EXACT)


def _nd(source: Source, shape: Shape) -> tuple[Shape, Shape]:
    """Leading shape of the indices, and the input dimensions that one tuple leaves."""
    depth = source.integer(1, len(shape))
    rest = shape[depth:]
    room = 4 * MAX_ELEMENTS // math.prod(rest)
    lead: list[int] = []
    while len(lead) + len(rest) < spec.MAX_RANK and len(lead) < 3 and room >= 4 and boolean(source):
        lead.append(source.integer(1, 4))
        room //= lead[-1]
    return tuple(lead), rest


@planner("gather_nd")
def gather_nd(source: Source, shape: Shape, data_type: str) -> Plan:
    lead, rest = _nd(source, shape)
    depth = len(shape) - len(rest)
    return Plan({"indices": _indices(source, (*lead, depth), min(shape[:depth]))}, first=EXACT)


@planner("scatter_nd")
def scatter_nd(source: Source, shape: Shape, data_type: str) -> Plan:
    lead, rest = _nd(source, shape)
    depth = len(shape) - len(rest)
    indices = _indices(source, (*lead, depth), min(shape[:depth]))
    return Plan({"indices": indices, "updates": T((*lead, *rest), data_type, "ramp")}, first=EXACT)
