"""From a device, or from what the user brought, to a context and its in-order queue."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

from webnn_cl.errors import MLTypeError, NotSupportedError, OperationError
from webnn_cl.opencl import fork
from webnn_cl.opencl.choice import Choice, choose
from webnn_cl.opencl.devices import MLDevice, find
from webnn_cl.opencl.linker import require_linker

__all__ = ["Connection", "adopted", "forget_shared", "opened"]

_lock = threading.Lock()
# By device, as long as a context of ours uses it: what is built for one serves all of them.
_shared: weakref.WeakValueDictionary[int, cl.Context] = weakref.WeakValueDictionary()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


fork.in_child(_renew_lock)


@dataclass(frozen=True)
class Connection:
    """A device with its pyopencl context and queue; `owned` is false for a queue of the user's."""

    device: MLDevice
    reason: str
    cl_context: Any
    queue: Any
    owned: bool = True


def opened(choice: Choice, profiling: bool) -> Connection:
    """A queue of its own on the chosen device, in the pyopencl context that the process has there.

    OperationError when the device refuses.
    """
    device = choice.device
    require_linker(device.platform)
    try:
        context = _context(device.cl_device)
        return Connection(device, choice.reason, context, _queue(context, device.cl_device, profiling))
    except cl.Error as error:
        raise OperationError(f"could not open {device}: {error}") from error


def adopted(
    opencl: Any, device: object, require: Callable[[MLDevice], object] | None, profiling: bool
) -> Connection:
    """The user's pyopencl.Context (with a queue of ours) or CommandQueue (kept as it is)."""
    try:
        if isinstance(opencl, cl.CommandQueue):
            connection = _adopted_queue(opencl, device, profiling)
        elif isinstance(opencl, cl.Context):
            connection = _adopted_context(opencl, device, profiling)
        else:
            raise MLTypeError(
                f"create_context: opencl: got {opencl!r}; allowed: a pyopencl.Context or a pyopencl.CommandQueue"
            )
    except cl.Error as error:
        raise OperationError(
            f"create_context: opencl: {opencl!r} is refused by its driver ({error}); is its pyopencl.Context alive?"
        ) from error
    require_linker(connection.device.platform)
    if require is not None and not require(connection.device):
        raise NotSupportedError(f"the device of opencl= does not fulfil require=: {connection.device!r}")
    return connection


def _adopted_queue(queue: Any, device: object, profiling: bool) -> Connection:
    if device is not None:
        raise MLTypeError("create_context: device and opencl: got both; a CommandQueue has its device already")
    properties = int(queue.properties)
    if properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        raise MLTypeError(
            "create_context: opencl: got an out-of-order queue; allowed: an in-order queue, because the order of "
            "calls on a context is the order of its queue"
        )
    if profiling and not properties & cl.command_queue_properties.PROFILING_ENABLE:
        raise MLTypeError("create_context: profiling: the queue given as opencl= was made without profiling")
    return Connection(find(queue.device), "the device of the queue given as opencl=", queue.context, queue, False)


def _adopted_context(context: Any, device: object, profiling: bool) -> Connection:
    devices = list(context.devices)
    if device is not None and len(devices) == 1:
        raise MLTypeError("create_context: device and opencl: got both; this pyopencl.Context has one device only")
    if device is None and len(devices) > 1:
        raise MLTypeError(
            f"create_context: opencl: got a pyopencl.Context of {len(devices)} devices; say which with device="
        )
    chosen, reason = devices[0], "the device of the pyopencl.Context given as opencl="
    if device is not None:
        choice = choose(device=device)
        matching = [d for d in devices if d == choice.device.cl_device]
        if not matching:
            raise MLTypeError(f"create_context: device: {choice.device} is not in the pyopencl.Context of opencl=")
        chosen, reason = matching[0], choice.reason
    return Connection(find(chosen), reason, context, _queue(context, chosen, profiling))


def _context(device: Any) -> Any:
    with _lock:
        context = _shared.get(device.int_ptr)
        if context is None:
            context = _shared[device.int_ptr] = cl.Context([device])
        return context


def forget_shared(context: Any) -> None:
    """Let nobody else begin in `context`, whose device failed: later ones get a fresh one."""
    with _lock:
        for device, shared in list(_shared.items()):
            if shared == context:
                del _shared[device]


def _queue(context: Any, device: Any, profiling: bool) -> Any:
    properties = cl.command_queue_properties.PROFILING_ENABLE if profiling else 0
    return cl.CommandQueue(context, device, properties)
