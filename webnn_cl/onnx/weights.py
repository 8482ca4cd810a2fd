"""Constants of a session: the host's one copy of each weight, and its packings, shared by graphs of all shapes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.compiler.ir import Constant
from webnn_cl.onnx.values import Array

if TYPE_CHECKING:
    from webnn_cl.builder import MLGraphBuilder
    from webnn_cl.operand import MLOperand

__all__ = ["DeviceWeights", "SketchedWeights"]

# Smaller constants go into the graph itself, where the compiler sees their values.
SMALL_BYTES = 1024


class DeviceWeights:
    """Constants by content, so that equal weights are packed once.

    Their arrays are the model's own memory, or mapped files; nothing is copied but what a graph reads on the device.
    """

    def __init__(self) -> None:
        self._constants: dict[tuple[Any, ...], Constant] = {}
        self._digests: dict[int, tuple[Array, bytes]] = {}

    def operand(self, builder: MLGraphBuilder, array: Array, lasting: bool) -> MLOperand:
        """`array` as a constant operand. `lasting` arrays live as long as the model: their digest is kept."""
        if array.nbytes <= SMALL_BYTES:
            return builder.constant(array)
        key = (array.dtype.str, array.shape, self._digest(array, lasting))
        if key not in self._constants:
            self._constants[key] = Constant(array, lasting=True)
        return builder._lasting_constant(self._constants[key])

    def _digest(self, array: Array, lasting: bool) -> bytes:
        known = self._digests.get(id(array))
        if known is not None and known[0] is array:
            return known[1]
        digest = hashlib.blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=16).digest()
        if lasting:
            self._digests[id(array)] = (array, digest)
        return digest

    @property
    def nbytes(self) -> int:
        """Bytes of different weights, as the model has them."""
        return sum(c.array.nbytes for c in self._constants.values() if c.array is not None)

    @property
    def count(self) -> int:
        """Number of different weights."""
        return len(self._constants)

    def destroy(self) -> None:
        """Free them; the graphs that use them keep working."""
        self._constants.clear()
        self._digests.clear()


class SketchedWeights:
    """Stands in for DeviceWeights where only the graph's structure is asked for: nothing is uploaded."""

    def __init__(self) -> None:
        self._count = 0

    def operand(self, builder: MLGraphBuilder, array: Array, lasting: bool) -> MLOperand:
        """An operand of the array's type and shape."""
        if array.nbytes <= SMALL_BYTES:
            return builder.constant(array)
        self._count += 1
        return builder.input(f"weight {self._count}", array.shape, array.dtype.name)
