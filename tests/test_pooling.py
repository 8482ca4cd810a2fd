"""Pooling on all counts of channels that its kernels treat differently, with an element-wise chain behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.reference.registry import exact


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("op", ["max_pool2d", "average_pool2d", "l2_pool2d"])
def test_a_chain_behind_pooling_joins_its_kernel(context: Any, op: str, layout: str) -> None:
    """relu(pool(x) + bias) * other in one launch, for vectors of 32 channels, of eight, and what is left."""
    rng = np.random.default_rng(3)
    options = {"window_dimensions": [3, 2], "strides": [2, 1], "padding": [1, 0, 1, 1], "layout": layout}
    for channels in (3, 8, 32, 77):
        x = rng.standard_normal((2, channels, 9, 20) if layout == "nchw" else (2, 9, 20, channels)).astype(np.float32)
        bias = rng.standard_normal((channels, 1, 1) if layout == "nchw" else (channels,)).astype(np.float32)
        pooled = exact(op, {"input": x}, options)[0]
        other = rng.standard_normal(pooled.shape).astype(np.float32)
        builder = context.create_graph_builder()
        y = getattr(builder, op)(builder.input("x", x.shape), **options)
        y = builder.relu(y + builder.constant(bias)) * builder.input("other", other.shape)
        graph = builder.build({"y": y})
        assert graph._executable.kernel_count == 1
        actual = context.compute(graph, {"x": x, "other": other})["y"]
        np.testing.assert_allclose(actual, np.maximum(pooled + bias, 0) * other, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("channels", [32, 45])
def test_the_maximum_of_a_window_with_nan_is_nan(context: Any, channels: int) -> None:
    x = np.random.default_rng(4).standard_normal((1, 6, 6, channels)).astype(np.float32)
    x[0, 2, 3, ::3], x[0, 4, 4, 1::3] = np.nan, -np.inf
    builder = context.create_graph_builder()
    y = builder.max_pool2d(builder.input("x", x.shape), window_dimensions=[2, 2], strides=[2, 2], layout="nhwc")
    actual = context.compute(builder.build({"y": y}), {"x": x})["y"]
    wanted = x.reshape(1, 3, 2, 3, 2, channels).max(axis=(2, 4))
    np.testing.assert_array_equal(actual, wanted)
