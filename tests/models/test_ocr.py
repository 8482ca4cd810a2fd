"""PP-OCRv4 of rapidocr-onnxruntime 1.4.4: detector, recognizer, and the classifier of upside-down lines."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import skimage.data
from PIL import Image, ImageDraw, ImageFont

import webnn_cl

from .compare import run_and_compare
from .packages import RAPIDOCR, member

pytestmark = pytest.mark.models
text_reader = importlib.import_module("text_reader")
read_text = importlib.import_module("read_text")

CLASSIFIER = text_reader.MODELS + "ch_ppocr_mobile_v2.0_cls_infer.onnx"
PAGE = (  # what stands in scikit-image's page.png; its last line is cut off at the lower edge
    "Region-based segmentation",
    "Let us first determine markers of the coins and the",
    "background. These markers are pixels that we can label",
    "unambiguously as either object or background. Here,",
)
LINES = ("Hello, world!", "OpenCL 3.0 and WebNN", "3.14159 = pi", "lower UPPER 42")


@pytest.fixture(scope="module")
def reader(context: webnn_cl.MLContext) -> text_reader.TextReader:
    member(RAPIDOCR, text_reader.DETECTOR)
    return text_reader.TextReader(context)


def joined(text: str) -> str:
    return "".join(text.split())


def line_picture(text: str) -> np.ndarray:
    """One line of black text as the networks take it, (1, 3, 48, 320), values -1..1."""
    image = Image.new("RGB", (320, 48), "white")
    ImageDraw.Draw(image).text((6, 6), text, fill="black", font=ImageFont.load_default(28))
    return np.asarray(image, np.float32).transpose(2, 0, 1)[None] / 127.5 - 1


def test_reads_rendered_lines_exactly(reader: text_reader.TextReader) -> None:
    lines, watch = reader.read(read_text.draw_picture(LINES))
    assert [joined(line.text) for line in lines] == [joined(text) for text in LINES]
    assert all(line.score > 0.8 for line in lines)
    assert list(watch.milliseconds) == ["upload", "detect", "boxes", "read"]


def test_reads_a_picture_upside_down(reader: text_reader.TextReader) -> None:
    lines, _ = reader.read(np.ascontiguousarray(read_text.draw_picture(LINES)[::-1, ::-1]))
    assert {joined(line.text) for line in lines} == {joined(text) for text in LINES}


def test_reads_a_photographed_page(reader: text_reader.TextReader) -> None:
    page = np.repeat(skimage.data.page()[..., None], 3, axis=2)
    lines, _ = reader.read(page)
    assert tuple(joined(line.text) for line in lines[:4]) == tuple(joined(text) for text in PAGE)


def test_finds_no_text_where_there_is_none(reader: text_reader.TextReader) -> None:
    assert reader.read(np.full((200, 300, 3), 240, np.uint8))[0] == []


def test_detector_against_onnxruntime(context: webnn_cl.MLContext) -> None:
    pixels = np.random.default_rng(0).uniform(-1, 1, (1, 3, 160, 256)).astype(np.float32)
    pixels[..., :160] = read_text.draw_picture(LINES)[:160, :160].transpose(2, 0, 1) / 127.5 - 1
    run_and_compare(member(RAPIDOCR, text_reader.DETECTOR), context, {"x": pixels})


def test_recognizer_against_onnxruntime(context: webnn_cl.MLContext) -> None:
    pixels = np.concatenate([line_picture(text) for text in LINES[:2]])
    run_and_compare(member(RAPIDOCR, text_reader.RECOGNIZER), context, {"x": pixels})


def test_classifier_tells_up_from_down(context: webnn_cl.MLContext) -> None:
    up = line_picture(LINES[1])[..., :192]
    pixels = np.concatenate([up, np.ascontiguousarray(up[:, :, ::-1, ::-1])])
    (turned,) = run_and_compare(member(RAPIDOCR, CLASSIFIER), context, {"x": pixels})
    assert turned[0, 0] > 0.9 and turned[1, 1] > 0.9
