"""DeviceFacts: what the compiler may ask about a device, read once from the OpenCL runtime."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

__all__ = ["PRECISIONS", "DeviceFacts", "ask", "device_type"]

PRECISIONS = ("fast", "exact")

_TYPES = ((4, "gpu"), (8, "accelerator"), (2, "cpu"), (16, "custom"))  # CL_DEVICE_TYPE_* bits


def ask(device: Any, name: str, default: Any) -> Any:
    """One property of a device or platform; `default` when the runtime refuses to answer or answers nothing."""
    try:
        value = getattr(device, name)
    except (cl.Error, AttributeError, ValueError):
        return default
    return default if value is None else value


def device_type(device: Any) -> str:
    """``"gpu"``, ``"cpu"``, ``"accelerator"``, ``"custom"``; several joined by ``+`` when the device claims several."""
    bits = int(ask(device, "type", 0))
    return "+".join(name for bit, name in _TYPES if bits & bit) or "unknown"


def _takes_cpu_kernels(kind: str) -> bool:
    given = os.environ.get("WEBNN_CL_KERNELS", "").lower()
    return given == "cpu" if given in ("cpu", "gpu") else "cpu" in kind.split("+")


def _group_multiple(device: Any) -> int:
    """OpenCL 3.0 tells, vendors' extensions did before; what a kernel would tell is only known once it is built."""
    names = ("preferred_work_group_size_multiple", "warp_size_nv", "wavefront_width_amd")
    return next((n for name in names if (n := int(ask(device, name, 0))) > 0), 32)


@dataclass(frozen=True)
class DeviceFacts:
    """Facts about one OpenCL device; a number the runtime reports as 0 means unknown.

    `is_cpu` is true when the device counts itself among the CPUs (simulators may claim more types at once); it
    chooses the family of kernels, and WEBNN_CL_KERNELS=cpu or =gpu overrules it.
    `mem_base_align_bytes` is the alignment that an offset into a buffer needs to become a sub-buffer.
    `group_multiple` is the number of work-items that execute together (a warp, a wavefront, a subgroup).
    `key` is a stable text of platform, device and driver version, for caches and tuning tables.
    `precision` is no fact of the device but what the context was asked for: one of PRECISIONS.
    """

    name: str
    vendor: str
    platform: str
    driver_version: str
    type: str
    is_cpu: bool
    has_fp16: bool
    has_fp64: bool
    unified_memory: bool
    compute_units: int
    max_work_group_size: int
    local_memory_bytes: int
    global_memory_bytes: int
    max_alloc_bytes: int
    mem_base_align_bytes: int
    native_float_lanes: int
    clock_mhz: int
    opencl_c_version: str
    extensions: frozenset[str]
    key: str
    group_multiple: int = 32
    precision: str = "fast"

    @classmethod
    def of(cls, device: Any) -> DeviceFacts:
        """The facts of a pyopencl.Device."""
        platform = ask(device, "platform", None)
        names = (
            str(ask(platform, "name", "")).strip(),
            str(ask(device, "name", "")).strip(),
            str(ask(device, "driver_version", "")).strip(),
        )
        extensions = frozenset(str(ask(device, "extensions", "")).split())
        kind = device_type(device)
        return cls(
            name=names[1],
            vendor=str(ask(device, "vendor", "")).strip(),
            platform=names[0],
            driver_version=names[2],
            type=kind,
            is_cpu=_takes_cpu_kernels(kind),
            has_fp16="cl_khr_fp16" in extensions,
            has_fp64="cl_khr_fp64" in extensions,
            unified_memory=bool(ask(device, "host_unified_memory", False)),
            compute_units=int(ask(device, "max_compute_units", 0)),
            max_work_group_size=int(ask(device, "max_work_group_size", 1)) or 1,
            local_memory_bytes=int(ask(device, "local_mem_size", 0)),
            global_memory_bytes=int(ask(device, "global_mem_size", 0)),
            max_alloc_bytes=int(ask(device, "max_mem_alloc_size", 0)),
            mem_base_align_bytes=max(int(ask(device, "mem_base_addr_align", 1024)) // 8, 1),
            native_float_lanes=int(ask(device, "native_vector_width_float", 0)),
            clock_mhz=int(ask(device, "max_clock_frequency", 0)),
            opencl_c_version=str(ask(device, "opencl_c_version", "")).strip(),
            extensions=extensions,
            key=" / ".join(names),
            group_multiple=_group_multiple(device),
        )
