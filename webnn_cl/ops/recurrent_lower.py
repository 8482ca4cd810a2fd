"""GRU and LSTM: one matrix product for what the input contributes to all steps, then the steps.

A step is a matrix-vector product of all the recurrent weights. Where these fit in a core's cache, one work-item (on
GPUs one work-group) takes a direction and a few rows of the batch through all steps; where they don't, every step is a
launch over all cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.compiler.ir import Node, TensorDesc, Value
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.casting import CAST
from webnn_cl.ops.elementwise import ADD
from webnn_cl.ops.expansion import Expansion
from webnn_cl.ops.matrix import GEMM
from webnn_cl.ops.record import FLOATS, Operand, OpRecord, Output
from webnn_cl.ops.work import local_of

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["expand_recurrent"]

LANES = 8
# Rows of the sources that the kernels' gates are (recurrent.cl: z r n, or i f g o), by packing of the source.
GATES = {"zrn": (0, 1, 2), "rzn": (1, 0, 2), "iofg": (0, 2, 3, 1), "ifgo": (0, 1, 2, 3)}
FUNCTIONS = ("sigmoid", "tanh", "relu")  # by their numbers in recurrent.cl
PEEPHOLE_GATES = (0, 2, 1)  # i f o, from i o f
NO_GATE = -1


@dataclass(frozen=True)
class Costs:
    """Microseconds by which the two ways to run the steps are compared: a launch, and a megabyte of weights read by
    one core from its own cache, of `cache_bytes`, or from beyond."""

    launch: float = 6.0
    near: float = 12.0
    far: float = 45.0
    cache_bytes: int = 768 << 10


COSTS = Costs()
# On GPUs: work-items of a group, a divisor of it, and the weights that one group can read over and over.
GROUP, WARP, GPU_WEIGHT_BYTES = 256, 32, 2 << 20


@dataclass(frozen=True)
class Shape:
    """Extents of a recurrent node. `backward` has bit d set when direction d runs backward."""

    steps: int
    directions: int
    batch: int
    inputs: int
    hidden: int
    backward: int
    lstm: bool

    @classmethod
    def of(cls, node: Node) -> Shape:
        """The extents of a gru, lstm, gru_cell or lstm_cell node."""
        attrs, x = node.attrs, node.inputs["input"].shape
        steps, batch, inputs = (1, *x) if len(x) == 2 else x
        direction = attrs.get("direction", "forward")
        directions, backward = {"forward": (1, 0), "backward": (1, 1), "both": (2, 2)}[direction]
        return cls(steps, directions, batch, inputs, attrs["hidden_size"], backward, node.op.name.startswith("lstm"))

    @property
    def gates(self) -> int:
        return 4 if self.lstm else 3

    @property
    def blocks(self) -> int:
        """Blocks of eight hidden units."""
        return -(-self.hidden // LANES)

    @property
    def units(self) -> int:
        """Hidden units with those that fill the last block."""
        return self.blocks * LANES

    def sizes(self) -> bytes:
        """The argument `sizes` of recurrent.cl."""
        return dims((self.steps, self.directions, self.batch, self.hidden, self.blocks, self.backward))


# Packing ----------------------------------------------------------------------------------------------------


def _lower_pack(node: Node, lw: Lowering) -> None:
    source, attrs = node.inputs["input"], node.attrs
    gates, shape, depth = attrs["gates"], attrs["shape"], attrs["depth"]
    groups = shape.directions * shape.blocks * len(gates)
    defines = {"T": dtype_of(source.data_type).storage, "PANELS": int(attrs["panels"])}
    kernel = Kernel("recurrent_pack.cl", "recurrent_pack", defines, headers=("blocks.h",))
    sizes = dims((shape.hidden, depth, attrs["source_gates"], len(gates), groups))
    lw.launch(kernel, [source, node.output, sizes, dims(gates)], (-(-depth // 8), groups), (1, 8))


_PACK = OpRecord(
    "recurrent_pack", "", (Operand("input", FLOATS),), (Output("output", dtypes=("float32",)),), lower=_lower_pack
)


class _Parts(Expansion):
    """The expansion of a recurrent node."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.shape = Shape.of(node)

    def pack(self, role: str, gates: Sequence[int], depth: int = 1, panels: bool = False) -> Value | None:
        """The weights or bias `role`, of `depth` elements a row, as recurrent_pack.cl makes it; None if missing."""
        source = self.origin.inputs.get(role)
        if source is None:
            return None
        s = self.shape
        rows = s.directions * s.units * len(gates)
        attrs = {
            "gates": tuple(gates),
            "shape": s,
            "depth": depth,
            "panels": panels,
            "source_gates": source.desc.size // (s.directions * s.hidden * depth),
        }
        shape = (rows,) if depth == 1 and not panels else (rows, depth)
        return self.add(_PACK, {"input": source}, attrs, TensorDesc("float32", shape))

    def input_products(self, bias: Value | None) -> Value:
        """What the input contributes to all gates of all steps, [steps * batch, directions * blocks * gates * 8]."""
        s, x = self.shape, self.origin.inputs["input"]
        x = self.reshaped(x, (s.steps * s.batch, s.inputs))
        if x.data_type != "float32":
            x = self.add(CAST, {"input": x}, {"data_type": "float32"}, TensorDesc("float32", x.shape))
        weight = self.pack("weight", GATES[self.origin.attrs["layout"]], s.inputs)
        assert weight is not None
        weight = self.reshaped(weight, (s.directions * s.units * s.gates, s.inputs))
        inputs = {"a": x, "b": weight} | ({} if bias is None else {"c": bias})
        attrs = {"alpha": 1.0, "beta": 1.0, "a_transpose": False, "b_transpose": True}
        return self.add(GEMM, inputs, attrs, TensorDesc("float32", (x.shape[0], weight.shape[0])))

    def sum(self, a: Value | None, b: Value | None) -> Value | None:
        """`a` + `b`, of which any may be missing."""
        if a is None or b is None:
            return a or b
        return self.add(ADD, {"a": a, "b": b}, {}, a.desc)


