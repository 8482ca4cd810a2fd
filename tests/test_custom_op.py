"""User-written kernels: CustomOp on tensors and in graphs, fused expressions, guarded runs, bad input."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import webnn_cl
from webnn_cl import CustomOp, InvalidStateError, MLTypeError, OperationError

SWISH = {"inputs": ("x", "scale"), "outputs": ("y",), "body": "y[i] = x[i] / (1.0f + exp(-x[i])) * scale[0];"}


def swish(x: np.ndarray, scale: float) -> np.ndarray:
    return x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64))) * scale


def make(ctx, array, **flags):
    tensor = ctx.create_tensor(array.shape, array.dtype, readable=True, writable=True, exportable=True, **flags)
    ctx.write_tensor(tensor, array)
    return tensor


@pytest.fixture
def x(rng):
    return rng.standard_normal((7, 13)).astype(np.float32)


@pytest.fixture
def ctx(context):
    return context


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_on_tensors(ctx, x):
    op = CustomOp("swish_scale", **SWISH)
    tx, ts, ty = make(ctx, x), make(ctx, np.float32([2.5])), make(ctx, np.zeros_like(x))
    op(ctx, inputs={"x": tx, "scale": ts}, outputs={"y": ty})
    np.testing.assert_allclose(ctx.read_tensor(ty), swish(x, 2.5), rtol=1e-5)


def test_in_a_graph_between_built_in_operators(ctx, x):
    b = ctx.create_graph_builder()
    a, s = b.input("a", x.shape), b.constant(np.float32([0.5]))
    y = b.custom_op(CustomOp("swish_scale", **SWISH), b.relu(a), s)
    graph = b.build({"y": b.neg(y)})
    np.testing.assert_allclose(ctx.compute(graph, {"a": x})["y"], -swish(np.maximum(x, 0), 0.5), rtol=1e-5)


def test_several_outputs_types_shapes_params_header_defines(ctx, x):
    op = CustomOp(
        "split_sign",
        inputs=("x",),
        outputs=("positive", "count"),
        header="static inline float clip(float v) { return v > LIMIT ? LIMIT : v; }",
        defines={"LIMIT": "1.0f"},
        body="positive[i] = x[i] > 0 ? clip(x[i]) * gain : 0.0f;\n"
        "if (i == 0) { int n = 0; for (long k = 0; k < x_SIZE; k++) "
        "n += x[k] > 0; count[0] = n + bonus; }",
        params={"gain": "float32", "bonus": "int32"},
        output_shapes=lambda x: [x.shape, ()],
        output_types=("float32", "int32"),
    )
    b = ctx.create_graph_builder()
    positive, count = b.custom_op(op, b.input("x", x.shape), params={"gain": 3.0, "bonus": 10})
    assert (positive.shape, count.shape, count.data_type) == (x.shape, (), "int32")
    result = ctx.compute(b.build({"p": positive, "n": count}), {"x": x})
    np.testing.assert_allclose(result["p"], np.clip(x, 0, 1) * 3, rtol=1e-6)
    assert result["n"] == (x > 0).sum() + 10


def test_raw_source_with_sizes(ctx):
    source = """
    __kernel void transpose_(__global const float *x, __global float *y, float gain) {
      size_t r = get_global_id(1), c = get_global_id(0);
      y[c * x_DIM0 + r] = x[r * x_DIM1 + c] * gain;
    }"""
    op = CustomOp(
        "transpose_", inputs=("x",), outputs=("y",), source=source, params=("gain",),
        output_shapes=lambda x: [x.shape[::-1]], global_size=lambda x: (x.shape[1], x.shape[0]), local_size=(2, 3),
    )  # fmt: skip
    for shape in ((6, 8), (3, 4)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        tx, ty = make(ctx, x), make(ctx, np.zeros(shape[::-1], np.float32))
        op(ctx, inputs={"x": tx}, outputs={"y": ty}, params={"gain": 2})
        assert np.array_equal(ctx.read_tensor(ty), 2 * x.T)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32", "int64", "uint64", "int8", "uint8"])
def test_load_and_store_work_for_every_type(ctx, dtype):
    x = np.arange(1, 20).astype(dtype)
    op = CustomOp("twice", inputs=("x",), outputs=("y",), body="STORE(y, i, LOAD(x, i) + LOAD(x, i));")
    tx, ty = make(ctx, x), make(ctx, np.zeros_like(x))
    op(ctx, inputs={"x": tx}, outputs={"y": ty})
    assert np.array_equal(ctx.read_tensor(ty), x + x)


def test_indexing_float16_needs_the_extension(ctx):
    x = np.ones(3, np.float16)
    op = CustomOp("copy_half", inputs=("x",), outputs=("y",), body="y[i] = x[i];")
    tx, ty = make(ctx, x), make(ctx, np.zeros_like(x))
    if ctx.device.has_fp16:
        op(ctx, inputs={"x": tx}, outputs={"y": ty})
        assert np.array_equal(ctx.read_tensor(ty), x)
    else:
        with pytest.raises(OperationError, match=r"LOAD\(x, i\)"):
            op(ctx, inputs={"x": tx}, outputs={"y": ty})


@pytest.mark.parametrize("name", ["step", "max", "exp", "dot", "select", "LOAD", "x_SIZE", "CTYPE", "dims_t"])
def test_names_of_built_in_functions(ctx, x, name):
    op = CustomOp(name, inputs=("x",), outputs=("y",), body="y[i] = 2 * x[i];")
    b = ctx.create_graph_builder()
    graph = b.build({"y": b.custom_op(op, b.input("x", x.shape))})
    assert np.array_equal(ctx.compute(graph, {"x": x})["y"], 2 * x)


def test_source_without_the_kernel(ctx, x):
    op = CustomOp("missing", inputs=("x",), outputs=("y",), source="kernel void other(global float *x) {}")
    b = ctx.create_graph_builder()
    y = b.custom_op(op, b.input("x", x.shape), label="mine")
    with pytest.raises(OperationError, match="'missing'"):
        b.build({"y": y})
    with pytest.raises(OperationError, match="'missing'"):
        op(ctx, inputs={"x": make(ctx, x)}, outputs={"y": make(ctx, x)})


def test_source_is_the_whole_text(ctx, x):
    text = CustomOp("swish_scale", **SWISH).source(ctx.create_tensor((2, 3)), ctx.create_tensor((1,)))
    signature = "kernel void user_swish_scale(const __global float *x, const __global float *scale, __global float *y"
    assert signature in text
    assert SWISH["body"] in text
    import pyopencl as cl

    cl.Program(ctx.cl_context, text).build()


def test_a_text_that_does_not_compile_names_line_and_device(ctx, x):
    op = CustomOp("broken", inputs=("x",), outputs=("y",), body="float v = x[i];\ny[i] = v + nonsense;")
    tx, ty = make(ctx, x), make(ctx, x)
    with pytest.raises(OperationError) as caught:
        op(ctx, inputs={"x": tx}, outputs={"y": ty})
    assert "broken" in str(caught.value) and "nonsense" in str(caught.value)
    assert "body:2:" in str(caught.value) or ":2:" in str(caught.value)
    assert ctx.device.name.strip() in str(caught.value)
    assert not ctx.is_lost
    b = ctx.create_graph_builder()
    y = b.custom_op(op, b.input("x", x.shape))
    with pytest.raises(OperationError, match="nonsense"):
        b.build({"y": y})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("y[i + 3] = x[i];", "past the end of 'y'"),
        ("y[i] = x[i]; if (i == 0) y[-1] = 0;", "before the start of 'y'"),
        ("y[i] = x[i]; if (i == 2) ((__global float *)x)[0] = 99.0f;", "into its input 'x'"),
    ],
)
def test_check_catches_writes_out_of_bounds(ctx, x, body, words):
    op = CustomOp("sloppy", inputs=("x",), outputs=("y",), body=body, check=True)
    tx, ty = make(ctx, x), make(ctx, np.zeros_like(x))
    with pytest.raises(OperationError, match=words):
        op(ctx, inputs={"x": tx}, outputs={"y": ty})
    assert np.array_equal(ctx.read_tensor(tx), x)
    b = ctx.create_graph_builder()
    graph = b.build({"y": b.custom_op(op, b.input("x", x.shape))})
    with pytest.raises(OperationError, match=words):
        ctx.compute(graph, {"x": x})
    assert not ctx.is_lost


def test_check_lets_a_good_kernel_through(ctx, x):
    op = CustomOp("good", inputs=("x",), outputs=("y",), body="y[i] = 2 * x[i];", check=True)
    tx, ty = make(ctx, x), make(ctx, np.zeros_like(x))
    op(ctx, inputs={"x": tx}, outputs={"y": ty})
    assert np.array_equal(ctx.read_tensor(ty), 2 * x)
    b = ctx.create_graph_builder()
    graph = b.build({"y": b.neg(b.custom_op(op, b.relu(b.input("x", x.shape))))})
    assert np.array_equal(ctx.compute(graph, {"x": x})["y"], -2 * np.maximum(x, 0))


def test_wrong_use(ctx, x):
    op = CustomOp("swish_scale", **SWISH)
    tx, ts, ty = make(ctx, x), make(ctx, np.float32([1])), make(ctx, x)
    plain = ctx.create_tensor(x.shape)
    with webnn_cl.ML().create_context() as other:
        foreign = make(other, x)
        cases = [
            ({"x": tx}, {"y": ty}),
            ({"x": tx, "scale": ts, "z": ts}, {"y": ty}),
            ({"x": tx, "scale": ts}, {"y": tx}),
            ({"x": plain, "scale": ts}, {"y": ty}),
            ({"x": foreign, "scale": ts}, {"y": ty}),
            ({"x": tx, "scale": ts}, {"y": ts}),
            ({"x": x, "scale": ts}, {"y": ty}),
        ]
        for inputs, outputs in cases:
            with pytest.raises(MLTypeError):
                op(ctx, inputs=inputs, outputs=outputs)
    with pytest.raises(MLTypeError, match="params"):
        op(ctx, inputs={"x": tx, "scale": ts}, outputs={"y": ty}, params={"k": 1})
    tx.destroy()
    with pytest.raises(MLTypeError, match="destroyed"):
        op(ctx, inputs={"x": tx, "scale": ts}, outputs={"y": ty})


def test_wrong_definitions():
    for change in (
        {"body": None},
        {"source": "kernel void f() {}"},
        {"inputs": ("float",)},
        {"inputs": ("x", "x")},
        {"inputs": "x"},
        {"outputs": ()},
        {"outputs": ("a b",)},
        {"params": ("y",)},
        {"params": {"k": "float99"}},
    ):
        with pytest.raises(MLTypeError):
            CustomOp("f", **{**SWISH, **change})
    with pytest.raises(MLTypeError):
        CustomOp("not a name", **SWISH)


def test_a_leased_tensor_defers_the_kernel(ctx, x):
    op = CustomOp("double_", inputs=("x",), outputs=("y",), body="y[i] = 2 * x[i];")
    tx, ty = make(ctx, x), make(ctx, np.zeros_like(x))
    with ctx.export_tensor(tx):
        op(ctx, inputs={"x": tx}, outputs={"y": ty})
        pending = ctx.read_tensor_async(ty)
        with pytest.raises(InvalidStateError):
            ctx.read_tensor(ty)
        assert not pending.done()
    assert np.array_equal(pending.result(30), 2 * x)


def test_from_many_threads(ctx):
    op = CustomOp("add_k", inputs=("x",), outputs=("y",), body="y[i] = x[i] + k;", params=("k",))
    pairs = [(make(ctx, np.full(100, t, np.float32)), make(ctx, np.zeros(100, np.float32))) for t in range(8)]

    def work(index: int) -> None:
        source, target = pairs[index]
        for _ in range(50):
            op(ctx, inputs={"x": source}, outputs={"y": target}, params={"k": index})
            source, target = target, source

    threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for t, (source, _) in enumerate(pairs):
        assert np.array_equal(ctx.read_tensor(source), np.full(100, t + 50 * t, np.float32))


# Expressions ------------------------------------------------------------------------------------------------


def run_expression(ctx, text, data_type=None, **arrays):
    b = ctx.create_graph_builder()
    operands = {name: b.input(name, a.shape, a.dtype) for name, a in arrays.items()}
    graph = b.build({"y": b.elementwise(text, data_type=data_type, **operands)})
    return ctx.compute(graph, arrays)["y"]


def test_expression_broadcasts(ctx, rng):
    a, c = rng.standard_normal((4, 1, 9)).astype(np.float32), rng.standard_normal((3, 1)).astype(np.float32)
    expected = a.astype(np.float64) * np.tanh(np.log1p(np.exp(c.astype(np.float64))))
    np.testing.assert_allclose(run_expression(ctx, "a * tanh(log1p(exp(c)))", a=a, c=c), expected, rtol=2e-5)


def test_expression_with_conditions_and_literals(ctx, rng):
    a, k = rng.standard_normal(100).astype(np.float32), np.float32(0.25)
    result = run_expression(ctx, "(a > k) * 3 + (a < 0 ? -1.5f * a : 0.5f)", a=a, k=np.array(k))
    np.testing.assert_allclose(result, (a > k) * 3 + np.where(a < 0, -1.5 * a, 0.5), rtol=1e-6)


def test_expression_on_small_integers_promotes_as_c_does(ctx):
    a = np.array([100, 120, -128, 127], np.int8)
    assert np.array_equal(run_expression(ctx, "(a + a) / 2", a=a), a)
    assert np.array_equal(run_expression(ctx, "a > 0", "uint8", a=a), (a > 0).astype(np.uint8))


def test_expression_float16(ctx):
    a = np.linspace(-4, 4, 33).astype(np.float16)
    result = run_expression(ctx, "a * a + 1.0f", a=a)
    assert result.dtype == np.float16
    assert np.array_equal(result, (a.astype(np.float32) ** 2 + 1).astype(np.float16))


def test_expression_is_fused(ctx, x):
    b = ctx.create_graph_builder()
    a = b.input("a", x.shape)
    graph = b.build({"y": b.relu(b.elementwise("v * v - 1.0f", v=b.add(a, a)))})
    assert graph._executable.kernel_count == 1
    expected = np.maximum(4 * x.astype(np.float64) ** 2 - 1, 0)
    np.testing.assert_allclose(ctx.compute(graph, {"a": x})["y"], expected, rtol=1e-5, atol=1e-6)


def test_expression_errors(ctx, x):
    b = ctx.create_graph_builder()
    a = b.input("a", x.shape)
    for text, operands in (("", {"a": a}), ("a", {}), (3, {"a": a}), ("a", {"float": a}), ("a", {"a": x})):
        with pytest.raises(MLTypeError):
            b.elementwise(text, **operands)
    with pytest.raises(MLTypeError, match="broadcast"):
        b.elementwise("a + c", a=a, c=b.input("c", (2,)))
    y = b.elementwise("a + unknown_name", a=a, label="mine")
    with pytest.raises(OperationError, match="unknown_name"):
        b.build({"y": y})
