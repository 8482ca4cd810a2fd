"""Graph inputs: what the importer is given for them, and how host data becomes a feed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.dtypes import DATA_TYPES
from webnn_cl.errors import MLTypeError, NotSupportedError
from webnn_cl.onnx.elements import carrier_of, name_of_numpy, numpy_type, to_carrier
from webnn_cl.onnx.interface import Spec, fits
from webnn_cl.onnx.values import Absent, Array, Known, Poison, Refusal, Tensor, Value
from webnn_cl.onnx.values import Sequence as SequenceValue

if TYPE_CHECKING:
    from webnn_cl.builder import MLGraphBuilder

__all__ = [
    "Shape", "Signature", "carried", "feed_array", "feed_values", "flatten", "promotable", "same_feed", "shape_of",
    "signature_of",
]  # fmt: skip

# Name, numpy type and shape of each array of a feed.
Signature = list[tuple[str, np.dtype[Any], tuple[int, ...]]]

# The shape of a fed tensor, the shapes of a sequence's items, or None for an empty optional.
Shape = Any
_CARRIED_AS_IS = frozenset(np.dtype(name) for name in DATA_TYPES)
# Elements of an input whose value may decide how the graph is built.
MAX_BY_VALUE = 1024


def promotable(shape: Shape) -> bool:
    """Whether an input is small enough that a graph may be compiled for its value."""
    return isinstance(shape, tuple) and all(isinstance(d, int) for d in shape) and math.prod(shape) <= MAX_BY_VALUE


def feed_values(
    builder: MLGraphBuilder, specs: Mapping[str, Spec], shapes: Mapping[str, Shape], values: Mapping[str, Array]
) -> dict[str, Value]:
    """What each graph input stands for: a graph input of `builder`, or a known value where `values` has one."""
    return {name: _value(builder, spec, name, shapes[name], values.get(name)) for name, spec in specs.items()}


def _value(builder: MLGraphBuilder, spec: Spec, name: str, shape: Shape, value: Array | None) -> Value:
    if value is not None:
        return Known(value)
    if shape is None:
        return Absent()
    if isinstance(shape, list):
        items = tuple(_value(builder, spec, f"{name}[{i}]", s, None) for i, s in enumerate(shape))
        return SequenceValue(items, spec.dtype)
    if 0 in shape:
        return Known(np.zeros(shape, numpy_type(spec.dtype)))  # it holds nothing, so it is known
    try:
        carrier = carrier_of(spec.dtype)
    except Refusal as refusal:
        return Poison(f"input {name!r}: {refusal}")
    return Tensor(builder.input(name, shape, carrier), spec.dtype, frozenset((name,)))


def shape_of(spec: Spec, value: Any) -> Shape:
    """The shape of a checked feed."""
    if value is None:
        return None
    if isinstance(value, list):
        return [tuple(int(d) for d in item.shape) for item in value]
    return tuple(int(d) for d in value.shape)


def feed_array(spec: Spec, value: Any) -> Any:
    """A feed as an array of the declared type (a list of them for a sequence, None for an empty optional).

    Arrays have to have the declared type; lists and numbers are converted when no value changes. MLTypeError otherwise.
    """
    if spec.kind == "optional" and value is None:
        return None
    if spec.kind == "sequence" or (spec.kind == "optional" and spec.inner == "sequence"):
        if not isinstance(value, (list, tuple)):
            raise _mismatch(spec, type(value).__name__)
        return [_array(spec, item) for item in value]
    return _array(spec, value)


def _array(spec: Spec, value: Any) -> Array:
    wanted = numpy_type(spec.dtype)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if name_of_numpy(array.dtype) != spec.dtype:
            raise _mismatch(spec, f"{array.dtype}{list(array.shape)}")
    else:
        array = _converted(spec, value, wanted)
    if not fits(spec, array.shape):
        raise _mismatch(spec, f"the shape {list(array.shape)}")
    return array


def signature_of(feed: Mapping[str, Any]) -> Signature | None:
    """What `same_feed` compares with; None for feeds that have to be looked at each time."""
    if not all(value.__class__ is np.ndarray for value in feed.values()):
        return None
    return [(name, array.dtype, array.shape) for name, array in feed.items()]


def same_feed(signature: Signature, feed: Mapping[str, Any]) -> bool:
    """Whether `feed` holds arrays of the names, types and shapes of another one, which was found good."""
    if feed.__class__ is not dict or len(feed) != len(signature):
        return False
    for name, dtype, shape in signature:
        value = feed.get(name)
        if value.__class__ is not np.ndarray or value.dtype != dtype or value.shape != shape:
            return False
    return True


def carried(name: str, array: Array) -> Array:
    """A feed in the type that carries it on the device, packed; NotSupportedError where that has no such value."""
    if array.dtype in _CARRIED_AS_IS and array.flags.c_contiguous:
        return array
    try:
        return np.asarray(np.ascontiguousarray(to_carrier(array)).reshape(array.shape))
    except Refusal as refusal:
        raise NotSupportedError(f"input {name!r}: {refusal}") from None


def _mismatch(spec: Spec, given: str) -> MLTypeError:
    return MLTypeError(f"input {spec.name!r}: got {given}; the model declares {spec.describe()}")


def _converted(spec: Spec, value: Any, wanted: np.dtype[Any]) -> Array:
    try:
        given = np.asarray(value)
        array = given.astype(wanted)
        same = array == given
    except (TypeError, ValueError) as error:
        raise MLTypeError(f"input {spec.name!r}: got {type(value).__name__}: {error}") from None
    exact = wanted.kind not in "iu" or given.dtype.kind in "iub"
    if not exact or (wanted.kind in "iub" and not np.all(same)):
        raise MLTypeError(f"input {spec.name!r}: the values given are no {spec.dtype} numbers")
    return array


def flatten(name: str, value: Any) -> dict[str, Any]:
    """Feeds by the names of the graph's own inputs: the items of a sequence one by one."""
    if value is None:
        return {}
    if isinstance(value, list):
        return {f"{name}[{i}]": item for i, item in enumerate(value)}
    return {name: value}


