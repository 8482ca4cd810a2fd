"""How a normalization's work is cut: which kernel, over how many work-items, in how many passes over memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from webnn_cl.compiler.lower import dims
from webnn_cl.ops.strided import packed_strides

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["Groups", "Plan", "plan_of"]

LANES = 8
WIDEST = 512  # columns of a work-item of norm_columns.cl
# Elements that a work-item takes of groups that are cut, and most elements of work that is not cut: they stay in a
# core's cache from the first pass to the last.
CHUNK, WHOLE = 1 << 13, 1 << 17
SHORT = 64  # rows of columns that are never cut
# A work-item has at least so many elements, and a core so many work-items, where there are enough.
ITEM, ITEMS_PER_CORE = 1 << 14, 4
# Beyond so many elements a row, scale and bias fall out of the first cache: several rows share their loads.
LONG_ROW = 2560


@dataclass(frozen=True)
class Groups:
    """A tensor as kept and reduced dimensions: four extents and element strides of each, ones in front."""

    kept: tuple[tuple[int, int], ...]
    reduced: tuple[tuple[int, int], ...]
    columns: bool
    total: int

    @classmethod
    def of(cls, shape: Sequence[int], axes: Sequence[int], apart: int | None = None) -> Groups:
        """The tensor of `shape` with `axes` reduced; neighbours of one kind are joined, but for the dimension `apart`
        (by which scale and bias are indexed), ones dropped.
        """
        merged: list[tuple[bool, int, int]] = []
        for axis, (extent, stride) in enumerate(zip(shape, packed_strides(shape), strict=True)):
            if extent == 1 and axis != apart:
                continue
            reduced = axis in axes
            if merged and merged[-1][0] == reduced and axis != apart:
                merged[-1] = (reduced, merged[-1][1] * extent, stride)
            else:
                merged.append((reduced, extent, stride))
        parts = [[(extent, stride) for r, extent, stride in merged if r == which] for which in (False, True)]
        columns = not merged or not merged[-1][0]
        innermost = parts[0] if columns else parts[1]
        if not innermost:
            innermost.append((1, 1))
        kept, reduced_ = (((1, 0),) * (4 - len(p)) + tuple(p) for p in parts)
        return cls(kept, reduced_, columns, math.prod(shape))

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


@dataclass(frozen=True)
class Plan:
    """The kernels (template and entry), their argument `sizes` and defines, chunks of a group, work-items of the
    passes and of the combination of statistics, and floats of one set of these.
    """

    entry: str
    sizes: bytes
    chunks: int
    grid: tuple[int, ...]
    stat_grid: tuple[int, ...] = ()
    stat_floats: int = 0
    defines: dict[str, object] = field(default_factory=dict)

    @property
    def template(self) -> str:
        return f"{self.entry}.cl"


def plan_of(groups: Groups, channels: int, by_element: bool, facts: DeviceFacts) -> Plan:
    """The plan for `groups` on a device; `by_element`: scale or bias have a value for each element of a group."""
    if groups.columns:
        return _columns(groups, facts)
    return _rows(groups, channels, by_element, facts)


def _rows(groups: Groups, channels: int, by_element: bool, facts: DeviceFacts) -> Plan:
    n, count = groups.elements, groups.groups
    items = ITEMS_PER_CORE * (facts.compute_units or 8)
    whole = n <= CHUNK or (n <= WHOLE and count >= items)
    chunk = n if whole else CHUNK
    chunks = -(-n // chunk)
    each = max(1, min(ITEM // n, count // items))
    sizes = dims((n, count, channels, chunk, chunks, each))
    rows = 4 if whole and by_element and n > LONG_ROW else 1
    grid = (-(-count // each),) if whole else (chunks, count)
    return Plan("norm_rows", sizes, chunks, grid, (count,), 3 * count, {"ROWS": rows})


def _columns(groups: Groups, facts: DeviceFacts) -> Plan:
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
    sizes = dims((n, groups.total, pitch, chunk, chunks, width))
    defines: dict[str, object] = {"VECTORS": WIDEST // LANES}
    grid = (blocks, chunks, outer)
    return Plan("norm_columns", sizes, chunks, grid, (pitch // LANES, outer), 3 * pitch * outer, defines)
