"""The Python blocks of the documents run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def run(name: str) -> None:
    scope: dict[str, object] = {}
    for code in blocks(ROOT / "docs" / name):
        exec(compile(code, name, "exec"), scope)
    scope["context"].destroy()  # type: ignore[attr-defined]


def test_custom_operators(capsys):
    run("custom_operators.md")
    printed = capsys.readouterr().out
    assert "past the end of 'y' (first at byte 4000)" in printed
    assert "[[0. 3.]\n [1. 4.]\n [2. 5.]]" in printed
