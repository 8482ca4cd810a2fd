"""Patterns of normalization: layer and root-mean-square normalization, and the logarithm of softmax, spelled out.

The deviation may be divided by a root or multiplied by its reciprocal, and the mean may be taken into the shift
(``x * inverse + (beta - mean * inverse)``). Only where the result is the same for every input, infinities and NaN
included.
"""

from __future__ import annotations

from dataclasses import dataclass

from webnn_cl.compiler.ir import Graph, Node, Value
from webnn_cl.compiler.patterns import Recognizer, kept_axes, made_by, squared

__all__ = ["recognize_normalizations"]


def recognize_normalizations(graph: Graph) -> Graph:
    """`graph` with normalizations put together where they are spelled out in float32."""
    if not any(node.op.name.startswith("reduce_") for node in graph.nodes):
        return graph
    return _Normalizations(graph).run()


@dataclass(frozen=True)
class _Moment:
    """``1 / sqrt(mean(source * source) + epsilon)`` over `axes`, and the nodes that only it needs."""

    source: Value
    axes: tuple[int, ...]
    epsilon: float
    square: Node


class _Normalizations(Recognizer):
    def _normalized(self, node: Node) -> bool:
        """``d / sqrt(mean(d * d) + epsilon)``, in any of its spellings; d may be ``x - mean(x)``."""
        found = _over_root(node)
        moment = _moment(found[1]) if found is not None else None
        if found is None or moment is None or moment.source is not found[0]:
            return False
        if node.output.shape != moment.source.shape or moment.source.data_type != "float32":
            return False
        x = _centred(moment.source, moment.axes)
        if x is not None and self.only_for(moment.source, node, moment.square):
            self.new[node.output] = self._layer(x, moment, node, centred=True)
        else:
            self.new[node.output] = self._layer(moment.source, moment, node, centred=False)
        return True

    def _layer(self, x: Value, moment: _Moment, node: Node, centred: bool) -> Value:
        attrs = {"axes": moment.axes, "epsilon": moment.epsilon, **({} if centred else {"uncentred": True})}
        return self.add("layer_normalization", {"input": self.get(x)}, attrs, [x.desc], node.label)[0]

    def _folded_shift(self, node: Node) -> bool:
        """``x * inverse + (beta - mean(x) * inverse)``, `inverse` a reciprocal root, maybe times gamma."""
        if node.op.name != "add":
            return False
        for product, shift in _either(node):
            scaled, moved = made_by(product, "mul"), made_by(shift, "sub")
            taken = made_by(moved.inputs["b"], "mul") if moved is not None else None
            if scaled is None or moved is None or taken is None:
                continue
            for x, inverse in _either(scaled):
                mean = next((m for m, other in _either(taken) if other is inverse), None)
                if mean is not None and self._shifted(node, x, inverse, mean, moved.inputs["a"]):
                    return True
        return False

    def _shifted(self, node: Node, x: Value, inverse: Value, mean: Value, beta: Value) -> bool:
        moment, gamma = _moment(_reciprocal_root(inverse)), None
        times = made_by(inverse, "mul")
        for root, factor in _either(times) if times is not None and moment is None else ():
            moment = _moment(_reciprocal_root(root))
            gamma = factor
            if moment is not None:
                break
        if moment is None or _centred(moment.source, moment.axes) is not x or node.output.shape != x.shape:
            return False
        total = made_by(mean, "reduce_mean")
        if total is None or total.inputs["input"] is not x or kept_axes(total) != moment.axes:
            return False
        value = self._layer(x, moment, node, centred=True)
        if gamma is not None:
            value = self.add("mul", {"a": value, "b": self.get(gamma)}, {}, [x.desc], node.label)[0]
        self.new[node.output] = self.add("add", {"a": value, "b": self.get(beta)}, {}, [x.desc], node.label)[0]
        return True

    def _log_softmax(self, node: Node) -> bool:
        """``d - log(sum(exp(d)))`` with ``d = x - max(x)``."""
        total, reader = _log_sum_exp(node.inputs["b"]) if node.op.name == "sub" else (None, None)
        if total is None or reader is None or reader.inputs["input"] is not node.inputs["a"]:
            return False
        shifted = made_by(node.inputs["a"], "sub")
        top = made_by(shifted.inputs["b"], "reduce_max") if shifted is not None else None
        if shifted is None or top is None or top.inputs["input"] is not shifted.inputs["a"]:
            return False
        axes = kept_axes(total)
        if axes is None or len(axes) != 1 or axes != kept_axes(top):
            return False
        if not self.only_for(shifted.output, node, reader) or not self.only_for(reader.output, total, node):
            return False
        x = self.get(shifted.inputs["a"])
        attrs = {"axis": axes[0], "logarithm": True}
        self.new[node.output] = self.add("softmax", {"input": x}, attrs, [x.desc], node.label)[0]
        return True

    rules = (_normalized, _folded_shift, _log_softmax)


