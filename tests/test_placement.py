"""Placement: results are written, and parts read, where they lie in a concat, a split, or behind a transpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import entries, families, floats, number
from tests.numpy_builder import check_graph

# Into concats -----------------------------------------------------------------------------------------------------


def test_convolutions_write_into_their_concat(context: Any) -> None:
    first, second, bias = floats(8, 3, 3, 16), floats(12, 1, 1, 16), floats(8)

    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (2, 9, 10, 16))
        layout = {"input_layout": "nhwc", "filter_layout": "ohwi"}
        one = b.relu(b.conv2d(x, b.constant(first), bias=b.constant(bias), padding=[1, 1, 1, 1], **layout))
        two = b.conv2d(x, b.constant(second), **layout)
        return {"y": b.concat([one, two, x], 3)}

    graph = check_graph(context, build, {"x": floats(2, 9, 10, 16)})
    assert len(entries(graph)) == 3  # the third only moves the graph's input
    assert entries(graph)[-1] == "pieces"


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_chains_write_into_their_concat(context: Any, axis: int) -> None:
    if not context._facts.is_cpu:
        pytest.skip(f"device {context.device.name}: element-wise kernels of GPUs write packed results")

    def build(b: Any) -> dict[str, Any]:
        x, y, row = b.input("x", (3, 9, 10)), b.input("y", (3, 9, 10)), b.input("row", (10,))
        return {"y": b.concat([b.exp(x), b.relu(b.mul(y, row)), b.add(b.mul(x, y), row)], axis)}

    feeds = {"x": floats(3, 9, 10), "y": floats(3, 9, 10), "row": floats(10)}
    assert families(check_graph(context, build, feeds)) == ["elementwise"] * 3


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("size", [(9, 11), (8, 8)])
def test_every_operator_with_an_epilogue_writes_into_a_concat(context: Any, batch: int, size: tuple[int, int]) -> None:
    w, bias, w1, deep = floats(8, 16, 3, 3), floats(8), floats(12, 16, 1, 1), floats(16, 1, 3, 3)

    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (batch, 16, *size))
        small = b.slice(x, [0, 0, 0, 0], [batch, 16, 4, 4])
        pads = [1, 1, 1, 1]
        pieces = [
            b.conv2d(x, b.constant(w), padding=pads),
            b.relu(b.conv2d(x, b.constant(w), padding=pads, bias=b.constant(bias))),
            b.conv2d(x, b.constant(w1)),
            b.exp(b.conv2d(x, b.constant(deep), groups=16, padding=pads)),
            x,
            b.average_pool2d(x, window_dimensions=[3, 3], padding=pads),
            b.softmax(x, 1),
            b.resample2d(small, sizes=list(size)),
            b.resample2d(small, sizes=list(size), mode="linear"),
            b.instance_normalization(x),
            b.tanh(b.layer_normalization(x)),
            b.sigmoid(x),
        ]
        return {"y": b.concat(pieces, 1)}

    graph = check_graph(context, build, {"x": floats(batch, 16, *size)})
    assert entries(graph).count("pieces") == 1


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_pieces_along_any_axis(context: Any, axis: int) -> None:
    w = floats(8, 8, 3, 3)

    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (2, 8, 8, 8))
        total = b.reduce_sum(b.concat([x, x], axis), axes=[axis], keep_dimensions=True)
        pieces = [
            b.relu(b.conv2d(x, b.constant(w), padding=[1, 1, 1, 1])),
            x,
            b.exp(x),
            b.max_pool2d(x, window_dimensions=[3, 3], padding=[1, 1, 1, 1]),
            b.layer_normalization(x),
            b.matmul(x, x),
            b.neg(total),
            b.softmax(x, axis),
        ]
        return {"y": b.concat(pieces, axis)}

    check_graph(context, build, {"x": floats(2, 8, 8, 8)})


def test_heads_of_a_detector_write_through_their_reshapes(context: Any) -> None:
    weights = floats(9, 8, 1, 1)

    def build(b: Any) -> dict[str, Any]:
        def head(x: Any, height: int, width: int) -> Any:
            turned = b.transpose(b.conv2d(x, b.constant(weights)), permutation=[0, 2, 3, 1])
            return b.sigmoid(b.reshape(turned, (1, height * width * 3, 3)))

        x, z = b.input("x", (1, 8, 7, 5)), b.input("z", (1, 8, 3, 2))
        return {"y": b.concat([head(x, 7, 5), head(z, 3, 2)], 1)}

    graph = check_graph(context, build, {"x": floats(1, 8, 7, 5), "z": floats(1, 8, 3, 2)})
    assert "pieces" not in entries(graph) and not any("elementwise" in e for e in entries(graph))


def test_pieces_that_somebody_else_needs(context: Any) -> None:
    def build(b: Any) -> dict[str, Any]:
        x, y = b.input("x", (6, 10)), b.input("y", (6, 10))
        twice, shared, seen = b.exp(x), b.relu(b.matmul(y, b.transpose(x))), b.tanh(y)
        joined = b.concat([twice, shared, twice, seen, b.abs(y)], 1)
        return {"joined": joined, "seen": seen, "sum": b.reduce_sum(shared), "again": b.concat([joined, x], 1)}

    check_graph(context, build, {"x": floats(6, 10), "y": floats(6, 10)})


def test_half_precision_pieces(context: Any) -> None:
    def build(b: Any) -> dict[str, Any]:
        x, y = b.input("x", (3, 24), "float16"), b.input("y", (3, 16), "float16")
        square = b.reshape(b.exp(b.neg(b.reshape(b.mul(x, x), (72,)))), (3, 24))
        return {"z": b.concat([b.softmax(x, 1), b.mul(y, y), x, square], 1)}

    feeds = {"x": floats(3, 24).astype(np.float16), "y": floats(3, 16).astype(np.float16)}
    check_graph(context, build, feeds, tolerance=2e-3)


def test_views_are_copied_to_their_place(context: Any) -> None:
    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (4, 6, 32))
        left, right = b.slice(x, [0, 0, 0], [4, 6, 16]), b.slice(x, [0, 0, 16], [4, 6, 16])
        turned = b.transpose(b.slice(x, [0, 0, 0], [4, 4, 32]), permutation=[1, 0, 2])
        return {"rotated": b.concat([b.neg(right), left], 2), "turned": b.concat([turned, b.exp(turned)], 0)}

    graph = check_graph(context, build, {"x": floats(4, 6, 32)})
    if context._facts.is_cpu:
        assert families(graph) == ["elementwise"] * 4


# Out of splits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "axis"), [((8, 64), 1), ((2, 64, 9), 1), ((8, 16), 0)])
def test_a_gate_reads_both_halves_where_they_lie(context: Any, shape: tuple[int, ...], axis: int) -> None:
    def build(b: Any) -> dict[str, Any]:
        left, right = b.split(b.input("x", shape), 2, axis=axis)
        return {"y": b.mul(left, b.sigmoid(right))}

    assert families(check_graph(context, build, {"x": floats(*shape)})) == ["elementwise"]


def test_pieces_with_other_readers_are_copied_together(context: Any) -> None:
    weights = floats(16, 8)

    def build(b: Any) -> dict[str, Any]:
        x = b.exp(b.input("x", (6, 60)))
        a, c, d, e = b.split(x, [16, 12, 16, 16], axis=1)
        product = b.add(b.matmul(a, b.constant(weights)), b.slice(c, [0, 2], [6, 8]))
        return {"y": product, "z": b.mul(d, e), "s": b.softmax(e, 1)}

    graph = check_graph(context, build, {"x": floats(6, 60)})
    assert entries(graph).count("pieces") == 1


# Results behind transposes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("size", [8, 24, 20])
def test_heads_are_joined_where_they_are_computed(context: Any, rows: int, size: int) -> None:
    weights = floats(6 * size, 48)

    def build(b: Any) -> dict[str, Any]:
        heads = b.matmul(b.input("p", (2, 6, rows, 33)), b.input("v", (2, 6, 33, size)))
        joined = b.reshape(b.transpose(b.relu(heads), permutation=[0, 2, 1, 3]), (2, rows, 6 * size))
        return {"y": b.matmul(joined, b.constant(weights))}

    graph = check_graph(context, build, {"p": floats(2, 6, rows, 33), "v": floats(2, 6, 33, size)})
    assert "strided" not in families(graph)


@pytest.mark.parametrize("order", [[1, 0, 2, 3], [2, 0, 1, 3], [2, 1, 0, 3], [1, 2, 0, 3]])
def test_chains_and_kernels_write_transposed_outputs(context: Any, order: list[int]) -> None:
    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (3, 4, 5, 24))
        turned = {
            "chain": b.exp(b.mul(x, number(b, 0.5))),
            "softmax": b.softmax(x, 3),
            "norm": b.layer_normalization(x, axes=[3]),
            "product": b.matmul(b.input("a", (3, 4, 5, 7)), b.input("b", (7, 24))),
        }
        return {name: b.transpose(value, permutation=order) for name, value in turned.items()}

    feeds = {"x": floats(3, 4, 5, 24), "a": floats(3, 4, 5, 7), "b": floats(7, 24)}
    graph = check_graph(context, build, feeds)
    if context._facts.is_cpu:
        assert "strided" not in families(graph)


def test_a_transposed_result_through_reshapes(context: Any) -> None:
    def build(b: Any) -> dict[str, Any]:
        y = b.softmax(b.input("x", (6, 4, 10, 16)), 3)
        return {"y": b.transpose(b.reshape(y, (24, 5, 2, 16)), permutation=[2, 0, 1, 3])}

    assert families(check_graph(context, build, {"x": floats(6, 4, 10, 16)})) == ["softmax"]


def test_a_result_that_is_needed_turned_and_as_it_is(context: Any) -> None:
    def build(b: Any) -> dict[str, Any]:
        y = b.softmax(b.input("x", (6, 4, 16)), 2)
        return {"y": b.transpose(y, permutation=[1, 0, 2]), "z": y, "e": b.exp(b.reduce_max(y, axes=[0]))}

    check_graph(context, build, {"x": floats(6, 4, 16)})
