"""Fusion: element-wise nodes whose results nobody else needs join the kernel that consumes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webnn_cl.compiler.elementwise import Chain
from webnn_cl.compiler.ir import Graph, Node, Value
from webnn_cl.compiler.prologue import precedes
from webnn_cl.compiler.tail import accepts

__all__ = ["Step", "fuse_elementwise"]

# Kernels have a limited number of arguments, and long chains run out of registers.
MAX_NODES = 24
MAX_INPUTS = 12


@dataclass(frozen=True, eq=False)
class Step:
    """What becomes launches of its own: a node, an element-wise chain, or a node with a chain as its epilogue, and
    perhaps one as its prologue, `before`.
    """

    node: Node | None
    chain: Chain | None
    before: Chain | None = None


def fuse_elementwise(graph: Graph) -> list[Step]:
    """The graph's nodes in order, runs of element-wise ones joined into chains and put behind their producers.

    A node joins the chain of its consumers when all of them are in that one chain, its result has the shape of
    the chain's output, and it is no graph output.
    """
    consumers = graph.readers()
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
    heads = _epilogues(graph, chain_of, consumers, outputs)
    absorbed = set(heads.values())
    before = _prologues(graph, chain_of, heads, consumers, outputs)
    taken = {chain[0] for chain in before.values()}
    steps: list[Step] = []
    for node in graph.nodes:
        members = chain_of.get(node)
        if members is None:
            if node not in absorbed:
                steps.append(_step(node, None, before))
        elif members[0] is node and node not in taken:
            steps.append(_step(heads.get(node), Chain(members[::-1]), before))
    return steps


def _step(node: Node | None, chain: Chain | None, before: Mapping[Node, list[Node]]) -> Step:
    members = before.get(node) if node is not None else None
    return Step(node, chain, Chain(members[::-1]) if members is not None else None)


def _prologues(
    graph: Graph,
    chain_of: dict[Node, list[Node]],
    heads: dict[Node, Node],
    consumers: dict[Value, list[Node]],
    outputs: set[Value],
) -> dict[Node, list[Node]]:
    """The chains, last node first, that the one node which reads their results computes itself."""
    found: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        chain = chain_of.get(node)
        if chain is None or chain[0] is not node or node in heads or node.output in outputs:
            continue
        readers = consumers.get(node.output, [])
        if len(readers) == 1 and precedes(chain[::-1], readers[0]):
            found[readers[0]] = chain
    return found


def _epilogues(
    graph: Graph, chain_of: dict[Node, list[Node]], consumers: dict[Value, list[Node]], outputs: set[Value]
) -> dict[Node, Node]:
    """For the last node of each chain, the producer that applies the chain itself: the latest that can.

    It runs where the chain ran, after everything that the chain reads.
    """
    heads: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.op.expression is not None or len(node.outputs) != 1 or node.output in outputs:
            continue
        users = consumers.get(node.output, [])
        chain = chain_of.get(users[0]) if users else None
        if chain is None or any(chain_of.get(user) is not chain for user in users):
            continue
        if accepts(node, chain[::-1]):
            heads[chain[0]] = node
    return heads


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
