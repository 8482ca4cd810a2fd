"""Leases: a tensor's own memory in the hands of user-written OpenCL kernels, in order and without waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from webnn_cl.dtypes import dtype_of
from webnn_cl.errors import InvalidStateError, MLTypeError, OperationError
from webnn_cl.future import MLFuture
from webnn_cl.interop.detour import Detour
from webnn_cl.opencl import fork
from webnn_cl.opencl.memory import Storage
from webnn_cl.opencl.order import Hold, Operation
from webnn_cl.opencl.timeline import Timeline

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.tensor import MLTensor

__all__ = ["Grip", "Lease", "LeaseRequest"]


class Count:
    """A number that outlives the lease it belongs to."""

    value = 0


class Grip:
    """What a lease holds on to: the hold on the timeline, and how it ends. It knows nothing of the lease object.

    A lease that is dropped without being returned is returned by the completion thread, for which `give_back` is
    callable without the lease.
    """

    def __init__(self, timeline: Timeline, storage: Storage, owner: int | None) -> None:
        self.timeline = timeline
        self.storage = storage
        self.hold = Hold(writes=(storage, *storage.aliases), owner=owner)
        self.returned = False
        timeline.completion.start()  # so that `drop` need not
        with timeline.lock:
            if storage.leased:
                raise InvalidStateError("the tensor is leased already; return that lease first")
            storage.leased = True

    def give_back(self) -> None:
        """End the hold: the tensor is the timeline's again. Repeatable."""
        if not self.returned:
            self.returned = True
            self.storage.leased = False
            self.timeline.written(self.storage)
            self.timeline.unhold(self.hold)
            # A lease object that is kept must not keep the tensor's memory.
            self.hold, self.storage = Hold(), Storage(None, 0)

    def note(self, error: BaseException | None) -> None:
        """Keep the failure of the user's work, if it failed."""
        if error is not None:
            failure = OperationError(f"work on a leased tensor failed: {error}")
            self.timeline.keep_error(failure, (self.storage,))

    def drop(self, before: Callable[[], None] | None = None) -> None:
        """Give back from wherever the garbage collector runs: no lock may be taken there, so a thread does it."""

        def give_back(_: BaseException | None) -> None:
            if before is not None:
                before()
            self.give_back()

        if not self.returned:
            self.hold.owner = None
            self.timeline.completion.watch(None, give_back)


