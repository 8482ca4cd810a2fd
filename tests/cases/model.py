"""What a case is: one operator call with tensors made from recipes, plus helpers that the family tables share."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests import spec, values

Array = np.ndarray[Any, Any]

# One shape per rank, 0 to 8; sizes below, at and above eight lanes, with ones in between.
RANK_SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (9,),
    (3, 5),
    (2, 3, 5),
    (2, 3, 2, 3),
    (2, 1, 3, 2, 2),
    (1, 2, 3, 1, 3, 2),
    (1, 2, 1, 3, 1, 3, 2),
    (2, 1, 2, 1, 2, 1, 2, 3),
)


@dataclass(frozen=True)
class T:
    """A test tensor: shape, data type and the recipe of its values (tests/values.py)."""

    shape: tuple[int, ...]
    data_type: str = "float32"
    values: values.Recipe = "small"

    def __str__(self) -> str:
        recipe = self.values if isinstance(self.values, str) else f"list-{zlib.crc32(repr(self.values).encode()):08x}"
        return f"{self.data_type}{list(self.shape)}:{recipe}".replace(" ", "")


Inputs = Mapping[str, T | Sequence[T]]


@dataclass(frozen=True)
class Case:
    """One operator call.

    `op`, operand roles and attribute names are the python names of the builder method. Operands in `constants` become
    graph constants instead of inputs. `timed` marks the case that stands for its operator in a benchmark.
    """

    op: str
    inputs: Inputs
    attrs: Mapping[str, Any] = field(default_factory=dict)
    constants: frozenset[str] = frozenset()
    timed: bool = False

    @property
    def name(self) -> str:
        """Unique, readable and stable: it seeds the random values."""
        tensors = []
        for role, given in self.inputs.items():
            text = "+".join(map(str, given)) if isinstance(given, (list, tuple)) else str(given)
            tensors.append(f"{role}={text}" + (" const" if role in self.constants else ""))
        attrs = [f"{key}={value}".replace(" ", "") for key, value in self.attrs.items()]
        return f"{self.op}({' '.join([*tensors, *attrs])})"

    def arrays(self) -> dict[str, Any]:
        """The operands' values, the same in every run."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        made: dict[str, Any] = {}
        for role, given in self.inputs.items():
            tensors = given if isinstance(given, (list, tuple)) else [given]
            arrays = [values.make(t.values, t.shape, t.data_type, rng) for t in tensors]
            made[role] = arrays if isinstance(given, (list, tuple)) else arrays[0]
        return made

    @property
    def data_types(self) -> dict[str, str]:
        """Data type of every operand given."""
        first = {role: g[0] if isinstance(g, (list, tuple)) else g for role, g in self.inputs.items()}
        return {role: tensor.data_type for role, tensor in first.items()}


def types_of(op: str, role: str | None = None) -> tuple[str, ...]:
    """Data types allowed for an operand (the first one by default)."""
    operands = spec.OPERANDS[op]
    return operands[role or next(iter(operands))].data_types


def ranks_with_types(op: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """A shape for every allowed rank of the first operand, the data types taking turns."""
    limits = next(iter(spec.OPERANDS[op].values()))
    for rank in range(limits.ranks[0], limits.ranks[1] + 1):
        yield RANK_SHAPES[rank], limits.data_types[rank % len(limits.data_types)]


def floats_of(op: str) -> tuple[str, ...]:
    """The float types among those of the first operand."""
    return tuple(t for t in types_of(op) if t.startswith("float"))
