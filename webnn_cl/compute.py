"""Running a graph: the enqueue that dispatch() and compute() share, and compute()'s way from host to host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyopencl as cl

from webnn_cl.arrays import data_for
from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.convert import converted
from webnn_cl.dispatch import check_graph
from webnn_cl.errors import OperationError, argument_error
from webnn_cl.opencl import fork, transfer
from webnn_cl.opencl.memory import Storage, allocate, allocate_from
from webnn_cl.opencl.timeline import Timeline
from webnn_cl.outputs import target_for

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.graph import MLGraph
    from webnn_cl.tensor import MLTensor

__all__ = ["compute", "enqueue_graph", "run_here"]

Array = np.ndarray[Any, np.dtype[Any]]


def enqueue_graph(timeline: Timeline, graph: MLGraph, storages: Sequence[Storage]) -> None:
    """Submit one run of `graph` on the memory of its inputs and outputs, in the order that it declares them.

    A refusal settles ``graph.lost``. Under the lock.
    """
    executable = graph._executable
    assert executable is not None

    def run(queue: Any) -> Any:
        return executable.run(queue, storages)

    try:
        if timeline.run_if_free(run, executable.command_count):
            return
        inputs, outputs = storages[: len(graph.inputs)], storages[len(graph.inputs) :]
        fail = lambda error: graph._end(f"a dispatch failed: {error}")  # noqa: E731
        timeline.submit_locked(inputs, outputs, run, fail, executable.command_count)
    except (OperationError, cl.Error) as error:
        _refused(timeline, graph, error)


def _refused(timeline: Timeline, graph: MLGraph, error: OperationError | cl.Error) -> NoReturn:
    graph._end(f"a dispatch failed: {error}")
    cause = error.__cause__ if isinstance(error, OperationError) else error
    if isinstance(cause, cl.Error):
        raise timeline.failure(cause, error if isinstance(error, OperationError) else None) from cause
    raise error


def run_here(
    context: MLContext,
    graph: MLGraph,
    tensors: Sequence[MLTensor],
    sources: Sequence[Array | None],
    targets: Sequence[Array | None],
) -> bool:
    """Write, run and read with one wait; False, and nothing is done, where that is not the way.

    `tensors` are those of the inputs and outputs, in the order that the graph declares them, and belong to the caller
    alone; `sources` and `targets` are packed arrays of their types and shapes, one for each (None: not written, not
    read). Only where device and host share memory, and while no lease is open.
    """
    timeline = context._timeline
    if not context._facts.unified_memory:
        return False
    timeline.throttle()
    copies: list[Any] = []  # dropping the event of a host copy would wait for it

    def run(queue: Any) -> Any:
        storages = [tensor._storage for tensor in tensors]
        for storage, source in zip(storages, sources, strict=True):
            if source is not None:
                copies.append(cl.enqueue_copy(queue, storage.buffer, source, is_blocking=False))
        events = executable.run(queue, storages)  # type: ignore[union-attr]
        for storage, target in zip(storages, targets, strict=True):
            if target is not None:
                copies.append(cl.enqueue_copy(queue, target, storage.buffer, is_blocking=False))
        return events

    with timeline.lock:
        check_graph(context, graph, "run")
        executable = graph._executable
        assert executable is not None
        try:
            if not timeline.run_if_free(run, executable.command_count + len(tensors)):
                return False
        except (OperationError, cl.Error) as error:
            _refused(timeline, graph, error)
    try:
        for copy in reversed(copies):
            copy.wait()
    except cl.Error as error:
        raise timeline.lose_by(error) from error
    context._check_alive()
    return True


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
        enqueue_graph(timeline, graph, [*sources, *targets.values()])
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
