"""Read the text in a picture on any OpenCL device.

    python examples/read_text.py [PICTURE] [--device TEXT]

Two networks of PP-OCRv4 (Apache-2.0, from the package rapidocr-onnxruntime) find the lines of text and read them. The
picture goes to the device once: resizing, cutting out and decoding are the OpenCL kernels in ocr_kernels.cl, which run
on the very buffers of the networks' tensors, and only the map of text regions and the letters come back. Without a
picture one with known lines is drawn, and the truth is printed beside what was read.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from model_packages import RAPIDOCR, FetchError
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps
from text_reader import Line, TextReader

import webnn_cl

TRUTH = (
    "WebNN on any OpenCL device",
    "reads the text in a picture",
    "Order 66-1984: 3 pens, 12.50 EUR",
    "The quick brown fox jumps over",
    "the lazy dog (19 % VAT)",
)


def draw_picture(lines: tuple[str, ...] = TRUTH, size: int = 28) -> NDArray[np.uint8]:
    """A picture of lines of text, (height, width, 3)."""
    image = Image.new("RGB", (640, 36 + len(lines) * (size + 26)), (252, 250, 244))
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    for i, text in enumerate(lines):
        pen.text((28, 22 + i * (size + 26)), text, fill=(20, 24, 60), font=font)
    return np.asarray(image)


def load_picture(path: str) -> NDArray[np.uint8]:
    """A picture file as (height, width, 3), turned as its camera says."""
    with Image.open(path) as image:
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def say(text: str) -> None:
    """One line about what is going on, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def report(lines: list[Line], truth: tuple[str, ...] | None) -> bool:
    """Print what was read, beside the truth where it is known; False when they differ by more than spaces."""
    for i, line in enumerate(lines):
        print(f"{line.score:.2f}  {line.text}" + (f"   [truth: {truth[i]}]" if truth and i < len(truth) else ""))
    if truth is None:
        return True
    right = ["".join(line.text.split()) for line in lines] == ["".join(text.split()) for text in truth]
    print(f"{len(lines)} lines read, {'all as drawn' if right else 'NOT as drawn'}")
    return right


def main(arguments: list[str] | None = None) -> int:
    """Run the example; the exit status is 1 when something failed or a known picture was misread."""
    parser = argparse.ArgumentParser(description="Read the text in a picture on any OpenCL device.")
    parser.add_argument("picture", nargs="?", help="a picture file; without it one with known text is drawn")
    parser.add_argument("--device", help="part of a device's name, or its number in `webnn-cl devices`")
    options = parser.parse_args(arguments)
    try:
        picture = load_picture(options.picture) if options.picture else draw_picture()
        with webnn_cl.ML().create_context(device=options.device) as context:
            RAPIDOCR.path()  # fetched now, before anything is compiled
            say(f"Compiling two networks for {context.device.name} ...")
            start = time.perf_counter()
            reader = TextReader(context)
            reader.read(picture)  # the first time includes compiling
            first = time.perf_counter() - start
            lines, watch = reader.read(picture)
            right = report(lines, None if options.picture else TRUTH)
            print(f"{watch} on {context.device.name}; the first time took {first:.1f} s, compiling included")
            return 0 if right else 1
    except (FetchError, OSError, webnn_cl.MLError) as error:
        say(f"read_text: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