def expand_recurrent(node: Node) -> list[Node]:
    """The nodes that a gru, lstm, gru_cell or lstm_cell stands for: packings, one gemm, and the steps."""
    parts, attrs = _Parts(node), node.attrs
    gates, hidden = GATES[attrs["layout"]], parts.shape.hidden
    after = not parts.shape.lstm and attrs["reset_after"]
    # With reset_after the recurrent bias of gate n stays with its product.
    beside = (*gates[:2], NO_GATE) if after else gates
    bias = parts.sum(parts.pack("bias", gates), parts.pack("recurrent_bias", beside))
    inputs: dict[str, Value | None] = {"pre": parts.input_products(bias)}
    together = gates[:2] if not parts.shape.lstm and not after else gates
    inputs["panels"] = parts.pack("recurrent_weight", together, hidden, panels=True)
    if after:
        inputs["extra"] = parts.pack("recurrent_bias", gates[2:])
    elif parts.shape.lstm:
        inputs["extra"] = parts.pack("peephole_weight", PEEPHOLE_GATES)
    else:
        inputs["new_panels"] = parts.pack("recurrent_weight", gates[2:], hidden, panels=True)
    for role, names in _STATES.items():
        inputs[role] = next((node.inputs[name] for name in names if name in node.inputs), None)
    given = {role: value for role, value in inputs.items() if value is not None}
    parts.add_many(_STEPS, given, {**attrs, "shape": parts.shape}, [v.desc for v in node.outputs])
    return parts.nodes


# Roles of the states among a node's inputs: of whole sequences, and of cells.
_STATES = {"hidden": ("initial_hidden_state", "hidden_state"), "cell": ("initial_cell_state", "cell_state")}


# Steps ------------------------------------------------------------------------------------------------------


