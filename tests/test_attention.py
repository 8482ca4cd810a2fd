"""Attention as one operator: recognized in all its spellings and in nothing else, and right to the last infinity."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.numpy_builder import NumpyBuilder
from webnn_cl.ops.attention import SMALL_BYTES, Blocks, Extents, pays

RNG = np.random.default_rng(16)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def mask(*shape: int) -> np.ndarray:
    """A third -infinity, never a whole row."""
    drawn = np.where(RNG.random(shape) < 0.3, -np.inf, RNG.standard_normal(shape)).astype(np.float32)
    drawn[..., 0] = 0
    return drawn


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined also where the parts would be faster."""
    monkeypatch.setattr("webnn_cl.compiler.attention.pays", lambda extents, facts: True)


def run(context: Any, build: Any, feeds: Mapping[str, np.ndarray], tolerance: float = 2e-5) -> list[str]:
    """Compare ``build(builder)`` with the reference, NaN where it has NaN; the operators behind the launches."""
    with np.errstate(all="ignore"):
        expected = build(NumpyBuilder(feeds))
    builder = context.create_graph_builder()
    graph = builder.build(build(builder))
    for _ in range(2):
        result = context.compute(graph, {name: feeds[name] for name in graph.inputs})
        for name, value in expected.items():
            finite = np.abs(value[np.isfinite(value)])
            np.testing.assert_allclose(result[name], value, rtol=0, atol=tolerance * max(finite.max(initial=0), 1e-30))
    return [command.node.op.name for command in graph._executable.commands if command.node is not None]


def one_launch(context: Any) -> list[str]:
    if not context._facts.is_cpu:
        pytest.skip("device runs the GPU family, which has no attention")
    return ["attention"]


def spelled(b: Any, q: Any, k: Any, v: Any, scale: float = 1.0, added: Any = None, transpose: bool = True) -> Any:
    """softmax(q k^T * scale + added) v; without `transpose` k lies as [depth, keys]."""
    order = [*range(len(k.shape) - 2), len(k.shape) - 1, len(k.shape) - 2]
    scores = b.matmul(q, b.transpose(k, permutation=order) if transpose else k)
    if scale != 1.0:
        scores = b.mul(scores, b.constant(np.float32(scale)))
    if added is not None:
        scores = b.add(scores, added)
    return b.matmul(b.softmax(scores, len(scores.shape) - 1), v)


def inputs(b: Any, feeds: Mapping[str, np.ndarray], names: str = "qkv") -> list[Any]:
    return [b.input(name, feeds[name].shape) for name in names]


SHAPES = [
    # stack, queries, keys, numbers of a query, numbers of a value
    ((), 1, 1, 1, 1),
    ((), 7, 9, 3, 5),
    ((3,), 6, 16, 8, 16),
    ((2,), 13, 17, 15, 9),
    ((2, 3), 5, 37, 17, 33),
    ((2, 3), 100, 80, 15, 15),
    ((1, 2), 97, 257, 64, 64),
    ((2, 1), 31, 700, 40, 24),
    ((1, 1), 200, 1300, 32, 48),
    ((2, 2, 2), 18, 33, 20, 8),
    ((1, 4), 3, 511, 64, 64),
    ((2, 2), 2, 77, 13, 77),
    ((1, 5), 1, 1030, 64, 136),
    ((1, 3), 4, 100, 16, 16),
    ((1, 1), 8, 40, 512, 130),
]


@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("stack, m, n, d, e", SHAPES)
def test_shapes(context: Any, always: None, stack: Any, m: int, n: int, d: int, e: int, transpose: bool) -> None:
    keys = (n, d) if transpose else (d, n)
    feeds = {"q": floats(*stack, m, d), "k": floats(*stack, *keys), "v": floats(*stack, n, e)}

    def build(b: Any) -> Any:
        return {"y": spelled(b, *inputs(b, feeds), d**-0.5, transpose=transpose)}

    assert run(context, build, feeds) == one_launch(context)


