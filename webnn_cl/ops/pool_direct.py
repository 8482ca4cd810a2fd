"""Lowering of the pooling operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kernels_cl
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.spatial import Image
from webnn_cl.ops.tiling import local_of_rows

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Lowering

__all__ = ["lower_pool"]

MODES = {"max_pool2d": 0, "average_pool2d": 1, "l2_pool2d": 2}


def lower_pool(node: Node, lw: Lowering) -> None:
    """One launch: eight neighbouring pixels a work-item where rows are contiguous, else eight channels."""
    attrs, x, tail = node.attrs, node.inputs["input"], lw.tail(node)
    image, output = Image.of(x.shape, attrs["layout"]), Image.of(node.output.shape, attrs["layout"])
    planar = image.layout == "nchw"
    top, _, left, _ = attrs["padding"]
    window = dims((*attrs["window_dimensions"], *attrs["strides"], *attrs["dilations"], top, left))
    sizes = (image.height, image.width, output.height, output.width)
    defines = {"T": dtype_of(x.data_type).storage, "MODE": MODES[node.op.name], "PLANAR": int(planar), **tail.defines}
    entry = "pool_planar" if planar else "pool_channels"
    kernel = Kernel("pool_direct.cl", entry, defines, kernels_cl.read("window8.cl") + tail.code, tail.headers)
    if planar:
        planes = image.batch * image.channels
        args = [x, tail.output, dims((*sizes, planes, x.desc.size)), window, *tail.args]
        lw.launch(kernel, args, (output.height, planes), (1, 8))
    else:
        columns = output.width * -(-image.channels // 8)
        args = [x, tail.output, dims((*sizes, image.batch, image.channels)), window, *tail.args]
        lw.launch(kernel, args, (columns, image.batch * output.height), local_of_rows(columns))
