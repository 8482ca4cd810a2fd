"""Affine views: which element of a packed tensor each element of a slice, transpose, reverse, expand or tile is.

A `View` is pure arithmetic, so a compiler pass may fold such operators into whatever reads their result:
``affine_view(node)`` gives the view a node takes of its input, and ``affine_view(outer, affine_view(inner))`` the
one that two nodes take together. Where nobody folds it, `copy_view` makes the packed tensor with one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.copy_groups import copy_by_groups

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = [
    "MAX_DIMS",
    "View",
    "affine_view",
    "copy_view",
    "lower_view",
    "packed_strides",
    "past_caches",
    "split_rows",
    "unsigned_of",
]

MAX_DIMS = 8  # entries of dims_t
# A copy of so many bytes, in runs so long, is written past a CPU's caches.
PAST_BYTES, PAST_RUN = 16 << 20, 1 << 10
LINE_BYTES = 64
# Elements of a block of a transposition: multiples of 16, and of a cache line in the target.
TURN_SMALLEST, TURN_LARGEST, TURN_PAST = 16, 256, (1024, 64)
# On a CPU a work-item does at least this much, so that starting it costs nothing in comparison.
BYTES_PER_ITEM = 32 << 10
ITEMS_PER_UNIT = 8
GPU_LANES = 64


def packed_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major element strides of a packed tensor of `shape`."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


@dataclass(frozen=True)
class View:
    """Elements of a packed tensor: ``[i, j, ...]`` is element ``offset + i * strides[0] + j * strides[1] + ...``.

    Strides and offset count elements; strides may be 0 (repeated) or negative (reversed). Every method gives
    another view of the same tensor.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def packed(cls, shape: Sequence[int]) -> View:
        """The whole of a packed tensor of `shape`."""
        return cls(tuple(shape), packed_strides(shape))

    def transposed(self, permutation: Sequence[int]) -> View:
        """Axis k is this view's axis ``permutation[k]``."""
        shape = tuple(self.shape[axis] for axis in permutation)
        return View(shape, tuple(self.strides[axis] for axis in permutation), self.offset)

    def sliced(self, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int]) -> View:
        """``shape[k]`` elements along axis k, from ``starts[k]`` on, ``steps[k]`` apart (steps may be negative)."""
        offset = self.offset + sum(s * stride for s, stride in zip(starts, self.strides, strict=True))
        strides = tuple(step * stride for step, stride in zip(steps, self.strides, strict=True))
        return View(tuple(shape), strides, offset)

    def reversed(self, axes: Sequence[int]) -> View:
        """`axes` run from their end to their start."""
        starts = [n - 1 if axis in axes else 0 for axis, n in enumerate(self.shape)]
        steps = [-1 if axis in axes else 1 for axis in range(len(self.shape))]
        return self.sliced(starts, self.shape, steps)

    def expanded(self, shape: Sequence[int]) -> View:
        """Broadcast to `shape`, right-aligned."""
        lead = len(shape) - len(self.shape)
        steps = [0 if n == 1 else stride for n, stride in zip(self.shape, self.strides, strict=True)]
        return View(tuple(shape), (*[0] * lead, *steps), self.offset)

    def repeated(self, repetitions: Sequence[int]) -> View:
        """Tiles; each axis becomes two, the repetitions before the axis itself."""
        pairs = zip(repetitions, self.shape, self.strides, strict=True)
        axes = [axis for count, n, stride in pairs for axis in ((count, 0), (n, stride))]
        return View(tuple(n for n, _ in axes), tuple(stride for _, stride in axes), self.offset)

    def collapsed(self) -> View:
        """The same elements in the same order in as few dimensions as possible: none of size 1, neighbours joined."""
        shape: list[int] = []
        strides: list[int] = []
        for n, stride in zip(self.shape, self.strides, strict=True):
            if n == 1:
                continue
            if shape and strides[-1] == n * stride:
                shape[-1] *= n
                strides[-1] = stride
            else:
                shape.append(n)
                strides.append(stride)
        return View(tuple(shape), tuple(strides), self.offset)

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The same elements in the same order under `shape` (of equal size); None where strides can't say it."""
        small = self.collapsed()
        strides: list[int] = []
        rest, axis = 1, len(small.shape)
        step = 1
        for n in reversed(shape):
            if n == 1:
                strides.append(0)
                continue
            if rest == 1:
                axis -= 1
                rest, step = small.shape[axis], small.strides[axis]
            if rest % n:
                return None
            strides.append(step)
            rest, step = rest // n, step * n
        return View(tuple(shape), tuple(reversed(strides)), self.offset)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_packed(self) -> bool:
        """Whether this is the tensor's elements in their own order from the first on (a prefix counts)."""
        small = self.collapsed()
        return small.offset == 0 and (not small.shape or small.strides == (1,))


ViewOf = Callable[["Node", View], "View | None"]


def affine_view(node: Node, source: View | None = None) -> View | None:
    """The view of its input that `node` gives; None when it is not such an operator or can't be said in strides.

    `source` is what the node's input itself views (default: a packed tensor): the result then views that tensor.
    Operators declare it as ``meta["view"]`` of their record.
    """
    view_of: ViewOf | None = node.op.meta.get("view")
    if view_of is None:
        return None
    return view_of(node, source or View.packed(next(iter(node.inputs.values())).shape))


# Lowering ---------------------------------------------------------------------------------------------------


