"""The GPU family of kernels against the reference; `test_gpu_family` runs it in a process of its own.

``WEBNN_CL_KERNELS=gpu python -m pytest tests/gpu_family.py``
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.numpy_builder import check_graph
from webnn_cl.compiler.lower import Launch
from webnn_cl.tiles.local import VARIANTS, tile_for

RNG = np.random.default_rng(3)


def floats(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def templates(graph):
    return {c.kernel.template for c in graph._executable.commands if isinstance(c, Launch)}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("m", "k", "n"), [(16, 1, 16), (33, 17, 70), (64, 64, 64), (129, 100, 131), (200, 5, 300)])
def test_matmul(context, m, k, n, dtype):
    def build(b):
        return {"y": b.relu(b.add(b.matmul(b.input("a", (m, k), dtype), b.input("b", (k, n), dtype)),
                                  b.input("c", (n,), dtype)))}  # fmt: skip

    feeds = {"a": floats(m, k, dtype=dtype), "b": floats(k, n, dtype=dtype), "c": floats(n, dtype=dtype)}
    graph = check_graph(context, build, feeds, 2e-5 if dtype == "float32" else 2e-3)
    assert templates(graph) == {"product_local.cl"}


@pytest.mark.parametrize("a_transpose", [False, True])
@pytest.mark.parametrize("b_transpose", [False, True])
@pytest.mark.parametrize("c", [(), (35,), (40, 1), (40, 35)])
def test_gemm(context, a_transpose, b_transpose, c):
    def build(b):
        return {"y": b.gemm(
            b.input("a", (21, 40) if a_transpose else (40, 21)), b.input("b", (35, 21) if b_transpose else (21, 35)),
            c=b.input("c", c), alpha=0.5, beta=-2.0, a_transpose=a_transpose, b_transpose=b_transpose,
        )}  # fmt: skip

    feeds = {"a": floats(*((21, 40) if a_transpose else (40, 21))), "c": floats(*c)}
    feeds["b"] = floats(*((35, 21) if b_transpose else (21, 35)))
    check_graph(context, build, feeds)


def test_batches_broadcast(context):
    def build(b):
        return {"y": b.matmul(b.input("a", (3, 1, 20, 18)), b.input("b", (4, 18, 24)))}

    check_graph(context, build, {"a": floats(3, 1, 20, 18), "b": floats(4, 18, 24)})


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("filter_layout", ["oihw", "hwio", "ohwi", "ihwo"])
@pytest.mark.parametrize(
    ("groups", "options"),
    [(1, {"padding": [1, 2, 0, 1]}), (2, {"strides": [2, 1], "padding": [1, 1, 2, 2]}), (1, {"dilations": [2, 3]})],
)
def test_conv2d(context, layout, filter_layout, groups, options):
    shape = {"n": 2, "c": 6, "h": 13, "w": 14}
    filter = {"o": 40, "i": 6 // groups, "h": 3, "w": 2}
    x = floats(*(shape[axis] for axis in layout))
    weights, bias = floats(*(filter[axis] for axis in filter_layout)), floats(40)

    def build(b):
        y = b.conv2d(b.input("x", x.shape), b.constant(weights), bias=b.constant(bias), groups=groups,
                     input_layout=layout, filter_layout=filter_layout, **options)  # fmt: skip
        return {"y": b.leaky_relu(y)}

    graph = check_graph(context, build, {"x": x})
    assert "conv_local.cl" in templates(graph)


def test_tiles_respect_the_limits_of_the_device(context):
    facts = context._facts
    for rows, columns in ((16, 16), (1000, 1000), (5000, 20)):
        tile = tile_for(rows, columns, 1, facts)
        assert tile is not None and tile.threads <= facts.max_work_group_size
        assert tile.local_bytes <= facts.local_memory_bytes
    assert [t.rows * t.columns for t in VARIANTS] == sorted((t.rows * t.columns for t in VARIANTS), reverse=True)


@pytest.mark.parametrize("tile", VARIANTS)
def test_every_variant_is_right(context, tile, monkeypatch):
    from webnn_cl.tiles import local

    if not tile.fits(context._facts):
        pytest.skip("device: its limits don't allow this tile")
    monkeypatch.setattr(local, "VARIANTS", (tile,))
    a, w = floats(70, 33), floats(33, 50)
    check_graph(context, lambda b: {"y": b.matmul(b.input("a", a.shape), b.constant(w))}, {"a": a})
    x, f = floats(1, 9, 10, 8), floats(24, 8, 3, 3)

    def build(b):
        return {"y": b.conv2d(b.input("x", x.shape), b.constant(f), input_layout="nhwc")}

    check_graph(context, build, {"x": x})


def test_a_network(context):
    """What has no kernel for GPUs runs on the plain ones."""
    w1, w2 = floats(16, 3, 3, 3), floats(16, 1, 3, 3)

    def build(b):
        y = b.relu(b.conv2d(b.input("x", (1, 3, 20, 20)), b.constant(w1), padding=[1, 1, 1, 1]))
        y = b.conv2d(y, b.constant(w2), groups=16, strides=[2, 2])
        y = b.transpose(b.max_pool2d(y, window_dimensions=[2, 2]), permutation=[0, 2, 3, 1])
        rows = b.reshape(y, (64, 16))
        normal = b.layer_normalization(rows)
        return {"s": b.softmax(normal, 1), "m": b.reduce_mean(y, axes=[1, 2]), "c": b.cumulative_sum(rows, 0),
                "a": b.softmax(rows, 0), "t": b.reduce_max(rows, axes=[0])}  # fmt: skip

    check_graph(context, build, {"x": floats(1, 3, 20, 20)}, 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("m", [1, 3, 7])
@pytest.mark.parametrize(("swapped", "a_transpose", "b_transpose"), [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_few_rows_or_columns(context, m, swapped, a_transpose, b_transpose, dtype):
    rows, k, columns = (130, 90, m) if swapped else (m, 90, 130)
    a, w = floats(*((k, rows) if a_transpose else (rows, k)), dtype=dtype), floats(rows, columns, dtype=dtype)
    b = floats(*((columns, k) if b_transpose else (k, columns)), dtype=dtype)

    def build(b_):
        y = b_.gemm(b_.input("a", a.shape, dtype), b_.input("b", b.shape, dtype), c=b_.input("c", w.shape, dtype),
                    alpha=0.5, beta=2.0, a_transpose=bool(a_transpose), b_transpose=bool(b_transpose))  # fmt: skip
        return {"y": b_.relu(y)}

    graph = check_graph(context, build, {"a": a, "b": b, "c": w}, 2e-5 if dtype == "float32" else 2e-3)
    assert templates(graph) == {"dot_local.cl"}


def launches(graph):
    return [c for c in graph._executable.commands if isinstance(c, Launch)]


def wide_gpu(context, monkeypatch, **changes):
    """The context's device as one with many compute units, or other limits."""
    monkeypatch.setattr(context, "_facts", dataclasses.replace(context._facts, **{"compute_units": 16, **changes}))


