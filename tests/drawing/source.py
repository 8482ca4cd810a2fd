"""Where drawn choices come from: hypothesis (shrinking) or a seeded generator; the same plans use either."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from tests import spec

V = TypeVar("V")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
MAX_ELEMENTS = 2000


class Source(Protocol):
    """Draws values; the smaller or earlier choice is the simpler one."""

    def integer(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        ...

    def choice(self, options: Sequence[V]) -> V:
        """One of the options."""
        ...


class RandomSource:
    """Choices of a numpy generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def choice(self, options: Sequence[V]) -> V:
        return options[self.integer(0, len(options) - 1)]


class HypothesisSource:
    """Choices of a hypothesis test; `draw` is the function that @composite gives."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        from hypothesis import strategies

        self.draw, self.strategies = draw, strategies

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(self.strategies.integers(low, high)))

    def choice(self, options: Sequence[V]) -> V:
        picked: V = options[self.integer(0, len(options) - 1)]
        return picked


def boolean(source: Source) -> bool:
    """False (simpler) or True."""
    return source.choice((False, True))


def subset(source: Source, options: Sequence[V]) -> list[V]:
    """Some of the options, in any order."""
    rest, picked = list(options), []
    for _ in range(source.integer(0, len(rest))):
        picked.append(rest.pop(source.integer(0, len(rest) - 1)))
    return picked


def permutation(source: Source, count: int) -> list[int]:
    """The numbers below `count` in any order."""
    rest = list(range(count))
    return [rest.pop(source.integer(0, len(rest) - 1)) for _ in range(count)]


def shape(source: Source, ranks: tuple[int, int]) -> tuple[int, ...]:
    """A shape of a rank in the range, of at most MAX_ELEMENTS elements."""
    sizes: list[int] = []
    for _ in range(source.integer(*ranks)):
        room = MAX_ELEMENTS // math.prod(sizes)
        sizes.append(source.choice([size for size in SIZES if size <= room] or [1]))
    return tuple(sizes)


def divisor(source: Source, size: int) -> int:
    """A divisor of the size."""
    return source.choice([d for d in range(1, size + 1) if size % d == 0])


def broadcastable(source: Source, given: tuple[int, ...], *, wider: bool = True) -> tuple[int, ...]:
    """A shape that broadcasts with `given`; with `wider` it may be bigger where `given` has ones, or of higher rank."""
    tail = len(given) - source.integer(0, len(given))
    sizes = [1 if boolean(source) else size for size in given[tail:]]
    if wider:
        room = MAX_ELEMENTS // max(1, math.prod(given))
        for axis, size in enumerate(given[tail:]):
            if size == 1 and room >= 3 and boolean(source):
                sizes[axis], room = 3, room // 3
        if tail == 0 and len(given) < spec.MAX_RANK and room >= 2 and boolean(source):
            sizes.insert(0, 2)
    return tuple(sizes)
