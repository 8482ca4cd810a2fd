"""Moving bytes between the host and tensors: writes that copy at the call, reads that arrive later."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from webnn_cl.errors import MLError
from webnn_cl.future import MLFuture
from webnn_cl.opencl.memory import Storage, allocate_from
from webnn_cl.opencl.order import Operation
from webnn_cl.opencl.staging import Slot
from webnn_cl.opencl.timeline import Timeline

__all__ = ["PendingRead", "read", "wait_here", "write", "zero"]

Array = np.ndarray[Any, np.dtype[Any]]


def zero(timeline: Timeline, storage: Storage) -> None:
    """Enqueue filling new memory with zero bytes."""

    def run(queue: Any) -> Any:
        return (cl.enqueue_fill_buffer(queue, storage.buffer, np.uint8(0), 0, storage.buffer.size),)

    timeline.submit((), (storage,), run)


def write(timeline: Timeline, storage: Storage, data: Array) -> Callable[[Any], Any]:
    """Copy `data` now; what is returned brings it into the tensor when the queue gets to it.

    Where the device shares memory with the host, the host makes the copy into device memory at once. Memory that was
    never handed out is then replaced by it, which costs nothing more: work already queued keeps the old memory.
    Elsewhere the copy is made into pinned memory.
    """
    if not timeline.facts.unified_memory:
        return _staged(timeline, storage, data)
    fresh = allocate_from(timeline.cl_context, data)

    def replace(queue: Any) -> None:
        timeline.retire(storage.nbytes)
        storage.buffer = fresh

    def copy(queue: Any) -> Any:
        return (cl.enqueue_copy(queue, storage.buffer, fresh, byte_count=data.nbytes),)

    return copy if storage.pinned else replace


def _staged(timeline: Timeline, storage: Storage, data: Array) -> Callable[[Any], Any]:
    slot = timeline.staging.take(data.nbytes)
    np.copyto(slot.array, flat_bytes(data))

    def copy(queue: Any) -> None:
        slot.event = cl.enqueue_copy(queue, storage.buffer, slot.array, is_blocking=False)
        slot.free()
        timeline.retire(data.nbytes)

    return copy


def flat_bytes(data: Array) -> Array:
    """`data` (contiguous) as 1-D bytes, without a copy."""
    return data.reshape(-1).view(np.uint8)


class PendingRead:
    """One read under way. It owns the host memory that the device writes to, and its event, until that is done."""

    __slots__ = ("__weakref__", "_timeline", "deliver", "event", "failure", "future", "operation", "slot", "staging")

    def __init__(self, timeline: Timeline, staging: Array | Slot, deliver: Callable[[Array], Any]) -> None:
        self._timeline = weakref.ref(timeline)
        self.slot = staging if isinstance(staging, Slot) else None
        self.staging: Array = staging.array if isinstance(staging, Slot) else staging
        self.deliver = deliver
        self.event: Any = None
        self.operation: Operation | None = None
        self.failure: BaseException | None = None  # of the work that should have written the tensor
        self.future: MLFuture[Any] = MLFuture(self._blocked)

    def _blocked(self) -> str | None:
        timeline = self._timeline()
        return None if timeline is None else timeline.blocked_message(self.operation)

    def complete(self, error: BaseException | None = None) -> None:
        """Settle the future: with the data, or with the failure that the event reported."""
        self.event = None
        if error is not None:
            timeline = self._timeline()
            failure: BaseException = timeline.lose_by(error) if timeline is not None else error
            self.future._try_set_exception(failure)
        elif self.failure is not None:
            self.future._try_set_exception(self.failure)
        elif self.slot is None:
            self.future._try_set_produced(lambda: self.deliver(self.staging))
        else:
            data = self.slot.data()
            self.future._try_set_produced(lambda: self.deliver(data))
        if self.slot is not None:
            self.slot.free()

    def result_or_abandon(self, timeout: float | None) -> Any:
        """The value; when waiting for it fails, the read is over, and what it was to fill stays as it is."""
        try:
            return self.future.result(timeout)
        except (TimeoutError, MLError) as error:
            if self.future._try_set_exception(error):
                if (timeline := self._timeline()) is not None:
                    timeline.cancel(self.operation)
                raise
            return self.future.result()

    def reject(self, error: MLError) -> None:
        """Fail right away; the event, watched by the completion thread, keeps the memory alive."""
        self.future._try_set_exception(error)


def read(
    timeline: Timeline, storage: Storage, nbytes: int, deliver: Callable[[Array], Any], watched: bool
) -> PendingRead:
    """Enqueue reading a tensor; ``deliver(bytes)`` makes the value. Under the lock.

    With `watched` the completion thread settles the future; otherwise the caller waits for ``event`` and calls
    ``complete``, unless the read was deferred.
    """
    staging: Array | Slot
    if timeline.facts.unified_memory:
        staging = np.empty(nbytes, np.uint8)
    else:
        staging = timeline.staging.take(nbytes)
    pending = PendingRead(timeline, staging, deliver)

    def run(queue: Any) -> Any:
        # A dropped event of a host copy blocks until the copy is done, so the pending read holds it.
        pending.failure = timeline.failures.get(storage.serial)
        event = pending.event = cl.enqueue_copy(queue, pending.staging, storage.buffer, is_blocking=False)
        if watched or pending.operation is not None:
            timeline.completion.watch(event, pending.complete)
        return None

    pending.operation = timeline.submit_locked((storage,), (), run, pending.future._try_set_exception)
    return pending


def wait_here(pending: PendingRead) -> None:
    """Wait for an unwatched read on this thread and settle it."""
    event = pending.event
    try:
        event.wait()
    except cl.Error as error:
        pending.complete(error)
    else:
        pending.complete()
