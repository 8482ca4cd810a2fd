"""Tensor manipulation: data movement is exact, so the values are any bits; resample2d is the one that computes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from tests.cases.model import RANK_SHAPES, Case, T, floats_of, ranks_with_types, types_of

NAN, INF = float("nan"), float("inf")


def concat_cases() -> Iterator[Case]:
    for data_type in types_of("concat"):
        for axis in range(3):
            for sizes in ((1,), (2, 3), (8, 1, 5), (4, 4, 4, 4)):
                shapes = [[2, 3, 9] for _ in sizes]
                for shape, size in zip(shapes, sizes, strict=True):
                    shape[axis] = size
                inputs = [T(tuple(shape), data_type, "wide") for shape in shapes]
                yield Case("concat", {"inputs": inputs}, {"axis": axis})
    for shape, data_type in ranks_with_types("concat"):
        for axis in range(len(shape)):
            yield Case("concat", {"inputs": [T(shape, data_type), T(shape, data_type)]}, {"axis": axis})
    yield Case("concat", {"inputs": [T((2,), "int32")] * 60}, {"axis": 0})
    yield Case("concat", {"inputs": [T((2, 3)), T((2, 4))]}, {"axis": 1}, constants=frozenset({"inputs"}))
    yield Case("concat", {"inputs": [T((256, 512)), T((256, 300))]}, {"axis": 1}, timed=True)


def expand_cases() -> Iterator[Case]:
    pairs = (((), ()), ((), (3, 5)), ((1,), (9,)), ((5,), (2, 3, 5)), ((3, 1), (2, 3, 7)), ((1, 4, 1), (2, 4, 9)))
    for data_type in types_of("expand"):
        for source, target in pairs:
            yield Case("expand", {"input": T(source, data_type, "wide")}, {"new_shape": list(target)})
    for rank in range(9):
        shape = RANK_SHAPES[rank]
        source = tuple(1 if axis % 2 else size for axis, size in enumerate(shape))
        yield Case("expand", {"input": T(source)}, {"new_shape": list(shape)})
        yield Case("expand", {"input": T(source[rank // 2 :])}, {"new_shape": list(shape)})
    yield Case("expand", {"input": T((1, 4))}, {"new_shape": [3, 4]}, constants=frozenset({"input"}))
    yield Case("expand", {"input": T((256, 1))}, {"new_shape": [256, 1024]}, timed=True)


def pad_cases() -> Iterator[Case]:
    amounts = ([0, 0, 0], [1, 0, 3]), ([2, 1, 0], [0, 3, 8]), ([0, 0, 0], [0, 0, 0])
    for data_type in types_of("pad"):
        for (begin, end), mode in itertools.product(amounts, ("constant", "edge")):
            attrs = {"beginning_padding": begin, "ending_padding": end, "mode": mode}
            yield Case("pad", {"input": T((2, 3, 9), data_type, "wide")}, attrs)
        attrs = {"beginning_padding": [2, 0, 7], "ending_padding": [1, 3, 8], "mode": "reflection"}
        yield Case("pad", {"input": T((3, 4, 9), data_type, "wide")}, attrs)
        for value in (1, -1.5, 300, 2.5, INF, -INF, NAN, 2**63 - 1, -(2**63)):
            attrs = {"beginning_padding": [1, 2], "ending_padding": [3, 1], "value": value}
            yield Case("pad", {"input": T((2, 5), data_type)}, attrs)
    for shape, data_type in ranks_with_types("pad"):
        begin = [axis % 3 for axis in range(len(shape))]
        end = [(axis + 1) % 2 for axis in range(len(shape))]
        attrs = {"beginning_padding": begin, "ending_padding": end}
        yield Case("pad", {"input": T(shape, data_type)}, {**attrs, "value": 7})
        yield Case("pad", {"input": T(shape, data_type)}, {**attrs, "mode": "edge"})
        less = [min(1, size - 1) for size in shape]
        attrs = {"beginning_padding": less, "ending_padding": less, "mode": "reflection"}
        yield Case("pad", {"input": T(shape, data_type)}, attrs)
    edge = {"beginning_padding": [30, 0], "ending_padding": [0, 50], "mode": "edge"}
    yield Case("pad", {"input": T((2, 3))}, edge, constants=frozenset({"input"}))
    big = {"beginning_padding": [0, 0, 3, 3], "ending_padding": [0, 0, 3, 3]}
    yield Case("pad", {"input": T((1, 16, 112, 112))}, big, timed=True)


def reshape_cases() -> Iterator[Case]:
    for shape, data_type in ranks_with_types("reshape"):
        count = math.prod(shape)
        yield Case("reshape", {"input": T(shape, data_type, "wide")}, {"new_shape": [count]})
        yield Case("reshape", {"input": T((count,), data_type, "wide")}, {"new_shape": list(shape)})
    for data_type in types_of("reshape"):
        yield Case("reshape", {"input": T((4, 6), data_type, "edges")}, {"new_shape": [3, 1, 8]})
        yield Case("reshape", {"input": T((1, 1), data_type)}, {"new_shape": []})
    yield Case("reshape", {"input": T((4, 6))}, {"new_shape": [24]}, constants=frozenset({"input"}))
    yield Case("reshape", {"input": T((256, 1024))}, {"new_shape": [1024, 256]}, timed=True)


def resample_cases() -> Iterator[Case]:
    op = "resample2d"
    options: tuple[dict[str, Any], ...] = (
        {},
        {"scales": [2, 2]},
        {"scales": [3, 0.5]},
        {"scales": [0.4, 1.7]},
        {"sizes": [7, 10]},
        {"sizes": [5, 3]},
        {"sizes": [1, 1]},
        {"sizes": [9, 16], "scales": [1, 1]},
        {"sizes": [17, 2], "axes": [3, 2]},
        {"scales": [2, 3], "axes": [1, 2]},
        {"sizes": [8, 3], "axes": [3, 1]},
        {"sizes": [5, 7], "axes": [0, 1]},
        {"scales": [2, 1], "axes": [0, 3]},
    )
    for data_type in types_of(op):
        for attrs in options:
            for mode in ("nearest-neighbor", "linear"):
                yield Case(op, {"input": T((2, 3, 5, 6), data_type, "range:0:100")}, {**attrs, "mode": mode})
        yield Case(op, {"input": T((1, 1, 4, 8), data_type, "wide")}, {"sizes": [2, 4], "mode": "linear"})
        for sizes in ([63, 41], [29, 100], [13, 64]):
            for mode in ("nearest-neighbor", "linear"):
                yield Case(op, {"input": T((1, 2, 29, 41), data_type, "unit")}, {"sizes": sizes, "mode": mode})
    for mode in ("nearest-neighbor", "linear"):
        attrs = {"scales": [2, 2], "mode": mode}
        yield Case(op, {"input": T((1, 1, 3, 3))}, attrs, constants=frozenset({"input"}))
        yield Case(op, {"input": T((1, 16, 56, 56))}, attrs, timed=mode == "linear")


def reverse_cases() -> Iterator[Case]:
    for data_type in types_of("reverse"):
        for axes in (None, [], [0], [1], [2], [2, 0], [0, 1, 2]):
            attrs = {} if axes is None else {"axes": axes}
            yield Case("reverse", {"input": T((3, 4, 9), data_type, "wide")}, attrs)
    for shape, data_type in ranks_with_types("reverse"):
        yield Case("reverse", {"input": T(shape, data_type)})
        yield Case("reverse", {"input": T(shape, data_type)}, {"axes": list(range(0, len(shape), 2))})
    yield Case("reverse", {"input": T((3, 4))}, constants=frozenset({"input"}))
    yield Case("reverse", {"input": T((256, 1024))}, {"axes": [1]}, timed=True)


def slice_cases() -> Iterator[Case]:
    windows: tuple[tuple[list[int], list[int], list[int] | None], ...] = (
        ([0, 0, 0], [3, 4, 17], None),
        ([1, 2, 8], [2, 1, 9], None),
        ([0, 1, 0], [3, 3, 17], [2, 2, 3]),
        ([0, 0, 16], [1, 4, 1], [1, 1, 1]),
        ([2, 0, 5], [1, 4, 12], [7, 3, 5]),
        ([0, 0, 0], [3, 4, 16], None),
    )
    for data_type in types_of("slice"):
        for starts, sizes, strides in windows:
            attrs: dict[str, Any] = {"starts": starts, "sizes": sizes}
            attrs = attrs if strides is None else {**attrs, "strides": strides}
            yield Case("slice", {"input": T((3, 4, 17), data_type, "wide")}, attrs)
    for shape, data_type in ranks_with_types("slice"):
        starts = [size // 2 for size in shape]
        sizes = [size - size // 2 for size in shape]
        yield Case("slice", {"input": T(shape, data_type)}, {"starts": starts, "sizes": sizes})
        strided = {"starts": [0] * len(shape), "sizes": list(shape), "strides": [2] * len(shape)}
        yield Case("slice", {"input": T(shape, data_type)}, strided)
    part = {"starts": [1, 0], "sizes": [2, 3]}
    yield Case("slice", {"input": T((3, 4))}, part, constants=frozenset({"input"}))
    yield Case("slice", {"input": T((300, 1024))}, {"starts": [10, 100], "sizes": [256, 800]}, timed=True)


def split_cases() -> Iterator[Case]:
    for data_type in types_of("split"):
        for splits, axis in ((1, 0), (2, 0), (3, 1), (9, 2), ([1, 3], 0), ([3, 2, 1], 1), ([8, 1], 2), ([9], 2)):
            yield Case("split", {"input": T((4, 6, 9), data_type, "wide")}, {"splits": splits, "axis": axis})
    for shape, data_type in ranks_with_types("split"):
        for axis, size in enumerate(shape):
            parts = [1, size - 1] if size > 1 else [1]
            yield Case("split", {"input": T(shape, data_type)}, {"splits": parts, "axis": axis})
    yield Case("split", {"input": T((4, 2))}, {"splits": 2}, constants=frozenset({"input"}))
    yield Case("split", {"input": T((256, 1024))}, {"splits": [300, 724], "axis": 1}, timed=True)


def tile_cases() -> Iterator[Case]:
    for data_type in types_of("tile"):
        for repetitions in ([1, 1, 1], [2, 1, 3], [1, 4, 1], [3, 2, 2]):
            yield Case("tile", {"input": T((2, 3, 5), data_type, "wide")}, {"repetitions": repetitions})
    for shape, data_type in ranks_with_types("tile"):
        yield Case(
            "tile", {"input": T(shape, data_type)}, {"repetitions": [1 + axis % 2 for axis in range(len(shape))]}
        )
    yield Case("tile", {"input": T((2, 3))}, {"repetitions": [2, 2]}, constants=frozenset({"input"}))
    yield Case("tile", {"input": T((64, 256))}, {"repetitions": [4, 4]}, timed=True)


def transpose_cases() -> Iterator[Case]:
    for shape, data_type in ranks_with_types("transpose"):
        yield Case("transpose", {"input": T(shape, data_type, "wide")})
        rank = len(shape)
        for turn in range(1, rank):
            permutation = [(axis * turn + 1) % rank if math.gcd(turn, rank) == 1 else axis for axis in range(rank)]
            yield Case("transpose", {"input": T(shape, data_type, "wide")}, {"permutation": permutation})
    for data_type in types_of("transpose"):
        for permutation in itertools.permutations(range(4)):
            inputs = {"input": T((2, 3, 4, 5), data_type, "wide")}
            yield Case("transpose", inputs, {"permutation": list(permutation)})
        yield Case("transpose", {"input": T((70, 33), data_type, "wide")})
        yield Case("transpose", {"input": T((3, 40, 33), data_type, "wide")}, {"permutation": [0, 2, 1]})
        yield Case("transpose", {"input": T((24, 6, 16), data_type, "wide")}, {"permutation": [1, 0, 2]})
    yield Case("transpose", {"input": T((3, 4))}, constants=frozenset({"input"}))
    yield Case("transpose", {"input": T((512, 512))}, timed=True)


def triangular_cases() -> Iterator[Case]:
    for data_type in types_of("triangular"):
        for upper, diagonal in itertools.product((True, False), (0, 1, -1, 3, -4, 2**31 - 1, -(2**31))):
            attrs = {"upper": upper, "diagonal": diagonal}
            yield Case("triangular", {"input": T((5, 9), data_type, "edges")}, attrs)
    for shape, data_type in ranks_with_types("triangular"):
        yield Case("triangular", {"input": T(shape, data_type, "wide")})
        yield Case("triangular", {"input": T(shape, data_type, "wide")}, {"upper": False, "diagonal": -1})
    for data_type in floats_of("triangular"):
        yield Case("triangular", {"input": T((4, 4), data_type, [NAN, INF])}, {"upper": False})
    yield Case("triangular", {"input": T((3, 4))}, constants=frozenset({"input"}))
    yield Case("triangular", {"input": T((512, 512))}, timed=True)


def where_cases() -> Iterator[Case]:
    shapes = (
        ((3, 5), (3, 5), (3, 5)),
        ((), (2, 9), (2, 9)),
        ((2, 1, 4), (3, 1), (1,)),
        ((9,), (2, 1, 9), ()),
        ((1, 5), (), (4, 1)),
        ((), (), ()),
    )
    for turn, data_type in enumerate(types_of("where", "true_value")):
        # How operands are walked depends on their shapes: float32 tries all, the other types one more each.
        for condition, yes, no in shapes if turn == 0 else (shapes[0], shapes[1 + turn % 5]):
            inputs = {
                "condition": T(condition, "uint8", "bool"),
                "true_value": T(yes, data_type, "edges"),
                "false_value": T(no, data_type, "wide"),
            }
            yield Case("where", inputs)
    for shape in RANK_SHAPES:
        data_type = "float32"
        other = tuple(1 if axis % 2 else size for axis, size in enumerate(shape))
        condition = T(shape, "uint8", "bool")
        inputs = {"condition": condition, "true_value": T(shape, data_type), "false_value": T(other, data_type)}
        yield Case("where", inputs)
    # What is not taken must not leak.
    leak = {"condition": T((6,), "uint8", [0, 1]), "true_value": T((6,), values=[NAN, 1.0, INF, 2.0, NAN, 3.0])}
    yield Case("where", {**leak, "false_value": T((6,), values=[1.0, NAN, 2.0, INF, 3.0, NAN])})
    yield Case("where", {**leak, "false_value": T((6,))}, constants=frozenset({"condition", "false_value"}))
    big = {"condition": T((256, 1024), "uint8", "bool"), "true_value": T((256, 1024)), "false_value": T((1,))}
    yield Case("where", big, timed=True)


def cases() -> Iterator[Case]:
    yield from concat_cases()
    yield from expand_cases()
    yield from pad_cases()
    yield from reshape_cases()
    yield from resample_cases()
    yield from reverse_cases()
    yield from slice_cases()
    yield from split_cases()
    yield from tile_cases()
    yield from transpose_cases()
    yield from triangular_cases()
    yield from where_cases()
