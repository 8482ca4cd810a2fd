"""Every operator of the table of cases on the device, against the float64 reference."""

from __future__ import annotations

from typing import Any

import pytest

from tests import harness, spec
from tests.cases import by_operator


@pytest.mark.thins_cases
@pytest.mark.parametrize("op", sorted(spec.OPERANDS))
def test_operator(op: str, context: Any, pytestconfig: pytest.Config) -> None:
    cases = by_operator()[op][:: pytestconfig.getoption("--every")]
    found = [line for group in harness.batches(cases) for line in harness.failures(context, group)]
    assert not found, harness.report(found)


def test_the_table_covers_every_allowed_data_type() -> None:
    missing = []
    for op, operands in spec.OPERANDS.items():
        used = [case.data_types for case in by_operator()[op]]
        for role, limits in operands.items():
            seen = {types[role] for types in used if role in types}
            missing += [f"{op}.{role}: {data_type}" for data_type in limits.data_types if data_type not in seen]
    assert not missing


def test_the_table_covers_every_allowed_rank() -> None:
    missing = []
    for op, operands in spec.OPERANDS.items():
        role, limits = next(iter(operands.items()))
        tensors = [case.inputs[role] for case in by_operator()[op]]
        seen = {len((t[0] if isinstance(t, list) else t).shape) for t in tensors}
        missing += [f"{op}.{role}: rank {r}" for r in range(limits.ranks[0], limits.ranks[1] + 1) if r not in seen]
    assert not missing
