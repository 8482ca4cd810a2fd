"""Sequences and optionals. Their lengths are known while a model is imported, so they never reach the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.elements import name_of_elem
from webnn_cl.onnx.operators.common import concat, reshape, slice_axis, stack
from webnn_cl.onnx.registry import op
from webnn_cl.onnx.values import Absent, Known, Sequence, Tensor, Value

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call

__all__: list[str] = []


def _sequence(c: Call, index: int) -> Sequence:
    value = c.inputs[index] if index < len(c.inputs) else None
    if not isinstance(value, Sequence):
        c.refuse(f"input {index} is not a sequence")
    return value


def _position(c: Call, index: int, length: int, end: bool = False) -> int:
    """A position counted from the front; `end` allows the place behind the last item."""
    at = c.known_ints(index, "the position")[0]
    if not -length <= at < length + end:
        c.refuse(f"position {at} in a sequence of {length}")
    return at + length if at < 0 else at


@op("SequenceConstruct")
def sequence_construct(c: Call) -> Value:
    items = tuple(c.value(i) for i in range(len(c.inputs)))
    return Sequence(items, items[0].dtype)


@op("SequenceEmpty")
def sequence_empty(c: Call) -> Value:
    return Sequence((), name_of_elem(c.integer("dtype", 1)))


@op("SequenceInsert")
def sequence_insert(c: Call) -> Value:
    items = list(_sequence(c, 0).items)
    at = _position(c, 2, len(items), end=True) if c.has(2) else len(items)
    items.insert(at, c.value(1))
    return Sequence(tuple(items), c.dtype(1))


@op("SequenceErase")
def sequence_erase(c: Call) -> Value:
    items = list(_sequence(c, 0).items)
    del items[_position(c, 1, len(items)) if c.has(1) else len(items) - 1]
    return Sequence(tuple(items), _sequence(c, 0).dtype)


@op("SequenceAt")
def sequence_at(c: Call) -> Value:
    items = _sequence(c, 0).items
    return items[_position(c, 1, len(items))]


@op("SequenceLength")
def sequence_length(c: Call) -> Any:
    return np.array(len(_sequence(c, 0).items), np.int64)


@op("ConcatFromSequence")
def concat_from_sequence(c: Call) -> Any:
    items = [i for i in _sequence(c, 0).items if isinstance(i, (Known, Tensor))]
    if not items:
        c.refuse("an empty sequence")
    new = c.integer("new_axis")
    axis = c.axis(c.integer("axis"), len(items[0].shape) + new)
    if all(isinstance(i, Known) for i in items):
        arrays = [i.array for i in items if isinstance(i, Known)]
        return np.stack(arrays, axis) if new else np.concatenate(arrays, axis)
    parts = [c.lift(i) for i in items if 0 not in i.shape]
    joined = stack(c, parts, axis) if new else concat(c, parts, axis)
    return c.tensor(joined, items[0].dtype)


@op("SplitToSequence")
def split_to_sequence(c: Call) -> Value:
    x, rank = c.x(0), c.rank(0)
    axis = c.axis(c.integer("axis"), rank)
    size, keep = x.shape[axis], bool(c.integer("keepdims", 1))
    given = c.known_ints(1, "split") if c.has(1) else [1]
    lengths = given
    if not c.has(1) or not c.shape(1):
        lengths = [given[0]] * (size // given[0]) + ([size % given[0]] if size % given[0] else [])
    if sum(lengths) != size or min(lengths) < 1:
        c.refuse(f"split {lengths} of {size}")
    items: list[Value] = []
    start = 0
    for length in lengths:
        part = slice_axis(c, x, axis, start, length)
        if not c.has(1) and not keep:
            part = reshape(c, part, (*x.shape[:axis], *x.shape[axis + 1 :]))
        items.append(c.tensor(part, c.dtype(0)))
        start += length
    return Sequence(tuple(items), c.dtype(0))


@op("SequenceMap")
def sequence_map(c: Call) -> list[Value]:
    sequences = [v for v in c.inputs if isinstance(v, Sequence)]
    length = len(sequences[0].items)
    outputs: list[list[Value]] = [[] for _ in c.node.outputs]
    for i in range(length):
        given = [v.items[i] if isinstance(v, Sequence) else c.importer.given(v) for v in c.inputs]
        results = c.importer.run_subgraph(c.node.attrs["body"], c.scope, given, f"{c.node.title}.body")
        for output, result in zip(outputs, results, strict=True):
            output.append(result)
    return [Sequence(tuple(items)) for items in outputs]


@op("Optional")
def optional(c: Call) -> Value:
    return c.importer.given(c.inputs[0]) if c.has(0) else Absent()


@op("OptionalHasElement")
def optional_has_element(c: Call) -> Any:
    return np.array(c.has(0) and not isinstance(c.inputs[0], Absent))


@op("OptionalGetElement")
def optional_get_element(c: Call) -> Value:
    if not c.has(0) or isinstance(c.inputs[0], Absent):
        c.refuse("the optional is empty")
    return c.importer.given(c.inputs[0])
