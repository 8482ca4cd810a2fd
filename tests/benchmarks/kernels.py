"""Matrix products and convolutions against numpy, torch, onnxruntime, OpenVINO and the machine's multiply-add peak.

``python -m tests.benchmarks.kernels [NAME ...] [--device TEXT] [--rounds N] [--threads N] [--json FILE]``

Names are those of the table (a part is enough). All candidates take turns in one process with as many threads as the
device has compute units; a turn is a batch of calls with one wait at its end, and counts per call. Where another
process disturbs the machine, believe the ratios. ``--threads 1`` keeps PoCL to one core, too.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.benchmarks.peers import Conv, conv_peers, product_peers
from tests.benchmarks.timing import in_turns

__all__ = ["CONVOLUTIONS", "PRODUCTS", "run"]

# Rows, columns, depth.
PRODUCTS = {
    "gemm 1024": (1024, 1024, 1024),
    "gemm 384x768x3072": (384, 768, 3072),
    "gemm 16x4096x1024": (16, 4096, 1024),
    "gemv 4096": (1, 4096, 4096),
}


@dataclass(frozen=True)
class Shape:
    """A convolution: channels, height and width of the input, outputs, window, stride, padding, groups; or a transposed
    one."""

    channels: int
    size: int
    outputs: int
    window: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    transposed: bool = False


CONVOLUTIONS = {
    "conv 100": Shape(100, 100, 100, 3, padding=1),
    "resnet 7x7 stride 2": Shape(3, 224, 64, 7, stride=2, padding=3),
    "resnet 3x3 64": Shape(64, 56, 64, 3, padding=1),
    "resnet 3x3 128": Shape(128, 28, 128, 3, padding=1),
    "resnet 3x3 256": Shape(256, 14, 256, 3, padding=1),
    "resnet 3x3 512": Shape(512, 7, 512, 3, padding=1),
    "resnet 3x3 stride 2 128": Shape(128, 56, 128, 3, stride=2, padding=1),
    "resnet 3x3 stride 2 512": Shape(512, 14, 512, 3, stride=2, padding=1),
    "resnet 1x1 64-256": Shape(64, 56, 256, 1),
    "resnet 1x1 256-64": Shape(256, 56, 64, 1),
    "resnet 1x1 512-2048": Shape(512, 7, 2048, 1),
    "resnet 1x1 stride 2 256-512": Shape(256, 56, 512, 1, stride=2),
    "mobilenet 3x3 stride 2": Shape(3, 224, 32, 3, stride=2, padding=1),
    "mobilenet 1x1 32-16": Shape(32, 112, 16, 1),
    "mobilenet 1x1 16-96": Shape(16, 112, 96, 1),
    "mobilenet 1x1 144-24": Shape(144, 56, 24, 1),
    "mobilenet 1x1 96-576": Shape(96, 14, 576, 1),
    "mobilenet 1x1 320-1280": Shape(320, 7, 1280, 1),
    "depthwise 32": Shape(32, 112, 32, 3, padding=1, groups=32),
    "depthwise 96 stride 2": Shape(96, 112, 96, 3, stride=2, padding=1, groups=96),
    "depthwise 144": Shape(144, 56, 144, 3, padding=1, groups=144),
    "depthwise 384": Shape(384, 14, 384, 3, padding=1, groups=384),
    "depthwise 960": Shape(960, 7, 960, 3, padding=1, groups=960),
    "depthwise 5x5 240 stride 2": Shape(240, 28, 240, 5, stride=2, padding=2, groups=240),
    "depthwise 5x5 672": Shape(672, 14, 672, 5, padding=2, groups=672),
    "grouped 32 x 4": Shape(128, 56, 128, 3, padding=1, groups=32),
    "grouped 32 x 8 stride 2": Shape(256, 56, 256, 3, stride=2, padding=1, groups=32),
    "grouped 32 x 16": Shape(512, 14, 512, 3, padding=1, groups=32),
    "grouped 2 x 64": Shape(128, 28, 128, 3, padding=1, groups=2),
    "transposed 4x4 stride 2 256": Shape(256, 14, 128, 4, stride=2, padding=1, transposed=True),
    "transposed 4x4 stride 2 64": Shape(64, 56, 32, 4, stride=2, padding=1, transposed=True),
}

PEAK_STEPS = 20_000
PEAK = """
kernel void peak(global float *y, int steps, float s) {
  float8 a = s, b = s + 1, c = s + 2, d = s + 3, e = s + 4, f = s + 5, g = s + 6, h = s + 7;
  float8 i = s + 8, j = s + 9, k = s + 10, l = s + 11;
  const float8 m = s * 0.5f, n = s * 0.25f;
  for (int t = 0; t < steps; t++) {
    a = a * m + n, b = b * m + n, c = c * m + n, d = d * m + n, e = e * m + n, f = f * m + n;
    g = g * m + n, h = h * m + n, i = i * m + n, j = j * m + n, k = k * m + n, l = l * m + n;
  }
  const float8 r = ((a + b) + (c + d)) + ((e + f) + (g + h)) + ((i + j) + (k + l));
  y[get_global_id(0)] = r.s0 + r.s1 + r.s2 + r.s3 + r.s4 + r.s5 + r.s6 + r.s7;
}
"""


class Peak:
    """Multiply-adds in registers on all cores: what no kernel can exceed."""

    def __init__(self, context: Any) -> None:
        import pyopencl as cl

        self.items = 32 * context.device.compute_units
        self.kernel = cl.Program(context.cl_context, PEAK).build("-cl-mad-enable").peak
        self.memory = cl.Buffer(context.cl_context, cl.mem_flags.READ_WRITE, 4 * self.items)
        self.queue, self.launch = context.queue, cl.enqueue_nd_range_kernel
        self.kernel.set_args(self.memory, np.int32(PEAK_STEPS), np.float32(0.5))

    def __call__(self) -> None:
        self.launch(self.queue, self.kernel, (self.items,), (1,))
        self.queue.finish()

    def flops(self) -> float:
        """Of one call."""
        return 2.0 * 12 * 8 * PEAK_STEPS * self.items


class Ours:
    """A graph on tensors of its own."""

    def __init__(
        self, context: Any, inputs: dict[str, np.ndarray], build: Callable[[Any, dict[str, Any]], Any]
    ) -> None:
        builder = context.create_graph_builder()
        operands = {name: builder.input(name, x.shape) for name, x in inputs.items()}
        self.context, self.graph = context, builder.build({"y": build(builder, operands)})
        self.inputs = {name: context.create_tensor(x.shape, writable=True) for name, x in inputs.items()}
        for name, tensor in self.inputs.items():
            context.write_tensor(tensor, inputs[name])
        self.output = {"y": context.create_tensor(self.graph.outputs["y"].shape, readable=True)}

    def __call__(self) -> None:
        self.context.dispatch(self.graph, self.inputs, self.output)

    def result(self) -> np.ndarray:
        return np.asarray(self.context.read_tensor(self.output["y"]))


def product_calls(context: Any, size: Sequence[int], constant: bool) -> dict[str, Any]:
    """Ours and the peers' calls for one product."""
    m, n, k = size
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n)))
    inputs = {"a": a} if constant else {"a": a, "b": b}
    ours = Ours(context, inputs, lambda w, x: w.matmul(x["a"], w.constant(b) if constant else x["b"]))
    ours()
    assert np.abs(ours.result() - a @ b).max() < 1e-5 * k
    return {"ours": ours, **product_peers(a, b, constant, context.device.compute_units)}


