"""Matrix products: odd sizes, batches that broadcast, transposes, every shape of gemm's c."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cases.model import Case, T

FLOATS = ("float32", "float16")
MATMULS = (
    ((1, 1), (1, 1)),
    ((2, 3), (3, 4)),
    ((1, 17), (17, 1)),
    ((17, 1), (1, 19)),
    ((33, 65), (65, 31)),
    ((5, 300), (300, 6)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (1, 5, 4, 2)),
    ((3, 1, 2, 3, 4), (2, 4, 5)),
    ((1, 2, 1, 2, 3, 4), (2, 1, 1, 1, 4, 3)),
    ((1, 2, 1, 2, 1, 2, 3), (2, 1, 2, 1, 3, 4)),
    ((1, 2, 1, 2, 1, 2, 2, 3), (2, 1, 2, 1, 1, 1, 3, 2)),
    ((8, 16, 16), (8, 16, 16)),
    ((6, 16), (16, 48)),
    ((7, 15), (15, 47)),
)
C_SHAPES: tuple[tuple[int, ...] | None, ...] = (None, (), (1,), (9,), (1, 1), (1, 9), (7, 1), (7, 9))
GEMM_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"alpha": 0.5},
    {"beta": -2},
    {"alpha": 0.1, "beta": 0.3},
    {"alpha": 0, "beta": 1},
    {"alpha": 3, "beta": 0},
)


def matmul_cases() -> Iterator[Case]:
    for a, b in MATMULS:
        for data_type in FLOATS:
            yield Case("matmul", {"a": T(a, data_type), "b": T(b, data_type)})
            yield Case("matmul", {"a": T(a, data_type), "b": T(b, data_type)}, constants=frozenset({"b"}))
    yield Case("matmul", {"a": T((4, 5)), "b": T((5, 6))}, constants=frozenset({"a"}))
    yield Case("matmul", {"a": T((4, 5)), "b": T((5, 6))}, constants=frozenset({"a", "b"}))
    # Long and one-signed. Not-a-number stays in its row and column.
    yield Case("matmul", {"a": T((3, 5000), values="range:0:1"), "b": T((5000, 2), values="range:0:1")})
    yield Case("matmul", {"a": T((9, 9), values="nan"), "b": T((9, 9), values="positive")})
    yield Case("matmul", {"a": T((256, 256)), "b": T((256, 256))}, timed=True)


def gemm_cases() -> Iterator[Case]:
    for data_type in FLOATS:
        for c in C_SHAPES:
            for turn, options in enumerate(GEMM_OPTIONS):
                attrs = {**options, "a_transpose": turn % 2 == 1, "b_transpose": turn % 3 == 1}
                yield gemm(7, 9, 11, data_type, c, attrs)
        for a_transpose in (False, True):
            for b_transpose in (False, True):
                attrs = {"a_transpose": a_transpose, "b_transpose": b_transpose}
                yield gemm(33, 47, 65, data_type, (47,), attrs)
                yield gemm(33, 47, 65, data_type, (47,), attrs, constants=frozenset({"b", "c"}))
                yield gemm(1, 19, 40, data_type, None, attrs)
    yield gemm(7, 9, 11, "float32", (7, 9), {}, constants=frozenset({"a", "b", "c"}))
    yield gemm(64, 1000, 256, "float32", (1000,), {"b_transpose": True}, constants=frozenset({"b", "c"}), timed=True)


def gemm(m: int, n: int, k: int, data_type: str, c: tuple[int, ...] | None, attrs: dict[str, Any], **more: Any) -> Case:
    """A gemm case of the given sizes, operands laid out for the transposes asked for."""
    inputs = {
        "a": T((k, m) if attrs.get("a_transpose") else (m, k), data_type),
        "b": T((n, k) if attrs.get("b_transpose") else (k, n), data_type),
    }
    if c is not None:
        inputs["c"] = T(c, data_type)
    return Case("gemm", inputs, attrs, **more)


def cases() -> Iterator[Case]:
    yield from matmul_cases()
    yield from gemm_cases()
