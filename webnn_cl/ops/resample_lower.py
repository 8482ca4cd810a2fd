"""Lowering of resample2d."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.tiling import local_of_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Arg, Lowering

__all__ = ["lower_resample2d"]

# Columns of one work-item where a vector runs along them.
SPAN = 512


def positions(size: int, output: int) -> tuple[NDArray[np.int64], int]:
    """Where each output index reads, ``(o + 0.5) * size / output - 0.5`` clamped to the source, times `unit`."""
    unit = 2 * output
    u = (2 * np.arange(output, dtype=np.int64) + 1) * size - output
    return u.clip(0, (size - 1) * unit), unit


def linear_tables(size: int, output: int, whole: bool) -> list[NDArray[Any]]:
    """For each output index: lower and upper source index and the upper one's weight (in units when `whole`)."""
    u, unit = positions(size, output)
    low, rest = np.divmod(u, unit)
    weight = rest if whole else (rest / unit).astype(np.float32)
    return [low.astype(np.int32), (low + (rest > 0)).astype(np.int32), weight]


def nearest_table(size: int, output: int) -> NDArray[np.int32]:
    """For each output index: the source index, ``ceil(u - 0.5)``, so that halves go down."""
    u, unit = positions(size, output)
    return (-((output - u) // unit)).astype(np.int32)


def lower_resample2d(node: Node, lw: Lowering) -> None:
    """One launch: a vector along the innermost dimension, be that resampled itself or not."""
    x, tail = node.inputs["input"], lw.tail(node)
    linear = node.attrs["mode"] == "linear"
    first, second = sorted(node.attrs["axes"])
    shape, out = x.shape, node.output.shape
    outer, middle, inner = (math.prod(s) for s in (shape[:first], shape[first + 1 : second], shape[second + 1 :]))
    along = inner == 1
    dtype = dtype_of(x.data_type)
    tables: list[Arg] = []
    for axis in (first, second):
        if linear:
            tables += map(lw.host_constant, linear_tables(shape[axis], out[axis], not dtype.is_float))
        else:
            tables.append(lw.host_constant(nearest_table(shape[axis], out[axis])))
    if linear:
        tables.append(dims((2 * out[first], 2 * out[second])))
    defines = {
        "T": dtype.storage,
        "LINEAR": int(linear),
        "WHOLE": int(not dtype.is_float),
        "ALONG": int(along),
        **tail.defines,
    }
    kernel = Kernel("resample.cl", "resample_along" if along else "resample_inner", defines, tail.code, tail.headers)
    sizes = dims((shape[first], middle, shape[second], inner, out[first], out[second], outer))
    args: list[Arg] = [x, tail.output, *tables, sizes]
    lines = outer * out[first] * middle
    if along:
        lw.launch(kernel, [*args, np.int64(SPAN), *tail.args], (-(-out[second] // SPAN), lines), (1, 8))
    else:
        columns = out[second] * -(-inner // 8)
        lw.launch(kernel, [*args, *tail.args], (columns, lines), local_of_rows(columns))
