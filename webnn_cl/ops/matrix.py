"""Matrix products (W3C WebNN, "gemm" and "matmul")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.dtypes import cast_parameter
from webnn_cl.ops.base import BuilderBase, broadcast, broadcast_to
from webnn_cl.ops.record import FLOATS, MAX_RANK, Operand, OpRecord, Output, register
from webnn_cl.tiles.variants import lower_variant

if TYPE_CHECKING:
    from webnn_cl.operand import MLOperand

__all__ = ["GEMM", "MATMUL", "MatrixMixin"]


GEMM = register(
    OpRecord(
        "gemm",
        "gemm",
        (
            Operand("a", FLOATS, rank=(2, 2)),
            Operand("b", FLOATS, rank=(2, 2), same_as="a"),
            Operand("c", FLOATS, rank=(0, 2), same_as="a", optional=True),
        ),
        (Output("output", like="a"),),
        lower=lower_variant,
        meta={"epilogue": 1},
    )
)
MATMUL = register(
    OpRecord(
        "matmul",
        "matmul",
        (Operand("a", FLOATS, rank=(2, MAX_RANK)), Operand("b", FLOATS, rank=(2, MAX_RANK), same_as="a")),
        (Output("output", like="a"),),
        lower=lower_variant,
        meta={"epilogue": 1},
    )
)


class MatrixMixin(BuilderBase):
    """gemm and matmul of MLGraphBuilder."""

    def gemm(
        self,
        a: MLOperand,
        b: MLOperand,
        *,
        c: MLOperand | None = None,
        alpha: float = 1.0,
        beta: float = 1.0,
        a_transpose: bool = False,
        b_transpose: bool = False,
        label: str = "",
    ) -> MLOperand:
        """``alpha * A B + beta * C``, the general matrix multiplication of the BLAS.

        Args:
            a: float32 or float16 ``[M, K]``, or ``[K, M]`` with `a_transpose`.
            b: a's type, ``[K, N]``, or ``[N, K]`` with `b_transpose`.
            c: a's type, rank 0 to 2, broadcast to ``[M, N]``; missing adds nothing.
            alpha, beta: finite factors, cast to a's type.
            a_transpose, b_transpose: swap the two dimensions of `a` or `b` first.
            label: names the operator in messages.

        Returns:
            a's type, ``[M, N]``. float16 is accumulated in float32.

        Raises:
            MLTypeError: data types, ranks or shapes that don't fit.

        W3C WebNN, "The gemm() method".
        """
        call = self._call(GEMM, label)
        left, right, addend = call.operand("a", a), call.operand("b", b), call.optional("c", c)
        attrs = {
            "alpha": cast_parameter(call.f64("alpha", alpha), left.data_type),
            "beta": cast_parameter(call.f64("beta", beta), left.data_type),
            "a_transpose": call.boolean("a_transpose", a_transpose),
            "b_transpose": call.boolean("b_transpose", b_transpose),
        }
        m, k = reversed(left.shape) if attrs["a_transpose"] else left.shape
        k2, n = reversed(right.shape) if attrs["b_transpose"] else right.shape
        if k != k2:
            raise call.error("b", f"shape {list(right.shape)}", f"inner dimension {k}, as a {list(left.shape)} has")
        if addend is not None and not broadcast_to(addend.shape, (m, n)):
            raise call.error("c", f"shape {list(addend.shape)}", f"a shape that broadcasts to {[m, n]}")
        return call.emit(TensorDesc(left.data_type, (m, n)), attrs)

    def matmul(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Products of stacks of matrices.

        Args:
            a: float32 or float16 ``[..., M, K]``, rank 2 or more.
            b: a's type, ``[..., K, N]``; the leading dimensions of both broadcast to each other.
            label: names the operator in messages.

        Returns:
            a's type, ``[..., M, N]``. float16 is accumulated in float32.

        Raises:
            MLTypeError: data types, ranks or shapes that don't fit.

        W3C WebNN, "The matmul() method".
        """
        call = self._call(MATMUL, label)
        left, right = call.operand("a", a), call.operand("b", b)
        if left.shape[-1] != right.shape[-2]:
            allowed = f"{left.shape[-1]} rows, as many as a {list(left.shape)} has columns"
            raise call.error("b", f"shape {list(right.shape)}", allowed)
        batch = broadcast(left.shape[:-2], right.shape[:-2])
        if batch is None:
            allowed = f"leading dimensions that broadcast with {list(left.shape[:-2])}"
            raise call.error("b", f"shape {list(right.shape)}", allowed)
        return call.emit(TensorDesc(left.data_type, (*batch, left.shape[-2], right.shape[-1])))
