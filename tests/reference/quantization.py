"""Blockwise quantization (operators.json: quantization)."""

from __future__ import annotations

import numpy as np

from tests.reference.numbers import Array, wide
from tests.reference.registry import operator


def _blocks(x: Array, shape: tuple[int, ...]) -> Array:
    """Repeat each element over its block: index // (shape / x.shape) in every dimension."""
    for axis, size in enumerate(shape):
        x = np.repeat(x, size // x.shape[axis], axis=axis)
    return x


@operator("scale")
def dequantize_linear(input: Array, scale: Array, zero_point: Array) -> Array:
    s, zero = _blocks(wide(scale), input.shape), _blocks(zero_point, input.shape)
    return (input.astype(np.float64) - zero.astype(np.float64)) * s  # 32-bit integers are exact in float64


@operator("zero_point")
def quantize_linear(input: Array, scale: Array, zero_point: Array) -> Array:
    s, zero = _blocks(wide(scale), input.shape), _blocks(zero_point, input.shape)
    info = np.iinfo(zero_point.dtype)
    total = np.rint(wide(input) / s) + zero.astype(np.float64)
    return np.clip(np.nan_to_num(total, nan=0.0, posinf=np.inf, neginf=-np.inf), info.min, info.max)
