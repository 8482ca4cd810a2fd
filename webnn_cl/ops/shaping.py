"""Tensor manipulation: concat, expand, pad, reshape, reverse, slice, split, tile, transpose, triangular (W3C WebNN)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from webnn_cl.compiler.ir import Node, TensorDesc, Value
from webnn_cl.ops.base import DIM_MAX, BuilderBase, Call, broadcast_to
from webnn_cl.ops.record import ANY, MAX_RANK, Operand, OpRecord, Output, register
from webnn_cl.ops.shaping_lower import lower_concat, lower_pad, lower_split, lower_tile, lower_triangular
from webnn_cl.ops.strided import View, lower_view

if TYPE_CHECKING:
    from webnn_cl.operand import MLOperand

__all__ = ["ShapingMixin"]

PaddingMode = Literal["constant", "edge", "reflection"]
MAX_PIECES = 8192

_INPUT = (Operand("input", ANY),)
_OUTPUT = (Output(like="input"),)
_WITH_AXIS = (Operand("input", ANY, rank=(1, MAX_RANK)),)


def _expand_view(node: Node, source: View) -> View:
    return source.expanded(node.output.shape)


def _reshape_view(node: Node, source: View) -> View | None:
    return source.reshaped(node.output.shape)


def _reverse_view(node: Node, source: View) -> View:
    return source.reversed(node.attrs["axes"])


def _slice_view(node: Node, source: View) -> View:
    return source.sliced(node.attrs["starts"], node.output.shape, node.attrs["strides"])


def _transpose_view(node: Node, source: View) -> View:
    return source.transposed(node.attrs["permutation"])


def _tile_view(node: Node, source: View) -> View | None:
    return source.repeated(node.attrs["repetitions"]).reshaped(node.output.shape)


CONCAT = register(
    OpRecord(
        "concat",
        "concat",
        operands=(Operand("inputs", ANY, rank=(1, MAX_RANK), many=True),),
        outputs=(Output(like="inputs"),),
        lower=lower_concat,
    )
)
EXPAND = register(
    OpRecord(
        "expand",
        "expand",
        operands=_INPUT,
        outputs=(Output(like="input", rank=(0, MAX_RANK)),),
        lower=lower_view,
        meta={"view": _expand_view},
    )
)
PAD = register(OpRecord("pad", "pad", operands=_INPUT, outputs=_OUTPUT, lower=lower_pad))
RESHAPE = register(
    OpRecord(
        "reshape",
        "reshape",
        operands=_INPUT,
        outputs=(Output(like="input", rank=(0, MAX_RANK)),),
        view=True,
        meta={"view": _reshape_view},
    )
)
REVERSE = register(
    OpRecord("reverse", "reverse", operands=_INPUT, outputs=_OUTPUT, lower=lower_view, meta={"view": _reverse_view})
)
SLICE = register(
    OpRecord("slice", "slice", operands=_INPUT, outputs=_OUTPUT, lower=lower_view, meta={"view": _slice_view})
)
SPLIT = register(
    OpRecord("split", "split", operands=_WITH_AXIS, outputs=(Output("outputs", like="input"),), lower=lower_split)
)
TILE = register(OpRecord("tile", "tile", operands=_INPUT, outputs=_OUTPUT, lower=lower_tile, meta={"view": _tile_view}))
TRANSPOSE = register(
    OpRecord(
        "transpose",
        "transpose",
        operands=_INPUT,
        outputs=_OUTPUT,
        lower=lower_view,
        meta={"view": _transpose_view},
    )
)
TRIANGULAR = register(
    OpRecord(
        "triangular",
        "triangular",
        operands=(Operand("input", ANY, rank=(2, MAX_RANK)),),
        outputs=_OUTPUT,
        lower=lower_triangular,
    )
)


class ShapingMixin(BuilderBase):
    """Tensor manipulation of MLGraphBuilder."""

    def concat(self, inputs: Sequence[MLOperand], axis: int, *, label: str = "") -> MLOperand:
        """Join tensors along `axis` in the order of the list (W3C WebNN, "concat").

        `inputs`: 1 to 8192 operands of one data type (any) and one rank (1 to 8), equal in every dimension but
        `axis`; one operand may appear several times. The result's dimension `axis` is the sum of theirs.
        MLTypeError: an empty list or more than 8192 operands, differing data types, ranks or other dimensions,
        `axis` not below the rank, a sum above 2147483647, an operand of another builder.
        """
        call = self._call(CONCAT, label)
        values = call.many("inputs", inputs)
        first = values[0].desc
        axis = call.axis("axis", axis, first.rank)
        for index, value in enumerate(values):
            _check_piece(call, f"inputs[{index}]", value, first, axis)
        total = sum(value.shape[axis] for value in values)
        shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
        return call.emit(TensorDesc(first.data_type, shape), {"axis": axis})

    def expand(self, input: MLOperand, new_shape: Sequence[int], *, label: str = "") -> MLOperand:
        """Broadcast to `new_shape`, as numpy.broadcast_to (W3C WebNN, "expand").

        `input`: any data type, rank 0 to 8. Right-aligned, each dimension of the input must be 1 or equal that of
        `new_shape`, which may have more leading dimensions.
        MLTypeError: a shape that the input doesn't broadcast to, dimensions outside 1..2147483647.
        """
        call = self._call(EXPAND, label)
        x = call.operand("input", input)
        shape = call.u32_list("new_shape", new_shape)
        if not broadcast_to(x.shape, shape):
            raise call.error("new_shape", list(shape), f"a shape that {list(x.shape)} broadcasts to")
        return call.emit(TensorDesc(x.data_type, shape))

    def pad(
        self,
        input: MLOperand,
        beginning_padding: Sequence[int],
        ending_padding: Sequence[int],
        *,
        mode: PaddingMode = "constant",
        value: float = 0,
        label: str = "",
    ) -> MLOperand:
        """Add elements before and after each dimension (W3C WebNN, "pad").

        `input`: any data type, rank 0 to 8. `beginning_padding` and `ending_padding`: one amount >= 0 per
        dimension. `mode`: ``"constant"`` fills with `value` (cast to the input's type), ``"edge"`` repeats the
        outermost element, ``"reflection"`` mirrors without repeating it (amounts below the dimension). Dimension d
        of the result is ``beginning_padding[d] + input.shape[d] + ending_padding[d]``.
        MLTypeError: a list of another length than the rank, an amount that is too large, an unknown mode.
        """
        call = self._call(PAD, label)
        x = call.operand("input", input)
        begin = call.u32_list("beginning_padding", beginning_padding, length=x.desc.rank)
        end = call.u32_list("ending_padding", ending_padding, length=x.desc.rank)
        mode = call.enum("mode", mode, get_args(PaddingMode))
        fill = call.number("value", value, x.data_type)
        if mode == "reflection":
            for argument, amounts in (("beginning_padding", begin), ("ending_padding", end)):
                if any(amount >= n for amount, n in zip(amounts, x.shape, strict=True)):
                    raise call.error(argument, list(amounts), f"amounts below {list(x.shape)} in reflection mode")
        shape = tuple(b + n + e for b, n, e in zip(begin, x.shape, end, strict=True))
        attrs = {"beginning_padding": begin, "ending_padding": end, "mode": mode, "value": fill}
        return call.emit(TensorDesc(x.data_type, shape), attrs)

    def reshape(self, input: MLOperand, new_shape: Sequence[int], *, label: str = "") -> MLOperand:
        """The same elements in row-major order under `new_shape` (W3C WebNN, "reshape"); costs nothing.

        `input`: any data type, rank 0 to 8. `new_shape`: dimensions in 1..2147483647 whose product is the number
        of elements (``[]`` for one element); no dimension is inferred.
        MLTypeError: another product, invalid dimensions, more than 8 dimensions.
        """
        call = self._call(RESHAPE, label)
        x = call.operand("input", input)
        shape = call.u32_list("new_shape", new_shape, minimum=1, maximum=DIM_MAX)
        if math.prod(shape) != x.desc.size:
            raise call.error("new_shape", list(shape), f"a shape of {x.desc.size} elements, as {list(x.shape)}")
        return call.emit(TensorDesc(x.data_type, shape))

    def reverse(self, input: MLOperand, *, axes: Sequence[int] | None = None, label: str = "") -> MLOperand:
        """Reverse the order of the elements along `axes` (W3C WebNN, "reverse").

        `input`: any data type, rank 0 to 8. `axes`: distinct axes; None is all of them, ``[]`` none.
        MLTypeError: an axis not below the rank, or twice the same.
        """
        call = self._call(REVERSE, label)
        x = call.operand("input", input)
        chosen = call.axes("axes", axes, x.desc.rank)
        return call.emit(x.desc, {"axes": tuple(range(x.desc.rank)) if chosen is None else chosen})

    def slice(
        self,
        input: MLOperand,
        starts: Sequence[int],
        sizes: Sequence[int],
        *,
        strides: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """A window of the input, every ``strides[d]``-th element of it (W3C WebNN, "slice").

        `input`: any data type, rank 0 to 8. One entry per dimension: `starts` >= 0, `sizes` >= 1 the extent of the
        window in the input before striding, `strides` >= 1 (default all 1). Dimension d of the result is
        ``ceil(sizes[d] / strides[d])``.
        MLTypeError: lists of another length than the rank, a window that leaves the input, a size or stride of 0.
        """
        call = self._call(SLICE, label)
        x = call.operand("input", input)
        rank = x.desc.rank
        begin = call.u32_list("starts", starts, length=rank)
        window = call.u32_list("sizes", sizes, length=rank, minimum=1)
        steps = (1,) * rank if strides is None else call.u32_list("strides", strides, length=rank, minimum=1)
        if any(b + w > n for b, w, n in zip(begin, window, x.shape, strict=True)):
            given = f"{list(window)} from starts {list(begin)}"
            raise call.error("sizes", given, f"a window within the input's shape {list(x.shape)}")
        shape = tuple(-(-w // step) for w, step in zip(window, steps, strict=True))
        return call.emit(TensorDesc(x.data_type, shape), {"starts": begin, "sizes": window, "strides": steps})

    def split(
        self, input: MLOperand, splits: int | Sequence[int], *, axis: int = 0, label: str = ""
    ) -> list[MLOperand]:
        """Cut the input along `axis` into consecutive parts (W3C WebNN, "split"); a list, also of one part.

        `input`: any data type, rank 1 to 8. `splits`: the number of equal parts (1 to 8192), or the list of their
        sizes (1 to 8192 entries >= 1 that sum up to ``input.shape[axis]``).
        MLTypeError: parts that don't add up, `axis` not below the rank, too many parts.
        """
        call = self._call(SPLIT, label)
        x = call.operand("input", input)
        axis = call.axis("axis", axis, x.desc.rank)
        sizes = _part_sizes(call, splits, x.shape[axis])
        shapes = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in sizes]
        return call.emit_many([TensorDesc(x.data_type, s) for s in shapes], {"axis": axis, "splits": sizes})

    def tile(self, input: MLOperand, repetitions: Sequence[int], *, label: str = "") -> MLOperand:
        """Repeat the whole tensor ``repetitions[d]`` times along dimension d, as numpy.tile (W3C WebNN, "tile").

        `input`: any data type, rank 0 to 8. `repetitions`: one count >= 1 per dimension.
        MLTypeError: a list of another length than the rank, a count of 0, a result that is too large.
        """
        call = self._call(TILE, label)
        x = call.operand("input", input)
        counts = call.u32_list("repetitions", repetitions, length=x.desc.rank, minimum=1)
        shape = tuple(n * count for n, count in zip(x.shape, counts, strict=True))
        return call.emit(TensorDesc(x.data_type, shape), {"repetitions": counts})

    def transpose(self, input: MLOperand, *, permutation: Sequence[int] | None = None, label: str = "") -> MLOperand:
        """Permute the axes: axis k of the result is axis ``permutation[k]`` of the input (W3C WebNN, "transpose").

        `input`: any data type, rank 0 to 8. `permutation`: each axis once; default: all axes reversed.
        MLTypeError: not a permutation of ``0 .. rank - 1``.
        """
        call = self._call(TRANSPOSE, label)
        x = call.operand("input", input)
        rank = x.desc.rank
        order = call.axes("permutation", permutation, rank)
        if order is None:
            order = tuple(range(rank - 1, -1, -1))
        if len(order) != rank:
            raise call.error("permutation", list(order), f"a permutation of the {rank} axes")
        return call.emit(TensorDesc(x.data_type, tuple(x.shape[k] for k in order)), {"permutation": order})

    def triangular(self, input: MLOperand, *, upper: bool = True, diagonal: int = 0, label: str = "") -> MLOperand:
        """Keep one triangle of each matrix of the last two dimensions, zeros elsewhere (W3C WebNN, "triangular").

        `input`: any data type, rank 2 to 8. With row r and column c, `upper` keeps ``c - r >= diagonal``, otherwise
        ``c - r <= diagonal`` is kept. Zeros also replace NaN and infinity.
        MLTypeError: rank below 2, `upper` not a bool, `diagonal` not a 32-bit int.
        """
        call = self._call(TRIANGULAR, label)
        x = call.operand("input", input)
        attrs = {"upper": call.boolean("upper", upper), "diagonal": call.i32("diagonal", diagonal)}
        return call.emit(x.desc, attrs)


def _check_piece(call: Call, argument: str, value: Value, first: TensorDesc, axis: int) -> None:
    if value.data_type != first.data_type:
        raise call.error(argument, f"data type {value.data_type}", f"{first.data_type}, as inputs[0]")
    alike = (*first.shape[:axis], *first.shape[axis + 1 :]) == (*value.shape[:axis], *value.shape[axis + 1 :])
    if value.desc.rank != first.rank or not alike:
        allowed = f"the shape of inputs[0], {list(first.shape)}, but for axis {axis}"
        raise call.error(argument, f"shape {list(value.shape)}", allowed)


def _part_sizes(call: Call, splits: object, extent: int) -> tuple[int, ...]:
    if isinstance(splits, (int, np.integer)):
        count = call.u32("splits", splits, minimum=1, maximum=MAX_PIECES)
        if extent % count:
            raise call.error("splits", count, f"a number of parts that divides {extent}")
        return (extent // count,) * count
    sizes = call.u32_list("splits", splits, minimum=1)
    if not 1 <= len(sizes) <= MAX_PIECES:
        raise call.error("splits", f"{len(sizes)} parts", f"1 to {MAX_PIECES} parts")
    if sum(sizes) != extent:
        raise call.error("splits", f"sizes that sum up to {sum(sizes)}", f"sizes that sum up to {extent}")
    return sizes
