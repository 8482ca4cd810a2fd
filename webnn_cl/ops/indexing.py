"""Gather and scatter (W3C WebNN, "gather" ... "scatterND").

Indices are data: whatever they hold, they are clamped to ``[-N, N - 1]`` on the device, and negative ones count from
the end, so nothing outside a tensor is touched. Of several updates for one place the last in row-major order wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webnn_cl.compiler.ir import TensorDesc, Value
from webnn_cl.ops.base import BuilderBase, Call
from webnn_cl.ops.indexing_lower import (
    lower_gather,
    lower_gather_elements,
    lower_gather_nd,
    lower_scatter_elements,
    lower_scatter_nd,
)
from webnn_cl.ops.record import ANY, INDICES, MAX_RANK, Operand, OpRecord, Output, register

if TYPE_CHECKING:
    from webnn_cl.operand import MLOperand

__all__ = ["IndexingMixin"]

_INPUT = Operand("input", ANY, rank=(1, MAX_RANK))

GATHER = register(
    OpRecord(
        "gather",
        "gather",
        operands=(_INPUT, Operand("indices", INDICES)),
        outputs=(Output(like="input", rank=(0, MAX_RANK)),),
        lower=lower_gather,
    )
)
GATHER_ELEMENTS = register(
    OpRecord(
        "gather_elements",
        "gatherElements",
        operands=(_INPUT, Operand("indices", INDICES, rank="input")),
        outputs=(Output(like="input"),),
        lower=lower_gather_elements,
    )
)
GATHER_ND = register(
    OpRecord(
        "gather_nd",
        "gatherND",
        operands=(_INPUT, Operand("indices", INDICES, rank=(1, MAX_RANK))),
        outputs=(Output(like="input", rank=(0, MAX_RANK)),),
        lower=lower_gather_nd,
    )
)
SCATTER_ELEMENTS = register(
    OpRecord(
        "scatter_elements",
        "scatterElements",
        operands=(
            _INPUT,
            Operand("indices", INDICES, rank="input"),
            Operand("updates", ANY, rank="input", same_as="input"),
        ),
        outputs=(Output(like="input"),),
        lower=lower_scatter_elements,
    )
)
SCATTER_ND = register(
    OpRecord(
        "scatter_nd",
        "scatterND",
        operands=(
            _INPUT,
            Operand("indices", INDICES, rank=(1, MAX_RANK)),
            Operand("updates", ANY, same_as="input"),
        ),
        outputs=(Output(like="input"),),
        lower=lower_scatter_nd,
    )
)


class IndexingMixin(BuilderBase):
    """Gather and scatter of MLGraphBuilder."""

    def gather(self, input: MLOperand, indices: MLOperand, *, axis: int = 0, label: str = "") -> MLOperand:
        """Slices of `input` along `axis`, in the order of `indices` (W3C WebNN, "gather").

        `input`: any data type, rank 1 to 8. `indices`: int32, uint32 or int64, rank 0 to 8, in
        ``[-N, N - 1]`` with ``N = input.shape[axis]`` (others are clamped). The result has the shape
        ``input.shape[:axis] + indices.shape + input.shape[axis + 1:]``.
        MLTypeError: another type of indices, `axis` not below the rank, a result of more than 8 dimensions.
        """
        call = self._call(GATHER, label)
        x, where = call.operand("input", input), call.operand("indices", indices)
        axis = call.axis("axis", axis, x.desc.rank)
        shape = (*x.shape[:axis], *where.shape, *x.shape[axis + 1 :])
        return call.emit(TensorDesc(x.data_type, shape), {"axis": axis})

    def gather_elements(self, input: MLOperand, indices: MLOperand, *, axis: int = 0, label: str = "") -> MLOperand:
        """Single elements: ``y[p] = input[p with p[axis] replaced by indices[p]]`` (W3C WebNN, "gatherElements").

        `input`: any data type, rank 1 to 8. `indices`: int32, uint32 or int64, of the same rank and the same
        dimensions but for `axis`; values as in `gather`. The result has the shape of `indices`.
        MLTypeError: another type of indices, differing dimensions, `axis` not below the rank.
        """
        call = self._call(GATHER_ELEMENTS, label)
        x, where = call.operand("input", input), call.operand("indices", indices)
        axis = call.axis("axis", axis, x.desc.rank)
        _check_alike(call, x, where, axis)
        return call.emit(TensorDesc(x.data_type, where.shape), {"axis": axis})

    def gather_nd(self, input: MLOperand, indices: MLOperand, *, label: str = "") -> MLOperand:
        """Slices at coordinates: ``y[q..] = input[indices[q.., 0], ..., indices[q.., K - 1]]`` (W3C WebNN, "gatherND").

        `input`: any data type, rank 1 to 8. `indices`: int32, uint32 or int64, rank 1 to 8, whose last dimension K
        is at most the input's rank; values as in `gather`, each in its dimension. The result has the shape
        ``indices.shape[:-1] + input.shape[K:]``.
        MLTypeError: another type of indices, K above the rank, a result of more than 8 dimensions.
        """
        call = self._call(GATHER_ND, label)
        x, where = call.operand("input", input), call.operand("indices", indices)
        return call.emit(TensorDesc(x.data_type, _coordinates_shape(call, x, where)))

    def scatter_elements(
        self, input: MLOperand, indices: MLOperand, updates: MLOperand, *, axis: int = 0, label: str = ""
    ) -> MLOperand:
        """A copy of `input` with ``y[p with p[axis] := indices[p]] = updates[p]`` (W3C WebNN, "scatterElements").

        `input`: any data type, rank 1 to 8. `indices`: int32, uint32 or int64, of the same rank and the same
        dimensions but for `axis`; values as in `gather`. `updates`: the input's type, the shape of `indices`.
        Where several updates meet, the last one in row-major order wins.
        MLTypeError: other types or shapes, `axis` not below the rank.
        """
        call = self._call(SCATTER_ELEMENTS, label)
        x, where = call.operand("input", input), call.operand("indices", indices)
        values = call.operand("updates", updates)
        axis = call.axis("axis", axis, x.desc.rank)
        _check_alike(call, x, where, axis)
        if values.shape != where.shape:
            raise call.error("updates", f"shape {list(values.shape)}", f"the shape of indices, {list(where.shape)}")
        return call.emit(x.desc, {"axis": axis})

    def scatter_nd(self, input: MLOperand, indices: MLOperand, updates: MLOperand, *, label: str = "") -> MLOperand:
        """A copy of `input` with ``y[indices[q.., 0], .., indices[q.., K-1]] = updates[q..]`` (W3C WebNN, "scatterND").

        `input`: any data type, rank 1 to 8. `indices`: int32, uint32 or int64, rank 1 to 8, whose last dimension K
        is at most the input's rank; values as in `gather`. `updates`: the input's type, of the shape
        ``indices.shape[:-1] + input.shape[K:]``. Where several updates meet, the last in row-major order wins.
        MLTypeError: other types or shapes, K above the rank.
        """
        call = self._call(SCATTER_ND, label)
        x, where = call.operand("input", input), call.operand("indices", indices)
        values = call.operand("updates", updates)
        expected = _coordinates_shape(call, x, where)
        if values.shape != expected:
            raise call.error("updates", f"shape {list(values.shape)}", f"shape {list(expected)}")
        return call.emit(x.desc)


def _check_alike(call: Call, x: Value, indices: Value, axis: int) -> None:
    """indices must have the input's dimensions, but for `axis`."""
    same = (*x.shape[:axis], *x.shape[axis + 1 :]) == (*indices.shape[:axis], *indices.shape[axis + 1 :])
    if not same:
        allowed = f"the input's shape {list(x.shape)}, but for axis {axis}"
        raise call.error("indices", f"shape {list(indices.shape)}", allowed)


def _coordinates_shape(call: Call, x: Value, indices: Value) -> tuple[int, ...]:
    """Shape of what the coordinates in the last dimension of `indices` select."""
    depth = indices.shape[-1]
    if depth > x.desc.rank:
        allowed = f"a last dimension of at most the input's rank {x.desc.rank}"
        raise call.error("indices", f"shape {list(indices.shape)}", allowed)
    return (*indices.shape[:-1], *x.shape[depth:])
