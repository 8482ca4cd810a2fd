"""The reference models against the web-platform-tests vectors: no OpenCL, it proves the models themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests import reference
from tests.conformance import compare, vectors

pytestmark = pytest.mark.skipif(vectors.why_absent() is not None, reason=str(vectors.why_absent()))


def _apply(op: str, positional: Any, options: Any) -> list[np.ndarray[Any, Any]]:
    model = reference.MODELS[op]
    given = dict(zip(model.positional, positional, strict=False))
    return reference.evaluate(op, given, {k: v for k, v in options.items() if k != "label"})


def _mismatches(case: vectors.Case) -> list[str]:
    inputs = {key: vectors.array(tensor) for key, tensor in case["inputs"].items()}
    known = vectors.run(case, inputs, _apply)
    exact = case.get("exact", False)
    found = [
        compare.mismatch(key, known[key], vectors.array(tensor), case["tolerance"], exact)
        for key, tensor in case["expectedOutputs"].items()
    ]
    return [f"{case['name']}: {line}" for line in found if line]


def _comparable(cases: list[vectors.Case]) -> list[vectors.Case]:
    """Cases that the June-2026 spec agrees with; one with a `note` has a tolerance that no float64 model can meet."""
    return [case for case in cases if "specConflict" not in case and "note" not in case]


@pytest.mark.parametrize("name", [name for name, cases in vectors.files("conformance").items() if _comparable(cases)])
def test_models_agree_with_the_vectors(name: str) -> None:
    cases = _comparable(vectors.files("conformance")[name])
    failures = [line for case in cases for line in _mismatches(case)]
    assert not failures, "\n".join(failures)
