"""How work is cut for the CPU kernels: sizes of caches and tiles as data, and the arithmetic on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["PANEL", "ROWS", "TUNING", "Tuning", "ceil_div", "pieces", "workers"]

PANEL = 16  # columns of a packed panel: TILE_PANEL of tile.h
ROWS = 6  # rows of a register tile


@dataclass(frozen=True)
class Tuning:
    """What the cutting aims at. Bytes are of one core's caches; the defaults fit every x86-64 server since 2017.

    `item_flops` is the least work worth a work-item of its own (a group costs PoCL some 0.2 us), `items_per_core`
    how many pieces a core should get, so that an unlucky one does not keep the others waiting. `rows_copied`: of a
    block that a work-item copies, of `RUN` elements each (see matrix.py). `winograd_cache`
    is what a block of transformed tiles may take of the second cache, which the filter passes through as well.
    """

    first_cache: int = 32 << 10
    second_cache: int = 1 << 20
    item_flops: int = 60_000
    items_per_core: int = 4
    rows_per_item: int = 132
    rows_copied: int = 24
    winograd_cache: int = 320 << 10


TUNING = Tuning()


def ceil_div(a: int, b: int) -> int:
    """`a` / `b`, rounded up."""
    return -(-a // b)


def workers(facts: DeviceFacts) -> int:
    """Cores to keep busy; 8 when the device does not say."""
    return facts.compute_units or 8


def pieces(count: int, flops_each: float, facts: DeviceFacts, tuning: Tuning = TUNING) -> int:
    """How many of `count` equal units one work-item should take: few enough to spread, enough to be worth it."""
    worth = max(1, round(tuning.item_flops / max(flops_each, 1)))
    spread = ceil_div(count, workers(facts) * tuning.items_per_core)
    return max(1, min(count, min(worth, spread)))
