"""The four paths of `buffer_sharing`, and what a hand-over costs, as pytest benchmarks."""

from __future__ import annotations

import numpy as np
import pytest

import webnn_cl
from tests.benchmarks.buffer_sharing import SHAPE, Experiment


@pytest.fixture(scope="module")
def experiment(pytestconfig):
    return Experiment(pytestconfig.getoption("--device"))


@pytest.fixture(scope="module")
def two_devices(pytestconfig):
    first = webnn_cl.ML().create_context(device=pytestconfig.getoption("--device")).device
    others = [d for d in webnn_cl.ML().devices() if d.index != first.index]
    if not others:
        pytest.skip("device: there is one only (POCL_DEVICES='pthread basic' gives PoCL two)")
    return Experiment(str(first.index), str(others[0].index))


def expected(experiment: Experiment) -> np.ndarray:
    """The result in float64."""
    padded = np.pad(experiment.image[0].astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    weights = experiment.weights.astype(np.float64)
    rows, columns = SHAPE[1:3]
    total = sum(
        padded[r : r + rows, c : c + columns] @ weights[:, r, c].T for r in range(3) for c in range(3)
    )
    return np.maximum(total + experiment.bias, 0)[None]


PATHS = ["1 all in user kernels", "2 over the host", "3 on the shared buffer", "4 all in WebNN"]


@pytest.mark.parametrize("path", PATHS)
def test_path(benchmark, experiment, path):
    result = benchmark(experiment.paths[path])
    np.testing.assert_allclose(result, expected(experiment), atol=2e-4)


@pytest.mark.parametrize("path", PATHS[1:3])
def test_path_over_two_devices(benchmark, two_devices, path):
    result = benchmark(two_devices.paths[path])
    np.testing.assert_allclose(result, expected(two_devices), atol=2e-4)


def test_hand_over(benchmark, experiment):
    """Export and return on the context's own queue: nothing waits."""
    tensor = experiment.result

    def rent() -> None:
        with experiment.context.export_tensor(tensor) as lease:
            assert lease.zero_copy

    benchmark(rent)


def test_dispatch_of_a_tiny_graph(benchmark, experiment):
    context = experiment.context
    b = context.create_graph_builder()
    graph = b.build({"y": b.relu(b.input("x", (64,)))})
    x, y = context.create_tensor((64,)), context.create_tensor((64,))

    def run() -> None:
        context.dispatch(graph, {"x": x}, {"y": y})
        context.finish()

    benchmark(run)
