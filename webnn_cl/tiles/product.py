"""A matrix product as its kernels see it: extents, operands and how these lie, addend, epilogue."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.elementwise import broadcast_strides
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.strided import MAX_DIMS, View

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node, Value
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.compiler.tail import Tail

__all__ = ["Lying", "Product", "lying", "tile_kernel"]

HEADERS = ("tile.h",)


def tile_kernel(template: str, entry: str, defines: Mapping[str, object], tail: Tail | None = None) -> Kernel:
    """A kernel that uses tile.h, with an epilogue."""
    if tail is None:
        return Kernel(template, entry, defines, headers=HEADERS)
    return Kernel(template, entry, {**defines, **tail.defines}, tail.code, (*HEADERS, *tail.headers))


@dataclass(frozen=True)
class Product:
    """``y = alpha * a b + beta * c`` for a stack of matrices.

    `batch` is the shape of the stack, `a_batch` and `b_batch` those of the operands' stacks, which broadcast to it.
    A transposed operand lies as [K, M] or [N, K]. `c_shape` is c's shape where it broadcasts in another than its own.
    """

    a: Value
    b: Value
    m: int
    n: int
    k: int
    batch: tuple[int, ...] = ()
    a_batch: tuple[int, ...] = ()
    b_batch: tuple[int, ...] = ()
    a_transposed: bool = False
    b_transposed: bool = False
    alpha: float = 1.0
    beta: float = 1.0
    c: Value | None = None
    c_shape: tuple[int, ...] | None = None
    tail: Tail = field(kw_only=True)

    @classmethod
    def of_gemm(cls, node: Node, tail: Tail) -> Product:
        """The product of a gemm node."""
        a, b, attrs = node.inputs["a"], node.inputs["b"], node.attrs
        m, n = node.output.shape
        k = a.shape[0 if attrs["a_transpose"] else 1]
        return cls(
            a, b, m, n, k,
            a_transposed=attrs["a_transpose"], b_transposed=attrs["b_transpose"],
            alpha=attrs["alpha"], beta=attrs["beta"], c=node.inputs.get("c"), tail=tail,
        )  # fmt: skip

    @classmethod
    def of_matmul(cls, node: Node, tail: Tail) -> Product:
        """The product of a matmul node; matrices that all meet the same b are one tall matrix."""
        a, b = node.inputs["a"], node.inputs["b"]
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        batch = node.output.shape[:-2]
        if math.prod(b.shape[:-2]) == 1 and math.prod(a.shape[:-2]) == math.prod(batch):
            return cls(a, b, m * math.prod(batch), n, k, tail=tail)
        return cls(a, b, m, n, k, batch, a.shape[:-2], b.shape[:-2], tail=tail)

    @classmethod
    def of(cls, node: Node, tail: Tail) -> Product:
        """The product of a matmul or gemm node."""
        return cls.of_gemm(node, tail) if node.op.name == "gemm" else cls.of_matmul(node, tail)

    def read_in_place(self, lw: Lowering) -> Product:
        """The same product, of the tensors that its operands are mere transposes of."""
        a, b = _turned(lw, self.a, self.a_batch, self.a_extents), _turned(lw, self.b, self.b_batch, self.b_extents)
        p = self if a is None else replace(self, a=a, a_transposed=not self.a_transposed)
        return p if b is None else replace(p, b=b, b_transposed=not self.b_transposed)

    @property
    def a_extents(self) -> tuple[int, int]:
        """The last two dimensions of a as it lies."""
        return (self.k, self.m) if self.a_transposed else (self.m, self.k)

    @property
    def b_extents(self) -> tuple[int, int]:
        """The last two dimensions of b as it lies."""
        return (self.n, self.k) if self.b_transposed else (self.k, self.n)

    @property
    def storage(self) -> str:
        """OpenCL C name of the operands' storage type."""
        return dtype_of(self.a.data_type).storage

    def steps(self, shape: Sequence[int], matrix: int) -> bytes:
        """Element steps of an operand whose stack is `shape`, of matrices of `matrix` elements."""
        return dims([s * matrix for s in broadcast_strides(shape, self.batch)])

    def stack(self, a_matrix: int, b_matrix: int) -> list[Arg]:
        """The arguments that find the matrices of a batch entry."""
        strides = [self.steps(self.a_batch, a_matrix), self.steps(self.b_batch, b_matrix)]
        return [np.int32(len(self.batch)), dims(self.batch), *strides]

    def addend(self, swapped: bool = False) -> list[Arg]:
        """The arguments c, c_row, c_column, beta; none without c. `swapped` for a kernel that computes y transposed."""
        if self.c is None:
            return []
        return [self.c, *(np.int64(s) for s in self._c_strides(swapped)), np.float32(self.beta)]

    def _c_strides(self, swapped: bool) -> tuple[int, ...]:
        assert self.c is not None
        strides = broadcast_strides(self.c_shape or self.c.shape, (self.m, self.n))
        return strides[::-1] if swapped else strides

    def kernel(self, template: str, entry: str, swapped: bool = False, **defines: object) -> Kernel:
        """The kernel of `template` for this product's types, addend (HAS_C of tile.h) and epilogue."""
        has_c = 0
        if self.c is not None:
            bias = self.alpha == self.beta == 1 and self._c_strides(swapped) == (0, 1)
            has_c = 2 if bias else 1
        return tile_kernel(template, entry, {"T": self.storage, "HAS_C": has_c, **defines}, self.tail)


@dataclass(frozen=True)
class Lying:
    """How a stack of matrices lies in memory: element strides of row and column, `steps` of PRODUCT_FIND_MATRIX."""

    memory: Arg
    row: int
    column: int
    steps: bytes

    def swapped(self) -> Lying:
        """The transposed matrices."""
        return replace(self, row=self.column, column=self.row)


def lying(
    lw: Lowering, value: Value, stack: tuple[int, ...], extents: tuple[int, int], batch: tuple[int, ...]
) -> Lying:
    """Where `value` lies, as `stack` of matrices of `extents` that broadcasts to `batch`: in what it is a view of, if
    rows or columns are contiguous there, else in memory of its own.
    """
    memory, view = value, View.packed((*stack, *extents))
    seen = lw.view_of(value)
    shown = seen[1].reshaped(view.shape) if seen is not None else None
    if seen is not None and shown is not None and _has_runs(shown):
        memory, view = seen[0], shown
    *_, row, column = view.strides
    if extents[1] == 1:
        column = 1
    elif extents[0] == 1 and column != 1:
        row = 1
    steps = view.expanded((*batch, *extents)).strides[:-2]
    return Lying(memory, row, column, dims((*steps, *[0] * (MAX_DIMS - 1 - len(steps)), view.offset)))


def _has_runs(view: View) -> bool:
    """Whether rows or columns of the matrices that `view` shows are contiguous."""
    return any(n == 1 or stride == 1 for n, stride in zip(view.shape[-2:], view.strides[-2:], strict=True))


def _turned(lw: Lowering, value: Value, stack: tuple[int, ...], extents: tuple[int, int]) -> Value | None:
    """The tensor of which `value`, `stack` matrices of `extents`, is nothing but the transposed matrices."""
    seen = lw.view_of(value)
    if seen is None or seen[0].desc.size != value.desc.size:
        return None
    turned = View.packed((*stack, *extents[::-1]))
    order = (*range(len(stack)), len(stack) + 1, len(stack))
    return seen[0] if seen[1].collapsed() == turned.transposed(order).collapsed() else None
