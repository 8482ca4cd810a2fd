"""Comparison of results as the vectors' README prescribes it: ULP or ATOL with one number per case, or exact bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def ordered(x: Array) -> Array:
    """Position of each float in the ordered sequence of its type (+0 and -0 share position 0); integers as they are."""
    if x.dtype.kind != "f":
        return x.astype(object)
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.int64(-(2 ** (8 * x.dtype.itemsize - 1))) - bits, bits)


def ulp_distance(actual: Array, expected: Array) -> Array:
    """Distance in representable values; 0 for two NaNs, a huge number for a NaN against a number."""
    distance = np.abs(ordered(actual) - ordered(expected))
    if actual.dtype.kind != "f":
        return distance
    nan_a, nan_e = np.isnan(actual), np.isnan(expected)
    return np.where(nan_a & nan_e, 0, np.where(nan_a | nan_e, 2**40, distance))


def _wrong(actual: Array, expected: Array, tolerance: Mapping[str, Any], exact: bool) -> Array:
    if exact and actual.dtype.kind == "f":
        same_bits = actual.view(f"u{actual.dtype.itemsize}") == expected.view(f"u{expected.dtype.itemsize}")
        return ~(same_bits | (np.isnan(actual) & np.isnan(expected)))
    if exact:
        return actual != expected
    if tolerance["metricType"] == "ULP":
        return ulp_distance(actual, expected) > tolerance["value"]
    with np.errstate(all="ignore"):
        near = np.abs(actual.astype(np.float64) - expected.astype(np.float64)) <= tolerance["value"]
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    return ~(near | same)


def mismatch(name: str, actual: Array, expected: Array, tolerance: Mapping[str, Any], exact: bool) -> str | None:
    """None when the output is right, else a line that says what is wrong with it."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{name}: got {actual.dtype}{list(actual.shape)}, expected {expected.dtype}{list(expected.shape)}"
    a, e = np.ascontiguousarray(actual).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    wrong = np.flatnonzero(_wrong(a, e, tolerance, exact).astype(bool))
    if not wrong.size:
        return None
    at = wrong[0]
    rule = "bits" if exact else f"{tolerance['metricType']} {tolerance['value']}"
    worst = max(ulp_distance(a, e)[wrong])
    return (
        f"{name}: {wrong.size} of {a.size} differ by more than {rule} (worst {worst} ULP); "
        f"first at {at}: got {a[at]!r}, expected {e[at]!r}"
    )
