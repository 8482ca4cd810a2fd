"""A tensor's way to a queue of another pyopencl.Context and back: a copy each way through host memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from webnn_cl.errors import OperationError
from webnn_cl.opencl.memory import Storage, allocate_from
from webnn_cl.opencl.timeline import Timeline

if TYPE_CHECKING:
    from webnn_cl.interop.lease import Grip

__all__ = ["Detour"]

Done = Callable[[BaseException | None], None]


class Detour:
    """A copy of a tensor in another context, `buffer`, that is copied back when the lease ends."""

    def __init__(self, timeline: Timeline, storage: Storage, queue: Any) -> None:
        self.timeline = timeline
        self.storage = storage
        self.queue = queue
        self.buffer: Any = None
        self.host: np.ndarray[Any, Any] = np.empty(storage.nbytes, np.uint8)

    def out(self, done: Done) -> None:
        """Enqueue reading the tensor (under the lock); ``done`` is called once the copy is there."""

        def arrived(error: BaseException | None) -> None:
            if error is not None:
                done(self.timeline.lose_by(error))
                return
            try:
                self.buffer = allocate_from(self.queue.context, self.host)
            except OperationError as refused:
                done(refused)
            else:
                done(None)

        event = cl.enqueue_copy(self.timeline.queue, self.host, self.storage.buffer, is_blocking=False)
        self.timeline.queue.flush()
        self.timeline.completion.watch(event, arrived)

    def back(self, events: list[Any], grip: Grip) -> None:
        """Copy back what the user's queue leaves behind, then end the lease; nothing is waited for here."""
        if self.queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
            cl.enqueue_barrier(self.queue)
        event = cl.enqueue_copy(self.queue, self.host, self.buffer, is_blocking=False, wait_for=events or None)
        self.queue.flush()
        # The user has let go: what waits for the tensor waits for this copy, not for a thread.
        grip.hold.owner = None
        self.timeline.completion.watch(event, lambda error: self._returned(error, grip))

    def _returned(self, error: BaseException | None, grip: Grip) -> None:
        timeline = self.timeline
        try:
            if error is not None:
                raise OperationError(f"a lease could not be copied back from {self.queue.device.name}: {error}")
            with timeline.lock:
                if timeline.lost is None:
                    fresh = allocate_from(timeline.cl_context, self.host)
                    cl.enqueue_copy(timeline.queue, self.storage.buffer, fresh, byte_count=self.storage.nbytes)
                    timeline.queue.flush()
        except cl.Error as refused:
            timeline.keep_error(timeline.failure(refused), (self.storage,))
        except OperationError as refused:
            timeline.keep_error(refused, (self.storage,))
        grip.give_back()
