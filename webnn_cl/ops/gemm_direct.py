"""Lowering of gemm and matmul to the direct kernel, right for every shape and option."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.elementwise import broadcast_strides
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.widen import widen
from webnn_cl.ops.work import local_of

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node, Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering
    from webnn_cl.compiler.tail import Tail

__all__ = ["Addend", "Matrix", "Product", "lower_gemm", "lower_matmul", "lower_product"]


@dataclass(frozen=True)
class Matrix:
    """A stack of matrices in memory: element strides of row and column, and of each leading dimension."""

    memory: Arg
    storage: str
    row: int
    column: int
    batch: tuple[int, ...] = ()


@dataclass(frozen=True)
class Addend:
    """C of a product: memory of the result's type, element strides of row and column (0: the same for all)."""

    memory: Arg
    row: int
    column: int
    beta: float


@dataclass(frozen=True)
class Product:
    """``alpha * a b + c`` for each index of `batch`, into a packed stack of ``[m, n]`` matrices of type
    `storage` that leave by `result`.

    `a` is float with any strides; the columns of `b` are contiguous, and `b_size` is its number of elements.
    """

    a: Matrix
    b: Matrix
    b_size: int
    result: Tail
    storage: str
    m: int
    n: int
    k: int
    batch: tuple[int, ...] = ()
    alpha: float = 1.0
    c: Addend | None = None


def lower_matmul(node: Node, lw: Lowering) -> None:
    """matmul."""
    a, b, y = node.inputs["a"], node.inputs["b"], node.output
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    batch = y.shape[:-2]
    if math.prod(b.shape[:-2]) == 1:
        # One B for all: the stack of A is one tall matrix.
        m, batch = m * math.prod(batch), ()
    a_batch, b_batch = (_batch_strides(v.shape, batch) for v in (a, b))
    left = Matrix(widen(lw, a), "float", k, 1, a_batch)
    right = Matrix(b, dtype_of(b.data_type).storage, n, 1, b_batch)
    storage = dtype_of(y.data_type).storage
    lower_product(Product(left, right, b.desc.size, lw.tail(node), storage, m, n, k, batch), lw)


def lower_gemm(node: Node, lw: Lowering) -> None:
    """gemm."""
    a, b, y, attrs = node.inputs["a"], node.inputs["b"], node.output, node.attrs
    m, n = y.shape
    k = a.shape[0] if attrs["a_transpose"] else a.shape[1]
    row, column = (1, m) if attrs["a_transpose"] else (k, 1)
    left = Matrix(widen(lw, a), "float", row, column)
    right, size = _transposed(lw, b) if attrs["b_transpose"] else (_as_it_is(b), b.desc.size)
    storage = dtype_of(y.data_type).storage
    addend = _addend(node)
    lower_product(Product(left, right, size, lw.tail(node), storage, m, n, k, (), attrs["alpha"], addend), lw)


def lower_product(p: Product, lw: Lowering) -> None:
    """One launch for `p`."""
    rows = 1 if p.m < 3 else 6
    add_c = 0 if p.c is None else 1 if p.c.column == 1 else 2
    defines = {"T": p.storage, "TB": p.b.storage, "ROWS": rows, "ADD_C": add_c}
    tail = p.result
    kernel = Kernel("gemm_direct.cl", "gemm_direct", defines | tail.defines, tail.code, tail.headers)
    c_args: list[Arg] = [] if p.c is None else [p.c.memory, np.int64(p.c.row), np.float32(p.c.beta)]
    batch, a_batch, b_batch = _collapsed(p)
    args: list[Arg] = [p.a.memory, p.b.memory, *c_args, tail.output, np.float32(p.alpha)]
    args += [dims((p.m, p.n, p.k, p.b_size)), dims((p.a.row, p.a.column, p.b.row, p.n))]
    args += [np.int32(len(batch)), dims(batch), dims(a_batch), dims(b_batch), *tail.args]
    grid = (-(-p.m // rows), -(-p.n // 16), math.prod(batch))
    lw.launch(kernel, args, grid, local_of(lw.facts, 3))


def _batch_strides(shape: Sequence[int], batch: Sequence[int]) -> tuple[int, ...]:
    """Element strides of the leading dimensions of `shape`, broadcast to `batch`; none for one matrix."""
    if not batch:
        return ()
    matrix = shape[-2] * shape[-1]
    return tuple(s * matrix for s in broadcast_strides(shape[:-2], batch))


def _collapsed(p: Product) -> tuple[list[int], list[int], list[int]]:
    """Leading dimensions without ones, neighbours joined where both operands walk them as one."""
    batch: list[int] = []
    a: list[int] = []
    b: list[int] = []
    for extent, a_step, b_step in zip(p.batch, p.a.batch, p.b.batch, strict=True):
        if extent == 1:
            continue
        if batch and a[-1] == extent * a_step and b[-1] == extent * b_step:
            batch[-1], a[-1], b[-1] = batch[-1] * extent, a_step, b_step
        else:
            batch, a, b = [*batch, extent], [*a, a_step], [*b, b_step]
    return batch, a, b


def _as_it_is(b: Value) -> Matrix:
    return Matrix(b, dtype_of(b.data_type).storage, b.shape[1], 1)


def _transposed(lw: Lowering, b: Value) -> tuple[Matrix, int]:
    """`b` [N, K] as a float [K, N] with rows padded to eight, and its number of elements."""
    n, k = b.shape
    pitch = -(-n // 8) * 8

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        emit_transpose(lw, source, target, (n, k, pitch), 1)

    return Matrix(lw.packed(b, "transposed", 4 * k * pitch, emit), "float", pitch, 1), k * pitch


def emit_transpose(lw: Lowering, source: Value, target: Buffer, size: tuple[int, int, int], stack: int) -> None:
    """Write `stack` matrices of (rows, columns, pitch of the result) `size`, transposed and as float."""
    kernel = Kernel(
        "transpose_pack.cl", "transpose_pack", {"T": dtype_of(source.data_type).storage}, headers=("blocks.h",)
    )
    n, k, _ = size
    lw.launch(kernel, [source, target, dims(size)], (-(-k // 8), -(-n // 8), stack))


def _addend(node: Node) -> Addend | None:
    c = node.inputs.get("c")
    if c is None:
        return None
    row, column = broadcast_strides(c.shape, node.output.shape)
    return Addend(c, row, column, node.attrs["beta"])
