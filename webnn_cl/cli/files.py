"""Arrays for a model's inputs out of .npy, picture and sound files."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webnn_cl.errors import MLTypeError

Dims = Sequence[int | str | None]
PICTURES = {".png", ".jpg", ".jpeg"}


def read_array(path: Path, name: str, dtype: np.dtype[Any], dims: Dims) -> NDArray[Any]:
    """The array of a file for the input `name`, of its type; free dimensions follow the file. Raises MLTypeError."""
    if not path.is_file():
        raise FileNotFoundError(f"--input {name}: {path} is not a file")
    kind = path.suffix.lower()
    if kind == ".npy":
        array = convert(read_npy(path), dtype, name)
    elif kind in PICTURES:
        array = read_picture(path, name, dtype, dims)
    elif kind == ".wav":
        array = read_sound(path, name, dtype, dims)
    else:
        raise MLTypeError(f"--input {name}: {path.name} is none of .npy, .png, .jpg, .wav")
    fits = len(array.shape) == len(dims) and all(
        want == size for want, size in zip(dims, array.shape, strict=True) if isinstance(want, int) and want > 0
    )
    if not fits:
        raise MLTypeError(f"--input {name}: {path.name} has shape {list(array.shape)}; the input is {shown(dims)}")
    return array


def shown(dims: Dims) -> str:
    """Dimensions for a message: free ones by their name or "?"."""
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in dims) + "]"


def read_npy(path: Path) -> NDArray[Any]:
    """A .npy file without pickled objects."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise MLTypeError(f"{path.name} is not a readable .npy file ({error})") from None
    if not isinstance(array, np.ndarray):
        raise MLTypeError(f"{path.name} holds several arrays; give one in a .npy file")
    return array


def convert(array: NDArray[Any], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """The array in the input's type when no value changes by it; float64 may be rounded to a narrower float."""
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in "fiub":
        raise MLTypeError(f"--input {name}: {array.dtype} can't be {dtype}")
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        same = np.array_equal(converted.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")
    if not same and not (array.dtype.kind == dtype.kind == "f"):
        raise MLTypeError(f"--input {name}: the {array.dtype} values of the file can't be {dtype} without change")
    return converted


def read_picture(path: Path, name: str, dtype: np.dtype[Any], dims: Dims) -> NDArray[Any]:
    """A picture in the input's layout (1 or 3 channels, first or last), resized where the input's size is fixed."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MLTypeError(f"--input {name}: reading {path.name} takes Pillow (pip install pillow)") from None
    channels_first, channels, height, width = picture_layout(name, dims)
    try:
        with Image.open(path) as image:
            turned = ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise MLTypeError(f"--input {name}: {path.name} is not a readable picture ({error})") from None
    size = (width or turned.width, height or turned.height)
    pixels = np.asarray(turned.resize(size, Image.Resampling.BILINEAR)).reshape(size[1], size[0], channels)
    if channels_first:
        pixels = pixels.transpose(2, 0, 1)
    if dtype.kind == "f":
        pixels = (pixels / 255).astype(dtype)
    shape = pixels.shape if len(dims) == 3 else (1, *pixels.shape)
    return np.ascontiguousarray(pixels.astype(dtype)).reshape(shape)


def picture_layout(name: str, dims: Dims) -> tuple[bool, int, int | None, int | None]:
    """Channels first?, channels, height and width (None: free) of an input that can take one picture."""
    inner = list(dims[-3:])
    fixed = [dim if isinstance(dim, int) and dim > 0 else None for dim in inner]
    if len(dims) in (3, 4):
        if fixed[0] in (1, 3):
            return True, int(fixed[0] or 0), fixed[1], fixed[2]
        if fixed[2] in (1, 3):
            return False, int(fixed[2] or 0), fixed[0], fixed[1]
    raise MLTypeError(f"--input {name}: a picture needs 1 or 3 channels, first or last; the input is {shown(dims)}")


def read_sound(path: Path, name: str, dtype: np.dtype[Any], dims: Dims) -> NDArray[Any]:
    """The samples of a .wav file as one channel, floats in -1..1, cut or zero-padded at its end to a fixed length."""
    samples = read_wav(path, name)
    if dtype.kind != "f":
        raise MLTypeError(f"--input {name}: a sound needs an input of floats; not {dtype}")
    if not dims or any(dim not in (1, None) and not isinstance(dim, str) for dim in dims[:-1]):
        raise MLTypeError(f"--input {name}: a sound needs an input of one row of samples; not {shown(dims)}")
    length = dims[-1] if isinstance(dims[-1], int) and dims[-1] > 0 else samples.size
    fitted = np.zeros(length, dtype)
    fitted[: samples.size] = samples[:length]
    return fitted.reshape([1] * (len(dims) - 1) + [length])


def read_wav(path: Path, name: str) -> NDArray[np.float32]:
    """Samples of 8, 16, 24 or 32 bits as floats in -1..1, the mean of all channels."""
    try:
        with wave.open(str(path), "rb") as file:
            width, channels = file.getsampwidth(), file.getnchannels()
            raw = np.frombuffer(file.readframes(file.getnframes()), np.uint8).reshape(-1, channels, width)
    except (wave.Error, EOFError, ValueError) as error:
        raise MLTypeError(f"--input {name}: {path.name} is not a readable .wav file ({error})") from None
    if width == 1:
        values = raw[..., 0].astype(np.float64) - 128
    else:
        high = raw[..., -1].view(np.int8).astype(np.float64) * 256.0 ** (width - 1)
        values = high + sum(raw[..., i] * 256.0**i for i in range(width - 1))
    mono: NDArray[np.float32] = (values / 2.0 ** (8 * width - 1)).mean(axis=1).astype(np.float32)
    return mono