def conv_calls(context: Any, shape: Shape) -> dict[str, Any]:
    """Ours in both layouts and the peers' calls for one convolution with bias and relu."""
    rng = np.random.default_rng(0)
    taps = (shape.outputs, shape.channels // shape.groups, shape.window, shape.window)
    if shape.transposed:
        taps = (shape.channels, shape.outputs // shape.groups, *taps[2:])
    x = rng.standard_normal((1, shape.channels, shape.size, shape.size)).astype(np.float32)
    w = (rng.standard_normal(taps) / np.sqrt(shape.channels // shape.groups * shape.window**2)).astype(np.float32)
    bias = rng.standard_normal(shape.outputs).astype(np.float32)
    calls: dict[str, Any] = {}
    for layout, order in (("nchw", (0, 1, 2, 3)), ("nhwc", (0, 2, 3, 1))):
        options = {"strides": [shape.stride] * 2, "padding": [shape.padding] * 4, "groups": shape.groups}

        def build(b: Any, operands: dict[str, Any], layout: str = layout, options: Any = options) -> Any:
            conv = b.conv_transpose2d if shape.transposed else b.conv2d
            y = conv(operands["x"], b.constant(w), bias=b.constant(bias), input_layout=layout, **options)
            return b.relu(y)

        calls[f"ours {layout}"] = Ours(context, {"x": np.ascontiguousarray(x.transpose(order))}, build)
        calls[f"ours {layout}"]()
    first, second = calls["ours nchw"].result(), calls["ours nhwc"].result()
    assert np.abs(first - second.transpose(0, 3, 1, 2)).max() < 1e-4 * np.abs(first).max()
    conv = Conv(x, w, bias, shape.stride, shape.padding, shape.groups, shape.transposed)
    return calls | conv_peers(conv, context.device.compute_units)


def flops_of(shape: Shape) -> float:
    """Multiplications and additions of the direct way, bias and relu left out."""
    size = (shape.size + 2 * shape.padding - shape.window) // shape.stride + 1
    if shape.transposed:
        size = shape.size
    return 2.0 * size**2 * shape.outputs * shape.channels // shape.groups * shape.window**2


def measure(context: Any, calls: dict[str, Any], rounds: int) -> dict[str, float]:
    """Median seconds of one call, measured in batches of about 5 ms that take turns; "peak" among them."""
    peak = Peak(context)
    batches: dict[str, Callable[[], object]] = {"peak": peak}
    counts = {"peak": 1}
    for name, call in calls.items():
        wait = context.finish if name.startswith("ours") else None
        counts[name] = _batch(call, wait)
        batches[name] = _repeat(call, counts[name], wait)
    return {name: seconds / counts[name] for name, seconds in in_turns(batches, rounds).items()}


def _repeat(call: Callable[[], object], count: int, wait: Callable[[], object] | None) -> Callable[[], object]:
    def batch() -> None:
        for _ in range(count):
            call()
        if wait is not None:
            wait()

    return batch


def _batch(call: Callable[[], object], wait: Callable[[], object] | None, seconds: float = 0.005) -> int:
    once = _repeat(call, 1, wait)
    once()
    start = time.perf_counter()
    once()
    return max(1, min(50, round(seconds / max(time.perf_counter() - start, 1e-6))))


def row(context: Any, name: str, calls: dict[str, Any], flops: float, rounds: int) -> dict[str, Any]:
    """Measure one line of the table and print it."""
    times = measure(context, calls, rounds)
    peak = Peak(context).flops() / times.pop("peak")
    others = {n: t for n, t in times.items() if not n.startswith("ours")}
    best = min(others, key=lambda n: others[n])
    found = {"name": name, "ms": {n: t * 1e3 for n, t in times.items()}, "best_peer": best, "peak_gflops": peak / 1e9}
    found["ratio"] = {n: t / others[best] for n, t in times.items() if n.startswith("ours")}
    found["share_of_peak"] = {n: flops / t / peak for n, t in times.items() if n.startswith("ours")}
    ours = "  ".join(
        f"{n} {times[n] * 1e3:8.3f} ms {100 * found['share_of_peak'][n]:4.0f} % ratio {found['ratio'][n]:.2f}"
        for n in found["ratio"]
    )
    print(f"  {name:28} {ours}  | " + ", ".join(f"{n} {t * 1e3:.3f}" for n, t in others.items()), flush=True)
    return found


def run(names: Sequence[str], device: str | None, rounds: int) -> dict[str, Any]:
    """All lines whose name contains one of `names` (all without names)."""
    import webnn_cl

    rows = []
    with webnn_cl.ML().create_context(device=device) as context:
        print(f"{context.device}: times in ms; ratio: ours over the best of the others; %: of the multiply-add peak")
        wanted = [n for n in (*PRODUCTS, *CONVOLUTIONS) if not names or any(part in n for part in names)]
        for name in wanted:
            if name in PRODUCTS:
                flops = 2.0 * np.prod(PRODUCTS[name])
                for constant, suffix in ((True, ", constant B"), (False, ", both inputs")):
                    calls = product_calls(context, PRODUCTS[name], constant)
                    rows.append(row(context, name + suffix, calls, flops, rounds))
            else:
                shape = CONVOLUTIONS[name]
                rows.append(row(context, name, conv_calls(context, shape), flops_of(shape), rounds))
        return {"device": str(context.device), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--threads", type=int, help="of PoCL; read before the first OpenCL call")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.threads:
        os.environ["POCL_MAX_PTHREAD_COUNT"] = str(options.threads)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, str(options.threads or os.cpu_count()))
    result = run(options.names, options.device, options.rounds)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
