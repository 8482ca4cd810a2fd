"""Constants of a session: one copy of each weight on the device, shared by the graphs of all input shapes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.values import Array

if TYPE_CHECKING:
    from webnn_cl.builder import MLGraphBuilder
    from webnn_cl.context import MLContext
    from webnn_cl.operand import MLOperand
    from webnn_cl.tensor import MLTensor

__all__ = ["DeviceWeights", "SketchedWeights"]

# Smaller constants go into the graph itself, where the compiler sees their values.
SMALL_BYTES = 1024


class DeviceWeights:
    """Constant tensors by content, so that equal weights are uploaded once."""

    def __init__(self, context: MLContext) -> None:
        self._context = context
        self._tensors: dict[tuple[Any, ...], MLTensor] = {}
        self._digests: dict[int, tuple[Array, bytes]] = {}

    def operand(self, builder: MLGraphBuilder, array: Array, lasting: bool) -> MLOperand:
        """`array` as a constant operand. `lasting` arrays live as long as the model: their digest is kept."""
        if array.nbytes <= SMALL_BYTES:
            return builder.constant(array)
        key = (array.dtype.str, array.shape, self._digest(array, lasting))
        if key not in self._tensors:
            self._tensors[key] = self._context.create_constant_tensor(array)
        return builder.constant(self._tensors[key])

    def _digest(self, array: Array, lasting: bool) -> bytes:
        known = self._digests.get(id(array))
        if known is not None and known[0] is array:
            return known[1]
        digest = hashlib.blake2b(np.ascontiguousarray(array).data.cast("B"), digest_size=16).digest()
        if lasting:
            self._digests[id(array)] = (array, digest)
        return digest

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return sum(t.nbytes for t in self._tensors.values())

    @property
    def count(self) -> int:
        """Number of tensors on the device."""
        return len(self._tensors)

    def destroy(self) -> None:
        """Free them; the graphs that use them keep working."""
        for tensor in self._tensors.values():
            tensor.destroy()
        self._tensors.clear()
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
