"""The float64 reference behind the builder's methods: the same lines of code give a graph, or its values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests import reference

__all__ = ["NumpyBuilder", "check_graph"]

Array = np.ndarray[Any, Any]


class NumpyBuilder:
    """Evaluates every operator at once in the reference; operands are numpy arrays."""

    def __init__(self, feeds: Mapping[str, Array]) -> None:
        self._feeds = feeds

    def input(self, name: str, shape: tuple[int, ...], data_type: str = "float32") -> Array:
        assert self._feeds[name].shape == tuple(shape), (name, self._feeds[name].shape)
        return self._feeds[name]

    def constant(self, data: Any, data_type: str | None = None) -> Array:
        return np.asarray(data, dtype=data_type)

    def __getattr__(self, op: str) -> Callable[..., Any]:
        model = reference.MODELS[op]

        def method(*args: Any, **options: Any) -> Any:
            given = inspect.signature(model.function).bind(*args, **options).arguments
            outputs = reference.evaluate(op, given)
            return outputs if op in ("split", "gru", "lstm", "lstm_cell") else outputs[0]

        return method


def check_graph(
    context: Any,
    build: Callable[[Any], Mapping[str, Any]],
    feeds: Mapping[str, Array],
    tolerance: float = 2e-5,
) -> Any:
    """Build and run ``build(builder)`` on the device and in the reference; the graph.

    `tolerance` bounds the largest error relative to the largest magnitude of each output.
    """
    expected = build(NumpyBuilder(feeds))
    builder = context.create_graph_builder()
    graph = builder.build(build(builder))
    used = {name: feeds[name] for name in graph.inputs}
    for _ in range(2):  # the second inference is as right as the first
        result = context.compute(graph, used)
        for name, value in expected.items():
            assert result[name].shape == value.shape, name
            scale = max(float(np.abs(np.nan_to_num(value.astype(np.float64))).max()), 1e-30)
            error = np.abs(result[name].astype(np.float64) - value.astype(np.float64)).max() / scale
            assert error <= tolerance, (name, error)
    return graph
