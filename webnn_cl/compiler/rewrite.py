"""Rewriting: passes build a new graph node by node; the builder's own records stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webnn_cl.compiler.ir import Graph, Node, TensorDesc, Value
from webnn_cl.ops.record import REGISTRY, OpRecord

__all__ = ["Rewriter"]


class Rewriter:
    """The graph under construction: new nodes in order, and what each old value has become."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.new: dict[Value, Value] = {}
        # Of the old graph: who reads a value, and what leaves it.
        self.consumers = graph.readers()
        self.outputs = set(graph.outputs.values())

    def get(self, value: Value) -> Value:
        """What an old value has become; graph inputs and constants stay themselves."""
        return self.new.get(value, value)

    def only_for(self, value: Value, *users: Node) -> bool:
        """Whether nobody but `users` needs an old value."""
        return value not in self.outputs and set(self.consumers.get(value, ())) <= set(users)

    def add(
        self,
        op: OpRecord | str,
        inputs: Mapping[str, Value],
        attrs: Mapping[str, Any],
        descs: Sequence[TensorDesc],
        label: str = "",
    ) -> list[Value]:
        """A new node, by record or name; its outputs."""
        record = REGISTRY[op] if isinstance(op, str) else op
        node = Node(record, dict(inputs), dict(attrs), label=label)
        node.outputs = [Value(desc, producer=node) for desc in descs]
        self.nodes.append(node)
        return node.outputs

    def copy(self, node: Node) -> None:
        """`node` as it is, on the new values."""
        outputs = self.add(
            node.op, {r: self.get(v) for r, v in node.inputs.items()}, node.attrs, [v.desc for v in node.outputs],
            node.label,
        )  # fmt: skip
        self.new.update(zip(node.outputs, outputs, strict=True))

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """`value` with its dimensions permuted; a reshape when only dimensions of one move."""
        shape = tuple(value.shape[axis] for axis in permutation)
        moving = [axis for axis in permutation if value.shape[axis] != 1]
        if moving == sorted(moving):
            return self.reshape(value, shape)
        desc = TensorDesc(value.data_type, shape)
        return self.add("transpose", {"input": value}, {"permutation": tuple(permutation)}, [desc])[0]

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """`value` in another shape of as many elements."""
        if tuple(shape) == value.shape:
            return value
        return self.add("reshape", {"input": value}, {}, [TensorDesc(value.data_type, tuple(shape))])[0]

    def finish(self) -> Graph:
        """The new graph, without nodes that nothing needs."""
        outputs = {name: self.get(value) for name, value in self.graph.outputs.items()}
        live = Graph.reachable_from(outputs)
        return Graph(dict(self.graph.inputs), outputs, live.nodes)
