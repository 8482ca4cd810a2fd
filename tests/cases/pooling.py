"""Pooling: windows, padding, dilations, both layouts, rounding up, explicit output sizes, global windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cases.model import Case, T, types_of
from tests.reference.convolution import FROM_NCHW

POOLS = ("average_pool2d", "l2_pool2d", "max_pool2d")
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"window_dimensions": [3, 3]},
    {"window_dimensions": [2, 3], "strides": [2, 1]},
    {"window_dimensions": [3, 3], "padding": [1, 1, 1, 1]},
    {"window_dimensions": [3, 2], "padding": [2, 0, 1, 1], "strides": [2, 2]},
    {"window_dimensions": [2, 2], "dilations": [3, 2]},
    {"window_dimensions": [3, 3], "dilations": [2, 2], "padding": [2, 1, 0, 2], "strides": [1, 2]},
    {"window_dimensions": [3, 3], "strides": [3, 4], "output_shape_rounding": "ceil"},
    {"window_dimensions": [2, 2], "strides": [3, 2], "padding": [1, 1, 1, 0], "output_shape_rounding": "ceil"},
    {"window_dimensions": [3, 3], "strides": [2, 2], "padding": [1, 1, 1, 1], "output_shape_rounding": "floor"},
    {"window_dimensions": [3, 3], "strides": [3, 4], "output_sizes": [3, 2]},
    {"window_dimensions": [3, 3], "strides": [3, 4], "output_sizes": [3, 3], "output_shape_rounding": "floor"},
    {"window_dimensions": [3, 3], "strides": [2, 3], "padding": [1, 1, 1, 1], "output_sizes": [5, 3]},
    {"window_dimensions": [9, 8]},
    {"padding": [1, 1, 2, 2]},
    {"window_dimensions": [1, 1], "strides": [2, 3]},
)
SHAPE = (2, 3, 9, 8)  # the output sizes above are the floor or the ceil of what this input gives


def _case(
    op: str, shape: tuple[int, ...], data_type: str, attrs: dict[str, Any], recipe: str = "small", **more: Any
) -> Case:
    order = FROM_NCHW[attrs.get("layout", "nchw")]
    return Case(op, {"input": T(tuple(shape[axis] for axis in order), data_type, recipe)}, attrs, **more)


def cases() -> Iterator[Case]:
    for op in POOLS:
        types = types_of(op)
        for turn, options in enumerate(OPTIONS):
            for data_type in types if len(types) == 2 else (types[0], types[1 + turn % 7]):
                yield _case(op, SHAPE, data_type, options)
                yield _case(op, SHAPE, data_type, {**options, "layout": "nhwc"})
        for data_type in types:
            window = {"window_dimensions": [2, 2], "strides": [2, 2], "padding": [1, 1, 1, 1]}
            if op == "max_pool2d":
                # Negative and extreme values: padding must never win, NaN must.
                yield _case(op, (1, 9, 5, 5), data_type, window, "edges")
                yield _case(op, (1, 20, 5, 5), data_type, {**window, "layout": "nhwc"}, "wide")
                # A window that lies in padding alone gives the lowest value (-inf for floats).
                yield _case(op, (1, 1, 3, 3), data_type, {**window, "padding": [2, 2, 2, 2]})
            yield _case(op, (1, 17, 6, 6), data_type, window)
            yield _case(op, (1, 17, 6, 6), data_type, {**window, "layout": "nhwc"})
        yield _case(op, (1, 1, 6, 6), "float32", OPTIONS[1], constants=frozenset({"input"}))
        yield _case(op, (1, 2, 100, 120), "float32", {})
        pooled = {"window_dimensions": [3, 3], "strides": [2, 2], "padding": [1, 1, 1, 1]}
        yield _case(op, (1, 64, 56, 56), "float32", pooled, timed=True)
