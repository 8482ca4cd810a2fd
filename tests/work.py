"""Helpers of the timeline's tests: small graphs, kernels that take long, threads that report what they raised."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import webnn_cl

ROOT = Path(__file__).resolve().parent.parent

SPIN = """
kernel void spin(global float *out, const long rounds) {
    float x = out[0];
    for (long i = 0; i < rounds; ++i) x = x * 0.999f + 0.001f;
    if (x == 12345.0f) out[0] = x;
}
kernel void twice(global float *x) { x[get_global_id(0)] *= 2.0f; }
kernel void set(global float *x, const float value) { x[get_global_id(0)] = value; }
"""


class Kernels:
    """User-written kernels for one pyopencl.Context."""

    def __init__(self, cl_context: Any) -> None:
        program = cl.Program(cl_context, SPIN).build()
        self.spin_kernel, self.twice_kernel, self.set_kernel = (
            cl.Kernel(program, name) for name in ("spin", "twice", "set")
        )
        self.memory = cl.Buffer(cl_context, cl.mem_flags.READ_WRITE, 64)
        self.rate = 0.0

    def spin(self, queue: Any, seconds: float) -> Any:
        """Keep the device of `queue` busy for about `seconds`; the event."""
        if not self.rate:
            self.rate = self._measure(queue)
        return self._spin(queue, int(seconds * self.rate))

    def _spin(self, queue: Any, rounds: int) -> Any:
        self.spin_kernel.set_args(self.memory, np.int64(rounds))
        event = cl.enqueue_nd_range_kernel(queue, self.spin_kernel, (1,), (1,))
        queue.flush()
        return event

    def _measure(self, queue: Any) -> float:
        self._spin(queue, 1000).wait()
        rounds = 1 << 20
        start = time.perf_counter()
        self._spin(queue, rounds).wait()
        return rounds / (time.perf_counter() - start)

    def twice(self, queue: Any, buffer: Any, count: int) -> Any:
        """Double `count` floats of `buffer`."""
        self.twice_kernel.set_args(buffer)
        return cl.enqueue_nd_range_kernel(queue, self.twice_kernel, (count,), (1,))

    def set(self, queue: Any, buffer: Any, count: int, value: float) -> Any:
        """Set `count` floats of `buffer`."""
        self.set_kernel.set_args(buffer, np.float32(value))
        return cl.enqueue_nd_range_kernel(queue, self.set_kernel, (count,), (1,))


def tensor(
    context: webnn_cl.MLContext, data: Any = None, shape: Any = (1,), data_type: str = "float32", **flags: bool
) -> webnn_cl.MLTensor:
    """A readable and writable tensor, holding `data` when given (a number fills it)."""
    made = context.create_tensor(shape, data_type, **{"readable": True, "writable": True, **flags})
    if data is not None:
        context.write_tensor(made, np.broadcast_to(np.asarray(data, data_type), shape))
    return made


def affine(context: webnn_cl.MLContext, factor: float, shape: Any = (1,), offset: float = 0.0) -> webnn_cl.MLGraph:
    """The graph y = x * factor (+ offset)."""
    builder = context.create_graph_builder()
    y = builder.mul(builder.input("x", shape), builder.constant(factor, data_type="float32"))
    if offset:
        y = builder.add(y, builder.constant(offset, data_type="float32"))
    return builder.build({"y": y})


def binary(context: webnn_cl.MLContext, operator: str, shape: Any) -> webnn_cl.MLGraph:
    """The graph of WPT's dispatch tests: output1 = output2 = operator(lhs, rhs)."""
    builder = context.create_graph_builder()
    lhs, rhs = builder.input("lhs", shape), builder.input("rhs", shape)
    call = getattr(builder, operator)
    return builder.build({"output1": call(lhs, rhs), "output2": call(lhs, rhs)})


def in_threads(count: int, work: Callable[[int], None], timeout: float = 120.0) -> None:
    """Run ``work(index)`` on `count` threads at once; raises what one of them raised, fails when one hangs."""
    errors: list[BaseException] = []

    def run(index: int) -> None:
        try:
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def python(code: str, timeout: float = 120.0, **environment: str) -> str:
    """What a fresh Python process prints for `code`; fails with its stderr when it fails."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def until(condition: Callable[[], bool], timeout: float = 60.0) -> None:
    """Wait for `condition` to become true."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "the condition never became true"
        time.sleep(0.002)


def read_zero() -> float:
    """A whole use of the library, for child processes: 0.0."""
    with webnn_cl.ML().create_context() as context:
        return float(context.read_tensor(context.create_tensor([], readable=True)))
