"""A first graph by hand: one layer of a neural network, relu(x @ w + b), on any OpenCL device.

python examples/first_graph.py
"""

from __future__ import annotations

import numpy as np

import webnn_cl

weights = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]], np.float32)
bias = np.array([0.5, -0.5], np.float32)

with webnn_cl.ML().create_context() as context:
    builder = context.create_graph_builder()
    x = builder.input("x", (2, 3))  # two rows of three numbers, float32
    y = builder.relu(x @ builder.constant(weights) + builder.constant(bias))
    graph = builder.build({"y": y})

    # In one call: numpy arrays in, numpy arrays out.
    rows = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
    result = context.compute(graph, {"x": rows})["y"]
    print(f"on {context.device.name}:\n{result}")
    assert np.allclose(result, np.maximum(rows @ weights + bias, 0))

    # The same with tensors that stay on the device: nothing waits until the result is read.
    source = context.create_tensor((2, 3), writable=True)
    target = context.create_tensor((2, 2), readable=True)
    for scale in (1, 10, 100):
        context.write_tensor(source, rows * np.float32(scale))
        context.dispatch(graph, {"x": source}, {"y": target})
        print(f"times {scale}: {context.read_tensor(target).tolist()}")
