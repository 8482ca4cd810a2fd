"""Patterns: operators that a model spells out in small ones become one again."""

from __future__ import annotations

from webnn_cl.compiler.fuse import consumers_of
from webnn_cl.compiler.ir import Graph, Node, Value
from webnn_cl.compiler.rewrite import Rewriter

__all__ = ["recognize"]


def recognize(graph: Graph) -> Graph:
    """`graph` with layer normalization, softmax and sums of squares put together where they are spelled out.

    Only where the result is the same for every input, infinities and NaN included.
    """
    return _Recognizer(graph).run()


class _Recognizer(Rewriter):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.consumers = consumers_of(graph)
        self.outputs = set(graph.outputs.values())

    def run(self) -> Graph:
        for node in self.graph.nodes:
            # float16 rounds between the small operators, which the joined one would not.
            rules = () if node.output.data_type != "float32" else _RULES
            if not any(rule(self, node) for rule in rules):
                self.copy(node)
        return self.finish()

    def _inside(self, value: Value, users: set[Node]) -> bool:
        """Whether only `users` read `value`, so that nothing is computed twice."""
        return value not in self.outputs and set(self.consumers.get(value, ())) <= users

    # exp(x - max(x)) / sum(exp(x - max(x)))
    def _softmax(self, node: Node) -> bool:
        power = _made_by(node.inputs.get("a"), "exp") if node.op.name == "div" else None
        total = _made_by(node.inputs.get("b"), "reduce_sum")
        if power is None or total is None or total.inputs["input"] is not power.output:
            return False
        shifted = _made_by(power.inputs["input"], "sub")
        top = _made_by(shifted.inputs["b"], "reduce_max") if shifted is not None else None
        if shifted is None or top is None or top.inputs["input"] is not shifted.inputs["a"]:
            return False
        axes = _kept_axes(total)
        if axes is None or len(axes) != 1 or axes != _kept_axes(top):
            return False
        if not self._inside(power.output, {node, total}) or not self._inside(shifted.output, {power}):
            return False
        x = self.get(shifted.inputs["a"])
        self.new[node.output] = self.add("softmax", {"input": x}, {"axis": axes[0]}, [x.desc], node.label)[0]
        return True

    # (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon)
    def _layer_normalization(self, node: Node) -> bool:
        deviation = _made_by(node.inputs.get("a"), "sub") if node.op.name == "div" else None
        spread = _made_by(node.inputs.get("b"), "sqrt")
        if deviation is None or spread is None:
            return False
        mean = _made_by(deviation.inputs["b"], "reduce_mean")
        if mean is None or mean.inputs["input"] is not deviation.inputs["a"]:
            return False
        shifted = _made_by(spread.inputs["input"], "add")
        variance, epsilon = _plus_scalar(shifted)
        if shifted is None or variance is None or epsilon is None:
            return False
        square = _made_by(variance.inputs["input"], "mul", "pow")
        axes = _kept_axes(variance)
        if square is None or axes is None or axes != _kept_axes(mean) or _squared(square) is not deviation.output:
            return False
        if not self._inside(deviation.output, {square, node}) or not self._inside(square.output, {variance}):
            return False
        x = self.get(deviation.inputs["a"])
        attrs = {"axes": axes, "epsilon": epsilon}
        self.new[node.output] = self.add("layer_normalization", {"input": x}, attrs, [x.desc], node.label)[0]
        return True

    # sum(x * x): one pass over x instead of a square in memory
    def _sum_of_squares(self, node: Node) -> bool:
        if node.op.name != "reduce_sum":
            return False
        square = _made_by(node.inputs["input"], "mul", "pow")
        source = _squared(square)
        if square is None or source is None or not self._inside(square.output, {node}):
            return False
        x = self.get(source)
        self.new[node.output] = self.add(
            "reduce_sum_square", {"input": x}, node.attrs, [node.output.desc], node.label
        )[0]
        return True


_RULES = (_Recognizer._softmax, _Recognizer._layer_normalization, _Recognizer._sum_of_squares)


def _made_by(value: Value | None, *names: str) -> Node | None:
    """The producer of `value` if it is one of the operators `names`."""
    node = value.producer if value is not None else None
    return node if node is not None and node.op.name in names else None


def _kept_axes(node: Node) -> tuple[int, ...] | None:
    """The axes of a reduction that keeps its dimensions, ascending; None for one that does not."""
    keeps = node.output.desc.rank == node.inputs["input"].desc.rank
    return tuple(sorted(node.attrs["axes"])) if keeps else None


def _squared(node: Node | None) -> Value | None:
    """x, when `node` is x * x or x to the power of 2."""
    if node is None:
        return None
    a, b = node.inputs["a"], node.inputs["b"]
    if node.output.shape != a.shape:
        return None
    if node.op.name == "mul":
        return a if a is b else None
    return a if _number(b) == 2 else None


def _plus_scalar(node: Node | None) -> tuple[Node | None, float | None]:
    """The mean and the number of ``mean(...) + number``."""
    if node is None:
        return None, None
    for value, other in ((node.inputs["a"], node.inputs["b"]), (node.inputs["b"], node.inputs["a"])):
        mean, number = _made_by(value, "reduce_mean"), _number(other)
        if mean is not None and number is not None and node.output.shape == value.shape:
            return mean, number
    return None, None


def _number(value: Value) -> float | None:
    """The value of a scalar constant that the host knows."""
    array = value.constant.array if value.constant is not None else None
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


