"""map_tensor: a lease to the host, seen as a numpy array."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from webnn_cl.dtypes import dtype_of
from webnn_cl.errors import InvalidStateError, MLTypeError
from webnn_cl.future import MLFuture
from webnn_cl.interop.lease import Grip
from webnn_cl.opencl import fork
from webnn_cl.opencl.memory import allocate_from
from webnn_cl.opencl.order import Operation
from webnn_cl.opencl.staging import Slot

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.tensor import MLTensor

__all__ = ["HostLease", "map_tensor"]

Array = np.ndarray[Any, np.dtype[Any]]


class _Memory:
    """What the views of mapped memory stand on; it outlives the lease if a view does, so no view ever dangles."""

    def __init__(self, mapped: Array, owner: object, writable: bool) -> None:
        self.mapped = mapped
        self.map: Any = mapped.base  # pyopencl's
        self.owner = owner
        address, _ = mapped.__array_interface__["data"]
        self.__array_interface__ = {**mapped.__array_interface__, "data": (address, not writable)}


class HostLease:
    """Exclusive use of a tensor's memory by the host, as a numpy array, until the block ends or `release`.

    ``with context.map_tensor(t) as view:`` - where the device shares memory with the host, `view` is the tensor's own
    memory. It can be written when the tensor is exportable or writable. Arrays and DLPack consumers made from it
    must be gone when the lease ends.
    """

    def __init__(self, tensor: MLTensor, grip: Grip, memory: _Memory, zero_copy: bool, writable: bool) -> None:
        self._tensor = tensor
        self._grip = grip
        self._memory: _Memory | None = memory
        self._zero_copy = zero_copy
        self._writable = writable
        # Arrays made from `_view` stand on `_root`, so that counting its references tells whether one is left.
        self._root: Array | None = np.asarray(memory)
        self._view: Array | None = self._root.view(dtype_of(tensor.data_type).numpy).reshape(tensor.shape)
        self._clean = self._references()

    def __del__(self) -> None:
        memory, queue = self._memory, self._grip.timeline.queue
        if memory is not None and self._zero_copy:
            self._grip.drop(lambda: memory.map.release(queue))
        else:
            self._grip.drop()

    @property
    def tensor(self) -> MLTensor:
        """The tensor that is leased."""
        return self._tensor

    @property
    def zero_copy(self) -> bool:
        """True when the view is the tensor's own memory."""
        return self._zero_copy

    @property
    def array(self) -> Array:
        """The view; InvalidStateError once the lease is returned, or the tensor or context has ended."""
        if self._view is None or self._grip.returned:
            raise InvalidStateError("the lease was returned")
        if self._tensor._destroyed:
            raise InvalidStateError(f"the lease ended: {self._tensor._destroyed}")
        return self._view

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule of the host memory (kDLCPU), for use while the lease is open; `array` has the same."""
        return self.array[...].__dlpack__(**options)  # of an array of its own, which release() then finds alive

    def __dlpack_device__(self) -> tuple[int, int]:
        """(kDLCPU, 0)."""
        kind, index = self.array.__dlpack_device__()
        return int(kind), int(index)

    def release(self) -> None:
        """Return the tensor. Repeatable.

        InvalidStateError, after the tensor is returned all the same, when arrays or DLPack consumers made from the view
        are still alive (one variable may still hold the view itself).
        """
        root, view = self._references() if self._view is not None else self._clean
        self._return()
        if root > self._clean[0] or view > self._clean[1] + 1:
            raise InvalidStateError(
                "the lease was returned while arrays over the tensor's memory were alive; delete or copy them first"
            )

    def _references(self) -> tuple[int, int]:
        return sys.getrefcount(self._root), sys.getrefcount(self._view)

    def _return(self) -> None:
        grip, memory = self._grip, self._memory
        if grip.returned or memory is None:
            return
        if self._view is not None:
            self._view.flags.writeable = False
        self._view = self._root = self._memory = None
        timeline = grip.timeline
        if timeline.lost is not None or fork.forked:
            grip.returned = True
            return
        try:
            with timeline.lock:
                if self._zero_copy:
                    memory.map.release(timeline.queue)
                elif self._writable:
                    fresh = allocate_from(timeline.cl_context, memory.mapped)
                    cl.enqueue_copy(timeline.queue, grip.storage.buffer, fresh, byte_count=grip.storage.nbytes)
                timeline.queue.flush()
        except cl.Error as error:
            raise timeline.failure(error) from error
        finally:
            grip.give_back()

    def __enter__(self) -> Array:
        return self.array

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.release()
        else:
            self._return()

    def __repr__(self) -> str:
        return f"<HostLease of {self._tensor!r}{', returned' if self._grip.returned else ''}>"


def map_tensor(context: MLContext, tensor: MLTensor) -> HostLease:
    """Wait for all earlier work on `tensor` and lease it to the host; see ``MLContext.map_tensor``."""
    where = "map_tensor"
    context._check_alive()
    context._check_tensor(tensor, where)
    if not (tensor.exportable or tensor.readable):
        raise MLTypeError(f"{where}: tensor: got one created with neither exportable=True nor readable=True")
    timeline = context._timeline
    timeline.throttle()
    writable = (tensor.exportable or tensor.writable) and not tensor._storage.read_only
    zero_copy = context._facts.unified_memory
    request: _MapRequest = _MapRequest(context, tensor, zero_copy, writable)
    request.wait()
    memory = _Memory(request.mapped, (request.grip.storage.buffer, request.slot), writable)
    return HostLease(tensor, request.grip, memory, zero_copy, writable)


class _MapRequest:
    """A map on its way; the future delivers the event after which `mapped` may be touched."""

    operation: Operation | None = None
    slot: Slot | None = None  # the pinned memory of a copy

    def __init__(self, context: MLContext, tensor: MLTensor, zero_copy: bool, writable: bool) -> None:
        timeline = context._timeline
        self.zero_copy = zero_copy
        self.writable = writable
        self.mapped: Array = np.empty(0, np.uint8)
        self.future: MLFuture[Any] = MLFuture(lambda: timeline.blocked_message(self.operation))
        with timeline.lock:
            tensor._check_usable(context, "map_tensor")
            self.grip = Grip(timeline, tensor._storage, threading.get_ident())
            try:
                self.operation = timeline.hold(self.grip.hold, self._granted, self._fail)
            except BaseException:
                self.grip.storage.leased = False
                raise

    def wait(self) -> None:
        """Wait until `mapped` may be touched; when that fails, the request is over."""
        timeline = self.grip.timeline
        try:
            self.future.result().wait()
        except cl.Error as error:
            self.grip.give_back()
            raise timeline.lose_by(error) from error
        except BaseException:
            if timeline.cancel(self.operation):
                self.grip.give_back()
            raise

    def _granted(self, queue: Any) -> None:
        storage = self.grip.storage
        if self.zero_copy:
            flags = cl.map_flags.READ | (cl.map_flags.WRITE if self.writable else 0)
            self.mapped, event = cl.enqueue_map_buffer(
                queue, storage.buffer, flags, 0, (storage.nbytes,), np.uint8, is_blocking=False
            )
        else:
            self.slot = self.grip.timeline.staging.alone(storage.nbytes)
            self.mapped = self.slot.array
            event = cl.enqueue_copy(queue, self.mapped, storage.buffer, is_blocking=False)
        queue.flush()
        self.future._try_set_result(event)

    def _fail(self, error: BaseException) -> None:
        self.grip.give_back()
        self.future._try_set_exception(error)
