"""The CPU kernels of matrix products: every path of webnn_cl/tiles/matrix.py over odd shapes, against float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from tests.numpy_builder import check_graph
from tests.reference.registry import exact
from webnn_cl.tiles import variants
from webnn_cl.tiles.matrix import row_groups

# One row, a few, tiles with rows and columns left over, runs longer than a register sums, columns of several items.
SHAPES = [
    (1, 1, 1), (1, 5, 3), (1, 70, 50), (1, 300, 33), (2, 16, 4), (3, 17, 9), (3, 37, 129), (4, 8, 7), (5, 9, 33),
    (6, 24, 8), (7, 31, 5), (8, 1, 19), (9, 1, 64), (13, 40, 64), (25, 33, 17), (64, 64, 64), (140, 50, 20),
    (12, 20, 1100), (2, 20, 2100), (1, 9, 600),
    (1, 2100, 37), (3, 1405, 12), (16, 530, 70), (4, 1030, 9),
]  # fmt: skip


@pytest.fixture(autouse=True)
def on_a_cpu(context: Any) -> None:
    if not context._facts.is_cpu:
        pytest.skip("device is no CPU: these kernels are not used")


def random(*shape: int, seed: int = 0, data_type: str = "float32") -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    return np.asarray(rng.standard_normal(shape)).astype(data_type)


def close(actual: np.ndarray, wanted: np.ndarray, depth: int) -> None:
    """Within the rounding of a sum of `depth` products of standard normal numbers."""
    bound = 6e-8 * depth + 1.5e-6 * depth**0.5
    if actual.dtype == np.float16:
        bound += float(np.abs(wanted).max()) * 6e-4
    assert actual.shape == wanted.shape
    assert np.abs(actual - wanted).max() <= bound


def product(context: Any, op: str, a: np.ndarray, b: np.ndarray, constant: bool, **options: Any) -> np.ndarray:
    builder = context.create_graph_builder()
    left = builder.input("a", a.shape, a.dtype)
    right = builder.constant(b) if constant else builder.input("b", b.shape, b.dtype)
    inputs = {"a": a} if constant else {"a": a, "b": b}
    if options.get("c") is not None:
        options["c"], inputs["c"] = builder.input("c", options["c"].shape, a.dtype), options["c"]
    graph = builder.build({"y": getattr(builder, op)(left, right, **options)})
    return context.compute(graph, inputs)["y"]


@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize("constant", [False, True], ids=["both", "constant"])
def test_gemm_over_odd_shapes(context: Any, data_type: str, constant: bool) -> None:
    for (m, n, k), a_t, b_t in itertools.product(SHAPES, (False, True), (False, True)):
        a = random(*((k, m) if a_t else (m, k)), data_type=data_type)
        b = random(*((n, k) if b_t else (k, n)), seed=1, data_type=data_type)
        y = product(context, "gemm", a, b, constant, a_transpose=a_t, b_transpose=b_t)
        close(y, (a.T if a_t else a).astype(float) @ (b.T if b_t else b).astype(float), k)


@pytest.mark.parametrize("constant", [False, True], ids=["both", "constant"])
def test_gemm_adds_c_of_every_shape(context: Any, constant: bool) -> None:
    for m, n, k in SHAPES:
        a, b = random(m, k), random(k, n, seed=1)
        for shape in ((), (n,), (1,), (m, 1), (1, n), (m, n)):
            c = random(*shape, seed=2)
            for alpha, beta in ((1.0, 1.0), (-0.5, 2.0)):
                y = product(context, "gemm", a, b, constant, c=c, alpha=alpha, beta=beta)
                close(y, alpha * (a.astype(float) @ b) + beta * c.astype(float), k)


STACKS = [
    ((2, 3, 4, 5), (2, 3, 5, 6)), ((2, 1, 7, 5), (1, 3, 5, 16)), ((3, 7, 5), (5, 20)), ((7, 5), (3, 5, 20)),
    ((2, 3, 1, 9), (2, 3, 9, 70)), ((4, 1, 8), (4, 8, 1)), ((2, 2, 2, 8, 9), (9, 3)), ((3, 40, 64), (3, 64, 40)),
    ((1, 1, 3, 4), (6, 1, 1, 4, 2)), ((5, 1, 20, 600), (3, 600, 9)),
]  # fmt: skip


@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize("constant", [False, True], ids=["both", "constant"])
def test_matmul_broadcasts_stacks(context: Any, data_type: str, constant: bool) -> None:
    for shape_a, shape_b in STACKS:
        a, b = random(*shape_a, data_type=data_type), random(*shape_b, seed=1, data_type=data_type)
        y = product(context, "matmul", a, b, constant)
        close(y, exact("matmul", {"a": a, "b": b})[0], shape_a[-1])


def variants_of(context: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let every node that can take variant `name` take it."""
    default = variants.default_variant

    def choose(node: Any, facts: Any) -> str:
        return name if name in variants.candidates(node, facts) else default(node, facts)

    monkeypatch.setattr(variants, "default_variant", choose)


