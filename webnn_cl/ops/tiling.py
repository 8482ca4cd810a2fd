"""Local sizes for kernels of many light work-items: few distinct ones, since PoCL compiles a kernel for each."""

from __future__ import annotations

__all__ = ["local_of_rows"]


def local_of_rows(columns: int) -> tuple[int, int]:
    """The local size for `columns` work-items a row and any number of rows."""
    return (64, 1) if columns >= 64 else (8, 8) if columns >= 8 else (1, 64)
