"""op_support_limits() tells the truth: what it lists builds, runs and is right, all else the builder refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webnn_cl
from tests import harness, limit_cases, spec
from tests.reference import DATA_TYPES, evaluate


def _reported(context: Any, op: str, role: str) -> tuple[set[str], set[int]]:
    """Data types and ranks that the context lists for an operand or output."""
    member = context.op_support_limits()[spec.camel(op)][spec.camel(role)]
    return set(member["dataTypes"]), set(range(member["rankRange"]["min"], member["rankRange"]["max"] + 1))


def _accepted(op: str) -> list[Any]:
    return list({case.name: case for case in limit_cases.accepted(op)}.values())


@pytest.mark.parametrize("op", sorted(spec.OPERANDS))
def test_what_is_listed_runs(op: str, context: Any, pytestconfig: pytest.Config) -> None:
    cases = _accepted(op)[:: pytestconfig.getoption("--every")]
    found = [line for group in harness.batches(cases, 150) for line in harness.failures(context, group)]
    assert not found, harness.report(found)


@pytest.mark.parametrize("op", sorted(spec.OPERANDS))
def test_the_calls_cover_all_that_is_listed(op: str, context: Any) -> None:
    cases = _accepted(op)
    for role in spec.OPERANDS[op]:
        tensors = [case.inputs[role] for case in cases]
        used = [t[0] if isinstance(t, list) else t for t in tensors]
        seen = {(t.data_type, len(t.shape)) for t in used}
        types, ranks = _reported(context, op, role)
        assert {(t, r) for t in types for r in ranks} == seen, role
    results = [evaluate(op, case.arrays(), case.attrs) for case in cases]
    for k, role in enumerate(spec.OUTPUTS[op]):
        outputs = [result[k] for result in results]
        types, ranks = _reported(context, op, role)
        assert {str(output.dtype) for output in outputs} == types, role
        assert {output.ndim for output in outputs} == ranks, role


@pytest.mark.parametrize("op", sorted(spec.OPERANDS))
def test_what_is_not_listed_is_refused(op: str, context: Any) -> None:
    builder = context.create_graph_builder()
    found = []
    for k, case in enumerate(limit_cases.refused(op, DATA_TYPES)):
        operands: dict[str, Any] = {}
        for role, given in case.inputs.items():
            tensors = list(given) if isinstance(given, (list, tuple)) else [given]
            made = [builder.input(f"{k}.{role}.{i}", t.shape, t.data_type) for i, t in enumerate(tensors)]
            operands[role] = made if isinstance(given, (list, tuple)) else made[0]
        try:
            harness.call(builder, op, operands, {**case.attrs, "label": "a label"})
        except webnn_cl.MLTypeError as error:
            if "[a label]" not in str(error):
                found.append(f"{case.name}: no label in: {error}")
        else:
            found.append(f"{case.name}: accepted")
    assert not found, harness.report(found)


def test_inputs_constants_and_outputs_of_graphs(context: Any) -> None:
    builder = context.create_graph_builder()
    feeds, wanted, expected = {}, {}, {}
    for data_type in DATA_TYPES:
        for rank in range(spec.MAX_RANK + 1):
            name, array = f"{data_type} {rank}", np.arange(2**rank).astype(data_type).reshape((2,) * rank)
            feeds[name] = expected[name] = array
            wanted[name] = builder.identity(builder.input(name, array.shape, data_type))
            expected[name + " constant"] = array
            wanted[name + " constant"] = builder.identity(builder.constant(array))
    results = context.compute(builder.build(wanted), feeds)
    for name, array in expected.items():
        assert results[name].dtype == array.dtype, name
        np.testing.assert_array_equal(results[name], array, err_msg=name)


@pytest.mark.parametrize("data_type", [*DATA_TYPES, "float64", "bool", "int4", "uint4", "bfloat16", "int16"])
def test_ranks_and_types_beyond_the_limits(data_type: str, context: Any) -> None:
    builder = context.create_graph_builder()
    shape = (1,) * (spec.MAX_RANK + 1 if data_type in DATA_TYPES else 1)
    with pytest.raises(webnn_cl.MLTypeError):
        builder.input("x", shape, data_type)
    with pytest.raises(webnn_cl.MLTypeError):
        builder.constant(bytes(8), shape=shape, data_type=data_type)
