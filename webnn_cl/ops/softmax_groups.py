"""Lowering of softmax for GPUs: lines that work-groups share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.groups import launch_lines, share_of

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Arg, Lowering

__all__ = ["lower_softmax_by_groups"]


def lower_softmax_by_groups(node: Node, lowering: Lowering, extents: tuple[int, int, int]) -> None:
    """One launch over [outer, n, inner], or two where lines are so few that groups share them."""
    outer, n, inner = extents
    x, tail = node.inputs["input"], lowering.tail(node)
    share = share_of(outer * inner, n, inner == 1, lowering.facts)
    sizes: list[Arg] = [np.int64(size) for size in (n, inner, share.lines)]
    defines = {"X": dtype_of(x.data_type).storage, **({"LOGARITHM": ""} if node.attrs.get("logarithm") else {})}
    both = [(x, tail.output)]
    if share.parts == 1:
        args: list[Arg] = [x, tail.output, *sizes]
        launch_lines(lowering, "softmax_local", defines, share, args, tail=tail, in_place=both)
        return
    found = lowering.scratch(8 * share.lines * share.parts)
    launch_lines(lowering, "softmax_local", {**defines, "STAGE": 1}, share, [x, found, *sizes])
    args = [x, found, tail.output, *sizes]
    launch_lines(lowering, "softmax_local", {**defines, "STAGE": 2}, share, args, tail=tail, in_place=both)
