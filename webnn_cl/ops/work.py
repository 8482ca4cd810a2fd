"""Local sizes of kernels whose work-items don't share anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["GPU_LOCAL", "local_of"]

GPU_LOCAL = 64


def local_of(facts: DeviceFacts, rank: int) -> tuple[int, ...]:
    """One work-item a group on CPUs, where each is a loop of its own; else some along the first dimension, which the
    kernel must check its bounds of.
    """
    return (1 if facts.is_cpu else GPU_LOCAL, *[1] * (rank - 1))
