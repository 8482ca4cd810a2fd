"""The four-path experiment that started WebNN's buffer sharing, and the same over two devices.

Convolution 3x3, 100 -> 100 channels, on 1x100x100x100 NHWC float32, stride 1, same padding; then bias add; then relu;
the result is read back each time.

1. all three in user kernels          2. convolution in WebNN, its result over the host to a user kernel and back
3. convolution in WebNN, add + relu in a user kernel on the shared buffer      4. all in WebNN

``python -m tests.benchmarks.buffer_sharing [--device TEXT] [--second TEXT] [--rounds N] [--json FILE]`` prints medians,
taken in turns, as ratios to path 4. ``--second`` gives the convolution of paths 2 and 3 to another device.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

import webnn_cl

SIZE, CHANNELS = 100, 100
SHAPE = (1, SIZE, SIZE, CHANNELS)
BLOCKS = -(-CHANNELS // 8)
# Five pixels by eight output channels per work-item, over an image with a border of zeros and weights packed as
# [3][3][in][out, a multiple of 8]: a decent kernel, not a tuned one.
USER_KERNELS = """
#define PIXELS 5
#define WIDTH (SIZE + 2)
kernel void convolve(global const float *x, global const float *w, global float *y) {
  const size_t block = get_global_id(0), column = get_global_id(1) * PIXELS, row = get_global_id(2);
  float8 s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f, s4 = 0.0f;
  for (size_t kr = 0; kr < 3; kr++)
    for (size_t kc = 0; kc < 3; kc++) {
      global const float *pixel = x + ((row + kr) * WIDTH + column + kc) * CHANNELS;
      global const float8 *tap = (global const float8 *)w + (kr * 3 + kc) * CHANNELS * BLOCKS + block;
      for (size_t i = 0; i < CHANNELS; i++) {
        const float8 weight = tap[i * BLOCKS];
        s0 += pixel[i] * weight;
        s1 += pixel[i + CHANNELS] * weight;
        s2 += pixel[i + 2 * CHANNELS] * weight;
        s3 += pixel[i + 3 * CHANNELS] * weight;
        s4 += pixel[i + 4 * CHANNELS] * weight;
      }
    }
  float8 sums[PIXELS] = {s0, s1, s2, s3, s4};
  for (size_t p = 0; p < PIXELS; p++) {
    float lanes[8] = {sums[p].s0, sums[p].s1, sums[p].s2, sums[p].s3, sums[p].s4, sums[p].s5, sums[p].s6, sums[p].s7};
    for (size_t k = 0; k < 8 && block * 8 + k < CHANNELS; k++)
      y[(row * SIZE + column + p) * CHANNELS + block * 8 + k] = lanes[k];
  }
}
kernel void add_bias(global float *y, global const float *bias) {
  const size_t i = get_global_id(0);
  y[i] += bias[i % CHANNELS];
}
kernel void relu(global float *y) {
  const size_t i = get_global_id(0);
  y[i] = fmax(y[i], 0.0f);
}
kernel void add_bias_relu(global float *y, global const float *bias) {
  const size_t i = get_global_id(0);
  y[i] = fmax(y[i] + bias[i % CHANNELS], 0.0f);
}
"""


class Experiment:
    """The data, and one method per path that returns the result on the host."""

    def __init__(self, device: str | None = None, second: str | None = None) -> None:
        self.context = webnn_cl.ML().create_context(device=device)
        self.convolver = self.context if second is None else webnn_cl.ML().create_context(device=second)
        rng = np.random.default_rng(1)
        self.image = rng.standard_normal(SHAPE).astype(np.float32)
        self.weights = (rng.standard_normal((CHANNELS, 3, 3, CHANNELS)) / 30).astype(np.float32)  # ohwi
        self.bias = rng.standard_normal(CHANNELS).astype(np.float32)
        self._user()
        self._webnn()

    def _user(self) -> None:
        context, options = self.context, [f"-DSIZE={SIZE}", f"-DCHANNELS={CHANNELS}"]
        program = cl.Program(context.cl_context, USER_KERNELS).build([*options, f"-DBLOCKS={BLOCKS}", "-cl-mad-enable"])
        names = ("convolve", "add_bias", "relu", "add_bias_relu")
        self.kernels = {name: cl.Kernel(program, name) for name in names}
        copy = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        packed = np.pad(self.weights.transpose(1, 2, 3, 0), [(0, 0)] * 3 + [(0, 8 * BLOCKS - CHANNELS)])
        bordered = np.pad(self.image, [(0, 0), (1, 1), (1, 1), (0, 0)])
        self.cl_image = cl.Buffer(context.cl_context, copy, hostbuf=bordered)
        self.cl_weights = cl.Buffer(context.cl_context, copy, hostbuf=np.ascontiguousarray(packed))
        self.cl_bias = cl.Buffer(context.cl_context, copy, hostbuf=self.bias)
        self.cl_result = cl.Buffer(context.cl_context, cl.mem_flags.READ_WRITE, self.image.nbytes)

    def _graph(self, context: Any, whole: bool) -> Any:
        b = context.create_graph_builder()
        bias = {"bias": b.constant(self.bias)} if whole else {}
        y = b.conv2d(
            b.input("x", SHAPE), b.constant(self.weights), padding=[1, 1, 1, 1], input_layout="nhwc",
            filter_layout="ohwi", **bias,
        )  # fmt: skip
        return b.build({"y": b.relu(y) if whole else y})

    def _webnn(self) -> None:
        self.whole = self._graph(self.context, True)
        self.convolution = self._graph(self.convolver, False)
        self.source = self.context.create_tensor(SHAPE, writable=True)
        self.source_there = self.convolver.create_tensor(SHAPE, writable=True)
        self.context.write_tensor(self.source, self.image)
        self.convolver.write_tensor(self.source_there, self.image)
        self.convolved = self.convolver.create_tensor(SHAPE, readable=True, exportable=True)
        self.result = self.context.create_tensor(SHAPE, readable=True, exportable=True)

    def all_in_user_kernels(self) -> Any:
        queue, n = self.context.queue, SIZE * SIZE * CHANNELS
        self._run(queue, "convolve", (BLOCKS, SIZE // 5, SIZE), self.cl_image, self.cl_weights, self.cl_result)
        self._run(queue, "add_bias", (n,), self.cl_result, self.cl_bias)
        self._run(queue, "relu", (n,), self.cl_result)
        return self._read(queue)

    def over_the_host(self) -> Any:
        self.convolver.dispatch(self.convolution, {"x": self.source_there}, {"y": self.convolved})
        host = self.convolver.read_tensor(self.convolved)
        queue = self.context.queue
        cl.enqueue_copy(queue, self.cl_result, host)
        self._run(queue, "add_bias_relu", (host.size,), self.cl_result, self.cl_bias)
        return self._read(queue)

    def on_the_shared_buffer(self) -> Any:
        self.convolver.dispatch(self.convolution, {"x": self.source_there}, {"y": self.convolved})
        target = self.convolved
        if self.convolver is not self.context:
            target = self.result
            self.context.copy_tensor(self.convolved, target)
        with self.context.export_tensor(target) as lease:
            self._run(lease.queue, "add_bias_relu", (self.image.size,), lease.buffer, self.cl_bias)
        return self.context.read_tensor(target)

    def all_in_webnn(self) -> Any:
        self.context.dispatch(self.whole, {"x": self.source}, {"y": self.result})
        return self.context.read_tensor(self.result)

    @property
    def paths(self) -> dict[str, Callable[[], Any]]:
        return {
            "1 all in user kernels": self.all_in_user_kernels,
            "2 over the host": self.over_the_host,
            "3 on the shared buffer": self.on_the_shared_buffer,
            "4 all in WebNN": self.all_in_webnn,
        }

    def user_kernel_alone(self) -> None:
        """The user's part of path 3, waited for."""
        self._run(self.context.queue, "add_bias_relu", (self.image.size,), self.cl_result, self.cl_bias)
        self.context.queue.finish()

    def _run(self, queue: Any, name: str, size: tuple[int, ...], *args: Any) -> None:
        kernel = self.kernels[name]
        kernel.set_args(*args)
        local = (1, 1, 1) if len(size) == 3 else (100,)
        cl.enqueue_nd_range_kernel(queue, kernel, size, local)

    def _read(self, queue: Any) -> Any:
        host = np.empty(SHAPE, np.float32)
        cl.enqueue_copy(queue, host, self.cl_result)
        return host


def measure(experiment: Experiment, rounds: int) -> dict[str, float]:
    """Median seconds of each path, taken in turns."""
    calls: dict[str, Callable[[], Any]] = {**experiment.paths, "user kernel alone": experiment.user_kernel_alone}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 2):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn >= 2:  # the first turns compile
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="text, index or name of the device (default: the best)")
    parser.add_argument("--second", help="a device for the convolution of paths 2 and 3")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    experiment = Experiment(options.device, options.second)
    times = measure(experiment, options.rounds)
    base = times["4 all in WebNN"]
    print(f"{experiment.context.device}, convolution of 2 and 3 on {experiment.convolver.device}")
    for name, seconds in times.items():
        print(f"  {name:24} {seconds * 1e3:8.2f} ms   {seconds / base:6.2f} x path 4")
    bound = 1.1 * (base + times["user kernel alone"])
    print(f"  path 3 / 1.1 (path 4 + user kernel): {times['3 on the shared buffer'] / bound:.2f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": str(experiment.context.device), "seconds": times}, file, indent=1)


if __name__ == "__main__":
    main()
