"""How much arithmetic a graph asks for: two operations per multiply-add of its convolutions, products and cells."""

from __future__ import annotations

from webnn_cl.compiler.ir import Graph, Node, TensorDesc

__all__ = ["flops"]


def flops(graph: Graph) -> int:
    """Floating-point operations of one run: what a multiply-add count, as papers give it, comes to, times two.

    Element-wise operators, reductions and moves are left out.
    """
    return sum(2 * multiply_adds(node) for node in graph.nodes)


def multiply_adds(node: Node) -> int:
    """Multiply-adds of one node; 0 for operators that are not sums of products."""
    name = node.op.name
    if name == "conv2d":
        return _desc(node, "filter").size * node.outputs[0].desc.size // _channels(node, node.outputs[0].desc)
    if name == "conv_transpose2d":
        # Each input element meets a filter of (output channels / groups) x height x width, whatever the layout.
        return _desc(node, "filter").size * _desc(node, "input").size // _channels(node, _desc(node, "input"))
    if name == "matmul":
        return node.outputs[0].desc.size * _desc(node, "a").shape[-1]
    if name == "gemm":
        return node.outputs[0].desc.size * _desc(node, "a").size // node.outputs[0].desc.shape[0]
    if name in ("lstm", "gru", "lstm_cell", "gru_cell"):
        batch = _desc(node, "input").shape[-2]
        per_step = _desc(node, "weight").size + _desc(node, "recurrent_weight").size
        return batch * per_step * int(node.attrs.get("steps", 1))
    return 0


def _desc(node: Node, role: str) -> TensorDesc:
    return node.inputs[role].desc


def _channels(node: Node, image: TensorDesc) -> int:
    return image.shape[1] if node.attrs["input_layout"] == "nchw" else image.shape[3]
