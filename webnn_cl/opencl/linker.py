"""The linker that PoCL runs for each kernel: on a machine without one it would end the process, without a message."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from webnn_cl.errors import NotSupportedError

__all__ = ["require_linker"]


def require_linker(platform: str) -> None:
    """Make sure that PoCL will find ``ld``, through the package ziglang where that is installed.

    Does nothing for other platforms. Raises NotSupportedError, which says what to install, when there is none.
    """
    if "portable computing language" not in platform.lower() or os.name != "posix" or shutil.which("ld"):
        return
    zig = _zig()
    if zig is None:
        raise NotSupportedError(
            "PoCL, the OpenCL implementation of this device, links each kernel with the program ld, which is not on "
            'this machine: apt-get install binutils (or dnf, apk), or pip install "ziglang==0.13.0", or use another '
            'implementation: pip install "webnn_cl[intel]"'
        )
    folder = Path(tempfile.mkdtemp(prefix="webnn_cl_ld_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    script = folder / "ld"
    script.write_text(f'#!/bin/sh\nexec "{zig}" ld.lld "$@"\n')
    script.chmod(0o755)
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}{os.pathsep}{folder}"


def _zig() -> Path | None:
    """The executable of the package ziglang, which holds a linker."""
    spec = importlib.util.find_spec("ziglang")
    executable = Path(spec.origin).parent / "zig" if spec is not None and spec.origin else None
    return executable if executable is not None and executable.is_file() else None
