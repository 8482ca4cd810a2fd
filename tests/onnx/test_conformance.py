"""ONNX's backend test suite: nothing wrong, and as much passing as docs/onnx.md says."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import webnn_cl
from webnn_cl.onnx import backend, conformance

DOCUMENT = Path(__file__).parents[2] / "docs" / "onnx.md"
REFUSED = frozenset(Path(__file__).with_name("refused.txt").read_text().split())
PINNED = "1.23"
PARTS = {"node": 20}
cases = functools.cache(conformance.cases)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "part"), [(k, part) for k in conformance.KINDS for part in range(PARTS.get(k, 1))])
def test_suite(context: webnn_cl.MLContext, kind: str, part: int) -> None:
    size = -(-len(cases(kind)) // PARTS.get(kind, 1))
    outcomes = list(conformance.run_cases(cases(kind)[part * size : (part + 1) * size], context))
    assert not [f"{o.name}: {o.detail}" for o in outcomes if o.result == "wrong"]
    refused = [o for o in outcomes if o.result == "refused"]
    assert all(o.detail for o in refused), "a refusal says why"
    if onnx.__version__.startswith(PINNED):
        assert {o.name for o in refused} == {o.name for o in outcomes} & REFUSED


@pytest.mark.parametrize("kind", conformance.KINDS)
def test_the_document_counts_the_suite(kind: str) -> None:
    row = re.search(rf"^\| {kind} \((\d+).*?\| (\d+) \| (\d+) \| (\d+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert row is not None
    names = {case.name for case in cases(kind)}
    refused = len(names & REFUSED)
    if onnx.__version__.startswith(PINNED):
        assert tuple(map(int, row.groups())) == (len(names), len(names) - refused, refused, 0)


def test_the_backend_protocol(context: webnn_cl.MLContext) -> None:
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    a, b = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    backend.WebnnBackend.context = context
    try:
        assert backend.supports_device("CPU") and not backend.supports_device("CUDA")
        (c,) = backend.run_node(node, [a, b])
        np.testing.assert_array_equal(c, a + 1)
        info = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [3]) for n in "abc"]
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", info[:2], info[2:]))
        assert backend.is_compatible(model)
        np.testing.assert_array_equal(backend.run_model(model, {"a": a, "b": b})[0], a + 1)
        prepared = backend.prepare(model)
        np.testing.assert_array_equal(prepared.run([a, b])[0], a + 1)
    finally:
        backend.WebnnBackend.context = None


def test_the_command_tells_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main(["--kind", "node", "--filter", "test_abs", "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "node: 1 cases, 1 passed, 0 refused, 0 wrong" in out
    assert conformance.main(["--kind", "node", "--filter", "test_image_decoder_decode_png", "--verbose"]) == 0
    assert "decodes a file format" in capsys.readouterr().out
