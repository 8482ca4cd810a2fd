"""Long chains in stages: each stage runs over a strip of vectors before the next one starts.

A processor looks only some hundred instructions ahead. A chain that is longer than that and whose operations wait for
each other runs at the pace of their latencies; cut in two loops, each part overlaps with itself on later vectors.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

__all__ = ["strips"]

# Vectors of a strip: enough to overlap, few enough that what stages hand on stays in the nearest cache.
VECTORS = 16


def strips(statements: Sequence[str], cuts: Sequence[int], types: Mapping[str, str], loads: Sequence[str]) -> str:
    """A loop over whole strips from ``i`` to ``end`` that runs `statements` in stages and stores ``result``.

    `cuts` are the positions where a stage ends, `types` the C types of the variables that statements declare, and
    `loads` the declarations of the inputs, repeated in each stage that needs them.
    """
    edges = [0, *cuts, len(statements)]
    stages = [" ".join(statements[a:b]) for a, b in itertools.pairwise(edges)]
    arrays: dict[str, str] = {}
    loops: list[str] = []
    for number, stage in enumerate(stages):
        used, later = _words(stage), _words(" ".join(stages[number + 1 :]))
        made_before = _words(" ".join(stages[:number])) & types.keys()
        body = [line for line in loads if _words(line.split("=")[0]) & used]
        body += [f"const {types[name]} {name} = {name}_strip[j];" for name in sorted(made_before & used)]
        body.append(stage)
        handed_on = sorted((used & types.keys() & later) - made_before)
        arrays.update((name, types[name]) for name in handed_on)
        body += [f"{name}_strip[j] = {name};" for name in handed_on]
        if number == len(stages) - 1:
            body.append("STORE8(OUT, y, i, result);")
        loops.append(f"for (int j = 0; j < {VECTORS}; j++) {{ const IDX i = strip + 8 * j; {' '.join(body)} }}")
    declared = " ".join(f"{kind} {name}_strip[{VECTORS}];" for name, kind in arrays.items())
    step = 8 * VECTORS
    return f"for (; i + {step} <= end; i += {step}) {{ const IDX strip = i; {declared} {' '.join(loops)} }}"


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))
