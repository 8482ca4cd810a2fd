"""The web-platform-tests conformance vectors through the public API, each within its own tolerance."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import webnn_cl
from tests.conformance import compare, vectors
from tests.reference import DATA_TYPES

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(vectors.why_absent() is not None, reason=str(vectors.why_absent()))


def refused_by_the_spec(case: vectors.Case) -> bool:
    """Whether the June-2026 spec forbids a call of the case; otherwise its conflict leaves the result undefined."""
    reason = case["specConflict"]
    return any(word in reason for word in ("rank", "are not MLOperandDataType", "not a valid enum"))


def _cases() -> Iterator[Any]:
    for name, case in vectors.cases("conformance"):
        marks: list[Any] = []
        if "note" in case:
            marks.append(pytest.mark.xfail(strict=False, reason=case["note"]))
        if "specConflict" not in case:
            yield pytest.param(case, id=f"{name}/{case['name']}", marks=marks)


def _conflicts() -> Iterator[Any]:
    for name, case in vectors.cases("conformance"):
        if "specConflict" in case and refused_by_the_spec(case):
            yield pytest.param(case, id=f"{name}/{case['name']}")


def shared_memory(array: Array) -> Array:
    """The same array in memory that other processes could share."""
    view = np.frombuffer(mmap.mmap(-1, max(1, array.nbytes)), array.dtype, array.size).reshape(array.shape)
    view[...] = array
    return view


def _build(context: Any, case: vectors.Case) -> Any:
    builder = context.create_graph_builder()
    operands = {}
    for name, tensor in case["inputs"].items():
        if not tensor.get("constant"):
            operands[name] = builder.input(name, tensor["shape"], tensor["dataType"])
            continue
        if tensor["dataType"] not in DATA_TYPES:  # int4 and uint4, in cases that the spec refuses
            size = len(tensor["data"]) if isinstance(tensor["data"], list) else 1
            operands[name] = builder.constant(bytes(size), shape=tensor["shape"], data_type=tensor["dataType"])
            continue
        array = vectors.array(tensor)
        shared = "constant-from-shared-memory" in case.get("checks", ())
        operands[name] = builder.constant(shared_memory(array) if shared else array)

    def apply(op: str, positional: Sequence[Any], options: Mapping[str, Any]) -> Sequence[Any]:
        result = getattr(builder, op)(*positional, **options)
        return result if isinstance(result, list) else [result]

    known = vectors.run(case, operands, apply)
    return builder.build({name: known[name] for name in case["expectedOutputs"]})


def _mismatches(case: vectors.Case, read: Mapping[str, Array]) -> list[str]:
    tolerance, exact = case["tolerance"], case.get("exact", False)
    lines = []
    for name, tensor in case["expectedOutputs"].items():
        expected, actual = vectors.array(tensor), read[name]
        if not isinstance(tensor["data"], list):  # one value for the whole shape: WPT looks at the first 1000 elements
            expected, actual = expected.reshape(-1)[:1000], actual.reshape(-1)[:1000]
        lines.append(compare.mismatch(name, actual, expected, tolerance, exact))
    return [line for line in lines if line]


@pytest.mark.parametrize("case", _cases())
def test_case(case: vectors.Case, context: Any) -> None:
    with ExitStack() as stack:
        graph = stack.enter_context(_build(context, case))
        inputs, outputs, written = {}, {}, {}
        for name, tensor in case["inputs"].items():
            if tensor.get("constant") or name not in graph.inputs:
                continue
            made = context.create_tensor(tensor["shape"], tensor["dataType"], readable=True, writable=True)
            inputs[name], written[name] = stack.enter_context(made), vectors.array(tensor)
            context.write_tensor(inputs[name], written[name].tobytes())
        for name, tensor in case["expectedOutputs"].items():
            made = context.create_tensor(tensor["shape"], tensor["dataType"], readable=True)
            outputs[name] = stack.enter_context(made)
        for _ in range(2 if "dispatch-twice" in case.get("checks", ()) else 1):
            context.dispatch(graph, inputs, outputs)
            wrong = _mismatches(case, {name: context.read_tensor(made) for name, made in outputs.items()})
            assert not wrong, "\n".join(wrong)
        for name, made in inputs.items():
            assert context.read_tensor(made).tobytes() == written[name].tobytes(), f"input {name} was modified"


@pytest.mark.parametrize("case", _conflicts())
def test_case_that_the_spec_refuses(case: vectors.Case, context: Any) -> None:
    with pytest.raises(webnn_cl.MLTypeError):
        _build(context, case)
