"""Registry of the operator models: how a model is declared, found and evaluated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.reference.numbers import Array, round_to

Operands = Mapping[str, Any]


@dataclass(frozen=True)
class Model:
    """One operator: its function and the name of what gives the output its data type.

    `result` is "first" (the first operand's type), a data type, or the python name of an operand or of a parameter.
    """

    name: str
    function: Callable[..., Any]
    result: str

    @property
    def positional(self) -> tuple[str, ...]:
        """Names of the positional arguments, in the order of the builder method."""
        kinds = inspect.signature(self.function).parameters.values()
        return tuple(p.name for p in kinds if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)

    @property
    def optional(self) -> tuple[str, ...]:
        """Names of the keyword-only arguments (`label` left out: it has no effect on a result)."""
        kinds = inspect.signature(self.function).parameters.values()
        return tuple(p.name for p in kinds if p.kind is inspect.Parameter.KEYWORD_ONLY)

    def data_type(self, arguments: Mapping[str, Any]) -> str:
        """Data type of every output for these arguments."""
        if self.result == "first":
            first = arguments[self.positional[0]]
            return str((first[0] if isinstance(first, (list, tuple)) else first).dtype)
        if self.result not in inspect.signature(self.function).parameters:
            return self.result
        source = arguments.get(self.result, inspect.signature(self.function).parameters[self.result].default)
        return source if isinstance(source, str) else str(source.dtype)


MODELS: dict[str, Model] = {}


def operator(result: str = "first") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the model of the operator of the same name."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        MODELS[function.__name__.rstrip("_")] = Model(function.__name__.rstrip("_"), function, result)
        return function

    return register


def exact(op: str, inputs: Operands, attrs: Mapping[str, Any] | None = None) -> list[Array]:
    """Outputs before the final rounding: float64 for float types, the exact integers of the output type otherwise."""
    model = MODELS[op]
    arguments = {**inputs, **(attrs or {})}
    with np.errstate(all="ignore"):
        raw = model.function(**arguments)
    return [np.asarray(r) for r in (raw if isinstance(raw, list) else [raw])]


def output_type(op: str, inputs: Operands, attrs: Mapping[str, Any] | None = None) -> str:
    """Data type of the outputs."""
    return MODELS[op].data_type({**inputs, **(attrs or {})})


def evaluate(op: str, inputs: Operands, attrs: Mapping[str, Any] | None = None) -> list[Array]:
    """Outputs of the operator `op` (python name), rounded once to the output data type.

    `inputs` maps operand names to arrays of the operand's own type (`concat` takes a list under "inputs"), `attrs` maps
    the other argument names to plain values; missing options take the spec's defaults.
    """
    data_type = output_type(op, inputs, attrs)
    return [round_to(raw, data_type) for raw in exact(op, inputs, attrs)]


def names() -> Sequence[str]:
    """Python names of all operators that have a model."""
    return sorted(MODELS)
