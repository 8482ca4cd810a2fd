"""Attention: softmax(f(q k)) v as one operator, which the compiler puts together (compiler/attention.py)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import kernels_cl
from webnn_cl.compiler.elementwise import Chain, chain_text
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.record import FLOATS, Operand, OpRecord, Output
from webnn_cl.ops.strided import View
from webnn_cl.tiles.plan import PANEL, ROWS, ceil_div, workers

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node, Value
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["ATTENTION", "MAX_DEPTH", "MAX_STACK", "Blocks", "Extents", "Scores", "operand_roles", "pays"]

MAX_STACK = 5  # dimensions of the stack of matrices: STACK of attention.cl
MAX_DEPTH = 512  # numbers of a query: one register run (TILE_RUN of tile.h)
CHUNK = 256  # keys of a chunk: a panel of values and the weights of a tile stay in the first cache
LARGEST_BLOCK = 96  # rows of a block: its scores take 96 KiB of the second cache
ITEMS_PER_CORE = 4
FEW_ROWS = 3  # up to so many, keys and values are not packed
SMALL_BYTES = 8 << 20  # of scratch, whatever a matrix of scores would take
RESIDENT_BYTES = 2 << 20  # keys and values of a matrix are packed once if they take no more


@dataclass(frozen=True)
class Extents:
    """Queries (`rows`), keys, numbers of a query (`depth`) and of a value (`columns`) of each of `matrices`."""

    matrices: int
    rows: int
    keys: int
    depth: int
    columns: int


@dataclass(frozen=True)
class Blocks:
    """How the work is cut (numbers as in attention.cl) and the floats of scratch that a work-item takes."""

    block: int
    chunk: int
    resident: bool
    blocks: int
    blocks_each: int
    scratch_each: int

    @property
    def items(self) -> int:
        return ceil_div(self.blocks, self.blocks_each)

    @property
    def scratch_bytes(self) -> int:
        return 4 * self.items * self.scratch_each

    @classmethod
    def of(cls, e: Extents, facts: DeviceFacts) -> Blocks:
        """Blocks as even as possible, and enough of them for all cores."""
        wanted = workers(facts) * ITEMS_PER_CORE
        parts = max(ceil_div(e.rows, LARGEST_BLOCK), min(ceil_div(wanted, e.matrices), ceil_div(e.rows, 4 * ROWS)))
        block = _multiple(ceil_div(e.rows, parts), ROWS)
        chunk = _multiple(ceil_div(e.keys, ceil_div(e.keys, CHUNK)), PANEL)
        blocks = e.matrices * ceil_div(e.rows, block)
        wide, padded = _multiple(e.columns, PANEL), _multiple(e.keys, PANEL)
        resident = 4 * padded * (e.depth + wide) <= RESIDENT_BYTES
        # The last chunk of values is as large as the others.
        held = padded * e.depth + _multiple(e.keys, chunk) * wide if resident else chunk * (e.depth + wide)
        floats = _multiple(block * e.depth, 16) + block * (chunk + wide) + _multiple(3 * block, 16) + held
        each, of_matrix = ceil_div(blocks, wanted), ceil_div(e.rows, block)
        if each > of_matrix:  # no matrix is packed twice
            each = _multiple(each, of_matrix)
        return cls(block, chunk, resident, blocks, each, _multiple(floats, 16))


def pays(extents: Extents, facts: DeviceFacts) -> bool:
    """Whether attention as one operator is faster than its parts, and takes no more memory."""
    if extents.rows <= FEW_ROWS:
        return extents.matrices >= workers(facts)
    cut = Blocks.of(extents, facts)
    if cut.blocks < workers(facts):
        return False
    return cut.scratch_bytes <= max(4 * extents.matrices * extents.rows * extents.keys, SMALL_BYTES)


def _multiple(n: int, of: int) -> int:
    return ceil_div(n, of) * of


@dataclass(frozen=True, eq=False)
class Scores:
    """The element-wise `chain` that products go through before softmax; `start` stands for the products.

    Its other inputs are operands of the attention, in the order in which the chain reads them.
    """

    chain: Chain
    start: Value

    def operands(self) -> list[Value]:
        """What the chain reads beside the products."""
        return chain_text(self.chain.nodes, 8, {self.start: "k_in"}).inputs


def operand_roles(count: int) -> list[str]:
    """Names of the chain's operands among the inputs of an attention node."""
    return [f"scores.{k}" for k in range(count)]


def _lower_attention(node: Node, lw: Lowering) -> None:
    e, stack = node.attrs["extents"], node.attrs["stack"]
    tail = lw.tail(node)
    steps: list[tuple[int, ...]] = []
    sources: list[Arg] = []
    shapes = ((e.rows, e.depth), (e.depth, e.keys), (e.keys, e.columns))
    for role, shape in zip("qkv", shapes, strict=True):
        source, view = _found(node.inputs[role], (*stack, *shape), lw, (1,) if role == "v" else ())
        sources.append(source)
        steps.append(_walk(view))
    steps.append(_walk(node.attrs["output_view"]))
    defines, args = _score_macros(node, lw)
    scale = np.float32(2.0 ** -(64 + math.ceil(math.log2(max(e.keys, 1)))))
    few = e.rows <= FEW_ROWS
    kernel = Kernel(
        "attention.cl",
        "attention_few" if few else "attention",
        {**defines, **tail.defines},
        kernels_cl.read("exp_sums.cl") + tail.code,
        ("tile.h", "elementwise.h", "move.h", *tail.headers),
    )
    numbers: tuple[int, ...] = (e.rows, e.keys, e.depth, e.columns)
    factors = tuple(np.float32(factor) for factor in node.attrs["factors"])
    if few:
        items, scratch_each = e.matrices, _multiple(e.depth, 16) + _multiple(e.keys, 16)
        factors = (np.float32(factors[0] * factors[1]),)
    else:
        cut = Blocks.of(e, lw.facts)
        items, scratch_each = cut.items, cut.scratch_each
        numbers += (cut.block, cut.chunk, int(cut.resident), cut.blocks, cut.blocks_each)
    arguments: list[Arg] = [*sources, tail.output, lw.scratch(4 * items * scratch_each)]
    arguments += [*(np.int64(n) for n in (scratch_each, *numbers)), *factors, scale]
    arguments += [np.int32(len(stack)), dims(stack), *(dims(walk) for walk in steps), *args, *tail.args]
    lw.launch(kernel, arguments, (items,))


