"""``webnn-cl devices``: every device, and which one each power preference picks and why."""

from __future__ import annotations

import argparse
from typing import Any

from webnn_cl.cli.models import print_json
from webnn_cl.errors import NotSupportedError
from webnn_cl.opencl.choice import DEVICE_VARIABLE, POWER_PREFERENCES, Choice, choose, kind_of, no_device_message
from webnn_cl.opencl.devices import MLDevice, list_devices

FACTS = (
    "index", "name", "vendor", "platform", "driver_version", "type", "compute_units", "global_memory_bytes",
    "local_memory_bytes", "max_work_group_size", "has_fp16", "has_fp64", "unified_memory",
)  # fmt: skip
COLUMNS = ("#", "device", "platform", "driver", "kind", "units", "memory", "local", "group", "fp16", "fp64")


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "devices",
        help="list OpenCL devices and which one is chosen when",
        description="List the devices of all OpenCL platforms, and which one each power preference picks and why.",
    )
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the table, or JSON. Raises NotSupportedError, which says how to install one, when there is no device."""
    devices = list_devices()
    if not devices:
        raise NotSupportedError(no_device_message())
    choices = all_choices()
    if options.json:
        print_json(as_json(devices, choices))
    else:
        print_table(devices)
        print()
        for wish, choice in choices.items():
            print(f"{wish}: {choice.device.index} ({choice.reason})")
    return 0


def all_choices() -> dict[str, Choice]:
    """What create_context() picks for each wish that it can be told."""
    choices: dict[str, Choice] = {f"power_preference={wish!r}": choose(wish) for wish in POWER_PREFERENCES}
    return {**choices, "accelerated=False": choose(accelerated=False)}


def as_json(devices: tuple[MLDevice, ...], choices: dict[str, Choice]) -> dict[str, object]:
    """Facts of all devices, and the choices by wish."""
    rows = [{**{fact: getattr(d, fact) for fact in FACTS}, "extensions": sorted(d.extensions)} for d in devices]
    picks = {wish: {"index": choice.device.index, "reason": choice.reason} for wish, choice in choices.items()}
    return {"devices": rows, "choices": picks, "variable": DEVICE_VARIABLE}


def print_table(devices: tuple[MLDevice, ...]) -> None:
    """Columns as wide as their widest cell."""
    rows = [COLUMNS, *(row(device) for device in devices)]
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(COLUMNS))]
    for cells in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def row(device: MLDevice) -> tuple[str, ...]:
    """The cells of one device."""
    return (
        str(device.index), device.name, device.platform, device.driver_version, kind_of(device),
        str(device.compute_units or "?"), size(device.global_memory_bytes), size(device.local_memory_bytes),
        str(device.max_work_group_size), yes(device.has_fp16), yes(device.has_fp64),
    )  # fmt: skip


def size(nbytes: int) -> str:
    """Bytes in the unit that suits them."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= scale:
            return f"{nbytes / scale:.3g} {unit}"
    return f"{nbytes} B"


def yes(fact: bool) -> str:
    """A fact as a word."""
    return "yes" if fact else "no"
