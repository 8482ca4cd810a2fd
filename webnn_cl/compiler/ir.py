"""The graph that the builder records and the compiler rewrites: descriptors, values, nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.dtypes import DataType, dtype_of

if TYPE_CHECKING:
    from webnn_cl.ops.record import OpRecord

__all__ = ["Constant", "Graph", "Node", "TensorDesc", "Value"]


@dataclass(frozen=True)
class TensorDesc:
    """Data type and shape of a tensor, packed row-major."""

    data_type: DataType
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * dtype_of(self.data_type).size

    def __str__(self) -> str:
        return f"{self.data_type}{list(self.shape)}"


@dataclass(eq=False)
class Constant:
    """Data of a constant value: `array` on the host, or `storage`, the device memory of a constant MLTensor.

    Identity is the key under which a context keeps uploads and packings, so two values that share data share
    one Constant. A `lasting` one belongs to a session: its `array` stays, and its device memory comes and goes. One
    that was `folded` loses its memory once it is packed; ``remake(context)`` makes it (again) where `storage` is None.
    Where it is a float16 constant cast to float32, `narrow` is that constant, which packing reads in its place.
    """

    array: np.ndarray[Any, Any] | None = None
    storage: Any = None
    packed: dict[Any, Any] = field(default_factory=dict)
    lasting: bool = False
    folded: bool = False
    remake: Callable[[Any], Any] | None = None
    narrow: Value | None = None


@dataclass(eq=False)
class Value:
    """One tensor of the graph: a graph input (`name`), a constant, or an output of `producer`."""

    desc: TensorDesc
    producer: Node | None = None
    name: str | None = None
    constant: Constant | None = None

    @property
    def data_type(self) -> DataType:
        return self.desc.data_type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.desc.shape

    @property
    def is_constant(self) -> bool:
        return self.constant is not None

    @property
    def scalar(self) -> int | float | None:
        """The number, where this is a constant of one element that the host knows."""
        if self.constant is None or self.constant.array is None or self.desc.size != 1:
            return None
        item = self.constant.array.reshape(-1)[0].item()
        assert isinstance(item, (int, float))
        return item


@dataclass(eq=False)
class Node:
    """One operator: inputs by role (the operand's Python name; ``inputs.0`` ... for lists), attributes, outputs."""

    op: OpRecord
    inputs: dict[str, Value]
    attrs: dict[str, Any]
    outputs: list[Value] = field(default_factory=list)
    label: str = ""

    @property
    def output(self) -> Value:
        return self.outputs[0]

    def many(self, role: str) -> list[Value]:
        """The values of a list operand, in order."""
        found: list[Value] = []
        while (value := self.inputs.get(f"{role}.{len(found)}")) is not None:
            found.append(value)
        return found


@dataclass(eq=False)
class Graph:
    """A whole graph: `inputs` and `outputs` by name, `nodes` in topological order."""

    inputs: dict[str, Value]
    outputs: dict[str, Value]
    nodes: list[Node]

    @classmethod
    def reachable_from(cls, outputs: dict[str, Value]) -> Graph:
        """The graph of all that `outputs` need; inputs keep the order of their first use."""
        nodes: list[Node] = []
        inputs: dict[str, Value] = {}
        done: set[int] = set()
        for root in outputs.values():
            _visit(root, nodes, inputs, done)
        return cls(inputs, dict(outputs), nodes)

    def values(self) -> Iterator[Value]:
        """Every value once: inputs, constants in order of use, node outputs."""
        seen: set[int] = set()
        for value in (*self.inputs.values(), *(v for n in self.nodes for v in (*n.inputs.values(), *n.outputs))):
            if id(value) not in seen:
                seen.add(id(value))
                yield value

    def readers(self) -> dict[Value, list[Node]]:
        """The nodes that read each value, once each, in order; no entry where none does."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs.values()):
                found.setdefault(value, []).append(node)
        return found


def _visit(root: Value, nodes: list[Node], inputs: dict[str, Value], done: set[int]) -> None:
    """Depth first without recursion: graphs may be thousands of nodes deep."""
    stack: list[tuple[Value, bool]] = [(root, False)]
    while stack:
        value, expanded = stack.pop()
        node = value.producer
        if node is None:
            if value.name is not None:
                inputs.setdefault(value.name, value)
            continue
        if id(node) in done:
            continue
        if expanded:
            done.add(id(node))
            nodes.append(node)
        else:
            stack.append((value, True))
            stack.extend((v, False) for v in reversed(node.inputs.values()))