@pytest.mark.parametrize(("m", "n"), [(1, 10), (2, 3), (15, 1)])
def test_deep_products_are_cut(context, m, n, monkeypatch):
    wide_gpu(context, monkeypatch)
    a, w, c = floats(2, m, 20000), floats(2, 20000, n), floats(n)

    def build(b):
        return {"y": b.relu(b.add(b.matmul(b.input("a", a.shape), b.constant(w)), b.constant(c)))}

    graph = check_graph(context, build, {"a": a}, 1e-4)
    assert [c.kernel.entry for c in launches(graph)] == ["dot_local", "split_sum"]


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_deep_tiles_are_cut(context, layout, monkeypatch):
    wide_gpu(context, monkeypatch)
    a, w, c = floats(33, 2000), floats(2000, 30), floats(33, 1)

    def product(b):
        return {"y": b.relu(b.gemm(b.input("a", a.shape), b.constant(w), c=b.constant(c), alpha=0.5, beta=2.0))}

    graph = check_graph(context, product, {"a": a}, 1e-4)
    assert [c.kernel.entry for c in launches(graph)] == ["product_local", "split_sum"]
    f, bias = floats(20, 150, 3, 3), floats(20)

    def convolution(b):
        y = b.conv2d(b.input("x", x.shape), b.constant(f), bias=b.constant(bias), input_layout=layout)
        return {"y": b.leaky_relu(y)}

    x = floats(*((1, 150, 8, 7) if layout == "nchw" else (1, 8, 7, 150)))
    graph = check_graph(context, convolution, {"x": x}, 1e-4)
    assert [c.kernel.entry for c in launches(graph)] == ["conv_local", "split_sum"]


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("groups", [1, 20, 2])
def test_conv_transpose2d(context, layout, groups):
    x = floats(*({"n": 2, "c": 20, "h": 7, "w": 6}[axis] for axis in layout))
    f, bias = floats(20, 20 // groups, 3, 2), floats(20)

    def build(b):
        y = b.conv_transpose2d(
            b.input("x", x.shape), b.constant(f), bias=b.constant(bias), groups=groups, input_layout=layout,
            strides=[2, 3], padding=[1, 0, 0, 1], dilations=[2, 1], output_padding=[1, 0],
        )  # fmt: skip
        return {"y": b.relu(y)}

    graph = check_graph(context, build, {"x": x})
    assert ("conv_local.cl" if groups == 1 else "conv_items.cl") in templates(graph)
