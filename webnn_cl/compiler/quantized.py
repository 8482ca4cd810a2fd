"""Quantized products: what multiplies two dequantized tensors multiplies their integers instead.

``dequantize(a) @ dequantize(b)`` becomes ``(a - a_zero) @ (b - b_zero) * (a_scale * b_scale)`` with exact integer sums.
Values less their zero points are in memory as int16, written so where they are quantized; the scale, a bias and what
follows are element-wise nodes, for the product's epilogue. Scales are taken to be finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.ir import Constant, Graph, Node, TensorDesc, Value
from webnn_cl.compiler.rewrite import Rewriter
from webnn_cl.dtypes import INT16
from webnn_cl.ops.conv_direct import Convolution
from webnn_cl.tiles import integer
from webnn_cl.tiles.winograd import winograd_tile

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["to_integer_products"]

# Shorter sums, or fewer columns, are not worth converting the operands.
MIN_DEPTH, MIN_COLUMNS = 8, 8
# Packing a matrix that is no constant pays from so many rows on.
MIN_ROWS_OF_VARIABLE = 16
_VIEWS = ("reshape", "transpose")


def to_integer_products(graph: Graph, context: MLContext) -> Graph:
    """`graph` with the products and convolutions of 8-bit tensors on integers, where the device is faster so."""
    pass_ = _Integers(graph, context._facts)
    if not pass_.products:
        return graph
    pairs = integer.pair_form(context)
    return graph if pairs is None else pass_.run(pairs)


@dataclass(frozen=True)
class _Quantized:
    """An operand: `node`, the dequantize_linear that makes it, and the views between, the first one first."""

    node: Node
    views: tuple[Node, ...]

    @property
    def source(self) -> Value:
        return self.node.inputs["input"]

    @property
    def scale(self) -> Value:
        return self.node.inputs["scale"]

    @property
    def zero_point(self) -> Value:
        return self.node.inputs["zero_point"]

    @property
    def per_tensor(self) -> bool:
        return self.scale.desc.size == 1 and self.zero_point.desc.size == 1

    def per_channel(self, axis: int) -> bool:
        """Whether scale and zero point differ at most along dimension `axis` of the operand."""
        if self.per_tensor:
            return True
        for node in reversed(self.views):
            before = _axis_before(node, axis)
            if before is None:
                return False
            axis = before
        return all(
            value.shape[k] in (1, size if k == axis else 1)
            for value in (self.scale, self.zero_point)
            for k, size in enumerate(self.source.shape)
        )


@dataclass(frozen=True)
class _Product:
    """A product's operands by role, and the dimension of the second that runs along the columns of the result."""

    operands: dict[str, _Quantized] = field(hash=False)
    axis: int


