"""Resize and Upsample.

Source positions depend on sizes only, so each axis is a table made on the host: nearest takes elements by index, the
others are weighted sums of elements. Tables that WebNN's resample2d shares go to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.operators.common import reshape
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.onnx.values import Array
    from webnn_cl.operand import MLOperand

__all__: list[str] = []


@dataclass(frozen=True)
class _Axis:
    """One axis to resize."""

    axis: int
    size: int
    result: int
    scale: float
    roi: tuple[float, float]


@op("Upsample")
def upsample(c: Call) -> Any:
    """Resize with asymmetric positions."""
    scales = c.reals("scales") if c.version < 9 else c.known_floats(1, "scales")
    if scales is None:
        scales = [1.0, 1.0, c.real("height_scale", 1.0), c.real("width_scale", 1.0)]
    axes = _scaled(c, list(range(c.rank(0))), scales)
    mode = {"bilinear": "linear"}.get(c.text("mode", "nearest"), c.text("mode", "nearest"))
    return _resize(c, axes, mode, "asymmetric", "floor")


@op("Resize")
def resize(c: Call) -> Any:
    rank = c.rank(0)
    axes = c.axes(c.integers("axes") or list(range(rank)), rank)
    mode = c.text("mode", "nearest")
    if c.version < 11:
        found = _scaled(c, axes, c.known_floats(1, "scales"))
        return _resize(c, found, mode, "asymmetric", "floor")
    coordinates = c.text("coordinate_transformation_mode", "half_pixel")
    roi = _roi(c, coordinates, len(axes))
    if c.has(3) and math.prod(c.shape(3)) > 0:
        found = _sized(c, axes, c.known_ints(3, "sizes"), roi)
    else:
        found = _scaled(c, axes, c.known_floats(2, "scales"), roi)
    return _resize(c, found, mode, coordinates, c.text("nearest_mode", "round_prefer_floor"))


def _roi(c: Call, coordinates: str, count: int) -> list[tuple[float, float]]:
    if coordinates != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    values = c.known_floats(1, "roi")
    if len(values) != 2 * count:
        c.refuse(f"roi of {len(values)} values for {count} axes")
    return list(zip(values[:count], values[count:], strict=True))


def _scaled(
    c: Call, axes: Sequence[int], scales: Sequence[float], roi: Sequence[tuple[float, float]] = ()
) -> list[_Axis]:
    if len(scales) != len(axes) or min(scales) <= 0:
        c.refuse(f"scales {list(scales)} for {len(axes)} axes")
    found = []
    for i, (axis, scale) in enumerate(zip(axes, scales, strict=True)):
        size, crop = c.shape(0)[axis], roi[i] if roi else (0.0, 1.0)
        found.append(_Axis(axis, size, math.floor(size * (crop[1] - crop[0]) * scale), scale, crop))
    return found


def _sized(c: Call, axes: Sequence[int], sizes: Sequence[int], roi: Sequence[tuple[float, float]]) -> list[_Axis]:
    if len(sizes) != len(axes):
        c.refuse(f"sizes {list(sizes)} for {len(axes)} axes")
    old = [c.shape(0)[a] for a in axes]
    ratios = [s / o for s, o in zip(sizes, old, strict=True)]
    policy = c.text("keep_aspect_ratio_policy", "stretch")
    if policy in ("not_larger", "not_smaller"):
        scale = min(ratios) if policy == "not_larger" else max(ratios)
        return [_Axis(a, o, math.floor(scale * o + 0.5), scale, r) for a, o, r in zip(axes, old, roi, strict=True)]
    if policy != "stretch":
        c.refuse(f"keep_aspect_ratio_policy {policy!r}")
    return [_Axis(*v) for v in zip(axes, old, sizes, ratios, roi, strict=True)]


def _resize(c: Call, axes: list[_Axis], mode: str, coordinates: str, rounding: str) -> Any:
    if any(a.result < 1 for a in axes):
        c.refuse(f"sizes {[a.result for a in axes]}")
    x = c.x(0)
    if mode == "nearest":
        return c.tensor(_nearest(c, x, axes, coordinates, rounding), c.dtype(0))
    if mode not in ("linear", "cubic"):
        c.refuse(f"mode {mode!r}")
    tables = [(a, _table(c, a, mode, coordinates)) for a in axes]
    if x.data_type not in ("float32", "float16"):
        c.refuse(f"mode {mode!r} of {c.dtype(0)}")
    changed = [(a, t) for a, t in tables if not _is_identity(t)]
    direct = _as_resample(c, x, changed) if coordinates != "tf_crop_and_resize" else None
    y = direct if direct is not None else _weighted(c, x, changed)
    return _extrapolated(c, y, axes) if coordinates == "tf_crop_and_resize" else y


# Positions --------------------------------------------------------------------------------------------------


def _positions(c: Call, a: _Axis, coordinates: str) -> Array:
    """For each result element the position in the input, as the operator's text gives it."""
    out = np.arange(a.result, dtype=np.float64)
    length = a.scale * a.size
    if coordinates == "half_pixel":
        return (out + 0.5) / a.scale - 0.5
    if coordinates == "pytorch_half_pixel":
        return (out + 0.5) / a.scale - 0.5 if length > 1 else np.zeros_like(out)
    if coordinates == "half_pixel_symmetric":
        adjustment = a.result / length
        return a.size / 2 * (1 - adjustment) + (out + 0.5) / a.scale - 0.5
    if coordinates == "align_corners":
        return out * (a.size - 1) / (length - 1) if length > 1 else np.zeros_like(out)
    if coordinates == "asymmetric":
        return out / a.scale
    if coordinates == "tf_half_pixel_for_nn":
        return (out + 0.5) / a.scale
    if coordinates == "tf_crop_and_resize":
        return _crop_positions(a, out)
    return c.refuse(f"coordinate_transformation_mode {coordinates!r}")


