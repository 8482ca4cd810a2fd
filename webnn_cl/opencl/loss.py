"""Which OpenCL errors mean that the device is gone, and the error raised by the call that notices it."""

from __future__ import annotations

from typing import Any

import pyopencl as cl

from webnn_cl.errors import InvalidStateError, OperationError

__all__ = ["DeviceLostError", "is_loss"]

_LOSS_CODES = frozenset(
    {cl.status_code.DEVICE_NOT_AVAILABLE, cl.status_code.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST}
)


class DeviceLostError(OperationError, InvalidStateError):
    """Execution failed on the device and the context is lost; raised by the call that notices it."""


def is_loss(error: Any, queue: Any) -> bool:
    """Whether an OpenCL call's error means that the device is gone, rather than that it refused one command.

    Drivers report a gone device with many codes (an invalid queue or context after a fault), so a marker is tried:
    a queue that takes no marker takes nothing.
    """
    if getattr(error, "code", None) in _LOSS_CODES:
        return True
    try:
        cl.enqueue_marker(queue)
        queue.flush()
    except cl.Error:
        return True
    return False
