"""Fusion: element-wise nodes whose results nobody else needs join the kernel that consumes them."""

from __future__ import annotations

from collections.abc import Sequence

from webnn_cl.compiler.elementwise import Chain
from webnn_cl.compiler.ir import Graph, Node, Value

__all__ = ["consumers_of", "fuse_elementwise"]

# Kernels have a limited number of arguments, and long chains run out of registers.
MAX_NODES = 24
MAX_INPUTS = 12


def fuse_elementwise(graph: Graph) -> list[Node | Chain]:
    """The graph's nodes in order, runs of element-wise ones joined into chains.

    A node joins the chain of its consumers when all of them are in that one chain, its result has the shape of
    the chain's output, and it is no graph output.
    """
    consumers = consumers_of(graph)
    outputs = set(graph.outputs.values())
    chain_of: dict[Node, list[Node]] = {}
    for node in reversed(graph.nodes):
        if node.op.expression is None:
            continue
        chain = _joinable(node, consumers, outputs, chain_of)
        if chain is None:
            chain = []
        chain.append(node)
        chain_of[node] = chain
    steps: list[Node | Chain] = []
    for node in graph.nodes:
        members = chain_of.get(node)
        if members is None:
            steps.append(node)
        elif members[0] is node:
            steps.append(Chain(members[::-1]))
    return steps


def _joinable(
    node: Node, consumers: dict[Value, list[Node]], outputs: set[Value], chain_of: dict[Node, list[Node]]
) -> list[Node] | None:
    value = node.output
    users = consumers.get(value, [])
    if value in outputs or not users:
        return None
    chain = chain_of.get(users[0])
    if chain is None or any(chain_of.get(user) is not chain for user in users):
        return None
    if chain[0].output.shape != value.shape or len(chain) >= MAX_NODES:
        return None
    return chain if _input_count([*chain, node]) <= MAX_INPUTS else None


def _input_count(nodes: Sequence[Node]) -> int:
    inside = {value for node in nodes for value in node.outputs}
    return len({value for node in nodes for value in node.inputs.values()} - inside)


def consumers_of(graph: Graph) -> dict[Value, list[Node]]:
    """The nodes that read each value (once each)."""
    found: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(node.inputs.values()):
            found.setdefault(value, []).append(node)
    return found
