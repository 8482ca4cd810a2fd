"""Normalizations over batch, instance, layer, group, root mean square, norm and neighbouring channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from webnn_cl.onnx.operators.common import cast, pad_axes, reshape, unsqueeze_to
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.dtypes import DataType
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__ = ["normalize"]


@op("BatchNormalization")
def batch_normalization(c: Call) -> list[Any]:
    epsilon = c.real("epsilon", 1e-5)
    if c.version >= 14 and c.integer("training_mode"):
        return _training(c, epsilon)
    if c.version < 9 and not c.integer("spatial", 1):
        c.refuse("spatial=0")
    if c.version < 7 and not c.integer("is_test"):
        c.refuse("training mode of operator set 6")
    x = c.x(0)
    scale, bias, mean, variance = (cast(c, c.x(i), x.data_type) for i in (1, 2, 3, 4))
    axis = 1 if len(x.shape) > 1 else 0
    return [c.b.batch_normalization(x, mean, variance, scale=scale, bias=bias, axis=axis, epsilon=epsilon)]


def _training(c: Call, epsilon: float) -> list[Any]:
    """Statistics of this batch; the running ones move by 1 - momentum."""
    x, momentum = c.x(0), c.real("momentum", 0.9)
    axes = [i for i in range(len(x.shape)) if i != 1]
    mean = c.b.reduce_mean(x, axes=axes, keep_dimensions=True)
    centered = c.b.sub(x, mean)
    variance = c.b.reduce_mean(c.b.mul(centered, centered), axes=axes, keep_dimensions=True)
    flat = (x.shape[1],)
    own = reshape(c, mean, flat), reshape(c, variance, flat)
    scale, bias = cast(c, c.x(1), x.data_type), cast(c, c.x(2), x.data_type)
    y = c.b.batch_normalization(x, *own, scale=scale, bias=bias, axis=1, epsilon=epsilon)

    def running(old: MLOperand, new: MLOperand) -> MLOperand:
        new = cast(c, new, old.data_type)
        return c.b.add(c.b.mul(old, c.scalar(momentum, old)), c.b.mul(new, c.scalar(1 - momentum, old)))

    return [y, running(c.x(3), own[0]), running(c.x(4), own[1])]


@op("InstanceNormalization")
def instance_normalization(c: Call) -> MLOperand:
    shape = c.shape(0)
    if len(shape) < 3:
        c.refuse(f"input of shape {list(shape)}; at least one spatial dimension is needed")
    planes = reshape(c, c.x(0), (*shape[:2], shape[2], math.prod(shape[3:])) if len(shape) != 4 else shape)
    y = c.b.instance_normalization(planes, scale=c.x(1), bias=c.x(2), epsilon=c.real("epsilon", 1e-5))
    return reshape(c, y, shape)


def normalize(
    c: Call, x: MLOperand, axes: Sequence[int], epsilon: float, center: bool = True
) -> tuple[MLOperand, MLOperand | None, MLOperand]:
    """x scaled to unit variance (or unit root mean square) over `axes`, with the mean and the inverse deviation."""
    mean = c.b.reduce_mean(x, axes=list(axes), keep_dimensions=True) if center else None
    centered = x if mean is None else c.b.sub(x, mean)
    variance = c.b.reduce_mean(c.b.mul(centered, centered), axes=list(axes), keep_dimensions=True)
    inverse = c.b.reciprocal(c.b.sqrt(c.b.add(variance, c.scalar(epsilon, variance))))
    return c.b.mul(centered, inverse), mean, inverse


def _stash(c: Call, x: MLOperand) -> DataType:
    """The type that statistics are computed in: float32 by default, also for float16 inputs."""
    return "float32" if c.integer("stash_type", 1) == 1 else x.data_type


@op("LayerNormalization")
def layer_normalization(c: Call) -> list[Any]:
    x, shape = c.x(0), c.shape(0)
    axis, epsilon = c.axis(c.integer("axis", -1), len(shape)), c.real("epsilon", 1e-5)
    axes = list(range(axis, len(shape)))
    tail = shape[axis:]
    fits = c.shape(1) == tail and (not c.has(2) or c.shape(2) == tail)
    if fits and not c.wants(1) and not c.wants(2):
        options: dict[str, Any] = {"bias": c.x(2)} if c.has(2) else {}
        return [c.b.layer_normalization(x, scale=c.x(1), axes=axes, epsilon=epsilon, **options)]
    wide = cast(c, x, _stash(c, x))
    y, mean, inverse = normalize(c, wide, axes, epsilon)
    y = c.b.mul(cast(c, y, x.data_type), c.x(1))
    y = c.b.add(y, c.x(2)) if c.has(2) else y
    dtype = "float32" if wide.data_type == "float32" else c.dtype(0)
    return [y, None if mean is None else c.tensor(mean, dtype), c.tensor(inverse, dtype)]


@op("RMSNormalization")
def rms_normalization(c: Call) -> Any:
    x, shape = c.x(0), c.shape(0)
    axis = c.axis(c.integer("axis", -1), len(shape))
    wide = cast(c, x, _stash(c, x))
    y, _, _ = normalize(c, wide, range(axis, len(shape)), c.real("epsilon", 1e-5), center=False)
    return c.tensor(c.b.mul(cast(c, y, c.x(1).data_type), c.x(1)), c.dtype(1))


@op("GroupNormalization")
def group_normalization(c: Call) -> MLOperand:
    """Instance normalization of the groups; scale and bias are per group before operator set 21, then per channel."""
    x, shape, groups = c.x(0), c.shape(0), c.integer("num_groups")
    if len(shape) < 3 or groups < 1 or shape[1] % groups:
        c.refuse(f"{groups} groups for an input of shape {list(shape)}")
    n, channels = shape[:2]
    wide = cast(c, x, "float32" if c.version >= 21 and c.integer("stash_type", 1) == 1 else x.data_type)
    area = math.prod(shape[2:])
    y = c.b.instance_normalization(
        reshape(c, wide, (n, groups, channels // groups, area)), epsilon=c.real("epsilon", 1e-5)
    )
    y = cast(c, y, x.data_type)
    per_channel = c.shape(1)[0] == channels and (c.version >= 21 or channels == groups)
    if not per_channel and c.shape(1)[0] != groups:
        c.refuse(f"scale of shape {list(c.shape(1))} for {groups} groups of {channels} channels")
    if per_channel:
        y = reshape(c, y, shape)
    places = unsqueeze_to(c.shape(1), len(y.shape), 1)
    y = c.b.add(c.b.mul(y, c.reshaped(1, places)), c.reshaped(2, places))
    return reshape(c, y, shape)


@op("LpNormalization")
def lp_normalization(c: Call) -> MLOperand:
    """A vector of zeros stays zero."""
    x, p = c.x(0), c.integer("p", 2)
    axis = c.axis(c.integer("axis", -1), c.rank(0))
    if p not in (1, 2):
        c.refuse(f"p {p}")
    norm = (c.b.reduce_l1 if p == 1 else c.b.reduce_l2)(x, axes=[axis], keep_dimensions=True)
    empty = c.b.equal(norm, c.scalar(0, norm))
    return c.b.div(x, c.b.where(empty, c.scalar(1, norm), norm))


@op("MeanVarianceNormalization")
def mean_variance_normalization(c: Call) -> MLOperand:
    axes = c.axes(c.integers("axes") or [0, 2, 3], c.rank(0))
    x = c.x(0)
    mean = c.b.reduce_mean(x, axes=axes, keep_dimensions=True)
    centered = c.b.sub(x, mean)
    deviation = c.b.sqrt(c.b.reduce_mean(c.b.mul(centered, centered), axes=axes, keep_dimensions=True))
    return c.b.div(centered, c.b.add(deviation, c.scalar(1e-9, x)))


@op("LRN")
def local_response_normalization(c: Call) -> MLOperand:
    """The mean of squares over neighbouring channels is an average pooling along the channels of explicit zeros."""
    x, shape, size = c.x(0), c.shape(0), c.integer("size")
    if len(shape) < 3 or size < 1:
        c.refuse(f"size {size} for an input of shape {list(shape)}")
    squares = reshape(c, c.b.mul(x, x), (shape[0], 1, shape[1], math.prod(shape[2:])))
    before = (size - 1) // 2
    padded = pad_axes(c, squares, (0, 0, before, 0), (0, 0, size - 1 - before, 0))
    mean = c.b.average_pool2d(padded, window_dimensions=[size, 1])
    base = c.b.add(c.b.mul(mean, c.scalar(c.real("alpha", 1e-4), x)), c.scalar(c.real("bias", 1.0), x))
    return c.b.div(x, reshape(c, c.b.pow(base, c.scalar(c.real("beta", 0.75), x)), shape))
