"""A wrapper around pyopencl that makes the n-th OpenCL call fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyopencl as cl

from webnn_cl.opencl import adopt, memory

FUNCTIONS = (
    "enqueue_copy", "enqueue_fill_buffer", "enqueue_marker", "enqueue_barrier", "enqueue_map_buffer",
    "enqueue_nd_range_kernel",
)  # fmt: skip
METHODS: tuple[tuple[Any, str], ...] = (
    (cl.CommandQueue, "flush"),
    (cl.CommandQueue, "finish"),
    (adopt, "_queue"),
    (adopt, "_context"),
    (cl.Event, "wait"),
    (cl.Kernel, "__init__"),
    (cl.Kernel, "set_arg"),
    (cl.Buffer, "get_sub_region"),
    (cl.MemoryMap, "release"),
    (cl.Program, "build"),
    (memory.Memory, "__init__"),
)


class Injector:
    """Counts OpenCL calls of the threads that take part, and fails the n-th one (or from the n-th on)."""

    def __init__(self, fail_at: int = 0, forever: bool = False) -> None:
        self.fail_at = fail_at
        self.forever = forever
        self.count = 0
        self.failed: list[str] = []
        self._lock = threading.Lock()

    def call(self, name: str) -> None:
        """Raise if this call is to fail."""
        with self._lock:
            self.count += 1
            fails = self.fail_at and (self.count == self.fail_at or (self.forever and self.count > self.fail_at))
            if fails:
                self.failed.append(name)
        if fails:
            if name == "Memory.__init__":
                raise cl.MemoryError(f"{name} failed: MEM_OBJECT_ALLOCATION_FAILURE (injected)")
            raise cl.RuntimeError(f"{name} failed: OUT_OF_RESOURCES (injected)")

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` with the chance to fail before it does anything."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.call(name)
            return function(*args, **kwargs)

        return wrapped


@contextmanager
def injected(fail_at: int = 0, forever: bool = False) -> Iterator[Injector]:
    """Within the block every OpenCL call that the library makes goes through an Injector."""
    injector = Injector(fail_at, forever)
    places: list[tuple[Any, str]] = [(cl, name) for name in FUNCTIONS] + list(METHODS)
    kept = [(owner, name, owner.__dict__[name]) for owner, name in places]
    try:
        for owner, name, function in kept:
            label = name if owner is cl else f"{owner.__name__.split('.')[-1]}.{name}"
            setattr(owner, name, injector.wrap(label, function))
        yield injector
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)
