"""Typical workloads to tune without a model: products and convolutions of common networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.context import MLContext

__all__ = ["PRODUCTS", "typical_nodes"]

# (rows, depth, columns): square, a transformer's projections, a classifier.
PRODUCTS = ((1024, 1024, 1024), (256, 256, 256), (128, 768, 768), (128, 768, 3072), (1, 2048, 1000))
# (height and width, input channels, output channels, taps, stride, groups) of MobileNet and ResNet.
CONVOLUTIONS = (
    (224, 3, 64, 7, 2, 1), (56, 64, 64, 3, 1, 1), (28, 128, 128, 3, 1, 1), (14, 256, 256, 3, 1, 1),
    (7, 512, 512, 3, 1, 1), (56, 64, 256, 1, 1, 1), (14, 96, 576, 1, 1, 1), (14, 576, 576, 3, 1, 576),
    (112, 64, 64, 3, 2, 64), (28, 128, 256, 3, 2, 1),
)  # fmt: skip


def typical_nodes(context: MLContext) -> list[Node]:
    """One node per workload, with constant weights; nothing is built."""
    builder = context.create_graph_builder()
    outputs = [_product(builder, k, *sizes) for k, sizes in enumerate(PRODUCTS)]
    outputs += [_convolution(builder, k, *sizes) for k, sizes in enumerate(CONVOLUTIONS)]
    nodes = [output._value.producer for output in outputs]
    return [node for node in nodes if node is not None]


def _product(builder: Any, index: int, rows: int, depth: int, columns: int) -> Any:
    weights = builder.constant(np.zeros((depth, columns), np.float32))
    return builder.matmul(builder.input(f"a{index}", (rows, depth)), weights)


def _convolution(
    builder: Any, index: int, size: int, inputs: int, outputs: int, taps: int, stride: int, groups: int
) -> Any:
    weights = builder.constant(np.zeros((outputs, inputs // groups, taps, taps), np.float32))
    before = taps // 2
    return builder.conv2d(
        builder.input(f"x{index}", (1, size, size, inputs)), weights, input_layout="nhwc", groups=groups,
        strides=[stride, stride], padding=[before] * 4,
    )  # fmt: skip
