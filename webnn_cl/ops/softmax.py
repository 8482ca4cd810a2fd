"""Softmax (W3C WebNN, "softmax")."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.base import BuilderBase
from webnn_cl.ops.record import FLOATS, MAX_RANK, Operand, OpRecord, Output, register
from webnn_cl.ops.strided import BYTES_PER_ITEM, ITEMS_PER_UNIT

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.operand import MLOperand

__all__ = ["SOFTMAX", "SoftmaxMixin"]

WIDE = 16  # vectors of eight columns per work-item at most
CACHED = 64 << 10  # elements of those columns, which are passed over three times
SHORTEST_PART = 4096  # elements
GPU_LOCAL = 64


def lower_softmax(node: Node, lowering: Lowering) -> None:
    """One kernel per row layout; a few long rows take two: largest element and sum of the parts, then the result."""
    x, axis = node.inputs["input"], node.attrs["axis"]
    outer, n, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    units = max(lowering.facts.compute_units, 1)
    if inner > 1:
        _lower_columns(node, lowering, outer, n, inner)
    elif outer < units * ITEMS_PER_UNIT and n >= 2 * SHORTEST_PART:
        _lower_long_rows(node, lowering, outer, n)
    else:
        _lower_rows(node, lowering, outer, n)


def _kernel(node: Node, entry: str) -> Kernel:
    storage = dtype_of(node.output.data_type).storage
    defines = {"T": storage, "WIDE": WIDE} | ({"WAIT_IN_RESULT": ""} if storage == "float" else {})
    return Kernel("softmax.cl", entry, defines, headers=("elementwise.h",))


def _lower_rows(node: Node, lowering: Lowering, rows: int, n: int) -> None:
    x, y = node.inputs["input"], node.output
    rows_each, local = 1, (GPU_LOCAL,)
    if lowering.facts.is_cpu:
        items = min(max(x.desc.nbytes // BYTES_PER_ITEM, 1), ITEMS_PER_UNIT * max(lowering.facts.compute_units, 1))
        rows_each, local = -(-rows // items), (1,)
    args: list[Arg] = [x, y, np.int64(n), np.int64(rows), np.int64(rows_each)]
    lowering.launch(_kernel(node, "softmax_rows"), args, (-(-rows // rows_each),), local, in_place=[(x, y)])


def _lower_long_rows(node: Node, lowering: Lowering, rows: int, n: int) -> None:
    x, y = node.inputs["input"], node.output
    items = ITEMS_PER_UNIT * max(lowering.facts.compute_units, 1) * (1 if lowering.facts.is_cpu else GPU_LOCAL)
    parts = min(-(-items // rows), n // SHORTEST_PART)
    chunk = (n // parts + 31) // 32 * 32
    parts = -(-n // chunk)
    found = lowering.scratch(8 * rows * parts)
    args: list[Arg] = [x, y, found, np.int64(n), np.int64(parts), np.int64(chunk)]
    for entry in ("softmax_parts", "softmax_join"):
        lowering.launch(_kernel(node, entry), args, (parts, rows), (1, 1))


def _lower_columns(node: Node, lowering: Lowering, outer: int, n: int, inner: int) -> None:
    x, y = node.inputs["input"], node.output
    vectors, local = 1, (GPU_LOCAL, 1)
    if lowering.facts.is_cpu:
        share = -(-inner * outer // (8 * ITEMS_PER_UNIT * max(lowering.facts.compute_units, 1)))
        vectors, local = max(min(WIDE, CACHED // (8 * n), share), 1), (1, 1)
    args: list[Arg] = [x, y, np.int64(n), np.int64(inner), np.int64(outer), np.int64(vectors)]
    grid = (-(-inner // (8 * vectors)), outer)
    lowering.launch(_kernel(node, "softmax_columns"), args, grid, local, in_place=[(x, y)])


SOFTMAX = register(
    OpRecord(
        "softmax",
        "softmax",
        operands=(Operand("input", FLOATS, rank=(1, MAX_RANK)),),
        outputs=(Output(like="input"),),
        lower=lower_softmax,
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