@pytest.mark.parametrize("name", ["plain", "panels", "unpacked"])
def test_each_variant_gives_the_same(context: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    variants_of(context, monkeypatch, name)
    for m, n, k in SHAPES:
        a, b = random(m, k), random(k, n, seed=1)
        close(product(context, "matmul", a, b, constant=False), a.astype(float) @ b, k)


def test_an_epilogue_of_every_kernel(context: Any) -> None:
    """relu(a b + x) / 2 with x of the result's shape and of one row, fused where the product's results leave."""
    for (m, n, k), constant in itertools.product(SHAPES, (False, True)):
        a, b, x, row = random(m, k), random(k, n, seed=1), random(m, n, seed=2), random(n, seed=3)
        builder = context.create_graph_builder()
        right = builder.constant(b) if constant else builder.input("b", b.shape)
        y = builder.matmul(builder.input("a", a.shape), right)
        y = builder.relu(builder.add(builder.add(y, builder.input("x", x.shape)), builder.constant(row))) / 2
        graph = builder.build({"y": y})
        inputs = {"a": a, "x": x} if constant else {"a": a, "b": b, "x": x}
        close(context.compute(graph, inputs)["y"], np.maximum(a.astype(float) @ b + x + row, 0) / 2, k)


@pytest.mark.parametrize("constant", [False, True], ids=["both", "constant"])
def test_what_is_not_finite_stays_where_it_belongs(context: Any, constant: bool) -> None:
    for m, n, k in SHAPES:
        a, b = random(m, k), random(k, n, seed=1)
        a[m // 2, k // 2] = np.inf
        b[k // 3, n - 1] = np.nan
        with np.errstate(invalid="ignore"):
            wanted = a.astype(float) @ b.astype(float)
        y = product(context, "matmul", a, b, constant)
        np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
        np.testing.assert_array_equal(np.isinf(y), np.isinf(wanted))


def imported(context: Any, values: np.ndarray, **use: bool) -> tuple[Any, cl.Buffer]:
    """A tensor in the middle of a buffer of NaN, and that buffer."""
    margin = 4096
    around = np.full(2 * margin + values.nbytes, 0xFF, np.uint8)
    around[margin : margin + values.nbytes] = values.reshape(-1).view(np.uint8)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    whole = cl.Buffer(context.cl_context, flags, hostbuf=around)
    part = whole.get_sub_region(margin, values.nbytes)
    return context.import_buffer(part, values.shape, values.dtype, **use), whole


@pytest.mark.parametrize("b_transpose", [False, True])
def test_nothing_outside_a_tensor_is_used_or_written(context: Any, b_transpose: bool) -> None:
    for m, n, k in SHAPES:
        a, b = random(m, k), random(*((n, k) if b_transpose else (k, n)), seed=1)
        builder = context.create_graph_builder()
        y = builder.gemm(builder.input("a", a.shape), builder.input("b", b.shape), b_transpose=b_transpose)
        graph = builder.build({"y": y})
        tensors = [imported(context, x) for x in (a, b)]
        out, whole = imported(context, np.zeros((m, n), np.float32), readable=True)
        context.dispatch(graph, {"a": tensors[0][0], "b": tensors[1][0]}, {"y": out})
        close(context.read_tensor(out), a.astype(float) @ (b.T if b_transpose else b), k)
        host = np.empty(whole.size, np.uint8)
        cl.enqueue_copy(context.queue, host, whole)
        assert (host[:4096] == 0xFF).all() and (host[4096 + out.nbytes :] == 0xFF).all()


def test_rows_come_in_groups_that_idle_little() -> None:
    for rows in range(1, 200):
        sixes, groups = row_groups(rows)
        idle = 6 * sixes + 4 * (groups - sixes) - rows
        assert 0 <= groups - sixes <= 2
        assert 0 <= idle <= (1 if rows > 2 else 3)


@pytest.mark.parametrize("transposed", [False, True])
def test_float16_weights_of_few_rows_stay_float16(context: Any, transposed: bool) -> None:
    k, n = 200, 64
    w = random(*((n, k) if transposed else (k, n)), data_type="float16")
    for rows, nbytes in ((1, 2), (3, 2), (64, 4)):  # read once, or many times
        builder = context.create_graph_builder()
        x = builder.input("x", (rows, k), "float16")
        graph = builder.build({"y": builder.gemm(x, builder.constant(w), b_transpose=transposed)})
        assert graph._executable.constant_bytes == nbytes * k * n


def heads(builder: Any, x: Any) -> Any:
    """[rows, heads * size] as [heads, rows, size], as in attention."""
    rows, width = x.shape
    return builder.transpose(builder.reshape(x, (rows, 3, width // 3)), permutation=(1, 0, 2))


# What a product's operand may be a view of: its shape, the view, and the shape that the product sees.
VIEWS = {
    "transposed": ((30, 40), lambda b, x: b.transpose(x), (40, 30)),
    "columns": ((40, 47), lambda b, x: b.slice(x, (0, 5), (40, 30)), (40, 30)),
    "every other row": ((80, 30), lambda b, x: b.slice(x, (1, 0), (79, 30), strides=(2, 1)), (40, 30)),
    "reversed rows": ((40, 30), lambda b, x: b.reverse(x, axes=(0,)), (40, 30)),
    "transposed part": ((33, 41), lambda b, x: b.transpose(b.slice(x, (2, 1), (30, 40))), (40, 30)),
    "heads": ((40, 90), heads, (3, 40, 30)),
    "heads, transposed": ((30, 120), lambda b, x: b.transpose(heads(b, x), permutation=(0, 2, 1)), (3, 40, 30)),
    "repeated": ((40, 30), lambda b, x: b.expand(x, (3, 40, 30)), (3, 40, 30)),
    "one column": ((40, 1, 2), lambda b, x: b.reshape(b.slice(x, (0, 0, 1), (40, 1, 1)), (40, 1)), (40, 1)),
}

# Matrices that all meet one b are one tall matrix, whose rows have one stride; one column goes to other kernels.
COPIED = {("heads", "as_left"), ("repeated", "as_left"), ("one column", "as_right")}


@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize("name", VIEWS)
def test_operands_are_read_where_they_lie(context: Any, name: str, data_type: str) -> None:
    shape, view, seen = VIEWS[name]

    def as_left(b: Any) -> Any:
        return {"y": b.matmul(view(b, b.input("x", shape, data_type)), b.input("w", (seen[-1], 21), data_type))}

    def as_right(b: Any) -> Any:
        return {"y": b.matmul(b.input("w", (21, seen[-2]), data_type), view(b, b.input("x", shape, data_type)))}

    x = random(*shape, data_type=data_type)
    tolerance = 2e-5 if data_type == "float32" else 4e-3
    for build, other in ((as_left, (seen[-1], 21)), (as_right, (21, seen[-2]))):
        graph = check_graph(context, build, {"x": x, "w": random(*other, seed=1, data_type=data_type)}, tolerance)
        assert graph._executable.kernel_count == 1 + ((name, build.__name__) in COPIED), build.__name__


@pytest.mark.parametrize(("m", "k", "n"), [(1, 70, 50), (2, 40, 33), (200, 40, 64), (40, 300, 1), (30, 1, 20)])
def test_transposed_operands_of_every_path(context: Any, m: int, k: int, n: int) -> None:
    for left, right in ((True, False), (False, True), (True, True)):

        def build(b: Any, left: bool = left, right: bool = right) -> Any:
            a = b.transpose(b.input("a", (k, m))) if left else b.input("a", (m, k))
            return {"y": b.matmul(a, b.transpose(b.input("b", (n, k))) if right else b.input("b", (k, n)))}

        a, w = random(*((k, m) if left else (m, k))), random(*((n, k) if right else (k, n)), seed=1)
        graph = check_graph(context, build, {"a": a, "b": w}, 3e-5)
        names = {getattr(c, "kernel", None) and c.kernel.template for c in graph._executable.commands}
        assert "strided.cl" not in names


def test_an_operand_stays_a_view_when_its_source_is_also_added(context: Any) -> None:
    def build(b: Any) -> Any:
        x = b.relu(b.input("x", (24, 24)))
        return {"y": b.add(b.matmul(b.transpose(x), b.input("w", (24, 24))), x)}

    graph = check_graph(context, build, {"x": random(24, 24), "w": random(24, 24, seed=1)}, 2e-5)
    assert graph._executable.kernel_count == 2
