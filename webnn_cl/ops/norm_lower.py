"""Lowering of layer and instance normalization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.norm_groups import lower_norm_by_groups
from webnn_cl.ops.norm_plan import Groups, Plan, plan_of
from webnn_cl.ops.spatial import Image
from webnn_cl.ops.strided import PAST_RUN, View, copy_view, past_caches
from webnn_cl.ops.widen import widen

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node, Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering

__all__ = ["epilogue_run", "lower_instance_norm", "lower_layer_norm"]

HEADERS = ("norm.h", "move.h")
# What scale and bias are indexed by in the kernels.
BY_CHANNEL, BY_REDUCED = 1, 2


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The dimensions that an instance or layer normalization takes its statistics over."""
    layout = node.attrs.get("layout")
    return node.attrs["axes"] if layout is None else (layout.index("h"), layout.index("w"))


def epilogue_run(node: Node) -> int:
    """Trailing dimensions over which eight elements that are stored together may run (``meta["epilogue"]``)."""
    shape, axes = node.output.shape, reduced_axes(node)
    run = 0
    kinds = set()
    for axis in reversed(range(len(shape))):
        kinds |= {axis in axes} if shape[axis] > 1 else set()
        if len(kinds) > 1:
            break
        run += 1
    return max(run, 1)


def lower_instance_norm(node: Node, lw: Lowering) -> None:
    """instance_normalization."""
    parameters = {role: widen(lw, value) for role, value in _parameters(node).items()}
    channels = Image.of(node.output.shape, node.attrs["layout"]).channels
    _lower_groups(node, lw, parameters, BY_CHANNEL, channels)


def lower_layer_norm(node: Node, lw: Lowering) -> None:
    """layer_normalization; with ``attrs["uncentred"]`` its root-mean-square form, in which the mean counts as 0."""
    parameters = {role: _in_order(lw, value, node.attrs["axes"]) for role, value in _parameters(node).items()}
    _lower_groups(node, lw, parameters, BY_REDUCED, 1)


def _parameters(node: Node) -> dict[str, Value]:
    return {role: value for role, value in node.inputs.items() if role != "input"}


def _in_order(lw: Lowering, value: Value, axes: Sequence[int]) -> Buffer:
    """A scale or bias as float, its dimensions in the order of the input's."""
    order = sorted(range(len(axes)), key=lambda k: axes[k])
    if order == list(range(len(axes))):
        return widen(lw, value)

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        copy_view(lw, widen(lw, source), View.packed(source.shape).transposed(order), target, 4)

    return lw.packed(value, ("permuted", tuple(order)), 4 * value.desc.size, emit)


def _lower_groups(node: Node, lw: Lowering, parameters: dict[str, Buffer], index: int, channels: int) -> None:
    """One launch, or several where groups are too long for a cache or too few for the cores."""
    x, tail = node.inputs["input"], lw.tail(node)
    axes = reduced_axes(node)
    # With nothing between batch and channel their columns would be joined, and run past the end of scale and bias.
    joined = index == BY_CHANNEL and all(x.shape[axis] == 1 for axis in axes)
    groups = Groups.of(x.shape, axes, node.attrs["layout"].index("c") if joined else None)
    if not lw.facts.is_cpu:
        lower_norm_by_groups(node, lw, groups, parameters, index, channels)
        return
    plan = plan_of(groups, channels, bool(parameters) and index == BY_REDUCED, lw.facts)
    indices = {role.upper(): index for role in parameters}
    kind = {"CENTRED": 0} if node.attrs.get("uncentred") else {}
    past = past_caches(lw.facts, PAST_RUN, x.desc.nbytes) if x.data_type == "float32" else {}
    final = {"T": dtype_of(x.data_type).storage, **indices, **kind, **plan.defines, **(tail.defines or past)}
    headers = (*HEADERS, *tail.headers)
    layout = [*groups.layout(), plan.sizes]
    operands: list[Arg] = [x, *(parameters[role] for role in ("scale", "bias") if role in parameters), tail.output]
    if plan.chunks == 1:
        kernel = Kernel(plan.template, plan.entry, final, tail.code, headers)
        lw.launch(kernel, [*operands, *layout, np.float32(node.attrs["epsilon"]), *tail.args], plan.grid)
        return
    stats = _launch_statistics(node, lw, plan, layout, kind)
    kernel = Kernel(plan.template, f"{plan.entry}_apply", final | {"STAGE": 3}, tail.code, headers)
    lw.launch(kernel, [*operands, stats, *layout, *tail.args], plan.grid)


def _launch_statistics(
    node: Node, lw: Lowering, plan: Plan, layout: Sequence[Arg], kind: Mapping[str, object]
) -> Buffer:
    """Mean and deviation of all groups, by way of those of their chunks."""
    x = node.inputs["input"]
    defines = {"T": dtype_of(x.data_type).storage, **kind, **plan.defines}
    parts, stats = lw.scratch(4 * plan.stat_floats * plan.chunks), lw.scratch(4 * plan.stat_floats)
    chunks = Kernel(plan.template, f"{plan.entry}_chunks", defines | {"STAGE": 1}, headers=HEADERS)
    lw.launch(chunks, [x, parts, *layout], plan.grid)
    combine = Kernel(plan.template, f"{plan.entry}_combine", defines | {"STAGE": 2}, headers=HEADERS)
    lw.launch(combine, [parts, stats, plan.sizes, np.float32(node.attrs["epsilon"])], plan.stat_grid)
    return stats
