"""Lowering of arg_min, arg_max and cumulative_sum: one axis, cut into parts where cores would idle otherwise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.dtypes import DType, dtype_of
from webnn_cl.ops.reduce_lower import WIDE, Pass, launch_pass, share_out, sum_defines
from webnn_cl.ops.strided import PAST_BYTES

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node, Value
    from webnn_cl.compiler.lower import Arg, Lowering

__all__ = ["lower_arg", "lower_cumulative_sum", "sum_epilogue_run"]

MERGE_LOCAL = 64


def _pass(value: Value, axis: int) -> Pass:
    """The axis of `value` as a packed [outer, n, inner]."""
    return Pass(math.prod(value.shape[:axis]), value.shape[axis], math.prod(value.shape[axis + 1 :]))


def _arg_defines(name: str, dtype: DType, result: str) -> dict[str, str]:
    defines = {"X": dtype.storage, "Y": result}
    sign, worst = (">", "T_LOWEST") if name == "arg_max" else ("<", "T_HIGHEST")
    if dtype.is_float:
        # "Not at most" is also true of a number against NaN, where the search begins.
        opposite = "<=" if name == "arg_max" else ">="
        defines["BETTER8(v, best)"] = f"(~((v) {opposite} (best)) & ((v) == (v)))"
        defines["BETTER1(v, best)"] = f"(!((v) {opposite} (best)) && (v) == (v))"
        defines["WORST"] = "NAN"
    else:
        defines["BETTER8(v, best)"] = defines["BETTER1(v, best)"] = f"((v) {sign} (best))"
        defines["WORST"] = f"{worst}({dtype.storage})"
    return defines


def lower_arg(node: Node, lowering: Lowering) -> None:
    """One launch, or the winners of the parts and a merge."""
    x, y = node.inputs["input"], node.output
    dtype, result = dtype_of(x.data_type), dtype_of(y.data_type).storage
    step = _pass(x, node.attrs["axis"])
    split = share_out(step, lowering.facts, dtype.size)
    if split.parts == 1:
        launch_pass(lowering, "arg", _arg_defines(node.op.name, dtype, result), (step, split), [x, y])
        return
    winners = lowering.scratch(8 * step.outer * split.parts * step.inner)
    partly = _arg_defines(node.op.name, dtype, "long")
    launch_pass(lowering, "arg", partly, (step, split), [x, winners])
    kernel = Kernel("arg.cl", "arg_merge", _arg_defines(node.op.name, dtype, result))
    sizes = [np.int64(n) for n in (step.n, step.inner, step.outer, split.parts)]
    local = (MERGE_LOCAL,)
    lowering.launch(kernel, [x, winners, y, *sizes], (step.outer * step.inner,), local)


def sum_epilogue_run(node: Node) -> int:
    """Trailing dimensions over which eight sums that are stored together may run (``meta["epilogue"]``)."""
    step, trailing = _pass(node.output, node.attrs["axis"]), node.output.desc.rank - int(node.attrs["axis"])
    return trailing if step.inner == 1 else trailing - 1


def lower_cumulative_sum(node: Node, lowering: Lowering) -> None:
    """One launch, or the totals of the parts and then the sums."""
    x, y = node.inputs["input"], node.output
    dtype = dtype_of(x.data_type)
    step = _pass(x, node.attrs["axis"])
    facts = lowering.facts
    split = share_out(step, facts, dtype.size)
    if facts.is_cpu and step.outer * -(-step.inner // (8 * WIDE)) >= facts.compute_units:
        split = replace(split, parts=1, chunk=step.n)  # finding totals would read everything once more
    joined = sum_defines(dtype)
    totals: Arg = x
    if split.parts > 1:
        totals = lowering.scratch(step.outer * split.parts * step.inner * (4 if dtype.is_float else dtype.size))
        launch_pass(lowering, "reduce", joined, (step, split), [x, totals], [np.int64(1)])
    defines = {"X": dtype.storage, "A": joined["A"]}
    if not dtype.is_float:
        defines["INTEGER"] = ""
    tail = lowering.tail(node)
    if dtype.name == "float32" and facts.is_cpu and y.desc.nbytes >= PAST_BYTES and not tail.defines:
        defines["PAST"] = ""
    flags = [np.int32(node.attrs["exclusive"]), np.int32(node.attrs["reversed"])]
    launch_pass(lowering, "scan", defines, (step, split), [x, tail.output, totals], flags, tail)
