"""Reductions, arg_min, arg_max and cumulative_sum (W3C WebNN, "Reduction operations").

Sums of floats keep what rounding loses, so that they stay right over any number of elements; integers wrap in their
own type; NaN propagates through reduce_max and reduce_min, while arg_min and arg_max choose the first number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.dtypes import DataType, dtype_of, normalize_data_type
from webnn_cl.ops.base import BuilderBase, Call
from webnn_cl.ops.record import ANY, FLOATS, MAX_RANK, NUMERIC_32_64, Operand, OpRecord, Output, register
from webnn_cl.ops.reduce_lower import epilogue_run, lower_reduction, output_shape, takes_prologue
from webnn_cl.ops.scan_lower import lower_arg, lower_cumulative_sum, sum_epilogue_run

if TYPE_CHECKING:
    from webnn_cl.operand import MLOperand

__all__ = ["ReductionMixin"]

IndexType = Literal["int32", "int64"]
INDEX_TYPES: tuple[DataType, ...] = ("int32", "int64")
META = {"epilogue": epilogue_run, "prologue": takes_prologue}


def _reduction(name: str, js: str, dtypes: tuple[DataType, ...]) -> OpRecord:
    operands = (Operand("input", dtypes),)
    outputs = (Output(like="input", rank=(0, MAX_RANK)),)
    return register(OpRecord(name, js, operands, outputs, lower=lower_reduction, meta=META))


def _arg(name: str, js: str) -> OpRecord:
    operands = (Operand("input", ANY, rank=(1, MAX_RANK)),)
    outputs = (Output(dtypes=INDEX_TYPES, rank=(0, MAX_RANK)),)
    return register(OpRecord(name, js, operands, outputs, lower=lower_arg))


ARG_MIN = _arg("arg_min", "argMin")
ARG_MAX = _arg("arg_max", "argMax")
REDUCE_L1 = _reduction("reduce_l1", "reduceL1", NUMERIC_32_64)
REDUCE_L2 = _reduction("reduce_l2", "reduceL2", FLOATS)
REDUCE_LOG_SUM = _reduction("reduce_log_sum", "reduceLogSum", FLOATS)
REDUCE_LOG_SUM_EXP = _reduction("reduce_log_sum_exp", "reduceLogSumExp", FLOATS)
REDUCE_MAX = _reduction("reduce_max", "reduceMax", ANY)
REDUCE_MEAN = _reduction("reduce_mean", "reduceMean", FLOATS)
REDUCE_MIN = _reduction("reduce_min", "reduceMin", ANY)
REDUCE_PRODUCT = _reduction("reduce_product", "reduceProduct", NUMERIC_32_64)
REDUCE_SUM = _reduction("reduce_sum", "reduceSum", NUMERIC_32_64)
REDUCE_SUM_SQUARE = _reduction("reduce_sum_square", "reduceSumSquare", NUMERIC_32_64)
CUMULATIVE_SUM = register(
    OpRecord(
        "cumulative_sum",
        "cumulativeSum",
        operands=(Operand("input", NUMERIC_32_64, rank=(1, MAX_RANK)),),
        outputs=(Output(like="input"),),
        lower=lower_cumulative_sum,
        meta={"epilogue": sum_epilogue_run},
    )
)


class ReductionMixin(BuilderBase):
    """Reductions of MLGraphBuilder.

    All that are called reduce_... take `axes` (distinct; None is all dimensions, ``[]`` none, which applies the
    function to each element) and `keep_dimensions` (reduced dimensions stay, as 1). Their MLTypeErrors: another data
    type, an axis not below the rank or twice the same, `keep_dimensions` not a bool.
    """

    def arg_min(
        self,
        input: MLOperand,
        axis: int,
        *,
        keep_dimensions: bool = False,
        output_data_type: IndexType = "int32",
        label: str = "",
    ) -> MLOperand:
        """Index along `axis` of the smallest element, the first of equal ones (W3C WebNN, "argMin").

        `input`: any data type, rank 1 to 8. `output_data_type`: ``"int32"`` or ``"int64"``. The result has the
        input's shape with `axis` removed, or 1 with `keep_dimensions`.
        MLTypeError: `axis` not below the rank, another output type, a dimension that the output type can't count.
        """
        return _arg_call(self._call(ARG_MIN, label), input, axis, keep_dimensions, output_data_type)

    def arg_max(
        self,
        input: MLOperand,
        axis: int,
        *,
        keep_dimensions: bool = False,
        output_data_type: IndexType = "int32",
        label: str = "",
    ) -> MLOperand:
        """Index along `axis` of the largest element, the first of equal ones (W3C WebNN, "argMax").

        `input`: any data type, rank 1 to 8. `output_data_type`: ``"int32"`` or ``"int64"``. The result has the
        input's shape with `axis` removed, or 1 with `keep_dimensions`.
        MLTypeError: `axis` not below the rank, another output type, a dimension that the output type can't count.
        """
        return _arg_call(self._call(ARG_MAX, label), input, axis, keep_dimensions, output_data_type)

    def reduce_l1(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """``sum |x|`` (W3C WebNN, "reduceL1"); all types but int8 and uint8, rank 0 to 8."""
        return _reduce_call(self._call(REDUCE_L1, label), input, axes, keep_dimensions)

    def reduce_l2(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """``sqrt(sum x * x)`` (W3C WebNN, "reduceL2"); float32 or float16, rank 0 to 8."""
        return _reduce_call(self._call(REDUCE_L2, label), input, axes, keep_dimensions)

    def reduce_log_sum(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """``log(sum x)`` (W3C WebNN, "reduceLogSum"); float32 or float16, rank 0 to 8. Negative sums give NaN."""
        return _reduce_call(self._call(REDUCE_LOG_SUM, label), input, axes, keep_dimensions)

    def reduce_log_sum_exp(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """``log(sum exp x)`` without overflow (W3C WebNN, "reduceLogSumExp"); float32 or float16, rank 0 to 8."""
        return _reduce_call(self._call(REDUCE_LOG_SUM_EXP, label), input, axes, keep_dimensions)

    def reduce_max(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The largest element, or NaN where there is one (W3C WebNN, "reduceMax"); any data type, rank 0 to 8."""
        return _reduce_call(self._call(REDUCE_MAX, label), input, axes, keep_dimensions)

    def reduce_mean(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """``(sum x) / count`` (W3C WebNN, "reduceMean"); float32 or float16, rank 0 to 8."""
        return _reduce_call(self._call(REDUCE_MEAN, label), input, axes, keep_dimensions)

    def reduce_min(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The smallest element, or NaN where there is one (W3C WebNN, "reduceMin"); any data type, rank 0 to 8."""
        return _reduce_call(self._call(REDUCE_MIN, label), input, axes, keep_dimensions)

    def reduce_product(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The product of the elements (W3C WebNN, "reduceProduct"); all types but int8 and uint8, rank 0 to 8."""
        return _reduce_call(self._call(REDUCE_PRODUCT, label), input, axes, keep_dimensions)

    def reduce_sum(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The sum of the elements (W3C WebNN, "reduceSum"); all types but int8 and uint8, rank 0 to 8."""
        return _reduce_call(self._call(REDUCE_SUM, label), input, axes, keep_dimensions)

    def reduce_sum_square(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """``sum x * x`` (W3C WebNN, "reduceSumSquare"); all types but int8 and uint8, rank 0 to 8."""
        return _reduce_call(self._call(REDUCE_SUM_SQUARE, label), input, axes, keep_dimensions)

    def cumulative_sum(
        self, input: MLOperand, axis: int, *, exclusive: bool = False, reversed: bool = False, label: str = ""
    ) -> MLOperand:
        """Running sums along `axis` (W3C WebNN, "cumulativeSum").

        `input`: all types but int8 and uint8, rank 1 to 8. `exclusive` leaves the element itself out, `reversed`
        sums from the high end: ``[2, 3, 5]`` gives ``[2, 5, 10]``, ``[0, 2, 5]``, ``[10, 8, 5]``, ``[8, 5, 0]``.
        MLTypeError: another data type, `axis` not below the rank, flags that are no bool.
        """
        call = self._call(CUMULATIVE_SUM, label)
        x = call.operand("input", input)
        axis = call.axis("axis", axis, x.desc.rank)
        flags = {"exclusive": call.boolean("exclusive", exclusive), "reversed": call.boolean("reversed", reversed)}
        return call.emit(x.desc, {"axis": axis, **flags})


def _reduce_call(call: Call, input: MLOperand, axes: Sequence[int] | None, keep: bool) -> MLOperand:
    x = call.operand("input", input)
    chosen = call.axes("axes", axes, x.desc.rank)
    if chosen is None:
        chosen = tuple(range(x.desc.rank))
    keep = call.boolean("keep_dimensions", keep)
    return call.emit(TensorDesc(x.data_type, output_shape(x.shape, chosen, keep)), {"axes": chosen})


def _arg_call(call: Call, input: MLOperand, axis: int, keep: bool, data_type: object) -> MLOperand:
    x = call.operand("input", input)
    axis = call.axis("axis", axis, x.desc.rank)
    keep = call.boolean("keep_dimensions", keep)
    result = normalize_data_type(data_type, f"{call.where}: output_data_type")
    if result not in INDEX_TYPES:
        raise call.error("output_data_type", result, ", ".join(INDEX_TYPES))
    if x.shape[axis] > dtype_of(result).maximum:
        raise call.error("output_data_type", result, f"a type that counts to {x.shape[axis]}")
    return call.emit(TensorDesc(result, output_shape(x.shape, (axis,), keep)), {"axis": axis})
