"""Large transfers with one copy on devices that share memory with the host: through a map, under an internal hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from webnn_cl.opencl.memory import Storage
from webnn_cl.opencl.order import Hold
from webnn_cl.opencl.timeline import Timeline
from webnn_cl.opencl.transfer import PendingRead, flat_bytes

__all__ = ["InPlace", "read_in_place", "write_in_place"]

# From this many bytes on, mapping a tensor costs less than what it saves: a second copy, or the page faults of fresh
# memory (32 us for a map, 0.1 ms for the copy of 1 MiB, on pip PoCL).
COPIED_TWICE = 1 << 20
REPLACED = 8 << 20
IDLE_SECONDS = 1e-4


class InPlace:
    """A tensor's memory while the host reads or writes it. Made under the lock, when nothing is held or waits."""

    def __init__(self, timeline: Timeline, storage: Storage, writes: bool) -> None:
        self._timeline = timeline
        self.storage = storage
        touched = (storage, *storage.aliases)
        self._hold = Hold(writes=touched) if writes else Hold(reads=touched)
        # Not WRITE_INVALIDATE_REGION: when the device turns out to be busy, the content must stay.
        self._flags = cl.map_flags.WRITE if writes else cl.map_flags.READ
        self.mapped: Any = None
        self.event: Any = None
        timeline.hold(self._hold, self._map, _never)

    def _map(self, queue: Any) -> None:
        self.mapped, self.event = cl.enqueue_map_buffer(
            queue, self.storage.buffer, self._flags, 0, (self.storage.nbytes,), np.uint8, is_blocking=False
        )
        queue.flush()

    def write(self, data: np.ndarray[Any, Any]) -> bool:
        """Copy `data` if the memory is free at once; False, and nothing is changed, when the device is busy."""
        try:
            idle = self._soon()
            if idle:
                np.copyto(self.mapped, flat_bytes(data))
        finally:
            self.end()
        if idle:
            self._timeline.written(self.storage)
        return idle

    def _soon(self) -> bool:
        limit = time.perf_counter() + IDLE_SECONDS
        while self.event.command_execution_status > 0:
            if time.perf_counter() > limit:
                return False
            time.sleep(1e-5)
        return True

    def end(self) -> None:
        """Unmap, and let the timeline go on. Without the lock."""
        timeline = self._timeline
        try:
            with timeline.refusals(), timeline.lock:
                if timeline.lost is None:
                    self.mapped.base.release(timeline.queue)
                    timeline.queue.flush()
        finally:
            timeline.unhold(self._hold)


def write_in_place(timeline: Timeline, storage: Storage) -> InPlace | None:
    """The way to write a large tensor with one copy, even if its memory must stay. Under the lock.

    None when that is impossible, or not worth while. Not on a queue of the user's: unknown work may keep it busy.
    """
    large = storage.nbytes >= (COPIED_TWICE if storage.pinned else REPLACED)
    possible = timeline.facts.unified_memory and timeline.owned and timeline.gate.open
    return InPlace(timeline, storage, writes=True) if large and possible else None


def read_in_place(
    timeline: Timeline, storage: Storage, deliver: Callable[[np.ndarray[Any, Any]], Any]
) -> tuple[PendingRead, InPlace] | None:
    """The way to read a large tensor into the caller's memory with one copy, for callers that wait. Under the lock.

    The caller waits for the event, completes the read and ends the map; None when that is impossible, or not worth
    while.
    """
    possible = timeline.facts.unified_memory and timeline.gate.open and not timeline.failures
    if storage.nbytes < COPIED_TWICE or not possible:
        return None
    in_place = InPlace(timeline, storage, writes=False)
    pending = PendingRead(timeline, in_place.mapped, deliver)
    pending.event = in_place.event
    return pending, in_place


def _never(error: BaseException) -> None:
    """A hold at an open gate is granted at once, or raises."""
