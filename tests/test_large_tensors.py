"""Tensors of more than 2^31 bytes, and of more elements than a quarter of that: every index is 64 bits wide."""

from __future__ import annotations

import numpy as np
import psutil
import pytest

NEEDED_BYTES = 14 << 30


@pytest.fixture(autouse=True)
def room(context):
    if context.op_support_limits()["maxTensorByteLength"] < 3 << 30:
        pytest.skip("device: its largest allocation is below 3 GiB")
    if psutil.virtual_memory().available < NEEDED_BYTES:
        pytest.skip("device: less than 14 GiB of memory are free")


def run(context, graph, array):
    x = context.create_tensor(array.shape, writable=True)
    outputs = {name: context.create_tensor(d.shape, d.data_type, readable=True) for name, d in graph.outputs.items()}
    context.write_tensor(x, array)
    context.dispatch(graph, {"x": x}, outputs)
    results = {name: context.read_tensor(tensor) for name, tensor in outputs.items()}
    for tensor in (x, *outputs.values()):
        tensor.destroy()
    return results


@pytest.mark.slow
def test_one_dimension(context):
    n = 600_000_001
    b = context.create_graph_builder()
    x = b.input("x", (n,))
    far = np.array([0, n - 1, 536870913, 536870911], np.int32)
    outputs = {"neg": b.neg(x), "slice": b.slice(x, [n - 5], [5]), "reverse": b.slice(b.reverse(x), [0], [7])}
    outputs |= {"gather": b.gather(x, b.constant(far)), "max": b.reduce_max(x), "arg_max": b.arg_max(x, 0)}
    array = np.zeros(n, np.float32)
    array[[-1, 536870912, 536870913, -4]] = 5, 7, 3, 2
    found = run(context, b.build(outputs), array)
    assert np.array_equal(found["slice"], array[-5:]) and np.array_equal(found["reverse"], array[::-1][:7])
    assert np.array_equal(found["gather"], array[far])
    assert (found["max"], found["arg_max"]) == (7, 536870912)
    np.negative(array, out=array)
    assert np.array_equal(found["neg"], array)


@pytest.mark.slow
def test_two_dimensions(context):
    shape = (24500, 24600)
    b = context.create_graph_builder()
    x = b.input("x", shape)
    graph = b.build({"turned": b.transpose(x), "down": b.reduce_sum(x, axes=[0]), "across": b.reduce_sum(x, axes=[1])})
    array = np.zeros(shape, np.float32)
    array[-1, -1], array[24000, 3], array[0, 24599] = 1, 2, 3
    found = run(context, graph, array)
    assert np.array_equal(found["down"], array.sum(0)) and np.array_equal(found["across"], array.sum(1))
    assert np.array_equal(found["turned"], array.T)
