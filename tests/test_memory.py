"""Memory of weights: raw data is on the device only while it is packed, once on the host, packed once per session."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import webnn_cl
from tests.onnx.models import FLOAT, model, numbers
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