def _crop_positions(a: _Axis, out: Array) -> Array:
    start, end = a.roi
    if a.result > 1:
        return np.asarray(start * (a.size - 1) + out * (end - start) * (a.size - 1) / (a.result - 1))
    return np.full_like(out, 0.5 * (start + end) * (a.size - 1))


def _nearest(c: Call, x: MLOperand, axes: list[_Axis], coordinates: str, rounding: str) -> MLOperand:
    tables = []
    for a in axes:
        at = _positions(c, a, coordinates)
        # Sizes are rounded numbers: a position a hair beside a tie or a whole number means that number.
        near = np.round(at, 5)
        rounded = {
            "round_prefer_floor": np.ceil(near - 0.5),
            "round_prefer_ceil": np.floor(near + 0.5),
            "floor": np.floor(near),
            "ceil": np.ceil(near),
        }.get(rounding)
        if rounded is None:
            c.refuse(f"nearest_mode {rounding!r}")
        index = np.clip(rounded, 0, a.size - 1).astype(np.int32)
        if a.result != a.size or np.any(index != np.arange(a.size)):
            tables.append((a, index))
    outside = coordinates == "tf_crop_and_resize"
    y = None if outside else _nearest_resample(c, x, tables)
    if y is None:
        y = x
        for a, index in tables:
            y = c.b.gather(y, c.constant(index), axis=a.axis)
    return _extrapolated(c, y, axes) if outside else y


def _nearest_resample(c: Call, x: MLOperand, tables: list[tuple[_Axis, Array]]) -> MLOperand | None:
    """resample2d where it picks the very same elements."""
    if not 1 <= len(tables) <= 2 or len(x.shape) != 4 or x.data_type not in ("float32", "float16", "uint8", "int8"):
        return None
    for a, index in tables:
        at = np.clip((np.arange(a.result) + 0.5) * a.size / a.result - 0.5, 0, a.size - 1)
        if np.any(np.ceil(np.round(at - 0.5, 5)).astype(np.int32) != index) or np.any(np.abs((at - 0.5) % 1) < 1e-6):
            return None
    return _resample(c, x, [a for a, _ in tables], "nearest-neighbor")


def _resample(c: Call, x: MLOperand, axes: list[_Axis], mode: Any) -> MLOperand:
    sizes = {a.axis: a.result for a in axes}
    for other in (3, 2, 1, 0):
        if len(sizes) < 2:
            sizes.setdefault(other, x.shape[other])
    order = sorted(sizes)
    return c.b.resample2d(x, mode=mode, sizes=[sizes[i] for i in order], axes=order)


# Weighted sums ----------------------------------------------------------------------------------------------


