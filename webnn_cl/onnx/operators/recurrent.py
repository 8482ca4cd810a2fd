"""LSTM, GRU and RNN.

What WebNN's recurrent operators cover goes to them. Sequence lengths, peepholes, clipping, other activations and the
plain RNN are unrolled step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from webnn_cl.onnx.operators.common import cast, reshape, slice_axis, stack, transpose
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__: list[str] = []

MAX_STEPS = 1024
_Function = Literal["sigmoid", "tanh", "relu"]
_WEBNN: dict[str, _Function] = {"Sigmoid": "sigmoid", "Tanh": "tanh", "Relu": "relu"}
_DIRECTIONS: dict[str, Literal["forward", "backward", "both"]] = {
    "forward": "forward", "reverse": "backward", "bidirectional": "both",
}  # fmt: skip
Activation = Callable[["MLOperand"], "MLOperand"]


@dataclass(frozen=True)
class _Recurrent:
    """Inputs with time first, and what the attributes say."""

    x: MLOperand
    hidden: int
    direction: str
    directions: int
    batch_first: bool
    lengths: MLOperand | None
    names: list[str]

    @property
    def steps(self) -> int:
        return self.x.shape[0]

    @property
    def batch(self) -> int:
        return self.x.shape[1]


def _parse(c: Call, gates: int, defaults: list[str]) -> _Recurrent:
    direction = c.text("direction", "forward")
    if direction not in _DIRECTIONS:
        c.refuse(f"direction {direction!r}")
    directions = 2 if direction == "bidirectional" else 1
    batch_first = bool(c.integer("layout"))
    x = c.transposed(0, (1, 0, 2)) if batch_first else c.x(0)
    hidden = c.shape(2)[-1]
    expected = (directions, gates * hidden, x.shape[2]), (directions, gates * hidden, hidden)
    if c.shape(1) != expected[0] or c.shape(2) != expected[1]:
        c.refuse(f"weights of shape {list(c.shape(1))} and {list(c.shape(2))}; expected {[list(e) for e in expected]}")
    names = c.texts("activations") or defaults * directions
    if len(names) != len(defaults) * directions:
        c.refuse(f"{len(names)} activations for {directions} directions")
    return _Recurrent(x, hidden, direction, directions, batch_first, _lengths(c, x), names)


def _lengths(c: Call, x: MLOperand) -> MLOperand | None:
    """sequence_lens, None where every sequence fills the input."""
    if not c.has(4):
        return None
    known = c.peek(4)
    if known is not None and np.all(known == x.shape[0]):
        return None
    return cast(c, c.x(4), "int32")


def _state(c: Call, r: _Recurrent, index: int) -> MLOperand | None:
    """An initial state as [directions, batch, hidden]."""
    if not c.has(index):
        return None
    return c.transposed(index, (1, 0, 2)) if r.batch_first else c.x(index)


def _biases(c: Call, gates: int, hidden: int) -> dict[str, MLOperand]:
    """Input and recurrent bias, which ONNX keeps in one tensor."""
    if not c.has(3):
        return {}
    known = c.peek(3)
    size = gates * hidden
    if known is not None:
        parts = [c.constant(np.ascontiguousarray(known[:, :size])), c.constant(np.ascontiguousarray(known[:, size:]))]
    else:
        parts = [slice_axis(c, c.x(3), 1, 0, size), slice_axis(c, c.x(3), 1, size, size)]
    return {"bias": parts[0], "recurrent_bias": parts[1]}


def _outputs(c: Call, r: _Recurrent, sequence: MLOperand | None, *states: MLOperand) -> list[Any]:
    """Y as [steps, directions, batch, hidden] and the last states, or batch first with layout 1."""
    if r.batch_first:
        sequence = transpose(c, sequence, (2, 0, 1, 3)) if sequence is not None else None
        states = tuple(transpose(c, s, (1, 0, 2)) for s in states)
    return [sequence, *states]


def _plain(c: Call, r: _Recurrent, count: int) -> list[_Function] | None:
    """The activations in WebNN's terms where one WebNN operator does it all, else None."""
    names = [_WEBNN.get(n) for n in r.names]
    same = r.directions == 1 or names[:count] == names[count:]
    special = r.lengths is not None or "clip" in c.node.attrs or not same or None in names
    return None if special else [n for n in names[:count] if n is not None]


