"""Constant folding: what needs no graph input is computed once, on the device, when the graph is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from webnn_cl.compiler.executable import Executable
from webnn_cl.compiler.ir import Constant, Graph, Node, Value
from webnn_cl.compiler.rewrite import Rewriter
from webnn_cl.opencl.memory import allocate

if TYPE_CHECKING:
    from webnn_cl.context import MLContext

__all__ = ["fold_constants"]

# Expanding a constant costs memory for good and saves little time; beyond this growth it stays in the graph.
MAX_GROWTH_BYTES = 16 << 20
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
    constants = _evaluate(wanted, context, compile_)
    return _replace(graph, folded, constants)


def _grows(node: Node) -> bool:
    before = sum(v.desc.nbytes for v in node.inputs.values())
    after = sum(v.desc.nbytes for v in node.outputs)
    return after - before > MAX_GROWTH_BYTES


def _boundary(graph: Graph, folded: set[Value]) -> list[Value]:
    """Folded values that the rest of the graph reads, or that are outputs."""
    used = [v for n in graph.nodes if n.output not in folded for v in n.inputs.values()]
    return [v for v in dict.fromkeys([*used, *graph.outputs.values()]) if v in folded]


def _evaluate(wanted: list[Value], context: MLContext, compile_: Compile) -> dict[Value, Value]:
    part = Graph.reachable_from({f"c{k}": v for k, v in enumerate(wanted)})
    executable = compile_(part, context)
    memory = {name: allocate(context._cl, value.desc.nbytes) for name, value in part.outputs.items()}
    with context._timeline.lock:
        executable.enqueue(context._timeline.queue, {("out", name): buffer for name, buffer in memory.items()})
    return {
        value: Value(value.desc, constant=Constant(storage=memory[name])) for name, value in part.outputs.items()
    }


def _replace(graph: Graph, folded: set[Value], constants: dict[Value, Value]) -> Graph:
    rewriter = Rewriter(graph)
    rewriter.new.update(constants)
    for node in graph.nodes:
        if node.output not in folded:
            rewriter.copy(node)
    return rewriter.finish()
