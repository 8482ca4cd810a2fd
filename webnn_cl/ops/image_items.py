"""Pooling, depthwise and other small convolutions on GPUs: a work-item for each output element."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.groups import group_size
from webnn_cl.ops.spatial import Image

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.ops.conv_direct import Convolution

__all__ = ["lower_conv_items", "lower_pool_items"]


def lower_pool_items(node: Node, lw: Lowering, mode: int) -> None:
    """A pooling operator; `mode` as in pool_items.cl."""
    attrs, x, tail = node.attrs, node.inputs["input"], lw.tail(node)
    image, output = Image.of(x.shape, attrs["layout"]), Image.of(node.output.shape, attrs["layout"])
    top, _, left, _ = attrs["padding"]
    planar = int(output.layout == "nchw")
    defines = {"T": dtype_of(x.data_type).storage, "MODE": mode, "PLANAR": planar, **tail.defines}
    kernel = Kernel("pool_items.cl", "pool_items", defines, tail.code, tail.headers)
    args: list[Arg] = [x, tail.output, *(dims((i.height, i.width, *i.strides)) for i in (image, output))]
    args += [dims((*attrs["window_dimensions"], *attrs["strides"], *attrs["dilations"], top, left))]
    args += [np.int64(output.channels), np.int64(node.output.desc.size), *tail.args]
    lw.launch(kernel, args, (node.output.desc.size,), (group_size(lw.facts),))


def lower_conv_items(conv: Convolution, lw: Lowering) -> None:
    """A conv2d or conv_transpose2d."""
    inputs, tail = conv.node.inputs, lw.tail(conv.node)
    size = conv.node.output.desc.size
    bias = [inputs["bias"]] if "bias" in inputs else []
    defines: dict[str, object] = {"T": dtype_of(conv.node.output.data_type).storage, "HAS_BIAS": len(bias)}
    defines |= {"CHANNELS_LAST": int(conv.output.layout == "nhwc"), "TRANSPOSED": int(conv.transposed)}
    kernel = Kernel("conv_items.cl", "conv_items", {**defines, **tail.defines}, tail.code, tail.headers)
    args: list[Arg] = [inputs["input"], inputs["filter"], *bias, tail.output, *conv.geometry()]
    args += [dims(conv.filter.strides), np.int64(size), *tail.args]
    lw.launch(kernel, args, (size,), (group_size(lw.facts),))
