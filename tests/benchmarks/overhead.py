"""What a dispatch costs beyond its kernels, and what starting costs.

``python -m tests.benchmarks.overhead [--rounds N] [--json FILE]``: a chain of 100 kernels and one tiny graph against
raw enqueues of the same kernels; import, context, build and first run of a recognition network in a new process, cold
(empty caches of the driver and of webnn_cl; Python's files are compiled, as an installer leaves them) and warm.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyopencl as cl

import webnn_cl
from tests.benchmarks.timing import in_turns
from tests.models.packages import RAPIDOCR, member

__all__ = ["dispatch", "startup"]

ROOT = Path(__file__).resolve().parents[2]
IMPORTS = "import numpy, pyopencl, webnn_cl, webnn_cl.onnx, webnn_cl.interop.custom_op"
START = """
import sys, time
start = time.perf_counter()
import numpy as np, webnn_cl
x = np.zeros((1, 3, 48, 320), np.float32)
session = webnn_cl.onnx.InferenceSession(sys.argv[1], input_shapes={"x": x.shape})
session.run(None, {"x": x})
from webnn_cl.opencl.program import STATS
print(time.perf_counter() - start, STATS.kernels_built)
"""


def dispatch(device: str | None, rounds: int) -> dict[str, float]:
    """Ratios to raw enqueues: a chain of 100 kernels that can't be fused, and one tiny graph, each waited for."""
    with webnn_cl.ML().create_context(device=device) as context:
        b = context.create_graph_builder()
        step = webnn_cl.CustomOp("step", inputs=("x",), outputs=("y",), body="y[i] = x[i] + 1.0f;")
        value = b.input("x", (64,))
        for _ in range(100):
            value = b.custom_op(step, value)  # users' kernels: nothing can be fused
        chain = b.build({"y": value})
        b = context.create_graph_builder()
        tiny = b.build({"y": b.relu(b.input("x", (64,)))})
        x, y = context.create_tensor((64,)), context.create_tensor((64,))
        context.dispatch(chain, {"x": x}, {"y": y})
        context.dispatch(tiny, {"x": x}, {"y": y})
        context.finish()

        def raw(graph: Any) -> Any:
            steps = graph._executable._main._steps

            def call() -> None:
                for step in steps:
                    cl.enqueue_nd_range_kernel(context.queue, *step)
                context.queue.finish()

            return call

        def ours(graph: Any) -> Any:
            def call() -> None:
                context.dispatch(graph, {"x": x}, {"y": y})
                context.finish()

            return call

        calls = {
            "chain raw": raw(chain), "chain": ours(chain), "tiny raw": raw(tiny), "tiny": ours(tiny),
        }  # fmt: skip
        times = in_turns(calls, rounds, warmup=20, settle=0)
    for name, seconds in times.items():
        print(f"  {name:10} {seconds * 1e6:8.1f} us")
    result = {"chain": times["chain"] / times["chain raw"], "tiny": times["tiny"] / times["tiny raw"]}
    print(f"  chain of 100: {result['chain']:.2f} x raw; tiny graph: {result['tiny']:.2f} x raw")
    return result


def startup() -> dict[str, dict[str, float]]:
    """Seconds and kernels built, cold and warm, each in a process of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        model.write_bytes(member(RAPIDOCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"))
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
            "POCL_CACHE_DIR": f"{folder}/pocl", "WEBNN_CL_CACHE": f"{folder}/webnn_cl",
        }  # fmt: skip
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # What an installer does: without it, "cold" would compile Python's files as well.
        everything = f"{IMPORTS}; import onnx.reference"
        subprocess.run([sys.executable, "-W", "ignore", "-c", everything], env=environment, check=True)
        for kind in ("cold", "warm", "warm again"):
            command = [sys.executable, "-W", "ignore", "-c", START, str(model)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            seconds, kernels = done.stdout.split()
            found[kind] = {"seconds": float(seconds), "kernels": float(kernels)}
            print(f"  start {kind}: {float(seconds):.2f} s, {kernels} kernels given to the compiler", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    result = {"dispatch": dispatch(options.device, options.rounds), "startup": startup()}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()

