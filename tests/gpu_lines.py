"""Kernels of GPUs that share lines of elements: few, long, short and scattered ones, within small limits;
`test_gpu_family` runs it in a process of its own.

``WEBNN_CL_KERNELS=gpu python -m pytest tests/gpu_lines.py``
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from tests.numpy_builder import check_graph
from webnn_cl.compiler.lower import Launch
from webnn_cl.ops.groups import group_size, share_of

RNG = np.random.default_rng(4)
# Shapes and the axis that is taken along: few long rows, few long columns, many short ones of both kinds.
SHAPES = {
    "long rows": ((8, 30011), 1),
    "long columns": ((20011, 3), 0),
    "short rows": ((301, 5), 1),
    "short columns": ((3, 7, 301), 1),
}
OPERATORS = {
    "reduce_sum": lambda b, x, axis: b.reduce_sum(x, axes=[axis]),
    "reduce_max": lambda b, x, axis: b.reduce_max(x, axes=[axis]),
    "reduce_log_sum_exp": lambda b, x, axis: b.reduce_log_sum_exp(x, axes=[axis]),
    "arg_max": lambda b, x, axis: b.arg_max(x, axis),
    "arg_min": lambda b, x, axis: b.arg_min(x, axis),
    "softmax": lambda b, x, axis: b.softmax(x, axis),
    "layer_normalization": lambda b, x, axis: b.layer_normalization(x, axes=[axis]),
    "cumulative_sum": lambda b, x, axis: b.cumulative_sum(x, axis),
    "reversed sum": lambda b, x, axis: b.cumulative_sum(x, axis, exclusive=True, reversed=True),
}


def values(shape):
    return (RNG.standard_normal(shape) + 3).astype("float32")


def launches(graph):
    return [c for c in graph._executable.commands if isinstance(c, Launch)]


@pytest.fixture
def limited(context, monkeypatch):
    """Say that the context's device has other facts."""

    def limit(**changes):
        monkeypatch.setattr(context, "_facts", dataclasses.replace(context._facts, **changes))

    return limit


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OPERATORS)
def test_lines(context, limited, name, shape):
    limited(compute_units=16)
    extents, axis = SHAPES[shape]
    x, build = values(extents), OPERATORS[name]
    graph = check_graph(context, lambda b: {"y": build(b, b.input("x", x.shape), axis)}, {"x": x})
    lines = x.size // extents[axis]
    first = next(c for c in launches(graph) if c.kernel.template.endswith("_local.cl"))
    if shape.startswith("long"):
        groups = math.prod(first.global_size) // math.prod(first.local_size)
        assert groups > lines and math.prod(first.global_size) > 64 * lines


@pytest.mark.parametrize("limits", [{"max_work_group_size": 1}, {"max_work_group_size": 24, "local_memory_bytes": 700}])
def test_small_limits(context, limited, limits):
    limited(**limits)
    x, f, w = values((1, 4, 20, 18)), values((20, 4, 3, 3)), values((18, 17))

    def build(b):
        given = b.input("x", x.shape)
        y = b.relu(b.conv2d(given, b.constant(f)))
        product = b.matmul(given, b.constant(w))
        return {
            "c": b.max_pool2d(y, window_dimensions=[2, 2]),
            "m": b.softmax(product, 3),
            "n": b.layer_normalization(product, axes=[2, 3]),
            "i": b.instance_normalization(given),
            "s": b.cumulative_sum(given, 2),
            "a": b.arg_max(given, 3),
            "t": b.transpose(given, permutation=[0, 2, 3, 1]),
            "r": b.reduce_log_sum_exp(given, axes=[1]),
        }

    graph = check_graph(context, build, {"x": x}, 1e-4)
    assert max(math.prod(c.local_size) for c in launches(graph)) <= limits["max_work_group_size"]


def test_numbers_that_are_none(context):
    """NaN and infinities are results like others."""
    x = values((6, 700))
    x[0, 650], x[1, 3], x[2, 600], x[3] = np.nan, np.inf, -np.inf, -np.inf
    x[4, 10], x[4, 20] = np.inf, np.nan
    builder = context.create_graph_builder()
    given = builder.input("x", x.shape)
    graph = builder.build({
        "softmax": builder.softmax(given, 1), "lse": builder.reduce_log_sum_exp(given, axes=[1]),
        "max": builder.reduce_max(given, axes=[1]), "arg": builder.arg_max(given, 1),
        "sum": builder.reduce_sum(given, axes=[1]),
    })  # fmt: skip
    got = context.compute(graph, {"x": x})
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got["max"], x.max(1))
        np.testing.assert_allclose(got["sum"], wide.sum(1), rtol=1e-6)
        top = wide.max(1, keepdims=True)
        shares = np.exp(wide - top)
        np.testing.assert_allclose(got["softmax"], shares / shares.sum(1, keepdims=True), rtol=1e-5)
        np.testing.assert_allclose(got["lse"], np.logaddexp.reduce(wide, axis=1), rtol=1e-6)
    assert list(got["arg"][[1, 3]]) == [3, 0] and got["arg"][0] == np.nanargmax(x[0]) and got["arg"][4] == 10


@pytest.mark.parametrize("shape", [(3, 70, 45), (1, 5, 300), (33, 32, 31), (2, 1, 9)])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_transposes(context, shape, dtype):
    x = RNG.integers(0, 100, shape).astype(dtype)

    def build(b):
        given = b.input("x", shape, dtype)
        return {"a": b.transpose(given, permutation=[0, 2, 1]), "b": b.transpose(given, permutation=[2, 1, 0])}

    graph = check_graph(context, build, {"x": x})
    assert all(math.prod(c.local_size) > 1 for c in launches(graph))


@pytest.mark.parametrize("limit", [1, 7, 64, 256, 1024])
@pytest.mark.parametrize(("lines", "n"), [(1, 1), (1, 10**7), (10**7, 1), (10**6, 3), (100, 4097), (8, 513)])
@pytest.mark.parametrize("along", [False, True])
def test_shares(context, limit, lines, n, along):
    facts = dataclasses.replace(context._facts, max_work_group_size=limit, compute_units=40, local_memory_bytes=1 << 15)
    share = share_of(lines, n, along, facts)
    assert share.size == group_size(facts) <= limit and share.size & (share.size - 1) == 0
    assert share.size % share.depth == 0 and share.depth & (share.depth - 1) == 0
    assert (share.parts - 1) * share.chunk < n <= share.parts * share.chunk
    assert share.grid[0] % share.size == 0 and share.grid[0] // share.depth >= lines
    assert share.depth <= max(n, 1)


def test_elements_are_neighbours_of_work_items(context):
    """Chains, copies and pooling have a work-item for each element, or for a few that lie a work-group apart."""
    x, offset = values((2, 3, 50, 40)), values((3, 1, 1))

    def build(b):
        given = b.input("x", x.shape)
        return {"c": b.sigmoid(b.add(given, b.constant(offset))), "s": b.slice(given, [0, 0, 3, 5], [2, 3, 9, 30]),
                "p": b.average_pool2d(given, window_dimensions=[3, 3])}  # fmt: skip

    graph = check_graph(context, build, {"x": x})
    made = {c.kernel.entry: math.prod(c.global_size) for c in launches(graph)}
    assert made["elementwise_items"] >= x.size / 4 and made["copy_items"] >= 2 * 3 * 9 * 30 / 4
    assert made["pool_items"] >= 2 * 3 * 48 * 38
