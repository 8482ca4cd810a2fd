"""The smallest valid call of every operator for given data types and ranks of its operands: for the test of limits.

Dimensions are 2 wherever they are free, so shapes of any ranks broadcast.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests import spec
from tests.cases import Case, T

Ranks = Mapping[str, int]
Shapes = dict[str, tuple[int, ...]]
Plan = tuple[Shapes, dict[str, Any]]

RECIPES = {"condition": "bool", "indices": "index:2", "scale": "positive", "variance": "positive"}
H = 2
STATES = {"hidden_state": (2, H), "cell_state": (2, H)}


def _twos(rank: int) -> tuple[int, ...]:
    return (2,) * rank


def _plain(op: str, ranks: Ranks) -> Plan:
    return {role: _twos(rank) for role, rank in ranks.items()}, {}


def _with(attrs: Callable[[int], dict[str, Any]]) -> Callable[[str, Ranks], Plan]:
    """A plan whose attributes depend on the first operand's rank."""
    return lambda op, ranks: (_plain(op, ranks)[0], attrs(next(iter(ranks.values()))))


def _quantize(op: str, ranks: Ranks) -> Plan:
    return {role: _twos(r) if role == "input" else (1,) * r for role, r in ranks.items()}, {}


def _batch(op: str, ranks: Ranks) -> Plan:
    return _plain(op, ranks)[0], {"axis": max(0, ranks["input"] - 1)}


def _layer(op: str, ranks: Ranks) -> Plan:
    inner = ranks.get("scale", ranks.get("bias"))
    return _plain(op, ranks)[0], {} if inner is None else {"axes": list(range(inner))}


def _nd(op: str, ranks: Ranks) -> Plan:
    """Indices of depth 1, unless fewer update dimensions are wanted than that leaves."""
    data, lead = ranks["input"], ranks["indices"] - 1
    depth = max(1, data + lead - ranks["updates"]) if "updates" in ranks else 1
    shapes = {role: _twos(rank) for role, rank in ranks.items()}
    shapes["indices"] = _twos(lead) + ((depth,) if lead >= 0 else ())
    return shapes, {}


def _network(op: str, ranks: Ranks) -> Plan:
    gates = 3 if op.startswith("gru") else 4
    lead = () if op.endswith("cell") else (1,)
    packed = (*lead, gates * H)
    full: Shapes = {
        "input": (2, 2) if op.endswith("cell") else (2, 2, 2),
        "weight": (*packed, 2),
        "recurrent_weight": (*packed, H),
        "bias": packed,
        "recurrent_bias": packed,
        "peephole_weight": (*lead, 3 * H),
        **STATES,
        "initial_hidden_state": (1, 2, H),
        "initial_cell_state": (1, 2, H),
    }
    # A rank that is not the right one gets leading ones or loses leading dimensions.
    shapes = {role: ((1,) * rank + full[role])[len(full[role]) :][:rank] for role, rank in ranks.items()}
    attrs = {"hidden_size": H}
    return shapes, attrs if op.endswith("cell") else {"steps": 2, "return_sequence": True, **attrs}


PLANS: dict[str, Callable[[str, Ranks], Plan]] = {
    **dict.fromkeys(("quantize_linear", "dequantize_linear"), _quantize),
    **dict.fromkeys(("gru", "gru_cell", "lstm", "lstm_cell"), _network),
    **dict.fromkeys(("gather_nd", "scatter_nd"), _nd),
    **dict.fromkeys(("softmax", "arg_min", "arg_max", "cumulative_sum", "concat"), _with(lambda rank: {"axis": 0})),
    "batch_normalization": _batch,
    "layer_normalization": _layer,
    "cast": _with(lambda rank: {"data_type": "int32"}),
    "expand": _with(lambda rank: {"new_shape": [2] * rank}),
    "pad": _with(lambda rank: {"beginning_padding": [1] * rank, "ending_padding": [0] * rank}),
    "reshape": _with(lambda rank: {"new_shape": [2] * rank}),
    "slice": _with(lambda rank: {"starts": [1] * rank, "sizes": [1] * rank}),
    "split": _with(lambda rank: {"splits": 2}),
    "tile": _with(lambda rank: {"repetitions": [2] + [1] * (rank - 1) if rank else []}),
}


def make(op: str, types: Mapping[str, str], ranks: Ranks) -> Case:
    """The call of `op` with these data types and ranks; roles that are left out are not given."""
    shapes, attrs = PLANS.get(op, _plain)(op, ranks)
    tensors = {role: T(shape, types[role], RECIPES.get(role, "small")) for role, shape in shapes.items()}
    return Case(op, {role: [t, t] if role == "inputs" else t for role, t in tensors.items()}, attrs)


