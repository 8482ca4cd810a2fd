"""Attention: two products with a softmax between them become one operator where that pays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from webnn_cl.compiler.elementwise import Chain
from webnn_cl.compiler.ir import Graph, Node, TensorDesc, Value
from webnn_cl.compiler.rewrite import Rewriter
from webnn_cl.opencl.facts import DeviceFacts
from webnn_cl.ops.attention import ATTENTION, MAX_DEPTH, MAX_STACK, Extents, Scores, operand_roles, pays
from webnn_cl.ops.strided import View

__all__ = ["join_attention"]

# Element-wise nodes between the first product and softmax, and what they read beside it, at most.
MAX_CHAIN, MAX_OPERANDS = 12, 4


def join_attention(graph: Graph, facts: DeviceFacts) -> Graph:
    """`graph` with attention put together: products of queries and keys, scaled, masked or through any other
    element-wise nodes, softmax over the keys, and the product with the values.

    Only float32 on CPUs, only where nobody else needs the scores or the weights, and where it pays.
    """
    if not facts.is_cpu or not any(node.op.name == "softmax" for node in graph.nodes):
        return graph
    return _Joiner(graph, facts).run()


@dataclass(frozen=True)
class _Match:
    """The nodes of an attention: products `scores` and `result`, the chain between the first and softmax, the view
    nodes and the transpose that the result goes through, if it does; `stack` is the common shape of all stacks.
    """

    scores: Node
    chain: tuple[Node, ...]
    result: Node
    last: Value
    output_view: View
    stack: tuple[int, ...]

    @property
    def extents(self) -> Extents:
        rows, keys = self.scores.output.shape[-2:]
        columns, depth = self.result.output.shape[-1], self.scores.inputs["a"].shape[-1]
        return Extents(math.prod(self.stack), rows, keys, depth, columns)


class _Joiner(Rewriter):
    def __init__(self, graph: Graph, facts: DeviceFacts) -> None:
        super().__init__(graph)
        self.facts = facts

    def run(self) -> Graph:
        found = (self._match(node) for node in self.graph.nodes if node.op.name == "softmax")
        matches = {match.last.producer: match for match in found if match is not None}
        if not matches:
            return self.graph
        for node in self.graph.nodes:
            match = matches.get(node)
            if match is not None:
                self._join(match)
            else:
                self.copy(node)
        return self.finish()

    # Recognizing ----------------------------------------------------------------------------------------------

    def _match(self, softmax: Node) -> _Match | None:
        weights = softmax.output
        if weights.data_type != "float32" or softmax.attrs["axis"] != weights.desc.rank - 1:
            return None
        products, chain = self._scores(softmax.inputs["input"], softmax)
        result = self._product_with_values(weights)
        if products is None or result is None:
            return None
        rows, keys = products.output.shape[-2:]
        if result.inputs["a"].shape[-2:] != (rows, keys) or products.inputs["a"].shape[-1] > MAX_DEPTH:
            return None
        if chain and chain[-1].output.shape[-2:] != (rows, keys):
            return None
        match = self._placed(products, chain, result)
        return match if match is not None and pays(match.extents, self.facts) else None

    def _scores(self, value: Value, user: Node) -> tuple[Node | None, tuple[Node, ...]]:
        """The product that `value` comes from, and the element-wise nodes between; None if there is none."""
        chain: list[Node] = []
        shape = None
        while len(chain) < MAX_CHAIN:
            node = value.producer
            if node is None or value.data_type != "float32" or not self._only_for(value, user):
                return None, ()
            if node.op.name == "matmul":
                return node, tuple(reversed(chain))
            if _keeps_rows(node):
                user, value = node, node.inputs["input"]
                continue
            if node.op.expression is None or node.op.expression.code is not None:
                return None, ()
            if shape not in (None, node.output.shape):
                return None, ()
            source = next(iter(self._leading_to_product(node)), None)
            if source is None:
                return None, ()
            shape = node.output.shape
            chain.append(node)
            user, value = node, source
        return None, ()

    def _leading_to_product(self, node: Node) -> Iterator[Value]:
        """Inputs of an element-wise `node` behind which, perhaps behind other such nodes, a product stands."""
        for value in node.inputs.values():
            seen, steps = value, 0
            if value.shape != node.output.shape:
                continue
            pending = [seen]
            while pending and steps < 4 * MAX_CHAIN:
                seen, steps = pending.pop(), steps + 1
                producer = seen.producer
                if producer is None or not self._only_one(seen):
                    continue
                if producer.op.name == "matmul":
                    yield value
                    break
                if producer.op.expression is not None or _keeps_rows(producer):
                    pending += [v for v in producer.inputs.values() if v.desc.size == seen.desc.size]

    def _product_with_values(self, weights: Value) -> Node | None:
        """The product whose left operand `weights` alone is, one matrix of weights to one of values."""
        while self._only_one(weights):
            (node,) = self.consumers[weights]
            if node.op.name == "matmul":
                right = node.inputs["b"]
                alone = node.inputs["a"] is weights and right is not weights
                whole = math.prod(weights.shape[:-2]) == math.prod(node.output.shape[:-2])
                return node if alone and whole and right.data_type == "float32" else None
            if not _keeps_rows(node):
                return None
            weights = node.output
        return None

    def _placed(self, products: Node, chain: tuple[Node, ...], result: Node) -> _Match | None:
        """The match, with the result where a transposition behind it would put it."""
        stacks = {product.output.shape[:-2] for product in (products, result) if _broadcasts(product)}
        if chain:
            stacks.add(chain[-1].output.shape[:-2])
        if len(stacks) > 1:
            return None
        for last, view in self._transposed(result):
            stack = min(stacks) if stacks else max(view.shape[:-2], result.output.shape[:-2], key=len)
            there = view.reshaped((*stack, *result.output.shape[-2:]))
            if there is not None and len(stack) <= MAX_STACK:
                return _Match(products, chain, result, last, there, stack)
        return None

    def _transposed(self, result: Node) -> Iterator[tuple[Value, View]]:
        """Where else the result may be written: the outputs of transposes behind it, then its own."""
        value = result.output
        while self._only_one(value):
            (node,) = self.consumers[value]
            if node.op.name == "transpose":
                permutation = node.attrs["permutation"]
                if permutation[-1] == len(permutation) - 1 and permutation[-2] < len(permutation) - 1:
                    inverse = [permutation.index(axis) for axis in range(len(permutation))]
                    yield node.output, View.packed(node.output.shape).transposed(inverse)
                break
            if not (_keeps_rows(node) and node.output.shape[-2:] == result.output.shape[-2:]):
                break
            value = node.output
        yield result.output, View.packed(result.output.shape)

    def _only_one(self, value: Value) -> bool:
        return value not in self.outputs and len(self.consumers.get(value, ())) == 1

    def _only_for(self, value: Value, user: Node) -> bool:
        """Whether `user` alone reads `value`, and as one operand."""
        once = list(user.inputs.values()).count(value) == 1
        return once and value not in self.outputs and self.consumers.get(value) == [user]

    # Rewriting ------------------------------------------------------------------------------------------------

    def _join(self, match: _Match) -> None:
        scores = self._chain(match)
        operands = scores.operands() if scores is not None else []
        q, q_factor = self._without_factor(match.scores.inputs["a"], match.scores)
        k, k_factor = self._without_factor(match.scores.inputs["b"], match.scores)
        inputs = {"q": q, "k": k, "v": self.get(match.result.inputs["b"])}
        matrices = match.extents.matrices
        inputs = {r: self._unstacked(x) if _matrices(x) == matrices else x for r, x in inputs.items()}
        inputs |= dict(zip(operand_roles(len(operands)), operands, strict=True))
        attrs = {
            "extents": match.extents,
            "stack": match.stack,
            "factors": (q_factor, k_factor),
            "scores": scores,
            "output_view": match.output_view,
        }
        self.new[match.last] = self.add(ATTENTION, inputs, attrs, [match.last.desc], match.result.label)[0]

    def _chain(self, match: _Match) -> Scores | None:
        """The chain on new values."""
        if not match.chain:
            return None
        start = Value(TensorDesc("float32", match.chain[0].output.shape))
        known = {match.scores.output: start}
        nodes: list[Node] = []
        for old in match.chain:
            inputs = {role: known.get(_behind(value), self.get(value)) for role, value in old.inputs.items()}
            node = Node(old.op, inputs, old.attrs, label=old.label)
            node.outputs = [Value(old.output.desc, producer=node)]
            known[old.output] = node.output
            nodes.append(node)
        return Scores(Chain(nodes), start)

    def _without_factor(self, value: Value, user: Node) -> tuple[Value, float]:
        """`value` (new) before it was multiplied by a number, and the number; the views behind that are kept."""
        views: list[Node] = []
        while self._only_for(value, user):
            node = value.producer
            factor = _factor(node) if node is not None else None
            if factor is not None:
                return self._through(factor[0], views), factor[1]
            if node is None or "view" not in node.op.meta:
                break
            views.append(node)
            user, value = node, node.inputs["input"]
        return self.get(views[0].output if views else value), 1.0

    def _unstacked(self, value: Value) -> Value:
        """`value` (new) in the dimensions that its stack had before a reshape, which strides may be able to say."""
        node = value.producer
        if node is None or value.desc.rank < 2:
            return value
        source = next(iter(node.inputs.values()))
        if _keeps_rows(node) and source.shape[-2:] == value.shape[-2:]:
            return self._unstacked(source)
        rank = value.desc.rank
        if node.op.name == "transpose" and node.attrs["permutation"] == (*range(rank - 2), rank - 1, rank - 2):
            before = self._unstacked(source)
            if before is not source:
                axes = range(before.desc.rank)
                return self.transpose(before, (*axes[:-2], axes[-1], axes[-2]))
        return value

    def _through(self, value: Value, views: list[Node]) -> Value:
        new = self.get(value)
        for node in reversed(views):
            new = self.add(node.op, {"input": new}, node.attrs, [node.output.desc], node.label)[0]
        return new


def _behind(value: Value) -> Value:
    """What `value` is a reshape of."""
    while value.producer is not None and _keeps_rows(value.producer):
        value = value.producer.inputs["input"]
    return value


def _keeps_rows(node: Node) -> bool:
    """Whether `node` is a reshape that leaves the last dimension alone."""
    return node.op.name == "reshape" and node.output.shape[-1:] == node.inputs["input"].shape[-1:]


def _broadcasts(product: Node) -> bool:
    """Whether a stack of `product` is repeated, so that it has to be walked in the shape of its result."""
    stack = product.output.shape[:-2]
    return any(_matrices(value) != math.prod(stack) for value in product.inputs.values())


def _matrices(value: Value) -> int:
    return math.prod(value.shape[:-2])


def _factor(node: Node) -> tuple[Value, float] | None:
    """x and the number where `node` is x times or divided by a number."""
    if node.op.name not in ("mul", "div") or node.output.data_type != "float32":
        return None
    a, b = node.inputs["a"], node.inputs["b"]
    if b.scalar is not None and a.shape == node.output.shape:
        number = float(b.scalar)
        if node.op.name == "mul":
            return a, number
        # A quotient is the product with the reciprocal but for the last place.
        return (a, 1.0 / number) if 2.0**-120 < abs(number) < 2.0**120 else None
    if node.op.name == "mul" and a.scalar is not None and b.shape == node.output.shape:
        return b, float(a.scalar)
    return None
