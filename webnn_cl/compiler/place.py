"""Placement: results are written, and parts of a split read, where they lie in a concat or behind a transpose."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

from webnn_cl.compiler.fuse import Step
from webnn_cl.compiler.ir import Graph, Node, Value
from webnn_cl.compiler.tail import Place, vector_run
from webnn_cl.ops.strided import View, affine_view

__all__ = ["place_pieces", "place_turned", "places_of", "read_by_chains"]

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
        found.append(Place(node.output, View((rows, run), (pitch, 1), offset)))
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
        rows_fit = place.whole or (place.run >= LANES and shape[-1] >= LANES)
        return rows_fit and place.view.reshaped(shape) is not None
    if len(step.node.outputs) != 1:
        return False
    run = vector_run(step.node)
    return run > 0 and place.run % run == 0


def place_turned(graph: Graph, steps: Sequence[Step], chains: bool, taken: Container[Value]) -> dict[Value, Place]:
    """Where the values go that are only needed transposed and in memory, if the step that makes them can write there.

    `taken` have a place already; `chains` as in place_pieces. The views on the way are in it too.
    """
    if not any(node.op.name == "transpose" for node in graph.nodes):
        return {}
    found: dict[Value, Place] = {}
    readers, outputs = graph.readers(), set(graph.outputs.values())
    for step in steps:
        value = _result(step)
        if value in taken or not (chains or step.node is not None):
            continue
        way = _way_through_views(value, readers, outputs)
        place = _turned_place(value, way) if way and _needs_memory(*_seen(way), readers, outputs) else None
        if place is not None and not place.whole and _can_write(step, place):
            found.update(dict.fromkeys([value, *(node.output for node in way)], place))
    return found


def _way_through_views(value: Value, readers: dict[Value, list[Node]], outputs: set[Value]) -> list[Node]:
    """The transposes and reshapes through which alone `value` is needed, as far as strides can say what they show; down
    to the last transpose.
    """
    way: list[Node] = []
    view = View.packed(value.shape)
    while value not in outputs and len(readers.get(value, ())) == 1:
        (node,) = readers[value]
        seen = affine_view(node, view) if node.op.name in ("reshape", "transpose") else None
        if seen is None:
            break
        way.append(node)
        value, view = node.output, seen
    while way and way[-1].op.name != "transpose":
        way.pop()
    return way


def _seen(way: Sequence[Node]) -> tuple[Value, View]:
    """The last value of a way, and how it lies in the first one's memory."""
    view = View.packed(way[0].inputs["input"].shape)
    for node in way:
        found = affine_view(node, view)
        assert found is not None
        view = found
    return way[-1].output, view


def _needs_memory(value: Value, view: View, readers: dict[Value, list[Node]], outputs: set[Value]) -> bool:
    """Whether a value, a view of something else, would be copied for one who needs it."""
    if value in outputs:
        return True
    for node in readers.get(value, ()):
        seen = affine_view(node, view)
        if seen is not None:
            if _needs_memory(node.output, seen, readers, outputs):
                return True
        elif node.op.view or not reads_view(node, view):
            return True
    return False


def reads_view(node: Node, view: View) -> bool:
    """Whether `node` can read `view` of a tensor where it lies."""
    small = view.collapsed()
    if node.op.expression is not None:
        return not small.shape or (small.strides[-1] == 1 and small.shape[-1] >= LANES)
    return bool(node.op.meta.get("reads_views"))


def _turned_place(value: Value, way: Sequence[Node]) -> Place | None:
    """Where in the last value's own memory each element of the first one lies; None where strides can't say it."""
    target = way[-1].output
    view = View.packed(target.shape)
    for node in reversed(way):
        if view.shape != node.output.shape:
            return None
        if node.op.name == "transpose":
            order = node.attrs["permutation"]
            view = view.transposed([order.index(axis) for axis in range(len(order))])
        else:
            view = view.reshaped(node.inputs["input"].shape) or view
    return Place(target, view)


def read_by_chains(graph: Graph, steps: Sequence[Step]) -> set[Value]:
    """The values that only element-wise kernels read, which can read them as views of other tensors."""
    members = {node for step in steps if step.node is None and step.chain is not None for node in step.chain.nodes}
    outputs = set(graph.outputs.values())
    return {v for v, users in graph.readers().items() if v not in outputs and members.issuperset(users)}
