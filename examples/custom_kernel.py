"""Your own OpenCL operator, three ways: on tensors, as a node of a graph, and as an expression that fuses.

python examples/custom_kernel.py
"""

from __future__ import annotations

import numpy as np

import webnn_cl

# Only the body is written: the signature, the index i and the bounds check are generated.
swish = webnn_cl.CustomOp(
    "swish_scale",
    inputs=("x", "scale"),
    outputs=("y",),
    body="y[i] = x[i] / (1.0f + exp(-x[i])) * scale[0];",
)

x = np.linspace(-4, 4, 9, dtype=np.float32)
scale = np.float32([2])
expected = x / (1 + np.exp(-x)) * 2

with webnn_cl.ML().create_context() as context:
    # Straight on tensors: rented and returned by the operator itself, in the order of the context's other work.
    flags = {"readable": True, "writable": True, "exportable": True}
    tensors = {name: context.create_tensor(a.shape, **flags) for name, a in {"x": x, "scale": scale, "y": x}.items()}
    context.write_tensor(tensors["x"], x)
    context.write_tensor(tensors["scale"], scale)
    swish(context, inputs={"x": tensors["x"], "scale": tensors["scale"]}, outputs={"y": tensors["y"]})
    print("on tensors:   ", context.read_tensor(tensors["y"]))

    # As a node: its buffers are planned with those of the operators around it.
    builder = context.create_graph_builder()
    operand = builder.input("x", x.shape)
    y = builder.custom_op(swish, operand, builder.constant(scale))
    # As an expression: fused with its element-wise neighbours into one kernel.
    z = builder.elementwise("a * tanh(log1p(exp(a)))", a=operand)
    graph = builder.build({"y": builder.relu(y), "z": z})
    result = context.compute(graph, {"x": x})
    print("in a graph:   ", result["y"])
    print("an expression:", result["z"])

    assert np.allclose(context.read_tensor(tensors["y"]), expected, atol=1e-5)
    assert np.allclose(result["y"], np.maximum(expected, 0), atol=1e-5)
    assert np.allclose(result["z"], x * np.tanh(np.log1p(np.exp(x))), atol=1e-5)
    print("\nthe text that the compiler gets ends with\n" + swish.source(operand, operand)[-330:].strip())
