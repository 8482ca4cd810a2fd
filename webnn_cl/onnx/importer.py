"""From an ONNX graph to calls of MLGraphBuilder, for one set of input shapes.

Every value is either known on the host or an operand. A node whose inputs are all known is evaluated on the host; any
other goes to its handler (webnn_cl.onnx.operators), or is replaced by the function that defines it. A node that can't
be expressed is noted with its reason and its outputs are poisoned, so that one pass finds all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

import webnn_cl.onnx.operators  # noqa: F401  (fills the table of handlers)
from webnn_cl.errors import MLError
from webnn_cl.onnx.call import Call
from webnn_cl.onnx.elements import name_of_numpy, to_carrier
from webnn_cl.onnx.fold import NotOnHost, can_fold, fold
from webnn_cl.onnx.loader import Model
from webnn_cl.onnx.nodes import GraphView, Node, function_view, graph_view
from webnn_cl.onnx.registry import HANDLERS
from webnn_cl.onnx.schemas import function_body, output_types, schema_of
from webnn_cl.onnx.values import (
    Array,
    Known,
    NeedsValue,
    Poison,
    Refusal,
    Value,
)
from webnn_cl.onnx.values import Sequence as SequenceValue

if TYPE_CHECKING:
    from webnn_cl.builder import MLGraphBuilder
    from webnn_cl.onnx.weights import DeviceWeights, SketchedWeights
    from webnn_cl.operand import MLOperand

__all__ = ["Importer", "NodeRecord", "Scope"]

_BY_VALUES = "the shape of its result depends on values that are computed on the device"
_RANDOM = "its result is random"
_REASONS = {
    **dict.fromkeys(("NonZero", "Unique", "NonMaxSuppression"), _BY_VALUES),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"), _RANDOM),
    "ImageDecoder": "it decodes a file format",
}
MAX_NODES = 100_000  # nodes of one import, all iterations of unrolled loops counted
MAX_DEPTH = 64  # functions and subgraphs inside each other


@dataclass(frozen=True)
class NodeRecord:
    """How one ONNX node is expressed: ``direct``, ``composed``, ``folded``, ``inlined``, ``refused`` or ``skipped``.

    `needs` names the graph inputs whose values a refused node lacks, where that is all it lacks.
    """

    name: str
    op_type: str
    domain: str
    how: str
    operators: tuple[str, ...] = ()
    reason: str = ""
    needs: frozenset[str] = frozenset()


class Scope:
    """Names of one graph or function, over those of the graph around it."""

    def __init__(self, opsets: Mapping[str, int], parent: Scope | None = None, path: str = "") -> None:
        self.opsets = opsets
        self.parent = parent
        self.path = path
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.values: dict[str, Value | None] = {}  # None: an optional input that is left out
        self.initializers: Mapping[str, Any] = {}


class Importer:
    """One import of a model: `records` tells how each node went, `notices` what a user should be told."""

    def __init__(self, model: Model, builder: MLGraphBuilder, weights: DeviceWeights | SketchedWeights) -> None:
        self.model = model
        self.builder = builder
        self.weights = weights
        self.records: list[NodeRecord] = []
        self.notices: dict[str, None] = {}
        self._constants: dict[int, tuple[Array, MLOperand]] = {}
        self._nodes = 0

    @property
    def refusals(self) -> list[NodeRecord]:
        """The nodes that can't be expressed."""
        return [r for r in self.records if r.how == "refused"]

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """Import the main graph; its outputs by name, poisoned where refused."""
        view = self.view(self.model.graph)
        scope = Scope(self.model.opsets)
        scope.values.update(feeds)
        self._run_nodes(view, scope)
        return {name: self._output(name, scope) for name in view.outputs}

    def _output(self, name: str, scope: Scope) -> Value:
        try:
            return self.lookup(name, scope) or Poison()
        except Refusal as refusal:
            self.records.append(NodeRecord(name, "graph output", "", "refused", (), str(refusal)))
            return Poison()

    def view(self, graph: Any) -> GraphView:
        """The view of a GraphProto, kept for the model's lifetime."""
        return self.model.view(graph, graph_view)

    # Names --------------------------------------------------------------------------------------------------

    def lookup(self, name: str, scope: Scope) -> Value | None:
        """What `name` stands for in `scope`; None for a function's input that its caller left out."""
        at: Scope | None = scope
        while at is not None:
            if name in at.values:
                return at.values[name]
            if name in at.initializers:
                value = Known(self.model.array(at.initializers[name]))
                at.values[name] = value
                return value
            at = at.parent
        raise Refusal(f"{name!r} is used before anything defines it")

    # Graphs and functions -----------------------------------------------------------------------------------

    def run_subgraph(self, graph: Any, outer: Scope, inputs: Sequence[Value], path: str) -> list[Value]:
        """Run the body of If, Loop or Scan with `inputs` bound to its inputs; it sees the names around it."""
        view = self.view(graph)
        if len(inputs) != len(view.inputs):
            raise Refusal(f"{path}: {len(inputs)} inputs given, {len(view.inputs)} declared")
        scope = Scope(outer.opsets, outer, f"{outer.path}{path}/")
        scope.values.update(zip(view.inputs, inputs, strict=True))
        self._run_nodes(view, scope)
        return [self.lookup(name, scope) or Poison() for name in view.outputs]

    def run_function(self, function: Any, node: Node, inputs: Sequence[Value | None], scope: Scope) -> list[Value]:
        """Run a function body in place of `node`."""
        opsets = {"" if o.domain == "ai.onnx" else o.domain: int(o.version) for o in function.opset_import}
        opsets = {"": onnx.defs.onnx_opset_version(), **self.model.opsets, **opsets}
        inner = Scope(opsets, None, f"{scope.path}{node.title}/")
        inner.depth = scope.depth + 1
        view = function_view(function, node.attrs, node.wanted)
        given = (*inputs, *[None] * len(view.inputs))
        inner.values.update(zip(view.inputs, given, strict=False))
        self._run_nodes(view, inner)
        wanted = zip(view.outputs, node.wanted, strict=False)
        return [self.lookup(name, inner) or Poison() if want else Poison() for name, want in wanted]

    def _run_nodes(self, view: GraphView, scope: Scope) -> None:
        if scope.depth > MAX_DEPTH:
            raise Refusal(f"functions and subgraphs are nested more than {MAX_DEPTH} deep")
        scope.initializers = view.initializers
        for node in view.nodes:
            for name, value in zip(node.outputs, self._run_node(node, scope), strict=False):
                if name:
                    scope.values[name] = value

    # Nodes --------------------------------------------------------------------------------------------------

    def _run_node(self, node: Node, scope: Scope) -> Sequence[Value]:
        self._nodes += 1
        poison: list[Value] = [Poison()] * len(node.outputs)
        try:
            if self._nodes > MAX_NODES:
                raise Refusal(f"the model unrolls to more than {MAX_NODES} nodes")
            inputs = [self.lookup(name, scope) if name else None for name in node.inputs]
            poisoned = [v for v in inputs if isinstance(v, Poison)]
            if poisoned:
                reason = next((v.reason for v in poisoned if v.reason), "")
                if reason:
                    raise Refusal(reason)
                self._record(node, scope, "skipped")
                return poison
            return self._evaluate(node, inputs, scope)
        except NeedsValue as need:
            return self._refuse(node, scope, str(need), poison, need.sources)
        except Refusal as refusal:
            return self._refuse(node, scope, str(refusal), poison)
        except MLError as error:
            return self._refuse(node, scope, str(error).splitlines()[0], poison)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            text = " ".join(str(error).split())[:200]
            return self._refuse(node, scope, f"malformed node: {type(error).__name__}: {text}", poison)

    def _refuse(
        self, node: Node, scope: Scope, reason: str, poison: list[Value], needs: frozenset[str] = frozenset()
    ) -> list[Value]:
        name = scope.path + node.title
        self.records.append(NodeRecord(name, node.op_type, node.domain, "refused", (), reason, needs))
        return poison

    def _record(self, node: Node, scope: Scope, how: str, used: Sequence[str] = ()) -> None:
        self.records.append(NodeRecord(scope.path + node.title, node.op_type, node.domain, how, tuple(used)))

    def _evaluate(self, node: Node, inputs: list[Value | None], scope: Scope) -> Sequence[Value]:
        local = self.model.functions.get((node.domain, node.op_type, node.overload))
        if local is not None:
            self._record(node, scope, "inlined")
            return self.run_function(local, node, inputs, scope)
        version = scope.opsets.get(node.domain, 1)
        folded = self._fold(node, inputs, scope, version)
        if folded is not None:
            self._record(node, scope, "folded")
            return folded
        handler = HANDLERS.get((node.domain, node.op_type))
        if handler is not None:
            call = Call(self, node, inputs, version, scope)
            results = self._results(call, handler(call))
            how = "folded" if not call.used else "direct" if len(call.used) == 1 else "composed"
            self._record(node, scope, how, call.used)
            return results
        body = function_body(node, version, inputs)
        if body is None:
            raise Refusal(self._unknown(node, version))
        self._record(node, scope, "inlined")
        return self.run_function(body, node, inputs, scope)

    def _unknown(self, node: Node, version: int) -> str:
        where = f" of domain {node.domain!r}" if node.domain else ""
        if schema_of(node.op_type, version, node.domain) is None:
            return f"operator {node.op_type}{where} is unknown in operator set {version}"
        return _REASONS.get(node.op_type, f"operator {node.op_type}{where} has no counterpart in WebNN")

    def _fold(self, node: Node, inputs: list[Value | None], scope: Scope, version: int) -> list[Value] | None:
        if not all(v is None or isinstance(v, Known) for v in inputs) or not inputs:
            return None
        arrays = [v.array if isinstance(v, Known) else None for v in inputs]
        if not can_fold(node, arrays) or schema_of(node.op_type, version, node.domain) is None:
            return None
        types = output_types(node, version, inputs)
        try:
            return [self.host_value(r) for r in fold(node, arrays, scope.opsets, types)]
        except NotOnHost:
            if (node.domain, node.op_type) in HANDLERS:
                return None
            raise

    def host_value(self, result: Any) -> Value:
        """A result of host evaluation: an array, a list of arrays (a sequence), or nothing."""
        if isinstance(result, list):
            items = tuple(self.host_value(item) for item in result)
            return SequenceValue(items)
        return Poison() if result is None else Known(np.asarray(result))

    # Results and constants ----------------------------------------------------------------------------------

    def _results(self, call: Call, results: Any) -> list[Value]:
        if not isinstance(results, (list, tuple)):
            results = [results]
        types = output_types(call.node, call.version, call.inputs)
        types += [None] * (len(results) - len(types))
        return [self._result(call, r, t) for r, t in zip(results, types, strict=False)]

    def _result(self, call: Call, result: Any, dtype: str | None) -> Value:
        if result is None:
            return Poison()
        if isinstance(result, (np.ndarray, np.generic)):
            return Known(np.asarray(result))
        if hasattr(result, "data_type"):
            return call.tensor(result, dtype or result.data_type)
        value: Value = result
        return value

    def constant(self, array: Array) -> MLOperand:
        """`array` as an operand of its carrier type; the same array gives the same operand."""
        made = self._constants.get(id(array))
        if made is not None and made[0] is array:
            return made[1]
        if array.size == 0:
            raise Refusal(f"a tensor of shape {list(array.shape)} holds nothing; WebNN has no empty tensors")
        name = name_of_numpy(array.dtype)
        if name == "float64" and array.size > 1:
            self.notices["double weights are computed as float32"] = None
        operand = self._constant(array)
        self._constants[id(array)] = (array, operand)
        return operand

    def _constant(self, array: Array) -> MLOperand:
        repeated = tuple(s == 0 and d > 1 for s, d in zip(array.strides, array.shape, strict=True))
        if any(repeated) and array.nbytes > 1024:
            once = array[tuple(slice(0, 1) if r else slice(None) for r in repeated)]
            small = self.weights.operand(self.builder, to_carrier(np.ascontiguousarray(once)), False)
            return self.builder.expand(small, list(array.shape))
        data = to_carrier(array)
        lasting = data is array and self.model.owns(array)
        return self.weights.operand(self.builder, np.ascontiguousarray(data).reshape(array.shape), lasting)

    def given(self, value: Value | None) -> Value:
        """`value`, which must be there."""
        if value is None:
            raise Refusal("an input is missing")
        return value
