"""Layout: regions of convolutions run channels-last, with transposes only where a region begins or ends.

A node in channels-first order becomes the same node in channels-last order; operators that don't care about the
order of dimensions follow along, so that no transposes sit between convolutions. Where a model drops the height of one
of what it calls one-dimensional convolutions, [batch, channels, length] follows as [batch, length, channels].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from webnn_cl.compiler.ir import Graph, Node, TensorDesc, Value
from webnn_cl.compiler.rewrite import Rewriter

__all__ = ["to_channels_last"]

# By rank: images, and rows of images of one row.
TO_LAST = {4: (0, 2, 3, 1), 3: (0, 2, 1)}
TO_FIRST = {4: (0, 3, 1, 2), 3: (0, 2, 1)}
# One convolution alone is not worth two transposes: the kernels take either order.
MIN_CONVOLUTIONS = 2

_WINDOWED = ("average_pool2d", "l2_pool2d", "max_pool2d", "instance_normalization")
_SEEDS = {"conv2d": "input_layout", "conv_transpose2d": "input_layout"}
Attrs = Mapping[str, Any]


def to_channels_last(graph: Graph) -> Graph:
    """`graph` with its channels-first convolutions, and what lies between them, in channels-last order."""
    count = sum(n.op.name in _SEEDS and n.attrs["input_layout"] == "nchw" for n in graph.nodes)
    return _Layout(graph).run() if count >= MIN_CONVOLUTIONS else graph


class _Layout(Rewriter):
    """`moved` holds the channels-last twins of (old) values; `new` the others, made from twins when asked for."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.moved: dict[Value, Value] = {}
        # Operands that broadcast to a higher rank, under that rank.
        self.wide: dict[tuple[Value, int], Value] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if not self._move(node):
                for value in node.inputs.values():
                    self.plain(value)
                self.copy(node)
        for value in self.graph.outputs.values():
            self.plain(value)
        return self.finish()

    def plain(self, value: Value) -> Value:
        """`value` in its own order."""
        if value not in self.new and value in self.moved:
            self.new[value] = self.transpose(self.moved[value], TO_FIRST[value.desc.rank])
        return self.get(value)

    def last(self, value: Value) -> Value:
        """The channels-last twin of a value of rank 3 or 4."""
        if value not in self.moved:
            self.moved[value] = self.transpose(self.get(value), TO_LAST[value.desc.rank])
        return self.moved[value]

    def is_last(self, value: Value) -> bool:
        """Whether `value` exists only in channels-last order so far."""
        return value in self.moved and value not in self.new and value.producer is not None

    def _move(self, node: Node) -> bool:
        """Add `node` in channels-last order if it should be; False leaves it to its own order."""
        name = node.op.name
        if name in _SEEDS:
            return node.attrs[_SEEDS[name]] == "nchw" and self._windowed(node, _SEEDS[name])
        if not any(self.is_last(v) for v in node.inputs.values()):
            return False
        if name in _WINDOWED:
            return node.attrs["layout"] == "nchw" and self._windowed(node, "layout")
        if node.op.expression is not None:
            return self._elementwise(node)
        rule = _RULES.get(name)
        return rule is not None and _rank(node) in TO_LAST and rule(self, node)

    def _windowed(self, node: Node, layout: str) -> bool:
        inputs = {r: self.last(v) if r == "input" else self.plain(v) for r, v in node.inputs.items()}
        self._add(node, inputs, {**node.attrs, layout: "nhwc"})
        return True

    def _elementwise(self, node: Node) -> bool:
        rank = node.output.desc.rank
        if rank not in TO_LAST or not any(v.desc.rank == rank and self.is_last(v) for v in node.inputs.values()):
            return False
        self._add(node, {r: self._broadcast(v, rank) for r, v in node.inputs.items()}, node.attrs)
        return True

    def _broadcast(self, value: Value, rank: int) -> Value:
        """An operand that broadcasts to `rank`, in channels-last order."""
        if value.desc.rank == rank:
            return self.last(value)
        if value.desc.size == 1 or value.desc.rank == 0:
            return self.plain(value)
        if (value, rank) not in self.wide:
            wide = self.reshape(self.plain(value), (1,) * (rank - value.desc.rank) + value.shape)
            self.wide[value, rank] = self.transpose(wide, TO_LAST[rank])
        return self.wide[value, rank]

    def _add(self, node: Node, inputs: Mapping[str, Value], attrs: Attrs, rank: int | None = None) -> None:
        """`node` on channels-last values, its outputs of `rank` (default: their own) as twins, others as they are."""
        follows = [v.desc.rank == (rank or v.desc.rank) for v in node.outputs]
        descs = [_permuted(v.desc) if f else v.desc for v, f in zip(node.outputs, follows, strict=True)]
        outputs = self.add(node.op, inputs, attrs, descs, node.label)
        for old, new, follow in zip(node.outputs, outputs, follows, strict=True):
            (self.moved if follow else self.new)[old] = new


def _permuted(desc: TensorDesc) -> TensorDesc:
    return TensorDesc(desc.data_type, tuple(desc.shape[axis] for axis in TO_LAST[desc.rank]))


