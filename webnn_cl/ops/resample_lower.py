"""Lowering of resample2d."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.work import local_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Arg, Lowering

__all__ = ["epilogue_run", "lower_resample2d"]

LANES = 8
# Elements of one work-item.
SPAN = 2048


def positions(size: int, output: int) -> tuple[NDArray[np.int64], int]:
    """Where each output index reads, ``(o + 0.5) * size / output - 0.5`` clamped to the source, times `unit`."""
    unit = 2 * output
    u = (2 * np.arange(output, dtype=np.int64) + 1) * size - output
    return u.clip(0, (size - 1) * unit), unit


def tables_of(size: int, output: int, linear: bool, whole: bool) -> list[NDArray[Any]]:
    """For each output index: the nearest source index (halves go down), or, when `linear`, the lower and the upper one
    and the upper one's weight (in units when `whole`).
    """
    u, unit = positions(size, output)
    if not linear:
        return [(-((output - u) // unit)).astype(np.int32)]
    low, rest = np.divmod(u, unit)
    weight = rest if whole else (rest / unit).astype(np.float32)
    return [low.astype(np.int32), (low + (rest > 0)).astype(np.int32), weight]


def _spread(tables: list[NDArray[Any]], inner: int) -> list[NDArray[Any]]:
    """Tables of columns of `inner` elements each as tables of columns of one element."""
    indices = [(t[:, None] * inner + np.arange(inner, dtype=np.int32)).reshape(-1) for t in tables[:2]]
    return indices + [np.repeat(t, inner) for t in tables[2:]]


def epilogue_run(node: Node) -> int:
    """Trailing dimensions over which eight elements that are stored together may run (``meta["epilogue"]``)."""
    last: int = max(node.attrs["axes"])
    along = math.prod(node.output.shape[last + 1 :]) < LANES
    return 4 - last if along else 3 - last


def lower_resample2d(node: Node, lw: Lowering) -> None:
    """One launch: a vector along the innermost dimension, be that resampled itself or not."""
    x, tail = node.inputs["input"], lw.tail(node)
    linear = node.attrs["mode"] == "linear"
    first, second = sorted(node.attrs["axes"])
    shape, out = x.shape, node.output.shape
    outer, middle, inner = (math.prod(s) for s in (shape[:first], shape[first + 1 : second], shape[second + 1 :]))
    columns, out_columns, along = shape[second], out[second], inner < LANES
    dtype = dtype_of(x.data_type)
    tables: list[Arg] = []
    for axis in (first, second):
        made = tables_of(shape[axis], out[axis], linear, not dtype.is_float)
        tables += map(lw.host_constant, _spread(made, inner) if along and axis == second else made)
    if along:
        columns, out_columns, inner = columns * inner, out_columns * inner, 1
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
    sizes = dims((shape[first], middle, columns, inner, out[first], out_columns, outer))
    span = max(1, min(out_columns, (SPAN if lw.facts.is_cpu else LANES) // inner))
    args: list[Arg] = [x, tail.output, *tables, sizes, np.int64(span), *tail.args]
    lw.launch(kernel, args, (-(-out_columns // span), outer * out[first] * middle), local_of(lw.facts, 2))
