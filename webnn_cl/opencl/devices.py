"""Enumeration of OpenCL devices over every platform and type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyopencl as cl

from webnn_cl.opencl import icd
from webnn_cl.opencl.facts import DeviceFacts, ask

__all__ = ["MLDevice", "describe", "enumerate_devices", "list_devices", "refusals"]


@dataclass(frozen=True, eq=False)
class MLDevice:
    """One OpenCL device, with the facts that matter for choosing one.

    `index` is its place in ``ML().devices()``. `type` is ``"gpu"``, ``"cpu"``, ``"accelerator"`` or ``"custom"``,
    joined by ``+`` for a device that claims several. Numbers that the runtime does not know are 0.
    """

    index: int
    name: str
    vendor: str
    platform: str
    driver_version: str
    type: str
    compute_units: int
    global_memory_bytes: int
    local_memory_bytes: int
    max_work_group_size: int
    has_fp16: bool
    has_fp64: bool
    unified_memory: bool
    extensions: frozenset[str]
    cl_device: Any = field(repr=False)
    facts: DeviceFacts = field(repr=False)

    @classmethod
    def of(cls, cl_device: Any, index: int = -1) -> MLDevice:
        """The MLDevice of a pyopencl.Device; `index` is -1 for one that no platform lists (a sub-device)."""
        facts = DeviceFacts.of(cl_device)
        return cls(
            index=index,
            name=facts.name,
            vendor=facts.vendor,
            platform=facts.platform,
            driver_version=facts.driver_version,
            type=facts.type,
            compute_units=facts.compute_units,
            global_memory_bytes=facts.global_memory_bytes,
            local_memory_bytes=facts.local_memory_bytes,
            max_work_group_size=facts.max_work_group_size,
            has_fp16=facts.has_fp16,
            has_fp64=facts.has_fp64,
            unified_memory=facts.unified_memory,
            extensions=facts.extensions,
            cl_device=cl_device,
            facts=facts,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MLDevice) and bool(self.cl_device == other.cl_device)

    def __hash__(self) -> int:
        return hash(self.facts.key)

    def __str__(self) -> str:
        return f"{self.platform} / {self.name} / {self.driver_version}"

    def __repr__(self) -> str:
        return f"<MLDevice {self.index}: {self} ({self.type})>"


def enumerate_devices() -> list[Any]:
    """Every pyopencl.Device in platform order; platforms without devices or that raise are passed over."""
    found: list[Any] = []
    for platform in icd.get_platforms():
        try:
            devices = platform.get_devices()
        except Exception:  # clover raises for a platform without devices; fakes and drivers raise other things
            continue
        for device in devices:
            # A device that claims several types must come once.
            if ask(device, "available", True) and not any(device is other for other in found):
                found.append(device)
    return found


def refusals() -> list[str]:
    """What each platform answers instead of a device, or the loader instead of platforms; for messages."""
    try:
        platforms = cl.get_platforms()
    except Exception as error:
        return [f"the OpenCL loader: {error}"]
    answers = []
    for platform in platforms:
        try:
            devices = platform.get_devices()
            answer = "no device that is available" if devices else "no device"
        except Exception as error:
            answer = str(error)
        answers.append(f"{ask(platform, 'name', 'a platform')}: {answer}")
    return answers


def list_devices() -> tuple[MLDevice, ...]:
    """``ML().devices()``: best first for the default preference."""
    from webnn_cl.opencl.choice import ranked

    devices = [MLDevice.of(d) for d in enumerate_devices()]
    return tuple(MLDevice.of(d.cl_device, index) for index, d in enumerate(ranked(devices)))


def describe(devices: Sequence[MLDevice]) -> str:
    """One indented line per device, for messages."""
    if not devices:
        return "  (none)"
    return "\n".join(f"  {d.index}: {d} ({d.type})" for d in devices)


def find(cl_device: Any) -> MLDevice:
    """The listed MLDevice of a pyopencl.Device, or a fresh one with index -1."""
    for device in list_devices():
        if device.cl_device == cl_device:
            return device
    return MLDevice.of(cl_device)


def is_cl_device(given: object) -> bool:
    """Whether `given` is a pyopencl.Device."""
    return isinstance(given, cl.Device)
