"""Prologues: an element-wise chain applied where a reduction reads its elements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webnn_cl.compiler.elementwise import Chain, ChainText, chain_text
from webnn_cl.compiler.ir import Node, Value
from webnn_cl.dtypes import dtype_of

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg

__all__ = ["Prologue", "precedes", "prologue_of"]

LANES = 8


@dataclass(frozen=True)
class Prologue:
    """How a kernel's elements come: it reads `source`, of storage type X, by TAKE8, TAKE1 and TAKE_ACROSS, lists
    TAKE_ARGS behind its own parameters and passes them on with TAKE_PASS. `args` are theirs; `defines` and `code` go
    to its Kernel.
    """

    source: Value
    defines: dict[str, str]
    code: str
    args: tuple[Arg, ...]


def precedes(chain: Sequence[Node], reader: Node) -> bool:
    """Whether `reader` can compute `chain`, whose result nobody else needs, as it reads.

    All that the chain reads must lie like its result or be one element. The record says, as ``meta["prologue"]``,
    whether the operator reads each element once, by vectors.
    """
    rule = reader.op.meta.get("prologue")
    output = chain[-1].output
    if rule is None or list(reader.inputs.values()).count(output) != 1 or not rule(reader):
        return False
    inside = {node.output for node in chain}
    others = {v for node in chain for v in node.inputs.values()} - inside
    alike = [v for v in others if v.shape == output.shape]
    return bool(alike) and all(v in alike or v.desc.size == 1 for v in others) and not any(map(_is_view, others))


def _is_view(value: Value) -> bool:
    """Whether `value` may lie in another tensor, in another order."""
    node = value.producer
    while node is not None and node.op.view:
        node = node.inputs["input"].producer
    return node is not None and ("view" in node.op.meta or node.op.name == "split")


def prologue_of(chain: Chain) -> Prologue:
    """The prologue that computes `chain`."""
    texts = {width: chain_text(chain.nodes, width) for width in (LANES, 1)}
    inputs = texts[LANES].inputs
    first = next(k for k, value in enumerate(inputs) if value.shape == chain.output.shape)
    source = inputs[first]
    storage = dtype_of(source.data_type).storage
    arguments = [f"const __global {storage} *r_origin"]
    args: list[Arg] = [source]
    for k, value in enumerate(inputs):
        if k != first:
            arguments.append(f"const __global {dtype_of(value.data_type).storage} *r_s{k}")
            args.append(value)
    arguments += [f"const {kind} {_own(name)}" for name, kind, _ in texts[LANES].parameters]
    args += [number for _, _, number in texts[LANES].parameters]
    passed = "".join(f", {argument.replace('*', '').split()[-1]}" for argument in arguments)
    loads = {
        "take_8": (LANES, "", "LOAD8({T}, {p}, {i})"),
        "take_1": (1, "", "LOAD({T}, {p}, {i})"),
        "take_across": (LANES, ", IDX step", _across("LOAD({{T}}, {{p}}, {{i}} + {lane} * step)")),
    }
    functions = [
        _function(name, texts[width], width, more, load, chain, first) for name, (width, more, load) in loads.items()
    ]
    return Prologue(
        source,
        {
            "X": storage,
            "TAKE_ARGS": "".join(f", {a}" for a in arguments),
            "TAKE_PASS": passed,
            "TAKEN8": "VTYPE(A)",
            "TAKEN1": "CTYPE(A)",
            "TAKE8(p, i)": "take_8(p, i TAKE_PASS)",
            "TAKE1(p, i)": "take_1(p, i TAKE_PASS)",
            "TAKE_ACROSS(p, i, n)": "take_across(p, i, n TAKE_PASS)",
        },
        "\n".join([*{**texts[LANES].code, **texts[1].code}, *functions]) + "\n",
        tuple(args),
    )


def _across(element: str) -> str:
    return f"(VTYPE({{T}}))({', '.join(element.format(lane=lane) for lane in range(LANES))})"


def _function(name: str, text: ChainText, width: int, more: str, load: str, chain: Chain, first: int) -> str:
    """A function that gives what the reduction joins for element(s) i of `p`, a place in the tensor at r_origin."""
    typed = "VTYPE" if width > 1 else "CTYPE"
    lines = []
    for k, value in enumerate(text.inputs):
        storage = dtype_of(value.data_type).storage
        pointer, index = ("p", "i") if k == first else (f"r_s{k}", "(p - r_origin + i)")
        element = load.format(T=storage, p=pointer, i=index)
        if value.shape != chain.output.shape:
            element = f"({typed}({storage}))(LOAD({storage}, {pointer}, 0))"
        lines.append(f"const {typed}({storage}) r_x{k} = {element};")
    dtype = dtype_of(chain.output.data_type)
    result = f"ROUND{width}(half, result)" if dtype.name == "float16" else "result"
    lines += [f"{typed}({dtype.storage}) result;", *map(_own, text.statements)]
    lines += [f"const {typed}({dtype.storage}) v = {result};", f"return MAP{width}(v);"]
    head = f"static inline TAKEN{width} {name}(const __global X *p, IDX i{more} TAKE_ARGS)"
    return f"{head} {{ {' '.join(lines)} }}"


def _own(text: str) -> str:
    """The chain's variables under names apart from those of an epilogue."""
    return re.sub(r"\bk_", "r_", text)
