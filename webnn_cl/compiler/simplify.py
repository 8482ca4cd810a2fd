"""Simplification: equal nodes become one, operators that do nothing go, batch normalization joins its convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from webnn_cl.compiler.ir import Constant, Graph, Node, TensorDesc, Value
from webnn_cl.compiler.rewrite import Rewriter
from webnn_cl.ops.record import REGISTRY
from webnn_cl.ops.strided import View, affine_view

__all__ = ["simplify"]

# Constants up to this many bytes are compared by value.
SMALL_BYTES = 64


def simplify(graph: Graph) -> Graph:
    """An equivalent graph with fewer nodes."""
    return _Simplifier(graph).run()


class _Simplifier(Rewriter):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.known: dict[Any, list[Value]] = {}
        self.small: dict[Any, Value] = {}
        # What a (new) view shows, in all: of which value, and how.
        self.views: dict[Value, tuple[Value, View]] = {}

    def run(self) -> Graph:
        for value in list(self.graph.values()):
            self._unify_constant(value)
        for node in self.graph.nodes:
            taken = self._is_nothing(node) or self._slice_of_concat(node) or self._view(node)
            if not (taken or self._evenly_gathered(node) or self._normalization(node)):
                self._unify(node)
        return self.finish()

    def _unify_constant(self, value: Value) -> None:
        array = value.constant.array if value.constant is not None else None
        if array is not None and array.nbytes <= SMALL_BYTES:
            self.new[value] = self.small.setdefault((value.desc, array.tobytes()), value)

    def _unify(self, node: Node) -> None:
        """Copy `node`, unless an equal one is there already."""
        inputs = ((r, id(self.get(v))) for r, v in node.inputs.items())
        outputs = (v.desc for v in node.outputs)  # the new shape of a reshape or expand is nowhere else
        key = (id(node.op), *inputs, *outputs, repr(sorted(node.attrs.items())))
        known = self.known.get(key) if node.op.js else None
        if known is None:
            self.copy(node)
            self.known[key] = [self.new[v] for v in node.outputs]
        else:
            self.new.update(zip(node.outputs, known, strict=True))

    def _is_nothing(self, node: Node) -> bool:
        """identity, and cast to the type that is there; kept where an output would be an input or a constant."""
        if node.op.name not in ("identity", "cast"):
            return False
        value = self.get(node.inputs["input"])
        if value.data_type != node.output.data_type or (value.producer is None and node.output in self.outputs):
            return False
        self.new[node.output] = value
        return True

    def _view(self, node: Node) -> bool:
        """Views of views that end where they began: the value itself, or a reshape of it."""
        if "view" not in node.op.meta:
            return False
        source = self.get(node.inputs["input"])
        root, before = self.views.get(source, (source, None))
        view = affine_view(node, before)
        if view is None:
            return False
        if not view.is_packed or node.output.desc.size != root.desc.size:
            self._unify(node)
            self.views[self.new[node.output]] = (root, view)
            return True
        if root.producer is None and node.output in self.outputs and root.shape == node.output.shape:
            return False
        self.new[node.output] = self.reshape(root, node.output.shape)
        return True

    def _evenly_gathered(self, node: Node) -> bool:
        """What constant indices find at even distances, as a slice."""
        if node.op.name != "gather" or (indices := node.inputs["indices"].constant) is None or indices.array is None:
            return False
        x, axis = node.inputs["input"], node.attrs["axis"]
        size = x.shape[axis]
        found = indices.array.reshape(-1).astype(np.int64).clip(-size, size - 1) % size
        steps = np.diff(found)
        step = int(steps[0]) if steps.size else 1
        if step < 1 or np.any(steps != step) or found.size == size:
            return False
        starts, sizes, strides = [0] * x.desc.rank, list(x.shape), [1] * x.desc.rank
        starts[axis], sizes[axis], strides[axis] = int(found[0]), int(found[-1] - found[0]) + 1, step
        attrs = {"starts": tuple(starts), "sizes": tuple(sizes), "strides": tuple(strides)}
        shape = tuple(found.size if k == axis else n for k, n in enumerate(x.shape))
        part = self._seen("slice", x, attrs, shape, node.label)
        self.new[node.output] = self._seen("reshape", part, {}, node.output.shape, node.label)
        return True

    def _slice_of_concat(self, node: Node) -> bool:
        """A slice that lies in one piece of a concat, of that piece."""
        whole = self.get(node.inputs["input"]).producer if node.op.name == "slice" else None
        if whole is None or whole.op.name != "concat":
            return False
        axis, begin = whole.attrs["axis"], 0
        starts, strides = node.attrs["starts"], node.attrs["strides"]
        last = starts[axis] + (node.output.shape[axis] - 1) * strides[axis]
        for piece in whole.many("inputs"):
            end = begin + piece.shape[axis]
            if begin <= starts[axis] and last < end:
                there = tuple(n - begin if k == axis else n for k, n in enumerate(starts))
                self.new[node.output] = self._seen(
                    "slice", piece, {**node.attrs, "starts": there}, node.output.shape, node.label
                )
                return True
            begin = end
        return False

    def _seen(self, name: str, value: Value, attrs: dict[str, Any], shape: tuple[int, ...], label: str) -> Value:
        """The view `name` of `value`, as short as it can be said."""
        node = Node(REGISTRY[name], {"input": value}, attrs, label=label)
        node.outputs = [Value(TensorDesc(value.data_type, shape), producer=node)]
        if not self._view(node):
            self._unify(node)
        return self.new[node.output]

    # Batch normalization --------------------------------------------------------------------------------------

    def _normalization(self, node: Node) -> bool:
        """Batch normalization by constants, into the filter of the convolution before it."""
        statistics = [v for r, v in node.inputs.items() if r != "input"]
        if node.op.name != "batch_normalization" or node.output.data_type != "float32":
            return False
        if not all(v.is_constant for v in statistics):
            return False
        before = node.inputs["input"].producer
        return before is not None and self._into_convolution(before, node)

    def _factor(self, node: Node) -> Value:
        """scale / sqrt(variance + epsilon), one per channel."""
        variance = self.get(node.inputs["variance"])
        epsilon = _scalar(node.attrs["epsilon"])
        spread = self._op("sqrt", input=self._op("add", a=variance, b=epsilon))
        scale = node.inputs.get("scale")
        return self._op("div", a=self.get(scale) if scale is not None else _scalar(1.0), b=spread)

    def _into_convolution(self, before: Node, node: Node) -> bool:
        """conv(x, w) normalized = conv(x, w * factor) + ((bias - mean) * factor + shift), the sums folded at build."""
        if before.op.name not in ("conv2d", "conv_transpose2d") or not self.only_for(before.output, node):
            return False
        layout = before.attrs["input_layout"]
        if node.attrs["axis"] != layout.index("c") or not before.inputs["filter"].is_constant:
            return False
        if before.op.name == "conv_transpose2d" and before.attrs["groups"] != 1:
            return False
        bias = before.inputs.get("bias")
        if bias is not None and not bias.is_constant:
            return False
        factor = self._factor(node)
        weights = self.get(before.inputs["filter"])
        slot = before.attrs["filter_layout"].index("o")
        shape = tuple(factor.desc.size if k == slot else 1 for k in range(4))
        inputs = {r: self.get(v) for r, v in before.inputs.items()}
        inputs["filter"] = self._op("mul", a=weights, b=self.reshape(factor, shape))
        inputs["bias"] = self._shift(node, factor, inputs.get("bias"))
        outputs = self.add(before.op, inputs, before.attrs, [node.output.desc], before.label)
        self.new[node.output] = outputs[0]
        return True

    def _shift(self, node: Node, factor: Value, bias: Value | None) -> Value:
        mean = self.get(node.inputs["mean"])
        centred = self._op("sub", a=bias, b=mean) if bias is not None else self._op("neg", input=mean)
        scaled = self._op("mul", a=centred, b=factor)
        shift = node.inputs.get("bias")
        return scaled if shift is None else self._op("add", a=scaled, b=self.get(shift))

    def _op(self, name: str, **inputs: Value) -> Value:
        """An element-wise operator of float32 values, with numpy's broadcasting."""
        shape = np.broadcast_shapes(*(v.shape for v in inputs.values()))
        return self.add(name, inputs, {}, [TensorDesc("float32", shape)])[0]


def _scalar(number: float) -> Value:
    return Value(TensorDesc("float32", ()), constant=Constant(np.array(number, np.float32)))