@op("LSTM")
def lstm(c: Call) -> list[Any]:
    r = _parse(c, 4, ["Sigmoid", "Tanh", "Tanh"])
    plain = _plain(c, r, 3)
    if plain is None or c.has(7) or c.integer("input_forget"):
        return _unroll(c, r, 4, _lstm_step)
    options: dict[str, Any] = _biases(c, 4, r.hidden)
    for name, index in (("initial_hidden_state", 5), ("initial_cell_state", 6)):
        state = _state(c, r, index)
        if state is not None:
            options[name] = state
    outputs = c.b.lstm(
        r.x,
        c.x(1),
        c.x(2),
        r.steps,
        r.hidden,
        return_sequence=c.wants(0),
        direction=_DIRECTIONS[r.direction],
        activations=plain,
        **options,
    )
    return _outputs(c, r, outputs[2] if c.wants(0) else None, outputs[0], outputs[1])


@op("GRU")
def gru(c: Call) -> list[Any]:
    r = _parse(c, 3, ["Sigmoid", "Tanh"])
    plain = _plain(c, r, 2)
    if plain is None:
        return _unroll(c, r, 3, _gru_step)
    options: dict[str, Any] = _biases(c, 3, r.hidden)
    state = _state(c, r, 5)
    if state is not None:
        options["initial_hidden_state"] = state
    outputs = c.b.gru(
        r.x,
        c.x(1),
        c.x(2),
        r.steps,
        r.hidden,
        reset_after=bool(c.integer("linear_before_reset")),
        return_sequence=c.wants(0),
        direction=_DIRECTIONS[r.direction],
        activations=plain,
        **options,
    )
    return _outputs(c, r, outputs[1] if c.wants(0) else None, outputs[0])


@op("RNN")
def rnn(c: Call) -> list[Any]:
    return _unroll(c, _parse(c, 1, ["Tanh"]), 1, _rnn_step)


# Step by step -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Direction:
    """One direction of an unrolled layer: weights as [inner, gates * hidden], biases as [gates * hidden]."""

    recurrent: MLOperand
    recurrent_bias: MLOperand | None
    functions: list[Activation]
    peepholes: list[MLOperand]
    hidden: int
    limit: float | None
    coupled: bool
    reset_after: bool


Step = Callable[["Call", _Direction, "MLOperand", "list[MLOperand]"], "list[MLOperand]"]


def _unroll(c: Call, r: _Recurrent, gates: int, step: Step) -> list[Any]:
    if r.steps > MAX_STEPS:
        c.refuse(f"{r.steps} steps are more than {MAX_STEPS}, the most that are unrolled")
    runs = [_run_direction(c, r, gates, step, d) for d in range(r.directions)]
    sequence = stack(c, [run[0] for run in runs], 1)
    states = [stack(c, [run[1][i] for run in runs], 0) for i in range(len(runs[0][1]))]
    return _outputs(c, r, sequence, *states)


