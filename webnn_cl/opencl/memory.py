"""Device memory: the one place that allocates, counts what is alive and explains what could not be allocated."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection
from typing import Any

import numpy as np
import pyopencl as cl

from webnn_cl.errors import OperationError
from webnn_cl.opencl import fork

__all__ = ["Memory", "Storage", "allocate", "allocate_from", "live_buffers", "live_bytes", "padded", "peak_bytes"]

_PAD = 64  # one AVX-512 register or cache line: a whole vector at the end of a tensor stays inside its buffer

# A collection inside a locked region may run Memory.__del__ in the same thread, hence the re-entrant lock.
_lock = threading.RLock()
_live_bytes = 0
_live_buffers = 0
_peak_bytes = 0
_serials = itertools.count(1)


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


fork.in_child(_renew_lock)


class Memory(cl.Buffer):  # type: ignore[misc]
    """A pyopencl.Buffer that is counted while it is alive (pyopencl's own class takes no weak references).

    `serial` is a number that no other Memory of this process has; OpenCL's handles are used again.
    """

    _counted = 0

    def __init__(self, context: Any, flags: int, size: int = 0, hostbuf: Any = None) -> None:
        super().__init__(context, flags, size, hostbuf)
        self.serial = next(_serials)
        self._count(size or hostbuf.nbytes)

    def _count(self, nbytes: int) -> None:
        global _live_bytes, _live_buffers, _peak_bytes
        with _lock:
            _live_bytes += nbytes
            _peak_bytes = max(_peak_bytes, _live_bytes)
            _live_buffers += 1
        self._counted = nbytes

    def __del__(self) -> None:
        global _live_bytes, _live_buffers
        if self._counted:
            with _lock:
                _live_bytes -= self._counted
                _live_buffers -= 1


class Storage:
    """The device memory of one tensor.

    `buffer` may be replaced by a write (a tensor is always written as a whole, so a write may bring new memory and
    leave the old to the work already queued) unless `pinned`: memory that was handed out, or came from, outside.
    `serial` is a number that no other storage of this process has. `owner` keeps alive what an imported buffer needs;
    `aliases` are other storages over the same bytes (imports of overlapping buffers).
    `read_only` memory can't be an output. `leased` is true from the request of a lease to its return.
    """

    __slots__ = ("__weakref__", "aliases", "buffer", "constant", "leased", "nbytes", "owner", "pinned", "read_only",
                 "serial")  # fmt: skip

    def __init__(
        self, buffer: Any, nbytes: int, *, pinned: bool = False, owner: object = None, read_only: bool = False
    ) -> None:
        self.buffer = buffer
        self.constant: Any = None  # what the compiler keeps with the memory of a constant tensor
        self.aliases: Collection[Storage] = ()
        self.leased = False
        self.serial = next(_serials)
        self.nbytes = nbytes
        self.pinned = pinned
        self.owner = owner
        self.read_only = read_only


def live_bytes() -> int:
    """Bytes of device memory that this process has allocated through `allocate` and not yet dropped."""
    return _live_bytes


def peak_bytes(reset: bool = False) -> int:
    """The most that `live_bytes` has been; `reset` lets it begin again at what is alive now."""
    global _peak_bytes
    with _lock:
        peak = _peak_bytes
        if reset:
            _peak_bytes = _live_bytes
    return peak


def live_buffers() -> int:
    """Number of such allocations."""
    return _live_buffers


def padded(nbytes: int) -> int:
    """`nbytes` rounded up to a multiple of 64."""
    return -(-nbytes // _PAD) * _PAD


def allocate(cl_context: Any, nbytes: int, host_visible: bool = False, *, exact: bool = False) -> Any:
    """A read-write cl.Buffer of at least `nbytes` (a multiple of 64 unless `exact`); OperationError when it fails.

    `host_visible` asks for memory that the host can map without a copy. The content is undefined.
    """
    flags = cl.mem_flags.READ_WRITE
    if host_visible:
        flags |= cl.mem_flags.ALLOC_HOST_PTR
    size = nbytes if exact else padded(nbytes)
    try:
        return Memory(cl_context, flags, size)
    except (cl.Error, MemoryError) as error:
        raise _explain(cl_context, size, error) from error


def allocate_from(cl_context: Any, data: np.ndarray[Any, Any], host_visible: bool = True) -> Any:
    """A read-write cl.Buffer with a copy of `data` (contiguous), made by the host at once, whatever the queue does."""
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    if host_visible:
        flags |= cl.mem_flags.ALLOC_HOST_PTR
    try:
        return Memory(cl_context, flags, 0, data)
    except (cl.Error, MemoryError) as error:
        raise _explain(cl_context, data.nbytes, error) from error


def _explain(cl_context: Any, nbytes: int, error: Exception) -> OperationError:
    names = ", ".join(str(d.name).strip() for d in cl_context.devices)
    return OperationError(
        f"could not allocate {nbytes} bytes on {names}, with {_live_bytes} bytes in {_live_buffers} buffers "
        f"already allocated by this process: {error}"
    )
