"""DFT and STFT: products with matrices of sines and cosines, which are known on the host."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.operators.common import pad_axes, reshape, slice_axis, stack, transpose
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__: list[str] = []

MAX_LENGTH = 4096


def _parts(c: Call, x: MLOperand) -> tuple[MLOperand, MLOperand | None]:
    """Real and imaginary part; the last axis holds one or both."""
    axis = len(x.shape) - 1
    if x.shape[-1] not in (1, 2):
        c.refuse(f"input of shape {list(x.shape)}; the last axis holds real and imaginary part")
    real = reshape(c, slice_axis(c, x, axis, 0, 1), x.shape[:-1])
    return real, reshape(c, slice_axis(c, x, axis, 1, 1), x.shape[:-1]) if x.shape[-1] == 2 else None


def _transform(
    c: Call, real: MLOperand, imaginary: MLOperand | None, length: int, bins: int, inverse: bool
) -> tuple[MLOperand, MLOperand]:
    """The transform of the last axis."""
    # The angle is reduced in integers, so that long transforms keep their digits.
    turns = np.outer(np.arange(length), np.arange(bins)) % length
    angle = turns * (2 * math.pi / length) * (1 if inverse else -1)
    scale = 1 / length if inverse else 1
    cos, sin = (c.constant((f(angle) * scale).astype(real.data_type)) for f in (np.cos, np.sin))
    if imaginary is None:
        return c.b.matmul(real, cos), c.b.matmul(real, sin)
    return (
        c.b.sub(c.b.matmul(real, cos), c.b.matmul(imaginary, sin)),
        c.b.add(c.b.matmul(real, sin), c.b.matmul(imaginary, cos)),
    )


@op("DFT")
def dft(c: Call) -> Any:
    x, rank = c.x(0), c.rank(0)
    if c.version >= 20:
        axis = c.known_ints(2, "axis")[0] if c.has(2) else -2
    else:
        axis = c.integer("axis", 1)
    axis = c.axis(axis, rank)
    inverse, onesided = bool(c.integer("inverse")), bool(c.integer("onesided"))
    length = c.known_ints(1, "dft_length")[0] if c.has(1) else 0
    if axis == rank - 1:
        c.refuse("a transform along the axis of real and imaginary part")
    if inverse and onesided:
        return _inverse_real(c, x, axis, length or 2 * (x.shape[axis] - 1))
    length = length or x.shape[axis]
    return _dft(c, x, axis, length, length // 2 + 1 if onesided else length, inverse)


def _fit(c: Call, x: MLOperand, axis: int, length: int) -> MLOperand:
    """The axis cut or padded with zeros to `length`."""
    if not 1 <= length <= MAX_LENGTH:
        c.refuse(f"a transform of length {length}; up to {MAX_LENGTH} are expressed")
    if length <= x.shape[axis]:
        return slice_axis(c, x, axis, 0, length)
    end = [length - x.shape[axis] if i == axis else 0 for i in range(len(x.shape))]
    return pad_axes(c, x, [0] * len(end), end)


def _dft(c: Call, x: MLOperand, axis: int, length: int, bins: int, inverse: bool) -> MLOperand:
    x = _fit(c, x, axis, length)
    rank = len(x.shape)
    order = [*(i for i in range(rank - 1) if i != axis), axis]
    real, imaginary = _parts(c, x)
    real = transpose(c, real, order)
    imaginary = None if imaginary is None else transpose(c, imaginary, order)
    pair = stack(c, _transform(c, real, imaginary, length, bins, inverse), rank - 1)
    back = [order.index(i) for i in range(rank - 1)]
    return transpose(c, pair, [*back, rank - 1])


def _inverse_real(c: Call, x: MLOperand, axis: int, length: int) -> MLOperand:
    """Half a spectrum back to a real signal: the other half is its mirrored conjugate."""
    half = _fit(c, x, axis, length // 2 + 1)
    if half.shape[-1] != 2:
        c.refuse("an inverse transform of half a spectrum without imaginary part")
    rank, mirrored = len(half.shape), (length - 1) // 2
    if mirrored:
        tail = c.b.reverse(slice_axis(c, half, axis, 1, mirrored), axes=[axis])
        sign = c.constant(np.array([1, -1], half.data_type))
        half = c.b.concat([half, c.b.mul(tail, sign)], axis)
    full = _dft(c, half, axis, length, length, True)
    return slice_axis(c, full, rank - 1, 0, 1)


@op("STFT")
def stft(c: Call) -> Any:
    """Frames gathered from the signal, times the window, transformed."""
    x, step = c.x(0), c.known_ints(1, "frame_step")[0]
    if c.has(3):
        length = c.known_ints(3, "frame_length")[0]
    elif c.has(2):
        length = c.shape(2)[0]
    else:
        c.refuse("neither window nor frame_length is given")
    if len(x.shape) != 3 or step < 1 or not 1 <= length <= x.shape[1]:
        c.refuse(f"signal of shape {list(x.shape)}, frame_step {step}, frame_length {length}")
    count = (x.shape[1] - length) // step + 1
    index = np.arange(count)[:, None] * step + np.arange(length)
    real, imaginary = _parts(c, x)
    bins = length // 2 + 1 if c.integer("onesided", 1) else length

    def frames(signal: MLOperand) -> MLOperand:
        cut = c.b.gather(signal, c.constant(index.astype(np.int32)), axis=1)
        return c.b.mul(cut, c.x(2)) if c.has(2) else cut

    pair = _transform(c, frames(real), None if imaginary is None else frames(imaginary), length, bins, False)
    return stack(c, pair, 3)
