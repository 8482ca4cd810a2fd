"""Convolutions: kernel sizes, strides, dilations, padding, groups, every layout, constant and computed filters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cases.model import Case, T
from tests.reference.convolution import FROM_NCHW

FILTER_LAYOUTS = ("oihw", "hwio", "ohwi", "ihwo")
TRANSPOSED_LAYOUTS = ("iohw", "hwoi", "ohwi")
FORMS = [
    {"input_layout": input_layout, "filter_layout": filter_layout}
    for input_layout in ("nchw", "nhwc")
    for filter_layout in FILTER_LAYOUTS
]
FLOATS = ("float32", "float16")
Shape4 = tuple[int, int, int, int]

# Input as N, C, H, W; output channels; kernel; options.
CONV: tuple[tuple[Shape4, int, tuple[int, int], dict[str, Any]], ...] = (
    ((1, 1, 5, 5), 1, (3, 3), {}),
    ((2, 3, 7, 9), 4, (3, 3), {"padding": [1, 1, 1, 1]}),
    ((1, 3, 8, 8), 5, (1, 1), {}),
    ((1, 20, 6, 6), 17, (1, 1), {"strides": [2, 2]}),
    ((1, 2, 9, 8), 3, (3, 2), {"strides": [2, 3], "padding": [1, 2, 0, 1]}),
    ((1, 2, 11, 12), 3, (3, 3), {"dilations": [2, 3]}),
    ((1, 2, 11, 12), 9, (2, 3), {"dilations": [3, 1], "strides": [1, 2], "padding": [2, 1, 1, 3]}),
    ((2, 6, 7, 7), 4, (3, 3), {"groups": 2, "padding": [1, 1, 1, 1]}),
    ((1, 9, 5, 6), 6, (2, 2), {"groups": 3}),
    ((1, 8, 9, 9), 8, (3, 3), {"groups": 8, "padding": [1, 1, 1, 1]}),
    ((1, 17, 9, 9), 17, (3, 3), {"groups": 17, "padding": [0, 2, 2, 0], "strides": [2, 2]}),
    ((1, 4, 12, 10), 8, (5, 5), {"groups": 4, "padding": [2, 2, 2, 2], "dilations": [1, 2]}),
    ((1, 3, 4, 4), 2, (4, 4), {}),
    ((1, 3, 4, 4), 2, (4, 4), {"padding": [3, 3, 3, 3]}),
    ((1, 1, 1, 40), 2, (1, 7), {"padding": [0, 0, 3, 3]}),
    ((1, 33, 6, 5), 34, (3, 3), {"padding": [1, 1, 1, 1]}),
    ((1, 2, 3, 3), 2, (1, 1), {"padding": [2, 0, 0, 1]}),
    ((1, 1, 6, 6), 1, (3, 3), {"strides": [5, 7]}),
)

# The same, with the number of output channels per group.
TRANSPOSE: tuple[tuple[Shape4, int, tuple[int, int], dict[str, Any]], ...] = (
    ((1, 1, 3, 3), 2, (3, 3), {}),
    ((2, 3, 4, 5), 4, (3, 3), {"strides": [2, 2]}),
    ((1, 3, 4, 5), 2, (3, 2), {"strides": [3, 2], "padding": [1, 0, 1, 1]}),
    ((1, 2, 4, 4), 3, (3, 3), {"strides": [2, 2], "padding": [1, 1, 1, 1], "output_padding": [1, 1]}),
    ((1, 2, 4, 4), 3, (3, 3), {"strides": [3, 3], "output_sizes": [14, 13]}),
    ((1, 2, 4, 4), 3, (3, 3), {"strides": [3, 3], "output_sizes": [12, 13], "output_padding": [2, 2]}),
    ((1, 2, 3, 4), 2, (2, 3), {"dilations": [3, 2]}),
    ((1, 2, 3, 4), 9, (2, 3), {"dilations": [2, 2], "strides": [2, 3], "padding": [0, 1, 2, 0]}),
    ((1, 4, 4, 3), 3, (3, 3), {"groups": 2, "strides": [2, 1]}),
    ((1, 8, 5, 5), 1, (3, 3), {"groups": 8, "padding": [1, 1, 1, 1]}),
    ((1, 9, 5, 5), 2, (4, 4), {"groups": 9, "strides": [2, 2], "padding": [1, 1, 1, 1]}),
    ((1, 17, 4, 4), 18, (1, 1), {}),
    ((1, 2, 4, 4), 2, (1, 1), {"strides": [3, 2], "output_padding": [2, 1]}),
    ((1, 2, 3, 3), 2, (2, 2), {"strides": [2, 2]}),
    ((1, 2, 6, 6), 2, (5, 5), {"padding": [3, 2, 4, 1]}),
)


def _filter_shape(layout: str, **sizes: int) -> tuple[int, ...]:
    return tuple(sizes[letter] for letter in layout)


def _case(
    op: str,
    shape: Shape4,
    filter_sizes: dict[str, int],
    channels: int,
    data_type: str,
    attrs: dict[str, Any],
    *,
    bias: bool = True,
    **case: Any,
) -> Case:
    order = FROM_NCHW[attrs.get("input_layout", "nchw")]
    layout = attrs.get("filter_layout", "oihw" if op == "conv2d" else "iohw")
    inputs = {
        "input": T(tuple(shape[axis] for axis in order), data_type),
        "filter": T(_filter_shape(layout, **filter_sizes), data_type, "unit"),
    }
    if bias:
        inputs["bias"] = T((channels,), data_type)
    return Case(op, inputs, attrs, **case)


def _conv(
    shape: Shape4, channels: int, kernel: tuple[int, int], data_type: str, attrs: dict[str, Any], **case: Any
) -> Case:
    sizes = {"o": channels, "i": shape[1] // attrs.get("groups", 1), "h": kernel[0], "w": kernel[1]}
    return _case("conv2d", shape, sizes, channels, data_type, attrs, **case)


def _transposed(
    shape: Shape4, per_group: int, kernel: tuple[int, int], data_type: str, attrs: dict[str, Any], **case: Any
) -> Case:
    sizes = {"i": shape[1], "o": per_group, "h": kernel[0], "w": kernel[1]}
    return _case("conv_transpose2d", shape, sizes, per_group * attrs.get("groups", 1), data_type, attrs, **case)


def conv_cases() -> Iterator[Case]:
    both = frozenset({"filter", "bias"})
    for turn, (shape, channels, kernel, options) in enumerate(CONV):
        for data_type in FLOATS:
            yield _conv(shape, channels, kernel, data_type, options)
            yield _conv(shape, channels, kernel, data_type, options, bias=False, constants=frozenset({"filter"}))
            layouts = {"input_layout": "nhwc", "filter_layout": FILTER_LAYOUTS[turn % 4]}
            yield _conv(shape, channels, kernel, data_type, {**options, **layouts}, constants=both)
    for layout in FORMS:
        for data_type in FLOATS:
            yield _conv((2, 4, 6, 7), 6, (3, 2), data_type, {**layout, "groups": 2, "padding": [1, 0, 2, 1]})
            yield _conv((1, 8, 6, 7), 8, (3, 3), data_type, {**layout, "groups": 8}, constants=both)
    yield _conv((1, 3, 6, 6), 4, (3, 3), "float32", {}, constants=frozenset({"input", "filter", "bias"}))
    # Many products per output.
    yield _conv((1, 200, 5, 5), 3, (3, 3), "float32", {"padding": [1, 1, 1, 1]}, bias=False)
    nhwc = {"padding": [1, 1, 1, 1], "input_layout": "nhwc", "filter_layout": "ohwi"}
    yield _conv((1, 48, 56, 56), 48, (3, 3), "float32", nhwc, constants=both, timed=True)


def transposed_cases() -> Iterator[Case]:
    both = frozenset({"filter", "bias"})
    for turn, (shape, per_group, kernel, options) in enumerate(TRANSPOSE):
        for data_type in FLOATS:
            yield _transposed(shape, per_group, kernel, data_type, options)
            yield _transposed(shape, per_group, kernel, data_type, options, bias=False, constants=frozenset({"filter"}))
            layouts = {"input_layout": "nhwc", "filter_layout": TRANSPOSED_LAYOUTS[turn % 3]}
            yield _transposed(shape, per_group, kernel, data_type, {**options, **layouts}, constants=both)
    for input_layout in ("nchw", "nhwc"):
        for filter_layout in TRANSPOSED_LAYOUTS:
            attrs = {"input_layout": input_layout, "filter_layout": filter_layout, "groups": 2, "strides": [2, 1]}
            yield _transposed((2, 4, 3, 4), 3, (3, 2), "float32", attrs)
    yield _transposed((1, 32, 28, 28), 32, (4, 4), "float32", {"strides": [2, 2]}, constants=both, timed=True)


def cases() -> Iterator[Case]:
    yield from conv_cases()
    yield from transposed_cases()
