"""Guarded launches: a kernel's buffers between canaries, to catch writes out of bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyopencl as cl

from webnn_cl.errors import OperationError

__all__ = ["GuardedLaunch"]

CANARY = 0xA5
GUARD_BYTES = 4096


@dataclass(frozen=True)
class GuardedLaunch:
    """Runs a kernel of `operator` on copies of its buffers, `nbytes` of each; the first `inputs` are only read."""

    operator: str
    names: Sequence[str]
    inputs: int
    nbytes: Sequence[int]

    def enqueue(
        self,
        queue: cl.CommandQueue,
        kernel: cl.Kernel,
        buffers: Sequence[cl.Buffer],
        scalars: Sequence[np.generic],
        global_size: tuple[int, ...],
        local_size: tuple[int, ...],
    ) -> cl.Event:
        """Run and wait; OperationError names the buffer whose neighbourhood, or whose read-only data, was written."""
        guarded = [_Guarded(queue, b, n) for b, n in zip(buffers, self.nbytes, strict=True)]
        kernel.set_args(*(g.inside for g in guarded), *scalars)
        event = cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
        event.wait()
        problems = [p for n, g in zip(self.names, guarded, strict=True) if (p := g.problem(queue, n))]
        for name, item in zip(self.names[: self.inputs], guarded, strict=False):
            if item.changed(queue):
                problems.append(f"writes into its input {name!r}")
        if problems:
            raise OperationError(f"CustomOp {self.operator}: the kernel {'; '.join(problems)}")
        for item in guarded[self.inputs :]:
            item.copy_back(queue)
        return event


class _Guarded:
    """A copy of `buffer` with GUARD_BYTES of canary before and behind it."""

    def __init__(self, queue: cl.CommandQueue, buffer: cl.Buffer, nbytes: int) -> None:
        align = max(queue.device.mem_base_addr_align // 8, 1)
        self.buffer, self.nbytes = buffer, nbytes
        self.start = -(-GUARD_BYTES // align) * align
        self.whole = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, self.start + self.nbytes + GUARD_BYTES)
        pattern = np.full(self.whole.size, CANARY, np.uint8)
        cl.enqueue_copy(queue, self.whole, pattern, is_blocking=True)
        cl.enqueue_copy(queue, self.whole, buffer, byte_count=self.nbytes, dst_offset=self.start)
        self.inside = self.whole.get_sub_region(self.start, self.nbytes)

    def _read(self, queue: cl.CommandQueue, offset: int, nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        data = np.empty(nbytes, np.uint8)
        cl.enqueue_copy(queue, data, self.whole, src_offset=offset, is_blocking=True)
        return data

    def problem(self, queue: cl.CommandQueue, name: str) -> str | None:
        before = self._read(queue, 0, self.start) != CANARY
        behind = self._read(queue, self.start + self.nbytes, GUARD_BYTES) != CANARY
        if behind.any():
            return f"writes past the end of {name!r} (first at byte {self.nbytes + int(behind.argmax())})"
        if before.any():
            return f"writes before the start of {name!r} (first at byte {int(before.argmax()) - self.start})"
        return None

    def changed(self, queue: cl.CommandQueue) -> bool:
        original = np.empty(self.nbytes, np.uint8)
        cl.enqueue_copy(queue, original, self.buffer, is_blocking=True)
        return bool((self._read(queue, self.start, self.nbytes) != original).any())

    def copy_back(self, queue: cl.CommandQueue) -> None:
        cl.enqueue_copy(queue, self.buffer, self.inside, byte_count=self.nbytes)
