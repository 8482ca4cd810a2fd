"""Recurrent networks (operators.json: recurrent), without rounding between steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.reference.numbers import Array, wide
from tests.reference.registry import operator

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(0.0, x),
    "sigmoid": lambda x: 0.5 * (1.0 + np.tanh(0.5 * x)),
    "tanh": np.tanh,
}


def _gates(x: Array | None, layout: str, hidden: int, order: str, width: int | None) -> list[Array]:
    """Split packed rows (weights, or a bias; None = zeros) into the gates named in `order`."""
    if x is None:
        return [np.zeros(hidden) for _ in order]
    parts = wide(x).reshape(len(layout), hidden, *([] if width is None else [width]))
    return [parts[layout.index(gate)] for gate in order]


def _gru_step(
    x: Array,
    h: Array,
    hidden: int,
    packed: tuple[Array, Array, Array | None, Array | None],
    reset_after: bool,
    layout: str,
    activations: Sequence[str],
) -> Array:
    w, r, b, rb = packed
    gate, new = (ACTIVATIONS[name] for name in activations)
    wz, wr, wn = _gates(w, layout, hidden, "zrn", x.shape[1])
    rz, rr, rn = _gates(r, layout, hidden, "zrn", hidden)
    bz, br, bn = _gates(b, layout, hidden, "zrn", None)
    cz, cr, cn = _gates(rb, layout, hidden, "zrn", None)
    z = gate(x @ wz.T + bz + h @ rz.T + cz)
    reset = gate(x @ wr.T + br + h @ rr.T + cr)
    recurrent = reset * (h @ rn.T + cn) if reset_after else (reset * h) @ rn.T + cn
    n = new(x @ wn.T + bn + recurrent)
    return z * h + (1.0 - z) * n


def _lstm_step(
    x: Array,
    h: Array,
    c: Array,
    hidden: int,
    packed: tuple[Array, Array, Array | None, Array | None, Array | None],
    layout: str,
    activations: Sequence[str],
) -> tuple[Array, Array]:
    w, r, b, rb, peephole = packed
    gate, cell, output = (ACTIVATIONS[name] for name in activations)
    ws, rs = _gates(w, layout, hidden, "iofg", x.shape[1]), _gates(r, layout, hidden, "iofg", hidden)
    bs, cs = _gates(b, layout, hidden, "iofg", None), _gates(rb, layout, hidden, "iofg", None)
    pi, po, pf = _gates(peephole, "iof", hidden, "iof", None)
    si, so, sf, sg = (x @ wk.T + bk + h @ rk.T + ck for wk, rk, bk, ck in zip(ws, rs, bs, cs, strict=True))
    i, o, f = gate(si + pi * c), gate(so + po * c), gate(sf + pf * c)  # all three see the previous cell (gap 27)
    new_cell = f * c + i * cell(sg)
    return o * output(new_cell), new_cell


@operator()
def gru_cell(
    input: Array,
    weight: Array,
    recurrent_weight: Array,
    hidden_state: Array,
    hidden_size: int,
    *,
    bias: Array | None = None,
    recurrent_bias: Array | None = None,
    reset_after: bool = True,
    layout: str = "zrn",
    activations: Sequence[str] = ("sigmoid", "tanh"),
) -> Array:
    packed = (weight, recurrent_weight, bias, recurrent_bias)
    return _gru_step(wide(input), wide(hidden_state), hidden_size, packed, reset_after, layout, activations)


@operator()
def lstm_cell(
    input: Array,
    weight: Array,
    recurrent_weight: Array,
    hidden_state: Array,
    cell_state: Array,
    hidden_size: int,
    *,
    bias: Array | None = None,
    recurrent_bias: Array | None = None,
    peephole_weight: Array | None = None,
    layout: str = "iofg",
    activations: Sequence[str] = ("sigmoid", "tanh", "tanh"),
) -> list[Array]:
    x, h, c = wide(input), wide(hidden_state), wide(cell_state)
    packed = (weight, recurrent_weight, bias, recurrent_bias, peephole_weight)
    return list(_lstm_step(x, h, c, hidden_size, packed, layout, activations))


def _slot(x: Array | None, d: int) -> Array | None:
    return None if x is None else x[d]


def _times(direction: str, steps: int) -> list[Sequence[int]]:
    """Order of the time steps for each direction slot."""
    forward, backward = range(steps), range(steps - 1, -1, -1)
    return {"forward": [forward], "backward": [backward], "both": [forward, backward]}[direction]


def _initial(state: Array | None, d: int, batch: int, hidden: int) -> Array:
    return np.zeros((batch, hidden)) if state is None else wide(state)[d]


@operator()
def gru(
    input: Array,
    weight: Array,
    recurrent_weight: Array,
    steps: int,
    hidden_size: int,
    *,
    bias: Array | None = None,
    recurrent_bias: Array | None = None,
    initial_hidden_state: Array | None = None,
    reset_after: bool = True,
    return_sequence: bool = False,
    direction: str = "forward",
    layout: str = "zrn",
    activations: Sequence[str] = ("sigmoid", "tanh"),
) -> list[Array]:
    x, orders = wide(input), _times(direction, steps)
    sequence, last = np.zeros((steps, len(orders), x.shape[1], hidden_size)), []
    for d, order in enumerate(orders):
        h = _initial(initial_hidden_state, d, x.shape[1], hidden_size)
        packed = (weight[d], recurrent_weight[d], _slot(bias, d), _slot(recurrent_bias, d))
        for t in order:
            h = sequence[t, d] = _gru_step(x[t], h, hidden_size, packed, reset_after, layout, activations)
        last.append(h)
    return [np.stack(last), sequence] if return_sequence else [np.stack(last)]


@operator()
def lstm(
    input: Array,
    weight: Array,
    recurrent_weight: Array,
    steps: int,
    hidden_size: int,
    *,
    bias: Array | None = None,
    recurrent_bias: Array | None = None,
    peephole_weight: Array | None = None,
    initial_hidden_state: Array | None = None,
    initial_cell_state: Array | None = None,
    return_sequence: bool = False,
    direction: str = "forward",
    layout: str = "iofg",
    activations: Sequence[str] = ("sigmoid", "tanh", "tanh"),
) -> list[Array]:
    x, orders = wide(input), _times(direction, steps)
    sequence, last, cells = np.zeros((steps, len(orders), x.shape[1], hidden_size)), [], []
    for d, order in enumerate(orders):
        h = _initial(initial_hidden_state, d, x.shape[1], hidden_size)
        c = _initial(initial_cell_state, d, x.shape[1], hidden_size)
        packed = (weight[d], recurrent_weight[d], _slot(bias, d), _slot(recurrent_bias, d), _slot(peephole_weight, d))
        for t in order:
            h, c = _lstm_step(x[t], h, c, hidden_size, packed, layout, activations)
            sequence[t, d] = h
        last.append(h)
        cells.append(c)
    outputs = [np.stack(last), np.stack(cells)]
    return [*outputs, sequence] if return_sequence else outputs