def lower_view(node: Node, lowering: Lowering) -> None:
    """Lower an operator that is an affine view: share memory where the view is packed, else copy."""
    (source,) = node.inputs.values()
    view = affine_view(node)
    assert view is not None
    if view.is_packed and node.output.desc.size == source.desc.size:
        lowering.alias(node.output, source)
    else:
        copy_view(lowering, source, view, node.output, dtype_of(node.output.data_type).size)


def unsigned_of(size: int) -> str:
    """The OpenCL C type by which elements of `size` bytes are moved: one kernel for all types of a size."""
    return {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}[size]


def split_rows(facts: DeviceFacts, inner: int, rows: int, size: int) -> tuple[int, int, tuple[int, int]]:
    """How `rows` rows of `inner` elements of `size` bytes are shared out: (columns, rows) of a work-item, local size.

    CPUs get a few large pieces per core, everything else eight elements of one row per work-item.
    """
    if not facts.is_cpu:
        return 8, 1, ((GPU_LANES, 1) if inner >= 8 * GPU_LANES else (1, GPU_LANES))
    items = min(max(inner * rows * size // BYTES_PER_ITEM, 1), ITEMS_PER_UNIT * max(facts.compute_units, 1))
    if rows >= items:
        return inner, -(-rows // items), (1, 1)
    columns = -(-inner // -(-items // rows))
    return min(-(-columns // 64) * 64, inner), 1, (1, 1)


def copy_view(lowering: Lowering, source: Arg, view: View, target: Arg, size: int) -> None:
    """Write the elements (`size` bytes each) of `view` of `source`, packed, into `target`."""
    small = view.collapsed()
    if len(small.shape) > MAX_DIMS:
        raise AssertionError("more than eight strided dimensions")
    if not small.shape:
        small = View((1,), (1,), small.offset)
    turned = _turned_axis(small)
    if not lowering.facts.is_cpu:
        copy_by_groups(lowering, source, small, target, size, turned)
    elif turned is None:
        _copy_rows(lowering, source, small, target, size)
    else:
        _copy_turned(lowering, source, small, target, size, turned)


def _turned_axis(view: View) -> int | None:
    """The axis that is contiguous in the source where that is not the last one: such views go tile by tile."""
    if view.strides[-1] in (-1, 0, 1):
        return None
    found = [axis for axis, (n, stride) in enumerate(zip(view.shape, view.strides, strict=True)) if stride == 1]
    return found[0] if found else None


def past_caches(facts: DeviceFacts, run_bytes: int, nbytes: int) -> dict[str, object]:
    """The macro PAST for kernels that write `nbytes` in runs of `run_bytes`, where nobody will find them in a cache."""
    return {"PAST": ""} if facts.is_cpu and nbytes >= PAST_BYTES and run_bytes >= PAST_RUN else {}


def _copy_rows(lowering: Lowering, source: Arg, view: View, target: Arg, size: int) -> None:
    inner, outer = view.shape[-1], view.shape[:-1]
    rows = math.prod(outer)
    columns, rows_each, local = split_rows(lowering.facts, inner, rows, size)
    defines = {"E": unsigned_of(size), **past_caches(lowering.facts, inner * size, inner * rows * size)}
    kernel = Kernel("strided.cl", "strided_rows", defines, headers=("move.h",))
    args: list[Arg] = [source, np.int64(view.offset), np.int64(view.strides[-1]), target]
    args += [np.int64(inner), np.int64(columns), np.int64(rows), np.int64(rows_each)]
    args += [np.int32(len(outer)), dims(outer), dims(view.strides[:-1])]
    lowering.launch(kernel, args, (-(-inner // columns), -(-rows // rows_each)), local)


def _copy_turned(lowering: Lowering, source: Arg, view: View, target: Arg, size: int, turned: int) -> None:
    """`turned` is contiguous in the source, the last axis in the target."""
    facts, steps = lowering.facts, packed_strides(view.shape)
    others = [axis for axis in range(len(view.shape) - 1) if axis != turned]
    outer = [view.shape[axis] for axis in others]
    across, down = view.shape[-1], view.shape[turned]
    whole_lines = across * size >= LINE_BYTES and steps[turned] * size % LINE_BYTES == 0
    past = past_caches(facts, PAST_RUN if whole_lines else 0, view.size * size)
    blocks = _turn_blocks(facts, down, across, math.prod(outer), bool(past))
    defines = {"E": unsigned_of(size), **({"SMALL": ""} if size < 4 else {}), **past}
    kernel = Kernel("strided.cl", "strided_turn", defines, headers=("move.h",))
    args: list[Arg] = [source, np.int64(view.offset), np.int64(view.strides[-1]), target, np.int64(steps[turned])]
    args += [np.int64(n) for n in (down, across, *blocks)]
    args += [np.int32(len(outer)), dims(outer)]
    args += [dims([view.strides[axis] for axis in others]), dims([steps[axis] for axis in others])]
    lowering.launch(kernel, args, (-(-across // blocks[1]), -(-down // blocks[0]), math.prod(outer)))


def _turn_blocks(facts: DeviceFacts, down: int, across: int, outer: int, past: bool) -> tuple[int, int]:
    """Extents of a work-item's block in the source's and in the target's contiguous dimension."""
    if past:
        return TURN_PAST
    items, block = ITEMS_PER_UNIT // 2 * max(facts.compute_units, 1), TURN_LARGEST
    while block > TURN_SMALLEST and -(-down // block) * -(-across // block) * outer < items:
        block //= 2
    return block, block
