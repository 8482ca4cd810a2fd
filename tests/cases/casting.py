"""Casting between all pairs of data types."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cases.model import RANK_SHAPES, Case, T, types_of


def cases() -> Iterator[Case]:
    types = types_of("cast")
    for source in types:
        for target in types:
            attrs = {"data_type": target}
            for recipe in ("edges", "wide", "small"):
                yield Case("cast", {"input": T((83,), source, recipe)}, attrs)
    for rank, shape in enumerate(RANK_SHAPES):
        source, target = types[rank % 8], types[(rank * 3 + 1) % 8]
        yield Case("cast", {"input": T(shape, source)}, {"data_type": target})
    yield Case("cast", {"input": T((3, 5), "float32")}, {"data_type": "int8"}, constants=frozenset({"input"}))
    # Halfway between neighbours of the smaller float, above and below; the limits of every integer type.
    ties = [k + d for k in (2048, 4096.0, 2049) for d in (1, 3, 1.001, 0.999)] + [2.0**-24, 2.0**-25, 3 * 2.0**-25]
    yield Case("cast", {"input": T((15,), "float32", ties)}, {"data_type": "float16"})
    yield Case("cast", {"input": T((4,), "float32", [65519, 65519.99, 65520, 1e9])}, {"data_type": "float16"})
    big = [2**24 + 1, 2**24 + 3, 2**53 + 1, 2**62 + 2**38 - 1, 2**62 + 2**38, 2**62 + 2**38 + 1]
    for source in ("int64", "uint64"):
        yield Case("cast", {"input": T((6,), source, big)}, {"data_type": "float32"})
    bounds = [b + d for b in (2.0**7, 2.0**8, 2.0**31, 2.0**32, 2.0**63, 2.0**64) for d in (-0.5, 0, 0.5)]
    for target in types[2:]:
        values = [*bounds, *(-b for b in bounds)]
        yield Case("cast", {"input": T((36,), "float32", values)}, {"data_type": target})
    yield Case("cast", {"input": T((256, 1024), "float32")}, {"data_type": "float16"}, timed=True)
