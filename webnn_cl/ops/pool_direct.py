"""Lowering of the pooling operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kernels_cl
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.expansion import Expansion
from webnn_cl.ops.image_items import lower_pool_items
from webnn_cl.ops.record import REGISTRY
from webnn_cl.ops.spatial import Image

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Arg, Lowering

__all__ = ["expand_global_pool", "lower_pool"]

MODES = {"max_pool2d": 0, "average_pool2d": 1, "l2_pool2d": 2}
REDUCTIONS = {"max_pool2d": "reduce_max", "average_pool2d": "reduce_mean", "l2_pool2d": "reduce_l2"}
# Taps of eight lanes that are worth a work-item.
ITEM = 2048


def expand_global_pool(node: Node) -> list[Node]:
    """A window that covers the whole image once is a reduction; no nodes for any other."""
    attrs, x, y = node.attrs, node.inputs["input"], node.output
    layout = attrs["layout"]
    axes = (layout.index("h"), layout.index("w"))
    whole = tuple(x.shape[axis] for axis in axes) == attrs["window_dimensions"]
    if not whole or any(attrs["padding"]) or any(y.shape[axis] != 1 for axis in axes):
        return []
    parts = Expansion(node)
    parts.add(REGISTRY[REDUCTIONS[node.op.name]], {"input": x}, {"axes": axes}, y.desc)
    return parts.nodes


def lower_pool(node: Node, lw: Lowering) -> None:
    """One launch: eight neighbouring pixels at a time where rows are contiguous, else eight channels."""
    if not lw.facts.is_cpu:
        lower_pool_items(node, lw, MODES[node.op.name])
        return
    attrs, x, tail = node.attrs, node.inputs["input"], lw.tail(node)
    image, output = Image.of(x.shape, attrs["layout"]), Image.of(node.output.shape, attrs["layout"])
    planar = image.layout == "nchw"
    top, _, left, _ = attrs["padding"]
    taps = attrs["window_dimensions"][0] * attrs["window_dimensions"][1]
    window = dims((*attrs["window_dimensions"], *attrs["strides"], *attrs["dilations"], top, left))
    sizes = (image.height, image.width, output.height, output.width)
    defines = {
        "T": dtype_of(x.data_type).storage,
        "MODE": MODES[node.op.name],
        "PLANAR": int(planar),
        **tail.defines,
    }
    entry = "pool_planar" if planar else "pool_channels"
    kernel = Kernel("pool_direct.cl", entry, defines, kernels_cl.read("window8.cl") + tail.code, tail.headers)
    if planar:
        planes = image.batch * image.channels
        each = max(1, min(output.height, ITEM // (taps * -(-output.width // 8))))
        extents = dims((*sizes, planes, x.desc.size, each))
        grid = (-(-output.height // each), planes)
    else:
        each = max(1, min(output.width, ITEM // (taps * -(-image.channels // 8))))
        extents = dims((*sizes, image.batch, image.channels, each))
        grid = (-(-output.width // each), image.batch * output.height)
    args: list[Arg] = [x, tail.output, extents, window, *tail.args]
    lw.launch(kernel, args, grid)