def _axis(axis: int, rank: int) -> int:
    return TO_LAST[rank].index(axis)


def _rank(node: Node) -> int:
    """The rank of what a node reads first."""
    return next(iter(node.inputs.values())).desc.rank


def _all_last(layout: _Layout, node: Node, attrs: Attrs) -> bool:
    inputs = {r: layout.last(v) for r, v in node.inputs.items()}
    layout._add(node, inputs, {**node.attrs, **attrs}, _rank(node))
    return True


def _by_axis(layout: _Layout, node: Node) -> bool:
    """concat, split, softmax, cumulative_sum, arg_min, arg_max with kept dimensions: one axis."""
    if node.output.desc.rank != _rank(node):
        return False
    return _all_last(layout, node, {"axis": _axis(node.attrs["axis"], _rank(node))})


def _by_lists(*names: str) -> Callable[[_Layout, Node], bool]:
    """Operators whose attributes `names` are lists with one entry per dimension."""

    def rule(layout: _Layout, node: Node) -> bool:
        order = TO_LAST[_rank(node)]
        moved = {n: tuple(node.attrs[n][axis] for axis in order) for n in names if node.attrs.get(n) is not None}
        return _all_last(layout, node, moved)

    return rule


def _by_axes(layout: _Layout, node: Node) -> bool:
    """resample2d, reverse: a list of axes that keeps its order."""
    axes = node.attrs.get("axes")
    return _all_last(layout, node, {} if axes is None else {"axes": tuple(_axis(axis, _rank(node)) for axis in axes)})


def _resample(layout: _Layout, node: Node) -> bool:
    """resample2d; the axes ascend in either order, so that sizes keep their meaning."""
    axes = tuple(_axis(axis, 4) for axis in node.attrs["axes"])
    return axes == tuple(sorted(axes)) and _by_axes(layout, node)


def _reduction(layout: _Layout, node: Node) -> bool:
    """Reductions, when the dimensions that stay keep their order."""
    axes, rank = node.attrs.get("axes"), _rank(node)
    gone = set(range(rank)) if axes is None else set(axes)
    if node.output.desc.rank == rank:
        return _by_axes(layout, node)
    stay = [axis for axis in TO_LAST[rank] if axis not in gone]
    return stay == sorted(stay) and _by_axes(layout, node)


def _batch_normalization(layout: _Layout, node: Node) -> bool:
    inputs = {r: layout.last(v) if r == "input" else layout.plain(v) for r, v in node.inputs.items()}
    layout._add(node, inputs, {**node.attrs, "axis": _axis(node.attrs["axis"], _rank(node))})
    return True


def _layer_normalization(layout: _Layout, node: Node) -> bool:
    """Scale and bias have the dimensions that the axes name, in that order: they stay as they are."""
    if not layout.is_last(node.inputs["input"]):
        return False
    inputs = {r: layout.last(v) if r == "input" else layout.plain(v) for r, v in node.inputs.items()}
    axes = tuple(_axis(axis, _rank(node)) for axis in node.attrs["axes"])
    layout._add(node, inputs, {**node.attrs, "axes": axes})
    return True


def _transpose(layout: _Layout, node: Node) -> bool:
    """A transpose of a twin: one transpose from the twin, or none."""
    order = tuple(_axis(axis, _rank(node)) for axis in node.attrs["permutation"])
    source = layout.moved[node.inputs["input"]]
    layout.new[node.output] = layout.transpose(source, order)
    return True


def _reshape(layout: _Layout, node: Node) -> bool:
    """A reshape that drops or adds a height or width of one, or to rows of channels, when the image is one pixel: both
    orders hold the same bytes.
    """
    before, after = node.inputs["input"].shape, node.output.shape
    source = layout.moved[node.inputs["input"]]
    images, rows = (before, after) if len(before) == 4 else (after, before)
    if (len(images), len(rows)) == (4, 3) and images[:2] == rows[:2] and 1 in images[2:]:
        layout.moved[node.output] = layout.reshape(source, tuple(after[axis] for axis in TO_LAST[len(after)]))
        return True
    *_, channels = source.shape
    if channels != 1 and math.prod(source.shape[1:-1]) != 1:
        return False
    layout.new[node.output] = layout.reshape(source, after)
    return True


_REDUCTIONS = ("l1", "l2", "log_sum", "log_sum_exp", "max", "mean", "min", "product", "sum", "sum_square")
_RULES: dict[str, Callable[[_Layout, Node], bool]] = {
    "concat": _by_axis,
    "split": _by_axis,
    "softmax": _by_axis,
    "cumulative_sum": _by_axis,
    "pad": _by_lists("beginning_padding", "ending_padding"),
    "slice": _by_lists("starts", "sizes", "strides"),
    "tile": _by_lists("repetitions"),
    "reverse": _by_axes,
    "resample2d": _resample,
    "batch_normalization": _batch_normalization,
    "layer_normalization": _layer_normalization,
    "transpose": _transpose,
    "reshape": _reshape,
    **{f"reduce_{name}": _reduction for name in _REDUCTIONS},
}
