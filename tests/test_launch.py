"""Dispatching again what is bound already, and sessions that run with one wait: never on the wrong memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webnn_cl
from tests.onnx.models import FLOAT, model, numbers
from tests.work import affine, tensor
from webnn_cl import InvalidStateError, MLTypeError
from webnn_cl.onnx import InferenceSession, compiled


@pytest.fixture
def session(context: webnn_cl.MLContext) -> InferenceSession:
    """y = x @ w, z = -x @ w, for any batch."""
    from onnx import helper

    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    made = model(nodes, {"x": (FLOAT, ["batch", 16])}, ["y", "z"], weights={"w": numbers(16, 8)})
    return InferenceSession(made.SerializeToString(), context)


def test_a_second_dispatch_checks_and_binds_nothing(
    context: webnn_cl.MLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, x, y = affine(context, 2.0, (8,)), tensor(context, 1.0, (8,)), tensor(context, shape=(8,))
    context.dispatch(graph, {"x": x}, {"y": y})
    executable = graph._executable
    assert executable is not None
    monkeypatch.setattr("webnn_cl.context.bind", None)
    monkeypatch.setattr(executable._main, "bind", None)
    context.dispatch(graph, {"x": x}, {"y": y})
    assert (context.read_tensor(y) == 2).all()


def test_only_what_changed_is_bound(context: webnn_cl.MLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, x, y, z = affine(context, 2.0, (8,)), *(tensor(context, value, (8,)) for value in (1.0, 0.0, 0.0))
    context.dispatch(graph, {"x": x}, {"y": y})
    executable = graph._executable
    assert executable is not None
    bound, bind = [], executable._main.bind

    def noted(buffer: Any, memory: Any) -> None:
        bound.append(buffer.name)
        bind(buffer, memory)

    monkeypatch.setattr(executable._main, "bind", noted)
    context.dispatch(graph, {"x": x}, {"y": z})
    assert bound == ["y"] and (context.read_tensor(z) == 2).all()


def test_a_binding_that_fails_leaves_nothing_bound(
    context: webnn_cl.MLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, x, y = affine(context, 2.0, (8,)), tensor(context, 1.0, (8,)), tensor(context, 0.0, (8,))
    other_x, other_y = tensor(context, 3.0, (8,)), tensor(context, 0.0, (8,))
    context.dispatch(graph, {"x": x}, {"y": y})
    executable = graph._executable
    assert executable is not None
    left, bind = [1], executable._main.bind

    def fails_second(buffer: Any, memory: Any) -> None:
        if not left:
            raise MemoryError("none left")
        left.pop()
        bind(buffer, memory)

    with monkeypatch.context() as patch:
        patch.setattr(executable._main, "bind", fails_second)
        with pytest.raises(MemoryError):
            context.dispatch(graph, {"x": other_x}, {"y": other_y})
    context.dispatch(graph, {"x": x}, {"y": y})
    assert (context.read_tensor(y) == 2).all() and (context.read_tensor(other_y) == 0).all()


def test_memory_that_changes_between_dispatches_is_bound(context: webnn_cl.MLContext) -> None:
    """New memory by a write, other tensors, the same tensors in other places, and compute() in between."""
    graph = affine(context, 2.0, (8,), offset=1.0)
    x, y, z = tensor(context, 1.0, (8,)), tensor(context, shape=(8,)), tensor(context, shape=(8,))
    results: list[Any] = []
    for value in (1.0, 3.0):
        for _ in range(3):
            context.dispatch(graph, {"x": x}, {"y": y})
        first = context.read_tensor(y)
        context.dispatch(graph, {"x": y}, {"y": z})
        context.dispatch(graph, {"x": z}, {"y": y})
        results.append((first, context.read_tensor(z), context.read_tensor(y)))
        (computed,) = context.compute(graph, {"x": np.full(8, value, np.float32)}).values()
        context.dispatch(graph, {"x": x}, {"y": y})
        assert (context.read_tensor(y) == first).all() and (computed == first).all()
        context.write_tensor(x, np.full(8, 3.0, np.float32))
    for value, (first, second, third) in zip((1.0, 3.0), results, strict=True):
        assert (first == 2 * value + 1).all()
        assert (second == 2 * first + 1).all() and (third == 2 * second + 1).all()


def test_what_ended_is_told_apart_from_what_is_bound(context: webnn_cl.MLContext) -> None:
    graph, x, y = affine(context, 2.0, (8,)), tensor(context, 1.0, (8,)), tensor(context, shape=(8,))
    for _ in range(3):
        context.dispatch(graph, {"x": x}, {"y": y})
    with pytest.raises(MLTypeError):
        context.dispatch(graph, {"x": x, "other": x}, {"y": y})
    with pytest.raises(MLTypeError):
        context.dispatch(graph, {"other": x}, {"y": y})
    with pytest.raises(MLTypeError):
        context.dispatch(graph, None, {"y": y})  # type: ignore[arg-type]
    with webnn_cl.ML().create_context() as other, pytest.raises(MLTypeError):
        other.dispatch(graph, {"x": x}, {"y": y})
    y.destroy()
    with pytest.raises(MLTypeError, match="destroyed"):
        context.dispatch(graph, {"x": x}, {"y": y})
    y = tensor(context, shape=(8,))
    for _ in range(3):
        context.dispatch(graph, {"x": x}, {"y": y})
    graph.destroy()
    with pytest.raises(InvalidStateError):
        context.dispatch(graph, {"x": x}, {"y": y})


def test_an_open_lease_stops_a_dispatch_that_is_bound(context: webnn_cl.MLContext) -> None:
    graph = affine(context, 2.0, (8,))
    x, y = tensor(context, 1.0, (8,), exportable=True), tensor(context, shape=(8,))
    for _ in range(3):
        context.dispatch(graph, {"x": x}, {"y": y})
    before = context.read_tensor(y)
    with context.map_tensor(x) as lease:
        context.dispatch(graph, {"x": x}, {"y": y})
        np.asarray(lease)[:] = 5.0
    assert (context.read_tensor(y) == before + 8).all()


def test_runs_of_a_session_are_independent(context: webnn_cl.MLContext, session: InferenceSession) -> None:
    """Results of one run stay as they are; types, shapes, names and layouts of feeds change between runs."""
    w, kept = numbers(16, 8), []
    for seed, batch in enumerate((2, 2, 2, 5, 2)):
        x = numbers(16, batch, seed=seed).T if seed % 2 else numbers(batch, 16, seed=seed)
        kept.append((session.run(None, {"x": x}), x @ w))
        (z,) = session.run(["z"], {"x": x})
        np.testing.assert_allclose(z, -(x @ w), rtol=1e-4, atol=1e-5)
    for (y, z), exact in kept:
        np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(z, -exact, rtol=1e-4, atol=1e-5)
    twice = session.run(["y", "y"], {"x": x})
    twice[0][:] = 0
    assert twice[1].any()
    for wrong in (np.zeros((2, 16)), np.zeros((2, 15), np.float32), "x"):
        with pytest.raises(MLTypeError):
            session.run(None, {"x": wrong})
    with pytest.raises(MLTypeError):
        session.run(None, {"q": x})
    session.destroy()
    with pytest.raises(InvalidStateError):
        session.run(None, {"x": x})


def test_both_ways_of_a_session_agree(
    context: webnn_cl.MLContext, session: InferenceSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one wait, and tensor by tensor, as on devices with memory of their own and while a lease is open."""
    x = numbers(3, 16)
    here = session.run(None, {"x": x})
    leased = tensor(context, 1.0, (4,), exportable=True)
    with context.map_tensor(leased):
        under_lease = session.run(None, {"x": x})
    monkeypatch.setattr(compiled, "run_here", lambda *_: False)
    for other in (under_lease, session.run(None, {"x": x})):
        for a, b in zip(here, other, strict=True):
            np.testing.assert_array_equal(a, b)
