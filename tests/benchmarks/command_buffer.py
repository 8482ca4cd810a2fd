"""Whether replaying a recorded cl_khr_command_buffer beats enqueueing the same kernels, for each device that has it.

``python -m tests.benchmarks.command_buffer [MODEL ...] [--rounds N]``: chains of kernels, each reading what the one
before wrote, and graphs of models of tests.benchmarks.models, waited for at the end; also two replays in flight over
two enqueues, and by how much each replay lets resident memory grow, per kernel. pyopencl has no wrapper for the
extension, so its functions are called through ctypes. "absent" where a device doesn't have it.
"""

from __future__ import annotations

import argparse
import ctypes
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import webnn_cl
from tests.benchmarks.models import MODELS
from tests.benchmarks.timing import in_turns
from tests.models.packages import member
from webnn_cl.opencl.devices import list_devices

__all__ = ["Recorder", "compare"]

EXTENSION = "cl_khr_command_buffer"
SOURCE = """
kernel void links(global const float* x, global float* y, int count) {
    size_t first = get_global_id(0) * count;
    for (int k = 0; k < count; k++)
        y[first + k] = x[first + k] + 1.0f;
}
"""
# Kernels of a chain, work-groups of a kernel, elements of a work-group.
CHAINS = ((1, 1, 64), (4, 1, 64), (16, 1, 64), (32, 1, 64), (100, 1, 64), (100, 64, 1), (81, 2, 4096))
SIMULTANEOUS_USE = (0x1293, 1, 0)  # CL_COMMAND_BUFFER_FLAGS_KHR, CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, end of list
Step = tuple[Any, Sequence[int], Sequence[int]]
"""A kernel with its arguments, its global and its local size."""
Check = Callable[[Callable[[], None]], None]
_POINTER = ctypes.c_void_p
_NDRANGE = (_POINTER,) * 4 + (ctypes.c_uint,) + (_POINTER,) * 3 + (ctypes.c_uint,) + (_POINTER,) * 3


def loader() -> ctypes.CDLL:
    """The OpenCL loader that pyopencl has loaded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "libOpenCL" in line:
            return ctypes.CDLL(line.split()[-1])
    return ctypes.CDLL(None)


class Recorder:
    """The extension's functions of one platform."""

    def __init__(self, platform: Any) -> None:
        find = loader().clGetExtensionFunctionAddressForPlatform
        find.restype, find.argtypes = _POINTER, (_POINTER, ctypes.c_char_p)

        def function(name: str, result: Any, *arguments: Any) -> Any:
            return ctypes.CFUNCTYPE(result, *arguments)(find(platform.int_ptr, name.encode()))

        number = ctypes.c_int
        self._create = function("clCreateCommandBufferKHR", _POINTER, ctypes.c_uint, *(_POINTER,) * 3)
        self._ndrange = function("clCommandNDRangeKernelKHR", number, *_NDRANGE)
        self._finalize = function("clFinalizeCommandBufferKHR", number, _POINTER)
        self.release = function("clReleaseCommandBufferKHR", number, _POINTER)
        self._enqueue = function(
            "clEnqueueCommandBufferKHR", number, ctypes.c_uint, *(_POINTER,) * 2, ctypes.c_uint, *(_POINTER,) * 2
        )

    def record(self, queue: Any, steps: Sequence[Step]) -> int:
        """A finished command buffer of launches, which may be in flight more than once."""
        queues, error = (_POINTER * 1)(queue.int_ptr), ctypes.c_int(0)
        flags = (ctypes.c_uint64 * 3)(*SIMULTANEOUS_USE)
        made = self._create(1, ctypes.addressof(queues), ctypes.addressof(flags), ctypes.addressof(error))
        _check(error.value)
        for kernel, size, local in steps:
            sizes = [(ctypes.c_size_t * len(extents))(*extents) for extents in (size, local)]
            places = [ctypes.addressof(extents) for extents in sizes]
            _check(self._ndrange(made, None, None, kernel.int_ptr, len(size), None, *places, 0, None, None, None))
        _check(self._finalize(made))
        return int(made)

    def play(self, recorded: int) -> None:
        """Enqueue a recorded buffer on its queue."""
        _check(self._enqueue(0, None, recorded, 0, None, None))


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"the command buffer was refused with status {status}")


