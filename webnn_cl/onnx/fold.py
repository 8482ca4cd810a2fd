"""Evaluating nodes on the host when all their inputs are known.

Shapes, indices and parameters are computed this way; the onnx package's reference evaluator is the library behind it,
with numpy shortcuts for the few operators that shape arithmetic is made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from webnn_cl.onnx.nodes import Node
from webnn_cl.onnx.values import Array, Refusal

__all__ = ["NotOnHost", "can_fold", "fold"]

MAX_FOLDED = 2**26  # elements of one folded result; beyond it the device is asked, which checks sizes beforehand
SMALL = 4096  # elements of all inputs up to which costly operators are folded as well

RANDOM = frozenset({
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial",
})  # fmt: skip
# Slow in the reference evaluator, or better left to the device (weights stay quantized).
COSTLY = frozenset({"MatMul", "Gemm", "MatMulInteger", "DequantizeLinear", "TopK", "Det"})
# Never part of shape arithmetic. The evaluator is slow at them and not right for all shapes: its LRN (onnx 1.23)
# walks the batch where it should walk the channels.
NEURAL = frozenset({
    "Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv", "QLinearMatMul", "LSTM", "GRU", "RNN",
    "Attention", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "MaxUnpool",
    "Resize", "Upsample", "GridSample", "RoiAlign", "BatchNormalization", "InstanceNormalization", "LRN",
    "LayerNormalization", "GroupNormalization", "RMSNormalization", "LpNormalization", "MeanVarianceNormalization",
    "Col2Im", "DFT", "STFT",
})  # fmt: skip
CONTROL = frozenset({"If", "Loop", "Scan", "SequenceMap", "Einsum", "ImageDecoder"})
_OUTPUT_FROM_VALUE = frozenset({"HannWindow", "HammingWindow", "BlackmanWindow"})


class NotOnHost(Refusal):
    """Too large for the host, or unknown to the reference evaluator; a handler may still express it."""


def can_fold(node: Node, arrays: Sequence[Array | None]) -> bool:
    """Whether `node`, whose inputs are all known, is to be evaluated on the host."""
    if node.op_type in RANDOM | CONTROL | NEURAL or node.domain not in ("", "ai.onnx.ml"):
        return False
    costly = node.op_type in COSTLY or (node.op_type == "Cast" and _widens(arrays))
    return not costly or sum(a.size for a in arrays if a is not None) <= SMALL


def _widens(arrays: Sequence[Array | None]) -> bool:
    """Weights in float16 stay so on the host; the device casts them."""
    return any(a is not None and a.dtype == np.float16 for a in arrays)


def fold(
    node: Node, arrays: Sequence[Array | None], opsets: Mapping[str, int], types: Sequence[str | None]
) -> list[Any]:
    """The outputs of `node`: arrays, or lists of arrays for sequences. `types` are the expected element types."""
    size = _result_size(node, arrays)
    if size > MAX_FOLDED:
        raise NotOnHost(f"its result has {size} elements; at most {MAX_FOLDED} are computed on the host")
    with np.errstate(all="ignore"):
        shortcut = _SHORTCUTS.get(node.op_type) if node.domain == "" else None
        results = shortcut(node, arrays, opsets[""]) if shortcut else None
        if results is None:
            results = _reference(node, arrays, opsets)
    return [_typed(r, t) for r, t in zip(results, types, strict=False)]


def _typed(result: Any, dtype: str | None) -> Any:
    from webnn_cl.onnx.elements import numpy_type

    if result is None or isinstance(result, list):
        return result
    array = np.asarray(result)
    if dtype is None or dtype == "string" or array.dtype == numpy_type(dtype):
        return array
    return array.astype(numpy_type(dtype))


def _reference(node: Node, arrays: Sequence[Array | None], opsets: Mapping[str, int]) -> list[Any]:
    """Through onnx.reference; the node becomes a function, the one form that keeps its operator set version."""
    from onnx.reference import ReferenceEvaluator  # takes long to import, and few models need it

    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    names = [n for n in dict.fromkeys(node.inputs) if n]
    outputs = [o for o in node.outputs if o]
    function = helper.make_function("webnn_cl", "folded", names, outputs, [node.proto], imports)
    feeds = {n: a for n, a in zip(node.inputs, arrays, strict=False) if n}
    try:
        results = iter(ReferenceEvaluator(function).run(None, feeds, {}))
    except Refusal:
        raise
    except (MemoryError, RecursionError) as error:
        raise Refusal(f"can't be computed on the host: {type(error).__name__}") from None
    except Exception as error:  # whatever the evaluator's numpy code raises for inconsistent nodes
        text = " ".join(str(error).split())[:200]
        kind = NotOnHost if "No implementation for operator" in text else Refusal
        raise kind(f"can't be computed on the host: {text}") from None
    return [next(results) if o else None for o in node.outputs]


# Result sizes, so that a small file can't ask for all memory ------------------------------------------------


def _result_size(node: Node, arrays: Sequence[Array | None]) -> int:
    given = [a for a in arrays if a is not None]
    rule = _SIZES.get(node.op_type)
    try:
        if rule is not None:
            return int(rule(node, arrays))
        return math.prod(np.broadcast_shapes(*(a.shape for a in given)))
    except (ValueError, TypeError, IndexError, OverflowError):
        return sum(a.size for a in given)  # not broadcastable, or malformed: the evaluation itself tells


def _ints(array: Array | None) -> list[int]:
    return [] if array is None else [int(v) for v in array.reshape(-1)]


def _expand_size(node: Node, a: Sequence[Any]) -> int:
    shape, given = a[0].shape, _ints(a[1])
    rank = max(len(shape), len(given))
    padded = [1] * (rank - len(shape)) + list(shape), [1] * (rank - len(given)) + given
    return math.prod(max(x, y) for x, y in zip(*padded, strict=True))


def _pad_size(node: Node, a: Sequence[Any]) -> int:
    pads = _ints(a[1]) if len(a) > 1 else [int(p) for p in node.attrs.get("pads", [])]
    return int(a[0].size) * math.prod(1 + max(p, 0) for p in pads) if len(pads) <= 2 else math.prod(
        d + sum(abs(p) for p in pads) for d in a[0].shape)  # fmt: skip


_SIZES: dict[str, Callable[[Node, Sequence[Any]], float]] = {
    "ConstantOfShape": lambda n, a: math.prod(_ints(a[0])),
    "Expand": _expand_size,
    "Tile": lambda n, a: a[0].size * math.prod(_ints(a[1])),
    "Range": lambda n, a: (float(a[1]) - float(a[0])) / float(a[2]) if float(a[2]) else 0,
    "OneHot": lambda n, a: a[0].size * int(a[1].reshape(-1)[0]),
    "Pad": _pad_size,
    "Gather": lambda n, a: a[1].size * a[0].size // max(1, a[0].shape[int(n.attrs.get("axis", 0))]),
    "MelWeightMatrix": lambda n, a: int(a[0]) * (int(a[1]) // 2 + 1),
    **{name: (lambda n, a: int(a[0])) for name in _OUTPUT_FROM_VALUE},
}


# Shortcuts: (node, arrays, opset) -> results, or None to leave it to the reference evaluator -----------------

Shortcut = Callable[[Node, Sequence[Any], int], "list[Any] | None"]


def _axes(node: Node, arrays: Sequence[Any]) -> list[int] | None:
    if len(arrays) > 1 and arrays[1] is not None:
        return _ints(arrays[1])
    axes = node.attrs.get("axes")
    return None if axes is None else [int(a) for a in axes]


def _unsqueeze(node: Node, arrays: Sequence[Any], opset: int) -> list[Any] | None:
    axes = _axes(node, arrays)
    return None if axes is None else [np.expand_dims(arrays[0], tuple(axes))]


def _squeeze(node: Node, arrays: Sequence[Any], opset: int) -> list[Any]:
    axes = _axes(node, arrays)
    return [np.squeeze(arrays[0], None if axes is None else tuple(axes))]


def _gather(node: Node, arrays: Sequence[Any], opset: int) -> list[Any]:
    return [np.take(arrays[0], arrays[1], axis=int(node.attrs.get("axis", 0)))]


def _cast(node: Node, arrays: Sequence[Any], opset: int) -> list[Any] | None:
    plain = {1: "float32", 6: "int32", 7: "int64", 9: "bool"}.get(int(node.attrs["to"]))
    source = arrays[0]
    exact = source.dtype.kind in "iub" or (source.dtype.kind == "f" and plain in ("float32", "bool"))
    return [source.astype(plain)] if plain and exact else None


def _binary(function: Callable[[Array, Array], Array]) -> Shortcut:
    def run(node: Node, arrays: Sequence[Any], opset: int) -> list[Any] | None:
        return [function(arrays[0], arrays[1])] if opset >= 7 and arrays[0].dtype.kind in "iuf" else None

    return run


def _constant_of_shape(node: Node, arrays: Sequence[Any], opset: int) -> list[Any]:
    value = node.attrs.get("value")
    fill = np.zeros(1, np.float32) if value is None else onnx.numpy_helper.to_array(value).reshape(1)
    return [np.broadcast_to(fill, tuple(_ints(arrays[0])))]


def _slice(node: Node, arrays: Sequence[Any], opset: int) -> list[Any] | None:
    if opset < 10:
        return None
    given = [None if a is None else _ints(a) for a in arrays[1:]]
    given += [None] * (4 - len(given))
    starts, ends, axes, steps = given
    if starts is None or ends is None:
        return None
    places = [slice(None)] * arrays[0].ndim
    numbers = zip(axes or range(len(starts)), starts, ends, steps or [1] * len(starts), strict=True)
    for axis, start, end, step in numbers:
        places[axis] = slice(start, end, step)
    return [arrays[0][tuple(places)]]


def _reshape(node: Node, arrays: Sequence[Any], opset: int) -> list[Any] | None:
    if opset < 5:
        return None
    kept = not node.attrs.get("allowzero", 0)
    return [arrays[0].reshape([arrays[0].shape[i] if d == 0 and kept else d for i, d in enumerate(_ints(arrays[1]))])]


_SHORTCUTS: dict[str, Shortcut] = {
    "Identity": lambda n, a, v: [a[0]],
    "Concat": lambda n, a, v: [np.concatenate(a, axis=int(n.attrs.get("axis", 1)))],
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Gather": _gather,
    "Cast": _cast,
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "ConstantOfShape": _constant_of_shape,
    "Slice": _slice,
    "Reshape": _reshape,
    "Transpose": lambda n, a, v: [np.transpose(a[0], n.attrs.get("perm"))],
}
