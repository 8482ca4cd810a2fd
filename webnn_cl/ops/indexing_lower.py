"""Lowering of gather and scatter: runs of elements by size, indices of each type clamped in the kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.strided import packed_strides, past_caches, split_rows, unsigned_of

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node, Value
    from webnn_cl.compiler.lower import Arg, Lowering

__all__ = [
    "lower_gather",
    "lower_gather_elements",
    "lower_gather_nd",
    "lower_scatter_elements",
    "lower_scatter_nd",
]

LINE_BYTES = 64
FEW_UPDATES = 256  # in order by one work-item: cheaper than finding out who wins
GPU_COLUMNS = 4096  # that many work-items in order keep a GPU busy


def _kernel(template: str, entry: str, x: Value, indices: Value, more: Mapping[str, object] | None = None) -> Kernel:
    defines = {"E": unsigned_of(dtype_of(x.data_type).size), "I": dtype_of(indices.data_type).storage, **(more or {})}
    return Kernel(template, entry, defines, headers=("move.h",))


def lower_gather(node: Node, lowering: Lowering) -> None:
    """One coordinate, the same for all of the leading dimensions."""
    x, axis = node.inputs["input"], node.attrs["axis"]
    run = math.prod(x.shape[axis + 1 :])
    limit = x.shape[axis]
    _gather_rows(node, lowering, run, limit * run, (limit,), (run,))


def lower_gather_nd(node: Node, lowering: Lowering) -> None:
    """As many coordinates as the indices' last dimension says."""
    x, depth = node.inputs["input"], node.inputs["indices"].shape[-1]
    run = math.prod(x.shape[depth:])
    _gather_rows(node, lowering, run, 0, x.shape[:depth], packed_strides(x.shape)[:depth])


