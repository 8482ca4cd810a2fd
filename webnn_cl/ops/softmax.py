"""Softmax (W3C WebNN, "softmax")."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

import kernels_cl
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.base import BuilderBase
from webnn_cl.ops.record import FLOATS, MAX_RANK, Operand, OpRecord, Output, register
from webnn_cl.ops.softmax_groups import lower_softmax_by_groups
from webnn_cl.ops.strided import BYTES_PER_ITEM, ITEMS_PER_UNIT, PAST_BYTES, View, copy_view

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.compiler.tail import Tail
    from webnn_cl.operand import MLOperand

__all__ = ["SOFTMAX", "SoftmaxMixin"]

WIDE = 128  # vectors of eight columns per work-item at most
SHORTEST_PART, LONGEST_PART = 1 << 12, 1 << 15  # elements; the longest stays in a CPU's second cache
COLUMN_ITEMS = 1  # work-items per core: wide columns are read faster
GPU_LOCAL = 64
HEADERS = ("elementwise.h", "move.h")
KEPT = 2048  # vectors of eight elements of a row that wait in private memory
# Fewer columns than this leave vectors and cores idle: such tensors are worth turning round twice.
FEW_COLUMNS, WORTH_TURNING = 8, 1 << 15


def epilogue_run(node: Node) -> int:
    """Eight results stored together are neighbours along the axis, or along what is inside it; 0 without epilogue."""
    _, n, inner = _geometry(node)
    trailing = node.output.desc.rank - int(node.attrs["axis"])
    if inner == 1:
        return trailing
    return 0 if _turns(n, inner) else trailing - 1


def _geometry(node: Node) -> tuple[int, int, int]:
    shape, axis = node.output.shape, node.attrs["axis"]
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _turns(n: int, inner: int) -> bool:
    return 1 < inner < FEW_COLUMNS and n * inner >= WORTH_TURNING


def lower_softmax(node: Node, lowering: Lowering) -> None:
    """One kernel per row layout; a few long rows take two: largest element and sum of the parts, then the result.

    ``attrs["logarithm"]`` asks for the logarithm of the result (compiler/norm_patterns.py).
    """
    outer, n, inner = _geometry(node)
    x, tail = node.inputs["input"], lowering.tail(node)
    size = dtype_of(x.data_type).size
    if not lowering.facts.is_cpu:
        lower_softmax_by_groups(node, lowering, (outer, n, inner))
    elif _turns(n, inner):
        turned, result = lowering.scratch(x.desc.nbytes), lowering.scratch(x.desc.nbytes)
        shape = (outer, n, inner)
        copy_view(lowering, x, View.packed(shape).transposed((0, 2, 1)), turned, size)
        _lower_rows(node, lowering, outer * inner, n, turned, result, tail)
        copy_view(lowering, result, View.packed((outer, inner, n)).transposed((0, 2, 1)), tail.output, size)
    elif inner > 1:
        _lower_columns(node, lowering, outer, n, inner, tail)
    else:
        _lower_rows(node, lowering, outer, n, x, tail.output, tail)


def _kernel(node: Node, entry: str, tail: Tail, cpu: bool, stores: bool = True) -> Kernel:
    """A kernel of softmax.cl; only one that `stores` results has the epilogue."""
    desc = node.output.desc
    defines: dict[str, object] = {"X": dtype_of(desc.data_type).storage, "WIDE": WIDE, "KEPT": KEPT if cpu else 1}
    if node.attrs.get("logarithm"):
        defines["LOGARITHM"] = ""
    elif desc.data_type == "float32" and not tail.defines:
        waits = entry == "softmax_rows" and _geometry(node)[1] > 8 * KEPT
        past = cpu and desc.nbytes >= PAST_BYTES and not waits
        defines["PAST" if past else "WAIT_IN_RESULT"] = ""
    sums = kernels_cl.read("exp_sums.cl")
    if not stores:
        return Kernel("softmax.cl", entry, defines, sums, HEADERS)
    return Kernel("softmax.cl", entry, {**defines, **tail.defines}, sums + tail.code, (*HEADERS, *tail.headers))


def _lower_rows(node: Node, lowering: Lowering, rows: int, n: int, x: Arg, y: Arg, tail: Tail) -> None:
    units = max(lowering.facts.compute_units, 1)
    if rows < units * ITEMS_PER_UNIT and n >= 2 * SHORTEST_PART:
        _lower_long_rows(node, lowering, rows, n, x, y, tail)
        return
    rows_each, local = 1, (GPU_LOCAL,)
    if lowering.facts.is_cpu:
        items = min(max(rows * n * 4 // BYTES_PER_ITEM, 1), ITEMS_PER_UNIT * units)
        rows_each, local = -(-rows // items), (1,)
    args: list[Arg] = [x, y, np.int64(n), np.int64(rows), np.int64(rows_each), *tail.args]
    kernel = _kernel(node, "softmax_rows", tail, lowering.facts.is_cpu)
    lowering.launch(kernel, args, (-(-rows // rows_each),), local, in_place=[(x, y)])


def _lower_long_rows(node: Node, lowering: Lowering, rows: int, n: int, x: Arg, y: Arg, tail: Tail) -> None:
    items = ITEMS_PER_UNIT * max(lowering.facts.compute_units, 1) * (1 if lowering.facts.is_cpu else GPU_LOCAL)
    if lowering.facts.is_cpu:
        items = max(items, rows * n // LONGEST_PART)
    parts = min(-(-items // rows), n // SHORTEST_PART)
    chunk = (n // parts + 31) // 32 * 32
    parts = -(-n // chunk)
    found = lowering.scratch(8 * rows * parts)
    args: list[Arg] = [x, y, found, np.int64(n), np.int64(parts), np.int64(chunk)]
    first = _kernel(node, "softmax_parts", tail, lowering.facts.is_cpu, stores=False)
    lowering.launch(first, args, (parts, rows), (1, 1))
    second = _kernel(node, "softmax_join", tail, lowering.facts.is_cpu)
    lowering.launch(second, [*args, *tail.args], (parts, rows), (1, 1))


def _lower_columns(node: Node, lowering: Lowering, outer: int, n: int, inner: int, tail: Tail) -> None:
    x, facts = node.inputs["input"], lowering.facts
    vectors, local = 1, (GPU_LOCAL, 1)
    if facts.is_cpu:
        share = -(-inner * outer // (8 * COLUMN_ITEMS * max(facts.compute_units, 1)))
        vectors, local = min(WIDE, share), (1, 1)
    sizes = [np.int64(size) for size in (n, inner, outer, vectors)]
    args: list[Arg] = [x, tail.output, *sizes, *tail.args]
    kernel = _kernel(node, "softmax_columns", tail, facts.is_cpu)
    lowering.launch(kernel, args, (-(-inner // (8 * vectors)), outer), local, in_place=[(x, tail.output)])


SOFTMAX = register(
    OpRecord(
        "softmax",
        "softmax",
        operands=(Operand("input", FLOATS, rank=(1, MAX_RANK)),),
        outputs=(Output(like="input"),),
        lower=lower_softmax,
        meta={"epilogue": epilogue_run},
    )
)


class SoftmaxMixin(BuilderBase):
    """Softmax of MLGraphBuilder."""

    def softmax(self, input: MLOperand, axis: int, *, label: str = "") -> MLOperand:
        """``exp(x - max) / sum exp(x - max)`` along `axis` (W3C WebNN, "softmax").

        `input`: float32 or float16, rank 1 to 8. Sums are in float32. A row of -infinity alone, with +infinity or
        with NaN is NaN.
        MLTypeError: another data type, `axis` not below the rank.
        """
        call = self._call(SOFTMAX, label)
        x = call.operand("input", input)
        return call.emit(x.desc, {"axis": call.axis("axis", axis, x.desc.rank)})
