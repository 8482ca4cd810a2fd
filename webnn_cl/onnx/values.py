"""What a name of an ONNX graph stands for while the graph is imported."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from webnn_cl.operand import MLOperand

__all__ = [
    "Absent", "Array", "Known", "NeedsValue", "Poison", "Refusal", "Sequence", "Tensor", "Value", "name_of_numpy",
    "sources_of",
]  # fmt: skip

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=64)  # dtype.name is slow
def name_of_numpy(dtype: np.dtype[Any]) -> str:
    """The element type that a numpy array of `dtype` holds (objects and text are strings)."""
    return "string" if dtype.kind in "OUST" else dtype.name


class Refusal(Exception):
    """Why a node can't be expressed; the message is the reason a user reads."""


class NeedsValue(Refusal):
    """A node needs the value of something that is computed on the device.

    `sources` are the graph inputs it is computed from. When they are small, the session compiles for their value.
    """

    def __init__(self, reason: str, sources: frozenset[str]) -> None:
        super().__init__(reason)
        self.sources = sources


@dataclass(frozen=True, eq=False)
class Known:
    """A value known on the host: initializers, and whatever is computed from them and from shapes."""

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(d) for d in self.array.shape)

    @property
    def dtype(self) -> str:
        """Element type, as webnn_cl.onnx.elements names it."""
        return name_of_numpy(self.array.dtype)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value computed on the device: `operand`, whose ONNX element type is `dtype`.

    `sources` names the graph inputs that the value depends on.
    """

    operand: MLOperand
    dtype: str
    sources: frozenset[str] = frozenset()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.operand.shape


@dataclass(frozen=True, eq=False)
class Sequence:
    """An ONNX sequence of known length."""

    items: tuple[Value, ...]
    dtype: str = "float32"


@dataclass(frozen=True, eq=False)
class Absent:
    """An optional that holds nothing."""


@dataclass(frozen=True, eq=False)
class Poison:
    """An output of a node that was refused; what depends on it is skipped.

    With a `reason` it is a graph input that nothing can use: the nodes that do are refused.
    """

    reason: str = ""


Value: TypeAlias = "Known | Tensor | Sequence | Absent | Poison"


def sources_of(value: Value | None) -> frozenset[str]:
    """The graph inputs that `value` depends on."""
    if isinstance(value, Tensor):
        return value.sources
    if isinstance(value, Sequence):
        return frozenset().union(*(sources_of(item) for item in value.items))
    return frozenset()
