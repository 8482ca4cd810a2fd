"""Reading an ONNX model: from a path, bytes or a ModelProto; external data only from the model's own folder."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, Union, cast

import numpy as np
import onnx
from onnx import numpy_helper

from webnn_cl.dtypes import DATA_TYPES
from webnn_cl.errors import MLTypeError, NotSupportedError
from webnn_cl.onnx.elements import name_of_elem, numpy_type
from webnn_cl.onnx.spans import LOCATION, without_weights
from webnn_cl.onnx.values import Array, Refusal

__all__ = ["Model", "ModelSource", "load_model", "tensor_array"]

ModelSource = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Any]

_View = TypeVar("_View")
MAX_ELEMENTS = 2**31 - 1


@dataclass(eq=False)
class Model:
    """A parsed model: its protobuf, the folder that external data may come from, and opset versions by domain.

    `data` are the model's bytes, which its large weights are views of (webnn_cl/onnx/spans.py).
    """

    proto: Any
    folder: Path | None = None
    data: bytes | None = None
    opsets: dict[str, int] = field(default_factory=dict)
    functions: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    _arrays: dict[int, tuple[Any, Array]] = field(default_factory=dict)
    _owned: dict[int, Array] = field(default_factory=dict)
    _views: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.graph = self.proto.graph  # one wrapper for the model's lifetime: views are kept under its identity

    def array(self, tensor: Any) -> Array:
        """The values of an initializer, parsed once."""
        made = self._arrays.get(id(tensor))
        if made is None or made[0] is not tensor:
            made = self._arrays[id(tensor)] = (tensor, tensor_array(tensor, self.folder, self.data))
            self._owned[id(made[1])] = made[1]
        return made[1]

    def owns(self, array: Array) -> bool:
        """Whether `array` is the very array of an initializer."""
        return self._owned.get(id(array)) is array

    def view(self, graph: Any, make: Callable[[Any], _View]) -> _View:
        """``make(graph)``, made once for each graph message."""
        made = self._views.get(id(graph))
        if made is None or made[0] is not graph:
            made = self._views[id(graph)] = (graph, make(graph))
        return cast("_View", made[1])


def load_model(source: ModelSource) -> Model:
    """Parse `source`; NotSupportedError in one line when it is no complete ONNX model, OSError as open() raises it."""
    proto, folder, data = _parse(source)
    where = str(source) if folder is not None else "the given model"
    if not proto.HasField("graph") or not proto.opset_import:
        raise NotSupportedError(f"{where}: not an ONNX model, it has no graph or no opset_import")
    opsets = {"" if o.domain == "ai.onnx" else o.domain: int(o.version) for o in proto.opset_import}
    functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in proto.functions}
    newest = onnx.defs.onnx_opset_version()
    if opsets.get("", 1) > newest:
        known = f"the newest that onnx {onnx.__version__} knows is {newest}"
        raise NotSupportedError(f"{where}: operator set {opsets['']} is too new, {known}")
    return Model(proto, folder, data, opsets, functions)


def _parse(source: ModelSource) -> tuple[Any, Path | None, bytes | None]:
    if isinstance(source, onnx.ModelProto):
        return _from_message(source)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _from_bytes(bytes(source), None, "the given bytes")
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        return _from_bytes(path.read_bytes(), path.resolve().parent, str(path))
    raise MLTypeError(f"model: got {type(source).__name__}; allowed: a path, bytes or an onnx.ModelProto")


def _from_message(source: Any) -> tuple[Any, Path | None, bytes | None]:
    """A large one by way of its bytes: reading a weight out of a message copies it."""
    try:
        large = source.ByteSize() > 1 << 20
        return _from_bytes(source.SerializeToString(), None, "the given model") if large else (source, None, None)
    except ValueError:  # beyond protobuf's 2 GiB
        return source, None, None


def _from_bytes(data: bytes, folder: Path | None, where: str) -> tuple[Any, Path | None, bytes | None]:
    if not data:
        raise NotSupportedError(f"{where}: empty, not an ONNX model")
    model = onnx.ModelProto()
    light = without_weights(data)
    try:
        model.ParseFromString(data if light is None else light)
    except Exception as error:  # protobuf's DecodeError; its own module differs between protobuf versions
        raise NotSupportedError(f"{where}: truncated or not an ONNX model ({_one_line(error)})") from None
    return model, folder, data if light is not None else None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def tensor_array(tensor: Any, folder: Path | None, data: bytes | None = None) -> Array:
    """The values of a TensorProto (initializer or attribute); a Refusal when it is inconsistent or out of bounds.

    External data is mapped, not read, and large weights are views of `data`, the model's bytes, so that weights reach
    the device without a copy on the host.
    """
    if isinstance(tensor, onnx.SparseTensorProto):
        return _dense(tensor, folder)
    name = name_of_elem(tensor.data_type)
    shape = tuple(int(d) for d in tensor.dims)
    if any(d < 0 for d in shape) or math.prod(shape) > MAX_ELEMENTS:
        raise Refusal(f"tensor {tensor.name!r} has the shape {list(shape)}; at most {MAX_ELEMENTS} elements")
    try:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return _external_array(tensor, name, shape, folder, data)
        return _inline_array(tensor, name, shape)
    except Refusal:
        raise
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise Refusal(f"tensor {tensor.name!r} is malformed: {_one_line(error)}") from None


def _dense(sparse: Any, folder: Path | None) -> Array:
    """A SparseTensorProto as the dense tensor it stands for."""
    shape = tuple(int(d) for d in sparse.dims)
    if any(d < 0 for d in shape) or math.prod(shape) > MAX_ELEMENTS:
        raise Refusal(f"sparse tensor {sparse.values.name!r} has the shape {list(shape)}")
    values, indices = tensor_array(sparse.values, folder), tensor_array(sparse.indices, folder)
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
    dense = np.zeros(math.prod(shape), values.dtype)
    dense[flat] = values
    return dense.reshape(shape)


def _inline_array(tensor: Any, name: str, shape: tuple[int, ...]) -> Array:
    dtype = numpy_type(name)
    if name in DATA_TYPES and sys.byteorder == "little" and len(tensor.raw_data) == dtype.itemsize * math.prod(shape):
        return np.frombuffer(tensor.raw_data, dtype=dtype).reshape(shape)  # a view, no copy
    array = np.asarray(numpy_helper.to_array(tensor))
    if array.shape != shape:
        raise Refusal(f"tensor {tensor.name!r}: {array.size} values for the shape {list(shape)}")
    return array


def _external_array(
    tensor: Any, name: str, shape: tuple[int, ...], folder: Path | None, data: bytes | None
) -> Array:
    entries = {e.key: e.value for e in tensor.external_data}
    if data is not None and entries.get("location") == LOCATION:
        return _span_array(tensor, name, shape, data, int(entries["offset"]), int(entries["length"]))
    path = external_path(entries.get("location", ""), folder)
    offset, dtype = int(entries.get("offset", 0)), numpy_type(name)
    packed = {"int4": 2, "uint4": 2, "float4_e2m1fn": 2, "int2": 4, "uint2": 4}.get(name, 1)
    count = math.prod(shape)
    nbytes = -(-count // packed) * dtype.itemsize
    size = path.stat().st_size
    if name == "string" or offset < 0 or offset + nbytes > size or int(entries.get("length", nbytes)) != nbytes:
        raise Refusal(f"tensor {tensor.name!r}: {nbytes} bytes at {offset} do not fit {path.name} ({size} bytes)")
    if packed == 1 and count:
        return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
    inline = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=shape)
    with path.open("rb") as file:
        file.seek(offset)
        inline.raw_data = file.read(nbytes)
    return np.asarray(numpy_helper.to_array(inline))


def _span_array(tensor: Any, name: str, shape: tuple[int, ...], data: bytes, offset: int, length: int) -> Array:
    dtype, count = numpy_type(name), math.prod(shape)
    if name in DATA_TYPES and sys.byteorder == "little" and length == dtype.itemsize * count:
        return np.frombuffer(data, dtype, count, offset).reshape(shape)
    inline = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=shape)
    inline.raw_data = memoryview(data)[offset : offset + length].tobytes()
    return _inline_array(inline, name, shape)


def external_path(location: str, folder: Path | None) -> Path:
    """The file that `location` names, inside `folder`; a Refusal when it leads outside it or is no plain file."""
    if folder is None:
        raise Refusal("external data needs a model loaded from a path; bytes have no folder to read it from")
    root = folder.resolve()
    path = (root / location).resolve()
    if not location or not path.is_relative_to(root):
        raise Refusal(f"external data {location!r} lies outside the model's folder")
    if not path.is_file():
        raise Refusal(f"external data {location!r} is not a file next to the model")
    return path
