"""float16 operands as float32 for kernels that read them element by element (scalar half loads are slow)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.compiler.lower import Buffer, Lowering

__all__ = ["widen"]


def widen(lw: Lowering, value: Value) -> Buffer:
    """Memory that holds `value` as float32: its own, or a copy (made once when it is a constant)."""
    if value.data_type == "float32":
        return lw.buffer(value)
    size = value.desc.size

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        lw.launch(Kernel("widen.cl", "widen"), [source, target, np.int64(size)], (-(-size // 8),), (64,))

    return lw.packed(value, "float32", 4 * size, emit)
