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
from webnn_cl.opencl.timeline import Timeline

__all__ = ["PendingRead", "read", "write", "zero"]

Array = np.ndarray[Any, np.dtype[Any]]


def zero(timeline: Timeline, storage: Storage) -> None:
    """Enqueue filling new memory with zero bytes."""

    def run(queue: Any) -> Any:
        return (cl.enqueue_fill_buffer(queue, storage.buffer, np.uint8(0), 0, storage.buffer.size),)

    timeline.submit((), (storage,), run)


def write(timeline: Timeline, storage: Storage, data: Array) -> Callable[[Any], Any]:
    """Copy `data` now; what is returned brings it into the tensor when the queue gets to it.

    The copy is made by the host at once, into memory of the device. Memory that was never handed out is then
    replaced by it, which costs nothing more: work already queued keeps the old memory.
    """
    fresh = allocate_from(timeline.cl_context, data)

    def replace(queue: Any) -> None:
        timeline.retire(storage.nbytes)
        storage.buffer = fresh

    def copy(queue: Any) -> Any:
        return (cl.enqueue_copy(queue, storage.buffer, fresh, byte_count=data.nbytes),)

    return copy if storage.pinned else replace


class PendingRead:
    """One read under way. It owns the host memory that the device writes to, and its event, until that is done."""

    __slots__ = ("__weakref__", "_timeline", "deliver", "event", "failure", "future", "operation", "staging")

    def __init__(self, timeline: Timeline, nbytes: int, deliver: Callable[[Array], Any]) -> None:
        self._timeline = weakref.ref(timeline)
        self.staging: Array = np.empty(nbytes, np.uint8)
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
        else:
            self.future._try_set_produced(lambda: self.deliver(self.staging))

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
    pending = PendingRead(timeline, nbytes, deliver)

    def run(queue: Any) -> Any:
        # A dropped event of a host copy blocks until the copy is done, so the pending read holds it.
        pending.failure = timeline.failures.get(storage)
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
