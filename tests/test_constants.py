"""constant(): what data it takes, what it copies, what it refuses; values read back through identity()."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest

import webnn_cl
from tests.reference import DATA_TYPES

VALUES = np.array([[1.5, -2.0, 3.25], [0.0, -0.0, 1e-40]], np.float32)
RAW = VALUES.tobytes()
NAN, INF = float("nan"), float("inf")


def read_back(context: Any, *arguments: Any, **options: Any) -> np.ndarray[Any, Any]:
    """The constant's value as a graph sees it."""
    builder = context.create_graph_builder()
    graph = builder.build({"y": builder.identity(builder.constant(*arguments, **options))})
    return np.asarray(context.compute(graph, {})["y"])


def check(context: Any, expected: np.ndarray[Any, Any], *arguments: Any, **options: Any) -> None:
    result = read_back(context, *arguments, **options)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    assert result.tobytes() == expected.tobytes()


def _shared(data: bytes) -> Any:
    memory = mmap.mmap(-1, len(data))
    memory.write(data)
    return memoryview(memory)


RAW_FORMS = {
    "uint8 array": np.frombuffer(RAW, np.uint8),
    "uint8 array of another shape": np.frombuffer(RAW, np.uint8).reshape(4, 6),
    "uint8 array with steps": np.repeat(np.frombuffer(RAW, np.uint8), 2)[::2],
    "unaligned uint8 array": np.frombuffer(b"x" + RAW, np.uint8)[1:],
    "bytes": RAW,
    "bytearray": bytearray(RAW),
    "memoryview": memoryview(RAW),
    "shared memory": _shared(RAW),
}


@pytest.mark.parametrize("form", RAW_FORMS)
def test_raw_bytes_are_reinterpreted(form: str, context: Any) -> None:
    check(context, VALUES, RAW_FORMS[form], data_type="float32", shape=(2, 3))


@pytest.mark.parametrize("data_type", DATA_TYPES)
def test_raw_bytes_of_every_type(data_type: str, context: Any) -> None:
    expected = np.arange(6).astype(data_type).reshape(3, 2)
    check(context, expected, expected.tobytes(), data_type=data_type, shape=[3, 2])
    check(context, expected, np.frombuffer(expected.tobytes(), np.uint8), data_type=np.dtype(data_type), shape=(3, 2))


def test_uint16_arrays_are_float16_bits(context: Any) -> None:
    bits = np.array([[0x3C00, 0x8001], [0x7C00, 0xFBFF]], np.uint16)
    check(context, bits.view(np.float16), bits)
    check(context, bits.view(np.float16), bits, data_type="float16")
    check(context, bits.view(np.float16).reshape(4), bits.reshape(4), shape=(4,), data_type="float16")


@pytest.mark.parametrize("data_type", DATA_TYPES)
def test_arrays_of_the_own_type(data_type: str, context: Any) -> None:
    array = np.arange(24).astype(data_type).reshape(4, 6)
    check(context, array, array)
    check(context, array, array, shape=(4, 6), data_type=data_type)
    check(context, array, array.reshape(24), shape=(4, 6))
    check(context, np.ascontiguousarray(array.T[::2]), array.T[::2])
    check(context, array[1, 2].reshape(()), np.asarray(array[1, 2]))


def test_the_other_byte_order_is_no_other_type(context: Any) -> None:
    check(context, VALUES, VALUES.astype(VALUES.dtype.newbyteorder("S")))


