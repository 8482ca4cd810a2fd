"""The importer's own view of an ONNX graph: nodes with parsed attributes, and which values are ever used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx

__all__ = ["GraphView", "Node", "function_view", "graph_view"]

_GRAPH, _GRAPHS = onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS


@dataclass(frozen=True, eq=False)
class Node:
    """One ONNX node. `attrs` holds plain values; strings are bytes, as onnx.helper gives them.

    `wanted` tells for each output whether anything uses it. `proto` is the message it was made from.
    """

    op_type: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    wanted: tuple[bool, ...]
    overload: str
    proto: Any = field(repr=False)

    @property
    def title(self) -> str:
        """How messages name the node: its name, or its first output when it has none."""
        return self.name or next((o for o in self.outputs if o), self.op_type)


@dataclass(frozen=True, eq=False)
class GraphView:
    """Nodes that contribute to the outputs, in order, with the graph's own names around them."""

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initializers: Mapping[str, Any]
    proto: Any = field(repr=False)


def graph_view(graph: Any) -> GraphView:
    """The view of a GraphProto."""
    initializers = {t.name: t for t in graph.initializer}
    initializers |= {t.values.name: t for t in graph.sparse_initializer}
    inputs = tuple(i.name for i in graph.input)
    outputs = tuple(o.name for o in graph.output)
    return GraphView(_live_nodes(graph.node, outputs, {}), inputs, outputs, initializers, graph)


def function_view(function: Any, attrs: Mapping[str, Any], wanted: Sequence[bool]) -> GraphView:
    """The view of a FunctionProto called with the attributes `attrs`, as far as the `wanted` outputs need it."""
    from onnx.helper import get_attribute_value

    values = {a.name: get_attribute_value(a) for a in function.attribute_proto}
    values |= attrs
    outputs = tuple(function.output)
    needed = tuple(name for name, want in zip(outputs, wanted, strict=False) if want)
    return GraphView(_live_nodes(function.node, needed, values), tuple(function.input), outputs, {}, function)


def _live_nodes(protos: Iterable[Any], outputs: tuple[str, ...], values: Mapping[str, Any]) -> tuple[Node, ...]:
    """The nodes that `outputs` depend on, in their order, each knowing which of its outputs are used."""
    used, live = set(outputs), []
    for proto in reversed(list(protos)):
        if not used.intersection(proto.output):
            continue
        wanted = tuple(bool(o) and o in used for o in proto.output)
        used.update(name for name in proto.input if name)
        used.update(_captured(proto))
        live.append(_node(proto, wanted, values))
    return tuple(reversed(live))


def _node(proto: Any, wanted: tuple[bool, ...], values: Mapping[str, Any]) -> Node:
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    attrs = _attributes(proto, values)
    names = tuple(proto.input), tuple(proto.output)
    node = Node(proto.op_type, domain, proto.name, *names, attrs, wanted, getattr(proto, "overload", ""), proto)
    return node if not any(a.ref_attr_name for a in proto.attribute) else replace(node, proto=_resolved(node))


def _attributes(proto: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    from onnx.helper import get_attribute_value

    attrs: dict[str, Any] = {}
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in values:
                attrs[attribute.name] = values[attribute.ref_attr_name]
            continue
        if attribute.type in (_GRAPH, _GRAPHS) and values:
            attribute = _resolve_subgraph(attribute, values)
        attrs[attribute.name] = get_attribute_value(attribute)
    return attrs


def _resolved(node: Node) -> Any:
    """The message of `node` with its references to a function's attributes replaced by their values."""
    from onnx.helper import make_node

    attrs = {k: v for k, v in node.attrs.items() if v is not None}
    return make_node(node.op_type, node.inputs, node.outputs, name=node.name, domain=node.domain, **attrs)


def _resolve_subgraph(attribute: Any, values: Mapping[str, Any]) -> Any:
    """A copy of a graph attribute of a function body, with references to the function's attributes filled in."""
    from onnx.helper import make_attribute

    copy = onnx.AttributeProto()
    copy.CopyFrom(attribute)
    for graph in (copy.g, *copy.graphs):
        for node in graph.node:
            for index, inner in enumerate(node.attribute):
                if inner.ref_attr_name and inner.ref_attr_name in values:
                    node.attribute[index].CopyFrom(make_attribute(inner.name, values[inner.ref_attr_name]))
                elif inner.type in (_GRAPH, _GRAPHS):
                    node.attribute[index].CopyFrom(_resolve_subgraph(inner, values))
    return copy


def _captured(proto: Any) -> set[str]:
    """Names that the subgraphs of a node take from outside."""
    names: set[str] = set()
    for attribute in proto.attribute:
        graphs = (attribute.g,) if attribute.type == _GRAPH else attribute.graphs
        for graph in graphs:
            own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
            own |= {o for n in graph.node for o in n.output}
            inside = {name for n in graph.node for name in n.input} | {o.name for o in graph.output}
            inside.update(*(_captured(n) for n in graph.node))
            names |= inside - own
    return names - {""}

