"""Packing of constants at build, piece by piece: raw data is in device memory only while it is packed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl

from webnn_cl.compiler.ir import Constant
from webnn_cl.compiler.lower import Buffer
from webnn_cl.opencl.memory import allocate, allocate_from

if TYPE_CHECKING:
    from webnn_cl.compiler.executable import Prepared
    from webnn_cl.context import MLContext

__all__ = ["ConstantMemory"]

# Raw data beyond this is waited for before more is uploaded; the largest constant may be larger.
PIECE_BYTES = 8 << 20
# Host arrays up to this size stay, for passes of later graphs that look at values.
SMALL_BYTES = 1024


class PackedMemory:
    """Device memory of one packing of a constant."""

    __slots__ = ("memory", "nbytes")

    def __init__(self, memory: cl.Buffer, nbytes: int) -> None:
        self.memory = memory
        self.nbytes = nbytes


class ConstantMemory:
    """The memory of one executable's constants: `kept` are the buffers that every dispatch reads.

    Packings that are kept stay with their Constant, for other graphs. Raw data stays only where a dispatch reads it;
    what was uploaded, or folded, for packing alone is dropped behind it, and large folded values are made only when
    their packing comes. With `last`, no later graph of the build reads the constants, and the host's copies are
    dropped too, but those that a session owns.
    """

    def __init__(self, context: MLContext, kept: Iterable[Buffer], last: bool) -> None:
        self._context = context
        self._kept = dict.fromkeys(kept)
        self._raw_kept = {b.constant for b in self._kept if b.pack_key is None}
        self._last = last
        self._memory: dict[Buffer, cl.Buffer] = {}

    def pack(self, prologue: Prepared | None) -> None:
        """Make what dispatches read: raw data that has to be folded, and the launches of `prologue`.

        Takes the timeline's lock a piece at a time; waits, and compiles what folds, outside it.
        """
        self._fold(self._kept)
        if prologue is None:
            return
        timeline = self._context._timeline
        self._claim(prologue.buffers())
        ends = {buffer: index for index, c in enumerate(prologue.commands) for buffer in c.buffers()}
        index, count = 0, len(prologue.commands)
        while index < count:
            self._fold(prologue.commands[index].buffers())
            with timeline.lock:
                timeline.check_alive()
                index, event = self._piece(prologue, index, ends)
                timeline.queue.flush()
            if index < count and event is not None:
                event.wait()

    def _claim(self, buffers: Iterable[Buffer]) -> None:
        """Take hold of raw device memory that exists."""
        for buffer in buffers:
            constant = buffer.constant
            if constant is None or buffer.pack_key is not None:
                continue
            memory = getattr(constant.storage, "buffer", constant.storage)
            if memory is not None:
                self._memory[buffer] = memory

    def _fold(self, buffers: Iterable[Buffer]) -> None:
        """Make the folded values among `buffers` that are not there: not made yet, or dropped behind a packing."""
        for buffer in filter(self._is_unmade, buffers):
            constant = buffer.constant
            assert constant is not None and constant.remake is not None
            memory = self._memory[buffer] = constant.remake(self._context)
            if constant in self._raw_kept:
                constant.storage = memory

    def _is_unmade(self, buffer: Buffer) -> bool:
        constant = buffer.constant
        if constant is None or buffer.pack_key is not None or buffer in self._memory:
            return False
        return constant.array is None and constant.storage is None

    def _piece(self, prologue: Prepared, index: int, ends: dict[Buffer, int]) -> tuple[int, cl.Event | None]:
        """Enqueue from command `index` on, until enough raw data waits to be freed or something has to be folded; the
        next index, the last event.
        """
        queue, freed, event = self._context._timeline.queue, 0, None
        while index < len(prologue.commands) and freed < PIECE_BYTES:
            buffers = dict.fromkeys(prologue.commands[index].buffers())
            if any(map(self._is_unmade, buffers)):
                break
            for buffer in buffers:
                if buffer not in self._memory:
                    self._memory[buffer] = self._allocated(buffer)
                prologue.bind(buffer, self._memory[buffer])
            event = prologue.enqueue_one(queue, index)
            for buffer in buffers:
                if ends[buffer] == index:
                    freed += self._drop(buffer)
                    prologue.forget([buffer])
            index += 1
        return index, event

    def _allocated(self, buffer: Buffer) -> cl.Buffer:
        constant, cl_context = buffer.constant, self._context._cl
        if constant is None:
            return allocate(cl_context, buffer.nbytes)
        if buffer.pack_key is None:
            return self._uploaded(constant)
        known = constant.packed.get(buffer.pack_key)
        return known.memory if known is not None else allocate(cl_context, buffer.nbytes)

    def _uploaded(self, constant: Constant) -> cl.Buffer:
        """Raw data in device memory. Copied by the host at once: a copy on the queue would wait for the work there."""
        memory = getattr(constant.storage, "buffer", constant.storage)
        if memory is not None:
            return memory
        assert constant.array is not None
        data = np.ascontiguousarray(constant.array).reshape(-1).view(np.uint8)  # in a model's bytes at any offset
        memory = allocate_from(self._context._cl, data, host_visible=False)
        if constant in self._raw_kept and self._last:
            constant.storage = memory
        return memory

    def _drop(self, buffer: Buffer) -> int:
        """Behind the last use in a prologue: keep what dispatches read; the bytes that are on their way out."""
        constant = buffer.constant
        if constant is None:
            self._memory.pop(buffer)
            return buffer.nbytes
        if buffer in self._kept:
            if buffer.pack_key is not None:
                constant.packed.setdefault(buffer.pack_key, PackedMemory(self._memory[buffer], buffer.nbytes))
            return 0
        self._memory.pop(buffer)
        if buffer.pack_key is None and constant not in self._raw_kept:
            if constant.folded:
                constant.storage = None
            elif self._last and not constant.lasting and buffer.nbytes > SMALL_BYTES:
                constant.array = None
        return buffer.nbytes

    def take(self) -> dict[Buffer, cl.Buffer]:
        """The memory of every kept buffer. Under the timeline's lock, after `pack`."""
        found = {}
        for buffer in self._kept:
            assert buffer.constant is not None
            found[buffer] = self._memory.get(buffer) or self._found(buffer)
            large = buffer.nbytes > SMALL_BYTES and buffer.pack_key is None
            if self._last and large and not buffer.constant.lasting:
                buffer.constant.array = None
        return found

    def _found(self, buffer: Buffer) -> cl.Buffer:
        assert buffer.constant is not None
        if buffer.pack_key is None:
            return self._uploaded(buffer.constant)
        memory: cl.Buffer = buffer.constant.packed[buffer.pack_key].memory
        return memory
