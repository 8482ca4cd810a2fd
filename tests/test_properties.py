"""Property-based: any valid call of any operator, edge values included, agrees with the reference.

Derandomized and short by default. WEBNN_CL_EXAMPLES=1000 draws that many fresh examples per operator.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from tests import harness, spec
from tests.cases import Case
from tests.drawing import HypothesisSource, drawn_case

MANY = os.environ.get("WEBNN_CL_EXAMPLES")
PROFILE = settings(
    max_examples=int(MANY or 6),
    derandomize=not MANY,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@strategies.composite
def calls(draw: Callable[[Any], Any], op: str) -> list[Case]:
    """A few calls of one operator; they share a graph."""
    source = HypothesisSource(draw)
    return [drawn_case(op, source) for _ in range(source.integer(1, 4))]


@pytest.mark.parametrize("op", sorted(spec.OPERANDS))
def test_any_call_agrees_with_the_reference(op: str, context: Any) -> None:
    @PROFILE
    @given(calls(op))
    def check(cases: list[Case]) -> None:
        found = harness.failures(context, cases)
        assert not found, harness.report(found)

    check()
