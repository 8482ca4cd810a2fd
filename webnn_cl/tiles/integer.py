"""Integer products and convolutions of quantized values: the records the compiler puts in, and their lowering."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

import kernels_cl
from webnn_cl.compiler.ir import Constant, TensorDesc, Value
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import INT16, dtype_of
from webnn_cl.errors import OperationError
from webnn_cl.opencl.program import OPTIONS, build_program
from webnn_cl.ops.conv_direct import Convolution
from webnn_cl.ops.expression import Expression
from webnn_cl.ops.record import OpRecord
from webnn_cl.tiles.matrix import COPIED, Part
from webnn_cl.tiles.plan import PANEL, ROWS, ceil_div
from webnn_cl.tiles.product import Product, tile_kernel

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering
    from webnn_cl.context import MLContext

__all__ = [
    "DEQUANTIZE_SHIFTED",
    "INTEGER_CONV2D",
    "INTEGER_MATMUL",
    "MAX_DEPTH",
    "QUANTIZE_SHIFTED",
    "SHIFT",
    "pair_form",
]

# The longest sum of products of values up to 255 that stays in int32.
MAX_DEPTH = (2**31 - 1) // 255**2

_instruction: dict[str, bool] = {}


def pair_form(context: MLContext) -> str | None:
    """How the device sums products of int16 pairs fast (PAIRS of pairs.h); None where float32 products are faster.

    By a built-in function of its compiler, or by plain code where the compiler is known to make the instruction of it.
    """
    facts = context._facts
    if not facts.is_cpu:
        return None
    known = _instruction.get(facts.key)
    if known is None:
        known = _instruction[facts.key] = _compiles(context)
    return "instruction" if known else "plain" if facts.platform == "Intel(R) OpenCL" else None


def _compiles(context: MLContext) -> bool:
    question = "\n#ifndef HAS_PAIR_INSTRUCTION\n#error none\n#endif\nkernel void none() {}\n"
    text = kernels_cl.read("common.h") + kernels_cl.read("pairs.h") + question
    try:
        build_program(context._cl, context._cl_device, text, OPTIONS)
    except OperationError:
        return False
    return True


# Element-wise ---------------------------------------------------------------------------------------------------


def _quantize_text(node: Node) -> str:
    storage = dtype_of(node.inputs["zero_point"].data_type).storage
    quantized = f"WN_QUANTIZE{{W}}({storage}, {{input}} / {{scale}}, {{zero_point}})"
    return f"(CONVERT{{W}}(short, {quantized}) - CONVERT{{W}}(short, {{zero_point}}))"


# quantize_linear, dequantize_linear and what lies between them, for values less their zero points, in int16.
QUANTIZE_SHIFTED = OpRecord("quantize_shifted", "", (), (), expression=Expression(_quantize_text))
DEQUANTIZE_SHIFTED = OpRecord(
    "dequantize_shifted", "", (), (), expression=Expression("(CONVERT{W}(float, {input}) * {scale})")
)
SHIFT = OpRecord(
    "shift", "", (), (), expression=Expression("(CONVERT{W}(short, {input}) - CONVERT{W}(short, {zero_point}))")
)


# Products -------------------------------------------------------------------------------------------------------


def lower_integer_matmul(node: Node, lw: Lowering) -> None:
    """A stack of products of int16 matrices a and b (b transposed by ``b_transpose``), in int32."""
    turned = bool(node.attrs.get("b_transpose"))
    if turned:
        m, n, k = node.inputs["a"].shape[0], node.inputs["b"].shape[0], node.inputs["b"].shape[1]
        p = Product(node.inputs["a"], node.inputs["b"], m, n, k, tail=lw.tail(node))
    else:
        p = Product.of_matmul(node, lw.tail(node))
    columns = (1, p.k) if turned else (p.n, 1)
    count, size = math.prod(p.b_batch), (1, 1, p.k, p.n)
    w = _packed(lw, p.b, size, (0, 0, *columns, p.k * p.n), count)
    _launch(node, p, w, [], 1, lw)


def lower_integer_conv2d(node: Node, lw: Lowering) -> None:
    """A convolution of int16 values, channels last, in int32."""
    conv, attrs = Convolution(node, transposed=False), node.attrs
    x, y, taps = conv.input, conv.output, conv.filter
    _, output, input_, row, column = taps.strides
    size = (taps.height, taps.width, x.channels, y.channels)
    w = _packed(lw, node.inputs["filter"], size, (row, column, input_, output, 0), 1)
    zeros = Value(TensorDesc(INT16, (x.channels,)), constant=Constant(np.zeros(x.channels, np.int16)))
    top, _, left, _ = attrs["padding"]
    window: list[Arg] = [zeros, dims((x.height, x.width)), dims((y.height, y.width))]
    window.append(dims((*attrs["strides"], top, left, *attrs["dilations"], taps.height, taps.width)))
    pixels = y.batch * y.height * y.width
    p = Product(node.inputs["input"], node.inputs["filter"], pixels, y.channels, x.channels, tail=lw.tail(node))
    _launch(node, p, w, window, taps.height * taps.width, lw)


def _launch(node: Node, p: Product, w: Buffer, window: list[Arg], taps: int, lw: Lowering) -> None:
    """One launch of integer_rows.cl; `window` holds the arguments of a convolution."""
    panels, matrices, pairs = ceil_div(p.n, PANEL), math.prod(p.batch), taps * ceil_div(p.k, 2)
    height = 1 if p.m == 1 else ROWS
    groups = ceil_div(p.m, height)
    part = Part.of(groups, panels, pairs, matrices, COPIED, True, lw)
    defines = {"PAIRS": node.attrs["pairs"], "ROWS": height, "WINDOW": int(bool(window))}
    kernel = tile_kernel("integer_rows.cl", "integer_rows", defines, p.tail)
    kernel = Kernel(kernel.template, kernel.entry, dict(kernel.defines), kernel.code, ("pairs.h", *kernel.headers))
    args: list[Arg] = [p.a, w, *window, p.tail.output]
    args += [np.int64(v) for v in (p.m, p.n, p.k, part.groups * height, part.panels)]
    args += [*p.stack(p.m * p.k, panels * pairs * 2 * PANEL), *p.tail.args]
    lw.launch(kernel, args, (ceil_div(panels, part.panels), ceil_div(groups, part.groups), matrices))


def _packed(lw: Lowering, value: Value, size: tuple[int, ...], steps: tuple[int, ...], count: int) -> Buffer:
    """`value` in panels of pairs (integer_pack.cl); `size` is tap rows, tap columns, k, columns."""
    panels, taps = ceil_div(size[3], PANEL), size[0] * size[1]

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        kernel = tile_kernel("integer_pack.cl", "integer_pack", {})
        lw.launch(kernel, [source, target, dims(size), dims(steps)], (panels, taps, count))

    nbytes = 2 * count * panels * taps * ceil_div(size[2], 2) * 2 * PANEL
    return lw.packed(value, ("pairs", *size, *steps), nbytes, emit)


INTEGER_MATMUL = OpRecord("integer_matmul", "", (), (), lower=lower_integer_matmul, meta={"epilogue": 1})
INTEGER_CONV2D = OpRecord("integer_conv2d", "", (), (), lower=lower_integer_conv2d, meta={"epilogue": 1})
