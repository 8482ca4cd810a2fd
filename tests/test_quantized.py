"""Products of quantized tensors on integers: exact sums, what is recognized, what is fused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.numpy_builder import check_graph
from webnn_cl.compiler.lower import Launch
from webnn_cl.tiles import integer

RNG = np.random.default_rng(5)
PAIR_FORM = integer.pair_form
Array = np.ndarray[Any, Any]


@pytest.fixture(params=["instruction", "plain"], autouse=True)
def pairs(request: pytest.FixtureRequest, context: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to multiply pairs, the plain one on every device."""
    if request.param == "instruction" and PAIR_FORM(context) != "instruction":
        pytest.skip(f"device {context.device.name}: no built-in function for pairs of int16")
    monkeypatch.setattr(integer, "pair_form", lambda context: request.param)
    return str(request.param)


def entries(graph: Any) -> list[str]:
    return [c.kernel.entry for c in graph._executable.commands if isinstance(c, Launch)]


def full(b: Any, rank: int, value: float, dtype: Any) -> Any:
    return b.constant(np.full((1,) * rank, value, dtype))


def dequantized(b: Any, x: Any, zero: int, scale: float = 1.0) -> Any:
    rank, dtype = len(x.shape), str(getattr(x, "data_type", None) or x.dtype)
    return b.dequantize_linear(x, full(b, rank, scale, np.float32), full(b, rank, zero, dtype))


def quantized(b: Any, x: Any, zero: int, scale: float, dtype: str = "uint8") -> Any:
    rank = len(x.shape)
    return b.quantize_linear(x, full(b, rank, scale, np.float32), full(b, rank, zero, dtype))


def quarters(*shape: int) -> Array:
    """Multiples of 1/4, which quantize by 1/4 without a doubt."""
    return RNG.integers(-400, 500, shape).astype(np.float32) / 4


