"""Reads the web-platform-tests vectors (JSON) that live beside the repository; see README.md in that folder.

The folder is `../shared/wpt` relative to the repository, or the one named by the variable WEBNN_CL_WPT. Nothing here
knows of webnn_cl: the same cases drive the library and the reference models.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Case = dict[str, Any]
Apply = Callable[[str, Sequence[Any], Mapping[str, Any]], Sequence[Any]]

NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf"), "-0": -0.0}
BIGINT = re.compile(r"-?\d+")


def folder() -> Path:
    """Folder of the vectors; it may not exist."""
    named = os.environ.get("WEBNN_CL_WPT")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "wpt"


def why_absent() -> str | None:
    """None when the vectors are there, else the reason to skip."""
    if (folder() / "conformance").is_dir():
        return None
    return f"no WPT vectors: {folder()} has no folder 'conformance' (set WEBNN_CL_WPT to the folder that has)"


@cache
def files(kind: str) -> dict[str, list[Case]]:
    """Cases of every file of a kind ("conformance" or "validation") by the file's base name; empty when absent."""
    found = {}
    for path in sorted((folder() / kind).glob("*.json")):
        found[path.stem] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return found


def cases(kind: str) -> Iterator[tuple[str, Case]]:
    """(file, case) for all cases of a kind."""
    for name, content in files(kind).items():
        for case in content:
            yield name, case


def python_name(name: str) -> str:
    """Python name of a builder method, argument or option: snake_case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("NaN", "Nan")).lower()


def number(value: Any) -> Any:
    """A scalar of the vectors: numbers pass, named values and BigInt digits are converted, other strings stay."""
    if not isinstance(value, str):
        return value
    if value in NUMBERS:
        return NUMBERS[value]
    return int(value) if BIGINT.fullmatch(value) else value


def array(tensor: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Array of a tensor entry; numbers are rounded to the data type, a single value fills the shape."""
    shape, data_type = tuple(tensor["shape"]), tensor["dataType"]
    data = tensor["data"]
    values = [number(v) for v in data] if isinstance(data, list) else [number(data)]
    if np.dtype(data_type).kind == "f":
        with np.errstate(over="ignore"):
            flat = np.array([float(v) for v in values], np.float64).astype(data_type)
    else:
        flat = np.array([int(v) for v in values], data_type)
    return flat.reshape(shape) if isinstance(data, list) else np.full(shape, flat[0], data_type)


def _resolve(value: Any, known: Mapping[str, Any]) -> Any:
    """A string that names an operand means the operand, also inside lists; every other value is plain."""
    if isinstance(value, list):
        return [_resolve(item, known) for item in value]
    if isinstance(value, str) and value in known:
        return known[value]
    return number(value)


def run(case: Case, operands: Mapping[str, Any], apply: Apply) -> dict[str, Any]:
    """Go through the operators of a conformance case; returns all named values. `operands` holds the case's inputs."""
    known = dict(operands)
    for step in case["operators"]:
        positional, options = [], {}
        for argument in step["arguments"]:
            ((key, value),) = argument.items()
            if key == "options":
                options = {python_name(k): _resolve(v, known) for k, v in value.items()}
            else:
                positional.append(_resolve(value, known))
        results = apply(python_name(step["name"]), positional, options)
        names = step["outputs"] if isinstance(step["outputs"], list) else [step["outputs"]]
        known.update(zip(names, results, strict=True))
    return known