class Lease:
    """Exclusive use of a tensor's memory, from ``context.export_tensor`` until the block ends or `release`.

    The memory is the tensor's elements, packed row-major: ``float`` for float32, ``half`` for float16, ``int`` and
    ``uint``, ``long`` and ``ulong``, ``char`` and ``uchar`` for the integers of that size. Every attribute but
    `tensor` and `zero_copy` raises InvalidStateError once the lease is returned, or the tensor or context has ended.
    """

    def __init__(self, tensor: MLTensor, grip: Grip, queue: Any, detour: Detour | None) -> None:
        self._tensor = tensor
        self._grip = grip
        self._queue = queue
        self._detour = detour
        self._zero_copy = detour is None
        self._ready: Any = None
        self._buffer: Any = None
        self._array: Any = None
        self._events: list[Any] = []
        self._capsules = Count()

    def __del__(self) -> None:
        self._grip.drop()

    @property
    def tensor(self) -> MLTensor:
        """The tensor that is leased."""
        return self._tensor

    @property
    def zero_copy(self) -> bool:
        """True when `buffer` is the tensor's own memory: always within one pyopencl.Context."""
        return self._zero_copy

    @property
    def buffer(self) -> Any:
        """The pyopencl.Buffer of the tensor's bytes; the same cl_mem each time (a copy when not `zero_copy`)."""
        self._check_open()
        if self._buffer is None:
            # A handle of its own: what the user releases is not taken from the tensor.
            own = self._grip.storage.buffer if self._detour is None else self._detour.buffer
            self._buffer = cl.Buffer.from_int_ptr(own.int_ptr, True)
        return self._buffer

    @property
    def array(self) -> Any:
        """A pyopencl.array.Array over `buffer`, on `queue`."""
        self._check_open()
        if self._array is None:
            from pyopencl.array import Array

            dtype = dtype_of(self._tensor.data_type).numpy
            self._array = Array(self._queue, self._tensor.shape, dtype, data=self.buffer)
        return self._array

    @property
    def queue(self) -> Any:
        """The queue to enqueue on: what is enqueued here runs after all earlier work on the tensor."""
        self._check_open()
        return self._queue

    @property
    def ready(self) -> Any:
        """For kernels on yet another queue of the same pyopencl.Context: the event to wait for, flushed already.

        None on the context's own queue, where order needs no event.
        """
        self._check_open()
        return self._ready

    def done(self, event: Any) -> None:
        """Tell which event ends the user's work on another queue (flushed here); may be called several times."""
        self._check_open()
        if not isinstance(event, cl.Event):
            raise MLTypeError(f"done: event: got {event!r}; allowed: a pyopencl.Event")
        if not _within(event, self._queue.context):
            raise MLTypeError("done: event: got an event of another pyopencl.Context than the lease's queue")
        if (queue := _queue_of(event)) is not None:
            with self._grip.timeline.refusals():
                queue.flush()
        self._events.append(event)

    def release(self) -> None:
        """Return the tensor: work that waited for it is enqueued after the user's. Repeatable.

        InvalidStateError, after the tensor is returned all the same, when a DLPack capsule of it is still alive.
        """
        alive = self._capsules.value
        self._return()
        if alive:
            raise InvalidStateError(
                f"the lease was returned while {alive} DLPack view(s) of its memory were alive; drop them first"
            )

    def _return(self) -> None:
        grip = self._grip
        if grip.returned:
            return
        timeline = grip.timeline
        if timeline.lost is not None or fork.forked:
            grip.returned = True
            return
        with timeline.refusals():
            try:
                returned_later = self._hand_back()
            except BaseException:
                grip.give_back()
                raise
        if not returned_later:
            grip.give_back()
        self._buffer = self._array = self._ready = self._detour = None
        self._events = []

    def _hand_back(self) -> bool:
        """Put the user's work before what comes next; True when the completion thread gives the tensor back."""
        grip, timeline = self._grip, self._grip.timeline
        if self._detour is not None:
            self._detour.back(self._events, grip)
            return True
        events = list(self._events)
        if self._queue != timeline.queue:
            events.append(cl.enqueue_marker(self._queue))
            self._queue.flush()
        if not all(same_device(event, timeline) for event in events):
            # The user has let go: what waits for the tensor waits for these events, not for a thread.
            grip.hold.owner = None
            for event in events:
                timeline.completion.watch(event, grip.note)
            timeline.completion.watch(None, lambda _: grip.give_back())
            return True
        with timeline.lock:
            if events:
                cl.enqueue_barrier(timeline.queue, wait_for=events)
            timeline.queue.flush()
        return False

    def _check_open(self) -> None:
        if self._grip.returned:
            raise InvalidStateError("the lease was returned")
        if self._tensor._destroyed:
            raise InvalidStateError(f"the lease ended: {self._tensor._destroyed}")
        fork.check()

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        """A DLPack capsule of the cl_mem (kDLOpenCL), for use within one pyopencl.Context while the lease is open."""
        from webnn_cl.interop import dlpack

        self._check_open()
        return dlpack.export_lease(self, options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """(kDLOpenCL, index of the device in its pyopencl.Context)."""
        from webnn_cl.interop import dlpack

        self._check_open()
        return dlpack.opencl_device(self._queue)

    def __enter__(self) -> Lease:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.release()
        else:
            self._return()

    def __repr__(self) -> str:
        return f"<Lease of {self._tensor!r}{', returned' if self._grip.returned else ''}>"


class LeaseRequest:
    """A lease on its way: granted by the timeline once all earlier work on the tensor is enqueued, then delivered.

    Making one checks the arguments, and raises at once.
    """

    def __init__(self, context: MLContext, tensor: MLTensor, queue: Any) -> None:
        check_lease(context, tensor, queue)
        timeline = context._timeline
        timeline.throttle()
        self.tensor = tensor
        self.queue = queue if queue is not None else timeline.queue
        self.operation: Operation | None = None
        self.future: MLFuture[Lease] = MLFuture(lambda: timeline.blocked_message(self.operation))
        with timeline.lock:
            tensor._check_usable(context, "export_tensor")
            self.grip = Grip(timeline, tensor._storage, threading.get_ident())
            try:
                self.operation = timeline.hold(self.grip.hold, self._granted, self._fail)
            except BaseException:
                self.grip.storage.leased = False
                raise

    def wait(self) -> Lease:
        """The lease; when waiting for it fails, the request is over."""
        try:
            return self.future.result()
        except BaseException:
            if self.grip.timeline.cancel(self.operation):
                self.grip.give_back()
            raise

    def _granted(self, queue: Any) -> None:
        """Under the lock: the tensor is ours."""
        timeline, user_queue = self.grip.timeline, self.queue
        if user_queue == queue:
            self._deliver(None)
        elif user_queue.context == timeline.cl_context:
            ready = cl.enqueue_marker(queue)
            queue.flush()
            if user_queue.device == queue.device:
                cl.enqueue_barrier(user_queue, wait_for=[ready])
                self._deliver(ready)
            else:
                timeline.completion.watch(ready, lambda error: self._is_ready(ready, error))
        else:
            detour = Detour(timeline, self.grip.storage, user_queue)
            detour.out(lambda error: self._arrived(detour, error))

    def _is_ready(self, ready: Any, error: BaseException | None) -> None:
        if error is None:
            self._deliver(ready)
        else:
            self._fail(self.grip.timeline.lose_by(error))

    def _arrived(self, detour: Detour, error: BaseException | None) -> None:
        if error is None:
            self._deliver(None, detour)
        else:
            self._fail(error)

    def _deliver(self, ready: Any, detour: Detour | None = None) -> None:
        lease = Lease(self.tensor, self.grip, self.queue, detour)
        lease._ready = ready
        self.future._try_set_result(lease)

    def _fail(self, error: BaseException) -> None:
        self.grip.give_back()
        self.future._try_set_exception(error)


def check_lease(context: MLContext, tensor: Any, queue: Any) -> None:
    """MLTypeError unless `tensor` is a living exportable tensor of `context`, and `queue` a queue or None."""
    where = "export_tensor"
    context._check_alive()
    context._check_tensor(tensor, where)
    if not tensor.exportable:
        raise MLTypeError(f"{where}: tensor: got one created without exportable=True")
    if queue is not None and not isinstance(queue, cl.CommandQueue):
        raise MLTypeError(f"{where}: queue: got {queue!r}; allowed: a pyopencl.CommandQueue, or None")


def same_device(event: Any, timeline: Timeline) -> bool:
    """Whether the timeline's queue may wait for `event`.

    Events of another device are waited for by the host: PoCL 3.0 reports commands as done that wait for such an event.
    """
    queue = _queue_of(event)
    return queue is not None and bool(queue.device == timeline.queue.device)


def _within(event: Any, context: Any) -> bool:
    """Whether an event is of this pyopencl.Context; Intel's runtime may have lost the context of a dropped queue."""
    try:
        return bool(event.context == context)
    except cl.Error:
        return False


def _queue_of(event: Any) -> Any:
    """The queue of an event; None for events without one (user events)."""
    try:
        return event.command_queue
    except cl.Error:
        return None
