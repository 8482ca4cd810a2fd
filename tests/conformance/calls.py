"""Turns a validation vector (one builder call in JSON) into the Python call."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.conformance.vectors import Case, number, python_name
from tests.reference import DATA_TYPES

TYPED_ARRAYS = {
    "Float32Array": "float32",
    "Float16Array": "float16",
    "Float64Array": "float64",
    "Int32Array": "int32",
    "Uint32Array": "uint32",
    "BigInt64Array": "int64",
    "BigUint64Array": "uint64",
    "Int16Array": "int16",
    "Uint16Array": "uint16",
    "Int8Array": "int8",
    "Uint8Array": "uint8",
    "Uint8ClampedArray": "uint8",
}
DIM_MAX = 2**31 - 1


class NotExpressible(Exception):
    """The vector has no counterpart in Python."""


def buffer(description: Mapping[str, Any]) -> Any:
    """A buffer of the described kind: raw bytes, or a numpy array for a typed view."""
    size, kind = description["byteLength"], description["type"]
    shared = description.get("shared") or kind == "SharedArrayBuffer"
    memory: Any = memoryview(mmap.mmap(-1, max(1, size)))[:size] if shared else bytearray(size)
    if kind in TYPED_ARRAYS:
        data_type = np.dtype(TYPED_ARRAYS[kind])
        return np.frombuffer(memory, data_type, size // data_type.itemsize)
    if kind in ("ArrayBuffer", "SharedArrayBuffer"):
        return memory
    raise NotExpressible(f"a {kind}")


class Call:
    """The operands and arguments of one vector, made on a builder of their own."""

    def __init__(self, context: Any, case: Case) -> None:
        self.builder, self.other = context.create_graph_builder(), context.create_graph_builder()
        self.case = case
        self.limit = context.op_support_limits()["maxTensorByteLength"]
        self.count = 0

    def _dimension(self, size: int) -> int:
        """Vectors whose shapes come from WPT's byte limit are scaled to this device's (imperative.md, limits)."""
        assumed = self.case.get("assumes", {}).get("maxTensorByteLength")
        for width in (1, 2, 4, 8):
            if assumed and size == assumed // width:
                return int(min(self.limit // width, DIM_MAX))
        return size

    def operand(self, description: Mapping[str, Any]) -> Any:
        """An input (or constant) as described, of this builder or of another one."""
        builder = self.other if description.get("builder") == "other" else self.builder
        shape, data_type = [self._dimension(d) for d in description["shape"]], description["dataType"]
        if description.get("kind") == "constant":
            return builder.constant(np.zeros(shape, data_type if data_type in DATA_TYPES else "int8"))
        self.count += 1
        return builder.input(f"operand {self.count}", shape, data_type)

    def value(self, given: Any) -> Any:
        """A JSON value as the Python value that stands for it."""
        if isinstance(given, list):
            return [self.value(item) for item in given]
        if not isinstance(given, dict):
            return number(given)
        if "operand" in given:
            return self.operand(given["operand"])
        if "buffer" in given:
            return buffer(given["buffer"])
        if "$bigint" in given:
            return int(given["$bigint"])
        if "$number" in given:
            return float(number(given["$number"]))
        if "$undefined" in given:
            return None
        if "$date" in given:
            return object()
        return {key: self.value(item) for key, item in given.items()}

    def run(self) -> Any:
        """Make the call; what it returns or raises is the vector's outcome."""
        op = self.case["op"]
        special: dict[str, Callable[[dict[str, Any]], Any]] = {"input": self._input, "constant": self._constant}
        arguments = {key: self.value(item) for entry in self.case["arguments"] for key, item in entry.items()}
        if op in special:
            return special[op](arguments)
        options = arguments.pop("options", None)
        if options is None or isinstance(options, dict):
            # A missing option is left out, as JavaScript's undefined is.
            given = {python_name(key): item for key, item in (options or {}).items() if item is not None}
            return getattr(self.builder, python_name(op))(*arguments.values(), **given)
        return getattr(self.builder, python_name(op))(*arguments.values(), options)

    def _input(self, arguments: dict[str, Any]) -> Any:
        return self.builder.input(arguments["name"], **_descriptor(arguments["descriptor"]))

    def _constant(self, arguments: dict[str, Any]) -> Any:
        if "descriptor" not in arguments or "buffer" not in arguments:
            raise NotExpressible("constant() with other arguments")
        return self.builder.constant(arguments["buffer"], **_descriptor(arguments["descriptor"]))


def _descriptor(given: Mapping[str, Any]) -> dict[str, Any]:
    return {python_name(key): item for key, item in given.items()}
