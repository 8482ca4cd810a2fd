"""Results too large for the caches, which are written past them: softmax, normalization and transposition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from webnn_cl import MLContext, MLGraphBuilder, MLOperand
from webnn_cl.ops.strided import PAST_BYTES

# Rows that end on a cache line, on a vector, and on neither; short ones, and longer than what private memory keeps.
SHAPES = [(4096, 1024), (4100, 1032), (4099, 1027), (200001, 21), (256, 16392), (250, 17003), (3, 1400003)]


def inputs(shape: tuple[int, ...]) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 3
    assert x.nbytes >= PAST_BYTES
    return x


def outputs(context: MLContext, x: np.ndarray, build: Callable[..., MLOperand]) -> np.ndarray:
    b: MLGraphBuilder = context.create_graph_builder()
    operand: MLOperand = b.input("x", x.shape)
    return context.compute(b.build({"y": build(b, operand)}), {"x": x})["y"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax(context: MLContext, shape: tuple[int, int], axis: int) -> None:
    x = inputs(shape)
    wide = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
    expected = wide / wide.sum(axis=axis, keepdims=True)
    got = outputs(context, x, lambda b, v: b.softmax(v, axis))
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_layer_normalization(context: MLContext, shape: tuple[int, int], axis: int) -> None:
    x = inputs(shape)
    wide = x.astype(np.float64)
    variance = wide.var(axis=axis, keepdims=True)
    expected = (wide - wide.mean(axis=axis, keepdims=True)) / np.sqrt(variance + 1e-5)
    got = outputs(context, x, lambda b, v: b.layer_normalization(v, axes=[axis]))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_instance_normalization(context: MLContext, layout: str) -> None:
    x = inputs((2, 65, 200, 163))
    axes = (2, 3) if layout == "nchw" else (1, 2)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(axis=axes, keepdims=True)) / np.sqrt(wide.var(axis=axes, keepdims=True) + 1e-5)
    got = outputs(context, x, lambda b, v: b.instance_normalization(v, layout=layout))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [*SHAPES, (1040, 4099), (4112, 1039), (272, 16400)], ids=str)
def test_transpose(context: MLContext, shape: tuple[int, int]) -> None:
    x = inputs(shape)
    np.testing.assert_array_equal(outputs(context, x, lambda b, v: b.transpose(v)), x.T)


def test_transpose_of_a_stack(context: MLContext) -> None:
    x = inputs((4, 72, 128, 144))
    got = outputs(context, x, lambda b, v: b.transpose(v, permutation=[0, 2, 3, 1]))
    np.testing.assert_array_equal(got, x.transpose(0, 2, 3, 1))
