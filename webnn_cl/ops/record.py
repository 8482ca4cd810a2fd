"""Operator records: one per WebNN operator, the single source of its limits, its checks and its lowering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from webnn_cl.dtypes import DATA_TYPES, DataType

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node
    from webnn_cl.compiler.lower import Lowering
    from webnn_cl.ops.expression import Expression

__all__ = [
    "ANY", "FLOATS", "INDICES", "MAX_RANK", "NUMERIC_32_64", "REGISTRY", "SIGNED", "UINT8",
    "OpRecord", "Operand", "Output", "register",
]  # fmt: skip

MAX_RANK = 8

ANY: tuple[DataType, ...] = DATA_TYPES
FLOATS: tuple[DataType, ...] = ("float32", "float16")
SIGNED: tuple[DataType, ...] = ("float32", "float16", "int64", "int32", "int8")
NUMERIC_32_64: tuple[DataType, ...] = ("float32", "float16", "int32", "uint32", "int64", "uint64")
INDICES: tuple[DataType, ...] = ("int32", "uint32", "int64")
UINT8: tuple[DataType, ...] = ("uint8",)


@dataclass(frozen=True)
class Operand:
    """What one operand of an operator may be.

    `role` is the Python argument name, `js` the key in opSupportLimits (default: role in camelCase).
    `dtypes` lists the allowed types; `same_as` names an earlier operand whose type it must have as well.
    `rank` is an inclusive range, or the name of an earlier operand whose rank it must equal.
    """

    role: str
    dtypes: tuple[DataType, ...]
    rank: tuple[int, int] | str = (0, MAX_RANK)
    same_as: str | None = None
    optional: bool = False
    many: bool = False
    js: str | None = None


@dataclass(frozen=True)
class Output:
    """What one output may be; it is only reported (op_support_limits), since outputs follow from the operands.

    Either `dtypes` and `rank`, or `like`, the role of the operand whose types and ranks it shares.
    `rank` given together with `like` overrides the ranks.
    """

    name: str = "output"
    like: str | None = None
    dtypes: tuple[DataType, ...] | None = None
    rank: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class OpRecord:
    """One operator of MLGraphBuilder (W3C WebNN, "The MLGraphBuilder interface").

    Exactly one of `expression` (element-wise operators: C expressions that the compiler fuses), `lower`
    (emits kernel launches) or `view` (the input's bytes, reinterpreted) is set; or none with an `expand` that always
    gives nodes. `expand` rewrites a node into nodes of other records where those do better (compiler/expand.py).
    """

    name: str
    js: str
    operands: tuple[Operand, ...]
    outputs: tuple[Output, ...]
    expression: Expression | None = None
    lower: Callable[[Node, Lowering], None] | None = None
    view: bool = False
    expand: Callable[[Node], list[Node]] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def operand(self, role: str) -> Operand:
        """The operand called `role`."""
        return next(o for o in self.operands if o.role == role)


REGISTRY: dict[str, OpRecord] = {}


def register(record: OpRecord) -> OpRecord:
    """Add `record` to the table of operators; families call this once per operator."""
    REGISTRY[record.name] = record
    return record
