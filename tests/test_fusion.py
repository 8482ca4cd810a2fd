"""Fusion across views and into concats: how many launches a graph takes, and that its values stay the reference's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import entries, families, floats, number
from tests.numpy_builder import check_graph
from webnn_cl.compiler.sink import reshaped_operand

RNG = np.random.default_rng(3)

# Across reshapes and transposes -------------------------------------------------------------------------------


def test_a_chain_goes_on_behind_a_reshape(context: Any) -> None:
    bias = floats(16)

    def build(b: Any) -> dict[str, Any]:
        rows = b.reshape(b.exp(b.input("x", (4, 8, 16))), (32, 16))
        return {"y": b.relu(b.add(rows, b.constant(bias)))}

    assert len(entries(check_graph(context, build, {"x": floats(4, 8, 16)}))) == 1


def test_an_epilogue_reaches_across_a_reshape(context: Any) -> None:
    weights, bias = floats(64, 48), floats(48)

    def build(b: Any) -> dict[str, Any]:
        product = b.reshape(b.matmul(b.input("x", (32, 64)), b.constant(weights)), (4, 8, 48))
        return {"y": b.gelu(b.add(product, b.constant(bias)))}

    assert len(entries(check_graph(context, build, {"x": floats(32, 64)}))) == 1


def test_an_activation_of_a_reshaped_value_that_it_is_multiplied_with(context: Any) -> None:
    weights = floats(64, 48)

    def build(b: Any) -> dict[str, Any]:
        x = b.reshape(b.matmul(b.input("x", (32, 64)), b.constant(weights)), (4, 8, 48))
        return {"y": b.mul(x, b.sigmoid(x)), "z": b.reduce_max(b.input("z", (4, 8)), axes=[1])}

    assert families(check_graph(context, build, {"x": floats(32, 64), "z": floats(4, 8)}))[1:] == ["reduce"]


@pytest.mark.parametrize("shape", [(1, 8, 81), (8, 81), (1, 1, 8, 9, 9)])
def test_a_convolution_takes_what_follows_its_reshape(context: Any, shape: tuple[int, ...]) -> None:
    weights, column = floats(8, 6, 3, 3), floats(8, 1)
    column = column.reshape(8, 1, 1) if len(shape) == 5 else column

    def build(b: Any) -> dict[str, Any]:
        flat = b.reshape(b.conv2d(b.input("x", (1, 6, 11, 11)), b.constant(weights)), shape)
        return {"y": b.sigmoid(b.mul(flat, b.constant(column)))}

    bare = check_graph(
        context,
        lambda b: {"y": b.conv2d(b.input("x", (1, 6, 11, 11)), b.constant(weights))},
        {"x": floats(1, 6, 11, 11)},
    )
    graph = check_graph(context, build, {"x": floats(1, 6, 11, 11)})
    assert len(entries(graph)) == len(entries(bare))


def test_a_residual_under_another_shape(context: Any) -> None:
    weights = floats(16, 16)

    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (4, 8, 16))
        other = b.mul(b.exp(x), number(b, 0.5))
        product = b.reshape(b.matmul(b.reshape(x, (32, 16)), b.constant(weights)), (4, 8, 16))
        return {"y": b.relu(b.add(product, other))}

    assert len(entries(check_graph(context, build, {"x": floats(4, 8, 16)}))) == 1


def test_a_residual_that_is_needed_elsewhere_too(context: Any) -> None:
    first, second = floats(16, 16), floats(16, 16)

    def build(b: Any) -> dict[str, Any]:
        x = b.reshape(b.matmul(b.input("x", (32, 16)), b.constant(first)), (4, 8, 16))
        product = b.matmul(b.softmax(x, 2), b.constant(second))
        return {"y": b.relu(b.add(x, product))}

    assert families(check_graph(context, build, {"x": floats(32, 16)})) == ["gemm", "softmax", "gemm"]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_single_elements_under_other_shapes(context: Any, shape: tuple[int, ...]) -> None:
    weights = floats(32, 1)

    def build(b: Any) -> dict[str, Any]:
        x = b.reshape(b.matmul(b.input("x", (1, 32)), b.constant(weights)), (1, 1, 1) if shape else ())
        y = b.reshape(b.mul(b.sigmoid(x), number(b, 3)), shape)
        return {"y": b.add(y, number(b, 1))}

    assert len(entries(check_graph(context, build, {"x": floats(1, 32)}))) == 1


def test_an_operand_that_the_other_shape_cannot_say(context: Any) -> None:
    position = floats(8, 48)
    weights = floats(64, 48)

    def build(b: Any) -> dict[str, Any]:
        product = b.reshape(b.matmul(b.input("x", (32, 64)), b.constant(weights)), (4, 8, 48))
        return {"y": b.add(product, b.constant(position)), "t": b.reshape(product, (8, 4, 48))}

    check_graph(context, build, {"x": floats(32, 64)})


def test_transposes_around_an_activation_cancel(context: Any) -> None:
    weights = floats(8, 6, 3, 3)

    def build(b: Any) -> dict[str, Any]:
        y = b.conv2d(b.input("x", (1, 6, 11, 11)), b.constant(weights))
        turned = b.relu(b.transpose(y, permutation=[0, 2, 3, 1]))
        return {"y": b.transpose(turned, permutation=[0, 3, 1, 2])}

    bare = check_graph(
        context,
        lambda b: {"y": b.conv2d(b.input("x", (1, 6, 11, 11)), b.constant(weights))},
        {"x": floats(1, 6, 11, 11)},
    )
    assert len(entries(check_graph(context, build, {"x": floats(1, 6, 11, 11)}))) == len(entries(bare))


@pytest.mark.parametrize(
    ("shape", "target", "new", "expected"),
    [
        ((16,), (4, 8, 16), (32, 16), (1, 16)),
        ((8, 1), (8, 81), (8, 9, 9), (8, 1, 1)),
        ((8, 48), (4, 8, 48), (32, 48), None),
        ((4, 1, 1), (4, 8, 48), (2, 2, 384), (2, 2, 1)),
        ((1, 6, 1), (2, 6, 5), (12, 5), None),
        ((6, 1), (6, 5), (5, 6), None),
        ((), (6, 5), (30,), (1,)),
    ],
)
def test_operands_under_another_shape(shape: Any, target: Any, new: Any, expected: Any) -> None:
    assert reshaped_operand(shape, target, new) == expected
    if expected is not None:
        values = floats(*shape)
        np.testing.assert_array_equal(
            np.broadcast_to(values, target).reshape(new), np.broadcast_to(values.reshape(expected), new)
        )


# Normalizations that are spelled out ------------------------------------------------------------------------------


def _divided(b: Any, d: Any, under: Any, spelling: str) -> Any:
    if spelling == "div sqrt":
        return b.div(d, b.sqrt(under))
    if spelling == "div pow":
        return b.div(d, b.pow(under, number(b, 0.5)))
    if spelling == "mul pow":
        return b.mul(b.pow(under, number(b, -0.5)), d)
    if spelling == "mul one over":
        return b.mul(d, b.div(number(b, 1), b.sqrt(under)))
    return b.mul(d, b.reciprocal(b.sqrt(under)))


SPELLINGS = ["div sqrt", "div pow", "mul pow", "mul one over", "mul reciprocal"]
SHAPES: list[tuple[tuple[int, ...], list[int]]] = [
    ((7, 48), [1]),
    ((3, 5, 16), [0, 2]),
    ((4, 9, 10), [1]),
    ((2, 9000), [1]),
]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("centred", [True, False])
def test_spelled_out_normalizations(context: Any, spelling: str, centred: bool) -> None:
    gamma, beta = floats(48), floats(48)

    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (7, 48))
        d = b.sub(x, b.reduce_mean(x, axes=[1], keep_dimensions=True)) if centred else x
        under = b.add(number(b, 1e-3), b.reduce_mean(b.mul(d, d), axes=[1], keep_dimensions=True))
        n = _divided(b, d, under, spelling)
        return {"y": b.relu(b.add(b.mul(n, b.constant(gamma)), b.constant(beta)))}

    assert families(check_graph(context, build, {"x": floats(7, 48) + np.float32(2)})) == ["norm"]


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("half", [False, True])
def test_root_mean_square_normalization(context: Any, shape: tuple[int, ...], axes: list[int], half: bool) -> None:
    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", shape, "float16" if half else "float32")
        under = b.reduce_mean(b.mul(x, x), axes=axes, keep_dimensions=True)
        small = b.constant(1e-3, data_type="float16" if half else "float32")
        return {"y": b.mul(x, b.reciprocal(b.sqrt(b.add(under, small))))}

    x = floats(*shape) + np.float32(1)
    graph = check_graph(context, build, {"x": x.astype(np.float16) if half else x}, tolerance=5e-3 if half else 2e-5)
    if not half:
        assert all(entry.startswith("norm_") for entry in entries(graph))


def test_a_mean_that_went_into_the_shift(context: Any) -> None:
    gamma, beta = floats(48), floats(48)

    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (7, 48))
        mean = b.reduce_mean(x, axes=[1], keep_dimensions=True)
        d = b.sub(x, mean)
        under = b.add(b.reduce_mean(b.mul(d, d), axes=[1], keep_dimensions=True), number(b, 1e-3))
        inverse = b.mul(b.reciprocal(b.sqrt(under)), b.constant(gamma))
        return {"y": b.add(b.mul(x, inverse), b.sub(b.constant(beta), b.mul(mean, inverse)))}

    assert families(check_graph(context, build, {"x": floats(7, 48)})) == ["norm"]


def test_what_only_looks_like_a_normalization(context: Any) -> None:
    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (7, 48))
        d = b.sub(x, b.reduce_mean(x, axes=[0], keep_dimensions=True))
        under = b.add(b.reduce_mean(b.mul(d, d), axes=[1], keep_dimensions=True), number(b, 1e-3))
        return {
            "other axes": b.div(d, b.sqrt(under)),
            "inverse": b.div(d, b.reciprocal(b.sqrt(under))),
            "root": b.mul(d, b.sqrt(under)),
            "d": d,
            "cube": b.div(x, b.sqrt(b.add(b.reduce_mean(b.pow(b.abs(x), number(b, 3))), number(b, 1)))),
        }

    check_graph(context, build, {"x": floats(7, 48)})


@pytest.mark.parametrize(
    ("shape", "axis"), [((7, 48), 1), ((3, 9, 33), 1), ((2, 100, 17), 1), ((2, 30000), 1), ((5, 7), 0)]
)
@pytest.mark.parametrize("joined", [False, True])
def test_log_softmax_spelled_out(context: Any, shape: tuple[int, ...], axis: int, joined: bool) -> None:
    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", shape)
        d = b.sub(x, b.reduce_max(x, axes=[axis], keep_dimensions=True))
        if joined:
            return {"y": b.sub(d, b.reduce_log_sum_exp(d, axes=[axis], keep_dimensions=True))}
        return {"y": b.sub(d, b.log(b.reduce_sum(b.exp(d), axes=[axis], keep_dimensions=True)))}

    graph = check_graph(context, build, {"x": 40 * floats(*shape)})
    assert all(entry.startswith("softmax") for entry in entries(graph))


def test_log_softmax_of_infinities(context: Any) -> None:
    x = np.array([[1, -np.inf, 2], [np.inf, 0, 1], [np.nan, 0, 1], [-np.inf] * 3, [300, 0, -300]], np.float32)
    b = context.create_graph_builder()
    value = b.input("x", x.shape)
    d = b.sub(value, b.reduce_max(value, axes=[1], keep_dimensions=True))
    graph = b.build({"y": b.sub(d, b.log(b.reduce_sum(b.exp(d), axes=[1], keep_dimensions=True)))})
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        d64 = wide - wide.max(axis=1, keepdims=True)
        exact = d64 - np.log(np.exp(d64).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(context.compute(graph, {"x": x})["y"], exact, rtol=1e-5)


# Layout ----------------------------------------------------------------------------------------------------------


def test_one_dimensional_convolutions_stay_in_one_order(context: Any) -> None:
    """As frameworks export them: each convolution between an unsqueeze and a squeeze."""
    w1, w2, w3, bias, scale = floats(8, 5, 1, 3), floats(8, 8, 1, 3), floats(6, 8, 1, 1), floats(8, 1), floats(8)

    def build(b: Any) -> dict[str, Any]:
        def conv(x: Any, w: Any, **options: Any) -> Any:
            image = b.reshape(x, (2, x.shape[1], 1, x.shape[2]))
            y = b.conv2d(image, b.constant(w), **options)
            return b.reshape(y, (2, y.shape[1], y.shape[3]))

        x = b.relu(b.add(conv(b.input("x", (2, 5, 20)), w1, padding=[0, 0, 1, 1]), b.constant(bias)))
        y = b.tanh(conv(x, w2, padding=[0, 0, 1, 1]))
        y = b.pad(b.mul(b.add(x, y), b.input("mask", (1, 1, 20))), [0, 0, 2], [0, 0, 1])
        y = b.layer_normalization(y, axes=[1], scale=b.constant(scale))
        y = b.concat([b.slice(y, [0, 0, 3], [2, 8, 20]), x], 1)
        a, c = b.split(y, 2, axis=1)
        z = conv(b.softmax(b.mul(a, b.sigmoid(c)), 1), w3, strides=[1, 2])
        rows = b.transpose(z, permutation=[0, 2, 1])
        return {
            "rows": rows,
            "mean": b.reduce_mean(z, axes=[2]),
            "most": b.reduce_max(z, axes=[1], keep_dimensions=True),
        }

    graph = check_graph(context, build, {"x": floats(2, 5, 20), "mask": floats(1, 1, 20)})
    assert entries(graph).count("strided_turn") <= 1  # the graph's input


def test_normalization_over_the_channels_of_images(context: Any) -> None:
    w, scale, bias = floats(8, 8, 3, 3), floats(8, 6), floats(8, 6)

    def build(b: Any) -> dict[str, Any]:
        x = b.conv2d(b.input("x", (2, 8, 8, 8)), b.constant(w))
        x = b.layer_normalization(x, axes=[1, 3], scale=b.constant(scale), bias=b.constant(bias))
        return {"y": b.conv2d(x, b.constant(w))}

    graph = check_graph(context, build, {"x": floats(2, 8, 8, 8)})
    assert entries(graph).count("strided_turn") <= 2


# Selections ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "indices"), [(1, 0), (1, -1), (1, [2]), (1, [0, 2, 4]), (2, [3, 4, 5, 6, 7, 8, 9, 10, 11]), (0, 7)]
)
def test_constant_indices_at_even_distances_are_a_slice(context: Any, axis: int, indices: Any) -> None:
    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (3, 5, 16))
        return {"y": b.exp(b.gather(x, b.constant(np.array(indices, np.int32)), axis=axis))}

    assert "gather" not in families(check_graph(context, build, {"x": floats(3, 5, 16)}))


@pytest.mark.parametrize("indices", [[2, 1, 0], [0, 0], [0, 1, 3], [0, 1, 2, 3, 4]])
def test_constant_indices_in_any_order(context: Any, indices: list[int]) -> None:
    def build(b: Any) -> dict[str, Any]:
        return {"y": b.gather(b.input("x", (3, 5, 16)), b.constant(np.array(indices, np.int32)), axis=1)}

    check_graph(context, build, {"x": floats(3, 5, 16)})


def test_a_part_of_a_concat_is_a_part_of_its_piece(context: Any) -> None:
    index = np.array(2, np.int32)

    def build(b: Any) -> dict[str, Any]:
        states = b.concat([b.input("x", (2, 1, 32)), b.input("z", (3, 1, 32))], axis=0)
        both = b.slice(states, [1, 0, 0], [3, 1, 32])
        return {"y": b.exp(b.gather(states, b.constant(index), axis=0)), "t": b.exp(both)}

    feeds = {"x": floats(2, 1, 32), "z": floats(3, 1, 32)}
    assert "gather" not in families(check_graph(context, build, feeds))
    alone = check_graph(context, lambda b: {"y": build(b)["y"]}, feeds)
    assert families(alone) == ["elementwise"]


# Views behind views -------------------------------------------------------------------------------------------


def test_an_epilogue_reaches_across_heads(context: Any) -> None:
    weights = floats(64, 48)

    def build(b: Any) -> dict[str, Any]:
        product = b.matmul(b.input("x", (32, 64)), b.constant(weights))
        heads = b.transpose(b.reshape(product, (32, 6, 8)), permutation=[1, 0, 2])
        joined = b.reshape(b.transpose(b.mul(heads, number(b, 0.5)), permutation=[1, 0, 2]), (32, 48))
        return {"y": b.relu(joined)}

    assert len(entries(check_graph(context, build, {"x": floats(32, 64)}))) == 1


def test_views_that_somebody_else_reads_stay_before_the_operator(context: Any) -> None:
    weights = floats(64, 48)

    def build(b: Any) -> dict[str, Any]:
        product = b.reshape(b.matmul(b.input("x", (32, 64)), b.constant(weights)), (32, 6, 8))
        return {"y": b.relu(b.transpose(product, permutation=[1, 0, 2])), "z": b.reduce_max(product, axes=[1])}

    check_graph(context, build, {"x": floats(32, 64)})


def test_quantized_heads(context: Any) -> None:
    # Whole numbers, which lie on the steps.
    weights, x = np.round(floats(64, 48)), np.round(floats(32, 64))
    scale, zero = np.full((1, 1, 1), 0.5, np.float32), np.full((1, 1, 1), 128, np.uint8)

    def build(b: Any) -> dict[str, Any]:
        product = b.reshape(b.matmul(b.input("x", (32, 64)), b.constant(weights)), (32, 6, 8))
        heads = b.transpose(b.transpose(product, permutation=[1, 0, 2]), permutation=[0, 2, 1])
        return {"y": b.quantize_linear(heads, b.constant(scale), b.constant(zero))}

    assert len(entries(check_graph(context, build, {"x": x}))) == 2  # the product, and the turned copy


# Prologues ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 70, 45), [2]),
        ((40, 5), [1]),
        ((3, 70, 45), [1]),
        ((3, 70, 45), [0, 2]),
        ((2, 3, 9, 16), [1, 3]),
        ((300000,), [0]),
        ((5, 9001, 16), [1]),
    ],
)
def test_reductions_compute_what_they_read(context: Any, shape: tuple[int, ...], axes: list[int]) -> None:
    def build(b: Any) -> dict[str, Any]:
        x, z, s = b.input("x", shape), b.input("z", shape), b.input("s", (1,))
        return {
            "relu": b.reduce_sum(b.relu(x), axes=axes),
            "exp": b.reduce_mean(b.mul(b.exp(x), s), axes=axes, keep_dimensions=True),
            "error": b.reduce_mean(b.pow(b.sub(x, z), number(b, 2)), axes=axes),
            "largest": b.relu(b.add(b.reduce_max(b.mul(number(b, 3), b.abs(z)), axes=axes), number(b, -1))),
            "length": b.reduce_l2(b.add(b.mul(x, z), s), axes=axes),
        }

    graph = check_graph(context, build, {"x": floats(*shape), "z": floats(*shape), "s": floats(1)})
    assert set(families(graph)) == {"reduce"}


@pytest.mark.parametrize("data_type", ["float16", "int32", "uint8"])
def test_reductions_compute_other_types(context: Any, data_type: str) -> None:
    x = RNG.integers(0, 9, (6, 70, 24)).astype(data_type)

    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (6, 70, 24), data_type)
        if data_type == "uint8":
            return {"y": b.reduce_sum(b.cast(x, "float32"), axes=[2]), "z": b.reduce_max(b.cast(x, "int32"), axes=[1])}
        return {"y": b.reduce_sum(b.mul(x, x), axes=[2]), "z": b.reduce_min(b.neg(x), axes=[1])}

    assert set(families(check_graph(context, build, {"x": x}))) == {"reduce"}


def test_what_no_reduction_computes(context: Any) -> None:
    row = floats(16)

    def build(b: Any) -> dict[str, Any]:
        x = b.input("x", (12, 8, 16))
        broadcast = b.reduce_sum(b.mul(x, b.constant(row)), axes=[1])
        needed = b.exp(x)
        turned = b.reduce_sum(b.relu(b.transpose(x, permutation=[1, 0, 2])), axes=[0])
        twice = b.abs(x)
        return {
            "broadcast": broadcast, "needed": needed, "sum": b.reduce_sum(needed, axes=[2]), "turned": turned,
            "one": b.reduce_max(twice, axes=[0]), "other": b.reduce_min(twice, axes=[0]),
            "log": b.reduce_log_sum_exp(b.mul(x, number(b, 2)), axes=[2]),
        }  # fmt: skip

    check_graph(context, build, {"x": floats(12, 8, 16)})


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("order", "axes"), [((1, 0, 2), (1,)), ((2, 0, 1), (0, 2)), ((2, 1, 0), (1,)), ((0, 2, 1), ())]
)
def test_a_reduction_of_a_transpose_reads_what_was_transposed(
    context: Any, order: tuple[int, ...], axes: tuple[int, ...], keep: bool
) -> None:
    def build(b: Any) -> dict[str, Any]:
        turned = b.transpose(b.input("x", (12, 20, 31)), permutation=order)
        return {"y": b.relu(b.reduce_sum(turned, axes=axes, keep_dimensions=keep))}

    graph = check_graph(context, build, {"x": floats(12, 20, 31)})
    readers = [c for c in graph._executable.commands if any(buffer.kind == "input" for buffer in c.buffers())]
    assert [c.node.op.name for c in readers] == (["reduce_sum"] if axes else ["relu"])


def test_a_reduction_of_a_transpose_that_is_an_output_too(context: Any) -> None:
    def build(b: Any) -> dict[str, Any]:
        turned = b.transpose(b.input("x", (12, 20)))
        return {"turned": turned, "y": b.reduce_max(turned, axes=(0,))}

    check_graph(context, build, {"x": floats(12, 20)})


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("size", [45, 16])
def test_running_sums_take_what_follows(context: Any, axis: int, exclusive: bool, size: int) -> None:
    other, column = floats(3, 70, size), floats(70, 1)

    def build(b: Any) -> dict[str, Any]:
        sums = b.cumulative_sum(b.input("x", (3, 70, size)), axis, exclusive=exclusive, reversed=exclusive)
        return {"y": b.relu(b.add(sums, b.constant(other))), "z": b.reduce_sum(sums, axes=[0])}

    check_graph(context, build, {"x": floats(3, 70, size)})
    alone = check_graph(
        context,
        lambda b: {"y": b.relu(b.add(b.cumulative_sum(b.input("x", (3, 70, size)), axis), b.constant(other)))},
        {"x": floats(3, 70, size)},
    )
    assert families(alone) == ["scan"]
    check_graph(
        context,
        lambda b: {"y": b.mul(b.cumulative_sum(b.input("x", (3, 70, size)), axis), b.constant(column))},
        {"x": floats(3, 70, size)},
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_long_running_sums_take_what_follows(context: Any, reverse: bool) -> None:
    def build(b: Any) -> dict[str, Any]:
        return {"y": b.sigmoid(b.mul(b.cumulative_sum(b.input("x", (1, 70003)), 1, reversed=reverse), number(b, 0.01)))}

    assert "elementwise" not in families(check_graph(context, build, {"x": floats(1, 70003)}))
