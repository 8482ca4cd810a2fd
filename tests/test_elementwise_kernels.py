"""Element-wise kernels at the sizes where they change their way of working: strips, ragged and short rows, in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Array = np.ndarray[Any, Any]


def _uniform(shape: tuple[int, ...], low: float, high: float) -> Array:
    return np.random.default_rng(len(shape)).uniform(low, high, shape).astype(np.float32)


def _close(actual: Array, exact: Array) -> None:
    np.testing.assert_allclose(actual, exact, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("size", [1, 7, 8, 127, 128, 129, 1000, 20011])
def test_pow_in_strips(context: Any, size: int) -> None:
    """Whole strips of 128 elements go through pow's stages, the rest does not; edges lie in both."""
    x, y = _uniform((size,), 0.1, 3), _uniform((size,), -4, 4)
    x[:: max(1, size // 5)] = 0
    y[size // 2] = np.inf
    x[-1], y[-1] = -2, 3
    b = context.create_graph_builder()
    base, exponent = b.input("x", x.shape), b.input("y", y.shape)
    graph = b.build({"z": b.add(b.pow(base, exponent), base)})
    with np.errstate(divide="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64)) + x
    _close(context.compute(graph, {"x": x, "y": y})["z"], exact)


def test_chained_powers_in_strips(context: Any) -> None:
    """Two staged operators in one kernel, with a value of the first stage needed after the last."""
    x = _uniform((700,), 0.2, 2)
    b = context.create_graph_builder()
    value = b.input("x", x.shape)
    root = b.sqrt(value)
    twice = b.pow(b.pow(root, b.constant(1.3, data_type="float32")), b.constant(-0.7, data_type="float32"))
    graph = b.build({"z": b.mul(twice, root)})
    wide = np.sqrt(x.astype(np.float64))
    _close(context.compute(graph, {"x": x})["z"], wide ** (1.3 * -0.7) * wide)


@pytest.mark.parametrize("inner", [1, 2, 3, 7, 8, 9, 13, 15, 16, 49, 1021])
@pytest.mark.parametrize("outer", [(5,), (3, 1, 4), (2, 3, 4)])
def test_rows_in_place(context: Any, inner: int, outer: tuple[int, ...]) -> None:
    """Each kernel may overwrite its input: a row's overlapping last vector must not see its own results."""
    shape = (*outer, inner)
    x, row = _uniform(shape, -1, 1), _uniform((inner,), -1, 1)
    column = _uniform((*(1 for _ in outer[1:]), outer[-1], 1), -1, 1)
    b = context.create_graph_builder()
    value, r, c = b.input("x", shape), b.input("row", row.shape), b.input("column", column.shape)
    # The sums keep the exponentials from joining one chain, so that temporaries are read and written in place.
    first = b.exp(b.add(value, r))
    second = b.exp(b.sub(b.mul(first, c), b.reduce_max(first)))
    graph = b.build({"z": b.add(b.mul(second, r), b.reduce_sum(second))})
    wide = np.exp(x.astype(np.float64) + row)
    wide = np.exp(wide * column - wide.max())
    _close(context.compute(graph, {"x": x, "row": row, "column": column})["z"], wide * row + wide.sum())


@pytest.mark.parametrize("shape", [(70, 3), (9, 5, 7), (300, 2), (6, 4, 11, 2)])
def test_short_rows_of_every_type(context: Any, shape: tuple[int, ...]) -> None:
    """Rows shorter than a vector are gathered lane by lane, also from views and for narrow types."""
    b = context.create_graph_builder()
    inputs: dict[str, Array] = {}
    outputs, exact = {}, {}
    for data_type in ("float16", "int8", "uint8", "int64", "float32"):
        x = np.random.default_rng(1).integers(0, 9, shape).astype(data_type)
        row = np.arange(1, shape[-1] + 1).astype(data_type)
        inputs |= {f"x_{data_type}": x, f"row_{data_type}": row}
        a, r = b.input(f"x_{data_type}", shape, data_type), b.input(f"row_{data_type}", row.shape, data_type)
        flipped = b.reverse(a, axes=[0])
        outputs[data_type] = b.add(b.mul(flipped, r), a)
        exact[data_type] = x[::-1] * row + x
    results = context.compute(b.build(outputs), inputs)
    for data_type, expected in exact.items():
        np.testing.assert_array_equal(results[data_type], expected, err_msg=data_type)