def _table(c: Call, a: _Axis, mode: str, coordinates: str) -> Array:
    """The weights [result, input] of one axis."""
    at = _positions(c, a, coordinates)
    stretch = max(1.0, 1.0 / a.scale) if c.integer("antialias") else 1.0
    reach = 1.0 if mode == "linear" else 2.0
    first = np.floor(at - reach * stretch).astype(np.int64)
    taps = first[:, None] + np.arange(1, math.ceil(2 * reach * stretch) + 2)
    distance = (at[:, None] - taps) / stretch
    weights = _triangle(distance) if mode == "linear" else _cubic(distance, c.real("cubic_coeff_a", -0.75))
    inside = (taps >= 0) & (taps < a.size)
    if c.integer("exclude_outside"):
        weights = np.where(inside, weights, 0)
    total = weights.sum(axis=1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    table = np.zeros((a.result, a.size))
    rows = np.broadcast_to(np.arange(a.result)[:, None], taps.shape)
    np.add.at(table, (rows, np.clip(taps, 0, a.size - 1)), weights)
    return table


def _triangle(distance: Array) -> Array:
    return np.asarray(np.maximum(0, 1 - np.abs(distance)))


def _cubic(distance: Array, a: float) -> Array:
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.array(np.where(d <= 1, near, np.where(d < 2, far, 0)))


def _is_identity(table: Array) -> bool:
    return table.shape[0] == table.shape[1] and bool(np.allclose(table, np.eye(len(table)), atol=1e-9))


def _as_resample(c: Call, x: MLOperand, tables: list[tuple[_Axis, Array]]) -> MLOperand | None:
    """resample2d where its half-pixel weights are the same numbers."""
    if not 1 <= len(tables) <= 2 or len(x.shape) != 4:
        return None
    for a, table in tables:
        at = np.clip((np.arange(a.result) + 0.5) * a.size / a.result - 0.5, 0, a.size - 1)
        if not np.allclose(table, _triangle(at[:, None] - np.arange(a.size)), atol=1e-6):
            return None
    return _resample(c, x, [a for a, _ in tables], "linear")


def _weighted(c: Call, x: MLOperand, tables: list[tuple[_Axis, Array]]) -> MLOperand:
    for a, table in tables:
        x = _two_taps(c, x, a, table) if np.count_nonzero(table, axis=1).max() <= 2 else _product(c, x, a, table)
    return x


def _two_taps(c: Call, x: MLOperand, a: _Axis, table: Array) -> MLOperand:
    """lower + (upper - lower) * t of two gathered neighbours."""
    lower = (table != 0).argmax(axis=1)
    weight = 1 - table[np.arange(a.result), lower]
    upper = np.minimum(lower + 1, a.size - 1)
    low, high = (c.b.gather(x, c.constant(i.astype(np.int32)), axis=a.axis) for i in (lower, upper))
    shape = [a.result if i == a.axis else 1 for i in range(len(x.shape))]
    t = c.constant(weight.astype(x.data_type).reshape(shape))
    one_minus = c.constant((1 - weight).astype(x.data_type).reshape(shape))
    return c.b.add(c.b.mul(low, one_minus), c.b.mul(high, t))


def _product(c: Call, x: MLOperand, a: _Axis, table: Array) -> MLOperand:
    """The table times the axis, as a matrix product."""
    weights = c.constant(np.ascontiguousarray(table.astype(x.data_type)))
    rank = len(x.shape)
    if a.axis == rank - 1:
        return c.b.matmul(x if rank > 1 else reshape(c, x, (1, a.size)), c.b.transpose(weights))
    lead, inner = x.shape[: a.axis], math.prod(x.shape[a.axis + 1 :])
    flat = reshape(c, x, (math.prod(lead), a.size, inner))
    return reshape(c, c.b.matmul(weights, flat), (*lead, a.result, *x.shape[a.axis + 1 :]))


def _extrapolated(c: Call, x: MLOperand, axes: list[_Axis]) -> MLOperand:
    """tf_crop_and_resize gives positions outside the input a fixed value."""
    inside = np.ones((), bool)
    for a in sorted(axes, key=lambda a: a.axis):
        at = _crop_positions(a, np.arange(a.result, dtype=np.float64))
        inside = np.logical_and.outer(inside, (at >= 0) & (at <= a.size - 1))
    shape = [1] * len(x.shape)
    for a in axes:
        shape[a.axis] = a.result
    if inside.all():
        return x
    mask = c.constant(inside.reshape(shape).astype(np.uint8))
    return c.b.where(mask, x, c.scalar(c.real("extrapolation_value"), x))


