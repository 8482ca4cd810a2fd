"""Normalizations, recurrent layers, quantization and attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import webnn_cl
from tests.onnx.models import Case, by_reference, check, joined, model, numbers, whole
from webnn_cl.compiler.lower import Launch
from webnn_cl.tiles import integer

X = numbers(2, 6, 3, 4)


def channels(count: int, seed: int = 0) -> np.ndarray:
    return numbers(count, seed=seed, low=0.2, high=2.0)


def test_batch_normalization(context: webnn_cl.MLContext) -> None:
    inputs = [X, *(channels(6, s) for s in range(4))]
    cases = [Case("BatchNormalization", inputs, {"epsilon": 1e-2}, known=[1, 2, 3, 4])]
    cases += [Case("BatchNormalization", [numbers(5, 6), *inputs[1:]])]
    check(context, cases, 15, rtol=1e-3)
    training = Case("BatchNormalization", inputs, {"training_mode": 1, "momentum": 0.8}, outputs=3)
    check(context, [training], 15, rtol=1e-3)
    check(context, [Case("BatchNormalization", inputs)], 7, rtol=1e-3)


def test_other_normalizations(context: webnn_cl.MLContext) -> None:
    flat = numbers(2, 6, 7)
    cases = [Case("InstanceNormalization", [x, channels(6), channels(6, 1)]) for x in (X, flat, numbers(2, 6, 2, 3, 2))]
    cases += [Case("LayerNormalization", [X, channels(4), channels(4, 1)])]
    cases += [Case("LayerNormalization", [X, numbers(3, 4)], {"axis": 2})]
    cases += [Case("LpNormalization", [X], {"axis": a, "p": p}) for a in (1, -1) for p in (1, 2)]
    cases += [Case("LRN", [X], {"size": 3, "alpha": 0.01, "bias": 1.5, "beta": 0.6})]
    cases += [Case("MeanVarianceNormalization", [X])]
    check(context, cases, 17, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("fed", [True, False])
def test_response_normalization_over_an_even_number_of_channels(context: webnn_cl.MLContext, fed: bool) -> None:
    """By the operator's text: onnxruntime takes odd sizes only, and onnx's own evaluator walks the batch instead."""
    squares = np.zeros_like(X)
    for channel in range(6):
        squares[:, channel] = (X[:, max(0, channel - 1) : channel + 3] ** 2).sum(axis=1)
    expected = X / (1.0 + 0.5 / 4 * squares) ** 0.75
    made, feeds = joined([Case("LRN", [X], {"size": 4, "alpha": 0.5}, known=[] if fed else [0])], 13)
    (y,) = webnn_cl.onnx.InferenceSession(made, context).run(None, feeds)
    np.testing.assert_allclose(y, expected, rtol=1e-4)


def test_group_and_rms_normalization(context: webnn_cl.MLContext) -> None:
    for opset, count in ((21, 6), (18, 3)):
        case = Case("GroupNormalization", [X, channels(count), channels(count, 1)], {"num_groups": 3})
        check(context, [case], opset, reference=True, rtol=1e-3, atol=1e-4)
    check(context, [Case("RMSNormalization", [X, channels(4)])], 23, reference=True, rtol=1e-3, atol=1e-4)


def recurrent(op: str, gates: int, **attrs: Any) -> Case:
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    steps, batch, inner, hidden = 5, 3, 4, 6
    inputs: list[Any] = [
        numbers(steps, batch, inner),
        numbers(directions, gates * hidden, inner, seed=1, low=-0.5, high=0.5),
        numbers(directions, gates * hidden, hidden, seed=2, low=-0.5, high=0.5),
        numbers(directions, 2 * gates * hidden, seed=3, low=-0.5, high=0.5),
        attrs.pop("lengths", None),
        numbers(directions, batch, hidden, seed=4),
    ]
    if op == "LSTM":
        inputs.append(numbers(directions, batch, hidden, seed=5))
        if attrs.pop("peepholes", False):
            inputs.append(numbers(directions, 3 * hidden, seed=6))
    return Case(op, inputs, {"hidden_size": hidden, **attrs}, known=[1, 2, 3, 4, 7], outputs=3 if op == "LSTM" else 2)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers(context: webnn_cl.MLContext, direction: str) -> None:
    cases = [recurrent("LSTM", 4, direction=direction), recurrent("RNN", 1, direction=direction)]
    cases += [recurrent("GRU", 3, direction=direction, linear_before_reset=after) for after in (0, 1)]
    check(context, cases, 14, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrent_layers_step_by_step(context: webnn_cl.MLContext, direction: str) -> None:
    lengths, count = np.array([5, 2, 3], np.int32), 2 if direction == "bidirectional" else 1
    cases = [
        recurrent("LSTM", 4, direction=direction, lengths=lengths),
        recurrent("LSTM", 4, direction=direction, peepholes=True),
        recurrent("LSTM", 4, direction=direction, clip=0.4, activations=["HardSigmoid", "Softsign", "Tanh"] * count),
        recurrent("GRU", 3, direction=direction, lengths=lengths, linear_before_reset=0),
        recurrent("GRU", 3, direction=direction, lengths=lengths, linear_before_reset=1),
        recurrent("RNN", 1, direction=direction, lengths=lengths),
    ]
    check(context, cases, 14, rtol=1e-3, atol=1e-4)


def test_quantize_and_dequantize(context: webnn_cl.MLContext) -> None:
    x, scale = numbers(2, 3, 4, low=-40, high=40), np.array([0.5, 0.25, 2.0], np.float32)
    zero = np.array([100, 128, 7], np.uint8)
    q = whole(2, 3, 4, low=0, high=255, dtype="uint8")
    one, none = np.array(0.3, np.float32), np.array(-3, np.int8)
    cases = [
        Case("QuantizeLinear", [x, scale, zero], {"axis": 1}, known=[1, 2]),
        Case("QuantizeLinear", [x, one, none]),
        Case("QuantizeLinear", [x, one]),
        Case("DequantizeLinear", [q, scale, zero], {"axis": 1}, known=[1, 2]),
        Case("DequantizeLinear", [whole(5, dtype="int32"), one]),
        Case("DynamicQuantizeLinear", [x], outputs=3),
    ]
    check(context, cases, 13, rtol=1e-6)
    wide = [Case("QuantizeLinear", [x * 900, one, np.array(z, d)]) for z, d in ((-300, np.int16), (500, np.uint16))]
    check(context, wide, 21, rtol=0)


def test_integer_products(context: webnn_cl.MLContext) -> None:
    """Larger than float32 could sum exactly in one go, and onnxruntime in int16, as it does on AVX2 without VNNI."""
    a, b = whole(3, 700, low=0, high=255, dtype="uint8"), whole(700, 4, low=-128, high=127, dtype="int8", seed=1)
    image = whole(1, 3, 6, 5, low=0, high=255, dtype="uint8")
    kernel = whole(2, 3, 3, 3, low=0, high=255, dtype="uint8", seed=1)
    wide_image = whole(1, 90, 5, 4, low=0, high=255, dtype="uint8", seed=2)
    wide_kernel = whole(2, 90, 3, 3, low=200, high=255, dtype="uint8", seed=3)
    za, zb, wide = np.array(7, np.uint8), np.array(-5, np.int8), np.array(200, np.uint8)
    cases = [
        Case("MatMulInteger", [a, b, za, zb], known=[1, 2, 3]),
        Case("MatMulInteger", [a, b]),
        Case("ConvInteger", [image, kernel, za, wide], {"pads": [1, 1, 1, 1]}, known=[1, 2, 3]),
        Case("ConvInteger", [image, kernel, za], known=[1, 2]),
        Case("ConvInteger", [wide_image, wide_kernel], known=[1]),
        Case("ConvInteger", [wide_image, wide_kernel, za]),
    ]
    check(context, cases, 10, reference=True, rtol=0, atol=0)


def test_integer_products_run_on_integers(context: webnn_cl.MLContext) -> None:
    """Sums beyond 2^24, of weights that are known or not, exact to the last bit; what is between stays integers."""
    a, b = whole(20, 1100, low=100, high=256, dtype="uint8"), whole(1100, 24, low=-128, high=-20, dtype="int8", seed=1)
    columns = whole(24, low=-128, high=128, dtype="int8", seed=2)
    image, kernel = (
        whole(1, 16, 9, 8, low=0, high=256, dtype="uint8"),
        whole(8, 16, 3, 3, low=-128, high=128, dtype="int8"),
    )
    point, none = np.array(3, np.uint8), np.array(0, np.int8)
    cases = [
        Case("MatMulInteger", [a, b, point, columns], known=[1, 2, 3]),
        Case("MatMulInteger", [a, b, point, columns]),
        Case("ConvInteger", [image, kernel, point, none], {"pads": [1, 1, 1, 1]}, known=[1, 2, 3]),
        Case("ConvInteger", [image, kernel, point], known=[1, 2]),
    ]
    expected = (a.astype(np.int64) - 3) @ (b.astype(np.int64) - columns)
    assert np.abs(expected).max() > 2**24
    made, feeds = joined(cases, 10)
    with webnn_cl.onnx.InferenceSession(made, context) as session:
        results = session.run(None, feeds)
        launches = [c.kernel.entry for c in session.graph._executable.commands if isinstance(c, Launch)]
    for result in results[:2]:
        np.testing.assert_array_equal(result, expected)
    assert (launches.count("integer_rows") >= 4) == (integer.pair_form(context) is not None)
    check(context, cases, 10, reference=True, rtol=0, atol=0)


def test_a_dynamically_quantized_layer(context: webnn_cl.MLContext) -> None:
    """DynamicQuantizeLinear, MatMulInteger and the scales, as quantization tools write a layer: quantizing, product."""
    x, w = numbers(20, 64), whole(64, 24, low=-128, high=128, dtype="int8")
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["wide"], to=1), helper.make_node("Mul", ["s", "ws"], ["scale"]),
        helper.make_node("Mul", ["wide", "scale"], ["y"]),
    ]  # fmt: skip
    weights = {"w": w, "wz": np.array(0, np.int8), "ws": np.array(0.02, np.float32)}
    made = model(nodes, {"x": x}, ["y"], opset=11, weights=weights)
    with webnn_cl.onnx.InferenceSession(made, context) as session:
        (y,) = session.run(None, {"x": x})
        launches = [c.kernel.entry for c in session.graph._executable.commands if isinstance(c, Launch)]
    np.testing.assert_allclose(y, by_reference(made, {"x": x})[0], rtol=1e-4, atol=1e-4)
    assert ("integer_rows" in launches) == (integer.pair_form(context) is not None)


def test_quantized_layers(context: webnn_cl.MLContext) -> None:
    a, b, image, kernel = (whole(*shape, low=0, high=255, dtype="uint8", seed=seed)
                           for seed, shape in enumerate(((3, 40), (40, 4), (1, 3, 6, 5), (2, 3, 3, 3))))  # fmt: skip
    scale, zero = (lambda v: np.array(v, np.float32)), (lambda v: np.array(v, np.uint8))
    out = [scale(0.4), zero(128)]
    bias = whole(2, low=-3000, high=3000, dtype="int32")
    cases = [
        Case("QLinearMatMul", [a, scale(0.02), zero(120), b, scale(0.03), zero(130), scale(0.5), zero(128)]),
        Case("QLinearConv", [image, scale(0.02), zero(120), kernel, scale(0.03), zero(130), *out, bias],
             {"pads": [1, 1, 1, 1]}, known=[3, 8]),
        Case("QLinearConv", [image, scale(0.02), zero(120), kernel, scale([0.03, 0.01]), zero([130, 90]), *out],
             known=[3, 4, 5]),
    ]  # fmt: skip
    check(context, cases, 10, rtol=0, atol=1)


def test_attention_with_grouped_heads_and_mask(context: webnn_cl.MLContext) -> None:
    q, k, v = numbers(2, 6, 4, 8), numbers(2, 3, 5, 8, seed=1), numbers(2, 3, 5, 10, seed=2)
    mask = whole(4, 5, low=0, high=2, dtype="bool", seed=3)
    mask[:, 0] = True
    options: list[dict[str, Any]] = [{}, {"is_causal": 1}, {"softcap": 2.0, "scale": 0.3}]
    cases = [Case("Attention", [q, k, v], attrs) for attrs in options] + [Case("Attention", [q, k, v, mask])]
    check(context, cases, 23, reference=True, rtol=1e-3)


def test_transforms(context: webnn_cl.MLContext) -> None:
    x, spectrum = numbers(1, 16, 1), numbers(2, 9, 2)
    cases = [Case("DFT", [x], {"axis": 1, "onesided": 1}), Case("DFT", [spectrum], {"axis": 1, "inverse": 1})]
    cases += [Case("STFT", [numbers(2, 40, 1), np.array(8, np.int64), numbers(16)], known=[1, 2])]
    check(context, cases, 17, reference=True, rtol=1e-3, atol=1e-4)
