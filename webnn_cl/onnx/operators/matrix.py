"""MatMul, Gemm and their integer forms, Einsum, Det."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.elements import is_float, is_integer
from webnn_cl.onnx.operators.common import broadcast_shape, cast, expand, reshape, slice_axis, transpose, wrap_short
from webnn_cl.onnx.registry import op

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.onnx.values import Array
    from webnn_cl.operand import MLOperand

__all__ = ["exact_parts", "matmul_any"]

MAX_PRODUCTS = 2**26  # products of an integer MatMul, which are all held in memory
EXACT = 2**24  # integers up to here are exact in float32


@op("MatMul")
def matmul(c: Call) -> MLOperand:
    return wrap_short(c, matmul_any(c, c.x(0), c.x(1)), c.dtype(0))


def matmul_any(c: Call, a: MLOperand, b: MLOperand) -> MLOperand:
    """numpy.matmul: 1-D operands become a row or a column, which the result does without."""
    row, column = len(a.shape) == 1, len(b.shape) == 1
    if not a.shape or not b.shape:
        c.refuse("a scalar operand")
    a = reshape(c, a, (1, *a.shape)) if row else a
    b = reshape(c, b, (*b.shape, 1)) if column else b
    if a.shape[-1] != b.shape[-2]:
        c.refuse(f"shapes {list(a.shape)} and {list(b.shape)} do not multiply")
    y = c.b.matmul(a, b) if is_float(a.data_type) else _integer_matmul(c, a, b)
    shape = list(y.shape)
    if row:
        del shape[-2]
    if column:
        del shape[-1]
    return reshape(c, y, shape)


def _integer_matmul(c: Call, a: MLOperand, b: MLOperand) -> MLOperand:
    """Integers have no matmul in WebNN: products of all pairs, summed, exact in their own type."""
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if math.prod(batch) * m * k * n > MAX_PRODUCTS:
        c.refuse(f"an integer product of {list(a.shape)} and {list(b.shape)} is too large")
    wide = "int32" if a.data_type in ("int8", "uint8") else a.data_type
    left = reshape(c, cast(c, a, wide), (*a.shape, 1))
    right = reshape(c, cast(c, b, wide), (*b.shape[:-2], 1, k, n))
    total = c.b.reduce_sum(c.b.mul(left, right), axes=[len(batch) + 1], keep_dimensions=False)
    return cast(c, total, a.data_type)


def exact_parts(sizes: Array) -> list[tuple[int, int]]:
    """Cuts of a sum into (start, length) of which each stays exact in float32.

    `sizes` [terms, results] bounds the magnitude of each term of each result.
    """
    parts, start = [], 0
    running = np.zeros(sizes.shape[1])
    for index, row in enumerate(sizes):
        if index > start and (running + row).max() > EXACT:
            parts.append((start, index - start))
            start, running = index, np.zeros(sizes.shape[1])
        running = running + row
    return [*parts, (start, len(sizes) - start)]


@op("Gemm")
def gemm(c: Call) -> MLOperand:
    if len(c.shape(0)) != 2 or len(c.shape(1)) != 2:
        c.refuse(f"operands of shape {list(c.shape(0))} and {list(c.shape(1))}; matrices are needed")
    alpha, beta = c.real("alpha", 1.0), c.real("beta", 1.0)
    turned = bool(c.integer("transA")), bool(c.integer("transB"))
    addend = c.optional(2)
    if is_integer(c.dtype(0)):
        return _integer_gemm(c, alpha, beta, turned, addend)
    options: dict[str, Any] = {} if addend is None else {"c": addend, "beta": beta}
    return c.b.gemm(c.x(0), c.x(1), alpha=alpha, a_transpose=turned[0], b_transpose=turned[1], **options)


def _integer_gemm(
    c: Call, alpha: float, beta: float, turned: tuple[bool, bool], addend: MLOperand | None
) -> MLOperand:
    if alpha != int(alpha) or beta != int(beta):
        c.refuse(f"alpha {alpha} and beta {beta} of an integer Gemm")
    a, b = (c.transposed(i, (1, 0)) if turned[i] else c.x(i) for i in (0, 1))
    y = _integer_matmul(c, a, b)
    y = y if alpha == 1 else c.b.mul(y, c.scalar(int(alpha), y))
    if addend is not None:
        y = c.b.add(y, addend if beta == 1 else c.b.mul(addend, c.scalar(int(beta), y)))
    return y


@op("Det")
def determinant(c: Call) -> MLOperand:
    """Of matrices up to 3 x 3, written out."""
    x, shape = c.x(0), c.shape(0)
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] > 3:
        c.refuse(f"matrices of shape {list(shape)}; up to 3 x 3 are expressed")
    size, lead = shape[-1], shape[:-2]

    def at(i: int, j: int) -> MLOperand:
        row = slice_axis(c, x, len(lead), i, 1)
        return reshape(c, slice_axis(c, row, len(lead) + 1, j, 1), lead)

    def minor(rows: tuple[int, int], columns: tuple[int, int]) -> MLOperand:
        (i, j), (k, m) = rows, columns
        return c.b.sub(c.b.mul(at(i, k), at(j, m)), c.b.mul(at(i, m), at(j, k)))

    if size == 1:
        return at(0, 0)
    if size == 2:
        return minor((0, 1), (0, 1))
    parts = [c.b.mul(at(0, i), minor((1, 2), columns)) for i, columns in enumerate(((1, 2), (0, 2), (0, 1)))]
    return c.b.add(c.b.sub(parts[0], parts[1]), parts[2])


# Einsum -----------------------------------------------------------------------------------------------------


@op("Einsum")
def einsum(c: Call) -> MLOperand:
    """Operands are joined from left to right; an index is summed as soon as nothing after it needs it."""
    terms, output, sizes = _parse(c, c.text("equation"))
    labels, total = _diagonal(c, terms[0], c.x(0))
    for position in range(1, len(terms)):
        later = set(output).union(*terms[position + 1 :]) if terms[position + 1 :] else set(output)
        right_labels, right = _diagonal(c, terms[position], c.x(position))
        labels, total = _contract(c, (labels, total), (right_labels, right), later)
    labels, total = _sum_out(c, labels, total, set(output))
    total = transpose(c, total, [labels.index(i) for i in output])
    return expand(c, total, [sizes[i] for i in output]) if output else total


def _parse(c: Call, equation: str) -> tuple[list[str], str, dict[str, int]]:
    """Index letters of each operand and of the result; an ellipsis becomes upper-case-like private letters."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(c.inputs):
        c.refuse(f"equation {equation!r} has {len(terms)} terms for {len(c.inputs)} operands")
    ranks = [c.rank(i) - len(t.replace("...", "")) for i, t in enumerate(terms)]
    widest = max([r for r, t in zip(ranks, terms, strict=True) if "..." in t], default=0)
    private = "".join(chr(0x3B1 + i) for i in range(widest))
    terms = [t.replace("...", private[widest - r :]) for t, r in zip(terms, ranks, strict=True)]
    if any(r < 0 or (r > 0 and "..." not in raw) for r, raw in zip(ranks, left.split(","), strict=True)):
        c.refuse(f"equation {equation!r} does not fit ranks {[c.rank(i) for i in range(len(c.inputs))]}")
    if arrow:
        output = right.replace("...", private)
    else:
        every = "".join(terms)
        output = private + "".join(sorted(i for i in set(every) - set(private) if every.count(i) == 1))
    return terms, output, _sizes(c, terms, output)


