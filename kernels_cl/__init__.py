"""OpenCL C kernel templates, one file per family; `read` returns a file's text (also from a zipped or installed wheel)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

__all__ = ["read"]


@cache
def read(name: str) -> str:
    """Text of the kernel file `name`, such as ``"gemm.cl"`` or ``"common.h"``."""
    return files(__name__).joinpath(name).read_text(encoding="ascii")