@pytest.mark.parametrize("m", [1, 70])
def test_decoding_from_heads_that_lie_apart(context: Any, always: None, m: int) -> None:
    feeds = {"q": floats(1, m, 120), "k": floats(1, 90, 120), "v": floats(1, 90, 120), "mask": mask(1, 90)}

    def build(b: Any) -> Any:
        y = spelled(b, *(split_heads(b, x, 6) for x in inputs(b, feeds)), 0.2, b.input("mask", (1, 90)))
        return {"y": b.reshape(b.transpose(y, permutation=[0, 2, 1, 3]), [1, m, 120])}

    assert run(context, build, feeds) == one_launch(context)


CUTS = [{"RESIDENT_BYTES": 0}, {"CHUNK": 16}, {"ITEMS_PER_CORE": 1}, {"ITEMS_PER_CORE": 64}]


@pytest.mark.parametrize("constants", CUTS)
def test_every_way_to_cut(context: Any, always: None, monkeypatch: pytest.MonkeyPatch, constants: Any) -> None:
    for name, value in constants.items():
        monkeypatch.setattr(f"webnn_cl.ops.attention.{name}", value)
    feeds = {"q": floats(3, 205, 24), "k": floats(3, 530, 24), "v": floats(3, 530, 40), "mask": mask(205, 530)}

    def build(b: Any) -> Any:
        return {"y": spelled(b, *inputs(b, feeds), 0.2, b.input("mask", (205, 530)))}

    assert run(context, build, feeds) == one_launch(context)


