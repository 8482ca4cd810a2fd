"""MLContext: one device, one in-order queue, and the tensors and graphs that live on it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.arrays import data_for, described_data
from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.compute import compute, enqueue_graph
from webnn_cl.dispatch import as_before, bind
from webnn_cl.dtypes import normalize_data_type
from webnn_cl.errors import InvalidStateError, MLError, MLTypeError
from webnn_cl.future import MLFuture
from webnn_cl.interop.sharing import SharingMixin
from webnn_cl.opencl import fork, transfer
from webnn_cl.opencl.adopt import Connection, forget_shared
from webnn_cl.opencl.facts import DeviceFacts
from webnn_cl.opencl.in_place import InPlace, read_in_place, write_in_place
from webnn_cl.opencl.loss import DeviceLostError
from webnn_cl.opencl.memory import Storage, allocate, allocate_from
from webnn_cl.opencl.timeline import Timeline
from webnn_cl.ops.base import check_desc, parse_shape
from webnn_cl.ops.limits import max_tensor_bytes, op_support_limits
from webnn_cl.ops.record import MAX_RANK
from webnn_cl.outputs import Target, target_for
from webnn_cl.tensor import MLTensor, check_flags

if TYPE_CHECKING:
    from webnn_cl.builder import MLGraphBuilder
    from webnn_cl.graph import MLGraph
    from webnn_cl.opencl.devices import MLDevice

__all__ = ["MLContext"]

# The specification's element count limit times the largest element: what sizes inside kernels are made for.
_MAX_BYTES = (2**31 - 1) * 8


class MLContext(SharingMixin):
    """A device with its timeline (W3C WebNN, "The MLContext interface"). Made by ``ML.create_context``.

    Calls are checked at once and run in call order, from any thread; only the calls that say so wait for the device.
    ``with`` destroys the context at the end.
    """

    def __init__(self, connection: Connection, power_preference: str, precision: str = "fast") -> None:
        self._device = connection.device
        self._device_reason = connection.reason
        self._power_preference = power_preference
        self._cl = connection.cl_context
        self._cl_device = connection.device.cl_device
        self._facts: DeviceFacts = replace(connection.device.facts, precision=precision)
        self._max_tensor_bytes = max_tensor_bytes(min(self._facts.max_alloc_bytes or _MAX_BYTES, _MAX_BYTES))
        self._lost: MLFuture[str] = MLFuture()
        self._tensors: weakref.WeakSet[MLTensor] = weakref.WeakSet()
        self._graphs: weakref.WeakSet[MLGraph] = weakref.WeakSet()
        self._timeline = Timeline(self._cl, connection.queue, self._facts, _loser(self), connection.owned)

    # What it is ----------------------------------------------------------------------------------------------

    @property
    def device(self) -> MLDevice:
        """The device that everything of this context runs on."""
        return self._device

    @property
    def device_reason(self) -> str:
        """Why that device was chosen, in words."""
        return self._device_reason

    @property
    def power_preference(self) -> str:
        """The preference given to create_context."""
        return self._power_preference

    @property
    def precision(self) -> str:
        """The precision given to create_context: ``"fast"`` or ``"exact"``."""
        return self._facts.precision

    @property
    def accelerated(self) -> bool:
        """Whether the chosen device is something other than a CPU."""
        return not self._facts.is_cpu

    @property
    def lost(self) -> MLFuture[str]:
        """Resolves with a message when the context is lost: destroyed, or its device failed. Never fails."""
        return self._lost

    @property
    def is_lost(self) -> bool:
        """Whether the context is lost."""
        return self._timeline.lost is not None

    @property
    def cl_context(self) -> Any:
        """The pyopencl.Context; contexts on one device share it, unless they were given one of the user's."""
        return self._cl

    @property
    def queue(self) -> Any:
        """The in-order pyopencl.CommandQueue on which everything of this context runs."""
        return self._timeline.queue

    def op_support_limits(self) -> dict[str, Any]:
        """Data types and ranks per operator, and the largest tensor, with the specification's camelCase keys."""
        return op_support_limits(self._max_tensor_bytes)

    # Objects -------------------------------------------------------------------------------------------------

    def create_graph_builder(self) -> MLGraphBuilder:
        """A new MLGraphBuilder for this context; InvalidStateError when the context is lost."""
        from webnn_cl.builder import MLGraphBuilder

        return MLGraphBuilder(self)

    def create_tensor(
        self,
        shape: Sequence[int],
        data_type: object = "float32",
        *,
        readable: bool = False,
        writable: bool = False,
        exportable: bool = False,
    ) -> MLTensor:
        """A tensor of zeros.

        `readable` and `writable` allow read_tensor and write_tensor, `exportable` allows export_tensor. Raises
        MLTypeError for a shape or type that the device can't have, OperationError when memory can't be allocated,
        InvalidStateError when the context is lost.
        """
        desc = self._checked_desc(shape, data_type, "create_tensor")
        flags = {"readable": readable, "writable": writable, "exportable": exportable}
        check_flags(flags, "create_tensor")
        self._check_alive()
        visible = self._facts.unified_memory and any(flags.values())
        # What is handed out must have the tensor's very size.
        buffer = allocate(self._cl, desc.nbytes, visible, exact=exportable)
        storage = Storage(buffer, desc.nbytes, pinned=exportable)
        transfer.zero(self._timeline, storage)
        return self._new_tensor(desc, storage, **flags)

    def create_constant_tensor(
        self, data: object, *, shape: Sequence[int] | None = None, data_type: object = None
    ) -> MLTensor:
        """A constant tensor for ``MLGraphBuilder.constant``; `data` is copied at the call.

        `data` is an array of one of the eight data types, or raw bytes with `shape` and `data_type`. Raises MLTypeError
        when they don't match, OperationError when memory can't be allocated, InvalidStateError on a lost context.
        """
        where = "create_constant_tensor"
        dims = None if shape is None else parse_shape(shape, where)
        desc, array = described_data(data, dims, data_type, where)
        check_desc(desc, where, "tensor", MAX_RANK, self._max_tensor_bytes)
        self._check_alive()
        storage = Storage(allocate_from(self._cl, array, self._facts.unified_memory), desc.nbytes, pinned=True)
        return self._new_tensor(desc, storage, constant=True)

    def _checked_desc(self, shape: Sequence[int], data_type: object, where: str) -> TensorDesc:
        desc = TensorDesc(normalize_data_type(data_type, f"{where}: data_type"), parse_shape(shape, where))
        check_desc(desc, where, "tensor", MAX_RANK, self._max_tensor_bytes)
        return desc

    def _new_tensor(self, desc: TensorDesc, storage: Storage, **flags: bool) -> MLTensor:
        tensor = MLTensor(self, desc, storage, **flags)
        with self._timeline.lock:
            self._check_alive()
            self._tensors.add(tensor)
        return tensor

    # Data ----------------------------------------------------------------------------------------------------

    def write_tensor(self, tensor: MLTensor, data: object) -> None:
        """Set the whole tensor; `data` is copied before this returns, and the device is not waited for.

        `data` is an array of the tensor's type and shape (or 1-D of equal length), or raw bytes of its length.
        Raises MLTypeError for other data, and for a tensor that is destroyed, foreign or not writable.
        """
        where = "write_tensor"
        self._check_tensor(tensor, where)
        if not tensor._writable:
            raise MLTypeError(f"{where}: tensor: got one created without writable=True")
        array = data_for(data, tensor._desc, where)
        timeline = self._timeline
        timeline.throttle()
        with timeline.lock:
            tensor._check_usable(self, where)
            storage = tensor._storage
            in_place = write_in_place(timeline, storage)
        if in_place is not None and in_place.write(array):
            return
        run = transfer.write(timeline, storage, array)
        with timeline.lock:
            tensor._check_usable(self, where)
            timeline.submit_locked((), (storage,), run)

    def read_tensor(self, tensor: MLTensor, out: Any = None, *, timeout: float | None = None) -> Any:
        """Wait for all earlier work on the tensor and return its data.

        `out`, an array or a writable buffer of the tensor's type and shape (or bytes of its length), is filled and
        returned instead of a new array. Raises TimeoutError after `timeout` seconds, MLTypeError for a tensor that is
        destroyed, foreign or not readable, InvalidStateError when the tensor or the context ends meanwhile, or when
        the read would wait for a lease of the calling thread.
        """
        pending, in_place = self._start_read(tensor, out, waits=timeout is None)
        if pending.operation is None and timeout is None:
            try:
                transfer.wait_here(pending)
            finally:
                if in_place is not None:
                    in_place.end()
        return pending.result_or_abandon(timeout)

    def read_tensor_async(self, tensor: MLTensor, out: Any = None) -> MLFuture[Any]:
        """As `read_tensor`, without waiting; every failure arrives through the future.

        `out` is written after the device has finished: on the loop's thread when the future is awaited, else before
        ``done()`` turns true; after a failure never. (It costs a second copy; without `out` there is one.)
        """
        try:
            return self._start_read(tensor, out, waits=False)[0].future
        except MLError as error:
            return MLFuture.rejected(error)

    def _start_read(
        self, tensor: MLTensor, out: Any, waits: bool
    ) -> tuple[transfer.PendingRead, InPlace | None]:
        where = "read_tensor"
        self._check_tensor(tensor, where)
        if not tensor._readable:
            raise MLTypeError(f"{where}: tensor: got one created without readable=True")
        target: Target = target_for(out, tensor._desc, where)
        timeline = self._timeline
        timeline.throttle()
        with timeline.lock:
            tensor._check_usable(self, where)
            mapped = read_in_place(timeline, tensor._storage, target) if waits and out is not None else None
            pending, in_place = mapped or (
                transfer.read(timeline, tensor._storage, tensor.nbytes, target, watched=not waits), None
            )  # fmt: skip
            tensor._pending.add(pending)
        return pending, in_place

    def _check_tensor(self, tensor: object, where: str) -> None:
        fork.check()
        if not isinstance(tensor, MLTensor):
            raise MLTypeError(f"{where}: tensor: got {tensor!r}; allowed: an MLTensor of this context")
        tensor._check_usable(self, where)

    # Running -------------------------------------------------------------------------------------------------

    def dispatch(
        self, graph: MLGraph, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]
    ) -> None:
        """Run `graph` on these tensors, after all earlier work on them; the device is not waited for.

        (With thousands of commands in flight, 4096, the call waits for the oldest, as writes and reads do.)

        Every input and output of the graph is bound, by name, to a tensor of its very type and shape, and no tensor
        twice. Raises MLTypeError otherwise, InvalidStateError when the graph is destroyed or lost, OperationError when
        the device refuses (then ``graph.lost`` resolves and the context lives on).
        """
        timeline = self._timeline
        timeline.throttle()
        with timeline.lock:
            storages = as_before(self, graph, inputs, outputs)
            if storages is None:
                storages = bind(self, graph, inputs, outputs)
            enqueue_graph(timeline, graph, storages)

    def compute(self, graph: MLGraph, inputs: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Run `graph` on host data and return its outputs by name; waits for the device.

        Lists and arrays of other number types are converted to an input's type when no value changes. Raises
        MLTypeError when one would change, and for wrong names or shapes; else as `dispatch` and `read_tensor`.
        """
        return compute(self, graph, inputs)

    def finish(self) -> None:
        """Wait until everything submitted so far is done.

        Raises InvalidStateError when the context is lost, or when work waits for a lease of the calling thread.
        """
        self._timeline.finish()

    # Ends ----------------------------------------------------------------------------------------------------

    def destroy(self) -> None:
        """Lose the context: `lost` resolves, its graphs and tensors are destroyed, unfinished work is abandoned.

        Repeatable.
        """
        self._lose("the context was destroyed by destroy()")

    def _lose(self, message: str, failure: type[InvalidStateError] = InvalidStateError) -> None:
        """End everything; what is pending fails with `failure`."""
        timeline = self._timeline
        if fork.forked:  # the lock may be held by a thread that the child doesn't have
            timeline.lost = timeline.lost or message
            return
        with timeline.lock:
            if timeline.lost is not None:
                return
            dropped = timeline.close(message)
            graphs, tensors = list(self._graphs), list(self._tensors)
        self._lost._try_set_result(message)
        for graph in graphs:
            graph._on_context_lost(message)
        for tensor in tensors:
            tensor._end(f"its context was lost ({message})", failure)
        for operation in dropped:
            operation.fail(failure(f"the context was lost: {message}"))
            operation.forget()
        timeline.run_afterwards()

    def _check_alive(self) -> None:
        """InvalidStateError when the context is lost, or this process is a forked child."""
        self._timeline.check_alive()

    def __enter__(self) -> MLContext:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    def __reduce__(self) -> Any:
        raise InvalidStateError("an MLContext belongs to this process's OpenCL queue and can't be pickled")

    def __repr__(self) -> str:
        return f"<MLContext on {self._device}{' lost' if self.is_lost else ''}>"


def _loser(context: MLContext) -> Any:
    """What the timeline calls when the device failed, without keeping the context alive."""
    reference = weakref.ref(context)

    def lose(message: str) -> None:
        alive = reference()
        if alive is not None:
            forget_shared(alive._cl)
            alive._lose(message, DeviceLostError)

    return lose
