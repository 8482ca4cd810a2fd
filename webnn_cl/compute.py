"""Running a graph: the enqueue that dispatch() and compute() share, and compute()'s way from host to host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from webnn_cl.arrays import data_for
from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.convert import converted
from webnn_cl.dispatch import Bound, check_graph
from webnn_cl.errors import OperationError, argument_error
from webnn_cl.opencl import fork, transfer
from webnn_cl.opencl.memory import Storage, allocate, allocate_from
from webnn_cl.opencl.timeline import Timeline
from webnn_cl.outputs import target_for

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.graph import MLGraph

__all__ = ["compute", "enqueue_graph"]


def enqueue_graph(timeline: Timeline, graph: MLGraph, inputs: Bound, outputs: Bound) -> None:
    """Submit one run of `graph`; a refusal settles ``graph.lost``. Under the lock."""
    executable = graph._executable
    assert executable is not None
    commands = len(executable.commands) or 1

    def run(queue: Any) -> Any:
        memory = dict(zip(inputs[0], [s.buffer for s in inputs[1]], strict=True))
        memory.update(zip(outputs[0], [s.buffer for s in outputs[1]], strict=True))
        return executable.enqueue(queue, memory)

    try:
        if timeline.run_if_free(run, commands):
            return
        fail = lambda error: graph._end(f"a dispatch failed: {error}")  # noqa: E731
        timeline.submit_locked(inputs[1], outputs[1], run, fail, commands)
    except (OperationError, cl.Error) as error:
        graph._end(f"a dispatch failed: {error}")
        cause = error.__cause__ if isinstance(error, OperationError) else error
        if isinstance(cause, cl.Error):
            raise timeline.failure(cause, error if isinstance(error, OperationError) else None) from cause
        raise


def compute(context: MLContext, graph: MLGraph, inputs: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Write, dispatch and read in one; see ``MLContext.compute``."""
    fork.check()
    check_graph(context, graph, "compute")
    arrays = _arrays(graph.inputs, inputs)
    timeline, unified = context._timeline, context._facts.unified_memory
    timeline.throttle()
    # Memory of this call alone: the inputs arrive with their copies, and no other call can be in the way.
    sources = [Storage(allocate_from(context._cl, a, unified), a.nbytes) for a in arrays.values()]
    targets = {n: Storage(allocate(context._cl, d.nbytes, unified), d.nbytes) for n, d in graph.outputs.items()}
    with timeline.lock:
        check_graph(context, graph, "compute")
        bound_outputs: Bound = ([("out", n) for n in targets], list(targets.values()))
        enqueue_graph(timeline, graph, ([("in", n) for n in arrays], sources), bound_outputs)
        pending = {n: _read(timeline, storage, graph.outputs[n]) for n, storage in targets.items()}
    for read in pending.values():
        transfer.wait_here(read)
    context._check_alive()
    return {name: read.future.result() for name, read in pending.items()}


def _read(timeline: Timeline, storage: Storage, desc: TensorDesc) -> transfer.PendingRead:
    return transfer.read(timeline, storage, desc.nbytes, target_for(None, desc, "compute"), watched=False)


def _arrays(declared: Mapping[str, TensorDesc], given: Any) -> dict[str, np.ndarray[Any, Any]]:
    if not isinstance(given, Mapping) or set(given) != set(declared):
        names = list(given) if isinstance(given, Mapping) else repr(given)
        raise argument_error("compute", "inputs", f"the names {names}", f"exactly the names {list(declared)}")
    result = {}
    for name, desc in declared.items():
        where = f"compute: inputs[{name!r}]"
        result[name] = data_for(converted(given[name], desc, where), desc, where)
    return result