def _run_direction(
    c: Call, r: _Recurrent, gates: int, step: Step, d: int
) -> tuple[MLOperand, list[MLOperand]]:
    """The hidden states [steps, batch, hidden] by input time, and the last states."""
    direction, projected = _direction(c, r, gates, d)
    states = [_initial(c, r, index, d) for index in ((5, 6) if gates == 4 else (5,))]
    backward = r.direction == "reverse" or d == 1
    order = range(r.steps - 1, -1, -1) if backward else range(r.steps)
    rows: list[MLOperand] = []
    for t in order:
        inputs = reshape(c, slice_axis(c, projected, 0, t, 1), projected.shape[1:])
        new = step(c, direction, inputs, states)
        rows.append(new[0])
        if r.lengths is not None:  # past its end a sequence keeps its state and yields zeros
            inside = c.b.greater(reshape(c, r.lengths, (r.batch, 1)), c.constant(np.int32(t)))
            rows[-1] = c.b.where(inside, new[0], c.scalar(0, new[0]))
            new = [c.b.where(inside, n, s) for n, s in zip(new, states, strict=True)]
        states = new
    return stack(c, rows[::-1] if backward else rows, 0), states


def _direction(c: Call, r: _Recurrent, gates: int, d: int) -> tuple[_Direction, MLOperand]:
    """The weights of one direction, and the input projections of all steps, made in one product."""

    def part(index: int, order: Sequence[int]) -> MLOperand:
        known = c.peek(index)
        if known is not None:
            return c.constant(np.ascontiguousarray(known[d].transpose(order)))
        value = c.x(index)
        return transpose(c, reshape(c, slice_axis(c, value, 0, d, 1), value.shape[1:]), order)

    size = gates * r.hidden
    projected = c.b.matmul(r.x, part(1, (1, 0)))
    bias = part(3, (0,)) if c.has(3) else None
    if bias is not None:
        projected = c.b.add(projected, slice_axis(c, bias, 0, 0, size))
    recurrent_bias = None if bias is None else slice_axis(c, bias, 0, size, size)
    holes = part(7, (0,)) if gates == 4 and c.has(7) else None
    peepholes = [] if holes is None else [slice_axis(c, holes, 0, i * r.hidden, r.hidden) for i in range(3)]
    limit = c.real("clip") if "clip" in c.node.attrs else None
    count = len(r.names) // r.directions
    functions = [_activation(c, r.names, d * count + i) for i in range(count)]
    coupled, after = bool(c.integer("input_forget")), bool(c.integer("linear_before_reset"))
    made = _Direction(part(2, (1, 0)), recurrent_bias, functions, peepholes, r.hidden, limit, coupled, after)
    return made, projected


def _initial(c: Call, r: _Recurrent, index: int, d: int) -> MLOperand:
    state = _state(c, r, index)
    if state is None:
        return c.constant(np.zeros((r.batch, r.hidden), r.x.data_type))
    return reshape(c, slice_axis(c, state, 0, d, 1), (r.batch, r.hidden))


_ALPHA = {"LeakyRelu": 0.01, "ThresholdedRelu": 1.0, "ScaledTanh": 1.0, "HardSigmoid": 0.2, "Elu": 1.0, "Affine": 1.0}
_BETA = {"ScaledTanh": 1.0, "HardSigmoid": 0.5, "Affine": 0.0}


def _activation(c: Call, names: Sequence[str], position: int) -> Activation:
    """The function called `names[position]`; alphas and betas are listed only for the functions that have them."""
    name = names[position]

    def parameter(attribute: str, table: dict[str, float]) -> float:
        given, index = c.reals(attribute) or [], sum(n in table for n in names[:position])
        return given[index] if index < len(given) else table[name]

    if name in _WEBNN or name in ("Softsign", "Softplus"):
        return getattr(c.b, name.lower())  # type: ignore[no-any-return]
    if name not in _ALPHA:
        c.refuse(f"activation {name!r}")
    alpha = parameter("activation_alpha", _ALPHA)
    if name == "LeakyRelu":
        return lambda x: c.b.leaky_relu(x, alpha=alpha)
    if name == "Elu":
        return lambda x: c.b.elu(x, alpha=alpha)
    if name == "ThresholdedRelu":
        return lambda x: c.b.where(c.b.greater(x, c.scalar(alpha, x)), x, c.scalar(0, x))
    beta = parameter("activation_beta", _BETA)
    if name == "HardSigmoid":
        return lambda x: c.b.hard_sigmoid(x, alpha=alpha, beta=beta)
    if name == "Affine":
        return lambda x: c.b.linear(x, alpha=alpha, beta=beta)
    return lambda x: c.b.mul(c.b.tanh(c.b.mul(x, c.scalar(beta, x))), c.scalar(alpha, x))