def _sizes(c: Call, terms: list[str], output: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for position, term in enumerate(terms):
        for index, size in zip(term, c.shape(position), strict=True):
            if sizes.setdefault(index, size) != size:
                if 1 not in (sizes[index], size):
                    c.refuse(f"index {index!r} has the sizes {sizes[index]} and {size}")
                sizes[index] = max(sizes[index], size)
    if not set(output) <= set(sizes) or len(set(output)) != len(output):
        c.refuse(f"output indices {output!r}")
    return sizes


def _diagonal(c: Call, term: str, x: MLOperand) -> tuple[str, MLOperand]:
    """Indices that occur twice in one operand select its diagonal."""
    for index in dict.fromkeys(term):
        while term.count(index) > 1:
            first = term.index(index)
            second = term.index(index, first + 1)
            rest = [i for i in range(len(term)) if i not in (first, second)]
            x = transpose(c, x, [first, second, *rest])
            size = x.shape[0]
            flat = reshape(c, x, (size * size, *x.shape[2:]))
            x = c.b.gather(flat, c.constant(np.arange(size, dtype=np.int32) * (size + 1)), axis=0)
            term = index + "".join(term[i] for i in rest)
    return term, x


def _sum_out(c: Call, labels: str, x: MLOperand, keep: set[str]) -> tuple[str, MLOperand]:
    gone = [i for i, label in enumerate(labels) if label not in keep]
    if not gone:
        return labels, x
    return "".join(i for i in labels if i in keep), c.b.reduce_sum(x, axes=gone, keep_dimensions=False)


Term = tuple[str, "MLOperand"]


def _contract(c: Call, left: Term, right: Term, later: set[str]) -> Term:
    """Multiply two operands and sum the indices that only they have: one batched matrix product."""
    labels_a, a = _sum_out(c, *left, later | set(right[0]))
    labels_b, b = _sum_out(c, *right, later | set(labels_a))
    shared = [i for i in labels_a if i in labels_b]
    summed = [i for i in shared if i not in later]
    if not is_float(a.data_type) or not summed:
        return _multiply(c, (labels_a, a), (labels_b, b), summed)
    batch = [i for i in shared if i in later]
    rows, columns = [i for i in labels_a if i not in shared], [i for i in labels_b if i not in shared]
    size = {i: max(d for s, t in ((labels_a, a), (labels_b, b)) for j, d in zip(s, t.shape, strict=True) if i == j)
            for i in {*labels_a, *labels_b}}  # fmt: skip

    def matrix(term: Term, order: Sequence[str], groups: Sequence[Sequence[str]]) -> MLOperand:
        moved = transpose(c, term[1], [term[0].index(i) for i in order])
        # Only a batch index may be of size 1 in one operand and larger in the other.
        wide = expand(c, moved, [size[i] for i in order])
        return reshape(c, wide, [*(size[i] for i in batch), *(math.prod(size[i] for i in g) for g in groups)])

    y = c.b.matmul(
        matrix((labels_a, a), [*batch, *rows, *summed], [rows, summed]),
        matrix((labels_b, b), [*batch, *summed, *columns], [summed, columns]),
    )
    order = [*batch, *rows, *columns]
    return "".join(order), reshape(c, y, [size[i] for i in order])


def _multiply(c: Call, left: Term, right: Term, summed: Sequence[str]) -> Term:
    """Element by element, for integers and for products without a sum."""
    labels = list(dict.fromkeys(left[0] + right[0]))
    aligned = []
    for term, x in (left, right):
        moved = transpose(c, x, sorted(range(len(term)), key=lambda i, t=term: labels.index(t[i])))  # type: ignore[misc]
        dims = iter(moved.shape)
        aligned.append(reshape(c, moved, [next(dims) if i in term else 1 for i in labels]))
    if math.prod(broadcast_shape(aligned[0].shape, aligned[1].shape)) > MAX_PRODUCTS:
        c.refuse("the product of all index combinations is too large")
    y = c.b.mul(*aligned)
    return _sum_out(c, "".join(labels), y, set(labels) - set(summed))