def _lower_steps(node: Node, lw: Lowering) -> None:
    s: Shape = node.attrs["shape"]
    state_bytes = 4 * s.directions * s.batch * s.units
    state = [lw.scratch(2 * state_bytes), *([lw.scratch(state_bytes)] if s.lstm else [])]
    _launch_start(node, lw, state)
    rows = 2 if s.batch > 1 else 1
    tiles = -(-s.batch // rows)
    after = s.lstm or node.attrs["reset_after"]
    pre, outputs = node.inputs["pre"], node.outputs
    args: list[Arg] = [pre, node.inputs["panels"], node.inputs.get("extra", pre)]
    args += [] if after else [node.inputs["new_panels"], lw.scratch(state_bytes), lw.scratch(state_bytes)]
    args += [*state, *outputs, *([] if node.attrs.get("return_sequence") else outputs[:1]), s.sizes(), _options(node)]
    lanes = LANES if lw.facts.is_cpu else 1
    defines = _defines(node) | {"RESET_AFTER": int(after), "ROWS": rows, "LANES": lanes}
    if not _in_one_launch(s, tiles, lw.facts):
        _launch_each_step(s, lw, args, defines, (-(-s.hidden // lanes), tiles, s.directions))
    elif lw.facts.is_cpu:
        lw.launch(_kernel("recurrent_all", defines | {"STAGE": 1}), args, (tiles, s.directions))
    else:
        group = min(GROUP, lw.facts.max_work_group_size, -(-s.hidden // WARP) * WARP)
        kernel = _kernel("recurrent_group", defines | {"STAGE": 3})
        lw.launch(kernel, args, (tiles * group, s.directions), (group, 1))


def _launch_each_step(
    s: Shape, lw: Lowering, args: Sequence[Arg], defines: dict[str, Any], grid: Sequence[int]
) -> None:
    local = local_of(lw.facts, 3)
    step_kernel = _kernel("recurrent_step", defines | {"STAGE": 2})
    reset_kernel = _kernel("recurrent_reset", defines | {"STAGE": 2})
    for step in range(s.steps):
        if not (s.lstm or defines["RESET_AFTER"]):
            lw.launch(reset_kernel, [*args, np.int64(step)], grid, local)
        lw.launch(step_kernel, [*args, np.int64(step)], grid, local)


_STEPS = OpRecord(
    "recurrent_steps",
    "",
    tuple(Operand(role, FLOATS, optional=True) for role in ("pre", "panels", "new_panels", "extra", *_STATES)),
    (Output("output"),),
    lower=_lower_steps,
)


def _launch_start(node: Node, lw: Lowering, state: Sequence[Buffer]) -> None:
    s: Shape = node.attrs["shape"]
    given: list[Arg] = [node.inputs[role] for role in _STATES if role in node.inputs]
    present = {f"HAS_{role.upper()}": int(role in node.inputs) for role in _STATES}
    kernel = _kernel("recurrent_start", _defines(node) | {"STAGE": 0} | present)
    lw.launch(kernel, [*given, *state, s.sizes()], (s.blocks, s.directions * s.batch), (1, 8))


def _kernel(entry: str, defines: dict[str, Any]) -> Kernel:
    return Kernel("recurrent.cl", entry, defines, headers=("elementwise.h",))


def _defines(node: Node) -> dict[str, Any]:
    return {"T": dtype_of(node.output.data_type).storage, "LSTM": int(node.attrs["shape"].lstm)}


def _options(node: Node) -> bytes:
    """The argument `options` of recurrent.cl."""
    functions = [FUNCTIONS.index(name) for name in node.attrs["activations"]]
    flags = ("extra" in node.inputs, bool(node.attrs.get("return_sequence")))
    return dims((*functions, *[0] * (3 - len(functions)), *flags))


def _in_one_launch(s: Shape, tiles: int, facts: DeviceFacts) -> bool:
    """Whether one work-item (on GPUs: work-group) per direction and tile of rows beats a launch per step."""
    if not facts.is_cpu:
        return s.gates * s.hidden * s.units * 4 <= GPU_WEIGHT_BYTES
    cores = facts.compute_units or 8
    items = tiles * s.directions
    megabytes = s.gates * s.hidden * s.units * 4 / 1e6
    fits = megabytes * 1e6 <= COSTS.cache_bytes
    alone = -(-items // cores) * megabytes * (COSTS.near if fits else COSTS.far)
    share = megabytes * s.directions / cores
    shared = COSTS.launch + tiles * share * (COSTS.near if share * 1e6 <= COSTS.cache_bytes else COSTS.far)
    return alone <= shared
