"""Machines without a linker, which PoCL needs: simulated by a PATH that has none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import webnn_cl
from webnn_cl.opencl import linker

POCL = "Portable Computing Language"


@pytest.fixture
def no_ld(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.skipif(os.name != "posix", reason="device drivers elsewhere bring their own")
def test_without_a_linker_the_message_says_what_to_install(no_ld: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linker, "_zig", lambda: None)
    with pytest.raises(webnn_cl.NotSupportedError, match="binutils"):
        linker.require_linker(POCL)
    linker.require_linker("Intel(R) OpenCL")  # which needs none


@pytest.mark.skipif(os.name != "posix", reason="device drivers elsewhere bring their own")
def test_ziglang_stands_in(no_ld: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    zig = tmp_path / "zig"
    zig.write_text('#!/bin/sh\necho "$@"\n')
    zig.chmod(0o755)
    monkeypatch.setattr(linker, "_zig", lambda: zig)
    linker.require_linker(POCL)
    folder = next(p for p in os.environ["PATH"].split(os.pathsep) if "webnn_cl_ld_" in p)
    done = subprocess.run([f"{folder}/ld", "-o", "a b.so"], capture_output=True, text=True, check=True)
    assert done.stdout == "ld.lld -o a b.so\n"


def test_a_machine_with_a_linker_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linker.shutil, "which", lambda name: f"/usr/bin/{name}")
    before = os.environ["PATH"]
    linker.require_linker(POCL)
    assert os.environ["PATH"] == before
