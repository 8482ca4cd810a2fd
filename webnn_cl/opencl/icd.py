"""Where the OpenCL loader looks for implementations, and the Intel CPU runtime that pip leaves unregistered.

The loader reads ``OCL_ICD_VENDORS`` once, at the first platform query of the process, and a folder given there
hides the system's own. So before the first query, and only when the user has not set the variable, a folder is made
that holds the system's entries and Intel's.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyopencl as cl

from webnn_cl.opencl import fork

__all__ = ["get_platforms", "intel_runtime", "searched_places", "too_late_message"]

VENDORS_VARIABLE = "OCL_ICD_VENDORS"
SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
_lock = threading.Lock()
_first_query_done = False
_too_late = False


def get_platforms() -> list[Any]:
    """Every OpenCL platform of this process, Intel's pip runtime among them; [] when there is none."""
    global _first_query_done
    fork.check()
    with _lock:
        fork.note_query()
        if _first_query_done:
            return _query()
        _first_query_done = True
        with _intel_registered():
            platforms = _query()
        _note_if_too_late(platforms)
        return platforms


def _query() -> list[Any]:
    try:
        return list(cl.get_platforms())
    except Exception:  # pyopencl raises its own errors, or RuntimeError, when the loader finds nothing
        return []


def intel_runtime() -> Path | None:
    """Intel's CPU runtime in this Python environment (extra ``intel``), or None."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("intel-opencl-rt") or ():
            library = Path(str(file.locate())).resolve()
            if file.name == "libintelocl.so" and library.is_file():
                return library
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix)):
        library = Path(prefix) / "lib" / "libintelocl.so"
        if library.is_file():
            return library
    return None


@contextlib.contextmanager
def _intel_registered() -> Iterator[None]:
    """The loader's folder for the first query; the variable is gone afterwards so that children decide anew."""
    library = intel_runtime()
    if library is None or os.environ.get(VENDORS_VARIABLE):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="webnn_cl_icd_") as folder:
        for entry in sorted(SYSTEM_VENDORS.glob("*.icd")) if SYSTEM_VENDORS.is_dir() else ():
            shutil.copy(entry, folder)
        (Path(folder) / "webnn_cl_intel.icd").write_text(f"{library}\n")
        _preload(library.parent)
        os.environ[VENDORS_VARIABLE] = folder
        try:
            yield
        finally:
            os.environ.pop(VENDORS_VARIABLE, None)


def _preload(folder: Path) -> None:
    """Load the runtime's dependencies by path: LD_LIBRARY_PATH can't be changed in a running process."""
    for pattern in ("libtbb.so.*", "libtbbmalloc.so.*", "libimf.so", "libsvml.so", "libirng.so", "libintlc.so.*"):
        for library in sorted(folder.glob(pattern))[:1]:
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def _note_if_too_late(platforms: list[Any]) -> None:
    global _too_late
    if intel_runtime() is None or os.environ.get(VENDORS_VARIABLE):
        return
    _too_late = not any("intel" in str(p.vendor).lower() for p in platforms)
    if _too_late:
        warnings.warn(str(too_late_message()), RuntimeWarning, stacklevel=2)


def too_late_message() -> str | None:
    """Why Intel's installed runtime is not among the platforms, when pyopencl was queried before this library."""
    if not _too_late:
        return None
    return (
        f"Intel's CPU runtime is installed ({intel_runtime()}) but pyopencl listed its platforms before webnn_cl "
        f"could register it; import webnn_cl and call ML().devices() first, or set {VENDORS_VARIABLE}"
    )


def searched_places() -> str:
    """Where implementations were looked for, for messages."""
    variable = os.environ.get(VENDORS_VARIABLE)
    places = [f"{VENDORS_VARIABLE}={variable}" if variable else str(SYSTEM_VENDORS)]
    places.append("the pocl-binary-distribution package of this Python environment")
    places.append("Intel's runtime in this Python environment")
    return "; ".join(places)
