"""Matrix products, reductions, shapes, gathers and scatters."""

from __future__ import annotations

import numpy as np
import pytest

import webnn_cl
from tests.onnx.models import Case, check, numbers, whole

X = numbers(2, 3, 4, 5)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_matmul_of_all_ranks(context: webnn_cl.MLContext) -> None:
    shapes = [((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 4)), ((5,), (2, 5, 3))]
    shapes += [((2, 3, 4, 5), (5, 6)), ((2, 1, 4, 5), (3, 5, 2))]
    check(context, [Case("MatMul", [numbers(*a), numbers(*b, seed=1)]) for a, b in shapes], rtol=1e-3)
    check(context, [Case("MatMul", [whole(2, 3, 5), whole(5, 4, seed=1)])])


def test_gemm(context: webnn_cl.MLContext) -> None:
    a, b = numbers(3, 5), numbers(5, 4, seed=1)
    cases = [Case("Gemm", [a, b, c], {"alpha": 0.5, "beta": 2.0}) for c in (numbers(4), numbers(3, 1), numbers(1))]
    cases += [Case("Gemm", [a.T.copy(), b.T.copy()], {"transA": 1, "transB": 1}), Case("Gemm", [a, b, numbers(3, 4)])]
    check(context, cases, rtol=1e-3)


def test_integer_gemm(context: webnn_cl.MLContext) -> None:
    a, b, c = whole(3, 5, dtype="int32"), whole(5, 4, dtype="int32", seed=1), whole(4, dtype="int32")
    check(context, [Case("Gemm", [a, b, c], {"alpha": 2.0, "beta": 3.0})], reference=True)


EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("ij->ji", (3, 4)), ("ii->i", (4, 4)),
    ("ii", (4, 4)), ("ij->", (3, 4)), ("i,j->ij", (3,), (4,)), ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)), ("ij,ij->i", (3, 4), (3, 4)), ("ij,jk", (3, 4), (4, 5)),
    ("abc,cd,de->abe", (2, 3, 4), (4, 5), (5, 2)), ("bn,anm,bm->ba", (2, 5), (3, 5, 4), (2, 4)),
]  # fmt: skip


def test_einsum(context: webnn_cl.MLContext) -> None:
    cases = [
        Case("Einsum", [numbers(*shape, seed=i) for i, shape in enumerate(shapes)], {"equation": equation})
        for equation, *shapes in EQUATIONS
    ]
    check(context, cases, 12, rtol=1e-3)


def test_reductions(context: webnn_cl.MLContext) -> None:
    positive = np.abs(X) + 0.1
    ops = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
    cases = [Case(f"Reduce{op}", [positive, ints(1, -1)], {"keepdims": k}, known=[1]) for op in ops for k in (0, 1)]
    cases += [Case("ReduceSum", [X]), Case("ReduceMax", [X]), Case("ReduceSum", [X], {"noop_with_empty_axes": 1})]
    cases += [Case(f"Reduce{op}", [whole(3, 4), ints(0)], known=[1]) for op in ("Sum", "Max", "Min", "Prod", "L1")]
    check(context, cases, rtol=1e-3)
    check(context, [Case("ReduceMean", [X], {"axes": [2], "keepdims": 0}), Case("ReduceL2", [X], {"axes": [-1]})], 11)


def test_arg_and_cumulative(context: webnn_cl.MLContext) -> None:
    ties = whole(4, 6, low=0, high=3).astype(np.float32)
    cases = [
        Case(op, [ties], {"axis": a, "keepdims": k, "select_last_index": s})
        for op in ("ArgMax", "ArgMin") for a in (0, -1) for k in (0, 1) for s in (0, 1)
    ]  # fmt: skip
    cases += [Case("CumSum", [X, np.array(a, np.int64)], {"exclusive": e, "reverse": r}, known=[1])
              for a in (0, -2) for e in (0, 1) for r in (0, 1)]  # fmt: skip
    check(context, cases)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_top_k(context: webnn_cl.MLContext, dtype: str) -> None:
    x = whole(3, 7, 5, low=0, high=9).astype(dtype)
    cases = [Case("TopK", [x, ints(k)], {"axis": a, "largest": g, "sorted": 1}, known=[1], outputs=2)
             for k, a in ((1, 1), (3, 1), (5, -1), (2, 0)) for g in (0, 1)]  # fmt: skip
    check(context, cases, 11)


def test_slices(context: webnn_cl.MLContext) -> None:
    starts_ends = [((0,), (2,), (1,), (1,)), ((-1, 0), (-5, 100), (2, 3), (-1, 2)), ((3, 2), (0, -9), (3, 2), (-2, -1))]
    cases = [Case("Slice", [X, *(ints(*p) for p in parts)], known=[1, 2, 3, 4]) for parts in starts_ends]
    check(context, [*cases, Case("Slice", [X, ints(1, 1), ints(2, 3)], known=[1, 2])], 13)
    check(context, [Case("Slice", [X], {"starts": [1, 0], "ends": [9, -1], "axes": [1, 3]})], 9)


