"""Sinking: reshapes and transposes go behind the element-wise operators that follow them.

Between a kernel and the element-wise operators that its epilogue could take, or between two runs of these, a view only
separates what could be one launch: ``relu(reshape(product) + bias)`` becomes ``reshape(relu(product + bias'))``.
Transposes go behind reductions, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from webnn_cl.compiler.ir import Graph, Node, TensorDesc, Value
from webnn_cl.compiler.rewrite import Rewriter
from webnn_cl.ops.reduce_lower import output_shape

__all__ = ["reshaped_operand", "sink_views"]

_VIEWS = ("reshape", "transpose")
# Operators whose operands are shared out by blocks, not broadcast, until they were expanded.
_BY_BLOCKS = ("quantize_linear", "dequantize_linear")
# Element-wise operators that are made again under another shape for one operand.
_MAX_DEPTH = 8
# Views behind one another that an operator passes, one a pass.
MOST_PASSES = 8


def sink_views(graph: Graph, expanded: bool = False) -> Graph:
    """`graph` with views behind element-wise operators wherever all operands can be had without a copy.

    `expanded`: expand_operators was here, and every operand broadcasts.
    """
    if not any(node.op.name in _VIEWS for node in graph.nodes):
        return graph
    for _ in range(MOST_PASSES):
        sinker = _Sinker(graph, () if expanded else _BY_BLOCKS)
        graph = sinker.run()
        if not sinker.uncovered:
            break
    return graph


class _Sinker(Rewriter):
    # Whether an operator went before a view and stands behind another one now.
    uncovered = False

    def __init__(self, graph: Graph, apart: Sequence[str]) -> None:
        """`apart` names operators that stay where they are."""
        super().__init__(graph)
        self.apart = apart

    def run(self) -> Graph:
        for node in self.graph.nodes:
            fits = node.op.expression is not None and node.op.name not in self.apart
            if fits and (self._reshape(node) or self._turn(node)):
                self.uncovered |= self._is_behind_a_view(self.new[node.output])
            elif not (self._again(node) or self._reduced(node)):
                self.copy(node)
        return self.finish()

    def _again(self, node: Node) -> bool:
        """A reshape of a reshape, as one."""
        if node.op.name != "reshape":
            return False
        view = _view_of(self.get(node.inputs["input"]), "reshape")
        if view is None or (view.inputs["input"].producer is None and node.output in self.outputs):
            return False
        self.new[node.output] = self.reshape(view.inputs["input"], node.output.shape)
        return True

    def _reduced(self, node: Node) -> bool:
        """A reduction of a transpose, as one of what was transposed, whose smaller result is transposed."""
        old = node.inputs.get("input")
        if not node.op.name.startswith("reduce_") or old is None or not self.only_for(old, node):
            return False
        view = _view_of(self.get(old), "transpose")
        if view is None:
            return False
        order, source, keep = view.attrs["permutation"], view.inputs["input"], node.output.desc.rank == old.desc.rank
        axes = sorted(order[axis] for axis in node.attrs["axes"])
        left = order if keep else [axis for axis in order if axis not in axes]
        desc = TensorDesc(node.output.data_type, output_shape(source.shape, axes, keep))
        attrs = {**node.attrs, "axes": tuple(axes)}
        (made,) = self.add(node.op, {**node.inputs, "input": source}, attrs, [desc], node.label)
        self.new[node.output] = self.transpose(made, [sorted(left).index(axis) for axis in left])
        return True

    def _reshape(self, node: Node) -> bool:
        """``f(reshape(x), ...)`` as ``reshape(f(x, ...))``."""
        for old in node.inputs.values():
            view = _view_of(self.get(old), "reshape")
            if view is None or view.output.shape != node.output.shape or not self._worth(old):
                continue
            if not self._alone(old):
                continue
            made = self._rebased(node, view.inputs["input"].shape, 0)
            if made is not None:
                self.new[node.output] = self.reshape(made, node.output.shape)
                return True
        return False

    def _worth(self, old: Value) -> bool:
        """Whether behind the view that makes `old`, perhaps behind others, there is what could take an element-wise
        operator along.
        """
        view = self.get(old).producer
        if view is not None and _takes_chains(view.inputs["input"]):
            return True
        while old.producer is not None and old.producer.op.name in _VIEWS:
            old = old.producer.inputs["input"]
            if not self._only_one(old):
                return False
        return _takes_chains(self.get(old))

    @staticmethod
    def _is_behind_a_view(value: Value) -> bool:
        """Whether `value`, a view of an element-wise operator's result, is that of another view."""
        maker = value.producer.inputs["input"].producer if value.producer is not None else None
        sources = maker.inputs.values() if maker is not None and maker.op.expression is not None else ()
        alike = (v.producer for v in sources if v.desc.size == value.desc.size)
        return any(node is not None and node.op.name in _VIEWS for node in alike)

    def _only_one(self, old: Value) -> bool:
        return old not in self.outputs and len(self.consumers.get(old, ())) == 1

    def _alone(self, old: Value) -> bool:
        """Whether what made the value before its reshape is needed by element-wise operators alone."""
        maker = old.producer
        if old in self.outputs or any(user.op.expression is None for user in self.consumers[old]):
            return False
        return maker is None or maker.op.name != "reshape" or self.consumers[maker.inputs["input"]] == [maker]

    def _rebased(self, node: Node, shape: tuple[int, ...], depth: int) -> Value | None:
        """The output of an element-wise `node` computed under another `shape` of as many elements."""
        if node.op.name in self.apart or depth > _MAX_DEPTH:
            return None
        begin = len(self.nodes)
        inputs: dict[str, Value] = {}
        for role, old in node.inputs.items():
            made = self._operand(old, node, shape, depth)
            if made is None:
                del self.nodes[begin:]
                return None
            inputs[role] = made
        return self.add(node.op, inputs, node.attrs, [TensorDesc(node.output.data_type, shape)], node.label)[0]

    def _operand(self, old: Value, user: Node, shape: tuple[int, ...], depth: int) -> Value | None:
        """An operand of `user` for a computation under `shape`; None where that would cost a launch."""
        value, target = self.get(old), user.output.shape
        if value.shape != target and value.desc.size == 1:
            return self.reshape(value, ())
        if value.shape != target:
            small = reshaped_operand(value.shape, target, shape)
            return self.reshape(value, small) if small is not None else None
        view = _view_of(value, "reshape")
        if view is not None and view.inputs["input"].shape == shape:
            return view.inputs["input"]
        maker = old.producer
        if maker is not None and maker.op.meta.get("epilogue") and self.consumers[old] == [user]:
            return None  # its kernel takes the chain
        if maker is None or maker.op.expression is None:
            return self.reshape(value, shape)
        if old in self.outputs or self.consumers[old] != [user]:
            # It stays a launch of its own when somebody else needs it too; else a chain would be cut here.
            apart = old in self.outputs or any(n.op.expression is None for n in self.consumers[old])
            return self.reshape(value, shape) if apart else None
        return self._rebased(maker, shape, depth + 1)

    def _turn(self, node: Node) -> bool:
        """``f(transpose(x), ...)`` as ``transpose(f(x, ...))``, the other operands scalars or alike."""
        for old in node.inputs.values():
            view = _view_of(self.get(old), "transpose")
            if view is None or view.output.shape != node.output.shape or self.consumers[old] != [node]:
                continue
            if old in self.outputs or not self._worth(old):
                continue
            order = view.attrs["permutation"]
            inputs = {role: self._turned(v, order, node) for role, v in node.inputs.items()}
            if all(v is not None for v in inputs.values()):
                desc = TensorDesc(node.output.data_type, view.inputs["input"].shape)
                given = {role: v for role, v in inputs.items() if v is not None}
                made = self.add(node.op, given, node.attrs, [desc], node.label)[0]
                self.new[node.output] = self.transpose(made, order)
                return True
        return False

    def _turned(self, old: Value, order: Sequence[int], user: Node) -> Value | None:
        """An operand before a transpose by `order`, where that moves nothing."""
        value = self.get(old)
        if value.desc.size == 1:
            return self.reshape(value, ())
        view = _view_of(value, "transpose")
        if view is not None and view.attrs["permutation"] == order:
            return view.inputs["input"] if self.consumers[old] == [user] and old not in self.outputs else None
        wide = (1,) * (len(order) - value.desc.rank) + value.shape
        back = [tuple(order).index(axis) for axis in range(len(order))]
        moving = [axis for axis in back if wide[axis] != 1]
        return self.reshape(value, [wide[axis] for axis in back]) if moving == sorted(moving) else None


def _view_of(value: Value, name: str) -> Node | None:
    node = value.producer
    return node if node is not None and node.op.name == name else None


def _takes_chains(value: Value) -> bool:
    """Whether the operator that made `value` could take an element-wise one along."""
    node = value.producer
    return node is not None and (node.op.expression is not None or bool(node.op.meta.get("epilogue")))


def reshaped_operand(shape: Sequence[int], target: Sequence[int], new: Sequence[int]) -> tuple[int, ...] | None:
    """The shape under which an operand of `shape`, that broadcasts to `target`, broadcasts alike to `new`, which has as
    many elements; None where there is none.
    """
    padded = (1,) * (len(target) - len(shape)) + tuple(shape)
    rest = [(n, kept == n) for n, kept in zip(target, padded, strict=True) if n != 1]
    sizes: list[int] = []
    for n in reversed(new):
        taken, kinds = 1, set()
        while taken < n:
            extent, kept = rest.pop()
            part = min(extent, n // taken)
            if extent % part or (n // taken) % part:
                return None
            if extent > part:
                rest.append((extent // part, kept))
            taken *= part
            kinds.add(kept)
        if len(kinds) > 1:
            return None
        sizes.append(n if True in kinds else 1)
    return tuple(reversed(sizes))
