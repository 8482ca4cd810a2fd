"""Normalizations: every axis, missing and present scale and bias, unsorted axes, empty axes, constant rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.cases.model import RANK_SHAPES, Case, T

FLOATS = ("float32", "float16")


def batch_cases() -> Iterator[Case]:
    for data_type in FLOATS:
        for shape in RANK_SHAPES[1:]:
            for axis in range(len(shape)):
                yield batch(shape, axis, data_type, ("scale", "bias"), {"axis": axis})
        for options in ((), ("scale",), ("bias",)):
            yield batch((2, 3, 4, 5), 1, data_type, options, {})
            yield batch((2, 4, 5, 3), 3, data_type, options, {"axis": 3, "epsilon": 0.01})
        yield batch((2, 9, 4), 1, data_type, ("scale", "bias"), {"epsilon": 0}, frozenset({"mean", "variance"}))
    everything = frozenset({"mean", "variance", "scale", "bias"})
    yield batch((2, 9, 4, 4), 1, "float32", ("scale", "bias"), {}, everything)
    yield batch((1, 64, 56, 56), 1, "float32", ("scale", "bias"), {}, everything, timed=True)


def batch(
    shape: tuple[int, ...],
    axis: int,
    data_type: str,
    options: tuple[str, ...],
    attrs: dict[str, Any],
    constants: frozenset[str] = frozenset(),
    timed: bool = False,
) -> Case:
    """A batchNormalization case with the optional operands named in `options`."""
    channel = (shape[axis],)
    inputs = {
        "input": T(shape, data_type),
        "mean": T(channel, data_type),
        "variance": T(channel, data_type, "positive"),
        **{role: T(channel, data_type) for role in options},
    }
    return Case("batch_normalization", inputs, attrs, constants, timed)


def instance_cases() -> Iterator[Case]:
    # Height and width of one leave batch and channel side by side.
    shapes = ((1, 1, 3, 3), (2, 3, 4, 5), (2, 17, 2, 2), (1, 2, 33, 40), (1, 2, 1, 1), (4, 3, 1, 1), (4, 1, 1, 1))
    for data_type, shape, layout in itertools.product(FLOATS, shapes, ("nchw", "nhwc")):
        channels = (shape[1 if layout == "nchw" else 3],)
        for options in ((), ("scale",), ("bias",), ("scale", "bias")):
            inputs = {"input": T(shape, data_type), **{role: T(channels, data_type) for role in options}}
            epsilon = {"epsilon": 0.01} if options == ("scale",) else {}
            yield Case("instance_normalization", inputs, {"layout": layout, **epsilon})
    flat = {"input": T((1, 2, 16, 16), values="fill:0.1"), "scale": T((2,))}
    yield Case("instance_normalization", flat, {}, frozenset({"scale"}))
    # A large common offset: a one-pass variance would lose it all.
    yield Case("instance_normalization", {"input": T((1, 2, 16, 16), values="range:1000:1001")})
    big = {"input": T((2, 32, 56, 56)), "scale": T((32,)), "bias": T((32,))}
    yield Case("instance_normalization", big, {}, frozenset({"scale", "bias"}), timed=True)


def layer_cases() -> Iterator[Case]:
    for data_type in FLOATS:
        for shape in RANK_SHAPES:
            yield layer(shape, None, data_type, ())
            yield layer(shape, None, data_type, ("scale", "bias"))
            yield layer(shape, [], data_type, ("scale", "bias"))
        for rank in (1, 2, 3, 4):
            shape = RANK_SHAPES[rank]
            for count in range(1, rank + 1):
                for axes in itertools.permutations(range(rank), count):
                    options = (("scale", "bias"), ("scale",), ("bias",), ())[sum(axes) % 4]
                    yield layer(shape, list(axes), data_type, options)
        yield layer((3, 1000), [1], data_type, ("scale", "bias"), {"epsilon": 1e-3})
        yield layer((4, 6), [1], data_type, ("scale", "bias"), {}, "fill:0.1")
    yield layer((2, 40), [1], "float32", ("scale", "bias"), {}, "range:1000:1001")
    yield layer((5, 100000), [1], "float32", ())
    yield layer((128, 768), [1], "float32", ("scale", "bias"), timed=True, constants=frozenset({"scale", "bias"}))


def layer(
    shape: tuple[int, ...],
    axes: list[int] | None,
    data_type: str,
    options: tuple[str, ...],
    attrs: dict[str, Any] | None = None,
    recipe: str = "small",
    **more: Any,
) -> Case:
    """A layerNormalization case; scale and bias follow the order of `axes`."""
    over = range(1, len(shape)) if axes is None else axes
    inner = tuple(shape[axis] for axis in over)
    inputs = {"input": T(shape, data_type, recipe), **{role: T(inner, data_type) for role in options}}
    given = {} if axes is None else {"axes": axes}
    return Case("layer_normalization", inputs, {**given, **(attrs or {})}, **more)


def cases() -> Iterator[Case]:
    yield from batch_cases()
    yield from instance_cases()
    yield from layer_cases()
