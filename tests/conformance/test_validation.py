"""The web-platform-tests validation vectors: single builder calls that must succeed or be refused."""

from __future__ import annotations

from typing import Any

import pytest

import webnn_cl
from tests.conformance import vectors
from tests.conformance.calls import Call, NotExpressible
from tests.harness import report

pytestmark = pytest.mark.skipif(vectors.why_absent() is not None, reason=str(vectors.why_absent()))


def _expected(case: vectors.Case) -> str:
    """What the June-2026 spec wants: where it disagrees with WPT, the opposite of WPT's expectation."""
    if "specConflict" not in case:
        return str(case["expect"])
    return "TypeError" if case["expect"] == "ok" else "ok"


def _wrong_outputs(case: vectors.Case, result: Any) -> str | None:
    wanted = case.get("output")
    if wanted is None or "specConflict" in case:
        return None
    expected = wanted if isinstance(wanted, list) else [wanted]
    outputs = result if isinstance(result, list) else [result]
    got = [{"dataType": o.data_type, "shape": list(o.shape)} for o in outputs]
    plain = [{"dataType": e["dataType"], "shape": list(e["shape"])} for e in expected]
    return None if got == plain else f"got {got}, expected {plain}"


def _label(case: vectors.Case) -> str | None:
    """The label that the message must name; None when it was not given in the options (a Web IDL conversion fails)."""
    found = [entry["options"] for entry in case["arguments"] if isinstance(entry.get("options"), dict)]
    return found[0].get("label") if found and case.get("errorNamesLabel") else None


def _outcome(context: Any, case: vectors.Case) -> str | None:
    """None when the call does what it should, else what it did."""
    expected = _expected(case)
    try:
        result = Call(context, case).run()
    except NotExpressible:
        return None
    except TypeError as error:  # MLTypeError, or Python's own for a wrong signature
        if expected == "ok":
            return f"refused: {error}"
        label = _label(case)
        if label is not None and f"[{label}]" not in str(error):
            return f"the message lacks the label: {error}"
        return None
    if expected != "ok":
        return f"accepted, gave {result}"
    return _wrong_outputs(case, result)


def _context_outcome(case: vectors.Case) -> str | None:
    options = {}
    for entry in case["arguments"]:
        options = {vectors.python_name(key): value for key, value in entry.get("options", {}).items()}
    if "device_type" in options:  # an unknown member is ignored in JavaScript; Python has no such rule
        return None
    try:
        webnn_cl.ML().create_context(**options).destroy()
    except TypeError as error:
        return None if case["expect"] != "ok" else f"refused: {error}"
    return None if case["expect"] == "ok" else "accepted"


@pytest.mark.parametrize("name", vectors.files("validation"))
def test_calls(name: str, context: Any) -> None:
    found = []
    for case in vectors.files("validation")[name]:
        wrong = _context_outcome(case) if case["op"] == "createContext" else _outcome(context, case)
        if wrong:
            found.append(f"{case['name']}: {wrong}")
    assert not found, report(found)
