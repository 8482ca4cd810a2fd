"""Handlers of the ONNX operators, by family; importing this package fills the table of webnn_cl.onnx.registry."""

from webnn_cl.onnx.operators import (  # noqa: F401
    activation,
    casting,
    control,
    convolution,
    elementwise,
    indexing,
    matrix,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    resize,
    sequences,
    shaping,
    signal,
    training,
    vision,
)
