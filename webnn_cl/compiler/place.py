"""Placement: parts of a concat are written, and parts of a split read, where they lie in the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from webnn_cl.compiler.fuse import Step
from webnn_cl.compiler.ir import Graph, Node, Value
from webnn_cl.compiler.tail import Place, vector_run

__all__ = ["place_pieces", "places_of", "read_by_chains"]

# Element-wise kernels store rows by vectors of eight.
LANES = 8


def place_pieces(graph: Graph, steps: Sequence[Step], chains: bool) -> dict[Value, Place]:
    """Where the values of `graph` that only a concat reads go, if the step that makes them can write there.

    `chains`: whether element-wise kernels can, which on some devices write packed results only. The values of reshapes
    on the way to the concat are in it too: nobody else looks at them.
    """
    concats = [node for node in graph.nodes if node.op.name == "concat" and len(node.inputs) > 1]
    if not concats:
        return {}
    makers = {_result(step): step for step in steps}
    consumers, outputs = graph.readers(), set(graph.outputs.values())
    found: dict[Value, Place] = {}
    for node in concats:
        pieces = node.many("inputs")
        for value, place in zip(pieces, places_of(node), strict=True):
            way = _way(value, node, consumers, outputs) if pieces.count(value) == 1 else []
            step = makers.get(way[-1]) if way else None
            if step is not None and (chains or step.node is not None) and _can_write(step, place):
                found.update(dict.fromkeys(way, place))
    return found


def _result(step: Step) -> Value:
    """What a step stores last."""
    if step.chain is not None:
        return step.chain.output
    assert step.node is not None
    return step.node.output


def places_of(node: Node) -> list[Place]:
    """Where in its output each operand of a concat goes."""
    axis, shape = node.attrs["axis"], node.output.shape
    rows, pitch = math.prod(shape[:axis]), math.prod(shape[axis:])
    found, offset = [], 0
    for value in node.many("inputs"):
        run = value.desc.size // rows
        found.append(Place(node.output, offset, run, pitch))
        offset += run
    return found


def _way(value: Value, user: Node, consumers: dict[Value, list[Node]], outputs: set[Value]) -> list[Value]:
    """`value` and what it is a reshape of, down to a value that is none; empty where somebody else reads any of it."""
    way: list[Value] = []
    while True:
        if value in outputs or consumers[value] != [user]:
            return []
        way.append(value)
        maker = value.producer
        if maker is None or not maker.op.view:
            return way
        value, user = maker.inputs["input"], maker


def _can_write(step: Step, place: Place) -> bool:
    """Whether the eight elements that are stored together always lie in one run of the concat's rows."""
    if step.node is None:
        assert step.chain is not None
        shape = step.chain.output.shape
        rows_fit = place.rows == 1 or (place.run >= LANES and shape[-1] >= LANES)
        return rows_fit and place.view(shape) is not None
    if len(step.node.outputs) != 1:
        return False
    run = vector_run(step.node)
    return run > 0 and place.run % run == 0


def read_by_chains(graph: Graph, steps: Sequence[Step]) -> set[Value]:
    """The values that only element-wise kernels read, which can read them as views of other tensors."""
    members = {node for step in steps if step.node is None and step.chain is not None for node in step.chain.nodes}
    outputs = set(graph.outputs.values())
    return {v for v, users in graph.readers().items() if v not in outputs and members.issuperset(users)}
