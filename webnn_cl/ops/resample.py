"""Resampling of two dimensions (W3C WebNN, "resample2d")."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.ops.base import DIM_MAX, BuilderBase, Call
from webnn_cl.ops.record import Operand, OpRecord, Output, register
from webnn_cl.ops.resample_lower import epilogue_run, lower_resample2d

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.operand import MLOperand

__all__ = ["RESAMPLE2D", "ResampleMixin"]

Mode = Literal["nearest-neighbor", "linear"]
MODES: tuple[Mode, ...] = ("nearest-neighbor", "linear")

RESAMPLE2D = register(
    OpRecord(
        "resample2d",
        "resample2d",
        (Operand("input", ("float32", "float16", "uint8", "int8"), rank=(4, 4)),),
        (Output("output", like="input"),),
        lower=lower_resample2d,
        meta={"epilogue": epilogue_run},
    )
)


class ResampleMixin(BuilderBase):
    """resample2d of MLGraphBuilder."""

    def resample2d(
        self,
        input: MLOperand,
        *,
        mode: Mode = "nearest-neighbor",
        scales: Sequence[float] | None = None,
        sizes: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """Resize two dimensions of a tensor, without antialiasing.

        Pixel centres lie at half integers: output index o reads at ``(o + 0.5) * in / out - 0.5``, clamped to the
        input.

        Args:
            input: float32, float16, uint8 or int8, rank 4.
            mode: ``"nearest-neighbor"`` (halves go to the smaller index) or ``"linear"``; linear results of 8-bit
                types round half to even.
            scales: factors of the two dimensions, above 0; default 1. Checked, but not used, when `sizes` is given.
            sizes: the two dimensions' new sizes.
            axes: the two distinct dimensions that `scales` and `sizes` are for; default ``[2, 3]``.
            label: names the operator in messages.

        Returns:
            Input's type; its shape but for the two dimensions, which are `sizes` or ``floor(dimension * scale)``.

        Raises:
            MLTypeError: data type, rank or options that don't fit, or an empty output.

        W3C WebNN, "The resample2d() method".
        """
        call = self._call(RESAMPLE2D, label)
        x = call.operand("input", input)
        mode = call.enum("mode", mode, MODES)
        factors = (1.0, 1.0) if scales is None else _parse_scales(call, scales)
        parsed = call.axes("axes", axes, x.desc.rank)
        chosen = (2, 3) if parsed is None else parsed
        if len(chosen) != 2:
            raise call.error("axes", list(chosen), "two axes")
        new = _sizes(call, x, chosen, factors, sizes)
        shape = list(x.shape)
        for axis, size in zip(chosen, new, strict=True):
            shape[axis] = size
        return call.emit(TensorDesc(x.data_type, tuple(shape)), {"mode": mode, "axes": chosen})


def _parse_scales(call: Call, given: Sequence[float]) -> tuple[float, ...]:
    scales = call.f64_list("scales", given, length=2)
    if any(s <= 0 for s in scales):
        raise call.error("scales", list(scales), "factors above 0")
    return scales


def _sizes(
    call: Call, x: Value, axes: Sequence[int], scales: Sequence[float], given: Sequence[int] | None
) -> tuple[int, ...]:
    if given is not None:
        return call.u32_list("sizes", given, length=2, minimum=1)
    sizes = tuple(math.floor(x.shape[axis] * scale) for axis, scale in zip(axes, scales, strict=True))
    if any(not 1 <= size <= DIM_MAX for size in sizes):
        allowed = f"factors that give sizes from 1 to {DIM_MAX}"
        raise call.error("scales", f"{list(scales)} for {[x.shape[axis] for axis in axes]}", allowed)
    return sizes
