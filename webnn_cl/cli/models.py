"""What all commands that take a model share: its options, its session, and arrays for its inputs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import webnn_cl
from webnn_cl.cli.files import read_array
from webnn_cl.errors import MLTypeError

# ONNX type strings, as onnxruntime spells them, with the numpy type that a feed of them has.
ELEMENT_TYPES: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64,
    "tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(int16)": np.int16, "tensor(uint16)": np.uint16,
    "tensor(int32)": np.int32, "tensor(uint32)": np.uint32, "tensor(int64)": np.int64, "tensor(uint64)": np.uint64,
    "tensor(bool)": np.bool_,
}  # fmt: skip


@dataclass(frozen=True)
class InputInfo:
    """An input of a model: its name, numpy type, and dimensions (a number, or the name of a free one, or None)."""

    name: str
    dtype: np.dtype[Any]
    dims: tuple[int | str | None, ...]


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """MODEL, --shape, --free-dim, --device."""
    parser.add_argument("model", metavar="MODEL.onnx", type=Path, help="an ONNX model")
    parser.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1,3,224,224", type=named_shape, help="shape of an input"
    )
    parser.add_argument(
        "--free-dim", action="append", default=[], metavar="batch=1", type=named_size, help="size of a free dimension"
    )
    add_device_option(parser)


def add_device_option(parser: argparse.ArgumentParser) -> None:
    """--device."""
    parser.add_argument("--device", metavar="TEXT", help="a device's number in `webnn-cl devices`, or part of its name")


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """--input, --seed."""
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE", type=named_file,
        help=".npy; .png or .jpg (resized to the input, floats in 0..1); .wav (one channel, floats in -1..1)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="seed of the random inputs that no file is given for")


def split_pair(text: str, what: str) -> tuple[str, str]:
    """NAME=VALUE, at the last "=" since names may hold one."""
    name, equals, value = text.rpartition("=")
    if not (equals and name and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return name, value


def named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """NAME=1,3,224,224 (a scalar's shape is "()")."""
    name, value = split_pair(text, "NAME=1,3,224,224")
    try:
        sizes = tuple(int(size) for size in value.split(",")) if value != "()" else ()
    except ValueError:
        sizes = (0,)
    if any(size < 1 for size in sizes):
        raise argparse.ArgumentTypeError(f"{value!r} in {text!r} is not a list of sizes like 1,3,224,224")
    return name, sizes


def named_size(text: str) -> tuple[str, int]:
    """NAME=N."""
    name, value = split_pair(text, "NAME=NUMBER")
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"{value!r} in {text!r} is not a size")
    return name, int(value)


def named_file(text: str) -> tuple[str, Path]:
    """NAME=FILE, at the first "=" that leaves an existing file, else at the first."""
    cuts = [i for i, letter in enumerate(text) if letter == "=" and 0 < i < len(text) - 1]
    if not cuts:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE")
    cut = next((i for i in cuts if Path(text[i + 1 :]).is_file()), cuts[0])
    return text[:cut], Path(text[cut + 1 :])


def create_context(options: argparse.Namespace, *, profiling: bool = False) -> webnn_cl.MLContext:
    """A context on the device that --device names, or the default one."""
    return webnn_cl.ML().create_context(device=options.device, profiling=profiling)


def require_file(path: Path) -> None:
    """Raise FileNotFoundError, with a readable text, when a model is not there."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file")


def open_session(options: argparse.Namespace, context: webnn_cl.MLContext) -> webnn_cl.onnx.InferenceSession:
    """A session for the model with the shapes that were given; names that the model lacks are refused."""
    require_file(options.model)
    return webnn_cl.onnx.InferenceSession(
        str(options.model), context, free_dimensions=dict(options.free_dim), input_shapes=dict(options.shape)
    )


def input_infos(session: webnn_cl.onnx.InferenceSession) -> list[InputInfo]:
    """The inputs that a caller must feed."""
    infos = []
    for value in session.get_inputs():
        if value.type not in ELEMENT_TYPES:
            raise MLTypeError(f"input {value.name} has type {value.type}; tensors of numbers and booleans can be fed")
        infos.append(InputInfo(value.name, np.dtype(ELEMENT_TYPES[value.type]), tuple(value.shape)))
    return infos


def fill(info: InputInfo, options: argparse.Namespace) -> tuple[int | str | None, ...]:
    """The dimensions of an input with those known that options fix."""
    shapes, sizes = dict(options.shape), dict(options.free_dim)
    if info.name in shapes:
        return tuple(shapes[info.name])
    return tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in info.dims)


def make_inputs(infos: Sequence[InputInfo], options: argparse.Namespace) -> dict[str, NDArray[Any]]:
    """An array for each input: from its file, else random from the seed. Raises MLTypeError."""
    files: dict[str, Path] = dict(options.input)
    unknown = [name for name in files if name not in {info.name for info in infos}]
    if unknown:
        raise MLTypeError(f"--input: no input is named {unknown[0]!r}; there are: {', '.join(i.name for i in infos)}")
    generator = np.random.default_rng(options.seed)
    arrays = {}
    for info in infos:
        dims = fill(info, options)
        if info.name in files:
            arrays[info.name] = read_array(files[info.name], info.name, info.dtype, dims)
        else:
            arrays[info.name] = random_array(generator, info, dims)
    return arrays


def random_array(generator: np.random.Generator, info: InputInfo, dims: Sequence[int | str | None]) -> NDArray[Any]:
    """Normal floats; integers 0 and 1, which are in range wherever they may be indices; booleans."""
    shape = [dim for dim in dims if isinstance(dim, int) and dim > 0]
    if len(shape) != len(dims):
        free = ", ".join(str(dim) for dim in dims if not (isinstance(dim, int) and dim > 0))
        raise MLTypeError(
            f"input {info.name} has free dimensions ({free}): give --shape {info.name}=... or --free-dim NAME=SIZE"
        )
    if info.dtype.kind == "f":
        return generator.standard_normal(shape).astype(info.dtype)
    return generator.integers(0, 2, shape).astype(info.dtype)


def print_json(value: object) -> None:
    """Machine-readable output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def describe(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Names, types and shapes on one line."""
    return ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in arrays.items())
