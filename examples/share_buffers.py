"""A graph and your own pyopencl kernel on one tensor, without a copy and without waiting on the host.

A convolution runs as a WebNN graph; bias and relu are a kernel of ours, enqueued on the same memory; then a second
graph takes over.

python examples/share_buffers.py
"""

from __future__ import annotations

import numpy as np
import pyopencl as cl

import webnn_cl

KERNEL = """
kernel void bias_relu(global float *x, global const float *bias, const int channels) {
  const size_t i = get_global_id(0);
  x[i] = fmax(x[i] + bias[i % channels], 0.0f);
}
"""
rng = np.random.default_rng(0)
image = rng.standard_normal((1, 32, 32, 3)).astype(np.float32)
weights = rng.standard_normal((8, 3, 3, 3)).astype(np.float32)
bias = rng.standard_normal(8).astype(np.float32)

with webnn_cl.ML().create_context() as context:
    builder = context.create_graph_builder()
    x = builder.input("x", image.shape)
    convolution = builder.build(
        {"y": builder.conv2d(x, builder.constant(weights), padding=[1, 1, 1, 1], input_layout="nhwc")}
    )
    builder = context.create_graph_builder()
    mean = builder.build({"m": builder.reduce_mean(builder.input("y", (1, 32, 32, 8)), axes=[1, 2])})

    kernel = cl.Program(context.cl_context, KERNEL).build().bias_relu
    bias_buffer = cl.Buffer(context.cl_context, cl.mem_flags.COPY_HOST_PTR, hostbuf=bias)

    source = context.create_tensor(image.shape, writable=True)
    shared = context.create_tensor((1, 32, 32, 8), readable=True, exportable=True)
    means = context.create_tensor((1, 8), readable=True)

    context.write_tensor(source, image)
    context.dispatch(convolution, {"x": source}, {"y": shared})
    with context.export_tensor(shared) as lease:  # rented: exclusive until the block ends
        assert lease.zero_copy  # the tensor's own memory
        kernel(lease.queue, (32 * 32 * 8,), (64,), lease.buffer, bias_buffer, np.int32(8))
    context.dispatch(mean, {"y": shared}, {"m": means})  # in order: after our kernel
    print("mean per channel:", context.read_tensor(means)[0])  # the first wait

    # The same, all in one graph.
    builder = context.create_graph_builder()
    y = builder.conv2d(
        builder.input("x", image.shape), builder.constant(weights), bias=builder.constant(bias),
        padding=[1, 1, 1, 1], input_layout="nhwc",
    )  # fmt: skip
    whole = builder.build({"m": builder.reduce_mean(builder.relu(y), axes=[1, 2])})
    assert np.allclose(context.compute(whole, {"x": image})["m"], context.read_tensor(means), atol=1e-4)
