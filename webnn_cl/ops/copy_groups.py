"""Copies of affine views on GPUs: an element per work-item, or tiles that a work-group turns in local memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.ops.groups import HEADERS, group_size
from webnn_cl.ops.items import items_of, position_type

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.ops.strided import View

__all__ = ["copy_by_groups"]

TILES = (32, 16, 8, 4, 1)


def copy_by_groups(lw: Lowering, source: Arg, view: View, target: Arg, size: int, turned: int | None) -> None:
    """Write the elements (`size` bytes each) of `view`; `turned` is the axis that is contiguous in the source where
    that is not the last one.
    """
    element = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}[size]
    if turned is not None and min(view.shape[turned], view.shape[-1]) > 1:
        _copy_turned(lw, source, view, target, element, size, turned)
        return
    items = items_of(view.size, lw.facts)
    defines = {"E": element, "POS": position_type(view.size)}
    kernel = Kernel("copy_items.cl", "copy_items", defines)
    args: list[Arg] = [source, np.int64(view.offset), target, np.int64(view.size), np.int32(items.each)]
    args += [np.int32(len(view.shape)), dims(view.shape), dims(view.strides)]
    lw.launch(kernel, args, items.grid, items.local)


def _copy_turned(
    lw: Lowering, source: Arg, view: View, target: Arg, element: str, size: int, turned: int
) -> None:
    steps = [math.prod(view.shape[axis + 1 :]) for axis in range(len(view.shape))]
    others = [axis for axis in range(len(view.shape) - 1) if axis != turned]
    outer = [view.shape[axis] for axis in others]
    across, down = view.shape[-1], view.shape[turned]
    tile = next(t for t in TILES if t == 1 or t * (t + 1) * size <= lw.facts.local_memory_bytes)
    group = min(group_size(lw.facts), tile * tile)
    kernel = Kernel("copy_local.cl", "copy_local", {"E": element, "GROUP": group, "TILE": tile}, headers=HEADERS)
    args: list[Arg] = [source, np.int64(view.offset), np.int64(view.strides[-1]), target, np.int64(steps[turned])]
    args += [np.int64(down), np.int64(across), np.int32(len(outer)), dims(outer)]
    args += [dims([view.strides[axis] for axis in others]), dims([steps[axis] for axis in others])]
    groups = -(-across // tile) * -(-down // tile) * math.prod(outer)
    lw.launch(kernel, args, (groups * group,), (group,))
