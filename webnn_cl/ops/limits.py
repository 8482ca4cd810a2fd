"""opSupportLimits: what the operator records accept, in the specification's nested form."""

from __future__ import annotations

from typing import Any

from webnn_cl.dtypes import DATA_TYPES
from webnn_cl.ops.record import MAX_RANK, REGISTRY, Operand, OpRecord, Output

__all__ = ["max_tensor_bytes", "op_support_limits"]


def max_tensor_bytes(max_alloc_bytes: int) -> int:
    """Largest tensor in bytes: the device's largest allocation, less what padding may add."""
    return max_alloc_bytes // 64 * 64


def op_support_limits(max_alloc_bytes: int) -> dict[str, Any]:
    """The MLOpSupportLimits dictionary (W3C WebNN, "MLOpSupportLimits dictionary"), with camelCase keys."""
    anything = _limits(DATA_TYPES, (0, MAX_RANK))
    limits: dict[str, Any] = {
        "preferredInputLayout": "nhwc",
        "maxTensorByteLength": max_tensor_bytes(max_alloc_bytes),
        "input": anything,
        "constant": _limits(DATA_TYPES, (0, MAX_RANK)),
        "output": _limits(DATA_TYPES, (0, MAX_RANK)),
    }
    for record in REGISTRY.values():
        if record.js:
            limits[record.js] = _operator(record)
    return limits


def _operator(record: OpRecord) -> dict[str, Any]:
    members = {operand.js or _camel(operand.role): _operand(record, operand) for operand in record.operands}
    members |= {output.name: _output(record, output) for output in record.outputs}
    return members


def _operand(record: OpRecord, operand: Operand) -> dict[str, Any]:
    return _limits(operand.dtypes, _rank(record, operand))


def _rank(record: OpRecord, operand: Operand) -> tuple[int, int]:
    return _rank(record, record.operand(operand.rank)) if isinstance(operand.rank, str) else operand.rank


def _output(record: OpRecord, output: Output) -> dict[str, Any]:
    like = record.operand(output.like) if output.like is not None else None
    dtypes = output.dtypes if output.dtypes is not None else like.dtypes if like is not None else DATA_TYPES
    rank = output.rank if output.rank is not None else _rank(record, like) if like is not None else (0, MAX_RANK)
    return _limits(dtypes, rank)


def _limits(dtypes: tuple[str, ...], rank: tuple[int, int]) -> dict[str, Any]:
    return {"dataTypes": list(dtypes), "rankRange": {"min": rank[0], "max": rank[1]}}


def _camel(role: str) -> str:
    head, *tail = role.split("_")
    return head + "".join(part.capitalize() for part in tail)