@dataclass
class Found:
    """Median seconds of enqueueing and of replaying, two replays over two enqueues, and bytes kept per kernel."""

    enqueued: float
    replayed: float
    two: float
    kept: float

    def __str__(self) -> str:
        return (
            f"enqueued {self.enqueued * 1e6:8.1f} us, replayed {self.replayed * 1e6:8.1f} us, ratio "
            f"{self.replayed / self.enqueued:.2f}, two in flight {self.two:.2f}, {self.kept:.0f} bytes kept per kernel"
        )


def compare(recorder: Recorder, queue: Any, steps: Sequence[Step], rounds: int, check: Check = lambda _: None) -> Found:
    """`steps` enqueued and replayed, in turns; `check` is given both to try their results."""
    recorded = recorder.record(queue, steps)

    def enqueued(times: int = 1) -> None:
        for _ in range(times):
            for step in steps:
                cl.enqueue_nd_range_kernel(queue, *step)
        queue.finish()

    def replayed(times: int = 1) -> None:
        for _ in range(times):
            recorder.play(recorded)
        queue.finish()

    check(enqueued)
    check(replayed)
    calls = {"one": enqueued, "two": lambda: enqueued(2), "one replayed": replayed, "two replayed": lambda: replayed(2)}
    times = in_turns(calls, rounds, warmup=5, settle=0)
    before = _resident()
    for _ in range(rounds):
        replayed()
    kept = (_resident() - before) / rounds / len(steps)
    recorder.release(recorded)
    return Found(times["one"], times["one replayed"], times["two replayed"] / times["two"], kept)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def chains(device: Any, rounds: int) -> None:
    """Print what is found for each chain."""
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    recorder = Recorder(device.platform)
    for length, groups, count in CHAINS:
        memory = [cl.Buffer(context, cl.mem_flags.READ_WRITE, groups * count * 4) for _ in range(2)]
        steps: list[Step] = []
        for index in range(length):
            kernel = cl.Kernel(program, "links")
            kernel.set_args(memory[index % 2], memory[1 - index % 2], np.int32(count))
            steps.append((kernel, (groups,), (1,)))
        check = partial(_check_result, queue, memory=memory, length=length, size=groups * count)
        found = compare(recorder, queue, steps, rounds, check)
        print(f"  {length:3} kernels of {groups:2} x {count:4}: {found}", flush=True)


def models(device: webnn_cl.MLDevice, names: Sequence[str], rounds: int) -> None:
    """Print what is found for the graphs of models; those that copy are left out."""
    with webnn_cl.ML().create_context(device=device) as context:
        for name in names:
            package, path, shapes = MODELS[name]
            session = webnn_cl.onnx.InferenceSession(member(package, path), context, input_shapes=shapes)
            session.run(None, {key: np.zeros(shape, np.float32) for key, shape in shapes.items()})
            executable = session.graph._executable
            assert executable is not None
            steps = [step for step in executable._main._steps if step is not None]
            if len(steps) == len(executable.commands):
                found = compare(Recorder(device.cl_device.platform), context.queue, steps, rounds)
                print(f"  {name}, {len(steps)} kernels: {found}", flush=True)


def _check_result(queue: Any, call: Callable[[], None], *, memory: list[Any], length: int, size: int) -> None:
    host = np.zeros(size, np.float32)
    for buffer in memory:
        cl.enqueue_copy(queue, buffer, host)
    call()
    cl.enqueue_copy(queue, host, memory[length % 2])
    assert (host == length).all(), "a chain gave wrong results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    for device in list_devices():
        print(f"{device.platform}, {device.name}")
        if EXTENSION not in device.extensions:
            print(f"  {EXTENSION}: absent")
            continue
        chains(device.cl_device, options.rounds)
        models(device, options.models, options.rounds)


if __name__ == "__main__":
    main()
