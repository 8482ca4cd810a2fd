"""Classify with an ONNX model in three lines: which digit is drawn?

    python examples/classify.py

The model is the MNIST one that ships in the package qonnx (Apache-2.0); it is fetched by pip the first time.
"""

from __future__ import annotations

import numpy as np
from model_packages import QONNX

import webnn_cl

MODEL = "qonnx/data/onnx/mnist-conv/model.onnx"
STROKES = {  # rows of 7 points, drawn large enough to see
    3: (" ##### ", "     ##", "     ##", "  #### ", "     ##", "     ##", " ##### "),
    7: (" ######", "      #", "     # ", "     # ", "    #  ", "    #  ", "   #   "),
    1: ("   ##  ", "  ###  ", "   ##  ", "   ##  ", "   ##  ", "   ##  ", " ##### "),
    0: (" ##### ", "##   ##", "##   ##", "##   ##", "##   ##", "##   ##", " ##### "),
}


def drawn(rows: tuple[str, ...]) -> np.ndarray:
    """Strokes as MNIST has them: (1, 1, 28, 28), ink 255 on 0, three pixels a point."""
    points = np.array([[letter == "#" for letter in row] for row in rows], np.float32)
    return np.pad(np.kron(points, np.ones((3, 3), np.float32)) * 255, ((3, 4), (3, 4)))[None, None]


def main() -> None:
    """Classify each of the drawn digits."""
    session = webnn_cl.onnx.InferenceSession(QONNX.read(MODEL))
    for digit, rows in STROKES.items():
        (scores,) = session.run(None, {session.get_inputs()[0].name: drawn(rows)})
        print(f"drawn {digit}: read {scores.argmax()}")


if __name__ == "__main__":
    main()
