"""Writes docs/operators.md from the operators' limits and the table of cases: `python -m tests.support_matrix`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests import reference, spec
from tests.cases import FAMILIES, by_operator
from webnn_cl.ops.limits import op_support_limits

PATH = Path(__file__).resolve().parents[1] / "docs" / "operators.md"
SHORT = {
    "float32": "f32",
    "float16": "f16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "int8": "i8",
    "uint8": "u8",
}
HEAD = """# Operators

All 95 operators of the W3C WebNN specification (June 2026), on every data type and rank that it allows. This page is
generated from what the operators accept and from the table of test cases (`python -m tests.support_matrix`); a test
keeps it up to date. `ctx.op_support_limits()` gives the same facts at run time.

Short names: f32 f16 i32 u32 i64 u64 i8 u8 are float32, float16, int32, uint32, int64, uint64, int8, uint8; *any* is all
eight. A question mark marks an operand that may be missing. *Cases* counts the calls in the table of cases (each is
compared with a float64 reference on the device); drawn calls and random graphs come on top.
"""


def _types(names: list[str]) -> str:
    return "any" if len(names) == len(SHORT) else " ".join(SHORT[name] for name in names)


def _ranks(limits: dict[str, int]) -> str:
    low, high = limits["min"], limits["max"]
    return f"rank {low}" if low == high else f"rank {low} to {high}"


def _member(role: str, limits: dict[str, Any], optional: bool) -> str:
    return f"{role}{'?' if optional else ''}: {_types(limits['dataTypes'])}, {_ranks(limits['rankRange'])}"


def _signature(op: str) -> str:
    model = reference.MODELS[op]
    options = [name for name in model.optional if name not in spec.OPERANDS[op]]
    optional = [role for role, limits in spec.OPERANDS[op].items() if limits.optional]
    keywords = ["*", *optional, *options] if optional or options else []
    return f"`{op}({', '.join([*model.positional, *keywords])})`"


def _row(op: str, limits: dict[str, Any]) -> str:
    members = limits[spec.camel(op)]
    operands = [_member(r, members[spec.camel(r)], lim.optional) for r, lim in spec.OPERANDS[op].items()]
    outputs = [_member(role, members[spec.camel(role)], False) for role in spec.OUTPUTS[op]]
    cells = [_signature(op), spec.camel(op), "<br>".join(operands), "<br>".join(outputs), str(len(by_operator()[op]))]
    return f"| {' | '.join(cells)} |"


def text() -> str:
    """The page."""
    limits = op_support_limits(2**31)
    parts = [HEAD]
    for family, module in FAMILIES.items():
        operators = list(dict.fromkeys(case.op for case in module.cases()))
        rows = [_row(op, limits) for op in operators]
        head = "| method | WebNN | operands | outputs | cases |\n|---|---|---|---|---|"
        parts.append(f"## {family.capitalize()}\n\n{head}\n" + "\n".join(rows) + "\n")
    total = sum(len(cases) for cases in by_operator().values())
    parts.append(f"{len(by_operator())} operators, {total} cases.\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
    print(f"wrote {PATH.name}")
