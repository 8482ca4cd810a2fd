"""Whether replaying a recorded cl_khr_command_buffer beats enqueueing the same kernels, for each device that has it.

``python -m tests.benchmarks.command_buffer [--rounds N]``: chains of kernels, each reading what the one before wrote,
waited for at the end. pyopencl has no wrapper for the extension, so its functions are called through ctypes. "absent"
where a device doesn't have it.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from tests.benchmarks.timing import in_turns
from webnn_cl.opencl.devices import list_devices

__all__ = ["compare"]

EXTENSION = "cl_khr_command_buffer"
SOURCE = """
kernel void links(global const float* x, global float* y, int count) {
    size_t first = get_global_id(0) * count;
    for (int k = 0; k < count; k++)
        y[first + k] = x[first + k] + 1.0f;
}
"""
# Kernels of a chain, work-groups of a kernel, elements of a work-group.
CHAINS = ((1, 1, 64), (6, 1, 64), (100, 1, 64), (100, 64, 1), (81, 2, 4096))
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

    def record(self, queue: Any, steps: list[tuple[Any, int]]) -> int:
        """A finished command buffer of 1-D launches, one work-item a group."""
        queues, error = (_POINTER * 1)(queue.int_ptr), ctypes.c_int(0)
        made = self._create(1, ctypes.addressof(queues), None, ctypes.addressof(error))
        _check(error.value)
        for kernel, groups in steps:
            size, local = (ctypes.c_size_t * 1)(groups), (ctypes.c_size_t * 1)(1)
            sizes = None, ctypes.addressof(size), ctypes.addressof(local)
            _check(self._ndrange(made, None, None, kernel.int_ptr, 1, *sizes, 0, None, None, None))
        _check(self._finalize(made))
        return int(made)

    def play(self, recorded: int) -> None:
        """Enqueue a recorded buffer on its queue."""
        _check(self._enqueue(0, None, recorded, 0, None, None))


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"the command buffer was refused with status {status}")


def compare(device: Any, rounds: int) -> list[tuple[float, float]]:
    """Median seconds of each chain, enqueued and replayed; the results of both are checked."""
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    recorder, found = Recorder(device.platform), []
    for length, groups, count in CHAINS:
        memory = [cl.Buffer(context, cl.mem_flags.READ_WRITE, groups * count * 4) for _ in range(2)]
        steps = []
        for index in range(length):
            kernel = cl.Kernel(program, "links")
            kernel.set_args(memory[index % 2], memory[1 - index % 2], np.int32(count))
            steps.append((kernel, groups))
        recorded = recorder.record(queue, steps)

        def enqueued(steps: list[tuple[Any, int]] = steps) -> None:
            for kernel, groups in steps:
                cl.enqueue_nd_range_kernel(queue, kernel, (groups,), (1,))
            queue.finish()

        def replayed(recorded: int = recorded) -> None:
            recorder.play(recorded)
            queue.finish()

        for call in (enqueued, replayed):
            _check_result(queue, call, memory, length, groups * count)
        times = in_turns({"enqueued": enqueued, "replayed": replayed}, rounds, warmup=5, settle=0)
        found.append((times["enqueued"], times["replayed"]))
        recorder.release(recorded)
    return found


def _check_result(queue: Any, call: Callable[[], None], memory: list[Any], length: int, size: int) -> None:
    host = np.zeros(size, np.float32)
    for buffer in memory:
        cl.enqueue_copy(queue, buffer, host)
    call()
    cl.enqueue_copy(queue, host, memory[length % 2])
    assert (host == length).all(), "a chain gave wrong results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    for device in (one.cl_device for one in list_devices()):
        print(f"{device.platform.name}, {device.name}")
        if EXTENSION not in device.extensions.split():
            print(f"  {EXTENSION}: absent")
            continue
        for chain, (enqueued, replayed) in zip(CHAINS, compare(device, options.rounds), strict=True):
            length, groups, count = chain
            print(
                f"  {length:3} kernels of {groups:2} x {count:4}: enqueued {enqueued * 1e6:8.1f} us, replayed "
                f"{replayed * 1e6:8.1f} us, ratio {replayed / enqueued:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
