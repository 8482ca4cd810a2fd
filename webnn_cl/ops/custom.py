"""Users' own operators as nodes of a graph: CustomOp kernels, and element-wise expressions that fuse."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from webnn_cl.compiler.ir import Node, TensorDesc
from webnn_cl.dtypes import dtype_of, normalize_data_type
from webnn_cl.errors import argument_error
from webnn_cl.interop.custom_op import CustomOp
from webnn_cl.interop.source import KEYWORDS
from webnn_cl.operand import MLOperand
from webnn_cl.ops.base import BuilderBase, broadcast
from webnn_cl.ops.expression import Expression
from webnn_cl.ops.record import ANY, Operand, OpRecord, Output

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Lowering

__all__ = ["CustomMixin"]

# Comparisons and logic give -1 on vectors where they give 1 on scalars; casts and conditions need scalars.
_SCALAR_ONLY = re.compile(r"[<>=!?&|~^%;{]|\(\s*(?:float|double|half|u?int|u?char|u?short|u?long)\s*\)")


class CustomMixin(BuilderBase):
    """Builder methods for users' own operators."""

    def custom_op(
        self,
        op: CustomOp,
        *operands: MLOperand,
        params: Mapping[str, object] | None = None,
        label: str = "",
    ) -> MLOperand | list[MLOperand]:
        """The outputs of `op` on `operands` (in the order of its inputs); a list when it has several.

        Its buffers are planned with those of the built-in operators. Raises MLTypeError for operands or `params`
        that `op` doesn't take; a kernel that doesn't compile raises OperationError at build().
        """
        if not isinstance(op, CustomOp):
            raise argument_error("custom_op", "op", repr(op), "a CustomOp")
        call = self._call(_record_of(op), label)
        if len(operands) != len(op.inputs):
            raise call.error("operands", f"{len(operands)} operands", f"{len(op.inputs)}: {', '.join(op.inputs)}")
        inputs = {name: call.operand(name, given).desc for name, given in zip(op.inputs, operands, strict=True)}
        outputs = op._infer(inputs, self._max_rank, self._max_tensor_bytes)
        scalars = op._arguments(outputs, params or {})
        results = call.emit_many(list(outputs.values()), {"scalars": scalars, "op": op})
        return results[0] if len(results) == 1 else results

    def elementwise(
        self, expression: str, *, data_type: object | None = None, label: str = "", **operands: MLOperand
    ) -> MLOperand:
        """A scalar OpenCL C expression of `operands`, by name, for every element; fused like a built-in operator.

        ``builder.elementwise("a * tanh(log1p(exp(a)))", a=x)``. Operands broadcast to one shape; float16 ones are
        floats in the expression. The result has `data_type`, by default the first operand's. Raises MLTypeError for
        shapes that don't broadcast; an expression that doesn't compile raises OperationError at build().
        """
        if not isinstance(expression, str) or not expression.strip():
            raise argument_error("elementwise", "expression", repr(expression), "a non-empty str")
        if not operands:
            raise argument_error("elementwise", "operands", "none", "at least one, by name")
        for name in operands:
            if not name.isascii() or not name.isidentifier() or name in KEYWORDS:
                raise argument_error("elementwise", "operands", repr(name), "C identifiers that are no keywords")
        record = _expression_record(expression, tuple(operands))
        call = self._call(record, label)
        values = [call.operand(name, given) for name, given in operands.items()]
        shape: tuple[int, ...] | None = ()
        for name, value in zip(operands, values, strict=True):
            shape = broadcast(shape or (), value.shape)
            if shape is None:
                raise call.error(name, list(value.shape), "shapes that broadcast together")
        kind = values[0].data_type if data_type is None else normalize_data_type(data_type, "elementwise: data_type")
        return call.emit(TensorDesc(kind, shape or ()), {"expression": expression, "names": tuple(operands)})


def _record_of(op: CustomOp) -> OpRecord:
    return OpRecord(
        op.name,
        "",
        tuple(Operand(name, ANY) for name in op.inputs),
        tuple(Output(name) for name in op.outputs),
        lower=_lower_custom,
    )


def _lower_custom(node: Node, lowering: Lowering) -> None:
    op: CustomOp = node.attrs["op"]
    inputs = {name: value.desc for name, value in node.inputs.items()}
    outputs = {name: value.desc for name, value in zip(op.outputs, node.outputs, strict=True)}
    kernel = op._kernel(inputs, outputs, lowering.facts.has_fp16)
    args = [*node.inputs.values(), *node.outputs, *node.attrs["scalars"]]
    lowering.launch(kernel, args, *op._sizes(inputs, outputs), guard=op._guard(inputs, outputs))


# Expressions ------------------------------------------------------------------------------------------------


def _expression_record(expression: str, names: tuple[str, ...]) -> OpRecord:
    return OpRecord(
        "elementwise",
        "",
        tuple(Operand(name, ANY) for name in names),
        (Output(),),
        expression=Expression(_call_text, code=_definition),
    )


def _function_name(node: Node) -> str:
    types = [value.data_type for value in (*node.inputs.values(), *node.outputs)]
    text = "\0".join([node.attrs["expression"], *node.attrs["names"], *types])
    return "user_" + hashlib.sha256(text.encode()).hexdigest()[:12]


def _is_vectorizable(node: Node) -> bool:
    """Whether the text means the same on vectors: one wide type throughout, and nothing that differs there."""
    types = {value.data_type for value in (*node.inputs.values(), *node.outputs)}
    return types <= {"float32", "float16"} and not _SCALAR_ONLY.search(node.attrs["expression"])


def _definition(node: Node, width: int) -> str:
    """Functions for one element, and for `width` by way of it (or on vectors where the text means the same there)."""
    name, names = _function_name(node), node.attrs["names"]
    kinds = [dtype_of(value.data_type).compute for value in node.inputs.values()]
    result = dtype_of(node.output.data_type).compute
    text = node.attrs["expression"]
    vector = width > 1 and _is_vectorizable(node)
    suffix = str(width) if vector else ""
    parameters = ", ".join(f"const {kind}{suffix} {n}" for kind, n in zip(kinds, names, strict=True))
    head = f"static inline {result}{suffix} {name}{suffix}({parameters}) {{"
    lines = [head, '#line 1 "elementwise expression"', f"return ({text}", ");", "}"]
    if width > 1 and not vector:
        wide = ", ".join(f"const {kind}{width} {n}" for kind, n in zip(kinds, names, strict=True))
        calls = ", ".join(f"{name}({', '.join(f'{n}.s{lane}' for n in names)})" for lane in range(width))
        lines += [f"static inline {result}{width} {name}{width}({wide}) {{ return ({result}{width})({calls}); }}"]
    return "\n".join(lines) + "\n"


def _call_text(node: Node) -> str:
    arguments = ", ".join("{" + name + "}" for name in node.attrs["names"])
    return f"{_function_name(node)}{{N}}({arguments})"
