"""ONNX's backend test suite on webnn_cl: ``python -m webnn_cl.onnx.conformance``.

Runs the node cases (without those that only spell another case out), the simple models and the PyTorch ones, and
prints how many passed, were refused, or came out wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import numpy_helper

from webnn_cl.errors import MLError, NotSupportedError
from webnn_cl.onnx.session import InferenceSession

if TYPE_CHECKING:
    from webnn_cl.context import MLContext

__all__ = ["KINDS", "Outcome", "cases", "main", "run_case", "run_cases"]

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


@dataclass(frozen=True)
class Outcome:
    """How one case went: ``passed``, ``refused`` (with the reason) or ``wrong`` (with the difference)."""

    kind: str
    name: str
    operator: str
    result: str
    detail: str = ""


def cases(kind: str, text: str = "") -> list[Any]:
    """The suite's cases of one kind whose names contain `text`."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = load_model_tests(kind=kind)
    return [case for case in loaded if "_expanded" not in case.name and text in case.name]


def run_case(case: Any, context: MLContext) -> Outcome:
    """Run one case of the suite, all its data sets, with the suite's own tolerances."""
    model = case.model if case.model is not None else onnx.load(str(Path(case.model_dir) / "model.onnx"))
    operators = "+".join(dict.fromkeys(node.op_type for node in model.graph.node)) if case.kind == "node" else ""
    try:
        problem = _first_problem(case, model, context)
    except NotSupportedError as error:
        return Outcome(case.kind, case.name, operators, "refused", str(error))
    except (MLError, AssertionError, ValueError, TypeError) as error:
        return Outcome(case.kind, case.name, operators, "wrong", f"{type(error).__name__}: {error}")
    return Outcome(case.kind, case.name, operators, "wrong" if problem else "passed", problem)


def _first_problem(case: Any, model: Any, context: MLContext) -> str:
    from onnx.backend.test.runner import Runner

    source = model if case.model is not None else str(Path(case.model_dir) / "model.onnx")
    session = InferenceSession(source, context)
    try:
        for inputs, expected in _data_sets(case, model):
            outputs = session.run(None, dict(zip((i.name for i in session.get_inputs()), inputs, strict=False)))
            try:
                _compare(Runner, case, flattened(expected), flattened(outputs))
            except (AssertionError, TypeError) as error:
                return " ".join(str(error).split())
    finally:
        session.destroy()
    return ""


def _compare(runner: Any, case: Any, expected: list[Any], outputs: list[Any]) -> None:
    """With the suite's tolerances, but for two things that are noise of the expected values themselves.

    float16 results may differ by two units in the last place, as the suite allows for bfloat16; and one expected zero
    is the rounding noise of a float32 transform.
    """
    rtol, atol = case.rtol, 1e-6 if case.name.startswith("test_dft_inverse") else case.atol
    for wanted, ours in zip(expected, outputs, strict=True):
        half = getattr(wanted, "dtype", None) == np.float16
        runner.assert_similar_outputs([wanted], [ours], max(rtol, 2.0**-9) if half else rtol, atol)


def flattened(values: Any) -> list[Any]:
    """The arrays of outputs, those in sequences one by one (the suite itself can't compare scalars in sequences)."""
    flat: list[Any] = []
    for value in values:
        flat += flattened(value) if isinstance(value, (list, tuple)) else [value]
    return flat


def _data_sets(case: Any, model: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_array(v) for v in inputs], [_array(v) for v in outputs]
        return
    weights = {t.name for t in model.graph.initializer}
    declared = [v for v in model.graph.input if v.name not in weights]
    for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
        yield _read(folder, "input", declared), _read(folder, "output", model.graph.output)


def _read(folder: Path, prefix: str, declared: Iterable[Any]) -> list[Any]:
    found = []
    for index, value in enumerate(declared):
        path = folder / f"{prefix}_{index}.pb"
        if path.is_file():
            found.append(_parse(path.read_bytes(), value.type.WhichOneof("value")))
    return found


def _parse(data: bytes, kind: str) -> Any:
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def run_cases(chosen: Iterable[Any], context: MLContext) -> Iterator[Outcome]:
    """The outcome of each case, as they finish."""
    for case in chosen:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield run_case(case, context)


def run_kinds(kinds: Iterable[str], context: MLContext, text: str = "") -> Iterator[Outcome]:
    """The outcome of each case of these kinds whose name contains `text`, as they finish."""
    for kind in kinds:
        yield from run_cases(cases(kind, text), context)


def summary(outcomes: Iterable[Outcome]) -> str:
    """A line of counts per kind."""
    lines = []
    done = list(outcomes)
    for kind in dict.fromkeys(o.kind for o in done):
        counts = Counter(o.result for o in done if o.kind == kind)
        parts = (f"{counts[r]} {r}" for r in ("passed", "refused", "wrong"))
        lines.append(f"{kind}: {sum(counts.values())} cases, {', '.join(parts)}")
    return "\n".join(lines)


def refusals(outcomes: Iterable[Outcome]) -> str:
    """The refused operators of the node cases, each with its number of cases and one reason."""
    reasons: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.result == "refused":
            reasons.setdefault(outcome.operator or outcome.name, []).append(outcome.detail.splitlines()[-1].strip())
    return "\n".join(f"  {len(r):3} {name}: {r[0]}" for name, r in sorted(reasons.items()))


def main(arguments: list[str] | None = None) -> int:
    """The command; exit status 1 when a case came out wrong."""
    import webnn_cl

    parser = argparse.ArgumentParser("webnn_cl.onnx.conformance", description="ONNX's backend test suite on webnn_cl.")
    parser.add_argument("--kind", choices=KINDS, action="append", help="which cases (repeatable; default: all)")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only cases whose names contain this")
    parser.add_argument("--device", help="a device's number in `webnn-cl devices`, or part of its name")
    parser.add_argument("--verbose", action="store_true", help="also list every case that did not pass")
    options = parser.parse_args(arguments)
    start, outcomes = time.perf_counter(), list[Outcome]()
    with webnn_cl.ML().create_context(device=options.device) as context:
        print(f"onnx {onnx.__version__} on {context.device}", flush=True)
        for outcome in run_kinds(options.kind or KINDS, context, options.filter):
            outcomes.append(outcome)
            if outcome.result == "wrong" or (options.verbose and outcome.result != "passed"):
                print(f"{outcome.result} {outcome.name}: {outcome.detail}", flush=True)
    print(f"refused:\n{refusals(outcomes)}")
    print(f"{summary(outcomes)}\n{time.perf_counter() - start:.0f} s")
    return int(any(outcome.result == "wrong" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
