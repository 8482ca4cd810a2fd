"""Memory of weights: raw data is on the device only while it is packed, once on the host, packed once per session."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import webnn_cl
from tests.onnx.models import FLOAT, model, numbers
from webnn_cl.compiler.fold import fold_constants
from webnn_cl.onnx import InferenceSession
from webnn_cl.onnx.spans import without_weights
from webnn_cl.opencl.memory import live_bytes, peak_bytes

node = helper.make_node
SIZE, LAYERS = 1024, 6
WEIGHT = SIZE * SIZE * 4


def deep() -> onnx.ModelProto:
    """Six dense layers of 4 MiB each, for any batch."""
    weights = {f"w{k}": numbers(SIZE, SIZE, seed=k) / SIZE for k in range(LAYERS)}
    names = ["x", *(f"m{k}" for k in range(LAYERS - 1)), "y"]
    nodes = [node("MatMul", [names[k], f"w{k}"], [names[k + 1]]) for k in range(LAYERS)]
    return model(nodes, {"x": (FLOAT, ["batch", SIZE])}, ["y"], weights=weights)


def expected(x: np.ndarray) -> np.ndarray:
    for k in range(LAYERS):
        x = x @ (numbers(SIZE, SIZE, seed=k) / SIZE)
    return x


def test_raw_weights_leave_the_device_behind_their_packing(context: webnn_cl.MLContext) -> None:
    data, x = deep().SerializeToString(), numbers(16, SIZE)
    gc.collect()
    before = live_bytes()
    peak_bytes(reset=True)
    session = InferenceSession(data, context)
    (y,) = session.run(None, {"x": x})
    np.testing.assert_allclose(y, expected(x), rtol=1e-3, atol=1e-5)
    assert peak_bytes() - before <= LAYERS * WEIGHT + 3 * WEIGHT + (1 << 20)
    assert live_bytes() - before <= LAYERS * WEIGHT + (1 << 20)
    packed = session.graph._executable.constant_bytes  # type: ignore[union-attr]
    (y,) = session.run(None, {"x": numbers(32, SIZE)})
    np.testing.assert_allclose(y, expected(numbers(32, SIZE)), rtol=1e-3, atol=1e-5)
    assert live_bytes() - before <= packed + (2 << 20), "another shape shares what is packed"


def test_weights_are_views_of_the_given_bytes(context: webnn_cl.MLContext, tmp_path: Path) -> None:
    made = deep()
    for shift in range(4):  # at any alignment
        made.doc_string = "x" * shift
        data = made.SerializeToString()
        session = InferenceSession(data, context, free_dimensions={"batch": 1})
        address = np.frombuffer(data, np.uint8).ctypes.data
        for tensor in session._model.graph.initializer:
            array = session._model.array(tensor)
            assert address <= array.ctypes.data < address + len(data) and len(tensor.raw_data) == 0
            np.testing.assert_array_equal(array, numbers(SIZE, SIZE, seed=int(tensor.name[1:])) / SIZE)
    (tmp_path / "m.onnx").write_bytes(data)
    x = numbers(1, SIZE)
    for source in (data, made, tmp_path / "m.onnx"):
        (y,) = InferenceSession(source, context).run(None, {"x": x})
        np.testing.assert_allclose(y, expected(x), rtol=1e-3, atol=1e-5)


def test_damaged_large_models_are_one_line(context: webnn_cl.MLContext) -> None:
    data = deep().SerializeToString()
    assert without_weights(data) is not None
    for cut in (100, WEIGHT // 2, 2 * WEIGHT + 77, len(data) - 1):
        assert without_weights(data[:cut]) is None
        with pytest.raises(webnn_cl.NotSupportedError, match="truncated or not an ONNX model"):
            InferenceSession(data[:cut], context)


def test_a_builders_constants_leave_the_host_and_the_device(context: webnn_cl.MLContext) -> None:
    weight = numbers(SIZE, SIZE)
    gc.collect()
    before = live_bytes()
    b = context.create_graph_builder()
    constant = b.constant(weight)
    graph = b.build({"y": b.matmul(b.input("x", (16, SIZE)), constant)})
    context.finish()
    assert constant._value.constant is not None and constant._value.constant.array is None
    assert live_bytes() - before <= WEIGHT + (1 << 20)
    x = numbers(16, SIZE)
    np.testing.assert_allclose(context.compute(graph, {"x": x})["y"], x @ weight, rtol=1e-3, atol=1e-2)


def normalized(x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """relu(batch normalization(3x3 convolution)) in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    y = np.einsum("nchwij,ocij->nohw", windows, weights["w"].astype(np.float64), optimize=True)
    s, b, m, v = (weights[name].astype(np.float64).reshape(-1, 1, 1) for name in "sbmv")
    return np.maximum((y - m) / np.sqrt(v + 1e-5) * s + b, 0)


