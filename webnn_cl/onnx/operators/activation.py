"""Activation functions and dropout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.operators.common import cast, reshape, unsqueeze_to, where_scalar
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__ = ["softmax_like"]

_DIRECT = {
    "HardSwish": "hard_swish", "Relu": "relu", "Sigmoid": "sigmoid", "Softplus": "softplus", "Softsign": "softsign",
    "Tanh": "tanh",
}  # fmt: skip


@op(*_DIRECT)
def direct(c: Call) -> Any:
    return getattr(c.b, _DIRECT[c.node.op_type])(c.x(0))


@op("Elu")
def elu(c: Call) -> MLOperand:
    return c.b.elu(c.x(0), alpha=c.real("alpha", 1.0))


@op("LeakyRelu")
def leaky_relu(c: Call) -> MLOperand:
    return c.b.leaky_relu(c.x(0), alpha=c.real("alpha", 0.01))


@op("HardSigmoid")
def hard_sigmoid(c: Call) -> MLOperand:
    return c.b.hard_sigmoid(c.x(0), alpha=c.real("alpha", 0.2), beta=c.real("beta", 0.5))


@op("Selu")
def selu(c: Call) -> MLOperand:
    x = c.x(0)
    alpha, gamma = c.real("alpha", 1.67326319217681884765625), c.real("gamma", 1.05070102214813232421875)
    return c.b.mul(c.b.elu(x, alpha=alpha), c.scalar(gamma, x))


@op("Celu")
def celu(c: Call) -> MLOperand:
    x, alpha = c.x(0), c.real("alpha", 1.0)
    if alpha == 1.0:
        return c.b.elu(x)
    return c.b.max(x, c.scalar(0, x)) + c.b.min(c.b.elu(x / c.scalar(alpha, x)) * c.scalar(alpha, x), c.scalar(0, x))


@op("ThresholdedRelu")
def thresholded_relu(c: Call) -> MLOperand:
    x = c.x(0)
    return where_scalar(c, c.b.greater(x, c.scalar(c.real("alpha", 1.0), x)), x, 0)


@op("Shrink")
def shrink(c: Call) -> MLOperand:
    x, bias, limit = c.x(0), c.real("bias"), c.real("lambd", 0.5)
    above = where_scalar(c, c.b.greater(x, c.scalar(limit, x)), c.b.sub(x, c.scalar(bias, x)), 0)
    return c.b.where(c.b.lesser(x, c.scalar(-limit, x)), c.b.add(x, c.scalar(bias, x)), above)


@op("Mish")
def mish(c: Call) -> MLOperand:
    x = c.x(0)
    return c.b.mul(x, c.b.tanh(c.b.softplus(x)))


@op("Swish")
def swish(c: Call) -> MLOperand:
    x, alpha = c.x(0), c.real("alpha", 1.0)
    return c.b.mul(x, c.b.sigmoid(x if alpha == 1.0 else c.b.mul(x, c.scalar(alpha, x))))


@op("Gelu")
def gelu(c: Call) -> MLOperand:
    x, approximate = c.x(0), c.text("approximate", "none")
    if approximate == "none":
        return c.b.gelu(x)
    if approximate != "tanh":
        c.refuse(f"approximate {approximate!r}")
    cubic = c.b.mul(c.b.mul(c.b.mul(x, x), x), c.scalar(0.044715, x))
    inner = c.b.tanh(c.b.mul(c.b.add(x, cubic), c.scalar(math.sqrt(2 / math.pi), x)))
    return c.b.mul(c.b.mul(x, c.scalar(0.5, x)), c.b.add(inner, c.scalar(1, x)))


@op("PRelu")
def prelu(c: Call) -> MLOperand:
    x, slope, shape = c.x(0), c.shape(1), c.shape(0)
    if c.version < 7 and len(slope) == 1 and len(shape) > 1:
        return c.b.prelu(x, c.reshaped(1, unsqueeze_to(slope, len(shape), 1)))
    if np.broadcast_shapes(shape, slope) != shape:
        c.refuse(f"slope of shape {list(slope)} does not broadcast to {list(shape)}")
    if x.data_type not in ("float32", "float16", "int64", "int32", "int8"):
        return c.b.where(c.b.lesser(x, c.scalar(0, x)), c.b.mul(x, c.x(1)), x)
    return c.b.prelu(x, c.x(1))


def softmax_like(c: Call) -> tuple[MLOperand, int, tuple[int, ...]]:
    """The input and axis to normalize over, and the shape to return to.

    Before operator set 13 the input counts as a matrix, split at `axis`.
    """
    shape = c.shape(0)
    if c.version >= 13:
        if not shape:
            c.refuse("a scalar has no axis to normalize over")
        return c.x(0), c.axis(c.integer("axis", -1), len(shape)), shape
    axis = c.integer("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    matrix = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    return reshape(c, c.x(0), matrix), 1, shape


@op("Softmax")
def softmax(c: Call) -> MLOperand:
    x, axis, shape = softmax_like(c)
    return reshape(c, c.b.softmax(x, axis), shape)


@op("LogSoftmax")
def log_softmax(c: Call) -> MLOperand:
    x, axis, shape = softmax_like(c)
    shifted = c.b.sub(x, c.b.reduce_max(x, axes=[axis], keep_dimensions=True))  # large inputs keep their digits
    total = c.b.reduce_log_sum_exp(shifted, axes=[axis], keep_dimensions=True)
    return reshape(c, c.b.sub(shifted, total), shape)


@op("Hardmax")
def hardmax(c: Call) -> MLOperand:
    x, axis, shape = softmax_like(c)
    best = c.b.arg_max(x, axis, keep_dimensions=True)
    count = np.arange(x.shape[axis], dtype=np.int32)
    positions = c.constant(count.reshape(unsqueeze_to(count.shape, len(x.shape), axis)))
    return reshape(c, cast(c, c.b.equal(best, positions), x.data_type), shape)


@op("Dropout")
def dropout(c: Call) -> list[Any]:
    training = c.version >= 12 and c.has(2) and bool(c.known(2, "training_mode").reshape(()))
    if training:
        ratio = float(c.known(1, "ratio").reshape(())) if c.has(1) else 0.5
        if ratio != 0:
            c.refuse("dropout in training mode is random")
    mask = np.broadcast_to(np.ones((), bool if c.version >= 10 else np.float32), c.shape(0))
    return [c.value(0), mask]
