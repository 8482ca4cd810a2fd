"""Patterns: operators that a model spells out in small ones become one again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webnn_cl.compiler.ir import Graph, Node, Value
from webnn_cl.compiler.rewrite import Rewriter

__all__ = ["Recognizer", "kept_axes", "made_by", "recognize", "squared"]


def recognize(graph: Graph) -> Graph:
    """`graph` with softmax and sums of squares put together where they are spelled out.

    Only where the result is the same for every input, infinities and NaN included.
    """
    return _Patterns(graph).run()


class Recognizer(Rewriter):
    """Copies a graph but for the float32 nodes that one of `rules` puts in something else's place."""

    rules: tuple[Callable[[Any, Node], bool], ...] = ()

    def run(self) -> Graph:
        """The rewritten graph."""
        for node in self.graph.nodes:
            # float16 rounds between the small operators, which the joined one would not.
            rules = self.rules if node.output.data_type == "float32" else ()
            if not any(rule(self, node) for rule in rules):
                self.copy(node)
        return self.finish()


class _Patterns(Recognizer):
    # exp(x - max(x)) / sum(exp(x - max(x)))
    def _softmax(self, node: Node) -> bool:
        power = made_by(node.inputs.get("a"), "exp") if node.op.name == "div" else None
        total = made_by(node.inputs.get("b"), "reduce_sum")
        if power is None or total is None or total.inputs["input"] is not power.output:
            return False
        shifted = made_by(power.inputs["input"], "sub")
        top = made_by(shifted.inputs["b"], "reduce_max") if shifted is not None else None
        if shifted is None or top is None or top.inputs["input"] is not shifted.inputs["a"]:
            return False
        axes = kept_axes(total)
        if axes is None or len(axes) != 1 or axes != kept_axes(top):
            return False
        if not self.only_for(power.output, node, total) or not self.only_for(shifted.output, power):
            return False
        x = self.get(shifted.inputs["a"])
        self.new[node.output] = self.add("softmax", {"input": x}, {"axis": axes[0]}, [x.desc], node.label)[0]
        return True

    # sum(x * x): one pass over x instead of a square in memory
    def _sum_of_squares(self, node: Node) -> bool:
        if node.op.name != "reduce_sum":
            return False
        square = made_by(node.inputs["input"], "mul", "pow")
        source = squared(square)
        if square is None or source is None or not self.only_for(square.output, node):
            return False
        x = self.get(source)
        self.new[node.output] = self.add(
            "reduce_sum_square", {"input": x}, node.attrs, [node.output.desc], node.label
        )[0]
        return True

    rules = (_softmax, _sum_of_squares)


def made_by(value: Value | None, *names: str) -> Node | None:
    """The producer of `value` if it is one of the operators `names`."""
    node = value.producer if value is not None else None
    return node if node is not None and node.op.name in names else None


def kept_axes(node: Node) -> tuple[int, ...] | None:
    """The axes of a reduction that keeps its dimensions, ascending; None for one that does not."""
    keeps = node.output.desc.rank == node.inputs["input"].desc.rank
    return tuple(sorted(node.attrs["axes"])) if keeps else None


def squared(node: Node | None) -> Value | None:
    """x, when `node` is x * x or x to the power of 2."""
    if node is None:
        return None
    a, b = node.inputs["a"], node.inputs["b"]
    if node.output.shape != a.shape:
        return None
    if node.op.name == "mul":
        return a if a is b else None
    return a if b.scalar == 2 else None