def test_folded_weights_are_made_again_for_a_shape_that_packs_them_otherwise(context: webnn_cl.MLContext) -> None:
    channels = 64
    weights = {
        "w": numbers(channels, channels, 3, 3), "s": 1 + numbers(channels, seed=1) ** 2, "b": numbers(channels, seed=2),
        "m": numbers(channels, seed=3), "v": 1 + numbers(channels, seed=4) ** 2,
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        node("Relu", ["n"], ["y"]),
    ]
    made = model(nodes, {"x": (FLOAT, ["batch", channels, "h", "w"])}, ["y"], weights=weights)
    data = made.SerializeToString()
    session = InferenceSession(data, context)
    for height, width in ((32, 32), (2, 3), (1, 1), (24, 80), (32, 32)):
        x = numbers(1, channels, height, width, seed=5)
        (y,) = session.run(None, {"x": x})
        wanted = normalized(x, weights)
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=5e-5 * wanted.max())
        constants = [c for c in session._weights._constants.values() if c.array is not None and c.array.ndim == 4]
        assert constants and all(c.storage is None for c in constants)


def deep_float16() -> onnx.ModelProto:
    """As `deep`, with weights in float16 that are cast."""
    weights = {f"w{k}": numbers(SIZE, SIZE, seed=k).astype(np.float16) / SIZE for k in range(LAYERS)}
    names = ["x", *(f"m{k}" for k in range(LAYERS - 1)), "y"]
    nodes = [node("Cast", [f"w{k}"], [f"f{k}"], to=FLOAT) for k in range(LAYERS)]
    nodes += [node("MatMul", [names[k], f"f{k}"], [names[k + 1]]) for k in range(LAYERS)]
    return model(nodes, {"x": (FLOAT, ["batch", SIZE])}, ["y"], weights=weights)


def test_float16_weights_are_widened_while_they_are_packed(context: webnn_cl.MLContext) -> None:
    data = deep_float16().SerializeToString()
    gc.collect()
    before = live_bytes()
    peak_bytes(reset=True)
    session = InferenceSession(data, context)
    for rows in (16, 1):
        x = wanted = numbers(rows, SIZE)
        for k in range(LAYERS):
            wanted = wanted @ (numbers(SIZE, SIZE, seed=k).astype(np.float16) / SIZE).astype(np.float32)
        (y,) = session.run(None, {"x": x})
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-5)
        if rows == 16:
            assert peak_bytes() - before <= LAYERS * WEIGHT + 3 * WEIGHT + (1 << 20)
            assert live_bytes() - before <= LAYERS * WEIGHT + (1 << 20)
    if context._facts.is_cpu:  # one row reads float16
        assert session.graph._executable.constant_bytes == LAYERS * WEIGHT // 2  # type: ignore[union-attr]
    address = np.frombuffer(data, np.uint8).ctypes.data
    arrays = [c.array for c in session._weights._constants.values()]
    assert [a.dtype for a in arrays if a is not None] == [np.float16] * LAYERS
    assert all(a is not None and address <= a.ctypes.data < address + len(data) for a in arrays)


