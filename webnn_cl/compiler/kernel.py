"""A kernel to be built: a template of `kernels_cl` with its parameters; and the source text of a whole program."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import kernels_cl

__all__ = ["Kernel", "program_source"]

# A function definition starts at column 0 and names itself before the first parenthesis (see docs/architecture.md).
_FUNCTION = re.compile(r"^(?:static inline|inline|kernel|__kernel)\b[^(;{}]*?\b(\w+)\s*\(", re.MULTILINE)
# A whole kernel function: one line, or up to a brace at column 0.
_KERNEL = re.compile(r"^kernel\b[^(;{}]*?\b(\w+)\s*\((?:[^\n]*}|.*?^})\n", re.MULTILINE | re.DOTALL)
_DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)


class Kernel:
    """One specialised OpenCL C kernel, equal to another when its text is.

    `template` is a file of `kernels_cl` (or "" when `code` is all), `entry` the kernel function in it, `defines` its
    macros and `code` generated text put before the template. `headers` are files included once per program after
    common.h. An `isolated` kernel keeps its function's name and is built in a program of its own: a user's text
    may define what it likes.
    """

    __slots__ = ("code", "defines", "entry", "headers", "isolated", "key", "template")

    def __init__(
        self,
        template: str,
        entry: str,
        defines: Mapping[str, object] | None = None,
        code: str = "",
        headers: Sequence[str] = (),
        isolated: bool = False,
    ) -> None:
        self.template = template
        self.entry = entry
        self.defines = tuple(sorted((k, str(v)) for k, v in (defines or {}).items()))
        self.code = code
        self.headers = tuple(headers)
        self.isolated = isolated
        text = "\0".join([*map(repr, self.defines), code, entry, *map(_text, self.headers), _text(template)])
        self.key = hashlib.sha256(text.encode()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<Kernel {self.name}>"

    @property
    def name(self) -> str:
        """The kernel function's name in the program."""
        return self.entry if self.isolated else f"{self.entry}_{self.key}"

    def source(self) -> str:
        """This instance's text: its one kernel, own names for all its functions, macros that end with it."""
        if self.isolated:
            body = f"{self.code}\n{_text(self.template)}"
            return "\n".join([*(f"#define {name} {value}" for name, value in self.defines), body])
        body = f"{self.code}\n{_only(_text(self.template), self.entry)}"
        functions = dict.fromkeys(_FUNCTION.findall(body))
        macros = dict.fromkeys([k.split("(")[0] for k, _ in self.defines] + _DEFINE.findall(body))
        lines = [f"// {self.template}: {self.name}"]
        lines += [f"#define {name} {name}_{self.key}" for name in functions]
        lines += [f"#define {name} {value}" for name, value in self.defines]
        lines.append(body)
        lines += [f"#undef {name}" for name in (*functions, *macros)]
        return "\n".join(lines)


def program_source(kernels: Iterable[Kernel]) -> str:
    """One program with all `kernels`, in a stable order so that drivers' caches recognise it."""
    ordered = sorted(set(kernels), key=lambda k: k.name)
    headers = dict.fromkeys(("common.h", *sorted({h for k in ordered for h in k.headers})))
    return "\n".join([*(_text(h) for h in headers), *(k.source() for k in ordered)]) + "\n"


@cache
def _only(text: str, entry: str) -> str:
    """A template without the kernels that are not asked for: drivers optimize every kernel of a program."""
    return _KERNEL.sub(lambda found: found[0] if found[1] == entry else "", text)


@cache
def _text(name: str) -> str:
    return kernels_cl.read(name) if name else ""
