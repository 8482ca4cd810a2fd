"""A drawn operator call: the other operands and the parameters that suit a first operand of a given type and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.cases import T
from tests.drawing.source import Source

# Values that any operator must cope with, and the tamer ones for operators that add up: sums of numbers near the top of
# the range may overflow on the way though the exact result does not.
ANY_VALUES = ("small", "edges", "wide", "nan", "ties")
SUMMED = ("small", "positive", "unit", "ties", "nan")


@dataclass
class Plan:
    """What a call needs besides its first operand; `first` lists the recipes for that operand's values."""

    operands: dict[str, T] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    first: Sequence[str] = ANY_VALUES


Planner = Callable[[Source, tuple[int, ...], str], "Plan | None"]
PLANNERS: dict[str, Planner] = {}


def planner(*names: str) -> Callable[[Planner], Planner]:
    """Register how to draw a call of these operators; None from it: this first operand does not suit."""

    def register(function: Planner) -> Planner:
        PLANNERS.update(dict.fromkeys(names, function))
        return function

    return register
