"""Which device a context gets: order by power preference, explicit choices, and the reason in words."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from webnn_cl.errors import MLTypeError, NotSupportedError
from webnn_cl.opencl import icd
from webnn_cl.opencl.devices import MLDevice, describe, find, is_cl_device, list_devices, refusals

__all__ = ["POWER_PREFERENCES", "Choice", "PowerPreference", "choose", "kind_of", "ranked"]

PowerPreference = Literal["default", "high-performance", "low-power"]
POWER_PREFERENCES: tuple[PowerPreference, ...] = get_args(PowerPreference)
DEVICE_VARIABLE = "WEBNN_CL_DEVICE"

_KINDS = {
    "high-performance": ("discrete GPU", "integrated GPU", "accelerator", "CPU"),
    "low-power": ("accelerator", "integrated GPU", "CPU", "discrete GPU"),
}
_CPU_FIRST = ("CPU", "discrete GPU", "integrated GPU", "accelerator")
_LAST = ("several types", "simulator", "other")  # after every other kind, whatever the preference


@dataclass(frozen=True)
class Choice:
    """A device and why it was chosen."""

    device: MLDevice
    reason: str


def kind_of(device: MLDevice) -> str:
    """``"discrete GPU"``, ``"integrated GPU"``, ``"accelerator"``, ``"CPU"``, or one of the kinds that come last."""
    if "oclgrind" in f"{device.platform} {device.name} {device.vendor}".lower():
        return "simulator"
    if "+" in device.type:
        return "several types"
    if device.type == "gpu":
        return "integrated GPU" if device.unified_memory else "discrete GPU"
    return {"cpu": "CPU", "accelerator": "accelerator"}.get(device.type, "other")


def kind_order(power_preference: str, accelerated: bool) -> tuple[str, ...]:
    """Kinds of devices, best first. An explicit preference outweighs ``accelerated=False``."""
    if power_preference == "default" and not accelerated:
        return (*_CPU_FIRST, *_LAST)
    return (*_KINDS["low-power" if power_preference == "low-power" else "high-performance"], *_LAST)


def ranked(
    devices: Sequence[MLDevice], power_preference: str = "default", accelerated: bool = True
) -> list[MLDevice]:
    """`devices`, given in platform order, best first."""
    order = kind_order(power_preference, accelerated)
    by_kind = {kind: [d for d in devices if kind_of(d) == kind] for kind in order}
    return [d for kind in order for d in _by_strength(by_kind[kind])]


def _by_strength(devices: list[MLDevice]) -> list[MLDevice]:
    """Strongest first: compute units x clock x lanes, then memory; the sort is stable, so then platform order.

    A fact reported as 0 is unknown: the device is taken to be as good in it as the best of its kind.
    """
    best_clock = max((d.facts.clock_mhz for d in devices), default=0) or 1
    best_lanes = max((d.facts.native_float_lanes for d in devices), default=0) or 1
    best_units = max((d.compute_units for d in devices), default=0) or 1

    def strength(device: MLDevice) -> tuple[int, int]:
        units = device.compute_units or best_units
        rate = units * (device.facts.clock_mhz or best_clock) * (device.facts.native_float_lanes or best_lanes)
        return rate, device.global_memory_bytes

    return sorted(devices, key=strength, reverse=True)


def choose(
    power_preference: str = "default",
    accelerated: bool = True,
    device: object = None,
    require: Callable[[MLDevice], object] | None = None,
) -> Choice:
    """The device for these wishes (api.md, "Choosing a device"); NotSupportedError that lists what there is."""
    source = "device="
    if device is None and (text := os.environ.get(DEVICE_VARIABLE, "").strip()):
        device, source = text, f"the variable {DEVICE_VARIABLE}"
    if is_cl_device(device):
        return _required(Choice(find(device), "given as a pyopencl.Device"), require)
    if isinstance(device, MLDevice):
        return _required(Choice(device, "given as an MLDevice"), require)
    devices = list_devices()
    if device is not None:
        return _required(_explicit(devices, device, source), require)
    if not devices:
        raise NotSupportedError(no_device_message())
    # list_devices() is in the default order; the platform order that ranked() starts from decides only ties.
    candidates = [d for d in ranked(devices, power_preference, accelerated) if require is None or require(d)]
    if not candidates:
        raise NotSupportedError(f"no device fulfils require=; there are:\n{describe(devices)}")
    return Choice(candidates[0], _why(candidates, power_preference, accelerated))


def _why(candidates: list[MLDevice], power_preference: str, accelerated: bool) -> str:
    if len(candidates) == 1:
        return "the only candidate"
    best = candidates[0]
    rivals = [d for d in candidates if kind_of(d) == kind_of(best)]
    wish = power_preference if accelerated or power_preference != "default" else "default, accelerated=False"
    text = f"{kind_of(best)}s come first among the {len(candidates)} candidates for preference {wish!r}"
    if len(rivals) > 1:
        text += f"; strongest of {len(rivals)} by compute units x clock x lanes, then memory, then platform order"
    return text


def _required(choice: Choice, require: Callable[[MLDevice], object] | None) -> Choice:
    if require is not None and not require(choice.device):
        raise NotSupportedError(f"the device chosen explicitly does not fulfil require=: {choice.device!r}")
    return choice


def _explicit(devices: Sequence[MLDevice], wish: object, source: str) -> Choice:
    """By index (an int or digits), exact name, or text found in "platform / device / driver version"."""
    if isinstance(wish, str) and wish.strip().isdecimal():
        wish = int(wish)
    if isinstance(wish, int) and not isinstance(wish, bool):
        found = [d for d in devices if d.index == wish]
        how = f"index {wish}"
    elif isinstance(wish, str):
        found = [d for d in devices if d.name == wish]
        found = found or [d for d in devices if wish.casefold() in str(d).casefold()]
        how = f"text {wish!r}"
    else:
        raise MLTypeError(f"device: got {wish!r}; allowed: an MLDevice, a pyopencl.Device, an index, or text")
    if len(found) != 1:
        count = "no device matches" if not found else f"{len(found)} devices match"
        raise NotSupportedError(f"{count} {how} from {source}; there are:\n{describe(devices)}\n{no_intel_hint()}")
    return Choice(found[0], f"chosen by {how} from {source}")


def no_intel_hint() -> str:
    """The message about an Intel runtime that was registered too late, or nothing."""
    return icd.too_late_message() or ""


def no_device_message() -> str:
    """What was searched and the one command that helps."""
    hint, answers = no_intel_hint(), "; ".join(refusals())
    return (
        f"no OpenCL device found (searched: {icd.searched_places()}{'; answers: ' if answers else ''}{answers}). "
        'Install one with: pip install "webnn_cl[pocl]"' + (f". {hint}" if hint else "")
    )


def checked_preference(given: Any) -> PowerPreference:
    """`given` if it is one of the three preferences; MLTypeError otherwise."""
    for allowed in POWER_PREFERENCES:
        if isinstance(given, str) and given == allowed:
            return allowed
    raise MLTypeError(f"create_context: power_preference: got {given!r}; allowed: {', '.join(POWER_PREFERENCES)}")
