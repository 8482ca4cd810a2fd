"""Blockwise quantization and dequantization."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cases.model import RANK_SHAPES, Case, T

# Shapes of the input and of scale and zero point: per tensor, per axis, blocks along one and several axes.
BLOCKS = (
    ((), ()),
    ((12,), (1,)),
    ((12,), (3,)),
    ((12,), (12,)),
    ((4, 6), (4, 1)),
    ((4, 6), (1, 6)),
    ((4, 6), (2, 3)),
    ((2, 3, 8), (1, 3, 2)),
    ((2, 4, 3, 5), (1, 4, 1, 1)),
    ((2, 4, 6, 2), (2, 2, 3, 1)),
    ((4,) * 8, (2,) * 8),
    *((shape, tuple(1 if axis % 2 else size for axis, size in enumerate(shape))) for shape in RANK_SHAPES[5:]),
)
QUANTIZED = ("uint8", "int8", "uint32", "int32")
Shape = tuple[int, ...]


def _blocks(data_type: str, float_type: str) -> tuple[tuple[Shape, Shape], ...]:
    """All block shapes for one pair of types; the others, which are walked alike, take a few."""
    return BLOCKS if (data_type, float_type) == ("uint8", "float32") else BLOCKS[2:8:2]


def dequantize_cases() -> Iterator[Case]:
    for data_type in QUANTIZED:
        for float_type in ("float32", "float16"):
            for shape, block in _blocks(data_type, float_type):
                inputs = {
                    "input": T(shape, data_type, "range:0:120"),
                    "scale": T(block, float_type, "scale"),
                    "zero_point": T(block, data_type, "range:0:9"),
                }
                yield Case("dequantize_linear", inputs)
        # The difference must not overflow or lose digits: all pairs of extremes, exact up to 33 bits.
        edges = {"input": T((20, 1, 20), data_type, "edges"), "scale": T((20, 1, 20), "float32", "fill:0.5")}
        yield Case("dequantize_linear", {**edges, "zero_point": T((20, 1, 20), data_type, "wide")})
    weights = {"input": T((256, 1024), "int8", "wide"), "scale": T((256, 32), values="scale")}
    yield Case("dequantize_linear", {**weights, "zero_point": T((256, 32), "int8", "range:-3:3")}, timed=True)
    inputs = {"input": T((4, 6), "int8", "wide"), "scale": T((4, 1), values="scale"), "zero_point": T((4, 1), "int8")}
    yield Case("dequantize_linear", inputs, constants=frozenset(inputs))
    yield Case("dequantize_linear", inputs, constants=frozenset({"scale", "zero_point"}))


def quantize_cases() -> Iterator[Case]:
    for data_type in QUANTIZED:
        for float_type in ("float32", "float16"):
            for shape, block in _blocks(data_type, float_type):
                inputs = {
                    "input": T(shape, float_type, "range:-20:40"),
                    "scale": T(block, float_type, "scale"),
                    "zero_point": T(block, data_type, "range:0:9"),
                }
                yield Case("quantize_linear", inputs)
            # Ties with an exact quotient, then saturation at both ends.
            halves = [k / 4 for k in range(-12, 13)]
            ties = {"input": T((25,), float_type, halves), "scale": T((1,), float_type, "fill:0.5")}
            yield Case("quantize_linear", {**ties, "zero_point": T((1,), data_type, "fill:3")})
            extremes = [-1e30, -3e9, -2147483648.0, -300.0, 0.0, 255.0, 65504.0, 2147483648.0, 5e9, 1e30]
            ends = {"input": T((10,), float_type, extremes), "scale": T((10,), float_type, "fill:1")}
            yield Case("quantize_linear", {**ends, "zero_point": T((10,), data_type, "wide")})
            infinite = T((2,), float_type, [float("inf"), -float("inf")])
            one = {"scale": T((1,), float_type, "fill:1"), "zero_point": T((1,), data_type, "fill:1")}
            yield Case("quantize_linear", {"input": infinite, **one})
    big = {"input": T((256, 1024)), "scale": T((256, 1), values="scale"), "zero_point": T((256, 1), "uint8")}
    yield Case("quantize_linear", big, constants=frozenset({"scale", "zero_point"}), timed=True)


def cases() -> Iterator[Case]:
    yield from dequantize_cases()
    yield from quantize_cases()
