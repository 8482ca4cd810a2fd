"""Kernels of GPUs whose work-items share nothing: one for each element, or a few that lie a work-group apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webnn_cl.ops.groups import group_size

if TYPE_CHECKING:
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["Items", "items_of", "position_type"]

MOST_EACH = 4
# Groups of a compute unit below which work-items don't take more than one element.
BUSY = 16


@dataclass(frozen=True)
class Items:
    """Elements of a work-item, global and local size."""

    each: int
    grid: tuple[int]
    local: tuple[int]


def items_of(size: int, facts: DeviceFacts) -> Items:
    """Work-items for `size` elements: one each until the device is busy, then up to four."""
    group = group_size(facts)
    busy = BUSY * max(facts.compute_units, 1) * group
    each = min(MOST_EACH, max(1, size // busy))
    return Items(each, (-(-size // (group * each)) * group,), (group,))


def position_type(size: int) -> str:
    """The C type for indices of `size` elements."""
    return "uint" if size < 1 << 31 else "IDX"
