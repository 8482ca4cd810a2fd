"""Attention as one operator against its parts, torch's scaled_dot_product_attention and onnxruntime.

``python -m tests.benchmarks.attention [NAME ...] [--device TEXT] [--rounds N] [--json FILE]``

Names are those of the table (a part is enough): heads x queries x keys x numbers of a head. Queries, keys and values
arrive as [1, length, heads * numbers], as projections leave them, which the peers get, too; ``separate`` as
[1, heads, length, numbers]. All candidates take turns in one process with as many threads as the device has compute
units. ``parts`` is our own spelled-out form, ``joined`` the operator, ``ours`` what a build chooses. Of the peak: of
multiply-adds, exponentials not counted.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from tests.benchmarks.kernels import Ours, Peak, measure
from tests.benchmarks.peers import Attention, attention_peers

__all__ = ["SIZES", "run"]


@dataclass(frozen=True)
class Size:
    """One line of the table."""

    heads: int
    queries: int
    keys: int
    depth: int
    masked: bool = False
    separate: bool = False


SIZES = {
    "8x80x80x15": Size(8, 80, 80, 15),
    "6x400x400x64": Size(6, 400, 400, 64),
    "12x128x128x64": Size(12, 128, 128, 64),
    "12x128x128x64 masked": Size(12, 128, 128, 64, masked=True),
    "12x128x128x64 separate": Size(12, 128, 128, 64, separate=True),
    "12x512x512x64": Size(12, 512, 512, 64),
    "8x2048x2048x64": Size(8, 2048, 2048, 64),
    "8x2048x2048x64 masked": Size(8, 2048, 2048, 64, masked=True),
    "8x1024x77x40": Size(8, 1024, 77, 40),
    "12x16x16x32": Size(12, 16, 16, 32),
    "12x7x512x64": Size(12, 7, 512, 64),
    "12x1x1024x64 separate": Size(12, 1, 1024, 64, separate=True),
    "12x1x1024x64": Size(12, 1, 1024, 64),
    "12x3x1024x64 separate": Size(12, 3, 1024, 64, separate=True),
    "32x1x4096x128 separate": Size(32, 1, 4096, 128, separate=True),
}


def build(builder: Any, operands: dict[str, Any], size: Size) -> Any:
    """The spelled-out form."""
    if size.separate:
        q, k, v = (operands[name] for name in "qkv")
    else:
        lengths = {"q": size.queries, "k": size.keys, "v": size.keys}
        split = {n: builder.reshape(operands[n], [1, length, size.heads, size.depth]) for n, length in lengths.items()}
        q, k, v = (builder.transpose(x, permutation=[0, 2, 1, 3]) for x in split.values())
    scores = builder.matmul(q, builder.transpose(k, permutation=[0, 1, 3, 2]))
    scores = builder.mul(scores, builder.constant(np.float32(size.depth**-0.5)))
    if size.masked:
        scores = builder.add(scores, operands["mask"])
    y = builder.matmul(builder.softmax(scores, 3), v)
    if size.separate:
        return y
    return builder.reshape(builder.transpose(y, permutation=[0, 2, 1, 3]), [1, size.queries, size.heads * size.depth])


def calls_of(context: Any, size: Size) -> dict[str, Any]:
    """Ours in three ways and the peers' calls."""
    rng = np.random.default_rng(0)

    def drawn(length: int) -> np.ndarray:
        heads, depth = size.heads, size.depth
        shape = (1, heads, length, depth) if size.separate else (1, length, heads * depth)
        return rng.standard_normal(shape).astype(np.float32)

    inputs = {"q": drawn(size.queries), "k": drawn(size.keys), "v": drawn(size.keys)}
    if size.masked:
        inputs["mask"] = np.where(rng.random((1, 1, size.queries, size.keys)) < 0.2, -1e9, 0).astype(np.float32)
    calls: dict[str, Any] = {}
    pays = importlib.import_module("webnn_cl.compiler.attention").pays
    rules = {"ours": pays, "ours parts": lambda extents, facts: False, "ours joined": lambda extents, facts: True}
    for name, rule in rules.items():
        with mock.patch("webnn_cl.compiler.attention.pays", rule):
            calls[name] = Ours(context, inputs, lambda b, operands: build(b, operands, size))
        calls[name]()
    results = [calls[name].result() for name in calls]
    assert all(np.abs(result - results[1]).max() < 1e-4 for result in results)
    peers = attention_peers(Attention(inputs, size.heads, size.depth, size.separate), context.device.compute_units)
    return calls | peers


def row(context: Any, name: str, size: Size, rounds: int) -> dict[str, Any]:
    """Measure one line of the table and print it."""
    times = measure(context, calls_of(context, size), rounds)
    peak = Peak(context).flops() / times.pop("peak")
    others = {n: t for n, t in times.items() if not n.startswith("ours")}
    best = min(others, key=lambda n: others[n], default="")
    flops = 4.0 * size.heads * size.queries * size.keys * size.depth
    to_parts, to_best = times["ours"] / times["ours parts"], times["ours"] / times[best] if best else float("nan")
    share = flops / times["ours"] / peak
    print(
        f"  {name:24} ratio to parts {to_parts:.2f}, to the best peer {to_best:.2f}, {100 * share:3.0f} % of peak | "
        + ", ".join(f"{n} {t * 1e3:.3f}" for n, t in times.items()),
        flush=True,
    )
    ratio, ms = {"parts": to_parts, "best_peer": to_best}, {n: t * 1e3 for n, t in times.items()}
    return {"name": name, "ms": ms, "best_peer": best, "ratio": ratio, "share_of_peak": share}


def run(names: Sequence[str], device: str | None, rounds: int) -> dict[str, Any]:
    """All lines whose name contains one of `names` (all without names)."""
    import webnn_cl

    with webnn_cl.ML().create_context(device=device) as context:
        print(f"{context.device}: times in ms")
        wanted = {n: size for n, size in SIZES.items() if not names or any(part in n for part in names)}
        return {"device": str(context.device), "rows": [row(context, n, size, rounds) for n, size in wanted.items()]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    result = run(options.names, options.device, options.rounds)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
