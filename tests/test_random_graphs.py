"""Two hundred random graphs against the reference; thousands by `python -m tests.random_graphs`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests import random_graphs

GROUP = 20


@pytest.mark.parametrize("group", range(10))
def test_graphs_agree_with_the_reference(group: int, context: Any) -> None:
    reports = [random_graphs.check(context, seed) for seed in range(group * GROUP, (group + 1) * GROUP)]
    failed = [report for report in reports if report]
    assert not failed, "\n\n".join(failed)


def test_graphs_are_as_described() -> None:
    graphs = [random_graphs.Generator(seed).generate() for seed in range(200)]
    sizes = [len(graph.steps) for graph in graphs]
    assert min(sizes) == 1
    assert 30 < max(sizes) <= random_graphs.LARGEST
    used = {step.op for graph in graphs for step in graph.steps}
    assert len(used) > 85


def test_a_seed_gives_one_graph() -> None:
    first, second = (random_graphs.Generator(11).generate() for _ in range(2))
    assert str(first) == str(second)
    for name, value in first.values.items():
        np.testing.assert_array_equal(value.array, second.values[name].array)


def test_a_wrong_value_is_found_and_shrunk(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = 4
    graph = random_graphs.Generator(seed).generate()
    culprit = graph.outputs[0]
    honest = random_graphs.evaluate

    def broken(context: Any, part: random_graphs.Graph) -> dict[str, Any]:
        results = honest(context, part)
        if culprit in results:
            results[culprit] = results[culprit] + np.ones((), results[culprit].dtype)
        return results

    monkeypatch.setattr(random_graphs, "evaluate", broken)
    report = random_graphs.check(context, seed)
    assert report is not None
    assert f"seed {seed} " in report and f"outputs: {culprit}" in report
