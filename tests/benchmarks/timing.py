"""Timing in turns: medians of several candidates measured one after the other, round by round, in one process."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping

__all__ = ["in_turns"]


# Thread pools go on spinning for some milliseconds after a call; nobody's turn begins before they sleep.
SETTLE_SECONDS = 0.03


def in_turns(
    calls: Mapping[str, Callable[[], object]], rounds: int, warmup: int = 2, settle: float = SETTLE_SECONDS
) -> dict[str, float]:
    """Median seconds of each call; all take one turn per round, so that a slow moment hits them alike.

    In another order each round: who comes behind a call that leaves little in the caches, or its threads awake, is
    slower than others.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, shuffled = list(calls), random.Random(0)
    for turn in range(rounds + warmup):
        shuffled.shuffle(order)
        for name in order:
            time.sleep(settle)
            start = time.perf_counter()
            calls[name]()
            if turn >= warmup:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}
