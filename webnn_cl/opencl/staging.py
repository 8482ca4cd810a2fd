"""Pinned host memory for devices that don't share memory with the host: transfers from and to it need no waiting."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pyopencl as cl

from webnn_cl.errors import OperationError
from webnn_cl.opencl.memory import allocate

__all__ = ["Slot", "StagingPool"]

KEPT_BYTES = 64 << 20
"""Most bytes that a pool keeps; beyond it a transfer gets memory of its own, dropped when it is done."""
MAP_SECONDS = 0.01
"""Longest wait for new pinned memory to be mapped; some runtimes map only when the device has time."""
_SMALLEST = 1 << 16


class Slot:
    """A piece of pinned memory, `array` (uint8), in use until `free` is called and `event` has completed.

    pyopencl blocks when an event of a host copy is dropped before it has completed, so the slot holds it.
    """

    __slots__ = ("_buffer", "_held", "_whole", "array", "event")

    def __init__(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        self._buffer = buffer
        self._held = True
        self._whole = array
        self.array = array  # as much of it as was asked for
        self.event: Any = None

    def free(self) -> None:
        """The host is done with it; the device may still be at work until `event` has completed."""
        self._held = False

    @property
    def idle(self) -> bool:
        """Whether neither the host nor the device uses it."""
        return not self._held and (self.event is None or self.event.command_execution_status <= 0)

    def mapped_soon(self) -> bool:
        """Whether a fresh slot is mapped by now, or within a moment; OperationError when it can't be."""
        end = time.perf_counter() + MAP_SECONDS
        while self.event is not None and self.event.command_execution_status > 0:
            if time.perf_counter() > end:
                return False
            time.sleep(1e-5)
        if self.event is not None and self.event.command_execution_status < 0:
            raise OperationError("the device could not map pinned memory")
        return True

    @property
    def size(self) -> int:
        """Bytes of the whole slot."""
        return int(self._whole.nbytes)

    def take(self, nbytes: int) -> Slot:
        """Put an idle slot to use."""
        self._held, self.event, self.array = True, None, self._whole[:nbytes]
        return self

    def data(self) -> np.ndarray[Any, Any]:
        """A copy of `array` in ordinary memory."""
        return np.array(self.array)


class StagingPool:
    """Pinned memory of one context, mapped once and for good, in slots of powers of two."""

    def __init__(self, cl_context: Any, device: Any) -> None:
        self._context = cl_context
        self._device = device
        self._queue: Any = None
        self._lock = threading.Lock()
        self._slots: list[Slot] = []
        # In use beyond what is kept: they only have to live until the device is done.
        self._extra: list[Slot] = []

    @property
    def kept_bytes(self) -> int:
        """Bytes that the pool keeps for later transfers."""
        return sum(slot.size for slot in self._slots)

    def take(self, nbytes: int) -> Slot:
        """A slot of at least `nbytes`; OperationError when none can be had."""
        with self._lock:
            self._extra = [slot for slot in self._extra if not slot.idle]
            fitting = [slot for slot in self._slots if slot.size >= nbytes and slot.idle]
            if fitting:
                return min(fitting, key=lambda slot: slot.size).take(nbytes)
            size = max(_SMALLEST, 1 << (nbytes - 1).bit_length())
            kept = self.kept_bytes + size <= KEPT_BYTES
            slot = self._make(size if kept else nbytes)
            (self._slots if kept else self._extra).append(slot)
            if slot.mapped_soon():
                return slot.take(nbytes)
            # The device is too busy to map: ordinary memory for now, and the slot is idle once it is mapped.
            slot.free()
            substitute = Slot(None, np.empty(nbytes, np.uint8))
            self._extra.append(substitute)
            return substitute

    def alone(self, nbytes: int) -> Slot:
        """A slot that the pool does not know: it lives as long as somebody has it."""
        with self._lock:
            slot = self._make(nbytes)
        return slot.take(nbytes) if slot.mapped_soon() else Slot(slot, np.empty(nbytes, np.uint8))

    def _make(self, nbytes: int) -> Slot:
        try:
            if self._queue is None:
                # A queue of its own: mapping on the context's queue would wait for the work there.
                self._queue = cl.CommandQueue(self._context, self._device)
            buffer = allocate(self._context, nbytes, host_visible=True)
            flags = cl.map_flags.READ | cl.map_flags.WRITE
            array, event = cl.enqueue_map_buffer(self._queue, buffer, flags, 0, (nbytes,), np.uint8, is_blocking=False)
            self._queue.flush()
        except cl.Error as error:
            raise OperationError(f"no pinned memory of {nbytes} bytes on {self._device.name}: {error}") from error
        slot = Slot(buffer, array)
        slot.event = event
        return slot
