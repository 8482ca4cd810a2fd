"""Lowering of concat, split, pad, tile and triangular: copies of rows, by element size, whatever the data type."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.ir import Node, Value
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.expression import Expression
from webnn_cl.ops.record import ANY, Operand, OpRecord, Output
from webnn_cl.ops.strided import MAX_DIMS, View, copy_view, past_caches, split_rows, unsigned_of

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg, Lowering

__all__ = ["lower_concat", "lower_pad", "lower_split", "lower_tile", "lower_triangular"]

PIECES = 8  # operands of one launch
LANES = 8
_HEADERS = ("move.h",)
# A view of rows that an element-wise kernel reads and writes to its place in a concat.
_PIECE = OpRecord(
    "concat_piece", "", (Operand("input", ANY),), (Output(like="input"),), expression=Expression("({input})")
)


def lower_concat(node: Node, lowering: Lowering) -> None:
    """Eight inputs a launch, all by one kernel, but for those that were written in place; a single input shares its
    memory.
    """
    values = node.many("inputs")
    if len(values) == 1:
        lowering.alias(node.output, values[0])
        return
    apart = lowering.places.keys() | _views_in_place(node, values, lowering)
    _move_pieces(lowering, node.output, values, node.attrs["axis"], {}, apart)


def _views_in_place(node: Node, values: Sequence[Value], lowering: Lowering) -> set[Value]:
    """Write pieces that are views of rows of other tensors to their place, without a copy between; those pieces."""
    from webnn_cl.compiler.elementwise import Chain, lower_chain
    from webnn_cl.compiler.place import places_of

    done: set[Value] = set()
    for value, place in zip(values, places_of(node), strict=True):
        viewed = lowering.view_of(value)
        small = viewed[1].collapsed() if viewed is not None else None
        rows = small is not None and small.shape and small.strides[-1] == 1 and small.shape[-1] >= LANES
        fits = place.whole or min(place.run, value.shape[-1]) >= LANES
        if not rows or not fits or not lowering.facts.is_cpu or values.count(value) > 1:
            continue
        copy = Node(_PIECE, {"input": value}, {}, label=node.label)
        copy.outputs = [Value(value.desc, producer=copy)]
        lowering.places[copy.output] = place
        lower_chain(Chain([copy]), lowering)
        done.add(value)
    return done


def lower_split(node: Node, lowering: Lowering) -> None:
    """Eight outputs a launch, all by one kernel, but for those that their readers find in the input; a single output
    shares the input's memory.
    """
    source, axis = node.inputs["input"], node.attrs["axis"]
    if len(node.outputs) == 1:
        lowering.alias(node.output, source)
        return
    begin = 0
    apart = set()
    for output in node.outputs:
        if output in lowering.read_by_chains and output.shape[-1] >= LANES:
            starts = [begin if k == axis else 0 for k in range(source.desc.rank)]
            view = View.packed(source.shape).sliced(starts, output.shape, [1] * source.desc.rank)
            lowering.view(output, source, view)
            apart.add(output)
        begin += output.shape[axis]
    defines = {"PIECE": "__global E *", "WHOLE": "const __global E *"}
    _move_pieces(lowering, source, node.outputs, axis, defines, apart)


def _move_pieces(
    lowering: Lowering,
    whole: Value,
    pieces: Sequence[Value],
    axis: int,
    defines: dict[str, str],
    apart: Collection[Value],
) -> None:
    """Copy all pieces from or to their places in the whole, but for those `apart`."""
    size = dtype_of(whole.data_type).size
    rows = math.prod(whole.shape[:axis])
    pitch = whole.desc.size // rows
    run = min(piece.desc.size for piece in pieces) // rows
    past = past_caches(lowering.facts, run * size, whole.desc.nbytes)
    kernel = Kernel("pieces.cl", "pieces", {"E": unsigned_of(size), **defines, **past}, headers=_HEADERS)
    begins = itertools.accumulate((piece.desc.size // rows for piece in pieces), initial=0)
    todo = [(piece, begin) for piece, begin in zip(pieces, begins, strict=False) if piece not in apart]
    for k in range(0, len(todo), PIECES):
        group = [piece for piece, _ in todo[k : k + PIECES]]
        first = todo[k][1]
        starts = [begin - first for _, begin in todo[k : k + PIECES]]
        sizes = [piece.desc.size // rows for piece in group]
        width = starts[-1] + sizes[-1]
        columns, rows_each, local = split_rows(lowering.facts, width, rows, size)
        args: list[Arg] = [whole, *group, *group[:1] * (PIECES - len(group)), dims(starts), dims(sizes)]
        args += [np.int64(n) for n in (first, width, pitch, rows, columns, rows_each)]
        lowering.launch(kernel, args, (-(-width // columns), -(-rows // rows_each)), local)


def lower_pad(node: Node, lowering: Lowering) -> None:
    """Rows of the last dimension; padding of nothing shares the memory."""
    source, target, attrs = node.inputs["input"], node.output, node.attrs
    if source.shape == target.shape:
        lowering.alias(target, source)
        return
    dtype = dtype_of(target.data_type)
    mode = ("constant", "edge", "reflection").index(attrs["mode"])
    begin = attrs["beginning_padding"]
    shape, begins, padded = _collapse_padding(source.shape, begin, target.shape, constant=mode == 0)
    inner, outer = padded[-1], padded[:-1]
    rows = math.prod(outer)
    columns, rows_each, local = split_rows(lowering.facts, inner, rows, dtype.size)
    fill: np.generic = np.array([attrs["value"]], dtype.numpy).view(f"uint{8 * dtype.size}")[0]
    args: list[Arg] = [source, target, *(np.int64(n) for n in (shape[-1], begins[-1], inner, columns, rows, rows_each))]
    args += [np.int32(len(outer)), dims(outer), dims(shape[:-1]), dims(begins[:-1]), np.int32(mode), fill]
    past = past_caches(lowering.facts, shape[-1] * dtype.size, target.desc.nbytes)
    kernel = Kernel("pad.cl", "pad_rows", {"E": unsigned_of(dtype.size), **past}, headers=_HEADERS)
    lowering.launch(kernel, args, (-(-inner // columns), -(-rows // rows_each)), local)


def _collapse_padding(
    shape: Sequence[int], begins: Sequence[int], padded: Sequence[int], constant: bool
) -> tuple[list[int], list[int], list[int]]:
    """Dimensions without padding join: with one another, and with a padded one before them in constant mode only.

    (A mirrored or repeated row is not a mirrored or repeated element, so the other modes keep padded ones apart.)
    """
    sizes: list[int] = []
    starts: list[int] = []
    totals: list[int] = []
    for n, begin, total in zip(shape, begins, padded, strict=True):
        if sizes and n == total and (constant or sizes[-1] == totals[-1]):
            sizes[-1] *= n
            starts[-1] *= n
            totals[-1] *= n
        else:
            sizes.append(n)
            starts.append(begin)
            totals.append(total)
    return sizes, starts, totals


def lower_tile(node: Node, lowering: Lowering) -> None:
    """One strided copy, or several where the repetitions need more dimensions than the kernel takes."""
    source, target = node.inputs["input"], node.output
    if source.shape == target.shape:
        lowering.alias(target, source)
    else:
        _tile(lowering, source, source.shape, node.attrs["repetitions"], target, dtype_of(target.data_type).size)


def _tile(lowering: Lowering, source: Arg, shape: Sequence[int], counts: Sequence[int], target: Arg, size: int) -> None:
    view = View.packed(shape).repeated(counts)
    if len(view.collapsed().shape) <= MAX_DIMS:
        copy_view(lowering, source, view, target, size)
        return
    half = len(shape) // 2
    inner = [1] * half + list(counts[half:])
    partly = [n * count for n, count in zip(shape, inner, strict=True)]
    between = lowering.scratch(math.prod(partly) * size)
    _tile(lowering, source, shape, inner, between, size)
    _tile(lowering, between, partly, [*counts[:half], *[1] * (len(shape) - half)], target, size)


def lower_triangular(node: Node, lowering: Lowering) -> None:
    """Rows of the matrices: zeros, a run of the input, zeros."""
    source, target = node.inputs["input"], node.output
    size = dtype_of(target.data_type).size
    height, width = target.shape[-2:]
    rows = target.desc.size // width
    columns, rows_each, local = split_rows(lowering.facts, width, rows, size)
    kernel = Kernel("triangular.cl", "triangular", {"E": unsigned_of(size)}, headers=_HEADERS)
    args: list[Arg] = [source, target, *(np.int64(n) for n in (width, columns, rows, rows_each, height))]
    args += [np.int32(node.attrs["upper"]), np.int64(node.attrs["diagonal"])]
    launch_size = (-(-width // columns), -(-rows // rows_each))
    lowering.launch(kernel, args, launch_size, local, in_place=[(source, target)])
