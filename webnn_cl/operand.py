"""MLOperand: a value of the graph under construction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Union, cast

import numpy as np

from webnn_cl.dtypes import DataType

if TYPE_CHECKING:
    from webnn_cl.builder import MLGraphBuilder
    from webnn_cl.compiler.ir import Value

__all__ = ["MLOperand"]

Other = Union["MLOperand", int, float]


class MLOperand:
    """One tensor of a graph being built (W3C WebNN, "The MLOperand interface"); made by MLGraphBuilder only.

    ``+ - * / ** @ < <= > >=`` and unary minus build the matching operators; a number on either side becomes a
    scalar constant of the operand's data type. ``==`` and ``hash`` are identity.
    """

    __slots__ = ("__weakref__", "_builder", "_value")
    __array_ufunc__ = None  # numpy scalars on the left must reach __radd__ and friends, not make object arrays

    def __init__(self, builder: Any, value: Value) -> None:
        self._builder = builder
        self._value = value

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions; () for a scalar."""
        return self._value.shape

    @property
    def data_type(self) -> DataType:
        """Element type, such as ``"float32"``."""
        return self._value.data_type

    def __repr__(self) -> str:
        return f"<MLOperand {self._value.desc}>"

    def __bool__(self) -> NoReturn:
        raise TypeError("an MLOperand has no value before the graph runs; use builder.where() for conditions")

    def _binary(self, method: str, other: object, swapped: bool = False) -> MLOperand:
        builder: MLGraphBuilder = self._builder
        if isinstance(other, MLOperand):
            right = other
        elif isinstance(other, (int, float, np.number)) and not isinstance(other, bool):
            right = builder.constant(cast(float, other), data_type=self.data_type)
        else:
            return cast(MLOperand, NotImplemented)
        a, b = (right, self) if swapped else (self, right)
        return cast(MLOperand, getattr(builder, method)(a, b))

    def __add__(self, other: Other) -> MLOperand:
        return self._binary("add", other)

    def __radd__(self, other: Other) -> MLOperand:
        return self._binary("add", other, swapped=True)

    def __sub__(self, other: Other) -> MLOperand:
        return self._binary("sub", other)

    def __rsub__(self, other: Other) -> MLOperand:
        return self._binary("sub", other, swapped=True)

    def __mul__(self, other: Other) -> MLOperand:
        return self._binary("mul", other)

    def __rmul__(self, other: Other) -> MLOperand:
        return self._binary("mul", other, swapped=True)

    def __truediv__(self, other: Other) -> MLOperand:
        return self._binary("div", other)

    def __rtruediv__(self, other: Other) -> MLOperand:
        return self._binary("div", other, swapped=True)

    def __pow__(self, other: Other) -> MLOperand:
        return self._binary("pow", other)

    def __rpow__(self, other: Other) -> MLOperand:
        return self._binary("pow", other, swapped=True)

    def __matmul__(self, other: MLOperand) -> MLOperand:
        return self._binary("matmul", other)

    def __lt__(self, other: Other) -> MLOperand:
        return self._binary("lesser", other)

    def __le__(self, other: Other) -> MLOperand:
        return self._binary("lesser_or_equal", other)

    def __gt__(self, other: Other) -> MLOperand:
        return self._binary("greater", other)

    def __ge__(self, other: Other) -> MLOperand:
        return self._binary("greater_or_equal", other)

    def __neg__(self) -> MLOperand:
        return cast(MLOperand, self._builder.neg(self))
