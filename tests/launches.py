"""What the tests of fusion share: small inputs, and which kernels a graph launches."""

from __future__ import annotations

from typing import Any

import numpy as np

from webnn_cl.compiler.lower import Launch

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def entries(graph: Any) -> list[str]:
    """Kernels by name, in order; copies are none."""
    return [c.kernel.entry for c in graph._executable.commands if isinstance(c, Launch)]


def families(graph: Any) -> list[str]:
    """The same without the way of working, which devices differ in."""
    return [entry.split("_")[0] for entry in entries(graph)]


def number(b: Any, value: float) -> Any:
    return b.constant(value, data_type="float32")
