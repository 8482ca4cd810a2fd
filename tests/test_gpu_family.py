"""The GPU family of kernels, on whatever device there is, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_gpu_family(pytestconfig):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu_family.py"]
    device = pytestconfig.getoption("--device")
    command += ["--device", device] if device else []
    environment = {**os.environ, "WEBNN_CL_KERNELS": "gpu"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
