"""Expansion: operators that other operators say better, rewritten before anything else looks at the graph."""

from __future__ import annotations

from webnn_cl.compiler.ir import Graph, Node, Value

__all__ = ["expand_operators"]


def expand_operators(graph: Graph) -> Graph:
    """`graph` with each node whose record has `expand` replaced, on new nodes (the builder's own stay as they are).

    ``record.expand(node)`` gives the replacement in topological order, its last node's outputs standing for the
    node's own; an empty list keeps the node.
    """
    if not any(node.op.expand for node in graph.nodes):
        return graph
    new: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        copy = Node(node.op, {role: new.get(v, v) for role, v in node.inputs.items()}, node.attrs, label=node.label)
        copy.outputs = [Value(v.desc, producer=copy) for v in node.outputs]
        replacement = (node.op.expand(copy) if node.op.expand else []) or [copy]
        new.update(zip(node.outputs, replacement[-1].outputs, strict=True))
        nodes += replacement
    return Graph(dict(graph.inputs), {name: new.get(v, v) for name, v in graph.outputs.items()}, nodes)
