"""The kernels that a product or a convolution may take, by name; the tuning table, or a rule, picks one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from webnn_cl.ops import conv_direct, gemm_direct
from webnn_cl.ops.conv_direct import Convolution
from webnn_cl.tiles.blocks import is_blocks, lower_blocks
from webnn_cl.tiles.convolution import default_conv2d, default_conv_transpose2d, is_product, lower_as_product
from webnn_cl.tiles.depthwise import is_depthwise, lower_depthwise
from webnn_cl.tiles.few import is_few, lower_few
from webnn_cl.tiles.gpu_variants import default_on_gpu, variants_on_gpu
from webnn_cl.tiles.matrix import lower_panels, lower_product, lower_unpacked
from webnn_cl.tiles.pixels import can_pixels, lower_pixels
from webnn_cl.tiles.product import Product
from webnn_cl.tiles.rows import lower_rows
from webnn_cl.tiles.winograd import LARGE, SMALL, Tile, can_winograd, lower_winograd

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Lowering
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["PLAIN", "candidates", "default_variant", "lower_variant"]

PLAIN = "plain"
Lower = Callable[["Node", "Lowering"], None]


def lower_variant(node: Node, lw: Lowering) -> None:
    """Lower a matmul, gemm, conv2d or conv_transpose2d with the variant that won on this device, else by rule."""
    variants = _variants(node, lw.facts)
    name = lw.tuned(node)
    if name is None or name not in variants:
        name = default_variant(node, lw.facts)
    variants[name](node, lw)


def candidates(node: Node, facts: DeviceFacts) -> tuple[str, ...]:
    """Names of the variants that can compute `node`; none for operators without."""
    return tuple(_variants(node, facts)) if node.op.name in _VARIANTS else ()


def default_variant(node: Node, facts: DeviceFacts) -> str:
    """The variant of an untuned device."""
    if not facts.is_cpu:
        return default_on_gpu(node, facts) or PLAIN
    if node.op.name == "conv2d":
        return default_conv2d(Convolution(node, transposed=False), facts)
    if node.op.name == "conv_transpose2d":
        return default_conv_transpose2d(Convolution(node, transposed=True), facts)
    return "tiles"


def _variants(node: Node, facts: DeviceFacts) -> Mapping[str, Lower]:
    return _VARIANTS[node.op.name](node, facts)


def _conv2d(node: Node, facts: DeviceFacts) -> dict[str, Lower]:
    conv = Convolution(node, transposed=False)
    found: dict[str, Lower] = {PLAIN: conv_direct.lower_conv2d}
    if not facts.is_cpu:
        return found | variants_on_gpu(node, facts)
    if is_product(conv):
        found["product"] = _on_convolution(lower_as_product)
    if is_depthwise(conv):
        found["depthwise"] = _on_convolution(lower_depthwise)
    if can_pixels(conv, facts):
        found["pixels"] = _on_convolution(lower_pixels)
    if is_few(conv):
        found["few"] = _on_convolution(lower_few)
    for form in (LARGE, SMALL):
        if can_winograd(conv, facts, form):
            found[form.name] = _winograd_with(form)
    return {**found, "rows": _on_convolution(lower_rows)}


def _conv_transpose2d(node: Node, facts: DeviceFacts) -> dict[str, Lower]:
    found: dict[str, Lower] = {PLAIN: conv_direct.lower_conv_transpose2d}
    conv = Convolution(node, transposed=True)
    if not facts.is_cpu:
        return found | variants_on_gpu(node, facts)
    if is_blocks(conv):
        found["blocks"] = _on_convolution(lower_blocks, transposed=True)
    if can_pixels(conv, facts):
        found["pixels"] = _on_convolution(lower_pixels, transposed=True)
    return {**found, "rows": _on_convolution(lower_rows, transposed=True)}


def _products(node: Node, facts: DeviceFacts) -> dict[str, Lower]:
    plain = gemm_direct.lower_gemm if node.op.name == "gemm" else gemm_direct.lower_matmul
    found: dict[str, Lower] = {PLAIN: plain}
    if not facts.is_cpu:
        return found | variants_on_gpu(node, facts)
    found["tiles"] = _on_product(lower_product)
    found["panels"] = _on_product(lower_panels)
    found["unpacked"] = _on_product(lower_unpacked)
    return found


_VARIANTS: dict[str, Callable[[Node, DeviceFacts], Mapping[str, Lower]]] = {
    "conv2d": _conv2d,
    "conv_transpose2d": _conv_transpose2d,
    "matmul": _products,
    "gemm": _products,
}


def _on_convolution(lower: Callable[[Convolution, Lowering], None], transposed: bool = False) -> Lower:
    return lambda node, lw: lower(Convolution(node, transposed), lw)


def _on_product(lower: Callable[[Product, Lowering], None]) -> Lower:
    return lambda node, lw: lower(Product.of(node, lw.tail(node)).read_in_place(lw), lw)


def _winograd_with(tile: Tile) -> Lower:
    return lambda node, lw: lower_winograd(Convolution(node, transposed=False), lw, tile)
