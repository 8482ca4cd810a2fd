"""Epilogues: an element-wise chain applied where another kernel stores its results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.elementwise import Chain, ChainText, broadcast_strides, chain_text
from webnn_cl.compiler.ir import Node, Value
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.strided import View

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg

__all__ = ["Place", "Tail", "accepts", "tail_of", "vector_run"]

HEADERS = ("elementwise.h",)


@dataclass(frozen=True)
class Place:
    """Where results go that lie elsewhere than one behind the other: result k is element k of `view` of `target`."""

    target: Value
    view: View

    @property
    def run(self) -> int:
        """How many results, from a multiple of itself on, are neighbours in `target`."""
        small = self.view.collapsed()
        return small.shape[-1] if small.shape and small.strides[-1] == 1 else 1

    @property
    def whole(self) -> bool:
        """Whether all of them are."""
        return self.run == self.view.size


@dataclass(frozen=True)
class Tail:
    """How a kernel's results leave: pass `defines`, `code` and `headers` to its Kernel, `args` after its own, and
    `output` in place of the node's output. The kernel stores by EMIT, EMIT8 and EMITN and lists EXTRA_ARGS last;
    functions that store for it list EXTRA_ARGS too and are called with EXTRA_PASS.
    """

    output: Value
    defines: dict[str, str] = field(default_factory=dict)
    code: str = ""
    headers: tuple[str, ...] = ()
    args: tuple[Arg, ...] = ()
    # Results don't lie like the operator's output, whose memory nothing may share element by element.
    moved: bool = False


def vector_run(node: Node) -> int:
    """How many consecutive results, from a multiple of itself on, hold every EMIT8 of `node`; 0 without epilogue.

    The record says, as ``meta["epilogue"]``, over how many trailing dimensions the eight elements of one EMIT8 may
    run (0: no epilogue).
    """
    rule = node.op.meta.get("epilogue")
    run = rule(node) if callable(rule) else int(rule or 0)
    shape = node.output.shape
    return math.prod(shape[max(len(shape) - run, 0) :]) if run else 0


def accepts(node: Node, chain: Sequence[Node]) -> bool:
    """Whether the kernel of `node` can apply `chain`, whose only shared value is the node's output.

    Operands that broadcast within the eight elements of one EMIT8 would need an index per element.
    """
    run = vector_run(node)
    output = chain[-1].output
    if run == 0 or len(node.outputs) != 1 or output.shape != node.output.shape:
        return False
    inside = {node.output, *(n.output for n in chain)}
    others = {v for n in chain for v in n.inputs.values()} - inside
    return all(_fits(value.shape, output.shape, run) for value in others)


def _fits(shape: tuple[int, ...], target: tuple[int, ...], run: int) -> bool:
    """Whether an operand of `shape` is walked evenly, or not at all, within `run` elements of `target`."""
    extent, stride = _steps(shape, target)[-1]
    return stride in (0, 1) and (extent % run == 0 or math.prod(target) == extent)


def tail_of(node: Node, chain: Chain | None, place: Place | None = None) -> Tail:
    """The tail of `node` with `chain` behind it, at `place`; the plain one without either."""
    if chain is None and place is None:
        return Tail(node.output)
    nodes = chain.nodes if chain is not None else []
    output = chain.output if chain is not None else node.output
    given = {node.output: "k_in"}
    texts = {width: chain_text(nodes, width, given) for width in (8, 1)}
    wide = texts[8]
    access = [_Operand(k, value, output) for k, value in enumerate(wide.inputs)]
    target = _target(place)
    arguments = [a.declaration for a in access] + [f"const {kind} {name}" for name, kind, _ in wide.parameters]
    arguments += [f"const IDX {name}" for name in target.args]
    at = target.index
    defines = {
        "EXTRA_ARGS": "".join(f", {a}" for a in arguments),
        "EXTRA_PASS": "".join(f", {a.replace('*', '').split()[-1]}" for part in arguments for a in part.split(",")),
        "EMIT8(y, i, v)": _body(node, output, wide, access, 8, "LOAD8", f"STORE8(OUT_, Y_, {at}, result)"),
        "EMITN(y, i, n, v)": _body(node, output, wide, access, 8, "LOADN", f"STOREN(OUT_, Y_, {at}, k_n, result)"),
        "EMIT(y, i, v)": _body(node, output, texts[1], access, 1, "LOAD", f"STORE(OUT_, Y_, {at}, result)"),
    }
    args: list[Arg] = [arg for a in access for arg in a.args]
    args += [value for _, _, value in wide.parameters]
    args += map(np.int64, target.args.values())
    code = "\n".join({**texts[8].code, **texts[1].code})
    return Tail(output if place is None else place.target, defines, code, HEADERS, tuple(args), place is not None)


@dataclass(frozen=True)
class _Target:
    """The index at which element ``k_i`` is stored, and the arguments by name that it needs."""

    index: str
    args: dict[str, int]


def _target(place: Place | None) -> _Target:
    if place is None:
        return _Target("k_i", {})
    small = place.view.collapsed()
    index, args = "k_base + k_i", {"k_base": small.offset}
    for level in range(len(small.shape) - 1):
        index += f" + (k_i / k_run{level}) * k_gap{level}"
        args[f"k_run{level}"] = math.prod(small.shape[level + 1 :])
        args[f"k_gap{level}"] = small.strides[level] - small.strides[level + 1] * small.shape[level + 1]
    return _Target(index, args)


def _body(
    node: Node, output: Value, text: ChainText, access: Sequence[_Operand], width: int, load: str, store: str
) -> str:
    """One statement: take value and index, load the other operands, run the chain, store."""
    suffix = "8" if width == 8 else ""
    kind = dtype_of(node.output.data_type).compute + suffix
    out = dtype_of(output.data_type)
    taken = "(v)"
    if node.output.data_type == "float16":
        taken = f"ROUND{width}(half, (v))"
    lines = [f"const IDX k_i = (i); const {kind} k_in = {taken};"]
    if load == "LOADN":
        lines.append("const IDX k_n = (n);")
    lines += [a.load(width, load) for a in access]
    statements = text.statements or ["result = k_in;"]
    # The kernel's own results may be of another type.
    memory = "y" if output.data_type == node.output.data_type else f"((__global {out.storage} *)(y))"
    store = store.replace("OUT_", out.storage).replace("Y_", memory)
    lines += [f"{out.compute}{suffix} result;", *statements, store + ";"]
    return "do { " + " ".join(lines) + " } while (0)"


class _Operand:
    """One further operand of the chain, addressed from the linear index of the output."""

    def __init__(self, index: int, value: Value, output: Value) -> None:
        self.name, self.value = f"k_x{index}", value
        self.storage = dtype_of(value.data_type).storage
        self.pointer = f"k_s{index}"
        self.steps = _steps(value.shape, output.shape)
        self.same = len(self.steps) == 1 and self.steps[0][1] == 1
        self.scalar = all(stride == 0 for _, stride in self.steps)

    @property
    def declaration(self) -> str:
        text = f"const __global {self.storage} *{self.pointer}"
        if not (self.same or self.scalar):
            text += "".join(f", const IDX {self.pointer}_d{k}, const IDX {self.pointer}_t{k}" for k in self._levels())
        return text

    @property
    def args(self) -> list[Arg]:
        if self.same or self.scalar:
            return [self.value]
        return [self.value, *(np.int64(n) for k in self._levels() for n in self.steps[k])]

    def _levels(self) -> range:
        return range(len(self.steps))

    def load(self, width: int, load: str) -> str:
        """Declares and fills the operand's variable; `load` is the macro for the width."""
        kind = f"VTYPE({self.storage})" if width == 8 else f"CTYPE({self.storage})"
        if self.scalar:
            return f"const {kind} {self.name} = ({kind})(LOAD({self.storage}, {self.pointer}, 0));"
        at, before = "k_i", ""
        splat = False
        if not self.same:
            at = f"{self.pointer}_at"
            before = self._address(at)
            splat = self.steps[-1][1] == 0
        if splat:
            return f"{before}const {kind} {self.name} = ({kind})(LOAD({self.storage}, {self.pointer}, {at}));"
        count = ", k_n" if load == "LOADN" else ""
        return f"{before}const {kind} {self.name} = {load}({self.storage}, {self.pointer}, {at}{count});"

    def _address(self, at: str) -> str:
        """Element index from the output's linear index, dimension by dimension from the last."""
        rest = f"{self.pointer}_r"
        lines = [f"IDX {at} = 0, {rest} = k_i;"]
        for k in reversed(self._levels()):
            extent, stride = f"{self.pointer}_d{k}", f"{self.pointer}_t{k}"
            if k == 0:
                lines.append(f"{at} += {rest} * {stride};")
            else:
                lines.append(f"{at} += ({rest} % {extent}) * {stride}; {rest} /= {extent};")
        return " ".join(lines) + " "


def _steps(shape: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
    """(extent, stride) of the collapsed dimensions in which a tensor of `shape` walks along `target`."""
    steps: list[tuple[int, int]] = []
    for extent, stride in zip(target, broadcast_strides(shape, target), strict=True):
        if extent == 1:
            continue
        if steps and steps[-1][1] == extent * stride:
            steps[-1] = (steps[-1][0] * extent, stride)
        else:
            steps.append((extent, stride))
    return steps or [(1, 0)]
