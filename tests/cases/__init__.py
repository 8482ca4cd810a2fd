"""The one table of operator cases: correctness test, support matrix (docs/operators.md) and benchmark.

A new operator adds its cases to its family's file here; nothing else in tests lists operators one by one.
"""

from __future__ import annotations

from functools import cache

from tests.cases import (
    activation,
    casting,
    convolution,
    elementwise,
    indexing,
    matrix,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    shaping,
)
from tests.cases.model import Case, T

__all__ = ["FAMILIES", "Case", "T", "all_cases", "by_operator"]

FAMILIES = {
    "elementwise": elementwise,
    "activation": activation,
    "casting": casting,
    "quantization": quantization,
    "convolution": convolution,
    "pooling": pooling,
    "matrix": matrix,
    "normalization": normalization,
    "reduction": reduction,
    "recurrent": recurrent,
    "indexing": indexing,
    "shaping": shaping,
}


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case once, family after family."""
    unique: dict[str, Case] = {}
    for family in FAMILIES.values():
        for case in family.cases():
            unique.setdefault(case.name, case)
    return tuple(unique.values())


@cache
def by_operator() -> dict[str, tuple[Case, ...]]:
    """The cases of every operator."""
    grouped: dict[str, list[Case]] = {}
    for case in all_cases():
        grouped.setdefault(case.op, []).append(case)
    return {op: tuple(cases) for op, cases in grouped.items()}
