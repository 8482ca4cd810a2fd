"""Drawn operator calls: valid by construction, for property-based tests and for random graphs alike."""

from __future__ import annotations

from tests import spec
from tests.cases import Case, T
from tests.drawing import elementwise, shaping, sums, windows  # noqa: F401  (importing a family registers its planners)
from tests.drawing.plan import PLANNERS, Plan
from tests.drawing.source import HypothesisSource, RandomSource, Source, shape

__all__ = ["PLANNERS", "HypothesisSource", "Plan", "RandomSource", "Source", "case_of", "drawn_case", "first_role"]


def first_role(op: str) -> str:
    """Name of the first operand."""
    return next(iter(spec.OPERANDS[op]))


def case_of(op: str, first: T, plan: Plan) -> Case:
    """The case of a plan for a first operand."""
    if op == "concat":
        return Case(op, {"inputs": [first, *plan.operands.values()]}, plan.attrs)
    return Case(op, {first_role(op): first, **plan.operands}, plan.attrs)


def drawn_case(op: str, source: Source) -> Case:
    """Any valid call of the operator, values included."""
    limits = spec.OPERANDS[op][first_role(op)]
    data_type = source.choice(limits.data_types)
    first = shape(source, limits.ranks)
    plan = PLANNERS[op](source, first, data_type)
    assert plan is not None
    return case_of(op, T(first, data_type, source.choice(plan.first)), plan)