def _either(node: Node) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """The operands of a binary operator in both orders."""
    a, b = node.inputs["a"], node.inputs["b"]
    return (a, b), (b, a)


def _over_root(node: Node) -> tuple[Value, Value] | None:
    """d and u, of ``d / sqrt(u)`` or ``d * (1 / sqrt(u))``."""
    if node.op.name not in ("div", "mul"):
        return None
    if node.op.name == "div":
        under = _root(node.inputs["b"])
        return (node.inputs["a"], under) if under is not None else None
    return next(((d, u) for d, r in _either(node) if (u := _reciprocal_root(r)) is not None), None)


def _root(value: Value) -> Value | None:
    """u, when `value` is the square root of u."""
    node = made_by(value, "sqrt", "pow")
    if node is None:
        return None
    if node.op.name == "sqrt":
        return node.inputs["input"]
    same = node.output.shape == node.inputs["a"].shape
    return node.inputs["a"] if same and node.inputs["b"].scalar == 0.5 else None


def _reciprocal_root(value: Value) -> Value | None:
    """u, when `value` is 1 / sqrt(u)."""
    node = made_by(value, "reciprocal", "div", "pow")
    if node is None:
        return None
    if node.op.name == "reciprocal":
        return _root(node.inputs["input"])
    if node.op.name == "pow":
        same = node.output.shape == node.inputs["a"].shape
        return node.inputs["a"] if same and node.inputs["b"].scalar == -0.5 else None
    plain = node.inputs["a"].scalar == 1 and node.output.shape == node.inputs["b"].shape
    return _root(node.inputs["b"]) if plain else None


def _moment(under: Value | None) -> _Moment | None:
    """The parts of ``mean(d * d) + epsilon``."""
    total = made_by(under, "add")
    for inner, other in _either(total) if total is not None else ():
        mean, epsilon = made_by(inner, "reduce_mean"), other.scalar
        square = made_by(mean.inputs["input"], "mul", "pow") if mean is not None else None
        axes = kept_axes(mean) if mean is not None else None
        source = squared(square)
        if total is None or axes is None or source is None or square is None or epsilon is None:
            continue
        if total.output.shape == inner.shape:
            return _Moment(source, axes, float(epsilon), square)
    return None


def _log_sum_exp(value: Value) -> tuple[Node | None, Node | None]:
    """The sum, and the node that reads what is summed, of ``log(sum(exp(d)))``."""
    whole = made_by(value, "reduce_log_sum_exp")
    logarithm = made_by(value, "log")
    total = made_by(logarithm.inputs["input"], "reduce_sum") if logarithm is not None else None
    power = made_by(total.inputs["input"], "exp") if total is not None else None
    return (whole, whole) if whole is not None else (total, power)


def _centred(value: Value, axes: tuple[int, ...]) -> Value | None:
    """x, when `value` is x - mean(x) over `axes`."""
    node = made_by(value, "sub")
    mean = made_by(node.inputs["b"], "reduce_mean") if node is not None else None
    if node is None or mean is None or mean.inputs["input"] is not node.inputs["a"]:
        return None
    return node.inputs["a"] if kept_axes(mean) == axes else None