MISMATCHES: dict[str, tuple[Any, dict[str, Any]]] = {
    "float64 array": (np.zeros(2), {}),
    "float64 array as float32": (np.zeros(2), {"data_type": "float32"}),
    "int16 array": (np.zeros(2, np.int16), {}),
    "bool array": (np.zeros(2, np.bool_), {}),
    "bool array as uint8": (np.zeros(2, np.bool_), {"data_type": "uint8"}),
    "complex array": (np.zeros(2, np.complex64), {}),
    "object array": (np.array([1, 2], object), {"data_type": "int32"}),
    "text array": (np.array(["a"]), {"data_type": "uint8"}),
    "int32 array as float32": (np.zeros(2, np.int32), {"data_type": "float32"}),
    "int32 array as uint32": (np.zeros(2, np.int32), {"data_type": "uint32"}),
    "int8 array as uint8": (np.zeros(2, np.int8), {"data_type": "uint8"}),
    "uint16 array as int32": (np.zeros(2, np.uint16), {"data_type": "int32", "shape": (1,)}),
    "float16 array as float32": (np.zeros(2, np.float16), {"data_type": "float32"}),
    "wrong shape": (np.zeros((2, 3), np.float32), {"shape": (3, 2)}),
    "too few elements": (np.zeros(5, np.float32), {"shape": (2, 3)}),
    "too many elements": (np.zeros(7, np.float32), {"shape": (2, 3)}),
    "broadcastable shape": (np.zeros((1, 3), np.float32), {"shape": (2, 3)}),
    "no elements": (np.zeros((2, 0), np.float32), {}),
    "bytes without type": (RAW, {"shape": (2, 3)}),
    "bytes without shape": (RAW, {"data_type": "float32"}),
    "bytes too short": (RAW[:-1], {"data_type": "float32", "shape": (2, 3)}),
    "bytes too long": (RAW + b"x", {"data_type": "float32", "shape": (2, 3)}),
    "no bytes": (b"", {"data_type": "float32", "shape": (2, 3)}),
    "uint8 array too short": (np.zeros(23, np.uint8), {"data_type": "float32", "shape": (2, 3)}),
    "memoryview of ints": (memoryview(RAW).cast("i"), {"data_type": "float32", "shape": (2, 3)}),
    "released memoryview": (None, {"data_type": "float32", "shape": (2, 3)}),
    "list": ([1.0, 2.0], {"data_type": "float32", "shape": (2,)}),
    "text": ("12", {"data_type": "uint8", "shape": (2,)}),
    "bool": (True, {"data_type": "uint8"}),
    "None": (None, {"data_type": "uint8"}),
    "complex number": (1j, {"data_type": "float32"}),
    "number without type": (1.0, {}),
    "number with a shape": (1.0, {"data_type": "float32", "shape": (1,)}),
    "unknown type": (1.0, {"data_type": "float64"}),
    "type of 4 bits": (bytes(1), {"data_type": "int4", "shape": (2,)}),
    "dimension of 0": (b"", {"data_type": "float32", "shape": (2, 0)}),
    "negative dimension": (RAW, {"data_type": "float32", "shape": (-2, -3)}),
    "float dimension": (RAW, {"data_type": "float32", "shape": (2.0, 3)}),
    "bool dimension": (RAW[:12], {"data_type": "float32", "shape": (True, 3)}),
    "text as shape": (RAW, {"data_type": "float32", "shape": "23"}),
    "number as shape": (RAW, {"data_type": "float32", "shape": 6}),
}


@pytest.mark.parametrize("kind", MISMATCHES)
def test_everything_else_is_refused(kind: str, context: Any) -> None:
    data, options = MISMATCHES[kind]
    if kind == "released memoryview":
        data = memoryview(bytearray(RAW))
        data.release()
    with pytest.raises(webnn_cl.MLTypeError):
        context.create_graph_builder().constant(data, **options)


NUMBERS: list[tuple[Any, str, Any]] = [
    (300, "uint8", 255),
    (-5, "uint8", 0),
    (2.5, "int8", 2),
    (3.5, "int8", 4),
    (-0.5, "int32", 0),
    (NAN, "int32", 0),
    (INF, "int64", 2**63 - 1),
    (-INF, "uint64", 0),
    (2**64 - 1, "uint64", 2**64 - 1),
    (2**53 + 1, "int64", 2**53 + 1),
    (10**30, "int64", 2**63 - 1),
    (3e9, "uint32", 3_000_000_000),
    (65519, "float16", 65504.0),
    (65520, "float16", INF),
    (1e39, "float32", INF),
    (10**400, "float32", INF),
    (-0.0, "float32", -0.0),
    (NAN, "float16", NAN),
    (2**24 + 1, "float32", 2.0**24),
    (2**60 + 2**36 + 1, "float32", 2.0**60 + 2.0**37),
    (np.float64(0.1), "float32", np.float32(0.1)),
    (np.int64(7), "uint8", 7),
]


@pytest.mark.parametrize(("number", "data_type", "expected"), NUMBERS, ids=lambda v: str(v)[:20])
def test_numbers_are_cast_as_parameters(number: Any, data_type: str, expected: Any, context: Any) -> None:
    check(context, np.array(expected, data_type), number, data_type=data_type)


def test_the_data_is_copied_at_the_call(context: Any) -> None:
    builder = context.create_graph_builder()
    array, raw = np.arange(4, dtype=np.int32), bytearray(np.arange(4, dtype=np.int32).tobytes())
    wanted = {
        "array": builder.identity(builder.constant(array)),
        "raw": builder.identity(builder.constant(raw, data_type="int32", shape=(4,))),
    }
    array[:], raw[:] = 9, bytes(16)
    graph = builder.build(wanted)
    results = context.compute(graph, {})
    assert results["array"].tolist() == results["raw"].tolist() == [0, 1, 2, 3]


def test_constants_shared_by_nodes_and_big_ones(context: Any) -> None:
    builder = context.create_graph_builder()
    big = np.arange(1 << 18, dtype=np.float32)
    constant = builder.constant(big)
    x = builder.input("x", (1,))
    graph = builder.build({"sum": builder.add(constant, x), "product": builder.mul(constant, x)})
    results = context.compute(graph, {"x": np.array([2], np.float32)})
    np.testing.assert_array_equal(results["sum"], big + 2)
    np.testing.assert_array_equal(results["product"], big * 2)
