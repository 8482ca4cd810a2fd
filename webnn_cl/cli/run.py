"""``webnn-cl run``: one inference."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webnn_cl.cli.models import (
    add_input_options,
    add_model_options,
    create_context,
    describe,
    input_infos,
    make_inputs,
    open_session,
)


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser("run", help="run a model once", description="Run a model once and show its outputs.")
    add_model_options(parser)
    add_input_options(parser)
    parser.add_argument("--save", metavar="DIR", type=Path, help="write each output to DIR/<name>.npy")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the model once; print a summary of each output, and save them when asked."""
    with create_context(options) as context:
        session = open_session(options, context)
        inputs = make_inputs(input_infos(session), options)
        names = [value.name for value in session.get_outputs()]
        outputs = dict(zip(names, session.run(None, inputs), strict=True))
        print(f"{options.model.name} on {context.device.name}: {describe(inputs)}")
        for name, array in outputs.items():
            print(f"  {name}: {summary(array)}")
            if options.save is not None:
                print(f"    saved: {save(options.save, name, array)}")
    return 0


def summary(array: NDArray[Any]) -> str:
    """Type, shape, range, mean and the first values of an array on one line."""
    head = f"{array.dtype}{list(array.shape)}"
    if array.size == 0:
        return f"{head} empty"
    numbers = array.astype(np.float64)
    parts = [head, f"min {numbers.min():.6g}", f"max {numbers.max():.6g}", f"mean {numbers.mean():.6g}"]
    if array.size > 1:
        parts.append(f"argmax {int(array.argmax())}")
    shown = " ".join(f"{value:.6g}" for value in numbers.ravel()[:6])
    return ", ".join(parts) + f"  [{shown}{' ...' if array.size > 6 else ''}]"


def save(folder: Path, name: str, array: NDArray[Any]) -> Path:
    """Write an array to a .npy file named after the output, which may hold characters that file names can't."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (re.sub(r"[^\w.\-]", "_", name) + ".npy")
    np.save(path, array)
    return path
