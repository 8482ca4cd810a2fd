"""Element-wise binary, logical and unary operators."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cases.model import RANK_SHAPES, Case, T, ranks_with_types, types_of

ARITHMETIC = ("add", "sub", "mul", "div", "max", "min", "pow")
COMPARISONS = ("equal", "not_equal", "greater", "greater_or_equal", "lesser", "lesser_or_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
BINARY = (*ARITHMETIC, *COMPARISONS, *LOGICAL)
UNARY = (
    *("abs", "ceil", "cos", "erf", "exp", "floor", "identity", "log", "neg", "reciprocal", "round_even"),
    *("sign", "sin", "sqrt", "tan", "is_nan", "is_infinite", "logical_not"),
)

# Shapes of a and b: equal, scalars, rows and columns, leading and inner ones, different ranks, both sides growing.
BROADCASTS = (
    ((3, 5, 7), (3, 5, 7)),
    ((), ()),
    ((1,), ()),
    ((), (4, 5)),
    ((17,), (1,)),
    ((2, 3, 9), (9,)),
    ((3, 1), (2, 3, 4)),
    ((2, 3, 1), (3, 8)),
    ((2, 1, 4), (3, 1)),
    ((5, 1, 1, 2), (1, 3, 2, 1)),
    ((1, 4, 1, 3), (2, 1, 5, 1)),
    ((4, 8, 8), (4, 1, 8)),
)


def binary_cases() -> Iterator[Case]:
    for op in BINARY:
        types = types_of(op)
        logical = op in LOGICAL
        small = "bool" if logical else "small"
        for data_type in types:
            # Every edge value against every other one; 33 is the number of float edge values.
            rows, columns = ("bool", "bool") if logical else ("rows", "columns")
            yield Case(op, {"a": T((33, 33), data_type, rows), "b": T((33, 33), data_type, columns)})
            yield Case(op, {"a": T((107,), data_type, "wide"), "b": T((107,), data_type, "wide")})
            yield Case(op, {"a": T((4, 9), data_type, "ties"), "b": T((4, 9), data_type, "ties")})
        for shape, data_type in ranks_with_types(op):
            yield Case(op, {"a": T(shape, data_type, small), "b": T(shape, data_type, small)})
        # How operands are walked depends on their shapes, not on the operator: one operator of each kind tries all.
        walked = BROADCASTS if op in ("sub", "greater", "logical_and") else BROADCASTS[5:7]
        for a, b in walked:
            yield Case(op, {"a": T(a, types[0], small), "b": T(b, types[0], small)})
        a, b = BROADCASTS[5]
        yield Case(op, {"a": T(a, types[0], small), "b": T(b, types[0], small)}, constants=frozenset({"b"}))
        big = T((256, 1024), types[0], "bool" if logical else "positive")
        yield Case(op, {"a": big, "b": big}, timed=True)


def broadcast_cases() -> Iterator[Case]:
    """Every broadcast on every data type for one operator, and at every rank."""
    for data_type in types_of("sub"):
        for a, b in BROADCASTS[4:8]:
            yield Case("sub", {"a": T(a, data_type), "b": T(b, data_type)})
    for shape, _ in ranks_with_types("sub"):
        odd = tuple(1 if axis % 2 else size for axis, size in enumerate(shape))
        even = tuple(size if axis % 2 else 1 for axis, size in enumerate(shape))
        yield Case("sub", {"a": T(shape), "b": T(odd)})
        yield Case("sub", {"a": T(even), "b": T(odd)})
        yield Case("sub", {"a": T(shape[len(shape) // 2 :]), "b": T(shape)})
    for a, b in BROADCASTS:
        yield Case("sub", {"a": T(a), "b": T(b)}, constants=frozenset({"b"}))


def power_cases() -> Iterator[Case]:
    """pow where it matters: integral exponents of negative bases, roots, integer bases with small exponents."""
    for data_type in ("float32", "float16"):
        exponents = T((64, 9), data_type, [-2, -1, -0.5, 0, 0.5, 1, 2, 3, 10])
        yield Case("pow", {"a": T((64, 9), data_type, "small"), "b": exponents})
        yield Case("pow", {"a": T((64,), data_type, "positive"), "b": T((64,), data_type, "small")})
    for data_type in types_of("pow")[2:]:
        yield Case("pow", {"a": T((361,), data_type, "small"), "b": T((361,), data_type, "small")})


def unary_cases() -> Iterator[Case]:
    for op in UNARY:
        role = "a" if op.startswith(("is_", "logical")) else "input"
        types = types_of(op)
        for data_type in types:
            recipes = ("bool",) if op == "logical_not" else ("edges", "wide", "small")
            for recipe in recipes:
                yield Case(op, {role: T((107,), data_type, recipe)})
        for shape, data_type in ranks_with_types(op):
            yield Case(op, {role: T(shape, data_type, "small")})
        yield Case(op, {role: T(RANK_SHAPES[3], types[0], "small")}, constants=frozenset({role}))
        yield Case(op, {role: T((256, 1024), types[0], "positive")}, timed=True)


def accuracy_cases() -> Iterator[Case]:
    """Dense samples where functions have their hard spots."""
    for data_type in ("float32", "float16"):
        for op in ("sin", "cos", "tan"):
            yield Case(op, {"input": T((400,), data_type, "range:-10:10")})
            yield Case(op, {"input": T((400,), data_type, "range:-60000:60000")})
        yield Case("exp", {"input": T((400,), data_type, "range:-105:90")})
        yield Case("erf", {"input": T((400,), data_type, "range:-5:5")})
        yield Case("erf", {"input": T((400,), data_type, "range:-0.01:0.01")})
        yield Case("log", {"input": T((400,), data_type, "near_one")})
        for op in ("round_even", "ceil", "floor"):
            halves = [k / 2 for k in range(-12, 13)]
            yield Case(op, {"input": T((25,), data_type, halves)})


def cases() -> Iterator[Case]:
    yield from binary_cases()
    yield from broadcast_cases()
    yield from power_cases()
    yield from unary_cases()
    yield from accuracy_cases()
