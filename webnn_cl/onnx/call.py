"""What the handler of one ONNX operator works with: inputs, attributes, and the graph builder."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from webnn_cl.onnx.elements import carrier_of
from webnn_cl.onnx.values import Array, Known, NeedsValue, Refusal, Tensor, Value, sources_of

if TYPE_CHECKING:
    from webnn_cl.builder import MLGraphBuilder
    from webnn_cl.onnx.importer import Importer, Scope
    from webnn_cl.onnx.nodes import Node
    from webnn_cl.operand import MLOperand

__all__ = ["Call", "Labelled"]


class Labelled:
    """The graph builder with one label for every operator, noting which operators were used."""

    def __init__(self, builder: MLGraphBuilder, label: str) -> None:
        self._builder = builder
        self._label = label
        self.used: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._builder, name)
        if name == "constant":
            return method

        def call(*args: Any, **options: Any) -> Any:
            self.used.append(name)
            return method(*args, label=self._label, **options)

        return call


class Call:
    """One node under import."""

    def __init__(self, importer: Importer, node: Node, inputs: Seq[Value | None], version: int, scope: Scope) -> None:
        self.importer = importer
        self.node = node
        self.inputs = inputs
        self.version = version
        self.scope = scope
        self._labelled = Labelled(importer.builder, node.title)
        self.b = cast("MLGraphBuilder", self._labelled)

    @property
    def used(self) -> list[str]:
        """The WebNN operators that the handler has called."""
        return self._labelled.used

    def refuse(self, reason: str) -> NoReturn:
        """Give up on this node for `reason`."""
        raise Refusal(reason)

    # Inputs -------------------------------------------------------------------------------------------------

    def has(self, index: int) -> bool:
        """Whether the optional input `index` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> Known | Tensor:
        """Input `index`, a tensor."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise Refusal(f"input {index} is missing")
        if not isinstance(value, (Known, Tensor)):
            raise Refusal(f"input {index} is not a tensor")
        return value

    def x(self, index: int) -> MLOperand:
        """Input `index` as an operand of its carrier type."""
        return self.lift(self.value(index))

    def operands(self) -> list[MLOperand]:
        """Every input as an operand."""
        return [self.x(i) for i in range(len(self.inputs))]

    def optional(self, index: int) -> MLOperand | None:
        """Input `index` as an operand, None where it is left out."""
        return self.x(index) if self.has(index) else None

    def lift(self, value: Known | Tensor) -> MLOperand:
        """`value` as an operand; known ones become constants."""
        return value.operand if isinstance(value, Tensor) else self.importer.constant(value.array)

    def shape(self, index: int) -> tuple[int, ...]:
        """Dimensions of input `index`."""
        return self.value(index).shape

    def rank(self, index: int) -> int:
        """Number of dimensions of input `index`."""
        return len(self.shape(index))

    def dtype(self, index: int) -> str:
        """ONNX element type of input `index`."""
        return self.value(index).dtype

    def peek(self, index: int) -> Array | None:
        """The value of input `index` where it is known on the host."""
        value = self.inputs[index] if index < len(self.inputs) else None
        return value.array if isinstance(value, Known) else None

    def known(self, index: int, what: str) -> Array:
        """The value of input `index`, which decides shapes or structure and so has to be known."""
        value = self.value(index)
        if isinstance(value, Known):
            return value.array
        raise NeedsValue(f"{what} is computed on the device, but must be known when the graph is built", value.sources)

    def known_ints(self, index: int, what: str) -> list[int]:
        """As `known`, flattened to a list of ints."""
        return [int(v) for v in np.asarray(self.known(index, what)).reshape(-1)]

    def known_floats(self, index: int, what: str) -> list[float]:
        """As `known`, flattened to a list of floats."""
        return [float(v) for v in np.asarray(self.known(index, what)).reshape(-1)]

    def reshaped(self, index: int, shape: Seq[int]) -> MLOperand:
        """Input `index` in another shape; constants are reshaped on the host."""
        value = self.value(index)
        if isinstance(value, Known):
            return self.importer.constant(value.array.reshape(tuple(shape)))
        return value.operand if value.shape == tuple(shape) else self.b.reshape(value.operand, list(shape))

    def transposed(self, index: int, permutation: Seq[int]) -> MLOperand:
        """Input `index` with its axes permuted; constants are permuted on the host."""
        value = self.value(index)
        if isinstance(value, Known):
            return self.importer.constant(np.ascontiguousarray(value.array.transpose(tuple(permutation))))
        if list(permutation) == sorted(permutation):
            return value.operand
        return self.b.transpose(value.operand, permutation=list(permutation))

    # Attributes ---------------------------------------------------------------------------------------------

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        return int(self.node.attrs.get(name, default))

    def real(self, name: str, default: float = 0.0) -> float:
        """A float attribute, as the float32 it is stored as."""
        return float(np.float32(self.node.attrs.get(name, default)))

    def text(self, name: str, default: str = "") -> str:
        """A string attribute."""
        value = self.node.attrs.get(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def integers(self, name: str) -> list[int] | None:
        """A list of integers, None where the attribute is missing."""
        value = self.node.attrs.get(name)
        return None if value is None else [int(v) for v in value]

    def reals(self, name: str) -> list[float] | None:
        """A list of floats, None where the attribute is missing."""
        value = self.node.attrs.get(name)
        return None if value is None else [float(v) for v in value]

    def texts(self, name: str) -> list[str] | None:
        """A list of strings, None where the attribute is missing."""
        value = self.node.attrs.get(name)
        return None if value is None else [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value]

    def axis(self, axis: int, rank: int) -> int:
        """`axis` counted from the front; a Refusal when it is out of range."""
        if not -rank <= axis < rank:
            raise Refusal(f"axis {axis} is out of range for rank {rank}")
        return axis + rank if axis < 0 else axis

    def axes(self, axes: Seq[int], rank: int) -> list[int]:
        """As `axis`, for a list of distinct axes."""
        result = [self.axis(a, rank) for a in axes]
        if len(set(result)) != len(result):
            raise Refusal(f"axes {list(axes)} name an axis twice")
        return result

    # Results ------------------------------------------------------------------------------------------------

    def wants(self, index: int) -> bool:
        """Whether anything uses output `index`."""
        return index < len(self.node.wanted) and self.node.wanted[index]

    def tensor(self, operand: MLOperand, dtype: str) -> Tensor:
        """A result of the ONNX element type `dtype`, cast to its carrier where it is not yet."""
        carrier = carrier_of(dtype)
        if operand.data_type != carrier:
            operand = self.b.cast(operand, carrier)
        return Tensor(operand, dtype, self.sources())

    def sources(self) -> frozenset[str]:
        """The graph inputs that this node's results depend on."""
        return frozenset().union(*(sources_of(v) for v in self.inputs))

    def constant(self, array: Any, dtype: str | None = None) -> MLOperand:
        """A constant from host data, of the numpy type `dtype` where given."""
        return self.importer.constant(np.asarray(array, dtype=dtype))

    def scalar(self, value: float | int, like: MLOperand) -> MLOperand:
        """A scalar constant of the type of `like`."""
        return self.b.constant(value, data_type=like.data_type)
