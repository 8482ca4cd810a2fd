"""Casting (operators.json: casting). Not the parameter cast: this one truncates and wraps."""

from __future__ import annotations

import numpy as np

from tests.reference.numbers import Array, is_float, saturate
from tests.reference.registry import operator


@operator("data_type")
def cast(input: Array, data_type: str) -> Array:
    if is_float(input.dtype) and not is_float(data_type):
        return saturate(np.trunc(input.astype(np.float64)), data_type)  # saturation and NaN -> 0: gap 25
    return input.astype(data_type)  # nearest even to floats; the low bits between integers