def whole(dtype: str, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def product(context: Any, a: Array, b: Array, a_zero: int, b_zero: int, constant: bool) -> tuple[Array, Any]:
    builder = context.create_graph_builder()
    x = builder.input("a", a.shape, str(a.dtype))
    w = builder.constant(b) if constant else builder.input("b", b.shape, str(b.dtype))
    graph = builder.build({"y": builder.matmul(dequantized(builder, x, a_zero), dequantized(builder, w, b_zero))})
    feeds = {"a": a} if constant else {"a": a, "b": b}
    return context.compute(graph, feeds)["y"], graph


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    ("types", "zeros"),
    [
        (("uint8", "uint8"), (0, 0)), (("uint8", "uint8"), (255, 0)), (("uint8", "int8"), (128, 0)),
        (("int8", "int8"), (-128, 127)), (("int8", "uint8"), (127, 255)), (("int8", "int8"), (0, 0)),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("m", "k", "n"), [(16, 8, 8), (29, 33, 17), (18, 130, 40), (100, 64, 70)])
def test_sums_are_exact(
    m: int, k: int, n: int, types: tuple[str, str], zeros: tuple[int, int], constant: bool, context: Any
) -> None:
    a, b = whole(types[0], m, k), whole(types[1], k, n)
    y, graph = product(context, a, b, *zeros, constant)
    assert "integer_rows" in entries(graph)
    expected = (a.astype(np.int64) - zeros[0]) @ (b.astype(np.int64) - zeros[1])
    np.testing.assert_array_equal(y, expected.astype(np.float32))


@pytest.mark.parametrize(
    ("a", "b", "zeros"),
    [
        (np.int8(-128), np.int8(-128), (0, 0)), (np.uint8(255), np.int8(127), (0, 0)),
        (np.uint8(255), np.uint8(255), (0, 0)), (np.uint8(255), np.uint8(0), (0, 255)),
        (np.int8(-128), np.int8(-128), (127, 127)), (np.int8(127), np.int8(-128), (-128, 127)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("k", [8, integer.MAX_DEPTH - 1, integer.MAX_DEPTH, integer.MAX_DEPTH + 1])
def test_extremes(k: int, a: Any, b: Any, zeros: tuple[int, int], context: Any) -> None:
    """The largest sums of int32; one longer is not summed in integers."""
    left, right = np.full((2, k), a), np.full((k, 8), b)
    y, graph = product(context, left, right, *zeros, True)
    assert ("integer_rows" in entries(graph)) == (k <= integer.MAX_DEPTH)
    each = (int(a) - zeros[0]) * (int(b) - zeros[1])
    expected = np.full((2, 8), k * each).astype(np.float32)  # rounded once
    np.testing.assert_allclose(y, expected, rtol=0 if k <= integer.MAX_DEPTH else 1e-5)


@pytest.mark.parametrize("m", [1, 2, 3, 6, 7, 131])
@pytest.mark.parametrize("n", [8, 15, 16, 24, 31, 33])
def test_tiles(m: int, n: int, context: Any) -> None:
    a, b = whole("uint8", m, 21), whole("int8", 21, n)
    y, graph = product(context, a, b, 3, -5, True)
    assert "integer_rows" in entries(graph)
    np.testing.assert_array_equal(y, (a.astype(np.int64) - 3) @ (b.astype(np.int64) + 5))


def test_a_stack_of_products(context: Any) -> None:
    def build(b: Any) -> dict[str, Any]:
        x, w = b.input("x", (2, 3, 20, 24), "uint8"), b.input("w", (3, 24, 19), "int8")
        return {"y": b.matmul(dequantized(b, x, 100, 0.5), dequantized(b, w, 1, 0.125))}

    graph = check_graph(context, build, {"x": whole("uint8", 2, 3, 20, 24), "w": whole("int8", 3, 24, 19)})
    assert entries(graph).count("integer_rows") == 1


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_gemm(turned: tuple[bool, bool], context: Any) -> None:
    scale, zero = RNG.random(24).astype(np.float32) + 0.5, whole("int8", 24)
    weights = whole("int8", *((24, 40) if turned[1] else (40, 24)))
    addend = quarters(24)

    def build(b: Any) -> dict[str, Any]:
        x = dequantized(b, b.input("x", (40, 30) if turned[0] else (30, 40), "uint8"), 7, 0.25)
        shape = (24, 1) if turned[1] else (1, 24)
        w = b.dequantize_linear(b.constant(weights), b.constant(scale.reshape(shape)), b.constant(zero.reshape(shape)))
        c = b.constant(addend)
        return {"y": b.relu(b.gemm(x, w, c=c, alpha=0.5, beta=3.0, a_transpose=turned[0], b_transpose=turned[1]))}

    graph = check_graph(context, build, {"x": whole("uint8", *((40, 30) if turned[0] else (30, 40)))})
    assert entries(graph).count("integer_rows") == 1
    assert graph._executable.kernel_count <= 2 + turned[0]


@pytest.mark.parametrize("layout", ["oihw", "hwio", "ohwi"])
@pytest.mark.parametrize(
    "options",
    [
        {"strides": [2, 2], "padding": [1, 1, 1, 1]}, {"dilations": [2, 1], "padding": [2, 0, 0, 3]},
        {"strides": [1, 3], "padding": [0, 2, 1, 0]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("channels", [8, 13])
def test_convolutions(channels: int, options: dict[str, Any], layout: str, context: Any) -> None:
    extents = {"o": 21, "i": channels, "h": 3, "w": 2}
    weights = whole("int8", *(extents[d] for d in layout))
    shape = tuple(21 if d == "o" else 1 for d in layout)
    scale, bias = RNG.random(shape).astype(np.float32), quarters(21)

    def build(b: Any) -> dict[str, Any]:
        x = dequantized(b, b.input("x", (2, 9, 11, channels), "uint8"), 131, 0.25)
        w = b.dequantize_linear(b.constant(weights), b.constant(scale), b.constant(np.full(shape, 2, np.int8)))
        y = b.conv2d(x, w, bias=b.constant(bias), input_layout="nhwc", filter_layout=layout, **options)
        return {"y": b.relu(y)}

    graph = check_graph(context, build, {"x": whole("uint8", 2, 9, 11, channels)})
    assert entries(graph) == ["elementwise_linear", "integer_rows"]


def test_filters_seen_another_way(context: Any) -> None:
    """Filters of one spatial dimension get another by a reshape, which keeps their channels apart."""
    weights, scale = whole("int8", 16, 8, 3), RNG.random((16, 1, 1)).astype(np.float32)

    def build(b: Any) -> dict[str, Any]:
        x = b.reshape(dequantized(b, b.input("x", (1, 30, 8), "uint8"), 9, 0.25), (1, 1, 30, 8))
        zero = b.constant(np.zeros((16, 1, 1), np.int8))
        w = b.reshape(b.dequantize_linear(b.constant(weights), b.constant(scale), zero), (16, 8, 1, 3))
        return {"y": b.conv2d(x, w, input_layout="nhwc", filter_layout="oihw")}

    graph = check_graph(context, build, {"x": whole("uint8", 1, 30, 8)})
    assert "integer_rows" in entries(graph)


def test_quantizing_is_the_epilogue(context: Any) -> None:
    """Between two products values stay integers in memory: three launches for quantize, product, product."""
    weights = [whole("int8", 32, 32), whole("int8", 32, 24)]

    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (20, 32))
        for w, scale in zip(weights, (0.25, 2.0**12), strict=True):
            x = dequantized(b, quantized(b, x, 128, scale), 128, scale)
            x = b.relu(b.matmul(x, dequantized(b, b.constant(w), 0, 8.0)))
        return {"y": x}

    graph = check_graph(context, build, {"x": quarters(20, 32)})
    assert entries(graph) == ["elementwise_linear", "integer_rows", "integer_rows"]


def test_other_readers_of_the_quantized_values(context: Any) -> None:
    weights = whole("int8", 32, 32)

    def build(b: Any) -> dict[str, Any]:
        q = quantized(b, b.input("x", (20, 32)), 100, 0.25)
        x = dequantized(b, q, 100, 0.25)
        y = b.matmul(x, dequantized(b, b.constant(weights), 0, 0.5))
        return {"y": b.add(y, x), "q": q, "other": dequantized(b, q, 90, 0.25)}

    check_graph(context, build, {"x": quarters(20, 32)})


def test_scales_that_are_computed(context: Any) -> None:
    weights = whole("int8", 40, 16)

    def build(b: Any) -> dict[str, Any]:
        x, scale = b.input("x", (20, 40), "uint8"), b.reshape(b.exp(b.input("s", ())), (1, 1))
        zero = b.input("z", (1, 1), "uint8")
        y = b.matmul(b.dequantize_linear(x, scale, zero), dequantized(b, b.constant(weights), 0, 0.5))
        return {"y": y}

    feeds = {"x": whole("uint8", 20, 40), "s": np.float32(-1.5), "z": np.full((1, 1), 77, np.uint8)}
    graph = check_graph(context, build, feeds)
    assert "integer_rows" in entries(graph)


def test_scales_that_differ_along_the_sum_stay_float(context: Any) -> None:
    weights, scale = whole("int8", 32, 16), RNG.random((32, 1)).astype(np.float32)

    def build(b: Any) -> dict[str, Any]:
        x = dequantized(b, b.input("x", (20, 32), "uint8"), 1, 0.5)
        zero = b.constant(np.zeros((32, 1), np.int8))
        return {"y": b.matmul(x, b.dequantize_linear(b.constant(weights), b.constant(scale), zero))}

    assert "integer_rows" not in entries(check_graph(context, build, {"x": whole("uint8", 20, 32)}))


def test_quantize_and_dequantize_without_a_product_are_one_kernel(context: Any) -> None:
    def build(b: Any) -> dict[str, Any]:
        x = dequantized(b, quantized(b, b.relu(b.input("x", (20, 33))), 10, 0.25), 10, 0.25)
        return {"y": b.neg(x)}

    assert check_graph(context, build, {"x": quarters(20, 33)})._executable.kernel_count == 1


@pytest.mark.parametrize("kind", ["softmax", "layer_normalization", "reduce", "matmul", "conv2d"])
def test_an_epilogue_of_another_type(kind: str, context: Any) -> None:
    """Results leave in the type that the chain behind the kernel makes."""
    weights = quarters(33, 20)

    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (19, 33))
        make = {
            "softmax": lambda: b.softmax(x, 1), "layer_normalization": lambda: b.layer_normalization(x, axes=[1]),
            "reduce": lambda: b.reduce_max(x, axes=[1]), "matmul": lambda: b.matmul(x, b.constant(weights)),
            "conv2d": lambda: b.conv2d(b.reshape(x, (1, 1, 19, 33)), b.constant(weights[:3, :3].reshape(1, 1, 3, 3))),
        }  # fmt: skip
        y = make[kind]()
        return {"y": b.cast(b.greater(y, b.constant(0.01, data_type="float32")), "int32")}

    graph = check_graph(context, build, {"x": quarters(19, 33)}, tolerance=0)
    assert graph._executable.kernel_count == 1


def test_where_plain_code_is_fast(context: Any) -> None:
    """Intel's runtime has no built-in function for pairs, but its compiler makes the instruction of plain code."""
    if context.device.platform != "Intel(R) OpenCL":
        pytest.skip(f"device {context.device.name}: not one of Intel's runtime")
    assert PAIR_FORM(context) == ("plain" if context._facts.is_cpu else None)
