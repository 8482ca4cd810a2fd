"""Matrix products (operators.json: matrix multiplication)."""

from __future__ import annotations

import numpy as np

from tests.reference.numbers import Array, parameter, wide
from tests.reference.registry import operator


@operator()
def matmul(a: Array, b: Array) -> Array:
    return np.matmul(wide(a), wide(b))


@operator()
def gemm(
    a: Array,
    b: Array,
    *,
    c: Array | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    a_transpose: bool = False,
    b_transpose: bool = False,
) -> Array:
    left = wide(a).T if a_transpose else wide(a)
    right = wide(b).T if b_transpose else wide(b)
    y = parameter(alpha, a.dtype) * (left @ right)
    return y if c is None else y + parameter(beta, a.dtype) * wide(c)
