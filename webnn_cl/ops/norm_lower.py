"""Lowering of layer and instance normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.spatial import Image
from webnn_cl.ops.strided import View, copy_view, packed_strides
from webnn_cl.ops.widen import widen

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node, Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering

__all__ = ["epilogue_run", "lower_instance_norm", "lower_layer_norm"]

LANES = 8
# A group longer than this does not stay in a core's cache between the passes over it.
ROW_IN_CACHE, COLUMN_IN_CACHE = 1 << 16, 1 << 11
ROW_CHUNK, COLUMN_CHUNK = 1 << 13, 1 << 10
# Groups this short are not worth a second launch, however few they are.
SHORT_ROW, SHORT_COLUMN = 1 << 12, 1 << 8
BY_CHANNEL, BY_REDUCED = 1, 2


@dataclass(frozen=True)
class Groups:
    """A tensor as kept and reduced dimensions: four extents and element strides of each, ones in front."""

    kept: tuple[tuple[int, int], ...]
    reduced: tuple[tuple[int, int], ...]
    columns: bool

    @classmethod
    def of(cls, shape: Sequence[int], axes: Sequence[int]) -> Groups:
        """The tensor of `shape` with `axes` reduced; neighbours of one kind are joined, ones dropped."""
        merged: list[tuple[bool, int, int]] = []
        for axis, (extent, stride) in enumerate(zip(shape, packed_strides(shape), strict=True)):
            if extent == 1:
                continue
            reduced = axis in axes
            if merged and merged[-1][0] == reduced:
                merged[-1] = (reduced, merged[-1][1] * extent, stride)
            else:
                merged.append((reduced, extent, stride))
        parts = [[(extent, stride) for r, extent, stride in merged if r == which] for which in (False, True)]
        columns = not merged or not merged[-1][0]
        innermost = parts[0] if columns else parts[1]
        if not innermost:
            innermost.append((1, 1))
        kept, reduced_ = (((1, 0),) * (4 - len(p)) + tuple(p) for p in parts)
        return cls(kept, reduced_, columns)

    @property
    def elements(self) -> int:
        """Elements of a group."""
        return math.prod(extent for extent, _ in self.reduced)

    @property
    def items(self) -> int:
        """Groups, or blocks of eight of them."""
        *outer, inner = (extent for extent, _ in self.kept)
        return math.prod(outer) * (-(-inner // LANES) if self.columns else inner)


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The dimensions that an instance or layer normalization takes its statistics over."""
    layout = node.attrs.get("layout")
    return node.attrs["axes"] if layout is None else (layout.index("h"), layout.index("w"))


def epilogue_run(node: Node) -> int:
    """Trailing dimensions over which eight elements that are stored together may run (``meta["epilogue"]``)."""
    shape, axes = node.output.shape, reduced_axes(node)
    run = 0
    kinds = set()
    for axis in reversed(range(len(shape))):
        kinds |= {axis in axes} if shape[axis] > 1 else set()
        if len(kinds) > 1:
            break
        run += 1
    return max(run, 1)


def lower_instance_norm(node: Node, lw: Lowering) -> None:
    """instance_normalization."""
    x = node.inputs["input"]
    groups = Groups.of(x.shape, reduced_axes(node))
    parameters = {role: widen(lw, value) for role, value in _parameters(node).items()}
    _lower_groups(node, lw, groups, parameters, BY_CHANNEL, Image.of(x.shape, node.attrs["layout"]).channels)


def lower_layer_norm(node: Node, lw: Lowering) -> None:
    """layer_normalization."""
    x, axes = node.inputs["input"], node.attrs["axes"]
    groups = Groups.of(x.shape, axes)
    parameters = {role: _in_order(lw, value, axes) for role, value in _parameters(node).items()}
    _lower_groups(node, lw, groups, parameters, BY_REDUCED, 1)


def _parameters(node: Node) -> dict[str, Value]:
    return {role: value for role, value in node.inputs.items() if role != "input"}


def _in_order(lw: Lowering, value: Value, axes: Sequence[int]) -> Buffer:
    """A scale or bias as float, its dimensions in the order of the input's."""
    order = sorted(range(len(axes)), key=lambda k: axes[k])
    if order == list(range(len(axes))):
        return widen(lw, value)

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        copy_view(lw, widen(lw, source), View.packed(source.shape).transposed(order), target, 4)

    return lw.packed(value, ("permuted", tuple(order)), 4 * value.desc.size, emit)


def _lower_groups(
    node: Node, lw: Lowering, groups: Groups, parameters: dict[str, Buffer], index: int, channels: int
) -> None:
    """One launch, or three where groups are too long for a cache or too few for the cores."""
    x, tail = node.inputs["input"], lw.tail(node)
    defines: dict[str, object] = {
        "T": dtype_of(x.data_type).storage,
        "COLUMNS": int(groups.columns),
        "SCALE": index if "scale" in parameters else 0,
        "BIAS": index if "bias" in parameters else 0,
    }
    chunk = _chunk(groups, lw.facts.compute_units)
    chunks = -(-groups.elements // chunk)
    extents = [dims([part[k] for part in (*groups.kept, *groups.reduced)]) for k in range(2)]
    sizes = dims((groups.elements, groups.items, channels, x.desc.size, chunk, chunks))
    eps = np.float32(node.attrs["epsilon"])
    operands: list[Arg] = [x, *parameters.values(), tail.output]
    if chunks == 1:
        kernel = Kernel("norm.cl", "norm_all", defines | tail.defines | {"STAGE": 0}, tail.code, tail.headers)
        lw.launch(kernel, [*operands, *extents, sizes, eps, *tail.args], (groups.items,))
        return
    lanes = LANES if groups.columns else 1
    parts = lw.scratch(groups.items * chunks * 2 * 4 * lanes)
    stats = lw.scratch(groups.items * 2 * 4 * lanes)
    grid = (chunks, groups.items)
    plain = defines | {"SCALE": 0, "BIAS": 0}
    lw.launch(Kernel("norm.cl", "norm_chunks", plain | {"STAGE": 1}), [x, parts, *extents, sizes], grid)
    lw.launch(Kernel("norm.cl", "norm_combine", plain | {"STAGE": 2}), [parts, stats, sizes, eps], (groups.items,))
    kernel = Kernel("norm.cl", "norm_apply", defines | tail.defines | {"STAGE": 3}, tail.code, tail.headers)
    lw.launch(kernel, [*operands, stats, *extents, sizes, *tail.args], grid)


def _chunk(groups: Groups, compute_units: int) -> int:
    """Reduced elements that one work-item takes."""
    n = groups.elements
    fits, chunk, short = (
        (COLUMN_IN_CACHE, COLUMN_CHUNK, SHORT_COLUMN) if groups.columns else (ROW_IN_CACHE, ROW_CHUNK, SHORT_ROW)
    )
    enough = groups.items >= 2 * compute_units
    if n <= short or (n <= fits and enough):
        return n
    return min(chunk, max(short, -(-n * groups.items // (8 * compute_units))) if not enough else chunk)