@pytest.mark.parametrize("rows", [1, 3, 16])
@pytest.mark.parametrize("transposed", [False, True])
def test_widened_weights_are_exact(context: webnn_cl.MLContext, rows: int, transposed: bool) -> None:
    """Rows of the identity pick numbers of a matrix: every finite float16, subnormal ones too."""
    finite = np.arange(2**16, dtype=np.uint16).view(np.float16)
    weight = np.where(np.isfinite(finite), finite, np.float16(1)).reshape(16, 4096)
    nodes = [node("Cast", ["w"], ["f"], to=FLOAT)]
    nodes += [node("Gemm", ["x", "f"], ["y"], transB=1)] if transposed else [node("MatMul", ["x", "f"], ["y"])]
    weights = {"w": np.ascontiguousarray(weight.T) if transposed else weight}
    session = InferenceSession(model(nodes, {"x": (FLOAT, [rows, 16])}, ["y"], weights=weights), context)
    for start in range(0, 16, rows):
        x = np.eye(16, dtype=np.float32)[start : start + rows]
        x = np.concatenate([x, np.zeros((rows - len(x), 16), np.float32)])
        (y,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(y[: 16 - start], weight[start : start + rows].astype(np.float32))


def test_widened_weights_that_are_read_as_they_are(context: webnn_cl.MLContext) -> None:
    """By a chain, and twice: as float32 and as float16."""
    table = numbers(512, 64).astype(np.float16)
    nodes = [
        node("Cast", ["w"], ["f"], to=FLOAT),
        node("Gather", ["f", "i"], ["g"]),
        node("Mul", ["f", "x"], ["y"]),
        node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16),
        node("Mul", ["w", "h"], ["z"]),
    ]
    inputs = {"x": (FLOAT, [64]), "i": (onnx.TensorProto.INT64, [3])}
    session = InferenceSession(model(nodes, inputs, ["g", "y", "z"], weights={"w": table}), context)
    x = numbers(64, seed=1)
    g, y, z = session.run(None, {"x": x, "i": np.array([5, 0, 511])})
    np.testing.assert_array_equal(g, table.astype(np.float32)[[5, 0, 511]])
    np.testing.assert_array_equal(y, table.astype(np.float32) * x)
    np.testing.assert_allclose(z, table * x.astype(np.float16), rtol=1e-3)


def test_dequantized_weights_are_folded_one_by_one(
    context: webnn_cl.MLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of theirs is in memory between folding and packing."""
    weights: dict[str, np.ndarray] = {}
    for k in range(LAYERS):
        weights[f"w{k}"] = (numbers(SIZE, SIZE, seed=k) * 30).astype(np.int8)
        weights[f"s{k}"] = (1 + numbers(SIZE, seed=k + 50) ** 2) / 2**15
    names = ["x", *(f"m{k}" for k in range(LAYERS - 1)), "y"]
    nodes = [node("DequantizeLinear", [f"w{k}", f"s{k}"], [f"f{k}"]) for k in range(LAYERS)]
    nodes += [node("MatMul", [names[k], f"f{k}"], [names[k + 1]]) for k in range(LAYERS)]
    made = model(nodes, {"x": (FLOAT, ["batch", SIZE])}, ["y"], weights=weights)
    x = wanted = numbers(16, SIZE)
    for k in range(LAYERS):
        wanted = wanted @ (weights[f"w{k}"] * weights[f"s{k}"])
    gc.collect()
    before = live_bytes()
    peak_bytes(reset=True)
    between: list[int] = []

    def fold(*args: Any) -> Any:
        graph = fold_constants(*args)
        between.append(live_bytes() - before)
        return graph

    monkeypatch.setattr("webnn_cl.compiler.compile.fold_constants", fold)
    session = InferenceSession(made, context)
    for _ in range(2):
        (y,) = session.run(None, {"x": x})
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())
    assert peak_bytes() - before <= LAYERS * WEIGHT + 3 * WEIGHT + (1 << 20)
    assert live_bytes() - before <= LAYERS * WEIGHT + (1 << 20)
    assert between and max(between) < WEIGHT // 2
