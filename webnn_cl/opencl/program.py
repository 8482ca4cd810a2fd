"""Built kernels: what a graph lacks is built in one program, and kept for the process."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Iterable
from dataclasses import dataclass

import pyopencl as cl

from webnn_cl.compiler.kernel import Kernel, program_source
from webnn_cl.errors import OperationError
from webnn_cl.opencl.binary_cache import BinaryCache, cache_folder, driver_caches
from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["STATS", "BuildStats", "build_program", "built_kernels", "make_kernel"]

# Contraction to fused multiply-add is what makes GEMM fast; NaN, infinity and signed zero stay as they are.
OPTIONS = "-cl-std=CL1.2 -cl-mad-enable"


@dataclass
class BuildStats:
    """Counts since the process began: programs given to the OpenCL compiler, and kernels in them."""

    programs_built: int = 0
    kernels_built: int = 0


STATS = BuildStats()
_lock = threading.Lock()
_caches: weakref.WeakKeyDictionary[cl.Context, dict[str, cl.Program]] = weakref.WeakKeyDictionary()


def built_kernels(context: cl.Context, device: cl.Device, kernels: Iterable[Kernel]) -> dict[Kernel, cl.Program]:
    """The program that holds each kernel; those that no earlier call built are built together in one program.

    Raises OperationError with the build log when the compiler refuses the source.
    """
    wanted = list(dict.fromkeys(kernels))
    with _lock:
        cache = _caches.setdefault(context, {})
        suffix = f"@{device.int_ptr}"
        missing = [k for k in wanted if k.key + suffix not in cache]
        for group in _groups(missing):
            program = _cached_program(context, device, program_source(group), len(group))
            cache.update({k.key + suffix: program for k in group})
        return {k: cache[k.key + suffix] for k in wanted}


def _cached_program(context: cl.Context, device: cl.Device, source: str, count: int) -> cl.Program:
    """A program from the disk cache where the driver keeps none, else from the compiler (and counted)."""
    facts = DeviceFacts.of(device)
    folder = None if driver_caches(facts) else cache_folder()
    cache = BinaryCache(folder / "programs") if folder is not None else None
    key = cache.key(facts, source, OPTIONS) if cache is not None else ""
    program = cache.load(key, context, device, OPTIONS) if cache is not None else None
    if program is None:
        program = build_program(context, device, source, OPTIONS)
        STATS.programs_built += 1
        STATS.kernels_built += count
        if cache is not None:
            cache.store(key, program, device)
    return program


def _groups(kernels: list[Kernel]) -> list[list[Kernel]]:
    """One program for all, but for isolated kernels."""
    together = [k for k in kernels if not k.isolated]
    return [*([together] if together else []), *([k] for k in kernels if k.isolated)]


def build_program(context: cl.Context, device: cl.Device, source: str, options: str) -> cl.Program:
    """Build `source` for `device`; OperationError with device and build log on failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compilers' remarks about unused helpers of common.h
        try:
            # PoCL keeps its own cache, and asking it for binaries, as pyopencl's cache does, compiles twice.
            return cl.Program(context, source).build(options=options, devices=[device], cache_dir=False)
        except cl.Error as error:
            raise OperationError(f"{device.name.strip()} can't build the program:\n{_build_log(error)}") from error


def make_kernel(program: cl.Program, kernel: Kernel) -> cl.Kernel:
    """A kernel object of its own; OperationError when the text (a user's) has no kernel of that name."""
    try:
        return cl.Kernel(program, kernel.name)
    except cl.Error as error:
        raise OperationError(f"the program has no kernel called {kernel.name!r}: {error}") from error


def _build_log(error: cl.Error) -> str:
    """The compiler's own words, without pyopencl's frame around them."""
    text = str(error)
    start = text.find("Build on ")
    body = text[text.find("\n", start) :] if start >= 0 else text
    return body.split("\n(options:")[0].strip()
