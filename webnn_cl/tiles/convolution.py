"""Choice of the CPU kernel for conv2d and conv_transpose2d."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webnn_cl.ops.conv_direct import Convolution
from webnn_cl.tiles.depthwise import is_depthwise, lower_depthwise
from webnn_cl.tiles.local import lower_local_conv
from webnn_cl.tiles.matrix import Product, lower_product
from webnn_cl.tiles.rows import lower_rows
from webnn_cl.tiles.winograd import lower_winograd, suits_winograd

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Lowering
    from webnn_cl.compiler.tail import Tail

__all__ = ["try_lower_conv2d", "try_lower_conv_transpose2d"]


def try_lower_conv2d(node: Node, lw: Lowering) -> bool:
    """conv2d by tiles; False when the plain kernels do as well."""
    conv = Convolution(node, transposed=False)
    if not lw.facts.is_cpu:
        return lower_local_conv(conv, lw)
    if _is_product(conv):
        lower_product(_product(conv, lw.tail(node)), lw)
    elif is_depthwise(conv):
        lower_depthwise(conv, lw)
    elif suits_winograd(conv, lw.facts):
        lower_winograd(conv, lw)
    else:
        lower_rows(conv, lw)
    return True


def try_lower_conv_transpose2d(node: Node, lw: Lowering) -> bool:
    """conv_transpose2d on a CPU; False when the device is something else, or the plain kernels do as well."""
    if not lw.facts.is_cpu:
        return False
    lower_rows(Convolution(node, transposed=True), lw)
    return True


def _is_product(conv: Convolution) -> bool:
    """One tap that meets every pixel once: a matrix product of pixels and channels."""
    attrs = conv.node.attrs
    one_tap = conv.filter.height == conv.filter.width == conv.groups == 1
    return one_tap and not any(attrs["padding"]) and tuple(attrs["strides"]) == (1, 1)


def _product(conv: Convolution, tail: Tail) -> Product:
    inputs, image = conv.node.inputs, conv.input
    x, w, bias = inputs["input"], inputs["filter"], inputs.get("bias")
    outputs_first = conv.node.attrs["filter_layout"] in ("oihw", "ohwi")
    pixels, outputs = image.height * image.width, conv.output.channels
    if image.layout == "nhwc":
        rows = pixels * image.batch
        return Product(x, w, rows, outputs, image.channels, b_transposed=outputs_first, c=bias, tail=tail)
    stack = (image.batch,)
    return Product(
        w, x, outputs, pixels, image.channels, stack, (), stack,
        a_transposed=not outputs_first, c=bias, c_shape=(outputs, 1), tail=tail,
    )  # fmt: skip
