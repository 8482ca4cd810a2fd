"""A model's inputs and outputs: what it declares, and the shapes that are fixed for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from webnn_cl.errors import MLTypeError, NotSupportedError
from webnn_cl.onnx.elements import name_of_elem, ort_type
from webnn_cl.onnx.loader import Model
from webnn_cl.onnx.values import Refusal

__all__ = ["Dim", "NodeArg", "Spec", "fix_shapes", "input_specs", "loosened", "output_specs"]

Dim: TypeAlias = "int | str | None"
Kind = Literal["tensor", "sequence", "optional"]


@dataclass(frozen=True)
class NodeArg:
    """An input or output of a model, with the attributes that onnxruntime's NodeArg has.

    `shape` holds a number per fixed dimension, and a name or None per free one.
    """

    name: str
    shape: list[Dim]
    type: str


@dataclass(frozen=True)
class Spec:
    """One declared input or output: a tensor of `dtype`, or a sequence or optional of them (`dims` is None then)."""

    name: str
    kind: Kind
    dtype: str
    dims: tuple[Dim, ...] | None
    inner: Kind = "tensor"

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        return self.kind == "tensor" and self.dims is not None and all(isinstance(d, int) for d in self.dims)

    def node_arg(self) -> NodeArg:
        """As onnxruntime shows it."""
        text = ort_type(self.dtype)
        if self.kind != "tensor":
            text = f"seq({text})" if self.inner == "sequence" or self.kind == "sequence" else text
            text = f"optional({text})" if self.kind == "optional" else text
        return NodeArg(self.name, list(self.dims or ()), text)

    def describe(self) -> str:
        """Type and shape for messages: ``float32[batch, 3]``."""
        dims = "?" if self.dims is None else ", ".join(str(d) if d is not None else "?" for d in self.dims)
        return f"{self.dtype}[{dims}]" if self.kind == "tensor" else f"{self.kind} of {self.dtype}"


def input_specs(model: Model) -> dict[str, Spec]:
    """What a caller feeds: the graph's inputs that no initializer gives a value."""
    given = {t.name for t in model.graph.initializer} | {t.values.name for t in model.graph.sparse_initializer}
    return {v.name: _spec(v) for v in model.graph.input if v.name not in given}


def output_specs(model: Model) -> dict[str, Spec]:
    """The graph's outputs; their types are facts for readers only, so a missing one is no fault."""
    untyped = {v.name: Spec(v.name, "tensor", "undefined", None) for v in model.graph.output}
    return untyped | {v.name: _spec(v) for v in model.graph.output if v.type.WhichOneof("value")}


def _spec(value: Any) -> Spec:
    try:
        kind = value.type.WhichOneof("value")
        if kind == "tensor_type":
            return _tensor(value.name, value.type.tensor_type)
        if kind == "sequence_type":
            return Spec(value.name, "sequence", _element(value.type.sequence_type.elem_type), None)
        if kind == "optional_type":
            inner = value.type.optional_type.elem_type
            many = inner.WhichOneof("value") == "sequence_type"
            element = _element(inner.sequence_type.elem_type if many else inner)
            return Spec(value.name, "optional", element, None, "sequence" if many else "tensor")
        raise Refusal(f"type {kind or 'missing'}")
    except Refusal as refusal:
        raise NotSupportedError(f"{value.name!r}: {refusal}") from None


def _tensor(name: str, tensor: Any) -> Spec:
    dims = tuple(_dim(d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
    return Spec(name, "tensor", name_of_elem(tensor.elem_type), dims)


def _element(type_proto: Any) -> str:
    if type_proto.WhichOneof("value") != "tensor_type":
        raise Refusal("a sequence of something other than tensors")
    return name_of_elem(type_proto.tensor_type.elem_type)


def _dim(dim: Any) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None


def fix_shapes(
    specs: Mapping[str, Spec], free_dimensions: Mapping[str, int], input_shapes: Mapping[str, Sequence[int]]
) -> dict[str, Spec]:
    """`specs` with the dimensions that a user fixed; MLTypeError for names and ranks that the model lacks."""
    known = {d for s in specs.values() for d in s.dims or () if isinstance(d, str)}
    for name, size in free_dimensions.items():
        if name not in known:
            raise MLTypeError(f"free_dimensions: no dimension is named {name!r}; there are: {_names(sorted(known))}")
        _check_size(f"free_dimensions[{name!r}]", size)
    for name in input_shapes:
        if name not in specs:
            raise MLTypeError(f"input_shapes: no input is named {name!r}; there are: {_names(list(specs))}")
    return {name: _fixed(spec, free_dimensions, input_shapes.get(name)) for name, spec in specs.items()}


def _fixed(spec: Spec, free: Mapping[str, int], shape: Sequence[int] | None) -> Spec:
    if shape is not None:
        dims: tuple[Dim, ...] = tuple(shape)
        for size in dims:
            _check_size(f"input_shapes[{spec.name!r}]", size)
        if spec.dims is not None and len(spec.dims) != len(dims):
            raise MLTypeError(f"input_shapes[{spec.name!r}]: got {list(dims)}; the model declares {spec.describe()}")
        return replace(spec, dims=dims)
    if spec.dims is None:
        return spec
    return replace(spec, dims=tuple(free.get(d, d) if isinstance(d, str) else d for d in spec.dims))


def loosened(spec: Spec, shape: Sequence[int] | None) -> Spec:
    """`spec` for feeds when a user fixed the input's shape: fixed dimensions that `shape` overrules are free."""
    if shape is None or spec.dims is None:
        return spec
    free = tuple(None if isinstance(d, int) and d != s else d for d, s in zip(spec.dims, shape, strict=True))
    return replace(spec, dims=free)


def _check_size(where: str, size: object) -> None:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or int(size) < 0:
        raise MLTypeError(f"{where}: got {size!r}; allowed: a size")


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def fits(spec: Spec, shape: Sequence[int]) -> bool:
    """Whether a tensor of `shape` is one that `spec` declares."""
    if spec.dims is None:
        return True
    return len(spec.dims) == len(shape) and all(not isinstance(d, int) or d == s
                                               for d, s in zip(spec.dims, shape, strict=True))  # fmt: skip
