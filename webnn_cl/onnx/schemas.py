"""What the onnx package's own operator schemas say: result types, and function bodies of operators made of others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import onnx
from onnx import defs, helper

from webnn_cl.onnx.elements import ELEMENT_TYPES
from webnn_cl.onnx.nodes import Node
from webnn_cl.onnx.values import Known, Tensor, Value

__all__ = ["function_body", "output_types", "schema_of"]

_BY_TEXT = {f"tensor({name.replace('_', '') if name.startswith('float8') else name})": name
            for name in ELEMENT_TYPES.values()}  # fmt: skip
_BY_TEXT |= {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float4e2m1)": "float4_e2m1fn"}
_BY_TEXT |= {"tensor(float8e8m0)": "float8_e8m0fnu"}
_NUMBERS = {name: number for number, name in ELEMENT_TYPES.items()}


@lru_cache(maxsize=1024)
def schema_of(op_type: str, version: int, domain: str) -> Any | None:
    """The schema that operator set `version` of `domain` uses for `op_type`, None where it has none."""
    try:
        return defs.get_schema(op_type, version, domain)
    except defs.SchemaError:
        return None


@lru_cache(maxsize=1024)
def _type_strings(op_type: str, version: int, domain: str) -> tuple[tuple[str, ...], tuple[str, ...], bool, bool]:
    schema = schema_of(op_type, version, domain)
    if schema is None:
        return (), (), False, False
    constraints = schema.type_constraints
    single = {c.type_param_str: c.allowed_type_strs[0] for c in constraints if len(c.allowed_type_strs) == 1}
    variadic = defs.OpSchema.FormalParameterOption.Variadic

    def texts(formals: Any) -> tuple[str, ...]:
        return tuple(single.get(f.type_str, f.type_str) for f in formals)

    return (
        texts(schema.inputs),
        texts(schema.outputs),
        bool(schema.inputs) and schema.inputs[-1].option == variadic,
        bool(schema.outputs) and schema.outputs[-1].option == variadic,
    )


def output_types(node: Node, version: int, inputs: Sequence[Value | None]) -> list[str | None]:
    """The element type of each output as far as the schema ties it to an input; None where an attribute decides."""
    formal_in, formal_out, many_in, many_out = _type_strings(node.op_type, version, node.domain)
    bound: dict[str, str] = {}
    for index, value in enumerate(inputs):
        if isinstance(value, (Known, Tensor)) and formal_in and (index < len(formal_in) or many_in):
            bound.setdefault(formal_in[min(index, len(formal_in) - 1)], value.dtype)
    types: list[str | None] = []
    for index in range(len(node.outputs)):
        known = formal_out and (index < len(formal_out) or many_out)
        text = formal_out[min(index, len(formal_out) - 1)] if known else ""
        types.append(bound.get(text, _BY_TEXT.get(text)))
    return types


def function_body(node: Node, version: int, inputs: Sequence[Value | None]) -> Any | None:
    """The FunctionProto that defines `node` in terms of other operators, None where the schema has none."""
    schema = schema_of(node.op_type, version, node.domain)
    if schema is None:
        return None
    if schema.has_function:
        fitting = [v for v in schema.function_opset_versions if v <= version]
        return _function(schema.get_function_with_opset_version(max(fitting))) if fitting else schema.function_body
    if schema.has_context_dependent_function:
        return _context_dependent(schema, node, version, inputs)
    return None


def _context_dependent(schema: Any, node: Node, version: int, inputs: Sequence[Value | None]) -> Any | None:
    types = [_type_proto(value) for value in inputs]
    fitting = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    message = node.proto.SerializeToString()
    if fitting:
        data = schema.get_context_dependent_function_with_opset_version(max(fitting), message, types)
    else:
        data = schema.get_context_dependent_function(message, types)
    return _function(data) if data else None


def _function(data: bytes) -> Any:
    body = onnx.FunctionProto()
    body.ParseFromString(data)
    return body


def _type_proto(value: Value | None) -> bytes:
    if not isinstance(value, (Known, Tensor)):
        return bytes(onnx.TypeProto().SerializeToString())
    return bytes(helper.make_tensor_type_proto(_NUMBERS[value.dtype], list(value.shape)).SerializeToString())