def _gather_rows(
    node: Node, lowering: Lowering, run: int, pitch: int, limits: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    x, indices, y = node.inputs["input"], node.inputs["indices"], node.output
    rows = y.desc.size // run
    per_batch = indices.desc.size // len(limits)
    columns, rows_each, local = split_rows(lowering.facts, run, rows, dtype_of(x.data_type).size)
    args: list[Arg] = [x, indices, y]
    args += [np.int64(n) for n in (run, columns, rows, rows_each, per_batch, pitch)]
    args += [np.int32(len(limits)), dims(limits), dims(strides)]
    past = past_caches(lowering.facts, run * dtype_of(x.data_type).size, y.desc.nbytes)
    kernel = _kernel("gather.cl", "gather_rows", x, indices, past)
    lowering.launch(kernel, args, (-(-run // columns), -(-rows // rows_each)), local)


def lower_gather_elements(node: Node, lowering: Lowering) -> None:
    """One index per element of the result."""
    x, indices, y, axis = node.inputs["input"], node.inputs["indices"], node.output, node.attrs["axis"]
    inner = math.prod(y.shape[axis + 1 :])
    rows = y.desc.size // inner
    columns, rows_each, local = split_rows(lowering.facts, inner, rows, dtype_of(x.data_type).size)
    args: list[Arg] = [x, indices, y]
    args += [np.int64(n) for n in (inner, columns, rows, rows_each, indices.shape[axis], x.shape[axis])]
    kernel = _kernel("gather.cl", "gather_elements", x, indices)
    lowering.launch(kernel, args, (-(-inner // columns), -(-rows // rows_each)), local)


# Scatter ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Updates:
    """Updates [outer, middle, inner] of `run` elements each, and how indices address slots (see scatter.cl)."""

    outer: int
    middle: int
    inner: int
    run: int
    pitch: int
    limits: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def count(self) -> int:
        return self.outer * self.middle * self.inner

    def address(self, indices: Value) -> list[Arg]:
        """The kernels' arguments that address a slot."""
        sizes = [np.int64(n) for n in (self.middle, self.inner, self.pitch)]
        return [indices, *sizes, np.int32(len(self.limits)), dims(self.limits), dims(self.strides)]


def lower_scatter_elements(node: Node, lowering: Lowering) -> None:
    """Updates of single elements; those of one column meet each other only."""
    x, indices, axis = node.inputs["input"], node.inputs["indices"], node.attrs["axis"]
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    extent = x.shape[axis]
    updates = _Updates(outer, indices.shape[axis], inner, 1, extent * inner, (extent,), (inner,))
    _lower_scatter(node, lowering, updates)


def lower_scatter_nd(node: Node, lowering: Lowering) -> None:
    """Updates of whole trailing slices."""
    x, indices = node.inputs["input"], node.inputs["indices"]
    depth = indices.shape[-1]
    limits = x.shape[:depth]
    run = math.prod(x.shape[depth:])
    updates = _Updates(1, indices.desc.size // depth, 1, run, 0, limits, packed_strides(limits))
    _lower_scatter(node, lowering, updates)


def _lower_scatter(node: Node, lowering: Lowering, updates: _Updates) -> None:
    _copy_input(node, lowering)
    size = dtype_of(node.output.data_type).size
    width = updates.inner * updates.run
    line = LINE_BYTES // size if lowering.facts.is_cpu else 1
    busy = max(lowering.facts.compute_units, 1) if lowering.facts.is_cpu else GPU_COLUMNS
    if updates.count <= FEW_UPDATES or updates.outer * -(-width // line) >= busy:
        _in_order(node, lowering, updates, width, line)
    else:
        _by_winner(node, lowering, updates)


def _copy_input(node: Node, lowering: Lowering) -> None:
    x, y = node.inputs["input"], node.output
    size = x.desc.size
    each, _, local = split_rows(lowering.facts, size, 1, dtype_of(x.data_type).size)
    kernel = _kernel("scatter.cl", "scatter_copy", x, node.inputs["indices"])
    args: list[Arg] = [x, y, np.int64(size), np.int64(each)]
    lowering.launch(kernel, args, (-(-size // each),), local[:1], in_place=[(x, y)])


def _in_order(node: Node, lowering: Lowering, updates: _Updates, width: int, line: int) -> None:
    x, indices, facts = node.inputs["input"], node.inputs["indices"], lowering.facts
    columns = line
    if facts.is_cpu:
        share = -(-width * updates.outer // (4 * max(facts.compute_units, 1)))
        columns = min(-(-max(share, 1) // line) * line, width)
    kernel = _kernel("scatter.cl", "scatter_ordered", x, indices)
    args: list[Arg] = [node.inputs["updates"], node.output, np.int64(updates.run), np.int64(columns)]
    local = (1, 1) if facts.is_cpu else (64, 1)
    lowering.launch(kernel, [*args, *updates.address(indices)], (-(-width // columns), updates.outer), local)


def _by_winner(node: Node, lowering: Lowering, updates: _Updates) -> None:
    x, indices = node.inputs["input"], node.inputs["indices"]
    slots = x.desc.size // updates.run
    winner = lowering.scratch(4 * slots)
    address = updates.address(indices)
    each, _, local = split_rows(lowering.facts, slots, 1, 4)
    reset: list[Arg] = [winner, np.int64(slots), np.int64(each)]
    lowering.launch(_kernel("scatter.cl", "scatter_reset", x, indices), reset, (-(-slots // each),), local[:1])
    count = updates.count
    each, _, local = split_rows(lowering.facts, count, 1, 16)
    counts = [np.int64(count), np.int64(each)]
    claim: list[Arg] = [winner, *counts, *address]
    lowering.launch(_kernel("scatter.cl", "scatter_claim", x, indices), claim, (-(-count // each),), local[:1])
    won: list[Arg] = [winner, node.inputs["updates"], node.output, *counts, np.int64(updates.run), *address]
    lowering.launch(_kernel("scatter.cl", "scatter_won", x, indices), won, (-(-count // each),), local[:1])
