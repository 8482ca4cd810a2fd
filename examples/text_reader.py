"""Finding and reading lines of text with the two PP-OCRv4 networks and the user's own kernels; see read_text.py."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyopencl as cl
from model_packages import RAPIDOCR
from numpy.typing import NDArray
from text_boxes import TextBox, find_text_boxes

import webnn_cl

MODELS = "rapidocr_onnxruntime/models/"
DETECTOR = MODELS + "ch_PP-OCRv4_det_infer.onnx"
RECOGNIZER = MODELS + "ch_PP-OCRv4_rec_infer.onnx"
LINE_HEIGHT = 48  # rows of the recognizer's input
COLUMNS_PER_STEP = 8  # one column of letter scores for this many columns of its input
WIDTH_STEP = 160  # line pictures are padded to a multiple of this, so that few network shapes are compiled
BATCH = 8  # lines read at once
UNSURE = 0.7  # a line that reads worse is tried upside down too
SMALLEST, LARGEST = 736, 1920  # the detector gets a picture whose longer side lies between these


@dataclass(frozen=True)
class Line:
    """One line of text: what it says, how sure the network is (0..1), and where it is in the picture."""

    text: str
    score: float
    box: TextBox


class Stopwatch:
    """Adds up wall time in milliseconds per step of the work."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a block under a name."""
        start = time.perf_counter()
        yield
        self.milliseconds[name] = self.milliseconds.get(name, 0.0) + (time.perf_counter() - start) * 1e3

    def __str__(self) -> str:
        steps = ", ".join(f"{name} {ms:.0f}" for name, ms in self.milliseconds.items())
        return f"{sum(self.milliseconds.values()):.0f} ms ({steps})"