class _Integers(Rewriter):
    def __init__(self, graph: Graph, facts: DeviceFacts) -> None:
        super().__init__(graph)
        self.facts = facts
        self.products = {node: p for node in graph.nodes if (p := self._product_of(node)) is not None}
        # Quantized values that products read, with what makes them int16.
        self.read = {q.source: q.zero_point for p in self.products.values() for q in p.operands.values()}
        self.shifted: dict[tuple[Value, Value], Value] = {}

    def run(self, pairs: str) -> Graph:
        for node in self.graph.nodes:
            product = self.products.get(node)
            if product is not None:
                self._multiply(node, product, pairs)
            elif not self._dequantize(node):
                self.copy(node)
        return self.finish()

    # What is recognized ------------------------------------------------------------------------------------------

    def _product_of(self, node: Node) -> _Product | None:
        roles = {"matmul": ("a", "b"), "gemm": ("a", "b"), "conv2d": ("input", "filter")}.get(node.op.name)
        if roles is None or node.output.data_type != "float32":
            return None
        a, b = (_quantized(node.inputs[role]) for role in roles)
        axis = _column_axis(node)
        if a is None or b is None or not a.per_tensor or not b.per_channel(axis):
            return None
        pays = self._convolution_pays(node) if node.op.name == "conv2d" else _product_pays(node, b)
        return _Product({roles[0]: a, roles[1]: b}, axis) if pays else None

    def _convolution_pays(self, node: Node) -> bool:
        if node.attrs["input_layout"] != "nhwc" or node.attrs["groups"] != 1:
            return False
        conv = Convolution(node, transposed=False)
        depth = conv.input.channels * conv.filter.height * conv.filter.width
        if conv.input.channels < MIN_DEPTH or conv.output.channels < MIN_COLUMNS or depth > integer.MAX_DEPTH:
            return False
        return winograd_tile(conv, self.facts) is None

    # What it becomes ---------------------------------------------------------------------------------------------

    def _multiply(self, node: Node, product: _Product, pairs: str) -> None:
        inputs = {role: self._integers(q) for role, q in product.operands.items()}
        whole = TensorDesc("int32", node.output.shape)
        if node.op.name == "conv2d":
            attrs = {**node.attrs, "pairs": pairs}
            (total,) = self.add(integer.INTEGER_CONV2D, inputs, attrs, [whole], node.label)
        else:
            if node.attrs.get("a_transpose"):
                inputs["a"] = self.transpose(inputs["a"], (1, 0))
            attrs = {"b_transpose": bool(node.attrs.get("b_transpose")), "pairs": pairs}
            (total,) = self.add(integer.INTEGER_MATMUL, inputs, attrs, [whole], node.label)
        (total,) = self.add("cast", {"input": total}, {}, [node.output.desc], node.label)
        total = self._scaled(total, self._factor(product, node.attrs.get("alpha", 1.0)))
        addend = node.inputs.get("c") or node.inputs.get("bias")
        if addend is not None:
            scaled = self._scaled(self.get(addend), _number(node.attrs.get("beta", 1.0)))
            (total,) = self.add("add", {"a": total, "b": scaled}, {}, [total.desc], node.label)
        self.new[node.output] = total

    def _scaled(self, value: Value, factor: Value) -> Value:
        if factor.scalar == 1:
            return value
        return self.add("mul", {"a": value, "b": factor}, {}, [value.desc])[0]

    def _factor(self, product: _Product, alpha: float) -> Value:
        """The product of both scales and `alpha`: a scalar, or one number for each column."""
        scales = [self.get(q.scale) for q in product.operands.values()]
        arrays = [v.constant.array for v in scales if v.constant is not None and v.constant.array is not None]
        if len(arrays) == len(scales):
            left, right = (array.reshape(-1) if array.size > 1 else array.reshape(()) for array in arrays)
            return _number(left * right * np.float32(alpha))
        a, b = (self.reshape(v, (v.desc.size,) if v.desc.size > 1 else ()) for v in scales)
        (factor,) = self.add("mul", {"a": a, "b": b}, {}, [b.desc])
        return self._scaled(factor, _number(alpha))

    def _integers(self, q: _Quantized) -> Value:
        """`q` less its zero point, through its views."""
        value = self._shifted(q.source, q.zero_point)
        for node in q.views:
            if node.op.name == "transpose":
                value = self.transpose(value, node.attrs["permutation"])
            else:
                value = self.reshape(value, node.output.shape)
        return value

    def _shifted(self, source: Value, zero_point: Value) -> Value:
        """`source` less `zero_point` in int16, made where it is quantized if it is."""
        known = self.shifted.get((source, zero_point))
        if known is not None:
            return known
        desc, zero = TensorDesc(INT16, source.shape), self.get(zero_point)
        quantize = source.producer
        if quantize is not None and _quantizes(quantize, zero_point):
            inputs = {role: self.get(value) for role, value in quantize.inputs.items()}
            (value,) = self.add(integer.QUANTIZE_SHIFTED, inputs, {}, [desc], quantize.label)
        else:
            (value,) = self.add(integer.SHIFT, {"input": self.get(source), "zero_point": zero}, {}, [desc])
        self.shifted[source, zero_point] = value
        return value

    def _dequantize(self, node: Node) -> bool:
        """Other readers of a value that is int16 now read that."""
        if node.op.name != "dequantize_linear":
            return False
        source, zero_point = node.inputs["input"], node.inputs["zero_point"]
        quantize = source.producer
        if self.read.get(source) is not zero_point or quantize is None or not _quantizes(quantize, zero_point):
            return False
        inputs = {"input": self._shifted(source, zero_point), "scale": self.get(node.inputs["scale"])}
        self.new[node.output] = self.add(integer.DEQUANTIZE_SHIFTED, inputs, {}, [node.output.desc], node.label)[0]
        return True


def _quantized(value: Value) -> _Quantized | None:
    """The 8-bit tensor that `value` is, dequantized and perhaps seen another way."""
    views: list[Node] = []
    node = value.producer
    while node is not None and node.op.name in _VIEWS:
        views.append(node)
        node = node.inputs["input"].producer
    if node is None or node.op.name != "dequantize_linear" or node.output.data_type != "float32":
        return None
    if node.inputs["input"].data_type not in ("int8", "uint8"):
        return None
    return _Quantized(node, tuple(reversed(views)))


def _axis_before(view: Node, axis: int) -> int | None:
    """The dimension that a transpose, or a reshape that only adds or drops ones, shows as `axis`."""
    if view.op.name == "transpose":
        return int(view.attrs["permutation"][axis])
    before, after = ([k for k, size in enumerate(shape) if size > 1] for shape in _shapes(view))
    same = [_shapes(view)[0][k] for k in before] == [_shapes(view)[1][k] for k in after]
    return before[after.index(axis)] if same and axis in after else None


def _shapes(view: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return view.inputs["input"].shape, view.output.shape


def _quantizes(node: Node, zero_point: Value) -> bool:
    """Whether `node` quantizes a float32 tensor as a whole, with `zero_point`."""
    if node.op.name != "quantize_linear" or node.inputs["input"].data_type != "float32":
        return False
    return node.inputs["zero_point"] is zero_point and zero_point.desc.size == node.inputs["scale"].desc.size == 1


def _column_axis(node: Node) -> int:
    if node.op.name == "conv2d":
        return int(node.attrs["filter_layout"].index("o"))
    return 0 if node.attrs.get("b_transpose") else node.inputs["b"].desc.rank - 1


def _product_pays(node: Node, b: _Quantized) -> bool:
    left, right = node.inputs["a"].shape, node.inputs["b"].shape
    depth = left[-2] if node.attrs.get("a_transpose") else left[-1]
    if not MIN_DEPTH <= depth <= integer.MAX_DEPTH or node.output.shape[-1] < MIN_COLUMNS:
        return False
    if len(right) > 2 and not b.per_tensor:
        return False
    rows = node.output.desc.size // node.output.shape[-1] if len(right) == 2 else node.output.shape[-2]
    return b.source.is_constant or rows >= MIN_ROWS_OF_VARIABLE


def _number(value: float | np.ndarray[tuple[int, ...], np.dtype[np.float32]] | Sequence[float]) -> Value:
    array = np.asarray(value, np.float32)
    return Value(TensorDesc("float32", array.shape), constant=Constant(array))