@pytest.mark.parametrize("units", [1, 2, 8, 64])
def test_what_is_cut(units: int) -> None:
    """All rows are in blocks, all blocks in items, and no more memory is taken than for the scores."""
    facts: Any = SimpleNamespace(compute_units=units, is_cpu=True)
    for matrices, rows, keys, depth in itertools.product((1, 5, 12), (4, 7, 80, 1000), (1, 80, 3000), (15, 64, 512)):
        extents = Extents(matrices, rows, keys, depth, depth)
        cut = Blocks.of(extents, facts)
        assert cut.block % 6 == 0 and cut.chunk % 16 == 0
        assert cut.blocks == matrices * -(-rows // cut.block) and cut.items * cut.blocks_each >= cut.blocks
        if pays(extents, facts):
            assert cut.scratch_bytes <= max(4 * matrices * rows * keys, SMALL_BYTES)


MASKS = [
    (), (1,), (50,), (9, 50), (9, 1), (1, 1, 50), (3, 9, 50), (1, 3, 1, 1), (2, 1, 1, 50), (2, 1, 9, 50), (2, 3, 9, 50)
]  # fmt: skip


@pytest.mark.parametrize("shape", MASKS)
def test_masks(context: Any, always: None, shape: tuple[int, ...]) -> None:
    feeds = {"q": floats(2, 3, 9, 8), "k": floats(2, 3, 50, 8), "v": floats(2, 3, 50, 8)}
    feeds["mask"] = mask(*shape) if shape and shape[-1] > 1 else floats(*shape)

    def build(b: Any) -> Any:
        return {"y": spelled(b, *inputs(b, feeds), 0.3, b.input("mask", shape))}

    assert run(context, build, feeds) == one_launch(context)


@pytest.mark.parametrize("role", ["q", "k", "k transposed", "scores", "all"])
@pytest.mark.parametrize("operator", ["mul", "div", "reversed mul"])
def test_the_scale_wherever_it_stands(context: Any, always: None, role: str, operator: str) -> None:
    feeds = {name: floats(2, 20, 12) for name in "qkv"}

    def build(b: Any) -> Any:
        def scaled(value: Any, here: str) -> Any:
            number = b.constant(np.float32(0.37))
            if role not in (here, "all"):
                return value
            return b.mul(number, value) if operator == "reversed mul" else getattr(b, operator)(value, number)

        q, k, v = inputs(b, feeds)
        k = scaled(b.transpose(scaled(k, "k"), permutation=[0, 2, 1]), "k transposed")
        scores = scaled(b.matmul(scaled(q, "q"), k), "scores")
        return {"y": b.matmul(b.softmax(scores, 2), v)}

    names = run(context, build, feeds)
    # Two factors of k are one too many: the inner stays a chain of its own.
    assert names[-1:] == one_launch(context) and len(names) == (2 if role == "all" else 1)


def split_heads(b: Any, x: Any, heads: int) -> Any:
    batch, length, width = x.shape
    return b.transpose(b.reshape(x, [batch, length, heads, width // heads]), permutation=[0, 2, 1, 3])


def test_heads_are_split_and_joined_on_the_way(context: Any, always: None) -> None:
    feeds = {name: floats(2, length, 36) for name, length in (("q", 21), ("k", 30), ("v", 30))}

    def build(b: Any) -> Any:
        y = spelled(b, *(split_heads(b, x, 4) for x in inputs(b, feeds)), 1 / 3)
        return {"y": b.relu(b.reshape(b.transpose(y, permutation=[0, 2, 1, 3]), [2, 21, 36]))}

    names = run(context, build, feeds)
    assert names[0:1] == one_launch(context) and len(names) <= 2


def test_queries_keys_and_values_of_one_projection(context: Any, always: None) -> None:
    feeds = {"x": floats(2, 19, 3 * 4 * 7)}

    def build(b: Any) -> Any:
        x = b.transpose(b.reshape(b.input("x", (2, 19, 84)), [2, 19, 3, 4, 7]), permutation=[2, 0, 3, 1, 4])
        q, k, v = (b.reshape(b.slice(x, [i, 0, 0, 0, 0], [1, 2, 4, 19, 7]), [2, 4, 19, 7]) for i in range(3))
        return {"y": spelled(b, q, k, v, 7**-0.5)}

    assert run(context, build, feeds) == one_launch(context)


def test_stacks_in_different_dimensions(context: Any, always: None) -> None:
    feeds = {name: floats(2, 11, 24) for name in "qkv"} | {"mask": mask(2, 1, 11, 11)}

    def build(b: Any) -> Any:
        q, k, v = (b.reshape(split_heads(b, x, 3), [6, 11, 8]) for x in inputs(b, feeds))
        scores = b.reshape(b.matmul(q, b.transpose(k, permutation=[0, 2, 1])), [2, 3, 11, 11])
        scores = b.reshape(b.add(scores, b.input("mask", (2, 1, 11, 11))), [66, 11])
        y = b.matmul(b.reshape(b.softmax(scores, 1), [6, 11, 11]), v)
        return {"y": b.reshape(b.transpose(b.reshape(y, [2, 3, 11, 8]), permutation=[0, 2, 1, 3]), [2, 11, 24])}

    assert run(context, build, feeds) == one_launch(context)


@pytest.mark.parametrize("shape", [(1, 1, 15, 6), (2, 1, 15, 6), (1, 15, 6), (15, 6), (1, 3, 15, 6)])
def test_keys_and_values_that_heads_share(context: Any, always: None, shape: tuple[int, ...]) -> None:
    feeds = {"q": floats(2, 3, 10, 6), "k": floats(*shape), "v": floats(*shape)}

    def build(b: Any) -> Any:
        return {"y": spelled(b, *inputs(b, feeds), 0.4)}

    assert run(context, build, feeds) == one_launch(context)


@pytest.mark.parametrize("infinity", [np.inf, 1e9])
def test_where_chooses_between_scores_and_a_number(context: Any, always: None, infinity: float) -> None:
    feeds = {name: floats(1, 2, 12, 8) for name in "qkv"} | {"keep": np.tri(12, dtype=np.uint8)[None, None]}

    def build(b: Any) -> Any:
        q, k, v = inputs(b, feeds)
        scores = b.mul(b.matmul(q, b.transpose(k, permutation=[0, 1, 3, 2])), b.constant(np.float32(0.3)))
        scores = b.where(b.input("keep", (1, 1, 12, 12), "uint8"), scores, b.constant(np.float32(-infinity)))
        return {"y": b.matmul(b.softmax(scores, 3), v)}

    assert run(context, build, feeds) == one_launch(context)


def test_any_element_wise_chain(context: Any, always: None) -> None:
    feeds = {name: floats(2, 25, 8) for name in "qkv"}
    bias, slope = floats(2, 25, 25), floats(25)

    def build(b: Any) -> Any:
        q, k, v = inputs(b, feeds)
        scores = b.tanh(b.div(b.matmul(q, b.transpose(k, permutation=[0, 2, 1])), b.constant(np.float32(5))))
        scores = b.add(b.constant(bias), b.mul(b.constant(slope), b.mul(scores, b.constant(np.float32(5)))))
        return {"y": b.sigmoid(b.add(b.matmul(b.softmax(scores, 2), v), b.constant(slope[:8])))}

    assert run(context, build, feeds) == one_launch(context)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("keys", [20, 600])
def test_infinities_and_nan(context: Any, always: None, monkeypatch: pytest.MonkeyPatch, keys: int, few: bool) -> None:
    if few:
        monkeypatch.setattr("webnn_cl.ops.attention.FEW_ROWS", 100)
    feeds = {"q": floats(1, 2, 14, 8), "k": floats(1, 2, keys, 8), "v": floats(1, 2, keys, 8)}
    added = np.zeros((1, 2, 14, keys), np.float32)
    added[0, 0, 0] = -np.inf  # nothing left: NaN
    added[0, 0, 1, :-1] = -np.inf  # the last key alone
    added[0, 0, 2, 1:] = -np.inf  # the first
    added[0, 0, 3, 3] = np.inf
    added[0, 0, 4, keys - 1] = np.nan
    added[0, 0, 5] = 3e38  # exponentials must be relative
    added[0, 0, 6] = -3e38
    added[0, 1, :, keys // 2 :] = -np.inf
    feeds["mask"] = added
    feeds["v"][0, 1, 3] = np.inf  # seen by all of the second head
    feeds["v"][0, 1, 4, 1] = np.nan
    feeds["q"][0, 0, 7, 0] = np.inf
    feeds["q"][0, 0, 8, 0] = np.nan
    feeds["v"][0, 0, :, 0] = 3e38  # sums stay in range

    def build(b: Any) -> Any:
        return {"y": spelled(b, *inputs(b, feeds), 0.5, b.input("mask", added.shape))}

    assert run(context, build, feeds) == one_launch(context)


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_a_masked_value_that_is_not_finite(context: Any, always: None, number: float) -> None:
    """Zero times infinity is NaN, also behind a mask."""
    feeds = {name: floats(1, 9, 8) for name in "qkv"} | {"mask": np.where(np.tri(9) > 0, 0, -np.inf).astype(np.float32)}
    feeds["v"][0, 5, 2] = number

    def build(b: Any) -> Any:
        return {"y": spelled(b, *inputs(b, feeds), 0.5, b.input("mask", (9, 9)))}

    run(context, build, feeds)


def test_one_launch_and_no_score_matrix(context: Any) -> None:
    feeds = {name: floats(1, 1024, 4 * 32) for name in "qkv"}

    def build(b: Any) -> Any:
        y = spelled(b, *(split_heads(b, x, 4) for x in inputs(b, feeds)), 32**-0.5)
        return {"y": b.reshape(b.transpose(y, permutation=[0, 2, 1, 3]), [1, 1024, 128])}

    assert run(context, build, feeds) == one_launch(context)
    builder = context.create_graph_builder()
    graph = builder.build(build(builder))
    assert graph._executable.peak_live_bytes < 4 * 4 * 1024 * 1024 / 2


def test_other_scales_and_shapes_make_no_other_kernel(context: Any, always: None) -> None:
    from webnn_cl.opencl.program import STATS

    counts = []
    for scale, shape in ((0.5, (1, 20, 8)), (0.25, (3, 33, 5)), (2.0, (1, 7, 12))):
        feeds = {name: floats(*shape) for name in "qkv"}
        run(context, lambda b, s=scale, f=feeds: {"y": spelled(b, *inputs(b, f), s)}, feeds)
        counts.append(STATS.kernels_built)
    assert counts[0] == counts[1] == counts[2]


def negatives() -> dict[str, Any]:
    """Builders of graphs like attention that must stay as they are, from q, k, v of shape [2, 16, 16]."""

    def products(b: Any, q: Any, k: Any) -> Any:
        return b.matmul(q, b.transpose(k, permutation=[0, 2, 1]))

    def scores_out(b: Any, q: Any, k: Any, v: Any) -> Any:
        s = products(b, q, k)
        return {"s": s, "y": b.matmul(b.softmax(s, 2), v)}

    def weights_out(b: Any, q: Any, k: Any, v: Any) -> Any:
        p = b.softmax(products(b, q, k), 2)
        return {"p": p, "y": b.matmul(p, v)}

    def weights_reused(b: Any, q: Any, k: Any, v: Any) -> Any:
        p = b.softmax(products(b, q, k), 2)
        return {"y": b.matmul(p, v), "z": b.reduce_max(p, axes=[2])}

    def scores_reused(b: Any, q: Any, k: Any, v: Any) -> Any:
        s = products(b, q, k)
        return {"y": b.matmul(b.softmax(b.mul(s, b.sigmoid(s)), 2), v)}

    def other_axis(b: Any, q: Any, k: Any, v: Any) -> Any:
        return {"y": b.matmul(b.softmax(products(b, q, k), 1), v)}

    def right_operand(b: Any, q: Any, k: Any, v: Any) -> Any:
        return {"y": b.matmul(v, b.softmax(products(b, q, k), 2))}

    def both_operands(b: Any, q: Any, k: Any, v: Any) -> Any:
        p = b.softmax(products(b, q, k), 2)
        return {"y": b.matmul(p, p)}

    def turned_weights(b: Any, q: Any, k: Any, v: Any) -> Any:
        return {"y": b.matmul(b.transpose(b.softmax(products(b, q, k), 2), permutation=[0, 2, 1]), v)}

    def weights_of_other_rows(b: Any, q: Any, k: Any, v: Any) -> Any:
        p = b.reshape(b.softmax(b.reshape(products(b, q, k), [2, 8, 32]), 2), [2, 16, 16])
        return {"y": b.matmul(p, v)}

    def shared_weights(b: Any, q: Any, k: Any, v: Any) -> Any:
        p = b.softmax(b.matmul(b.slice(q, [0, 0, 0], [1, 16, 16]), b.slice(k, [0, 0, 0], [1, 16, 16])), 2)
        return {"y": b.matmul(p, v)}

    def changed_weights(b: Any, q: Any, k: Any, v: Any) -> Any:
        return {"y": b.matmul(b.relu(b.softmax(products(b, q, k), 2)), v)}

    return {f.__name__: f for f in locals().values() if callable(f) and f is not products}


@pytest.mark.parametrize("name", negatives())
def test_what_is_left_alone(context: Any, always: None, name: str) -> None:
    feeds = {key: floats(2, 16, 16) for key in "qkv"}
    assert "attention" not in run(context, lambda b: negatives()[name](b, *inputs(b, feeds)), feeds)


def test_float16_is_left_alone(context: Any, always: None) -> None:
    feeds = {name: floats(2, 16, 16).astype(np.float16) for name in "qkv"}

    def build(b: Any) -> Any:
        return {"y": spelled(b, *(b.input(name, (2, 16, 16), "float16") for name in "qkv"))}

    assert "attention" not in run(context, build, feeds, 2e-3)
