"""Batch normalization as an element-wise operator with one factor per channel, so that it fuses like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.ir import Node, TensorDesc
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.expansion import Expansion
from webnn_cl.ops.expression import Expression
from webnn_cl.ops.record import FLOATS, Operand, OpRecord, Output

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg, Lowering

__all__ = ["BATCH_NORM_APPLY", "BATCH_NORM_FACTOR", "expand_batch_norm"]


def _lower_factor(node: Node, lw: Lowering) -> None:
    variance, scale = node.inputs["variance"], node.inputs.get("scale")
    defines = {"T": dtype_of(variance.data_type).storage, "HAS_SCALE": int(scale is not None)}
    operands: list[Arg] = [variance] if scale is None else [variance, scale]
    channels = variance.desc.size
    args = [*operands, node.output, np.float32(node.attrs["epsilon"]), np.int64(channels)]
    lw.launch(Kernel("batch_norm.cl", "batch_norm_factor", defines), args, (channels,), (64,))


# scale / sqrt(variance + epsilon) per channel, in float32 whatever the operands are.
BATCH_NORM_FACTOR = OpRecord(
    "batch_norm_factor",
    "",
    (Operand("variance", FLOATS), Operand("scale", FLOATS, optional=True)),
    (Output("output", dtypes=("float32",)),),
    lower=_lower_factor,
)
# The rest: parameters have a shape that broadcasts to the input's.
BATCH_NORM_APPLY = OpRecord(
    "batch_norm_apply",
    "",
    (
        Operand("input", FLOATS),
        Operand("mean", FLOATS),
        Operand("factor", ("float32",)),
        Operand("bias", FLOATS, optional=True),
    ),
    (Output("output", like="input"),),
    expression=Expression(
        lambda node: "({input} - {mean}) * {factor}" + (" + {bias}" if "bias" in node.inputs else "")
    ),
)


def expand_batch_norm(node: Node) -> list[Node]:
    """The nodes that `node` (batch_normalization) stands for."""
    parts, x, attrs = Expansion(node), node.inputs["input"], node.attrs
    factor_of = {role: value for role, value in node.inputs.items() if role in ("variance", "scale")}
    channels = TensorDesc("float32", node.inputs["variance"].shape)
    parameters = {
        "mean": node.inputs["mean"],
        "factor": parts.add(BATCH_NORM_FACTOR, factor_of, {"epsilon": attrs["epsilon"]}, channels),
    }
    if "bias" in node.inputs:
        parameters["bias"] = node.inputs["bias"]
    shape = (x.shape[attrs["axis"]], *[1] * (x.desc.rank - attrs["axis"] - 1))
    placed = {role: parts.reshaped(value, shape) for role, value in parameters.items()}
    parts.add(BATCH_NORM_APPLY, {"input": x, **placed}, {}, x.desc)
    return parts.nodes
