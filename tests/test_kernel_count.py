"""Few kernels for many nodes: 100 nodes of 20 kinds compile about 20, a second time none, in a new process none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Builds a graph of 100 nodes of 20 kinds twice, and once in a second context, and runs it; prints the kernels built by
# then, each time.
SCRIPT = """
import numpy as np
import webnn_cl
from webnn_cl.opencl.program import STATS

KINDS = [
    lambda b, x: b.add(x, x), lambda b, x: b.exp(x), lambda b, x: b.tanh(x), lambda b, x: b.sqrt(x),
    lambda b, x: b.softmax(x, 1), lambda b, x: b.reduce_sum(x, axes=[1]), lambda b, x: b.reduce_max(x, axes=[1]),
    lambda b, x: b.transpose(x), lambda b, x: b.matmul(x, b.transpose(x)), lambda b, x: b.arg_max(x, 1),
    lambda b, x: b.cumulative_sum(x, 1), lambda b, x: b.pad(x, [1, 1], [1, 1]), lambda b, x: b.tile(x, [2, 2]),
    lambda b, x: b.cast(x, "int32"), lambda b, x: b.layer_normalization(x), lambda b, x: b.concat([x, x], 1),
    lambda b, x: b.triangular(x), lambda b, x: b.gelu(x), lambda b, x: b.greater(x, x), lambda b, x: b.sin(x),
]


def run():
    b = context.create_graph_builder()
    outputs, feeds = {}, {}
    for size in range(5):
        shape = (16 + size, 32 + size)
        feeds[f"x{size}"] = np.ones(shape, np.float32)
        x = b.input(f"x{size}", shape)
        for k, kind in enumerate(KINDS):
            outputs[f"{k} {size}"] = kind(b, x)
    context.compute(b.build(outputs), feeds)
    print(STATS.kernels_built, flush=True)


with webnn_cl.ML().create_context() as context:
    run()
    run()
    with webnn_cl.ML().create_context() as context:
        run()
"""


def _run(folder: Path) -> list[int]:
    """Kernels built after each of the three graphs, in a new process whose caches live in `folder`."""
    caches = {"POCL_CACHE_DIR": str(folder / "pocl"), "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(command, env={**os.environ, **caches}, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


def _objects(folder: Path) -> set[str]:
    """What PoCL compiled: one shared object per kernel and local size."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*.so")}


def test_a_hundred_nodes_of_twenty_kinds(tmp_path: Path, context: Any) -> None:
    first, second, other_context = _run(tmp_path)
    # matmul also transposes; a kind may need a second kernel for its odd sizes, but none per node.
    assert 15 <= first <= 32
    assert second == first, "the same graph again must not compile anything"
    assert other_context == first, "contexts on one device share what is compiled"
    if "Portable Computing Language" not in context.device.platform:
        pytest.skip(f"device {context.device.name}: only PoCL shows, by the files it caches, what a process compiles")
    before = _objects(tmp_path)
    assert before, "PoCL cached nothing: the next line would prove nothing"
    _run(tmp_path)
    assert not _objects(tmp_path) - before, "a new process compiled again"
