"""The GPU family of kernels, on whatever device there is, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# What runs with these kernels: tests of their own, and the table of operators, thinned since every kernel is compiled.
SUITES = {
    "products": ["tests/gpu_family.py"],
    "lines": ["tests/gpu_lines.py"],
    "operators": ["tests/test_operators.py", "--every", "80", "-k", "test_operator"],
}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("suite", SUITES)
def test_gpu_family(suite: str, pytestconfig: pytest.Config) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SUITES[suite]]
    device = pytestconfig.getoption("--device")
    command += ["--device", device] if device else []
    environment = {**os.environ, "WEBNN_CL_KERNELS": "gpu"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1100, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
