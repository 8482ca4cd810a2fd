"""A disk cache of program binaries, for drivers that keep none of their own."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import pyopencl as cl

from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["BinaryCache", "cache_folder", "driver_caches"]

# Runtimes that cache what they compile from source. Asking PoCL for a binary even compiles everything twice.
_CACHING_PLATFORMS = ("portable computing language", "nvidia", "rusticl")
MAX_BYTES = 256 << 20
_MAGIC = b"webnn_cl program 1\n"


def cache_folder() -> Path | None:
    """Where webnn_cl keeps what it may make again; None when WEBNN_CL_CACHE is ``0`` or ``off``.

    WEBNN_CL_CACHE names another folder; the default is the user's cache folder of the operating system.
    """
    given = os.environ.get("WEBNN_CL_CACHE", "")
    if given.lower() in ("0", "off"):
        return None
    if given:
        return Path(given).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    elif sys.platform == "darwin":
        base = Path("~/Library/Caches")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return base.expanduser() / "webnn_cl"


def driver_caches(facts: DeviceFacts) -> bool:
    """Whether the driver itself remembers what it compiled."""
    return any(name in facts.platform.lower() for name in _CACHING_PLATFORMS)


class BinaryCache:
    """Program binaries by device, driver version, source and options; bounded, oldest use first out.

    Files are written under another name and moved into place, so that several processes may share the folder; a
    file that is damaged, or that the driver refuses, counts as absent.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def key(self, facts: DeviceFacts, source: str, options: str) -> str:
        """The file name for a program."""
        text = "\0".join([facts.key, options, source])
        return hashlib.sha256(text.encode()).hexdigest()

    def load(self, key: str, context: Any, device: Any, options: str) -> Any | None:
        """The built program; None when there is no usable one."""
        path = self._folder / key
        binary = self._read(path)
        if binary is None:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a build log that says nothing went wrong
                program = cl.Program(context, [device], [binary]).build(options=options, devices=[device])
        except (cl.Error, ValueError):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return program

    def _read(self, path: Path) -> bytes | None:
        try:
            content = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + 32
        binary = content[head:]
        intact = content.startswith(_MAGIC) and hashlib.sha256(binary).digest() == content[len(_MAGIC) : head]
        return binary if intact else None

    def store(self, key: str, program: Any, device: Any) -> None:
        """Keep the binary of `program`; a cache that can't be written is no error."""
        with contextlib.suppress(OSError, cl.Error, ValueError), self._lock:
            devices = program.get_info(cl.program_info.DEVICES)
            binary = program.get_info(cl.program_info.BINARIES)[devices.index(device)]
            if binary:
                self._write(key, _MAGIC + hashlib.sha256(binary).digest() + binary)
                self._trim()

    def _write(self, key: str, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._folder, prefix="tmp-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, self._folder / key)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def _trim(self) -> None:
        """Remove the files used longest ago until the rest fits."""
        files = [(entry.stat(), entry.path) for entry in os.scandir(self._folder) if entry.is_file()]
        total = sum(stat.st_size for stat, _ in files)
        for stat, path in sorted(files, key=lambda item: item[0].st_mtime):
            if total <= self._max_bytes:
                return
            os.unlink(path)
            total -= stat.st_size
