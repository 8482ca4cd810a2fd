"""A plan made concrete: held kernels with bound arguments, memory, and the loop that enqueues them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from webnn_cl.compiler.lower import Buffer, Command, Copy, Launch, Plan, Scalar
from webnn_cl.compiler.packing import ConstantMemory
from webnn_cl.compiler.plan_memory import plan_memory
from webnn_cl.errors import OperationError, describe_operator
from webnn_cl.opencl.memory import Storage
from webnn_cl.opencl.program import built_kernels, make_kernel

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.opencl.arena import Arena

__all__ = ["Executable", "Prepared"]

Binding = tuple[str, str]
"""The key of an external buffer: ("in" | "out", name)."""


class Prepared:
    """A command list with kernels built and every argument set but those bound at dispatch."""

    def __init__(self, commands: Sequence[Command], programs: Mapping[Any, cl.Program]) -> None:
        self.commands = list(commands)
        self._kernels = [
            make_kernel(programs[c.kernel], c.kernel) if isinstance(c, Launch) else None for c in commands
        ]
        self._sites: dict[Buffer, list[tuple[int, int]]] = {}
        self._memory: dict[Buffer, cl.Buffer] = {}
        for index, command in enumerate(self.commands):
            if isinstance(command, Launch):
                self._set_scalars(index, command)
        # What the hot loop needs, and nothing more.
        self._steps = [
            (kernel, c.global_size, c.local_size) if isinstance(c, Launch) and c.guard is None else None
            for kernel, c in zip(self._kernels, self.commands, strict=True)
        ]
        self.copied = {b for c in self.commands if isinstance(c, Copy) or c.guard is not None for b in c.buffers()}

    def _set_scalars(self, index: int, command: Launch) -> None:
        kernel = self._kernels[index]
        assert kernel is not None
        for position, arg in enumerate(command.args):
            if isinstance(arg, Buffer):
                self._sites.setdefault(arg, []).append((index, position))
            else:
                kernel.set_arg(position, _argument(arg))

    def buffers(self) -> list[Buffer]:
        """Every buffer that the commands refer to."""
        return list(dict.fromkeys(b for c in self.commands for b in c.buffers()))

    def bind(self, buffer: Buffer, memory: cl.Buffer) -> None:
        """Set `memory` as the argument everywhere `buffer` is used."""
        if buffer in self.copied:
            self._memory[buffer] = memory
        for index, position in self._sites.get(buffer, ()):
            self._kernels[index].set_arg(position, memory)  # type: ignore[union-attr]

    def forget(self, buffers: Iterable[Buffer]) -> None:
        """Drop the memory of `buffers`, so that tensors can be freed; they are bound again before the next use."""
        for buffer in buffers:
            self._memory.pop(buffer, None)

    def enqueue(self, queue: cl.CommandQueue) -> cl.Event | None:
        """Enqueue all commands in order; the event of the last one."""
        event = None
        launch = cl.enqueue_nd_range_kernel
        index = 0
        try:
            for index, step in enumerate(self._steps):
                if step is not None:
                    event = launch(queue, step[0], step[1], step[2])
                else:
                    event = self._other(queue, index)
        except cl.Error as error:
            raise self._failure(index, error) from error
        return event

    def enqueue_one(self, queue: cl.CommandQueue, index: int) -> cl.Event:
        """Enqueue command `index` alone."""
        step = self._steps[index]
        try:
            return cl.enqueue_nd_range_kernel(queue, *step) if step is not None else self._other(queue, index)
        except cl.Error as error:
            raise self._failure(index, error) from error

    def enqueue_each(self, queue: cl.CommandQueue) -> list[cl.Event]:
        """As `enqueue`, with the events of all commands (for profiling)."""
        events = []
        for index, step in enumerate(self._steps):
            if step is not None:
                events.append(cl.enqueue_nd_range_kernel(queue, *step))
            else:
                events.append(self._other(queue, index))
        return events

    def _other(self, queue: cl.CommandQueue, index: int) -> cl.Event:
        """A copy, or a guarded launch."""
        command = self.commands[index]
        if isinstance(command, Launch):
            assert command.guard is not None
            scalars = [_argument(a) for a in command.args if not isinstance(a, Buffer)]
            buffers = [self._memory[b] for b in command.buffers()]
            kernel = self._kernels[index]
            return command.guard.enqueue(queue, kernel, buffers, scalars, command.global_size, command.local_size)
        source, target = self._memory[command.source], self._memory[command.destination]
        return cl.enqueue_copy(queue, target, source, byte_count=command.nbytes)

    def _failure(self, index: int, error: cl.Error) -> OperationError:
        node = self.commands[index].node
        if node is None:
            return OperationError(f"the device refused a copy: {error}")
        shapes = ", ".join(f"{role} {value.desc}" for role, value in node.inputs.items())
        return OperationError(f"{describe_operator(node.op.name, node.label)} ({shapes}): the device refused: {error}")


def _argument(arg: Scalar) -> Any:
    return np.frombuffer(arg, np.uint8) if isinstance(arg, bytes) else arg


class Executable:
    """One compiled graph on one context's device. Not thread-safe: the timeline's lock guards it."""

    def __init__(self, plan: Plan, context: MLContext, arena: Arena) -> None:
        facts = context._facts
        programs = built_kernels(context._cl, context._cl_device, plan.kernels())
        memory = plan_memory(plan.commands, facts.mem_base_align_bytes, facts.max_alloc_bytes)
        self._context = context._cl
        self._arena = arena
        self._slots = memory.slots
        self.arena_bytes = sum(memory.pages)
        self.peak_live_bytes = memory.peak_live_bytes
        self.constant_bytes = 0
        self._constants: dict[Buffer, cl.Buffer] = {}
        arena.reserve(memory.pages)
        self._main = Prepared(plan.commands, programs)
        self._prologue: Prepared | None = Prepared(plan.prologue, programs) if plan.prologue else None
        self._external = [b for b in self._main.buffers() if b.kind in ("input", "output")]
        # By serial number: a reference would keep the memory of destroyed tensors alive, and handles are used again.
        self._bound: list[object] = []
        self._places: list[int] = []
        self._copied: dict[Buffer, int] = {}
        self.command_count = len(plan.commands) or 1  # what the timeline counts
        self._generation = -1

    @property
    def kernel_count(self) -> int:
        """Number of launches of one dispatch."""
        return sum(isinstance(c, Launch) for c in self._main.commands)

    @property
    def distinct_kernels(self) -> int:
        """Number of different kernels among them."""
        return len({c.kernel for c in self._main.commands if isinstance(c, Launch)})

    def prepare(self, context: MLContext, last: bool = True) -> None:
        """Pack and upload constants, on the context's queue; takes the timeline's lock.

        `last` says that no later graph of the same build reads their host copies.
        """
        kept = [b for b in self._main.buffers() if b.kind == "constant"]
        constants = ConstantMemory(context, kept, last)
        prologue, self._prologue = self._prologue, None
        constants.pack(prologue)
        with context._timeline.lock:
            self._constants = constants.take()
            for buffer, memory in self._constants.items():
                self._main.bind(buffer, memory)
                self.constant_bytes += buffer.nbytes

    def arrange(self, keys: Sequence[Binding]) -> None:
        """`run` is going to be given memory in the order of `keys`."""
        positions = {key: position for position, key in enumerate(keys)}
        self._places = [positions[_binding(b)] for b in self._external]
        self._copied = {b: p for b, p in zip(self._external, self._places, strict=True) if b in self._main.copied}
        self._bound = [None] * len(keys)

    def run(self, queue: cl.CommandQueue, storages: Sequence[Storage]) -> Sequence[cl.Event]:
        """Bind what changed since the last run and enqueue all commands; the event of the last one."""
        self._bind(storages)
        event = self._main.enqueue(queue)
        if self._copied:
            self._main.forget(self._copied)
        return () if event is None else (event,)

    def run_each(self, queue: cl.CommandQueue, storages: Sequence[Storage]) -> list[cl.Event]:
        """As `run`, with one event per command, in the order of `commands` (for profiling)."""
        self._bind(storages)
        events = self._main.enqueue_each(queue)
        self._main.forget(self._copied)
        return events

    def _bind(self, storages: Sequence[Storage]) -> None:
        """Bind the memory of `storages` and the arena, as far as they changed."""
        if self._generation != self._arena.generation:
            self._bind_arena()
        try:
            serials: list[object] = [storage.buffer.serial for storage in storages]
        except AttributeError:
            # Imported buffers have no serial, and their handle may be that of a freed one: always bound anew.
            serials = [getattr(storage.buffer, "serial", None) or object() for storage in storages]
        if serials != self._bound:
            before, self._bound = self._bound, [None] * len(serials)  # should a binding fail, none counts
            for buffer, place in zip(self._external, self._places, strict=True):
                if serials[place] != before[place]:
                    self._main.bind(buffer, storages[place].buffer)
            self._bound = serials
        # What is copied, or launched behind a guard, was forgotten after the last run.
        for buffer, place in self._copied.items():
            self._main.bind(buffer, storages[place].buffer)

    @property
    def commands(self) -> Sequence[Command]:
        """The commands of one dispatch, in order."""
        return self._main.commands

    def _bind_arena(self) -> None:
        self._generation = self._arena.generation
        for buffer, slot in self._slots.items():
            self._main.bind(buffer, self._arena.region(slot))


def _binding(buffer: Buffer) -> Binding:
    """The key of an external buffer: ("in" | "out", name)."""
    return buffer.kind[:-3], buffer.name
