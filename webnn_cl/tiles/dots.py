"""Products with few rows or columns on GPUs: work-groups share the columns of the large operand (dot_local.cl)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.lower import dims
from webnn_cl.ops.groups import launch_lines, share_of
from webnn_cl.tiles.local import Result, finish_parts
from webnn_cl.tiles.plan import ceil_div

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.tiles.product import Product

__all__ = ["lower_dots"]

HEADERS = ("addend.h",)
ROWS = 4  # rows that share a reading of the large operand


def lower_dots(p: Product, lw: Lowering) -> None:
    """One launch, or two where results are so few that groups share their depth."""
    a = (1, p.m) if p.a_transposed else (p.k, 1)
    b = (1, p.k) if p.b_transposed else (p.n, 1)
    matrices = (p.m * p.k, p.k * p.n)
    swapped = p.n < p.m
    if swapped:
        few, many, operands, matrices = p.n, p.m, [p.b, p.a], matrices[::-1]
        strides, stacks, along = (*b[::-1], *a[::-1], 1, p.n), (p.b_batch, p.a_batch), not p.a_transposed
    else:
        few, many, operands = p.m, p.n, [p.a, p.b]
        strides, stacks, along = (*a, *b, p.n, 1), (p.a_batch, p.b_batch), p.b_transposed
    rows, stack = min(few, ROWS), math.prod(p.batch)
    share = share_of(stack * ceil_div(few, rows) * many, p.k, along, lw.facts)
    numbers: list[Arg] = [np.int64(n) for n in (few, many, p.k)]
    numbers += [dims(strides), np.int32(len(p.batch)), dims(p.batch)]
    numbers += [p.steps(shape, size) for shape, size in zip(stacks, matrices, strict=True)]
    numbers += [np.float32(p.alpha), np.int64(share.lines)]
    defines: dict[str, object] = {"T": p.storage, "ROWS": rows}
    result = Result(p.tail, p.storage, stack * p.m * p.n, p.m, p.n, p.alpha, tuple(p.addend()))
    if share.parts == 1:
        defines["HAS_C"] = int(p.c is not None)
        args = [*operands, *p.addend(swapped), p.tail.output, *numbers]
        launch_lines(lw, "dot_local", defines, share, args, tail=p.tail, headers=HEADERS)
        return
    partial = lw.scratch(4 * share.parts * result.size)
    launch_lines(lw, "dot_local", {**defines, "SPLIT": 1}, share, [*operands, partial, *numbers], headers=HEADERS)
    finish_parts(partial, share.parts, result, lw)
