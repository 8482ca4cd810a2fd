"""copy_tensor: from tensor to tensor, of one context or of two, in order on both timelines."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from webnn_cl.errors import MLTypeError, OperationError, argument_error
from webnn_cl.opencl import transfer
from webnn_cl.opencl.memory import Storage
from webnn_cl.opencl.order import Hold, Operation
from webnn_cl.opencl.timeline import Timeline
from webnn_cl.tensor import MLTensor

if TYPE_CHECKING:
    from webnn_cl.context import MLContext

__all__ = ["copy_tensor"]

# Two copies in opposite directions must not take their two places in line in turns.
_submission = threading.Lock()


def copy_tensor(context: MLContext, source: Any, destination: Any) -> None:
    """See ``MLContext.copy_tensor``."""
    _check(context, source, destination)
    target, origin = context._timeline, source._context._timeline
    target.throttle()
    if origin is target:
        with target.lock:
            source._check_usable(context, "copy_tensor: source")
            destination._check_usable(context, "copy_tensor: destination")
            _copy_within(target, source._storage, destination._storage)
        return
    origin.throttle()
    kind = _SharedContextCopy if origin.cl_context == target.cl_context else _HostCopy
    with _submission:
        copy = kind(origin, source._storage, target, destination._storage)
        copy.submit()
    origin.run_afterwards()
    target.run_afterwards()


def _check(context: MLContext, source: Any, destination: Any) -> None:
    where = "copy_tensor"
    context._check_alive()
    context._check_tensor(destination, f"{where}: destination")
    if not isinstance(source, MLTensor):
        raise argument_error(where, "source", repr(source), "an MLTensor")
    source._check_usable(source._context, f"{where}: source")
    if source.constant or destination.constant:
        raise argument_error(where, "tensors", "a constant tensor", "tensors made by create_tensor or import_buffer")
    if source is destination or destination._storage in source._storage.aliases:
        raise argument_error(where, "destination", "the memory of the source", "another tensor")
    if (source.shape, source.data_type) != (destination.shape, destination.data_type):
        raise argument_error(where, "destination", f"{destination._desc}", f"{source._desc}, as the source")
    if destination._storage.read_only:
        raise MLTypeError(f"{where}: destination: got a tensor over read-only memory")


def _copy_within(timeline: Timeline, source: Storage, destination: Storage) -> None:
    def run(queue: Any) -> Any:
        return (cl.enqueue_copy(queue, destination.buffer, source.buffer, byte_count=source.nbytes),)

    timeline.submit_locked((source,), (destination,), run)


class _Copy:
    """A copy between two timelines. It holds the destination from its place in line until the bytes are on their way.

    `step` is called without any lock, whenever one side may have become ready.
    """

    def __init__(self, origin: Timeline, source: Storage, target: Timeline, destination: Storage) -> None:
        self.origin, self.source = origin, source
        self.target, self.destination = target, destination
        self.hold = Hold(writes=(destination, *destination.aliases))
        self.source_ready = self.destination_ready = self.done = False
        self._once = threading.Lock()

    def submit(self) -> None:
        """Take a place in line on both timelines."""
        self.target.hold(self.hold, self._destination_granted, self._failed)
        try:
            waiting = self.submit_source()
        except BaseException:
            self.done = True
            self.target.unhold(self.hold)
            raise
        if waiting is not None:
            self.hold.behind = (self.origin.gate, waiting)

    def step(self) -> None:
        """Move the bytes once both sides are ready, once."""
        with self._once:
            if self.done or not (self.source_ready and self.destination_ready):
                return
            self.done = True
        try:
            self.move()
        except (cl.Error, OperationError) as error:
            failure = error if isinstance(error, OperationError) else self.target.failure(error)
            self.target.keep_error(failure, (self.destination,))
            self.end()

    def submit_source(self) -> Operation | None:
        """Take the source's place in line; sets `source_ready` when its turn has come. The operation that waits."""
        raise AssertionError("subclasses say how")

    def move(self) -> None:
        """Enqueue what brings the bytes into the destination, and see to it that `end` is called."""
        raise AssertionError("subclasses say how")

    def end(self) -> None:
        """Let both timelines go on."""
        self.hold.behind = None
        self.target.unhold(self.hold)

    def _destination_granted(self, queue: Any) -> None:
        self.destination_ready = True
        self.target.afterwards(self.step)

    def _failed(self, error: BaseException) -> None:
        """One side will never be ready: let the other go on."""
        with self._once:
            if self.done:
                return
            self.done = True
        failure = OperationError(f"copy_tensor: the copy did not happen: {error}")
        self.target.keep_error(failure, (self.destination,))
        self.end()


class _SharedContextCopy(_Copy):
    """Within one pyopencl.Context: device to device.

    Two queues of one device are ordered by events. Between devices the completion threads see to the order: PoCL 3.0
    reports commands as done that wait for an event of its other device.
    """

    def submit_source(self) -> Operation | None:
        self.by_events = self.origin.queue.device == self.target.queue.device
        self.source_hold = Hold(reads=(self.source, *self.source.aliases))
        return self.origin.hold(self.source_hold, self._source_granted, self._failed)

    def _source_granted(self, queue: Any) -> None:
        self.before = cl.enqueue_marker(queue)
        queue.flush()
        if self.by_events:
            self.source_ready = True
            self.origin.afterwards(self.step)
        else:
            self.origin.completion.watch(self.before, self._source_done)

    def _source_done(self, error: BaseException | None) -> None:
        if error is not None:
            self._failed(self.origin.lose_by(error))
            return
        self.source_ready = True
        self.step()

    def move(self) -> None:
        with self.target.lock:
            queue = self.target.queue
            event = cl.enqueue_copy(
                queue, self.destination.buffer, self.source.buffer, byte_count=self.source.nbytes,
                wait_for=[self.before] if self.by_events else None,
            )  # fmt: skip
            queue.flush()
        if not self.by_events:
            self.target.completion.watch(event, self._copied)
            return
        with self.origin.lock:
            cl.enqueue_barrier(self.origin.queue, wait_for=[event])
            self.origin.queue.flush()
        self.end()

    def _copied(self, error: BaseException | None) -> None:
        if error is not None:
            self.target.lose_by(error)
        self.end()

    def end(self) -> None:
        super().end()
        self.origin.unhold(self.source_hold)


class _HostCopy(_Copy):
    """Between two pyopencl.Contexts: read on the one, written on the other, through host memory."""

    def submit_source(self) -> Operation | None:
        self.host: np.ndarray[Any, Any] = np.empty(self.source.nbytes, np.uint8)
        return self.origin.submit((self.source,), (), self._read, self._failed)

    def _read(self, queue: Any) -> None:
        event = cl.enqueue_copy(queue, self.host, self.source.buffer, is_blocking=False)
        self.origin.completion.watch(event, self._arrived)

    def _arrived(self, error: BaseException | None) -> None:
        if error is not None:
            self._failed(self.origin.lose_by(error))
            return
        self.source_ready = True
        self.step()

    def move(self) -> None:
        run = transfer.write(self.target, self.destination, self.host)
        with self.target.lock:
            if self.target.lost is None:
                run(self.target.queue)
                self.target.queue.flush()
        self.end()


