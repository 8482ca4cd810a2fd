"""Value recipes of test tensors: a recipe is a word (with an optional argument after a colon) or a list of numbers.

| recipe | floats | integers |
|---|---|---|
| small | normal, standard deviation 2 | -9..9 (unsigned: 0..9) |
| wide | both signs, magnitudes over the whole range, log-uniform | the whole range |
| edges | NaN, infinities, zeros, subnormals, ties, extremes | extremes, powers of two and their neighbours |
| rows, columns | each row (column) of a matrix one edge value: all pairs when added up | the same |
| finite | as edges without NaN and infinities | as edges |
| positive | uniform 0.25..4 | 1..9 |
| unit | uniform -1..1 | -1..1 |
| near_one | uniform 0.9..1.1 | -1 or 1 (unsigned: 1) |
| bool | - | 0, 1, 2, 255 |
| ties | small integers with many repetitions | the same |
| nan | as small, every fifth one NaN or infinite | as small |
| ramp | 0, 1, 2, ... | the same, wrapping |
| scale | powers of two and uniform 0.01..1 | - |
| fill:X | X everywhere | the same |
| range:A:B | uniform A..B | integers A..B, B included |
| index:N | - | valid indices -N..N-1 (unsigned: 0..N-1) |
| wild:N | - | the same and far outside of it |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
Recipe = str | Sequence[Any]


def _is_float(data_type: str) -> bool:
    return data_type.startswith("float")


def edge_values(data_type: str) -> Array:
    """Every value where an implementation may go wrong."""
    if _is_float(data_type):
        info = np.finfo(data_type)
        tiny, normal, top = float(info.smallest_subnormal), float(info.smallest_normal), float(info.max)
        magnitudes = [0.0, tiny, 3 * tiny, normal, 1e-3, 0.5, 1.0, 1.5, 2.5, 3.5, 7.0, 88.0, 1e3, 65504.0, top, np.inf]
        with np.errstate(over="ignore"):
            half = np.array(magnitudes, np.float64).astype(data_type)
        return np.concatenate([half, -half, np.array([np.nan], data_type)])
    info_i = np.iinfo(data_type)
    low, high = int(info_i.min), int(info_i.max)
    near = [0, 1, 2, 3, 5, 7, 8, 63, 64, 100, 2**15, 2**16 - 1, 2**24 + 1, 2**31, 2**53 + 1, 2**62, 2**63]
    values = {*near, *(-v for v in near), low, low + 1, high - 1, high}
    return np.array(sorted(v for v in values if low <= v <= high), data_type)


def finite_edges(data_type: str) -> Array:
    """The edge values that are numbers."""
    edges = edge_values(data_type)
    return edges[np.isfinite(edges)] if _is_float(data_type) else edges


def _cycle(values: Array, count: int, rng: Rng) -> Array:
    """All of `values` in their order as far as they fit, random ones of them after that."""
    rest = rng.choice(values, max(0, count - values.size))
    return np.concatenate([values, rest])[:count].astype(values.dtype)


def _integers(low: int, high: int, count: int, data_type: str, rng: Rng) -> Array:
    low, high = max(low, int(np.iinfo(data_type).min)), min(high, int(np.iinfo(data_type).max))
    return rng.integers(low, high, count, dtype=data_type, endpoint=True)


def _uniform(low: float, high: float) -> Callable[[int, str, Rng], Array]:
    def draw(count: int, data_type: str, rng: Rng) -> Array:
        if not _is_float(data_type):
            return _integers(int(np.ceil(low)), int(np.floor(high)), count, data_type, rng)
        return rng.uniform(low, high, count).astype(data_type)

    return draw


def _small(count: int, data_type: str, rng: Rng) -> Array:
    if _is_float(data_type):
        return (2.0 * rng.standard_normal(count)).astype(data_type)
    return _integers(-9, 9, count, data_type, rng)


def _wide(count: int, data_type: str, rng: Rng) -> Array:
    if not _is_float(data_type):
        return _integers(-(2**63), 2**64 - 1, count, data_type, rng)
    info = np.finfo(data_type)
    exponent = rng.uniform(np.log2(float(info.smallest_normal)), np.log2(float(info.max)), count)
    return (rng.choice([-1.0, 1.0], count) * np.exp2(exponent)).astype(data_type)


def _nan(count: int, data_type: str, rng: Rng) -> Array:
    x = _small(count, data_type, rng)
    if _is_float(data_type):
        x[2::5] = np.resize(np.array([np.nan, np.inf, -np.inf], data_type), x[2::5].size)
    return x


def _near_one(count: int, data_type: str, rng: Rng) -> Array:
    if _is_float(data_type):
        return rng.uniform(0.9, 1.1, count).astype(data_type)
    return rng.choice(np.array([1, 1] if data_type.startswith("u") else [-1, 1], data_type), count)


def _scale(count: int, data_type: str, rng: Rng) -> Array:
    powers = np.exp2(rng.integers(-6, 1, count))
    return np.where(rng.random(count) < 0.5, powers, rng.uniform(0.01, 1.0, count)).astype(data_type)


def _index(size: int) -> Callable[[int, str, Rng], Array]:
    return lambda count, data_type, rng: _integers(-size, size - 1, count, data_type, rng)


def _wild(size: int) -> Callable[[int, str, Rng], Array]:
    def draw(count: int, data_type: str, rng: Rng) -> Array:
        inside = _integers(-size, size - 1, count, data_type, rng)
        outside = _cycle(np.array([size, size + 5, *edge_values(data_type).tolist()]).astype(data_type), count, rng)
        return np.where(rng.random(count) < 0.5, inside, rng.permutation(outside))

    return draw


RECIPES: dict[str, Callable[[int, str, Rng], Array]] = {
    "small": _small,
    "wide": _wide,
    "edges": lambda count, data_type, rng: _cycle(edge_values(data_type), count, rng),
    "finite": lambda count, data_type, rng: _cycle(finite_edges(data_type), count, rng),
    "positive": lambda n, t, rng: rng.uniform(0.25, 4, n).astype(t) if _is_float(t) else _integers(1, 9, n, t, rng),
    "unit": _uniform(-1, 1),
    "near_one": _near_one,
    "bool": lambda count, data_type, rng: rng.choice(np.array([0, 1, 2, 255, 0], data_type), count),
    "ties": lambda count, data_type, rng: rng.integers(0, 4, count).astype(data_type),
    "nan": _nan,
    "ramp": lambda count, data_type, rng: np.arange(count).astype(data_type),
    "scale": _scale,
}


def make(recipe: Recipe, shape: Sequence[int], data_type: str, rng: Rng) -> Array:
    """An array of the recipe; a list of numbers is repeated over the shape."""
    count = int(np.prod(shape, dtype=np.int64))
    if not isinstance(recipe, str):
        with np.errstate(over="ignore"):
            return np.resize(np.array(recipe).astype(data_type), count).reshape(shape)
    word, *arguments = recipe.split(":")
    if word in ("rows", "columns"):
        line = make("edges", shape[:1] if word == "rows" else shape[1:], data_type, rng)
        return np.broadcast_to(line[:, None] if word == "rows" else line, shape).copy()
    if word == "fill":
        return np.full(shape, float(arguments[0])).astype(data_type)
    if word == "range":
        draw = _uniform(float(arguments[0]), float(arguments[1]))
    elif word in ("index", "wild"):
        draw = (_index if word == "index" else _wild)(int(arguments[0]))
    else:
        draw = RECIPES[word]
    with np.errstate(all="ignore"):
        return draw(count, data_type, rng).reshape(shape)
