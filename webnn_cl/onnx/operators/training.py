"""The optimizers of ai.onnx.preview.training: element-wise updates of several tensors at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webnn_cl.onnx.operators.common import reshape
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__: list[str] = []

_DOMAIN = "ai.onnx.preview.training"


def _times(c: Call, factor: float, x: MLOperand) -> MLOperand:
    return c.b.mul(x, c.scalar(factor, x))


def _groups(c: Call, parts: int) -> list[list[MLOperand]]:
    """After rate and step the inputs come as all weights, all gradients, all states of each kind."""
    tensors = [c.x(i) for i in range(2, len(c.inputs))]
    count = len(tensors) // parts
    return [tensors[i::count] for i in range(count)]


def _results(updated: list[list[MLOperand]]) -> list[MLOperand]:
    return [tensor for kind in zip(*updated, strict=True) for tensor in kind]


def _regularized(c: Call, weight: MLOperand, gradient: MLOperand) -> MLOperand:
    factor = c.real("norm_coefficient")
    return c.b.add(_times(c, factor, weight), gradient) if factor else gradient


@op("Adagrad", domain=_DOMAIN)
def adagrad(c: Call) -> list[MLOperand]:
    rate, step = c.reshaped(0, ()), int(c.known(1, "the step").reshape(()))
    rate = c.b.div(rate, c.scalar(1 + step * c.real("decay_factor"), rate))
    updated = []
    for weight, gradient, squares in _groups(c, 3):
        gradient = _regularized(c, weight, gradient)
        squares = c.b.add(squares, c.b.mul(gradient, gradient))
        size = c.b.add(c.b.sqrt(squares), c.scalar(c.real("epsilon"), squares))
        updated.append([c.b.sub(weight, c.b.div(c.b.mul(rate, gradient), size)), squares])
    return _results(updated)


@op("Adam", domain=_DOMAIN)
def adam(c: Call) -> list[MLOperand]:
    rate, step = c.reshaped(0, ()), int(c.known(1, "the step").reshape(()))
    alpha, beta = c.real("alpha", 0.9), c.real("beta", 0.999)
    if step > 0:
        rate = _times(c, (1 - beta**step) ** 0.5 / (1 - alpha**step), rate)
    updated = []
    for weight, gradient, mean, squares in _groups(c, 4):
        gradient = _regularized(c, weight, gradient)
        mean = c.b.add(_times(c, alpha, mean), _times(c, 1 - alpha, gradient))
        squares = c.b.add(_times(c, beta, squares), _times(c, 1 - beta, c.b.mul(gradient, gradient)))
        size = c.b.add(c.b.sqrt(squares), c.scalar(c.real("epsilon"), squares))
        new = c.b.sub(weight, c.b.div(c.b.mul(rate, mean), size))
        updated.append([_times(c, 1 - c.real("norm_coefficient_post"), new), mean, squares])
    return _results(updated)


@op("Momentum", domain=_DOMAIN)
def momentum(c: Call) -> list[MLOperand]:
    rate, step = c.reshaped(0, ()), int(c.known(1, "the step").reshape(()))
    alpha, mode = c.real("alpha"), c.text("mode")
    beta = c.real("beta") if step > 0 else 1.0
    if mode not in ("standard", "nesterov"):
        c.refuse(f"mode {mode!r}")
    updated = []
    for weight, gradient, velocity in _groups(c, 3):
        gradient = _regularized(c, weight, gradient)
        velocity = c.b.add(_times(c, alpha, velocity), _times(c, beta, gradient))
        move = velocity if mode == "standard" else c.b.add(gradient, _times(c, alpha, velocity))
        updated.append([c.b.sub(weight, c.b.mul(reshape(c, rate, ()), move)), velocity])
    return _results(updated)
