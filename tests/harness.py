"""Runs cases of the table through the public API, many in one graph, and compares them with the reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests import reference, tolerance
from tests.cases import Case

Array = np.ndarray[Any, Any]


def call(builder: Any, op: str, operands: Mapping[str, Any], attrs: Mapping[str, Any]) -> list[Any]:
    """Call the builder method of an operator as the API lays it down: required ones by position, options by keyword."""
    given = {**operands, **attrs}
    positional = [given.pop(name) for name in reference.MODELS[op].positional]
    result = getattr(builder, op)(*positional, **given)
    return result if isinstance(result, list) else [result]


@dataclass
class Batch:
    """Several cases in one graph."""

    graph: Any
    feeds: dict[str, Array]
    outputs: list[list[str]]


def _operand(builder: Any, name: str, array: Array, constant: bool, feeds: dict[str, Array]) -> Any:
    if constant:
        return builder.constant(array)
    feeds[name] = array
    return builder.input(name, array.shape, str(array.dtype))


def _operands(
    builder: Any, prefix: str, case: Case, arrays: Mapping[str, Any], feeds: dict[str, Array]
) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for role, given in arrays.items():
        constant = role in case.constants
        if isinstance(given, list):
            items = enumerate(given)
            made[role] = [_operand(builder, f"{prefix}.{role}.{i}", x, constant, feeds) for i, x in items]
        else:
            made[role] = _operand(builder, f"{prefix}.{role}", given, constant, feeds)
    return made


def build(context: Any, cases: Sequence[Case], arrays: Sequence[Mapping[str, Any]]) -> Batch:
    """One graph with all the cases side by side."""
    builder = context.create_graph_builder()
    feeds: dict[str, Array] = {}
    wanted: dict[str, Any] = {}
    names: list[list[str]] = []
    for k, (case, given) in enumerate(zip(cases, arrays, strict=True)):
        results = call(builder, case.op, _operands(builder, str(k), case, given, feeds), case.attrs)
        names.append([f"{k}:{i}" for i in range(len(results))])
        wanted.update(zip(names[-1], results, strict=True))
    return Batch(builder.build(wanted), feeds, names)


def wrong_outputs(case: Case, arrays: Mapping[str, Any], outputs: Sequence[Array]) -> list[str]:
    """What is wrong with the outputs of a case; empty when all is right."""
    exact = reference.exact(case.op, arrays, case.attrs)
    if len(outputs) != len(exact):
        return [f"{len(outputs)} outputs instead of {len(exact)}"]
    data_type = reference.output_type(case.op, arrays, case.attrs)
    allowed = tolerance.tolerance_of(case.op, arrays, case.attrs, exact)
    lines = [tolerance.mismatch(a, e, data_type, t) for a, e, t in zip(outputs, exact, allowed, strict=True)]
    return [f"output {k}: {line}" for k, line in enumerate(lines) if line]


def failures(context: Any, cases: Sequence[Case]) -> list[str]:
    """Run the cases in one graph; one line per failing case. A graph that fails as a whole is halved to find why."""
    arrays = [case.arrays() for case in cases]
    try:
        batch = build(context, cases, arrays)
        try:
            results = context.compute(batch.graph, batch.feeds)
        finally:
            batch.graph.destroy()
    except Exception as error:  # whatever it is, find the case that does it
        if len(cases) == 1:
            return [f"{cases[0].name}: {type(error).__name__}: {str(error)[:400]}"]
        middle = len(cases) // 2
        return failures(context, cases[:middle]) + failures(context, cases[middle:])
    found = []
    for case, given, names in zip(cases, arrays, batch.outputs, strict=True):
        wrong = wrong_outputs(case, given, [results[name] for name in names])
        found += [f"{case.name}: {line}" for line in wrong]
    return found


def batches(cases: Iterable[Case], size: int = 100) -> Iterator[list[Case]]:
    """The cases in groups that share a graph."""
    group: list[Case] = []
    for case in cases:
        group.append(case)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def report(found: Sequence[str], limit: int = 40) -> str:
    """Failures as a message, not more than fit a terminal."""
    more = [f"... and {len(found) - limit} more"] if len(found) > limit else []
    return "\n".join([f"{len(found)} failing", *found[:limit], *more])