def _clip(c: Call, d: _Direction, x: MLOperand) -> MLOperand:
    return x if d.limit is None else c.b.clamp(x, min_value=-d.limit, max_value=d.limit)


def _recurrent(c: Call, d: _Direction, state: MLOperand) -> MLOperand:
    y = c.b.matmul(state, d.recurrent)
    return y if d.recurrent_bias is None else c.b.add(y, d.recurrent_bias)


def _gates(c: Call, d: _Direction, x: MLOperand) -> list[MLOperand]:
    """[batch, gates * hidden] as one operand per gate."""
    return [slice_axis(c, x, 1, start, d.hidden) for start in range(0, x.shape[1], d.hidden)]


def _rnn_step(c: Call, d: _Direction, x: MLOperand, states: list[MLOperand]) -> list[MLOperand]:
    return [d.functions[0](_clip(c, d, c.b.add(x, _recurrent(c, d, states[0]))))]


def _lstm_step(c: Call, d: _Direction, x: MLOperand, states: list[MLOperand]) -> list[MLOperand]:
    """Gates in ONNX order: input, output, forget, cell. The output gate's peephole sees the new cell state."""
    hidden, cell = states
    i, o, f, g = _gates(c, d, c.b.add(x, _recurrent(c, d, hidden)))
    if d.peepholes:
        i, f = c.b.add(i, c.b.mul(d.peepholes[0], cell)), c.b.add(f, c.b.mul(d.peepholes[2], cell))
    i = d.functions[0](_clip(c, d, i))
    f = c.b.sub(c.scalar(1, i), i) if d.coupled else d.functions[0](_clip(c, d, f))
    g = d.functions[1](_clip(c, d, g))
    new_cell = c.b.add(c.b.mul(f, cell), c.b.mul(i, g))
    if d.peepholes:
        o = c.b.add(o, c.b.mul(d.peepholes[1], new_cell))
    o = d.functions[0](_clip(c, d, o))
    return [c.b.mul(o, d.functions[2](new_cell)), new_cell]


def _gru_step(c: Call, d: _Direction, x: MLOperand, states: list[MLOperand]) -> list[MLOperand]:
    """Gates in ONNX order: update, reset, hidden."""
    hidden = states[0]
    xz, xr, xh = _gates(c, d, x)
    if d.reset_after:
        hz, hr, hh = _gates(c, d, _recurrent(c, d, hidden))
    else:
        two = 2 * d.hidden
        both = c.b.matmul(hidden, slice_axis(c, d.recurrent, 1, 0, two))
        if d.recurrent_bias is not None:
            both = c.b.add(both, slice_axis(c, d.recurrent_bias, 0, 0, two))
        hz, hr = _gates(c, d, both)
    z = d.functions[0](_clip(c, d, c.b.add(xz, hz)))
    reset = d.functions[0](_clip(c, d, c.b.add(xr, hr)))
    if d.reset_after:
        inner = c.b.mul(reset, hh)
    else:
        inner = c.b.matmul(c.b.mul(reset, hidden), slice_axis(c, d.recurrent, 1, two, d.hidden))
        if d.recurrent_bias is not None:
            inner = c.b.add(inner, slice_axis(c, d.recurrent_bias, 0, two, d.hidden))
    new = d.functions[1](_clip(c, d, c.b.add(xh, inner)))
    return [c.b.add(c.b.mul(z, hidden), c.b.mul(c.b.sub(c.scalar(1, z), z), new))]


