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
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["epilogue_run", "lower_instance_norm", "lower_layer_norm"]

LANES = 8
WIDEST = 256  # columns of a work-item of norm_columns.cl
# Elements that a work-item takes of groups that are cut, and most elements of work that is not cut: they stay in a
# core's cache from the first pass to the last.
CHUNK, WHOLE = 1 << 13, 1 << 17
SHORT = 64  # rows of columns that are never cut
# A work-item has at least so many elements, and a core so many work-items, where there are enough.
ITEM, ITEMS_PER_CORE = 1 << 14, 4
# Beyond so many elements a row, scale and bias fall out of the first cache: several rows share their loads.
LONG_ROW = 2560
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
    def groups(self) -> int:
        """Groups, or sets of neighbouring ones in columns."""
        extents = [extent for extent, _ in self.kept]
        return math.prod(extents[:-1] if self.columns else extents)

    @property
    def width(self) -> int:
        """Neighbouring columns."""
        return self.kept[-1][0]

    def layout(self) -> list[Arg]:
        """The arguments `shape` and `strides` of the kernels."""
        return [dims([part[k] for part in (*self.kept, *self.reduced)]) for k in range(2)]


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
    x, tail = node.inputs["input"], lw.tail(node)
    defines: dict[str, object] = {
        "T": dtype_of(x.data_type).storage,
        "SCALE": index if "scale" in parameters else 0,
        "BIAS": index if "bias" in parameters else 0,
        "ROWS": 4 if index == BY_REDUCED and parameters and groups.elements > LONG_ROW else 1,
    }
    plan = _plan_columns(groups, x, lw.facts) if groups.columns else _plan_rows(groups, channels, lw.facts)
    final = {**defines, **tail.defines}
    headers = ("norm.h", *tail.headers)
    eps = np.float32(node.attrs["epsilon"])
    layout = [*groups.layout(), plan.sizes]
    operands: list[Arg] = [x, *parameters.values(), tail.output]
    if plan.chunks == 1:
        kernel = Kernel(plan.template, plan.entry, final | {"STAGE": 0}, tail.code, headers)
        lw.launch(kernel, [*operands, *layout, eps, *tail.args], plan.grid)
        return
    parts, stats = lw.scratch(plan.stat_bytes * plan.chunks), lw.scratch(plan.stat_bytes)
    plain = {"T": defines["T"]}

    def stage(name: str, number: int) -> Kernel:
        return Kernel(plan.template, f"{plan.entry}_{name}", plain | {"STAGE": number}, headers=("norm.h",))

    lw.launch(stage("chunks", 1), [x, parts, *layout], plan.grid)
    lw.launch(stage("combine", 2), [parts, stats, plan.sizes, eps], plan.stat_grid)
    kernel = Kernel(plan.template, f"{plan.entry}_apply", final | {"STAGE": 3, "ROWS": 1}, tail.code, headers)
    lw.launch(kernel, [*operands, stats, *layout, *tail.args], plan.grid)


@dataclass(frozen=True)
class Plan:
    """How the work is cut: the kernels, their argument `sizes`, work-items, and bytes of one set of statistics."""

    template: str
    entry: str
    sizes: bytes
    chunks: int
    grid: tuple[int, ...]
    stat_grid: tuple[int, ...]
    stat_bytes: int


def _plan_rows(groups: Groups, channels: int, facts: DeviceFacts) -> Plan:
    n, count = groups.elements, groups.groups
    items = ITEMS_PER_CORE * (facts.compute_units or 8)
    whole = n <= CHUNK or (n <= WHOLE and count >= items)
    chunk = n if whole else CHUNK
    chunks = -(-n // chunk)
    each = max(1, min(ITEM // n, count // items))
    sizes = dims((n, count, channels, chunk, chunks, each))
    grid = (-(-count // each),) if whole else (chunks, count)
    return Plan("norm_rows.cl", "norm_rows", sizes, chunks, grid, (count,), 12 * count)


def _plan_columns(groups: Groups, x: Value, facts: DeviceFacts) -> Plan:
    n, outer, pitch = groups.elements, groups.groups, -(-groups.width // LANES) * LANES
    items = ITEMS_PER_CORE * (facts.compute_units or 8)
    width = min(pitch, WIDEST)
    while width > 4 * LANES and (n * width > WHOLE or -(-pitch // width) * outer < items):
        width = -(-width // 2 // LANES) * LANES
    whole = n <= SHORT or (n * width <= WHOLE and -(-pitch // width) * outer >= items)
    if not whole:
        width = min(pitch, WIDEST)
    blocks = -(-pitch // width)
    chunk = n if whole else max(SHORT, min(8 * CHUNK // width, -(-n * blocks * outer // items)))
    chunks = -(-n // chunk)
    sizes = dims((n, x.desc.size, pitch, chunk, chunks, width))
    grid = (blocks, chunks, outer)
    return Plan("norm_columns.cl", "norm_columns", sizes, chunks, grid, (pitch // LANES, outer), 12 * pitch * outer)
