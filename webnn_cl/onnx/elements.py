"""ONNX element types: their names, their numpy types, and the WebNN type that carries each one on the device.

WebNN has eight data types. The other ONNX types are carried by a wider one and converted at the session's surface:
bool as uint8 (0 or 1), double and the short floats as float32, the short integers as the next wider integer.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from webnn_cl.dtypes import DATA_TYPES, DataType
from webnn_cl.onnx.values import Refusal, name_of_numpy

__all__ = [
    "CARRIERS", "ELEMENT_TYPES", "carrier_of", "is_float", "is_integer", "name_of_elem", "name_of_numpy",
    "numpy_type", "ort_type", "short_range", "to_carrier", "to_surface",
]  # fmt: skip

# Numbers of onnx.TensorProto.DataType.
ELEMENT_TYPES: dict[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip

# What onnxruntime calls the element types of its NodeArg.type.
_ORT_NAMES = {"float32": "float", "float64": "double"}
_ORT_NAMES |= {name: name.replace("_", "") for name in ELEMENT_TYPES.values() if name.startswith("float8")}

_SHORT_FLOATS = tuple(name for name in ELEMENT_TYPES.values() if name.startswith(("float8", "float4")))

CARRIERS: dict[str, DataType] = {name: name for name in DATA_TYPES}
CARRIERS |= {"bool": "uint8", "float64": "float32", "bfloat16": "float32", "int16": "int32", "uint16": "int32"}
CARRIERS |= {"int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8"}
CARRIERS |= dict.fromkeys(_SHORT_FLOATS, "float32")

_SHORT_RANGES = {
    "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1), "int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1),
    "uint2": (0, 3),
}  # fmt: skip


def name_of_elem(elem_type: int) -> str:
    """The name of an element type number of onnx.TensorProto; a Refusal when this version does not know it."""
    if elem_type not in ELEMENT_TYPES:
        raise Refusal(f"element type {elem_type} is unknown")
    return ELEMENT_TYPES[elem_type]


@lru_cache(maxsize=64)
def numpy_type(name: str) -> np.dtype[Any]:
    """The numpy type of an element type; the short ones come from ml_dtypes, which the onnx package brings."""
    if name == "string":
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype


def carrier_of(name: str) -> DataType:
    """The WebNN type that holds tensors of element type `name` on the device."""
    if name not in CARRIERS:
        raise Refusal(f"{name} tensors have no counterpart in WebNN")
    return CARRIERS[name]


def is_float(name: str) -> bool:
    """Whether the element type is a real floating-point type."""
    return name.startswith(("float", "bfloat"))


def is_integer(name: str) -> bool:
    """Whether the element type is an integer type (bool is not)."""
    return name.startswith(("int", "uint"))


def short_range(name: str) -> tuple[int, int] | None:
    """The range of an integer type that a wider one carries, None for the others."""
    return _SHORT_RANGES.get(name)


def to_carrier(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`array` in the WebNN type that carries it; the array itself where nothing changes.

    A Refusal for doubles that float32 would turn into infinity or zero.
    """
    carrier = carrier_of(name_of_numpy(array.dtype))
    if array.dtype == np.dtype(carrier):
        return array
    with np.errstate(over="ignore", under="ignore"):
        carried = array.astype(carrier)
    if array.dtype == np.float64 and np.any((np.isinf(carried) != np.isinf(array)) | ((carried == 0) != (array == 0))):
        raise Refusal("a double is outside the range of float32, in which it would be computed")
    return carried


def to_surface(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """What the session hands out for a device result whose ONNX element type is `name`."""
    wanted = numpy_type(name)
    return array if array.dtype == wanted else array.astype(wanted)


def ort_type(name: str) -> str:
    """As onnxruntime spells it: ``tensor(float)``."""
    return f"tensor({_ORT_NAMES.get(name, name)})"
