"""Kernels that the cases of the table would not reach by themselves: plain ones behind fast ones, and large sizes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests import harness, reference
from tests.cases import by_operator
from webnn_cl.ops import norm_plan, recurrent_lower
from webnn_cl.tiles import variants

EVERY = 3


def check(op: str, context: Any, every: int = EVERY) -> None:
    cases = by_operator()[op][::every]
    found = [line for group in harness.batches(cases) for line in harness.failures(context, group)]
    assert not found, harness.report(found)


@pytest.mark.parametrize(
    ("op", "variant"),
    [
        *((op, variants.PLAIN) for op in ("conv2d", "conv_transpose2d", "gemm", "matmul")),
        *(("conv2d", name) for name in ("rows", "pixels", "few", "product", "depthwise")),
        ("conv_transpose2d", "pixels"),
        *((op, name) for op in ("gemm", "matmul") for name in ("panels", "unpacked")),
    ],
)
def test_every_variant(op: str, variant: str, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel wherever it can be taken, not only where it is the default."""
    if not context._facts.is_cpu and variant != variants.PLAIN:
        pytest.skip("device: not a CPU")
    default, taken = variants.default_variant, []

    def choose(node: Any, facts: Any) -> str:
        if variant not in variants.candidates(node, facts):
            return default(node, facts)
        taken.append(node)
        return variant

    monkeypatch.setattr(variants, "default_variant", choose)
    check(op, context)
    assert taken


@pytest.mark.parametrize("op", ["layer_normalization", "instance_normalization"])
def test_groups_cut_into_chunks(op: str, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CHUNK": 8, "WHOLE": 8, "SHORT": 2, "WIDEST": 16}.items():
        monkeypatch.setattr(norm_plan, name, value)
    check(op, context)


def test_rows_that_share_loads(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norm_plan, "LONG_ROW", 0)
    check("layer_normalization", context)


@pytest.mark.parametrize("is_cpu", [False, True])
@pytest.mark.parametrize("one_launch", [False, True])
@pytest.mark.parametrize("op", ["gru", "lstm"])
def test_recurrent_steps(
    op: str, one_launch: bool, is_cpu: bool, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent_lower, "_in_one_launch", lambda *_: one_launch)
    monkeypatch.setattr(context, "_facts", dataclasses.replace(context._facts, is_cpu=is_cpu))
    check(op, context)


GPU_FAMILY = (
    "average_pool2d", "instance_normalization", "layer_normalization", "l2_pool2d", "max_pool2d", "resample2d",
)  # fmt: skip


@pytest.mark.parametrize("op", GPU_FAMILY)
def test_gpu_kernels(op: str, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_facts", dataclasses.replace(context._facts, is_cpu=False))
    check(op, context)


@pytest.mark.parametrize("axes", [[1], [0]])
@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_normalization_of_data_that_misleads(axes: list[int], offset: float, context: Any) -> None:
    """The first elements are far from the mean that they are taken as a guess of."""
    x = np.random.default_rng(7).standard_normal((200, 200)).astype(np.float32) + np.float32(offset)
    x[:8] += 1000
    x[:, :8] += 1000
    builder = context.create_graph_builder()
    y = builder.layer_normalization(builder.input("x", x.shape), axes=axes)
    actual = context.compute(builder.build({"y": y}), {"x": x})["y"]
    (exact,) = reference.exact("layer_normalization", {"input": x}, {"axes": axes})
    np.testing.assert_allclose(actual, exact, rtol=2e-6, atol=2e-6 * (1 + offset / 10))
