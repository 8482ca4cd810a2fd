"""op_support_limits() against the spec's tables: names, data types and ranks allowed and required."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import spec
from tests.conformance import vectors
from tests.reference import DATA_TYPES

GLOBAL = {"preferredInputLayout", "maxTensorByteLength", "input", "constant", "output"}


def test_members_are_exactly_those_of_the_spec(context: Any) -> None:
    limits = context.op_support_limits()
    assert set(limits) == GLOBAL | {spec.camel(op) for op in spec.OPERANDS}
    assert limits["preferredInputLayout"] in ("nchw", "nhwc")
    assert isinstance(limits["maxTensorByteLength"], int) and limits["maxTensorByteLength"] > 0
    for name in ("input", "constant", "output"):
        assert set(limits[name]["dataTypes"]) == set(DATA_TYPES)
        assert limits[name]["rankRange"] == {"min": 0, "max": spec.MAX_RANK}


@pytest.mark.parametrize("op", sorted(spec.OPERANDS))
def test_operator_reports_all_that_the_spec_allows(op: str, context: Any) -> None:
    reported = context.op_support_limits()[spec.camel(op)]
    allowed = {**spec.OPERANDS[op], **spec.OUTPUTS[op]}
    assert set(reported) == {spec.camel(role) for role in allowed}
    for role, limits in allowed.items():
        member = reported[spec.camel(role)]
        assert set(member) == {"dataTypes", "rankRange"}, role
        assert sorted(member["dataTypes"]) == sorted(limits.data_types), role
        assert member["rankRange"] == {"min": limits.ranks[0], "max": limits.ranks[1]}, role


@pytest.mark.skipif(vectors.why_absent() is not None, reason=str(vectors.why_absent()))
def test_everything_required_is_supported(context: Any) -> None:
    limits = context.op_support_limits()
    tables = json.loads((vectors.folder() / "spec_tensor_limits.json").read_text(encoding="utf-8"))
    # isNaN and isInfinite: the table lists any type as allowed, the steps accept floats; only required ones count here.
    assert set(tables) == {spec.camel(op) for op in spec.OPERANDS}
    for op, operands in tables.items():
        for role, table in operands.items():
            reported = limits[op][role]
            assert set(table["requiredDataTypes"]) <= set(reported["dataTypes"]), (op, role)
            low, high = table["requiredRank"]
            assert reported["rankRange"]["min"] <= low, (op, role)
            assert reported["rankRange"]["max"] >= high, (op, role)


def test_the_answer_is_a_plain_copy(context: Any) -> None:
    first = context.op_support_limits()
    first["add"]["a"]["dataTypes"].append("float64")
    assert "float64" not in context.op_support_limits()["add"]["a"]["dataTypes"]
    json.dumps(context.op_support_limits())
