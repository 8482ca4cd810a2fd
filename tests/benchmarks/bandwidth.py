"""Element-wise operators, reductions, softmax, normalization and transposition on 64 MiB, as a share of copy bandwidth.

``python -m tests.benchmarks.bandwidth [NAME ...] [--rounds N] [--json FILE]``. A copy kernel of eight floats a
work-item, measured in the same turns, moves 2 x 64 MiB; an operator's share is its own bytes per second (inputs +
output) over the copy's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
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
# More of these on other shapes and types, as above, with the shape and type of the input: 64 MiB or little less.
SHAPED: dict[str, tuple[tuple[int, ...], str, Callable[[Any, Any], Any]]] = {
    "softmax, 4096 a row": ((4096, 4096), "float32", lambda b, x: b.softmax(x, 1)),
    "softmax, 4 rows": ((4, 1 << 22), "float32", lambda b, x: b.softmax(x, 1)),
    "softmax columns": ((16384, 1024), "float32", lambda b, x: b.softmax(x, 0)),
    "softmax, middle axis": ((64, 256, 1024), "float32", lambda b, x: b.softmax(x, 1)),
    "softmax float16": ((32768, 1024), "float16", lambda b, x: b.softmax(x, 1)),
    "layer_normalization columns": ((16384, 1024), "float32", lambda b, x: b.layer_normalization(x, axes=[0])),
    "layer_normalization, middle axis": ((64, 256, 1024), "float32", lambda b, x: b.layer_normalization(x, axes=[1])),
    "layer_normalization float16": ((32768, 1024), "float16", lambda b, x: b.layer_normalization(x, axes=[1])),
    "instance_normalization nchw": ((16, 64, 128, 128), "float32", lambda b, x: b.instance_normalization(x)),
    "instance_normalization nhwc": (
        (16, 128, 128, 64), "float32", lambda b, x: b.instance_normalization(x, layout="nhwc"),
    ),
    "transpose, odd pitches": ((16383, 1025), "float32", lambda b, x: b.transpose(x)),
    "transpose float16": ((32768, 1024), "float16", lambda b, x: b.transpose(x)),
    "transpose nchw to nhwc": ((16, 64, 128, 128), "float32", lambda b, x: b.transpose(x, permutation=[0, 2, 3, 1])),
    "transpose nhwc to nchw": ((16, 128, 128, 64), "float32", lambda b, x: b.transpose(x, permutation=[0, 3, 1, 2])),
}  # fmt: skip


class Run:
    """One operator on tensors of its own, dispatched and waited for."""

    def __init__(self, context: Any, name: str) -> None:
        b = context.create_graph_builder()
        if name in SHAPED:
            shape, dtype, make = SHAPED[name]
            operand = b.input("x", shape, dtype)
            self.graph, inputs, share = b.build({"z": make(b, operand)}), 1, 1.0
        else:
            inputs, share, build = OPERATORS[name]
            x, y = b.input("x", (ROWS, COLUMNS)), b.input("y", (ROWS, COLUMNS))
            self.graph = b.build({"z": build(b, x, y)})
        self.context = context
        first = self.graph.inputs["x"]
        self.bytes = first.nbytes * (inputs + share)

    def __call__(self) -> None:
        inputs = {name: _input(self.context, name, desc) for name, desc in self.graph.inputs.items()}
        self.context.dispatch(self.graph, inputs, {"z": self._output()})
        self.context.finish()

    def _output(self) -> Any:
        desc = self.graph.outputs["z"]
        key = (desc.shape, desc.data_type)
        if key not in OUTPUTS:
            OUTPUTS[key] = self.context.create_tensor(desc.shape, desc.data_type)
        return OUTPUTS[key]


def _input(context: Any, name: str, desc: Any) -> Any:
    key = (name, desc.shape, desc.data_type)
    if key not in INPUTS:
        tensor = INPUTS[key] = context.create_tensor(desc.shape, desc.data_type, writable=True)
        values = np.random.default_rng(0).uniform(0.1, 2, desc.shape)
        context.write_tensor(tensor, values.astype(desc.data_type))
    return INPUTS[key]


INPUTS: dict[Any, Any] = {}
OUTPUTS: dict[Any, Any] = {}


def run(device: str | None, rounds: int, names: Sequence[str] = (*OPERATORS, *SHAPED)) -> dict[str, Any]:
    """Copy bandwidth in GB/s, and each operator's share of it."""
    with webnn_cl.ML().create_context(device=device) as context:
        kernel = cl.Kernel(cl.Program(context.cl_context, COPY).build(), "copy")
        a, b = (cl.Buffer(context.cl_context, cl.mem_flags.READ_WRITE, NBYTES) for _ in range(2))
        cl.enqueue_fill_buffer(context.queue, a, np.float32(1), 0, NBYTES)
        kernel.set_args(a, b)

        def copy() -> None:
            cl.enqueue_nd_range_kernel(context.queue, kernel, (NBYTES // 32,), (64,))
            context.queue.finish()

        runs = {name: Run(context, name) for name in names}
        times = in_turns({"copy": copy, **runs}, rounds, settle=0)
        base = 2 * NBYTES / times["copy"]
        print(f"  copy {base / 1e9:.1f} GB/s (read + write)")
        shares = {name: runs[name].bytes / times[name] / base for name in runs}
        for name, share in shares.items():
            print(f"  {name:34} {times[name] * 1e3:8.2f} ms  {100 * share:4.0f} % of copy")
        result = {"device": str(context.device), "copy_bytes_per_second": base, "shares": shares}
        for store in (INPUTS, OUTPUTS):
            store.clear()
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*OPERATORS, *SHAPED)))
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    result = run(options.device, options.rounds, options.names or (*OPERATORS, *SHAPED))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
