"""imperative.md, float16-transport, second half: sixteen bits go through dispatches unchanged, and inputs stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

BITS = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x0003, 0x8003, 0x03FF, 0x83FF, 0x0400, 0x8400], np.uint16)
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "identity": lambda builder, x: builder.identity(x),
    "cast-to-float16": lambda builder, x: builder.cast(x, "float16"),
}


@pytest.mark.parametrize("shape", [(10,), (1, 2, 1, 5)], ids=str)
@pytest.mark.parametrize("op", OPERATORS)
def test_bits_survive_eight_dispatches(op: str, shape: tuple[int, ...], context: Any) -> None:
    builder = context.create_graph_builder()
    graph = builder.build({"output": OPERATORS[op](builder, builder.input("input", shape, "float16"))})
    current = context.create_tensor(shape, "float16", readable=True, writable=True)
    following = context.create_tensor(shape, "float16", readable=True, writable=True)
    for bits in (BITS, BITS[::-1]):
        context.write_tensor(current, np.ascontiguousarray(bits))
        for _ in range(8):
            context.dispatch(graph, {"input": current}, {"output": following})
            for tensor in (following, current):
                read = context.read_tensor(tensor)
                assert read.shape == shape
                np.testing.assert_array_equal(read.view(np.uint16).reshape(-1), bits)
            current, following = following, current
