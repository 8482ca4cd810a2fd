"""docs/operators.md says what the code does."""

from __future__ import annotations

from tests import spec, support_matrix


def test_the_page_is_up_to_date() -> None:
    wanted = support_matrix.text()
    assert support_matrix.PATH.read_text(encoding="utf-8") == wanted, "run: python -m tests.support_matrix"


def test_the_page_lists_every_operator_once() -> None:
    lines = support_matrix.text().splitlines()
    for op in spec.OPERANDS:
        assert sum(line.startswith(f"| `{op}(") for line in lines) == 1, op
