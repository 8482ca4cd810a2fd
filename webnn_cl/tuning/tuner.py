"""The tuner: times every variant of a workload, trusts only those that agree with the plain kernel."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from webnn_cl.compiler.compile import compile_and_prepare
from webnn_cl.compiler.ir import Constant, Graph, Node, Value
from webnn_cl.dtypes import dtype_of
from webnn_cl.errors import OperationError
from webnn_cl.opencl.memory import Storage, allocate, allocate_from
from webnn_cl.tiles.variants import PLAIN, candidates, default_variant
from webnn_cl.tuning.store import TuningTable, load, workload

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.graph import MLGraph

__all__ = ["Result", "tunable_nodes", "tune"]

ROUNDS = 7
# Each sample runs long enough for the clock and for the cost of waiting not to matter.
SAMPLE_SECONDS = 2e-3
# What a variant must be faster by to replace the default.
MARGIN = 0.05
# Relative to the largest magnitude of the plain kernel's result.
TOLERANCE = {"float32": 5e-5, "float16": 5e-3}


@dataclass
class Result:
    """What the tuner found for one workload: seconds of each variant that was right, and why others were not.

    Without the plain kernel's result nothing can be trusted: `seconds` is empty then, and nothing is remembered.
    """

    work: str
    default: str
    variant: str
    seconds: dict[str, float]
    rejected: dict[str, str] = field(default_factory=dict)


def tunable_nodes(graph: MLGraph) -> list[Node]:
    """One node per distinct workload of `graph` that has variants."""
    executable = graph._executable
    assert executable is not None
    facts = graph.context._facts
    nodes = [c.node for c in executable.commands if c.node is not None]
    unique = {workload(n): n for n in nodes if len(candidates(n, facts)) > 1}
    return list(unique.values())


def tune(
    context: MLContext, nodes: Iterable[Node], progress: Callable[[int, str], None] = lambda done, work: None
) -> Iterator[Result]:
    """Measure each node's variants and remember the winners, one by one; what the table has is not measured again."""
    table = load(context._facts)
    for index, node in enumerate(nodes):
        work = workload(node)
        progress(index, work)
        if table.get(work) is None:
            yield _tune(context, node, work, table)


def _tune(context: MLContext, node: Node, work: str, table: TuningTable) -> Result:
    inputs = _random_inputs(node)
    expected: np.ndarray[Any, Any] | None = None
    running: dict[str, _Trial] = {}
    rejected: dict[str, str] = {}
    for variant in (PLAIN, *(v for v in candidates(node, context._facts) if v != PLAIN)):
        try:
            trial = _Trial(context, node, inputs, variant)
            result = trial.result()
        except OperationError as error:
            rejected[variant] = str(error).splitlines()[0]
            if variant == PLAIN:
                break
            continue
        if expected is None:
            expected = result
        problem = _difference(result, expected)
        if problem is None:
            running[variant] = trial
        else:
            rejected[variant] = problem
    default = default_variant(node, context._facts)
    if not running:
        return Result(work, default, default, {}, rejected)
    seconds = _race(running)
    winner = min(seconds, key=lambda v: seconds[v])
    if default in seconds and seconds[winner] > (1 - MARGIN) * seconds[default]:
        winner = default  # too close to tell on a machine that does other things
    table.put(work, winner, seconds)
    return Result(work, default, winner, seconds, rejected)


def _race(trials: Mapping[str, _Trial]) -> dict[str, float]:
    """Median seconds of each, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in trials}
    for _ in range(ROUNDS):
        for name, trial in trials.items():
            times[name].append(trial.seconds())
    return {name: statistics.median(values) for name, values in times.items()}


def _difference(result: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str | None:
    wanted, got = expected.astype(np.float64), result.astype(np.float64)
    error = float(np.abs(got - wanted).max()) / max(float(np.abs(wanted).max()), 1e-30)
    if error <= TOLERANCE[str(expected.dtype)]:
        return None
    return f"differs from the plain kernel by {error:.1e} of the largest magnitude"


def _random_inputs(node: Node) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return {
        role: rng.standard_normal(value.shape).astype(dtype_of(value.data_type).numpy)
        for role, value in node.inputs.items()
    }


class _Trial:
    """One node alone, compiled with one variant, on its own memory."""

    def __init__(
        self, context: MLContext, node: Node, inputs: Mapping[str, np.ndarray[Any, Any]], variant: str
    ) -> None:
        values = {
            role: Value(v.desc, constant=Constant(inputs[role].copy())) if v.is_constant else Value(v.desc, name=role)
            for role, v in node.inputs.items()
        }
        alone = Node(node.op, values, node.attrs)
        alone.outputs = [Value(v.desc, producer=alone) for v in node.outputs]
        self._output = alone.output.desc
        self._times = 1
        self._queue = context._timeline.queue
        self._lock = context._timeline.lock
        graph = Graph.reachable_from({"y": alone.output})
        self._executable = compile_and_prepare(graph, context, {workload(alone): variant})
        self._executable.arrange([("out", "y"), *(("in", name) for name in graph.inputs)])
        self._memory = [Storage(allocate(context._cl, self._output.nbytes), self._output.nbytes)]
        for name in graph.inputs:
            array = np.ascontiguousarray(inputs[name])
            self._memory.append(Storage(allocate_from(context._cl, array), array.nbytes))

    def _run(self, times: int = 1) -> None:
        with self._lock:
            for _ in range(times):
                self._executable.run(self._queue, self._memory)
            self._queue.finish()

    def result(self) -> np.ndarray[Any, Any]:
        self._run()
        self._times = max(1, round(SAMPLE_SECONDS / self._timed(1)))
        host = np.empty(self._output.shape, dtype_of(self._output.data_type).numpy)
        cl.enqueue_copy(self._queue, host.reshape(-1), self._memory[0].buffer, is_blocking=True)
        return host

    def _timed(self, times: int) -> float:
        start = time.perf_counter()
        self._run(times)
        return time.perf_counter() - start

    def seconds(self) -> float:
        """Mean seconds of one run, over a sample of runs in a row."""
        return self._timed(self._times) / self._times