def test_shapes(context: webnn_cl.MLContext) -> None:
    cases = [Case("Reshape", [X, ints(*s)], known=[1]) for s in ((0, -1), (6, 20), (-1,), (2, 0, 1, 20))]
    cases += [Case("Flatten", [X], {"axis": a}) for a in (0, 2, -1, 4)]
    cases += [Case("Transpose", [X]), Case("Transpose", [X], {"perm": [0, 2, 3, 1]})]
    cases += [Case("Unsqueeze", [X, ints(0, -1)], known=[1]), Case("Squeeze", [numbers(1, 3, 1), ints(0)], known=[1])]
    cases += [Case("Squeeze", [numbers(1, 3, 1)]), Case("Expand", [numbers(3, 1), ints(2, 1, 4)], known=[1])]
    cases += [Case("Tile", [numbers(2, 3), ints(2, 3)], known=[1]), Case("Concat", [X, X[:, :1]], {"axis": 1})]
    cases += [Case("DepthToSpace", [numbers(1, 8, 2, 3)], {"blocksize": 2, "mode": m}) for m in ("DCR", "CRD")]
    cases += [Case("SpaceToDepth", [numbers(1, 2, 4, 6)], {"blocksize": 2})]
    cases += [Case("Shape", [X], {"start": 1}), Case("Size", [X])]
    cases += [Case("Trilu", [X, np.array(k, np.int64)], {"upper": u}, known=[1]) for k in (-1, 0, 2) for u in (0, 1)]
    check(context, cases, 17)


def test_split(context: webnn_cl.MLContext) -> None:
    given = Case("Split", [X, ints(1, 2)], {"axis": 1}, known=[1], outputs=2)
    check(context, [given, Case("Split", [X], {"axis": -2}, outputs=2)], 13)
    check(context, [Case("Split", [X], {"axis": -1, "num_outputs": 3}, outputs=3)], 18)
    check(context, [Case("Split", [X], {"axis": 3, "split": [4, 1]}, outputs=2)], 11)


def test_pad(context: webnn_cl.MLContext) -> None:
    pads, value = ints(0, 1, 2, 1, 1, 0, 1, 2), np.array(1.5, np.float32)
    cases = [Case("Pad", [X, pads, value], known=[1, 2]), Case("Pad", [X, pads, value], known=[1])]
    cases += [Case("Pad", [X, pads], {"mode": m}, known=[1]) for m in ("reflect", "edge")]
    cases += [Case("Pad", [X, ints(0, -1, 0, 2, 0, 0, 1, -1)], known=[1])]
    cases += [Case("Pad", [X, ints(1, 2), None, ints(3)], known=[1, 3])]
    cases += [Case("Pad", [whole(2, 3), ints(1, 0, 0, 1)], known=[1])]
    check(context, cases, 18)
    check(context, [Case("Pad", [numbers(2, 3), ints(1, 4, 2, 3)], {"mode": "wrap"}, known=[1])], 19)
    check(context, [Case("Pad", [X], {"pads": [0, 1, 0, 0, 0, 0, 2, 0], "value": 3.0})], 7)


def test_gathers(context: webnn_cl.MLContext) -> None:
    pairs = np.array([[[0, 1], [1, -1]], [[-2, 0], [0, 2]]], np.int64)
    batched = np.array([[[1], [0]], [[2], [-1]]], np.int64)
    cases = [
        Case("Gather", [X, ints(2, 0, -1)], {"axis": 1}),
        Case("Gather", [X, np.array([[0, 1], [4, -5]], np.int32)], {"axis": -1}, known=[1]),
        Case("Gather", [X, np.array(1, np.int64)], {"axis": 2}, known=[1]),
        Case("GatherElements", [X, whole(2, 3, 6, 5, low=-4, high=4)], {"axis": 2}),
        Case("GatherElements", [X, whole(1, 2, 6, 3, low=-4, high=4)], {"axis": 2}),
        Case("GatherND", [X, pairs]),
        Case("GatherND", [X, batched], {"batch_dims": 1}),
    ]
    check(context, cases, 13)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatters(context: webnn_cl.MLContext, reduction: str) -> None:
    x, attrs = numbers(4, 5), {"reduction": reduction}
    once = np.array([[0, 3, 1, 2, -1]], np.int64)
    twice = once if reduction == "none" else np.array([[0, 3, 1, 2, -1], [0, 0, 1, -4, 3]], np.int64)
    rows = np.array([[1], [3], [0 if reduction == "none" else 1]], np.int64)
    cells = np.array([[1, 2], [0, -1]], np.int64)
    cases = [
        Case("ScatterElements", [x, twice, numbers(*twice.shape, seed=1)], {"axis": 0, **attrs}),
        Case("ScatterElements", [x, twice[:, :3], numbers(len(twice), 3, seed=2)], {"axis": 0, **attrs}),
        Case("ScatterND", [x, rows, numbers(3, 5, seed=3)], attrs),
        Case("ScatterND", [x, cells, numbers(2, seed=4)], attrs),
        Case("ScatterND", [whole(4, 5), cells, whole(2, seed=4)], attrs),
    ]
    check(context, cases, 18)


def test_one_hot_and_reverse_sequence(context: webnn_cl.MLContext) -> None:
    values = np.array([-1.0, 2.0], np.float32)
    cases = [Case("OneHot", [whole(2, 3, low=-3, high=6), ints(4), values], {"axis": a}, known=[1]) for a in (-1, 0, 1)]
    cases += [Case("ReverseSequence", [numbers(4, 3, 2), ints(1, 4, 2)], {"time_axis": 0, "batch_axis": 1})]
    cases += [Case("ReverseSequence", [numbers(3, 4), ints(3, 1, 2)], {"time_axis": 1, "batch_axis": 0})]
    check(context, cases, 11)


def test_compress_and_generated(context: webnn_cl.MLContext) -> None:
    condition = np.array([True, False, True])
    cases = [Case("Compress", [X, condition], {"axis": 1}, known=[1]), Case("Compress", [X, condition], known=[1])]
    cases += [Case("EyeLike", [whole(3, 4, dtype="int32")], {"k": 1, "dtype": 1})]
    check(context, cases, 11)
