"""What `expand` functions of records build with: nodes in order, each on the values of those before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webnn_cl.compiler.ir import Node, TensorDesc, Value
from webnn_cl.ops.record import OpRecord
from webnn_cl.ops.shaping import RESHAPE

__all__ = ["Expansion"]


class Expansion:
    """The replacement of `origin`, node by node; all carry its label."""

    def __init__(self, origin: Node) -> None:
        self.origin = origin
        self.nodes: list[Node] = []

    def add(self, record: OpRecord, inputs: Mapping[str, Value], attrs: Mapping[str, Any], desc: TensorDesc) -> Value:
        """A node with one output of `desc`; its value."""
        return self.add_many(record, inputs, attrs, [desc])[0]

    def add_many(
        self, record: OpRecord, inputs: Mapping[str, Value], attrs: Mapping[str, Any], descs: Sequence[TensorDesc]
    ) -> list[Value]:
        """A node with outputs of `descs`; their values."""
        node = Node(record, dict(inputs), dict(attrs), label=self.origin.label)
        node.outputs = [Value(desc, producer=node) for desc in descs]
        self.nodes.append(node)
        return node.outputs

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """`value` under another shape of as many elements."""
        if value.shape == tuple(shape):
            return value
        desc = TensorDesc(value.data_type, tuple(shape))
        return self.add(RESHAPE, {"input": value}, {"new_shape": desc.shape}, desc)