def _walk(view: View) -> tuple[int, ...]:
    """Steps along the stack, then from the sixth on offset, row and column: "walk" of attention.cl."""
    *stack, row, column = view.strides
    return (*stack, *[0] * (MAX_STACK - len(stack)), view.offset, row, column)


def _found(value: Value, shape: Sequence[int], lw: Lowering, last: Sequence[int] = ()) -> tuple[Arg, View]:
    """Where `value`, seen as (and broadcast to) `shape`, lies: in what it views, if strides can say that.

    `last` are the steps that the last dimension may have; any without.
    """
    viewed = lw.view_of(value)
    if viewed is not None:
        view = _seen_as(viewed[1], shape)
        if view is not None and (not last or view.shape[-1] == 1 or view.strides[-1] in last):
            return viewed[0], view
    view = _seen_as(View.packed(value.shape), shape)
    assert view is not None
    return lw.buffer(value), view


def _seen_as(view: View, shape: Sequence[int]) -> View | None:
    """`view` as `shape`: broadcast, or with the dimensions of its stack cut otherwise."""
    if math.prod(view.shape) == math.prod(shape):
        return view.reshaped(shape)
    return view.expanded(shape)


def _score_macros(node: Node, lw: Lowering) -> tuple[dict[str, object], list[Arg]]:
    """Macros and arguments of the chain on the scores: see attention.cl."""
    scores: Scores | None = node.attrs["scores"]
    if scores is None:
        return {}, []
    e, stack = node.attrs["extents"], node.attrs["stack"]
    text = chain_text(scores.chain.nodes, 8, {scores.start: "k_in"})
    arguments, args, finds, rows, passed = [], [], [], [], []
    loads: dict[str, list[str]] = {"LOAD8": [], "LOADN": []}
    for k, role in enumerate(operand_roles(len(text.inputs))):
        value = node.inputs[role]
        source, view = _found(value, (*stack, e.rows, e.keys), lw, (0, 1))
        storage = dtype_of(value.data_type).storage
        arguments.append(f"const __global {storage} *f_s{k}, dims_t f_w{k}")
        args += [source, dims(_walk(view))]
        finds.append(f"const __global {storage} *f_m{k} = f_s{k} + offset_of(index, rank, &stack, &f_w{k});")
        rows.append(f"const __global {storage} *f_r{k} = f_m{k} + (m) * ROW_STEP(f_w{k});")
        passed.append((f"const __global {storage} *f_r{k}", f"f_r{k}"))
        for macro, lines in loads.items():
            count = ", count" if macro == "LOADN" else ""
            once = view.strides[-1] != 1
            element = f"LOAD({storage}, f_r{k}, 0)" if once else f"{macro}({storage}, f_r{k}, n{count})"
            lines.append(f"const VTYPE({storage}) f_x{k} = (VTYPE({storage}))({element});")
    for name, kind, number in text.parameters:
        arguments.append(f"const {kind} {_own(name)}")
        args.append(number)
        passed.append((f"const {kind} {_own(name)}", _own(name)))
    statements = [_own(statement) for statement in text.statements]
    names = [part.split()[-1].lstrip("*") for argument in arguments for part in argument.split(",")]
    return {
        "SCORE_ARGS": "".join(f", {a}" for a in arguments),
        "SCORE_PASS": "".join(f", {name}" for name in names),
        "SCORE_ROW_ARGS": "".join(f", {declared}" for declared, _ in passed),
        "SCORE_ROW_PASS": "".join(f", {name}" for _, name in passed),
        "SCORE_FIND(index)": " ".join(finds),
        "SCORE_ROW(m)": " ".join(rows),
        "SCORE8(v, n)": _replacement(loads["LOAD8"], statements),
        "SCOREN(v, n, count)": _replacement(loads["LOADN"], statements),
    }, args


def _own(text: str) -> str:
    """The chain's variables under names apart from those of an epilogue."""
    return re.sub(r"\bk_", "f_", text)


def _replacement(loads: Sequence[str], statements: Sequence[str]) -> str:
    lines = ["const float8 f_in = v; float8 result;", *loads, *statements, "v = result;"]
    return "do { " + " ".join(lines) + " } while (0)"


# softmax(scores(q k)) v for stacks of matrices, all float32: q [stack, rows, depth], k [stack, depth, keys] and v
# [stack, keys, columns], each as such or in other dimensions of as many elements. Attributes: `extents`, `stack` (its
# shape), `factors` of q and k, `scores` (Scores or None), and `output_view`, where the result's [stack, rows, columns]
# lie in the output.
ATTENTION = OpRecord(
    "attention",
    "",
    (Operand("q", FLOATS), Operand("k", FLOATS), Operand("v", FLOATS), Operand("scores", FLOATS, many=True)),
    (Output("output", like="q"),),
    lower=_lower_attention,
    meta={"epilogue": 1, "reads_views": True},
)
