"""Recurrent networks: every option with every other one that it could disturb."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.cases.model import Case, T

FLOATS = ("float32", "float16")
GATES = {"gru": 3, "lstm": 4}
LAYOUTS = {"gru": ("zrn", "rzn"), "lstm": ("iofg", "ifgo")}
DEFAULTS = {"gru": ("sigmoid", "tanh"), "lstm": ("sigmoid", "tanh", "tanh")}
EXTRAS = {
    "gru": ("bias", "recurrent_bias", "initial_hidden_state"),
    "lstm": ("bias", "recurrent_bias", "peephole_weight", "initial_hidden_state", "initial_cell_state"),
}


def _activations(net: str, turn: int) -> list[str]:
    """All choices of activations in turn, the defaults first."""
    names = ("sigmoid", "tanh", "relu")
    choices = [DEFAULTS[net], *itertools.product(names, repeat=len(DEFAULTS[net]))]
    return list(choices[turn % len(choices)])


def _shapes(net: str, directions: int, batch: int, hidden: int) -> dict[str, tuple[int, ...]]:
    packed, state = (directions, GATES[net] * hidden), (directions, batch, hidden)
    return {
        "bias": packed,
        "recurrent_bias": packed,
        "peephole_weight": (directions, 3 * hidden),
        "initial_hidden_state": state,
        "initial_cell_state": state,
    }


def network(
    net: str,
    sizes: tuple[int, int, int, int],
    data_type: str,
    extras: tuple[str, ...] = (),
    attrs: dict[str, Any] | None = None,
    **more: Any,
) -> Case:
    """A gru or lstm case; `sizes` are steps, batch, input size, hidden size; weights are small so that it settles."""
    steps, batch, width, hidden = sizes
    attrs = attrs or {}
    directions = 2 if attrs.get("direction") == "both" else 1
    limit = f"range:-{0.5 / hidden**0.5}:{0.5 / hidden**0.5}"
    shapes = _shapes(net, directions, batch, hidden)
    inputs = {
        "input": T((steps, batch, width), data_type, "unit"),
        "weight": T((directions, GATES[net] * hidden, width), data_type, "range:-0.4:0.4"),
        "recurrent_weight": T((directions, GATES[net] * hidden, hidden), data_type, limit),
        **{role: T(shapes[role], data_type, "unit") for role in extras},
    }
    return Case(net, inputs, {"steps": steps, "hidden_size": hidden, **attrs}, **more)


def cell(
    net: str,
    sizes: tuple[int, int, int],
    data_type: str,
    extras: tuple[str, ...] = (),
    attrs: dict[str, Any] | None = None,
    **more: Any,
) -> Case:
    """A gruCell or lstmCell case; `sizes` are batch, input size, hidden size."""
    batch, width, hidden = sizes
    states = ("hidden_state",) if net == "gru" else ("hidden_state", "cell_state")
    shapes = _shapes(net, 1, batch, hidden)
    inputs = {
        "input": T((batch, width), data_type, "unit"),
        "weight": T((GATES[net] * hidden, width), data_type, "range:-0.4:0.4"),
        "recurrent_weight": T((GATES[net] * hidden, hidden), data_type, "range:-0.4:0.4"),
        **{role: T((batch, hidden), data_type, "unit") for role in states},
        **{role: T(shapes[role][1:], data_type, "unit") for role in extras},
    }
    return Case(f"{net}_cell", inputs, {"hidden_size": hidden, **(attrs or {})}, **more)


def _options(net: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every combination of the options with a fixed set of values; activations take turns."""
    resets = (True, False) if net == "gru" else (None,)
    combinations = itertools.product(("forward", "backward", "both"), LAYOUTS[net], (False, True), resets)
    for turn, (direction, layout, sequence, reset) in enumerate(combinations):
        attrs: dict[str, Any] = {"direction": direction, "layout": layout, "return_sequence": sequence}
        attrs["activations"] = _activations(net, turn)
        yield turn, attrs if reset is None else {**attrs, "reset_after": reset}


def network_cases(net: str) -> Iterator[Case]:
    sizes = ((3, 2, 3, 5), (1, 1, 1, 1), (5, 3, 9, 8), (2, 1, 17, 9))
    extras = EXTRAS[net]
    for data_type in FLOATS:
        for turn, attrs in _options(net):
            yield network(net, sizes[turn % 4], data_type, extras, attrs)
            chosen = tuple(role for k, role in enumerate(extras) if (turn + 1) >> k & 1)
            yield network(net, sizes[(turn + 1) % 4], data_type, chosen, attrs, constants=frozenset({"weight"}))
        for role in extras:
            yield network(net, (3, 2, 4, 5), data_type, (role,), {"direction": "both"})
        yield network(net, (3, 2, 4, 5), data_type)
        fixed = frozenset({"weight", "recurrent_weight", *extras})
        yield network(net, (4, 2, 12, 24), data_type, extras, {"direction": "both"}, constants=fixed)
    parameters = frozenset({"weight", "recurrent_weight", "bias", "recurrent_bias"})
    yield network(net, (32, 4, 64, 64), "float32", extras[:2], constants=parameters, timed=True)


def cell_cases(net: str) -> Iterator[Case]:
    extras = tuple(role for role in EXTRAS[net] if not role.startswith("initial"))
    resets = ({"reset_after": True}, {"reset_after": False}) if net == "gru" else ({},)
    choices = 1 + 3 ** len(DEFAULTS[net])
    for data_type in FLOATS:
        for turn in range(choices):
            attrs = {
                "layout": LAYOUTS[net][turn % 2],
                "activations": _activations(net, turn),
                **resets[turn // 2 % len(resets)],
            }
            chosen = tuple(role for k, role in enumerate(extras) if turn >> k & 1)
            yield cell(net, ((2, 3, 5), (1, 1, 1), (3, 9, 8))[turn % 3], data_type, chosen, attrs)
        for reset, layout in itertools.product(resets, LAYOUTS[net]):
            yield cell(net, (2, 5, 6), data_type, extras, {**reset, "layout": layout})
        yield cell(net, (2, 5, 6), data_type, extras, constants=frozenset({"weight", "recurrent_weight", "bias"}))
    yield cell(net, (16, 128, 128), "float32", extras[:2], constants=frozenset({"weight"}), timed=True)


def cases() -> Iterator[Case]:
    for net in GATES:
        yield from network_cases(net)
        yield from cell_cases(net)
