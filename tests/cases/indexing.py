"""Gather and scatter: every index type, negative, far out-of-range and duplicate indices, every axis and depth."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cases.model import RANK_SHAPES, Case, T, types_of

INDICES = ("int32", "uint32", "int64")


def gather_cases() -> Iterator[Case]:
    for turn, data_type in enumerate(types_of("gather")):
        index = INDICES[turn % 3]
        yield Case("gather", {"input": T((7, 9), data_type, "wide"), "indices": T((40,), index, "wild:7")})
        for axis in range(3):
            inputs = {"input": T((3, 4, 9), data_type), "indices": T((2, 5), index, f"index:{(3, 4, 9)[axis]}")}
            yield Case("gather", inputs, {"axis": axis})
        yield Case("gather", {"input": T((9,), data_type, "edges"), "indices": T((), index, "index:9")})
    for index in INDICES:
        for axis in (0, 1, 2):
            inputs = {"input": T((3, 4, 5)), "indices": T((29,), index, f"wild:{(3, 4, 5)[axis]}")}
            yield Case("gather", inputs, {"axis": axis})
    for rank in range(1, 9):
        shape = RANK_SHAPES[rank]
        for index_rank in range(10 - rank):
            axis = (rank + index_rank) % rank
            indices = T(RANK_SHAPES[index_rank], INDICES[rank % 3], f"index:{shape[axis]}")
            yield Case("gather", {"input": T(shape), "indices": indices}, {"axis": axis})
    table = {"input": T((30, 8), "float16"), "indices": T((5,), "int64", "index:30")}
    yield Case("gather", table, constants=frozenset({"input"}))
    yield Case("gather", table, constants=frozenset({"indices"}))
    yield Case("gather", table, constants=frozenset({"input", "indices"}))
    yield Case("gather", {"input": T((5000, 256)), "indices": T((512,), "int32", "index:5000")}, timed=True)


def elements_cases() -> Iterator[Case]:
    op = "gather_elements"
    for turn, data_type in enumerate(types_of(op)):
        index = INDICES[turn % 3]
        for axis, length in ((0, 2), (1, 6), (2, 9), (1, 1)):
            shape = [3, 4, 5]
            size, shape[axis] = shape[axis], length
            inputs = {"input": T((3, 4, 5), data_type, "wide"), "indices": T(tuple(shape), index, f"wild:{size}")}
            yield Case(op, inputs, {"axis": axis})
    for rank in range(1, 9):
        for axis in range(rank):
            shape = RANK_SHAPES[rank]
            indices = T(shape, INDICES[(rank + axis) % 3], f"index:{shape[axis]}")
            yield Case(op, {"input": T(shape), "indices": indices}, {"axis": axis})
    big = {"input": T((256, 1024)), "indices": T((256, 1024), "int32", "index:1024")}
    yield Case(op, big, {"axis": 1}, timed=True)
    small = {"input": T((4, 9)), "indices": T((4, 9), "int32", "index:9")}
    yield Case(op, small, {"axis": 1}, constants=frozenset({"input", "indices"}))


def _nd_shapes() -> Iterator[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """Input shape, leading shape of the indices, depth."""
    for rank in range(1, 9):
        shape = RANK_SHAPES[rank]
        for depth in range(1, rank + 1):
            for lead in ((), (4,), (2, 3)):
                if len(lead) + rank - depth <= 8:
                    yield shape, lead, depth


def _smallest(shape: tuple[int, ...], depth: int) -> int:
    return min(shape[:depth])


def nd_cases() -> Iterator[Case]:
    for turn, (shape, lead, depth) in enumerate(_nd_shapes()):
        data_type, index = types_of("gather_nd")[turn % 8], INDICES[turn % 3]
        indices = T((*lead, depth), index, f"wild:{_smallest(shape, depth)}")
        yield Case("gather_nd", {"input": T(shape, data_type, "wide"), "indices": indices})
        updates = T((*lead, *shape[depth:]), data_type, "wide")
        yield Case("scatter_nd", {"input": T(shape, data_type), "indices": indices, "updates": updates})
    for data_type in types_of("gather_nd"):
        for index in INDICES:
            indices = T((29, 2), index, "index:5")
            yield Case("gather_nd", {"input": T((5, 6, 9), data_type), "indices": indices})
            updates = T((29, 9), data_type, "ramp")
            yield Case("scatter_nd", {"input": T((5, 6, 9), data_type), "indices": indices, "updates": updates})
    indices = T((3, 2), "int32", "index:4")
    yield Case("gather_nd", {"input": T((4, 5)), "indices": indices}, constants=frozenset({"input", "indices"}))
    scatter = {"input": T((4, 5)), "indices": indices, "updates": T((3,))}
    yield Case("scatter_nd", scatter, constants=frozenset({"indices"}))
    yield Case("scatter_nd", scatter, constants=frozenset(scatter))
    yield Case("gather_nd", {"input": T((64, 64, 64)), "indices": T((4096, 2), "int32", "index:64")}, timed=True)
    many = {"input": T((64, 64, 64)), "indices": T((1024, 2), "int32", "index:64"), "updates": T((1024, 64))}
    yield Case("scatter_nd", many, timed=True)


def scatter_cases() -> Iterator[Case]:
    op = "scatter_elements"
    for turn, data_type in enumerate(types_of(op)):
        index = INDICES[turn % 3]
        for axis, length in ((0, 2), (1, 6), (2, 29), (1, 1)):
            shape = [3, 4, 5]
            size, shape[axis] = shape[axis], length
            inputs = {
                "input": T((3, 4, 5), data_type, "wide"),
                "indices": T(tuple(shape), index, f"wild:{size}"),
                "updates": T(tuple(shape), data_type, "ramp"),
            }
            yield Case(op, inputs, {"axis": axis})
    for rank in range(1, 9):
        for axis in range(rank):
            shape = RANK_SHAPES[rank]
            indices = T(shape, INDICES[(rank + axis) % 3], f"index:{shape[axis]}")
            yield Case(op, {"input": T(shape), "indices": indices, "updates": T(shape)}, {"axis": axis})
    # Very many duplicates: the last one must win wherever it is computed.
    for size in (1, 2, 7):
        inputs = {
            "input": T((size, 3)),
            "indices": T((2000, 3), "int32", f"index:{size}"),
            "updates": T((2000, 3), values="ramp"),
        }
        yield Case(op, inputs)
    small = {"input": T((4, 9)), "indices": T((4, 9), "int32", "index:9"), "updates": T((4, 9))}
    yield Case(op, small, {"axis": 1}, constants=frozenset(small))
    big = {"input": T((64, 512)), "indices": T((64, 512), "int32", "index:512"), "updates": T((64, 512))}
    yield Case(op, big, {"axis": 1}, timed=True)


def cases() -> Iterator[Case]:
    yield from gather_cases()
    yield from elements_cases()
    yield from nd_cases()
    yield from scatter_cases()
