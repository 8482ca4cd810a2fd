"""The models on values worked out by hand: the integer and edge rules that no WPT vector covers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests import reference

I8, I32, I64, U64 = np.iinfo(np.int8), np.iinfo(np.int32), np.iinfo(np.int64), np.iinfo(np.uint64)
NAN, INF = float("nan"), float("inf")

BINARY: list[tuple[str, str, list[Any], list[Any], list[Any]]] = [
    ("add", "int8", [127, -128, 100], [1, -1, 100], [-128, 127, -56]),
    ("add", "uint64", [U64.max], [2], [1]),
    ("sub", "uint8", [0, 5], [1, 250], [255, 11]),
    ("mul", "int64", [I64.max, I64.min], [2, -1], [-2, I64.min]),
    ("div", "int32", [-7, 7, 5, I32.min, I32.min, 0], [2, -2, 0, -1, 1, 0], [-3, -3, 0, I32.min, I32.min, 0]),
    ("div", "uint64", [U64.max, 7], [2, 0], [2**63 - 1, 0]),
    ("div", "int64", [2**62 + 1, I64.min], [1, 2], [2**62 + 1, -(2**62)]),
    ("pow", "int32", [2, -1, -1, 1, 3, 0], [-1, -3, -2, -9, 20, 0], [0, -1, 1, 1, -808182895, 1]),
    ("pow", "int32", [0, 2], [-1, 31], [0, I32.min]),
    ("pow", "int8", [-2, 16], [7, 2], [-128, 0]),
    ("pow", "uint64", [3], [40], [12157665459056928801]),
    ("max", "float32", [NAN, 1.0, -INF], [1.0, NAN, INF], [NAN, NAN, INF]),
    ("greater", "uint64", [U64.max, 2**53 + 1], [U64.max - 1, 2**53], [1, 1]),
    ("equal", "float32", [NAN, 0.0, INF], [NAN, -0.0, INF], [0, 1, 1]),
    ("prelu", "int8", [-100, 5, I8.min], [2, 9, -1], [56, 5, I8.min]),
    ("logical_xor", "uint8", [2, 0, 255, 0], [4, 0, 0, 9], [0, 0, 1, 1]),
]  # fmt: skip

UNARY: list[tuple[str, str, list[Any], dict[str, Any], list[Any]]] = [
    ("abs", "int8", [-128, -5, 3], {}, [-128, 5, 3]),
    ("neg", "int64", [I64.min, 5], {}, [I64.min, -5]),
    ("sign", "float32", [NAN, -0.0, -INF, 3.0], {}, [0.0, 0.0, -1.0, 1.0]),
    ("round_even", "float32", [0.5, 1.5, -0.5, -2.5], {}, [0.0, 2.0, -0.0, -2.0]),
    ("cast", "float32", [NAN, 300.7, -1.5, -129.0, INF], {"data_type": "int8"}, [0, 127, -1, -128, 127]),
    ("cast", "float32", [-1.0, 255.9, 256.0], {"data_type": "uint8"}, [0, 255, 255]),
    ("cast", "float32", [2.0**63, -(2.0**63), 2.0**64], {"data_type": "int64"}, [I64.max, I64.min, I64.max]),
    ("cast", "float32", [2.0**64, -1.0, 2.0**63], {"data_type": "uint64"}, [U64.max, 0, 2**63]),
    ("cast", "int64", [2**40 + 7, -1], {"data_type": "int32"}, [7, -1]),
    ("cast", "int64", [2**53 + 1, 2**24 + 1], {"data_type": "float32"}, [2.0**53, 2.0**24]),
    ("cast", "int32", [65519, 65520, -3], {"data_type": "float16"}, [65504.0, INF, -3.0]),
    ("cast", "int8", [-3], {"data_type": "uint64"}, [U64.max - 2]),
    ("clamp", "int8", [-128, 0, 127], {"min_value": -INF, "max_value": 0.5}, [-128, 0, 0]),
    ("clamp", "uint8", [0, 9, 255], {"min_value": 2.5, "max_value": 300}, [2, 9, 255]),
    ("clamp", "float32", [NAN, -INF, 3.0], {"min_value": -1.0}, [NAN, -1.0, 3.0]),
    ("hard_swish", "float32", [-INF, INF, -3.0], {}, [0.0, INF, -0.0]),
    ("softsign", "float32", [-INF, INF], {}, [-1.0, 1.0]),
    ("reduce_sum", "int32", [I32.max, 1], {}, I32.min),
    ("reduce_l1", "int32", [I32.min, 0], {}, I32.min),
    ("reduce_product", "int64", [I64.max, 3], {}, I64.max - 2),
    ("reduce_max", "float32", [1.0, NAN], {}, NAN),
    ("reduce_sum_square", "float32", [2.0, -3.0], {"axes": []}, [4.0, 9.0]),
    ("reduce_log_sum_exp", "float32", [-INF, -INF], {}, -INF),
    ("arg_max", "float32", [NAN, 1.0, 5.0, 5.0], {"axis": 0}, 2),
    ("arg_min", "float32", [NAN, INF, INF], {"axis": 0}, 1),
    ("arg_max", "float32", [NAN, NAN], {"axis": 0}, 0),
    ("cumulative_sum", "uint32", [2, 3, 5], {"axis": 0, "exclusive": True, "reversed": True}, [8, 5, 0]),
    ("reverse", "int8", [1, 2, 3], {"axes": []}, [1, 2, 3]),
]


def _check(op: str, inputs: dict[str, Any], attrs: dict[str, Any], expected: Any) -> None:
    (result,) = reference.evaluate(op, inputs, attrs)
    wanted = np.asarray(expected, result.dtype)
    np.testing.assert_array_equal(result, wanted)
    if result.dtype.kind == "f":
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(result)[number], np.signbit(wanted)[number])


@pytest.mark.parametrize(("op", "data_type", "a", "b", "expected"), BINARY)
def test_binary_rule(op: str, data_type: str, a: list[Any], b: list[Any], expected: list[Any]) -> None:
    first, second = reference.MODELS[op].positional
    _check(op, {first: np.array(a, data_type), second: np.array(b, data_type)}, {}, expected)


@pytest.mark.parametrize(("op", "data_type", "x", "attrs", "expected"), UNARY)
def test_unary_rule(op: str, data_type: str, x: list[Any], attrs: dict[str, Any], expected: Any) -> None:
    _check(op, {reference.MODELS[op].positional[0]: np.array(x, data_type)}, attrs, expected)


def test_gather_clamps_and_counts_from_the_end() -> None:
    x, indices = np.array([10, 20, 30], np.int32), np.array([-1, -3, -9, 2, 99], np.int64)
    _check("gather", {"input": x, "indices": indices}, {}, [30, 10, 10, 30, 30])


def test_the_last_of_scatter_duplicates_wins() -> None:
    x, indices = np.zeros(3, np.int8), np.array([1, -2, 7, 1], np.int32)
    _check(
        "scatter_elements", {"input": x, "indices": indices, "updates": np.arange(1, 5, dtype=np.int8)}, {}, [0, 4, 3]
    )
    nd = {"input": x, "indices": indices.reshape(4, 1), "updates": np.arange(1, 5, dtype=np.int8)}
    _check("scatter_nd", nd, {}, [0, 4, 3])


def test_nearest_neighbour_halves_go_down_and_linear_rounds_to_even() -> None:
    x = np.array([0, 1, 2, 7], np.uint8).reshape(1, 1, 1, 4)
    _check("resample2d", {"input": x}, {"sizes": [1, 2]}, [[[[0, 2]]]])
    _check("resample2d", {"input": x}, {"sizes": [1, 2], "mode": "linear"}, [[[[0, 4]]]])  # 0.5 and 4.5


def test_padding_is_no_element_of_a_pooling_window() -> None:
    x = np.array([[-3.0, -5.0]], np.float32).reshape(1, 1, 1, 2)
    attrs = {"window_dimensions": [2, 2], "padding": [1, 0, 1, 0]}
    _check("max_pool2d", {"input": x}, attrs, [[[[-3.0, -3.0]]]])
    _check("average_pool2d", {"input": x}, attrs, [[[[-3.0, -4.0]]]])


def test_quantization_rounds_before_the_zero_point() -> None:
    x, s, z = np.array([0.5, 1.5, -1e9, 3e9], np.float32), np.ones(1, np.float32), np.array([1], np.int8)
    _check("quantize_linear", {"input": x, "scale": s, "zero_point": z}, {}, [1, 3, -128, 127])
    q, zero = np.array([2**31 - 1], np.int32), np.array([2**31 - 3], np.int32)
    _check("dequantize_linear", {"input": q, "scale": s, "zero_point": zero}, {}, [2.0])


def test_missing_axes_reduce_all_of_a_layer_but_the_first() -> None:
    x = np.array([[1.0, 3.0], [5.0, 5.0]], np.float32)
    _check("layer_normalization", {"input": x}, {"epsilon": 0.0625}, [[-0.9701425, 0.9701425], [0.0, 0.0]])
    bias = {"bias": np.array(7, np.float32)}
    _check("layer_normalization", {"input": x, **bias}, {"axes": []}, [[7.0, 7.0], [7.0, 7.0]])


def test_every_operator_has_a_model() -> None:
    assert len(reference.names()) == 95
