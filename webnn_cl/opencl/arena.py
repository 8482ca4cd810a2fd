"""The arena: memory for intermediates that all graphs of a context share, since their queue is in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyopencl as cl

from webnn_cl.opencl.memory import allocate

if TYPE_CHECKING:
    from webnn_cl.compiler.plan_memory import Slot

__all__ = ["Arena"]


class Arena:
    """Pages of device memory that grow to the largest need of any graph; `generation` changes when one grew."""

    def __init__(self, context: cl.Context) -> None:
        self._context = context
        self._sizes: list[int] = []
        self._pages: list[cl.Buffer | None] = []
        self._regions: dict[tuple[int, int, int], cl.Buffer] = {}
        self.generation = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all pages."""
        return sum(self._sizes)

    def reserve(self, pages: Sequence[int]) -> None:
        """Make sure that page k holds at least ``pages[k]`` bytes; memory is allocated at its first use."""
        self._sizes += [0] * (len(pages) - len(self._sizes))
        self._pages += [None] * (len(pages) - len(self._pages))
        for page, nbytes in enumerate(pages):
            if nbytes > self._sizes[page]:
                self._sizes[page] = nbytes
                self._pages[page] = None
                self._regions = {k: v for k, v in self._regions.items() if k[0] != page}
                self.generation += 1

    def region(self, slot: Slot) -> cl.Buffer:
        """The sub-buffer of `slot`."""
        key = (slot.page, slot.offset, slot.nbytes)
        found = self._regions.get(key)
        if found is None:
            page = self._pages[slot.page]
            if page is None:
                page = self._pages[slot.page] = allocate(self._context, self._sizes[slot.page])
            found = self._regions[key] = page.get_sub_region(slot.offset, slot.nbytes)
        return found

    def release(self) -> None:
        """Drop all memory; work already queued keeps what it uses."""
        self._regions.clear()
        self._pages = [None] * len(self._pages)
        self.generation += 1