class OwnKernels:
    """The two kernels of ocr_kernels.cl, built for a context and enqueued on tensors that it hands out."""

    def __init__(self, context: webnn_cl.MLContext) -> None:
        self.context = context
        source = Path(__file__).with_name("ocr_kernels.cl").read_text(encoding="utf-8")
        program = cl.Program(context.cl_context, source).build()
        self.cut_out_kernel, self.arg_max_kernel = cl.Kernel(program, "cut_out"), cl.Kernel(program, "arg_max")

    def cut_out(self, picture: webnn_cl.MLTensor, boxes: webnn_cl.MLTensor, out: webnn_cl.MLTensor) -> None:
        """Straighten each of the boxes (n, 9) of a picture (height, width, 3) into out (n, 3, rows, columns)."""
        height, width, _ = picture.shape
        count, _, rows, columns = out.shape
        with self.lend(picture, boxes, out) as (queue, source, quads, target):
            self.enqueue(queue, self.cut_out_kernel, count * rows * columns, source, np.int32(height), np.int32(width),
                         quads, target, np.int32(count), np.int32(rows), np.int32(columns))  # fmt: skip

    def arg_max(self, scores: webnn_cl.MLTensor, best: webnn_cl.MLTensor, value: webnn_cl.MLTensor) -> None:
        """The best class of each step (n, steps, classes) and its score, both (n, steps)."""
        count, steps, classes = scores.shape
        with self.lend(scores, best, value) as (queue, source, index, maximum):
            self.enqueue(queue, self.arg_max_kernel, count * steps, source, np.int32(count * steps), np.int32(classes),
                         index, maximum)  # fmt: skip

    @contextlib.contextmanager
    def lend(self, *tensors: webnn_cl.MLTensor) -> Iterator[tuple]:
        """The context's queue and the buffers of tensors, ours until the block ends."""
        with contextlib.ExitStack() as stack:
            leases = [stack.enter_context(self.context.export_tensor(tensor)) for tensor in tensors]
            yield (leases[0].queue, *(lease.buffer for lease in leases))

    @staticmethod
    def enqueue(queue: cl.CommandQueue, kernel: cl.Kernel, items: int, *arguments: object) -> None:
        """Run a kernel over at least this many work-items, in groups of 64; nothing waits for it."""
        kernel(queue, (-(-items // 64) * 64,), (64,), *arguments)


class TextReader:
    """Finds and reads lines of text with two networks on one context."""

    def __init__(self, context: webnn_cl.MLContext) -> None:
        self.context = context
        self.kernels = OwnKernels(context)
        self.detector = webnn_cl.onnx.InferenceSession(RAPIDOCR.read(DETECTOR), context)
        self.recognizer = webnn_cl.onnx.InferenceSession(RAPIDOCR.read(RECOGNIZER), context)
        letters = self.recognizer.get_modelmeta().custom_metadata_map["character"].splitlines()
        self.alphabet = ["", *letters, " "]  # class 0 separates letters

    def read(self, picture: NDArray[np.uint8]) -> tuple[list[Line], Stopwatch]:
        """The lines of a picture (height, width, 3: RGB) in reading order, and how long each step took."""
        watch = Stopwatch()
        with watch.step("upload"):
            on_device = self.tensor(picture.shape, "uint8", writable=True)
            self.context.write_tensor(on_device, picture)
        with watch.step("detect"):
            probability = self.detect(on_device)
        with watch.step("boxes"):
            boxes = self.boxes(probability, on_device.shape)
        with watch.step("read"):
            texts = self.read_boxes(on_device, boxes)
            weak = [i for i, (_, score) in enumerate(texts) if score < UNSURE]
            turned = [boxes[i].upside_down() for i in weak]
            for i, box, text in zip(weak, turned, self.read_boxes(on_device, turned), strict=True):
                if text[1] > texts[i][1]:
                    boxes[i], texts[i] = box, text
        on_device.destroy()
        return [Line(*text, box) for text, box in zip(texts, boxes, strict=True) if text[0]], watch

    def read_boxes(self, picture: webnn_cl.MLTensor, boxes: list[TextBox]) -> list[tuple[str, float]]:
        """Text and score of each box, a batch of similar widths at a time."""
        texts: dict[int, tuple[str, float]] = {}
        for width, members in batches([line_width(box) for box in boxes]):
            texts |= zip(members, self.recognize(picture, [boxes[i] for i in members], width), strict=True)
        return [texts[i] for i in range(len(boxes))]

    def detect(self, picture: webnn_cl.MLTensor) -> NDArray[np.float32]:
        """Probability of text over a resized picture, (rows, columns)."""
        height, width, _ = picture.shape
        rows, columns = detector_size(height, width)
        whole = TextBox(np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32), 1.0)
        with self.tensor((1, 1, rows, columns), readable=True) as probability:
            with self.tensor((1, 3, rows, columns)) as pixels:
                self.cut_out(picture, [whole], [columns], pixels)
                self.detector.run_tensors(
                    {self.detector.get_inputs()[0].name: pixels}, {self.detector.get_outputs()[0].name: probability}
                )
            return self.context.read_tensor(probability)[0, 0]

    @staticmethod
    def boxes(probability: NDArray[np.float32], shape: tuple[int, ...]) -> list[TextBox]:
        """Boxes of lines in pixels of the picture, each turned so that its text runs along the first side."""
        scale = np.array([shape[1], shape[0]]) / probability.shape[::-1]
        return [TextBox((box.corners + 0.5) * scale, box.score).upright() for box in find_text_boxes(probability)]

    def recognize(self, picture: webnn_cl.MLTensor, boxes: list[TextBox], width: int) -> list[tuple[str, float]]:
        """Text and score of each box."""
        count, steps = len(boxes), width // COLUMNS_PER_STEP
        with contextlib.ExitStack() as stack:
            pixels = stack.enter_context(self.tensor((count, 3, LINE_HEIGHT, width)))
            scores = stack.enter_context(self.tensor((count, steps, len(self.alphabet))))
            best = stack.enter_context(self.tensor((count, steps), "int32", readable=True))
            value = stack.enter_context(self.tensor((count, steps), readable=True))
            self.cut_out(picture, boxes, [line_width(box) for box in boxes], pixels)
            self.recognizer.run_tensors(
                {self.recognizer.get_inputs()[0].name: pixels}, {self.recognizer.get_outputs()[0].name: scores}
            )
            self.kernels.arg_max(scores, best, value)
            return [
                self.spell(index, score)
                for index, score in zip(self.context.read_tensor(best), self.context.read_tensor(value), strict=True)
            ]

    def cut_out(
        self, picture: webnn_cl.MLTensor, boxes: list[TextBox], widths: list[int], out: webnn_cl.MLTensor
    ) -> None:
        """Boxes of the picture, straightened into the network input `out`, each as wide as told."""
        rows = [[*box.corners.ravel(), width] for box, width in zip(boxes, widths, strict=True)]
        with self.tensor((len(rows), 9), writable=True) as quads:
            self.context.write_tensor(quads, np.array(rows, np.float32))
            self.kernels.cut_out(picture, quads, out)

    def spell(self, classes: NDArray[np.int32], scores: NDArray[np.float32]) -> tuple[str, float]:
        """Letters of one line: repeats count once, class 0 separates; the score is the letters' mean."""
        kept = (classes != 0) & (np.diff(classes, prepend=-1) != 0)
        text = "".join(self.alphabet[i] for i in classes[kept]).strip()
        return text, float(scores[kept].mean()) if kept.any() else 0.0

    def tensor(self, shape: tuple[int, ...], data_type: str = "float32", **usage: bool) -> webnn_cl.MLTensor:
        """A tensor that our own kernels may use."""
        return self.context.create_tensor(shape, data_type, exportable=True, **usage)


def detector_size(height: int, width: int) -> tuple[int, int]:
    """Rows and columns of the detector's input: multiples of 32, the longer side neither too small nor too large."""
    longer = max(height, width)
    ratio = min(max(longer, SMALLEST), LARGEST) / longer
    return max(32, round(height * ratio / 32) * 32), max(32, round(width * ratio / 32) * 32)


def line_width(box: TextBox) -> int:
    """Columns that a line fills when its height is scaled to the recognizer's."""
    return min(max(int(np.ceil(LINE_HEIGHT * box.width / max(box.height, 1.0))), 1), 16 * WIDTH_STEP)


def batches(widths: list[int]) -> Iterator[tuple[int, list[int]]]:
    """Groups of lines to read at once: their common padded width, and their numbers."""
    order = sorted(range(len(widths)), key=lambda i: widths[i])
    for start in range(0, len(order), BATCH):
        members = order[start : start + BATCH]
        yield max(2, -(-widths[members[-1]] // WIDTH_STEP)) * WIDTH_STEP, members