def group(op: str, role: str, kind: str) -> set[str]:
    """Operands whose type ("same_type") or rank ("same_rank") is bound to that of `role`, itself included."""
    operands = spec.OPERANDS[op]
    anchor = getattr(operands[role], kind) or role
    return {anchor, *(name for name, limits in operands.items() if getattr(limits, kind) == anchor)}


def default_types(op: str) -> dict[str, str]:
    """A valid data type for every operand."""
    return {role: limits.data_types[0] for role, limits in spec.OPERANDS[op].items()}


def rank_choices(op: str, role: str, rank: int) -> dict[str, int] | None:
    """Ranks of all operands that fit together when `role` has this rank; None when no call has it."""
    operands = spec.OPERANDS[op]
    fixed = dict.fromkeys(group(op, role, "same_rank"), rank)
    free = [name for name in operands if name not in fixed]
    # The same rank first, since operands of one shape take the plainest kernel; else as small as may be. Gathers need
    # small ones throughout, to show outputs of every rank.
    gathers = op.startswith("gather")
    spans = [
        sorted(
            range(operands[name].ranks[0], operands[name].ranks[1] + 1), key=lambda r: (r != rank and not gathers, r)
        )
        for name in free
    ]
    for choice in itertools.product(*spans):
        chosen = {**fixed, **dict(zip(free, choice, strict=True))}
        if fits(op, chosen):
            return {name: chosen[name] for name in operands}
    return None


def fits(op: str, ranks: Ranks) -> bool:
    """Whether operands of these ranks can meet in one call."""
    for role, limits in spec.OPERANDS[op].items():
        if limits.same_rank and ranks[role] != ranks[limits.same_rank]:
            return False
    data = ranks.get("input", 0)
    if op == "layer_normalization":
        return ranks["scale"] == ranks["bias"] <= data
    if op == "gather":
        return data + ranks["indices"] - 1 <= spec.MAX_RANK
    if op == "gather_nd":
        return data + ranks["indices"] - 2 <= spec.MAX_RANK
    if op == "scatter_nd":
        depth = data + ranks["indices"] - 1 - ranks["updates"]
        return 1 <= depth <= min(2, data)
    return True


def accepted(op: str) -> Iterator[Case]:
    """Calls that cover every data type and rank of every operand."""
    for role, limits in spec.OPERANDS[op].items():
        for data_type in limits.data_types:
            types = {**default_types(op), **dict.fromkeys(group(op, role, "same_type"), data_type)}
            for rank in range(limits.ranks[0], limits.ranks[1] + 1):
                ranks = rank_choices(op, role, rank)
                if ranks is not None:
                    yield make(op, types, ranks)
    if op == "cast":
        for target in spec.OUTPUTS["cast"]["output"].data_types:
            yield Case("cast", {"input": T((2,))}, {"data_type": target})
    if op in ("arg_min", "arg_max"):
        for target in spec.OUTPUTS[op]["output"].data_types:
            yield Case(op, {"input": T((2,))}, {"axis": 0, "output_data_type": target})
    if op.startswith(("reduce_", "arg_")):  # the other ranks that an output may have
        axis = {"axis": 0} if op.startswith("arg_") else {}
        for rank in range(1, spec.MAX_RANK + 1):
            yield Case(op, {"input": T(_twos(rank), values="positive")}, {**axis, "keep_dimensions": True})
    if op == "gather_nd":
        yield make(op, default_types(op), {"input": spec.MAX_RANK, "indices": 2})


def refused(op: str, all_types: tuple[str, ...]) -> Iterator[Case]:
    """Calls with one operand (and those bound to it) of a type or rank outside its limits, or unlike its partner's."""
    for role, limits in spec.OPERANDS[op].items():
        ranks = rank_choices(op, role, limits.ranks[0])
        assert ranks is not None, (op, role)
        for data_type in all_types:
            if data_type not in limits.data_types:
                bound = group(op, role, "same_type")
                yield make(op, {**default_types(op), **dict.fromkeys(bound, data_type)}, ranks)
            if limits.same_type and data_type != default_types(op)[limits.same_type]:
                yield make(op, {**default_types(op), role: data_type}, ranks)
        for rank in range(spec.MAX_RANK + 1):
            if not limits.ranks[0] <= rank <= limits.ranks[1]:
                yield make(op, default_types(op), {**ranks, **dict.fromkeys(group(op, role, "same_rank"), rank)})
            if limits.same_rank and rank != ranks[limits.same_rank]:
                yield make(op, default_types(op), {**ranks, role: rank})
