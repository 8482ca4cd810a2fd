"""Element-wise operators, reductions, softmax, normalization and transposition on 64 MiB, as a share of copy bandwidth.

``python -m tests.benchmarks.bandwidth [--rounds N] [--json FILE]``. A copy kernel of eight floats a work-item, measured
in the same turns, moves 2 x 64 MiB; an operator's share is its own bytes per second (inputs + output) over the copy's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

import webnn_cl
from tests.benchmarks.timing import in_turns

__all__ = ["OPERATORS", "run"]

ROWS, COLUMNS = 16384, 1024
NBYTES = 4 * ROWS * COLUMNS
COPY = "kernel void copy(global const float8 *x, global float8 *y) { size_t i = get_global_id(0); y[i] = x[i]; }"
# Operator -> (inputs of 64 MiB, output bytes as a share of 64 MiB, how to build it).
OPERATORS: dict[str, tuple[int, float, Callable[[Any, Any, Any], Any]]] = {
    "relu": (1, 1, lambda b, x, y: b.relu(x)),
    "add": (2, 1, lambda b, x, y: b.add(x, y)),
    "add bias": (1, 1, lambda b, x, y: b.add(x, b.constant(np.ones(COLUMNS, np.float32)))),
    "exp": (1, 1, lambda b, x, y: b.exp(x)),
    "tanh": (1, 1, lambda b, x, y: b.tanh(x)),
    "sigmoid": (1, 1, lambda b, x, y: b.sigmoid(x)),
    "gelu": (1, 1, lambda b, x, y: b.gelu(x)),
    "erf": (1, 1, lambda b, x, y: b.erf(x)),
    "pow": (2, 1, lambda b, x, y: b.pow(x, y)),
    "reduce_sum rows": (1, 0, lambda b, x, y: b.reduce_sum(x, axes=[1])),
    "reduce_sum columns": (1, 0, lambda b, x, y: b.reduce_sum(x, axes=[0])),
    "reduce_mean all": (1, 0, lambda b, x, y: b.reduce_mean(x)),
    "reduce_max rows": (1, 0, lambda b, x, y: b.reduce_max(x, axes=[1])),
    "softmax": (1, 1, lambda b, x, y: b.softmax(x, 1)),
    "layer_normalization": (1, 1, lambda b, x, y: b.layer_normalization(x, axes=[1])),
    "transpose": (1, 1, lambda b, x, y: b.transpose(x)),
}


class Run:
    """One operator on tensors of its own, dispatched and waited for."""

    def __init__(self, context: Any, name: str) -> None:
        inputs, share, build = OPERATORS[name]
        b = context.create_graph_builder()
        x, y = b.input("x", (ROWS, COLUMNS)), b.input("y", (ROWS, COLUMNS))
        self.context, self.graph = context, b.build({"z": build(b, x, y)})
        self.bytes = NBYTES * (inputs + share)

    def __call__(self) -> None:
        tensors = {"x": X[self.context], "y": Y[self.context]}
        inputs = {name: tensors[name] for name in self.graph.inputs}
        self.context.dispatch(self.graph, inputs, {"z": self._output()})
        self.context.finish()

    def _output(self) -> Any:
        desc = self.graph.outputs["z"]
        key = (self.context, desc.shape)
        if key not in OUTPUTS:
            OUTPUTS[key] = self.context.create_tensor(desc.shape)
        return OUTPUTS[key]


X: dict[Any, Any] = {}
Y: dict[Any, Any] = {}
OUTPUTS: dict[Any, Any] = {}


def run(device: str | None, rounds: int) -> dict[str, Any]:
    """Copy bandwidth in GB/s, and each operator's share of it."""
    with webnn_cl.ML().create_context(device=device) as context:
        rng = np.random.default_rng(0)
        for tensors in (X, Y):
            tensors[context] = context.create_tensor((ROWS, COLUMNS), writable=True)
            context.write_tensor(tensors[context], rng.uniform(0.1, 2, (ROWS, COLUMNS)).astype(np.float32))
        kernel = cl.Kernel(cl.Program(context.cl_context, COPY).build(), "copy")
        a, b = (cl.Buffer(context.cl_context, cl.mem_flags.READ_WRITE, NBYTES) for _ in range(2))
        cl.enqueue_fill_buffer(context.queue, a, np.float32(1), 0, NBYTES)
        kernel.set_args(a, b)

        def copy() -> None:
            cl.enqueue_nd_range_kernel(context.queue, kernel, (NBYTES // 32,), (64,))
            context.queue.finish()

        runs = {name: Run(context, name) for name in OPERATORS}
        times = in_turns({"copy": copy, **runs}, rounds, settle=0)
        base = 2 * NBYTES / times["copy"]
        print(f"  copy {base / 1e9:.1f} GB/s (read + write)")
        shares = {name: runs[name].bytes / times[name] / base for name in runs}
        for name, share in shares.items():
            print(f"  {name:20} {times[name] * 1e3:8.2f} ms  {100 * share:4.0f} % of copy")
        result = {"device": str(context.device), "copy_bytes_per_second": base, "shares": shares}
        for store in (X, Y, OUTPUTS):
            store.clear()
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    result = run(options.device, options.rounds)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
