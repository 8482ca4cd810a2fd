"""Transposed convolutions whose groups don't divide the input channels, which the specification lets pass.

Input channel ic belongs to group ``ic // (channels / groups)`` by exact division, so that groups differ in size and
some may have no input at all. Such a node becomes one of a single group, its filter filled up with zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.ir import Node, TensorDesc
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.expansion import Expansion
from webnn_cl.ops.record import FLOATS, Operand, OpRecord, Output

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Lowering

__all__ = ["expand_uneven_groups"]


def _lower(node: Node, lw: Lowering) -> None:
    x, y, layout = node.inputs["input"], node.output, node.attrs["filter_layout"]
    kernel = Kernel("spread_groups.cl", "spread_groups", {"T": dtype_of(x.data_type).storage})
    channels = [np.int32(layout.index(letter)) for letter in "io"]
    args = [x, y, dims(y.shape), *channels, np.int64(node.attrs["groups"]), np.int64(y.desc.size)]
    lw.launch(kernel, args, (y.desc.size,), (64,))


_SPREAD = OpRecord(
    "spread_groups", "", (Operand("input", FLOATS, (4, 4)),), (Output("output", like="input"),), lower=_lower
)


def expand_uneven_groups(node: Node) -> list[Node]:
    """The nodes that a conv_transpose2d with uneven groups stands for; none for any other."""
    attrs, x, filter = node.attrs, node.inputs["input"], node.inputs["filter"]
    groups, layout = attrs["groups"], attrs["filter_layout"]
    if x.shape[attrs["input_layout"].index("c")] % groups == 0:
        return []
    parts = Expansion(node)
    shape = list(filter.shape)
    shape[layout.index("o")] *= groups
    desc = TensorDesc(filter.data_type, tuple(shape))
    spread = parts.add(_SPREAD, {"input": filter}, {"filter_layout": layout, "groups": groups}, desc)
    parts.add(node.op, {**node.inputs, "filter": spread}, {**attrs, "groups": 1}, node.output.desc)
    return parts.nodes
