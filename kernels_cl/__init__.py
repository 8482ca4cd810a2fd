"""OpenCL C kernel templates, one file per family; `read` returns the text of a file (also from inside a zip)."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

__all__ = ["read"]

# A region between these lines appears twice: with W, the number of lanes, 8 and 1.
_EACH_WIDTH = re.compile(r"^// each width:[^\n]*\n(.*?)^// end of each width\n", re.MULTILINE | re.DOTALL)


@cache
def read(name: str) -> str:
    """Text of the kernel file `name`, such as ``"gemm.cl"`` or ``"common.h"``, its "each width" regions expanded."""
    text = files(__name__).joinpath(name).read_text(encoding="ascii")
    return _EACH_WIDTH.sub(lambda m: "".join(f"#define W {w}\n{m[1]}#undef W\n" for w in (8, 1)), text)
