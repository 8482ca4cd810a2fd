"""Constant folding: what needs no graph input is computed once, on the device, when the graph is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from webnn_cl.compiler.executable import Executable
from webnn_cl.compiler.ir import Constant, Graph, Node, Value
from webnn_cl.compiler.rewrite import Rewriter
from webnn_cl.opencl.memory import Storage, allocate

if TYPE_CHECKING:
    from webnn_cl.context import MLContext

__all__ = ["fold_constants"]

# Expanding a constant costs memory for good and saves little time; beyond this growth it stays in the graph.
MAX_GROWTH_BYTES = 16 << 20
# Values from this size on are made one by one, when they are packed, unless all of them together are small.
LARGE_BYTES, PIECE_BYTES = 1 << 20, 8 << 20
# Host constants up to this size are told apart by their bytes, others by identity.
SMALL_BYTES = 1024
Compile = Callable[[Graph, "MLContext"], Executable]


def fold_constants(graph: Graph, context: MLContext, compile_: Compile) -> Graph:
    """`graph` with every value that follows from constants alone replaced by a constant in device memory."""
    folded: set[Value] = set()
    for node in graph.nodes:
        if all(v.is_constant or v in folded for v in node.inputs.values()) and not _grows(node):
            folded.update(node.outputs)
    wanted = _boundary(graph, folded)
    if not wanted:
        return graph
    keys = {value: _Key(value) for value in wanted}
    constants = {value: Value(value.desc, constant=c) for value, key in keys.items() if (c := key.known()) is not None}
    missing = [value for value in wanted if value not in constants]
    if missing:
        made = _Maker(context, compile_).constants(missing, {v for v in missing if keys[v].lasts})
        for value, constant in made.items():
            keys[value].remember(constant)
            constants[value] = Value(value.desc, constant=constant)
    return _replace(graph, folded, constants)


class _Key:
    """What a folded value is made of, so that graphs over the same constants share it.

    It is kept with the first constant that lasts, such as a weight that a session shares between its shapes; one
    made of host values alone is made again.
    """

    def __init__(self, value: Value) -> None:
        self._leaves: dict[Constant, None] = {}
        self._text = _structure(value, self._leaves, {})
        self._anchor = next((c for c in self._leaves if c.lasting or c.storage is not None), None)

    @property
    def lasts(self) -> bool:
        """Whether a later graph may find it."""
        return self._anchor is not None

    def known(self) -> Constant | None:
        """The folded value, if some graph has made it."""
        entry = self._anchor.packed.get(("folded", self._text)) if self._anchor is not None else None
        return entry[0] if entry is not None else None

    def remember(self, constant: Constant) -> None:
        """Keep it, and what it is made of: the text names constants by identity."""
        if self._anchor is not None:
            self._anchor.packed["folded", self._text] = (constant, tuple(self._leaves))


def _structure(root: Value, leaves: dict[Constant, None], seen: dict[Value, int]) -> str:
    """Operators, attributes and constants below `root`, each value once."""
    parts: list[str] = []
    stack: list[tuple[Value, bool]] = [(root, False)]
    while stack:
        value, expanded = stack.pop()
        if value in seen:
            continue
        node = value.producer
        if value.constant is not None or node is None:
            assert value.constant is not None
            array = value.constant.array
            small = array is not None and array.nbytes <= SMALL_BYTES
            leaves[value.constant] = None
            seen[value] = len(seen)
            parts.append(f"{value.desc}:{array.tobytes().hex() if array is not None and small else id(value.constant)}")
        elif not expanded:
            stack.append((value, True))
            stack.extend((v, False) for v in node.inputs.values())
        else:
            inputs = ",".join(f"{role}={seen[v]}" for role, v in node.inputs.items())
            seen[value] = len(seen)
            position = node.outputs.index(value)
            parts.append(f"{node.op.name}@{id(node.op)}({inputs};{sorted(node.attrs.items())!r})[{position}]{value.desc}")
    return "|".join(parts)


def _narrow(value: Value) -> Value | None:
    """The float16 constant that `value` is as float32."""
    node = value.producer
    if node is None or node.op.name != "cast" or value.data_type != "float32":
        return None
    source = node.inputs["input"]
    return source if source.is_constant and source.data_type == "float16" else None


def _grows(node: Node) -> bool:
    if _narrow(node.output) is not None:  # only packings of it stay, as a rule
        return False
    before = sum(v.desc.nbytes for v in node.inputs.values())
    after = sum(v.desc.nbytes for v in node.outputs)
    return after - before > MAX_GROWTH_BYTES


def _boundary(graph: Graph, folded: set[Value]) -> list[Value]:
    """Folded values that the rest of the graph reads, or that are outputs."""
    used = [v for n in graph.nodes if n.output not in folded for v in n.inputs.values()]
    return [v for v in dict.fromkeys([*used, *graph.outputs.values()]) if v in folded]


class _Maker:
    """Makes folded values: at once, or when they are packed."""

    def __init__(self, context: MLContext, compile_: Compile) -> None:
        self._context = context
        self._compile = compile_

    def constants(self, wanted: list[Value], lasting: set[Value]) -> dict[Value, Constant]:
        """A constant for each of `wanted`. Those in `lasting` can be made at any time: what they are made of stays."""
        large = {v for v in lasting if v.desc.nbytes >= LARGE_BYTES}
        if sum(v.desc.nbytes for v in large) <= PIECE_BYTES:
            large = set()
        now = [v for v in wanted if v not in large and _narrow(v) is None]
        part = Graph.reachable_from({f"c{k}": v for k, v in enumerate(now)})
        memory = self._computed(part, self._context) if now else {}
        made = {value: memory[name] for name, value in part.outputs.items()}
        return {v: self._constant(v, made.get(v), v in lasting) for v in wanted}

    def _constant(self, value: Value, memory: Any, lasts: bool) -> Constant:
        def remake(context: MLContext) -> Any:
            return self._computed(Graph.reachable_from({"c": value}), context)["c"]

        can = remake if lasts or memory is None else None
        return Constant(storage=memory, folded=True, remake=can, narrow=_narrow(value))

    def _computed(self, part: Graph, context: MLContext) -> dict[str, Any]:
        """Device memory of each output of `part`, which has no inputs."""
        executable = self._compile(part, context)
        memory = {name: allocate(context._cl, value.desc.nbytes) for name, value in part.outputs.items()}
        executable.arrange([("out", name) for name in memory])
        with context._timeline.lock:
            executable.run(context._timeline.queue, [Storage(buffer, buffer.size) for buffer in memory.values()])
            context._timeline.queue.flush()
        return memory


def _replace(graph: Graph, folded: set[Value], constants: dict[Value, Value]) -> Graph:
    rewriter = Rewriter(graph)
    rewriter.new.update(constants)
    for node in graph.nodes:
        if node.output not in folded:
            rewriter.copy(node)
    return rewriter.finish()
