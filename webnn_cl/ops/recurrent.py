"""Recurrent networks (W3C WebNN, "gru", "gruCell", "lstm", "lstmCell")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.ops.base import DIM_MAX, BuilderBase, Call
from webnn_cl.ops.record import FLOATS, Operand, OpRecord, Output, register
from webnn_cl.ops.recurrent_lower import expand_recurrent

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.operand import MLOperand

__all__ = ["GRU", "GRU_CELL", "LSTM", "LSTM_CELL", "RecurrentMixin"]

Activation = Literal["relu", "sigmoid", "tanh"]
Direction = Literal["forward", "backward", "both"]
GruLayout = Literal["zrn", "rzn"]
LstmLayout = Literal["iofg", "ifgo"]
ACTIVATIONS: tuple[Activation, ...] = ("relu", "sigmoid", "tanh")
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward", "both")
GRU_LAYOUTS: tuple[GruLayout, ...] = ("zrn", "rzn")
LSTM_LAYOUTS: tuple[LstmLayout, ...] = ("iofg", "ifgo")


def _operands(required: Mapping[str, int], optional: Mapping[str, int]) -> tuple[Operand, ...]:
    """Operands by role and rank; all have the type of the first."""
    first = next(iter(required))
    return tuple(
        Operand(role, FLOATS, (rank, rank), same_as=None if role == first else first, optional=role in optional)
        for role, rank in {**required, **optional}.items()
    )


def _register(name: str, js: str, operands: tuple[Operand, ...], output_ranks: Sequence[int]) -> OpRecord:
    if len(output_ranks) == 1 and name == "gru_cell":
        outputs: tuple[Output, ...] = (Output("output", like="input"),)
    else:
        outputs = tuple(Output(f"output{k}", like="input", rank=(r, r)) for k, r in enumerate(output_ranks))
    return register(OpRecord(name, js, operands, outputs, expand=expand_recurrent))


_SEQUENCE = {"input": 3, "weight": 3, "recurrent_weight": 3}
_CELL = {"input": 2, "weight": 2, "recurrent_weight": 2, "hidden_state": 2}
GRU = _register("gru", "gru", _operands(_SEQUENCE, {"bias": 2, "recurrent_bias": 2, "initial_hidden_state": 3}), (3, 4))
GRU_CELL = _register("gru_cell", "gruCell", _operands(_CELL, {"bias": 1, "recurrent_bias": 1}), (2,))
LSTM = _register(
    "lstm",
    "lstm",
    _operands(
        _SEQUENCE,
        {"bias": 2, "recurrent_bias": 2, "peephole_weight": 2, "initial_hidden_state": 3, "initial_cell_state": 3},
    ),
    (3, 3, 4),
)
LSTM_CELL = _register(
    "lstm_cell",
    "lstmCell",
    _operands({**_CELL, "cell_state": 2}, {"bias": 1, "recurrent_bias": 1, "peephole_weight": 1}),
    (2, 2),
)


class RecurrentMixin(BuilderBase):
    """gru, gru_cell, lstm and lstm_cell of MLGraphBuilder."""

    def gru(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        steps: int,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        initial_hidden_state: MLOperand | None = None,
        reset_after: bool = True,
        return_sequence: bool = False,
        direction: Direction = "forward",
        layout: GruLayout = "zrn",
        activations: Sequence[Activation] | None = None,
        label: str = "",
    ) -> list[MLOperand]:
        """A gated recurrent unit over a sequence; D is 2 for direction "both", else 1.

        Args:
            input: float32 or float16, ``[steps, batch, inputs]``. All other operands have its type.
            weight: ``[D, 3 * hidden_size, inputs]``, rows packed by `layout`.
            recurrent_weight: ``[D, 3 * hidden_size, hidden_size]``.
            steps: number of time steps, as in `input`.
            hidden_size: number of hidden units.
            bias, recurrent_bias: ``[D, 3 * hidden_size]``; missing means 0.
            initial_hidden_state: ``[D, batch, hidden_size]``; missing means 0.
            reset_after: whether the reset gate applies to the recurrent product (True) or to the state before it.
            return_sequence: whether the state after every step is a second result.
            direction: ``"forward"``, ``"backward"`` (last step first) or ``"both"`` (slot 0 forward, slot 1 backward).
            layout: packing of the gates, ``"zrn"`` or ``"rzn"`` (update, reset, new).
            activations: of the gates z and r, and of n: ``"relu"``, ``"sigmoid"`` or ``"tanh"``; default sigmoid, tanh.
            label: names the operator in messages.

        Returns:
            The last state ``[D, batch, hidden_size]``; with `return_sequence` also all states
            ``[steps, D, batch, hidden_size]``, each at the time of its input.

        Raises:
            MLTypeError: data types, ranks, shapes or options that don't fit.

        W3C WebNN, "The gru() method". The state is kept in float32 between steps.
        """
        call = self._call(GRU, label)
        check = _Checked(call, input, weight, recurrent_weight, hidden_size, 3)
        options = {
            "reset_after": call.boolean("reset_after", reset_after),
            "layout": call.enum("layout", layout, GRU_LAYOUTS),
            "activations": check.activations(activations, ("sigmoid", "tanh")),
        }
        check.sequence(steps, direction, return_sequence)
        check.gates(bias=bias, recurrent_bias=recurrent_bias)
        check.states(initial_hidden_state=initial_hidden_state)
        return check.emit(options, states=1)

    def gru_cell(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        hidden_state: MLOperand,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        reset_after: bool = True,
        layout: GruLayout = "zrn",
        activations: Sequence[Activation] | None = None,
        label: str = "",
    ) -> MLOperand:
        """One step of a gated recurrent unit.

        Args:
            input: float32 or float16, ``[batch, inputs]``. All other operands have its type.
            weight: ``[3 * hidden_size, inputs]``, rows packed by `layout`.
            recurrent_weight: ``[3 * hidden_size, hidden_size]``.
            hidden_state: ``[batch, hidden_size]``.
            hidden_size: number of hidden units.
            bias, recurrent_bias: ``[3 * hidden_size]``; missing means 0.
            reset_after, layout, activations: as in `gru`.
            label: names the operator in messages.

        Returns:
            The new state, ``[batch, hidden_size]``: ``z * h + (1 - z) * n``.

        Raises:
            MLTypeError: data types, ranks, shapes or options that don't fit.

        W3C WebNN, "The gruCell() method".
        """
        call = self._call(GRU_CELL, label)
        check = _Checked(call, input, weight, recurrent_weight, hidden_size, 3)
        options = {
            "reset_after": call.boolean("reset_after", reset_after),
            "layout": call.enum("layout", layout, GRU_LAYOUTS),
            "activations": check.activations(activations, ("sigmoid", "tanh")),
        }
        check.gates(bias=bias, recurrent_bias=recurrent_bias)
        check.states(hidden_state=hidden_state)
        return check.emit(options, states=1)[0]

    def lstm(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        steps: int,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        peephole_weight: MLOperand | None = None,
        initial_hidden_state: MLOperand | None = None,
        initial_cell_state: MLOperand | None = None,
        return_sequence: bool = False,
        direction: Direction = "forward",
        layout: LstmLayout = "iofg",
        activations: Sequence[Activation] | None = None,
        label: str = "",
    ) -> list[MLOperand]:
        """A long short-term memory over a sequence; D is 2 for direction "both", else 1.

        Args:
            input: float32 or float16, ``[steps, batch, inputs]``. All other operands have its type.
            weight: ``[D, 4 * hidden_size, inputs]``, rows packed by `layout`.
            recurrent_weight: ``[D, 4 * hidden_size, hidden_size]``.
            steps: number of time steps, as in `input`.
            hidden_size: number of hidden units.
            bias, recurrent_bias: ``[D, 4 * hidden_size]``; missing means 0.
            peephole_weight: ``[D, 3 * hidden_size]``, packed i, o, f whatever the layout; missing means 0. All three
                gates see the previous cell state.
            initial_hidden_state, initial_cell_state: ``[D, batch, hidden_size]``; missing means 0.
            return_sequence: whether the hidden state after every step is a third result.
            direction: ``"forward"``, ``"backward"`` (last step first) or ``"both"`` (slot 0 forward, slot 1 backward).
            layout: packing of the gates, ``"iofg"`` or ``"ifgo"`` (input, output, forget, cell).
            activations: of the gates i, f and o, of g, and of the new cell state: ``"relu"``, ``"sigmoid"`` or
                ``"tanh"``; default sigmoid, tanh, tanh.
            label: names the operator in messages.

        Returns:
            The last hidden and the last cell state, ``[D, batch, hidden_size]``; with `return_sequence` also all
            hidden states ``[steps, D, batch, hidden_size]``, each at the time of its input.

        Raises:
            MLTypeError: data types, ranks, shapes or options that don't fit.

        W3C WebNN, "The lstm() method". The states are kept in float32 between steps.
        """
        call = self._call(LSTM, label)
        check = _Checked(call, input, weight, recurrent_weight, hidden_size, 4)
        options = {
            "layout": call.enum("layout", layout, LSTM_LAYOUTS),
            "activations": check.activations(activations, ("sigmoid", "tanh", "tanh")),
        }
        check.sequence(steps, direction, return_sequence)
        check.gates(bias=bias, recurrent_bias=recurrent_bias)
        check.peephole(peephole_weight)
        check.states(initial_hidden_state=initial_hidden_state, initial_cell_state=initial_cell_state)
        return check.emit(options, states=2)

    def lstm_cell(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        hidden_state: MLOperand,
        cell_state: MLOperand,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        peephole_weight: MLOperand | None = None,
        layout: LstmLayout = "iofg",
        activations: Sequence[Activation] | None = None,
        label: str = "",
    ) -> list[MLOperand]:
        """One step of a long short-term memory.

        Args:
            input: float32 or float16, ``[batch, inputs]``. All other operands have its type.
            weight: ``[4 * hidden_size, inputs]``, rows packed by `layout`.
            recurrent_weight: ``[4 * hidden_size, hidden_size]``.
            hidden_state, cell_state: ``[batch, hidden_size]``.
            hidden_size: number of hidden units.
            bias, recurrent_bias: ``[4 * hidden_size]``; missing means 0.
            peephole_weight: ``[3 * hidden_size]``, packed i, o, f; missing means 0.
            layout, activations: as in `lstm`.
            label: names the operator in messages.

        Returns:
            The new hidden state and the new cell state, ``[batch, hidden_size]``: ``o * a2(c)`` and
            ``c = f * cell_state + i * g``.

        Raises:
            MLTypeError: data types, ranks, shapes or options that don't fit.

        W3C WebNN, "The lstmCell() method".
        """
        call = self._call(LSTM_CELL, label)
        check = _Checked(call, input, weight, recurrent_weight, hidden_size, 4)
        options = {
            "layout": call.enum("layout", layout, LSTM_LAYOUTS),
            "activations": check.activations(activations, ("sigmoid", "tanh", "tanh")),
        }
        check.gates(bias=bias, recurrent_bias=recurrent_bias)
        check.peephole(peephole_weight)
        check.states(hidden_state=hidden_state, cell_state=cell_state)
        return check.emit(options, states=2)


class _Checked:
    """The checks that the four operators share; `lead` is ``(D,)`` for sequences and ``()`` for cells."""

    def __init__(
        self, call: Call, input: object, weight: object, recurrent_weight: object, hidden_size: object, gates: int
    ) -> None:
        self.call = call
        self.input = call.operand("input", input)
        self.weight = call.operand("weight", weight)
        self.recurrent_weight = call.operand("recurrent_weight", recurrent_weight)
        self.hidden = call.u32("hidden_size", hidden_size, minimum=1, maximum=DIM_MAX // (2 * gates))
        self.count = gates
        self.lead: tuple[int, ...] = ()
        self.attrs: dict[str, Any] = {"hidden_size": self.hidden}

    def sequence(self, steps: object, direction: object, return_sequence: object) -> None:
        """Options of whole sequences."""
        call = self.call
        count = call.u32("steps", steps, minimum=1)
        if self.input.shape[0] != count:
            raise call.error("steps", count, f"{self.input.shape[0]}, the first dimension of input")
        way = call.enum("direction", direction, DIRECTIONS)
        self.lead = (2 if way == "both" else 1,)
        self.attrs |= {
            "steps": count,
            "direction": way,
            "return_sequence": call.boolean("return_sequence", return_sequence),
        }

    def gates(self, **biases: MLOperand | None) -> None:
        """Shapes of weights and biases."""
        rows = self.count * self.hidden
        self._shape("weight", self.weight, (*self.lead, rows, self.input.shape[-1]))
        self._shape("recurrent_weight", self.recurrent_weight, (*self.lead, rows, self.hidden))
        for role, given in biases.items():
            self._shape(role, self.call.optional(role, given), (*self.lead, rows))

    def peephole(self, given: MLOperand | None) -> None:
        """Shape of the peephole weights."""
        shape = (*self.lead, 3 * self.hidden)
        self._shape("peephole_weight", self.call.optional("peephole_weight", given), shape)

    def states(self, **states: MLOperand | None) -> None:
        """Shapes of the states; a cell requires them."""
        shape = (*self.lead, self.input.shape[-2], self.hidden)
        for role, given in states.items():
            parse = self.call.optional if self.lead else self.call.operand
            self._shape(role, parse(role, given), shape)

    def activations(self, given: Sequence[Activation] | None, default: tuple[Activation, ...]) -> tuple[str, ...]:
        """The activation functions, as many as `default` has."""
        if given is None:
            return default
        return self.call.enum_list("activations", given, ACTIVATIONS, length=len(default))

    def emit(self, options: Mapping[str, Any], states: int) -> list[MLOperand]:
        """Record the node with `states` states as results, and the sequence if asked for."""
        state = (*self.lead, self.input.shape[-2], self.hidden)
        shapes = [state] * states
        if self.attrs.get("return_sequence"):
            shapes.append((self.attrs["steps"], *state))
        descs = [TensorDesc(self.input.data_type, shape) for shape in shapes]
        return self.call.emit_many(descs, {**self.attrs, **options})

    def _shape(self, role: str, value: Value | None, shape: tuple[int, ...]) -> None:
        if value is not None and value.shape != shape:
            raise self.call.error(role, f"shape {list(value.shape)}", list(shape))
