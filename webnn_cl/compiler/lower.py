"""Lowering: what an operator's record may use to become kernel launches over buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from webnn_cl.compiler.ir import Constant, Graph, Node, TensorDesc, Value
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.dtypes import dtype_of, normalize_data_type

if TYPE_CHECKING:
    from webnn_cl.compiler.prologue import Prologue
    from webnn_cl.compiler.tail import Place, Tail
    from webnn_cl.interop.guard import GuardedLaunch
    from webnn_cl.opencl.facts import DeviceFacts
    from webnn_cl.ops.strided import View

__all__ = ["Buffer", "Copy", "Launch", "Lowering", "Plan", "dims"]

# Arguments by value: numpy scalars, and dims_t as 64 raw bytes.
Scalar = np.generic | bytes
Arg = Union[Value, "Buffer", Scalar]


@dataclass(eq=False)
class Buffer:
    """Device memory that launches refer to before it exists.

    `kind` is "input" or "output" (bound at dispatch, by `name`), "constant" (lives with the graph, uploaded from
    `constant` or filled by the prologue), or "temporary" (planned into the arena).
    """

    kind: str
    nbytes: int
    name: str = ""
    constant: Constant | None = None
    pack_key: Any = None


@dataclass(eq=False)
class Launch:
    """One kernel launch; `reads` and `writes` index buffer arguments in `args`."""

    kernel: Kernel
    args: tuple[Buffer | Scalar, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    node: Node | None
    # Buffers the kernel reads and writes at the same element, so that one memory can serve for both.
    in_place: tuple[tuple[Buffer, Buffer], ...] = ()
    # Runs the kernel between canaries instead (a user's kernel under check=True).
    guard: GuardedLaunch | None = None

    def buffers(self) -> list[Buffer]:
        return [a for a in self.args if isinstance(a, Buffer)]


@dataclass(eq=False)
class Copy:
    """A device-to-device copy of `nbytes` from the start of `source` to the start of `destination`."""

    source: Buffer
    destination: Buffer
    nbytes: int
    node: Node | None = None

    def buffers(self) -> list[Buffer]:
        return [self.source, self.destination]


Command = Launch | Copy


@dataclass(eq=False)
class Plan:
    """Result of lowering: `prologue` runs once at build, `commands` at every dispatch."""

    prologue: list[Command] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def kernels(self) -> list[Kernel]:
        return [c.kernel for c in (*self.prologue, *self.commands) if isinstance(c, Launch)]


def dims(values: Sequence[int]) -> bytes:
    """`values` (at most eight) as the dims_t argument of a kernel."""
    return np.array([*values, *[0] * (8 - len(values))], dtype=np.int64).tobytes()


def _within(local: tuple[int, ...], limit: int) -> tuple[int, ...]:
    """`local` with its largest extents halved until it has at most `limit` work-items."""
    while math.prod(local) > max(limit, 1):
        largest = local.index(max(local))
        local = (*local[:largest], local[largest] // 2, *local[largest + 1 :])
    return local


def copy_view(lowering: Lowering, source: Value, view: View, target: Value, size: int) -> None:
    """Write `view` of `source` into `target` (the kernel's home imports this module)."""
    from webnn_cl.ops import strided

    strided.copy_view(lowering, source, view, target, size)


class Lowering:
    """Collects the launches of one graph; `facts` says what the device can do."""

    def __init__(
        self, graph: Graph, facts: DeviceFacts, tuned: Callable[[Node], str | None] = lambda node: None
    ) -> None:
        """`tuned` names the variant that was measured to be best for a node, if any was."""
        self.graph = graph
        self.tuned = tuned
        self.facts = facts
        self.plan = Plan()
        self._target = self.plan.commands
        self._buffers: dict[Value, Buffer] = {}
        self._constants: dict[Constant, Buffer] = {}
        self._output_names: dict[Value, str] = {}
        for name, value in graph.outputs.items():
            self._output_names.setdefault(value, name)
        self._packed: dict[tuple[Constant, Any], Buffer] = {}
        self._node: Node | None = None
        self._tail: Tail | None = None
        self._prologue: Prologue | None = None
        self._views: dict[Value, tuple[Value, View]] = {}
        # Values that are written into the output of a concat.
        self.places: dict[Value, Place] = {}
        # Values that may stay views: only element-wise kernels read them.
        self.read_by_chains: set[Value] = set()

    # For records ----------------------------------------------------------------------------------------------

    def launch(
        self,
        kernel: Kernel,
        args: Sequence[Arg],
        global_size: Sequence[int],
        local_size: Sequence[int] | None = None,
        in_place: Sequence[tuple[Arg, Arg]] = (),
        guard: GuardedLaunch | None = None,
    ) -> None:
        """Enqueue `kernel` at every dispatch (or once at build, inside `packed`).

        `global_size` is rounded up to a multiple of `local_size` (default: one work-item a group, register
        kernels of CPUs; less than asked for where the device's limit is lower), so kernels check their bounds.
        `in_place` names pairs (input, output) that the kernel reads and writes at the same element only, each
        element's reads before its write.
        """
        local = tuple(local_size) if local_size is not None else (1,) * len(global_size)
        if math.prod(local) > self.facts.max_work_group_size and not kernel.isolated:
            local = _within(local, self.facts.max_work_group_size)
        rounded = tuple(-(-g // n) * n for g, n in zip(global_size, local, strict=True))
        resolved = tuple(self.buffer(a) if isinstance(a, Value) else a for a in args)
        pairs = tuple((self._resolve(a), self._resolve(b)) for a, b in in_place)
        # An epilogue may make the elements of the output smaller than those of the input.
        moved = self._tail is not None and self._tail.moved
        pairs = tuple((a, b) for a, b in pairs if a.nbytes == b.nbytes and not moved)
        self._target.append(Launch(kernel, resolved, rounded, local, self._node, pairs, guard))

    def tail(self, node: Node) -> Tail:
        """How the results of `node` leave: every kernel that may have an epilogue (``meta["epilogue"]`` of its
        record) takes its output, defines, code, headers and further arguments from here.
        """
        assert self._tail is not None and node is self._node
        return self._tail

    def prologue(self, node: Node) -> Prologue | None:
        """The chain that `node` computes as it reads, where its record allows one (``meta["prologue"]``)."""
        assert node is self._node
        return self._prologue

    def scratch(self, nbytes: int) -> Buffer:
        """Temporary memory, alive from the first launch that uses it to the last."""
        return Buffer("temporary", max(int(nbytes), 1))

    def host_constant(self, array: np.ndarray[Any, Any]) -> Value:
        """A constant of the compiled graph made on the host, such as a table of offsets."""
        data = np.ascontiguousarray(array).reshape(array.shape)
        return Value(TensorDesc(normalize_data_type(data.dtype), data.shape), constant=Constant(data))

    def packed(self, value: Value, key: Any, nbytes: int, emit: Callable[[Lowering, Value, Buffer], None]) -> Buffer:
        """`value` in another layout of `nbytes`, written by the launches of ``emit(lowering, source, packed)``.

        A constant is packed once at build and shared by all graphs that pack the same constant under the same
        `key`; anything else is packed at every dispatch. `source` is float16 where `value` is a float16 constant that
        was cast to float32.
        """
        if value.constant is None:
            scratch = self.scratch(nbytes)
            emit(self, value, scratch)
            return scratch
        known = value.constant.packed.get(key)
        if known is not None and known.nbytes == nbytes:
            return Buffer("constant", nbytes, constant=value.constant, pack_key=key)
        pending = self._packed.get((value.constant, key))
        if pending is not None:
            return pending
        buffer = Buffer("constant", nbytes, constant=value.constant, pack_key=key)
        self._packed[value.constant, key] = buffer
        outer, self._target = self._target, self.plan.prologue
        try:
            emit(self, value.constant.narrow or value, buffer)
        finally:
            self._target = outer
        return buffer

    def alias(self, out: Value, source: Value) -> None:
        """Let `out` share the memory of `source` (a reshape); copied where a dispatch binds both apart."""
        buffer = self.buffer(source)
        name = self._output_names.get(out)
        if name is None:
            self._buffers[out] = buffer
        elif buffer.kind == "temporary" and self._target is self.plan.commands:
            buffer.kind, buffer.name = "output", name
            self._buffers[out] = buffer
        else:
            self._target.append(Copy(buffer, self.buffer(out), out.desc.nbytes, self._node))

    def view(self, out: Value, source: Value, view: View) -> None:
        """Let `out` be `view` of `source`; it becomes memory of its own only when somebody asks for its buffer."""
        self._views[out] = (source, view)

    def view_of(self, value: Value) -> tuple[Value, View] | None:
        """The value that `value` is a view of, and how, while it has no memory of its own."""
        return self._views.get(value)

    def buffer(self, value: Value) -> Buffer:
        """The memory of `value`."""
        if value in self._views:
            source, view = self._views.pop(value)
            copy_view(self, source, view, value, dtype_of(value.data_type).size)
        found = self._buffers.get(value)
        if found is None:
            found = self._buffers[value] = self._make_buffer(value)
        return found

    # For the compiler -----------------------------------------------------------------------------------------

    def at(self, node: Node, tail: Tail | None = None, prologue: Prologue | None = None) -> None:
        """Say whose launches follow, for messages and profiles, how its elements come and how its results leave."""
        self._node = node
        self._tail = tail
        self._prologue = prologue

    def finish(self) -> Plan:
        """The plan, once every node is lowered."""
        self._node = None
        self._finish_outputs()
        return self.plan

    def _finish_outputs(self) -> None:
        """Outputs that no launch writes: constants, inputs, and second names of one value."""
        for name, value in self.graph.outputs.items():
            buffer = self.buffer(value)
            if (buffer.kind, buffer.name) != ("output", name):
                target = Buffer("output", value.desc.nbytes, name)
                self.plan.commands.append(Copy(buffer, target, value.desc.nbytes))

    def _make_buffer(self, value: Value) -> Buffer:
        nbytes = value.desc.nbytes
        if value.constant is not None:
            known = self._constants.get(value.constant)
            if known is None:
                known = self._constants[value.constant] = Buffer("constant", nbytes, constant=value.constant)
            return known
        if value.name is not None:
            return Buffer("input", nbytes, value.name)
        name = self._output_names.get(value)
        return Buffer("output", nbytes, name) if name is not None else Buffer("temporary", nbytes)

    def _resolve(self, arg: Arg) -> Buffer:
        if isinstance(arg, Value):
            return self.buffer(arg)
        assert isinstance(arg, Buffer)
        return arg
