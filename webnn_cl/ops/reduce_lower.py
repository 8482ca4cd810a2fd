"""Lowering of reductions: axes are joined to [outer, n, inner], long or scattered ones go in several passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import kernels_cl
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.dtypes import DType, dtype_of
from webnn_cl.ops.groups import Share, launch_lines, share_of
from webnn_cl.ops.strided import BYTES_PER_ITEM, ITEMS_PER_UNIT

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.compiler.prologue import Prologue
    from webnn_cl.compiler.tail import Tail
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = [
    "Pass",
    "Split",
    "epilogue_run",
    "launch_pass",
    "lower_reduction",
    "output_shape",
    "passes",
    "share_out",
    "sum_defines",
    "takes_prologue",
]

SHORTEST_PART = 4096  # elements
WIDE = 128  # vectors of eight columns that a work-item of a ..._columns kernel keeps
# Below this one CPU core is done with a reduction before several are with its parts and, in another launch, with their
# results: measured on two cores (docs/performance.md).
WORTH_PARTS_BYTES = 1 << 20
HEADERS: tuple[str, ...] = ("elementwise.h", "move.h")  # exponentials


@dataclass(frozen=True)
class Pass:
    """One reduction of the middle dimension of a packed [outer, n, inner]."""

    outer: int
    n: int
    inner: int

    @property
    def result_size(self) -> int:
        return self.outer * self.inner


@dataclass(frozen=True)
class Split:
    """How a pass is shared out: `outer_each` of the outer dimension per work-item, or `parts` of `chunk` each."""

    outer_each: int
    parts: int
    chunk: int


def output_shape(shape: Sequence[int], axes: Sequence[int], keep: bool) -> tuple[int, ...]:
    """`shape` with the dimensions `axes` set to 1 (`keep`) or removed."""
    if keep:
        return tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def passes(shape: Sequence[int], axes: Sequence[int]) -> list[Pass]:
    """The reduction of `axes` as passes over single dimensions, those that shrink the data most first."""
    groups: list[tuple[int, bool]] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        reduced = axis in axes
        if groups and groups[-1][1] == reduced:
            groups[-1] = (groups[-1][0] * n, reduced)
        else:
            groups.append((n, reduced))
    found = []
    while any(reduced for _, reduced in groups):
        at = max((k for k, group in enumerate(groups) if group[1]), key=lambda k: groups[k][0])
        outer, inner = (math.prod(n for n, _ in part) for part in (groups[:at], groups[at + 1 :]))
        found.append(Pass(outer, groups[at][0], inner))
        groups[at] = (1, False)
    return found


def share_out(step: Pass, facts: DeviceFacts, size: int) -> Split:
    """Work for every core: whole reductions where there are many, parts of them where there are few."""
    if not facts.is_cpu:
        share = group_share(step, facts)
        return Split(1, share.parts, share.chunk)
    columns = 8 * WIDE
    units = -(-step.inner // columns)
    total = step.outer * step.n * step.inner
    items = min(max(total * size // BYTES_PER_ITEM, 1), ITEMS_PER_UNIT * max(facts.compute_units, 1))
    parts = min(items // (step.outer * units), step.n * min(step.inner, columns) // SHORTEST_PART, step.n)
    if total * size < WORTH_PARTS_BYTES:
        parts = 1
    if parts > 1:
        chunk = -(-step.n // parts)
        chunk = -(-chunk // 32) * 32 if step.inner == 1 else chunk
        return Split(1, -(-step.n // chunk), chunk)
    return Split(max(step.outer * units // items, 1), 1, step.n)


def group_share(step: Pass, facts: DeviceFacts) -> Share:
    """How the work-groups of a GPU share `step`."""
    return share_of(step.result_size, step.n, step.inner == 1, facts)


# What each operator computes --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Function:
    """C macros of one operator in format fields: {W} is the width (8 or 1), {A} the joined type, {S} the same at the
    macro's width, {TOP} the number of the input's sign bit."""

    map: str = "CONVERT{W}({A}, v)"
    join: str = "((a) + (b))"
    first: str = "0"
    finish: str = "(v)"
    own_type: bool = False  # values are joined in the input's type, not in an unsigned one


_ABS_FLOAT = "fabs(v)"
# By the sign's bits: a selection between long8 crashes pip PoCL, and the smallest integer must wrap.
_ABS_SIGNED = "((CONVERT{W}({A}, v) ^ CONVERT{W}({A}, (v) >> {TOP})) - CONVERT{W}({A}, (v) >> {TOP}))"
_SQUARE = "(CONVERT{W}({A}, v) * CONVERT{W}({A}, v))"
# The second comparison lets NaN through, and nothing replaces it.
_MAX_FLOAT = "SEL{W}(a, b, ((b) > (a)) | ((b) != (b)))"
_MIN_FLOAT = "SEL{W}(a, b, ((b) < (a)) | ((b) != (b)))"


def _absolute(dtype: DType) -> str:
    if dtype.is_float:
        return _ABS_FLOAT
    return _ABS_SIGNED if dtype.is_signed else _Function.map


_FUNCTIONS: dict[str, Callable[[DType], _Function]] = {
    "reduce_sum": lambda t: _Function(),
    "reduce_l1": lambda t: _Function(map=_absolute(t)),
    "reduce_l2": lambda t: _Function(map=_SQUARE, finish="sqrt(v)"),
    "reduce_log_sum": lambda t: _Function(finish="log(v)"),
    "reduce_mean": lambda t: _Function(finish="((v) / ({S})((float)count))"),
    "reduce_sum_square": lambda t: _Function(map=_SQUARE),
    "reduce_product": lambda t: _Function(join="((a) * (b))", first="1"),
    "reduce_max": lambda t: _Function(
        join=_MAX_FLOAT if t.is_float else "SEL{W}(a, b, (b) > (a))", first=f"T_LOWEST({t.storage})", own_type=True
    ),
    "reduce_min": lambda t: _Function(
        join=_MIN_FLOAT if t.is_float else "SEL{W}(a, b, (b) < (a))", first=f"T_HIGHEST({t.storage})", own_type=True
    ),
}
# Operators that leave a single element as it is, and what does the work of the others on one element.
_SAME_ALONE = {"reduce_sum", "reduce_log_sum_exp", "reduce_max", "reduce_mean", "reduce_min", "reduce_product"}
_ALONE = {"reduce_l2": "reduce_l1"}


def _joined_type(dtype: DType, function: _Function) -> str:
    if dtype.is_float:
        return "float"
    if function.own_type or not dtype.is_signed:
        return dtype.storage
    return f"u{dtype.storage}"


def _defines(name: str, dtype: DType, first: bool, last: bool) -> dict[str, str]:
    """Macros of one pass: the first one maps elements of the tensor, the last one finishes and stores its type."""
    function = _FUNCTIONS[name](dtype)
    joined = _joined_type(dtype, function)
    defines = {"A": joined, "X": dtype.storage if first else joined, "Y": dtype.storage if last else joined}
    defines["FIRST"] = function.first
    if dtype.is_float and function.join == _Function.join:
        defines["COMPENSATED"] = ""
    for width, suffix in (("8", "8"), ("1", "")):
        words = {"W": width, "A": joined, "S": joined + suffix, "TOP": 8 * dtype.size - 1}
        defines[f"MAP{width}(v)"] = (function.map if first else _Function.map).format(**words)
        defines[f"JOIN{width}(a, b)"] = function.join.format(**words)
        defines[f"FINISH{width}(v)"] = (function.finish if last else _Function.finish).format(**words)
    return defines


def sum_defines(dtype: DType) -> dict[str, str]:
    """Macros of reduce.cl for plain sums of parts, in the joined type."""
    return _defines("reduce_sum", dtype, first=True, last=False)


# Lowering ---------------------------------------------------------------------------------------------------


def epilogue_run(node: Node) -> int:
    """Over how many trailing dimensions eight results that are stored together may run: all; 0 where none is."""
    alone = node.inputs["input"].desc.size == node.output.desc.size
    return 0 if alone and node.op.name in _SAME_ALONE else max(node.output.desc.rank, 1)


def takes_prologue(node: Node) -> bool:
    """Whether the first pass reads each element once, by vectors: see compiler/prologue.py."""
    x = node.inputs["input"]
    if node.op.name == "reduce_log_sum_exp" or x.desc.size == node.output.desc.size:
        return False
    inner = passes(x.shape, node.attrs["axes"])[0].inner
    return inner == 1 or inner >= 8


def lower_reduction(node: Node, lowering: Lowering) -> None:
    """Passes of rows or columns; a reduction of single elements only maps them, or shares the memory."""
    x, y, name = node.inputs["input"], node.output, node.op.name
    if x.desc.size != y.desc.size:
        _run(name, passes(x.shape, node.attrs["axes"]), node, lowering)
    elif epilogue_run(node) == 0:
        lowering.alias(y, x)
    else:
        _run(_ALONE.get(name, name), [Pass(1, 1, x.desc.size)], node, lowering)


def _run(name: str, steps: list[Pass], node: Node, lowering: Lowering) -> None:
    """Every pass, each followed by one over its parts where it was split."""
    dtype = dtype_of(node.output.data_type)
    exponential = name == "reduce_log_sum_exp"
    todo: list[tuple[Pass, Split]] = []
    for step in steps:
        split = share_out(step, lowering.facts, dtype.size)
        todo.append((step, split))
        if split.parts > 1:
            todo.append((Pass(step.outer, split.parts, step.inner), Split(1, 1, split.parts)))
    count = node.inputs["input"].desc.size // node.output.desc.size
    source: Arg = node.inputs["input"]
    for index, (step, split) in enumerate(todo):
        first, last = index == 0, index == len(todo) - 1
        defines = _log_sum_exp_defines(dtype, first, last) if exponential else _defines(name, dtype, first, last)
        nbytes = step.outer * step.inner * split.parts * (4 if dtype.is_float else dtype.size)
        tail = lowering.tail(node) if last else None
        target: Arg = lowering.scratch(nbytes) if tail is None else tail.output
        template = "log_sum_exp" if exponential else "reduce"
        more = () if exponential else (np.int64(count),)
        before = lowering.prologue(node) if first else None
        launch_pass(lowering, template, defines, (step, split), [source, target], more, tail, before)
        source = target


def _log_sum_exp_defines(dtype: DType, first: bool, last: bool) -> dict[str, str]:
    return {"X": dtype.storage if first else "float", "Y": dtype.storage if last else "float"}


def launch_pass(
    lowering: Lowering,
    template: str,
    defines: Mapping[str, object],
    work: tuple[Pass, Split],
    buffers: Sequence[Arg],
    more: Sequence[Arg] = (),
    tail: Tail | None = None,
    before: Prologue | None = None,
) -> None:
    """Launch ``<template>_rows``, ``<template>_columns``, or for GPUs ``<template>_local``; `more` are its last
    arguments, `tail` is its epilogue, `before` its prologue.
    """
    step, split = work
    code = kernels_cl.read("exp_sums.cl") if template == "log_sum_exp" and lowering.facts.is_cpu else ""
    headers: tuple[str, ...] = HEADERS if lowering.facts.is_cpu else ()
    if before is not None:
        defines, code, headers = {**defines, **before.defines}, before.code, HEADERS
        buffers, more = [before.source, *buffers[1:]], [*more, *before.args]
    sizes: tuple[int, ...]
    if not lowering.facts.is_cpu:
        share = group_share(step, lowering.facts)
        share = share if split.parts > 1 else share.whole(step.n)
        sizes = (step.n, step.inner, step.result_size)
        args = [*buffers, *map(np.int64, sizes)]
        launch_lines(lowering, f"{template}_local", defines, share, args, more, tail, headers, code=code)
        return
    outer_items = -(-step.outer // split.outer_each)
    shares = (split.outer_each, split.parts, split.chunk)
    if step.inner == 1:
        entry, sizes = f"{template}_rows", (step.n, step.outer, *shares)
        grid: tuple[int, ...] = (outer_items, split.parts)
    else:
        entry, sizes = f"{template}_columns", (step.n, step.inner, step.outer, *shares)
        grid = (-(-step.inner // (8 * WIDE)), split.parts, outer_items)
        defines = {**defines, "WIDE": WIDE}
    args = [*buffers, *map(np.int64, sizes), *more]
    if tail is not None:
        defines, code, headers = {**defines, **tail.defines}, code + tail.code, (*headers, *tail.headers)
        args += tail.args
    lowering.launch(Kernel(f"{template}.cl", entry, defines, code, headers), args, grid)
