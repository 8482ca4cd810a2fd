"""The digit classifier of qonnx 1.0.0: CNTK's, opset 8, weights also listed as inputs, automatic padding."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from PIL import Image
from sklearn.datasets import load_digits

import webnn_cl

from .compare import FLOAT32, assert_close, run_and_compare
from .packages import QONNX, member

pytestmark = pytest.mark.models
FOLDER = "qonnx/data/onnx/mnist-conv/"


def packaged(name: str) -> np.ndarray:
    return numpy_helper.to_array(onnx.TensorProto.FromString(member(QONNX, f"{FOLDER}test_data_set_0/{name}.pb")))


def as_mnist(image: np.ndarray) -> np.ndarray:
    """An 8x8 digit of 0..16 as MNIST has them: 20x20 amid 28x28, values 0..255."""
    digit = Image.fromarray((image / 16).astype(np.float32)).resize((20, 20), Image.Resampling.BICUBIC)
    return np.pad(np.clip(np.asarray(digit), 0, 1) * np.float32(255), 4)[None, None]


def test_packaged_data(context: webnn_cl.MLContext) -> None:
    ours = run_and_compare(member(QONNX, FOLDER + "model.onnx"), context, {"Input3": packaged("input_0")})
    assert_close(ours, [packaged("output_0")], FLOAT32)
    assert int(ours[0].argmax()) == 2


def test_labelled_digits(context: webnn_cl.MLContext) -> None:
    """A net that learned other people's digits names over 9 in 10 of scikit-learn's."""
    session = webnn_cl.onnx.InferenceSession(member(QONNX, FOLDER + "model.onnx"), context)
    digits = load_digits()
    named = [int(session.run(None, {"Input3": as_mnist(image)})[0].argmax()) for image in digits.images[:200]]
    assert np.mean(named == digits.target[:200]) > 0.9


def test_weights_are_not_inputs(context: webnn_cl.MLContext) -> None:
    session = webnn_cl.onnx.InferenceSession(member(QONNX, FOLDER + "model.onnx"), context)
    (only,) = session.get_inputs()
    assert (only.name, tuple(only.shape), only.type) == ("Input3", (1, 1, 28, 28), "tensor(float)")
