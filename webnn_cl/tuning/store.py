"""The tuning table of a device: workload -> variant, on disk under the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import threading
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kernels_cl
from webnn_cl.opencl.binary_cache import cache_folder

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["TuningTable", "load", "workload"]

_lock = threading.Lock()


def workload(node: Node) -> str:
    """A text that is equal for nodes that do the same work: operator, operands and attributes."""
    operands = ", ".join(f"{r}={v.desc}{' constant' if v.is_constant else ''}" for r, v in sorted(node.inputs.items()))
    attrs = ", ".join(f"{k}={v}" for k, v in sorted(node.attrs.items()))
    return f"{node.op.name}({operands}; {attrs})"


class TuningTable:
    """Winners measured on one device, with its driver and this version of the kernels.

    A file that can't be read or is damaged counts as empty; `put` writes at once, so that a tuner that is killed
    has lost nothing it measured.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._entries: dict[str, dict[str, Any]] = _read(path)

    def get(self, work: str) -> str | None:
        """The variant that won for `work`; None when it was not measured."""
        entry = self._entries.get(work)
        return entry["variant"] if entry is not None else None

    def put(self, work: str, variant: str, seconds: dict[str, float]) -> None:
        """Remember the winner and what each candidate took."""
        self._entries[work] = {"variant": variant, "seconds": seconds}
        if self._path is not None:
            _write(self._path, self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@cache
def _kernels_digest() -> str:
    names = sorted(f.name for f in files(kernels_cl).iterdir() if f.name.endswith((".cl", ".h")))
    return hashlib.sha256("\0".join(kernels_cl.read(name) for name in names).encode()).hexdigest()


@cache
def _table(key: str, path: Path | None) -> TuningTable:
    return TuningTable(path)


def load(facts: DeviceFacts) -> TuningTable:
    """The table of a device, read once per process; empty when WEBNN_CL_CACHE switches caches off."""
    key = hashlib.sha256(f"{facts.key}\0{facts.is_cpu}\0{_kernels_digest()}".encode()).hexdigest()[:32]
    folder = cache_folder()
    with _lock:
        return _table(key, folder / "tuning" / f"{key}.json" if folder is not None else None)


def _read(path: Path | None) -> dict[str, dict[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
        return {str(k): v for k, v in content.items() if isinstance(v["variant"], str)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _write(path: Path, entries: dict[str, dict[str, Any]]) -> None:
    """Written under another name and moved into place; a folder that can't be written is no error."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix="tmp-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(entries, file, indent=1)
        os.replace(name, path)
