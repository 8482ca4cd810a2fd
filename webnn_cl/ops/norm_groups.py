"""Lowering of layer and instance normalization for GPUs: lines that work-groups share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.groups import launch_lines, share_of

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering
    from webnn_cl.ops.norm_plan import Groups

__all__ = ["lower_norm_by_groups"]


def lower_norm_by_groups(
    node: Node, lw: Lowering, groups: Groups, parameters: Mapping[str, Buffer], index: int, channels: int
) -> None:
    """One launch, or two where lines are so few that work-groups share them.

    `index` says what scale and bias are indexed by (SCALE and BIAS of norm_local.cl).
    """
    x, tail = node.inputs["input"], lw.tail(node)
    lines = math.prod(extent for extent, _ in groups.kept)
    share = share_of(lines, groups.elements, not groups.columns, lw.facts)
    shapes: list[Arg] = [*groups.layout(), dims((groups.elements, lines, channels)), np.float32(node.attrs["epsilon"])]
    weights: list[Arg] = [parameters[role] for role in ("scale", "bias") if role in parameters]
    alone = all(extent == 1 for extent, _ in groups.reduced[:-1])
    centred = int(not node.attrs.get("uncentred"))
    plain: dict[str, object] = {"T": dtype_of(x.data_type).storage, "ALONE": int(alone), "CENTRED": centred}
    final = {**plain, **{role.upper(): index for role in parameters}}
    both, headers = [(x, tail.output)], ("norm.h",)
    if share.parts == 1:
        args = [x, *weights, tail.output, *shapes]
        launch_lines(lw, "norm_local", final, share, args, (), tail, headers, both)
        return
    found = lw.scratch(12 * lines * share.parts)
    launch_lines(lw, "norm_local", {**plain, "STAGE": 1}, share, [x, found, *shapes], headers=headers)
    args = [x, *weights, found, tail.output, *shapes]
    launch_lines(lw, "norm_local", {**final, "STAGE": 2}, share, args, (), tail, headers, both)
