"""Which CPU kernel a convolution takes when nothing was measured, and convolutions that are matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webnn_cl.tiles.blocks import is_blocks
from webnn_cl.tiles.depthwise import is_depthwise
from webnn_cl.tiles.few import is_few
from webnn_cl.tiles.matrix import lower_product
from webnn_cl.tiles.pixels import can_pixels, pixels_pay
from webnn_cl.tiles.product import Product
from webnn_cl.tiles.rows import FEW_CHANNELS
from webnn_cl.tiles.winograd import winograd_tile

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Lowering
    from webnn_cl.compiler.tail import Tail
    from webnn_cl.opencl.facts import DeviceFacts
    from webnn_cl.ops.conv_direct import Convolution

__all__ = ["as_product", "default_conv2d", "default_conv_transpose2d", "is_product", "lower_as_product"]


def default_conv2d(conv: Convolution, facts: DeviceFacts) -> str:
    """Name of the CPU variant that does best as far as is known without measuring."""
    if is_product(conv):
        return "product"
    if is_depthwise(conv):
        return "depthwise"
    if pixels_pay(conv, facts):
        return "pixels"
    tile = winograd_tile(conv, facts)
    if tile is not None:
        return tile.name
    if is_few(conv):
        return "few"
    return "pixels" if conv.input.channels < FEW_CHANNELS and can_pixels(conv, facts) else "rows"


def default_conv_transpose2d(conv: Convolution, facts: DeviceFacts) -> str:
    """The same for transposed convolutions."""
    if is_blocks(conv):
        return "blocks"
    return "pixels" if pixels_pay(conv, facts) else "rows"


def lower_as_product(conv: Convolution, lw: Lowering) -> None:
    """A convolution of one tap, as a matrix product."""
    lower_product(as_product(conv, lw.tail(conv.node)), lw)


def is_product(conv: Convolution) -> bool:
    """One tap that meets every pixel once: a matrix product of pixels and channels."""
    attrs = conv.node.attrs
    one_tap = conv.filter.height == conv.filter.width == conv.groups == 1
    return one_tap and not any(attrs["padding"]) and tuple(attrs["strides"]) == (1, 1)


def as_product(conv: Convolution, tail: Tail) -> Product:
    """The matrix product that a convolution of one tap is."""
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
