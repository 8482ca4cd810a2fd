"""InferenceSession: an ONNX model on a context, with the names that onnxruntime users know."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.errors import InvalidStateError, MLTypeError, NotSupportedError
from webnn_cl.future import MLFuture
from webnn_cl.onnx.compiled import Compiled
from webnn_cl.onnx.elements import carrier_of
from webnn_cl.onnx.feeds import (
    Shape,
    Signature,
    feed_array,
    feed_values,
    flatten,
    promotable,
    same_feed,
    shape_of,
    signature_of,
)
from webnn_cl.onnx.importer import Importer
from webnn_cl.onnx.interface import NodeArg, Spec, fits, fix_shapes, input_specs, loosened, output_specs
from webnn_cl.onnx.loader import ModelSource, load_model
from webnn_cl.onnx.report import not_supported
from webnn_cl.onnx.values import Array
from webnn_cl.onnx.weights import DeviceWeights
from webnn_cl.tensor import MLTensor

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.graph import MLGraph

__all__ = ["InferenceSession", "ModelMeta"]

MAX_KEPT = 8  # compiled graphs of one session


@dataclass(frozen=True)
class ModelMeta:
    """What a model says about itself, with the attributes of onnxruntime's ModelMetadata."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: Mapping[str, str] = field(default_factory=dict)


class InferenceSession:
    """An ONNX model, ready to run.

    `model` is a path, bytes or an onnx.ModelProto; without `context` the session makes one on the default device (with
    `profiling` as given) and destroys it when it is destroyed itself. `free_dimensions` fixes symbolic dimensions by
    name, `input_shapes` the whole shape of inputs, dimensions that the model declares with a number among them.

    A model whose shapes are all fixed is compiled at once, others at the first run. Another input shape is compiled
    when it is first seen; the latest few are kept, and all share one copy of each weight. Where the values of small
    inputs decide the structure (a target shape, say), a graph is compiled for each of their values.

    Raises NotSupportedError when `model` is no ONNX model or can't be expressed (all reasons at once), MLTypeError for
    names that the model lacks.
    """

    def __init__(
        self,
        model: ModelSource,
        context: MLContext | None = None,
        *,
        free_dimensions: Mapping[str, int] | None = None,
        input_shapes: Mapping[str, Sequence[int]] | None = None,
        profiling: bool = False,
    ) -> None:
        self._model = load_model(model)
        declared = input_specs(self._model)
        fixed = input_shapes or {}
        self._specs = fix_shapes(declared, free_dimensions or {}, fixed)
        self._declared = {name: loosened(spec, fixed.get(name)) for name, spec in declared.items()}
        self._outputs = output_specs(self._model)
        self._own_context = context is None
        if context is None:
            import webnn_cl

            context = webnn_cl.ML().create_context(profiling=profiling)
        self._context = context
        self._weights = DeviceWeights()
        self._kept: OrderedDict[Any, Compiled] = OrderedDict()
        self._by_value: set[str] = set()
        # What the last feed was like, and its graph: another feed like it needs no look.
        self._latest: tuple[Signature, Compiled] | None = None
        self._told: set[str] = set()
        self._lock = threading.RLock()
        self._destroyed = False
        if all(spec.is_static for spec in self._specs.values()):
            shapes = {name: tuple(int(d or 0) for d in spec.dims or ()) for name, spec in self._specs.items()}
            self._compile_static(shapes)

    def _compile_static(self, shapes: dict[str, Shape]) -> None:
        try:
            self._compiled(shapes, {})
        except _NeedsValues:
            pass  # compiled at the first run, for the values it is given
        except BaseException:
            self.destroy()
            raise

    # What the model is --------------------------------------------------------------------------------------

    @property
    def context(self) -> MLContext:
        """The context that the model runs on."""
        return self._context

    @property
    def graph(self) -> MLGraph:
        """The graph compiled last; InvalidStateError when there is none, since shapes are open or all is known."""
        with self._lock:
            latest = next(reversed(self._kept.values()), None)
        if latest is None or latest.graph is None:
            raise InvalidStateError("no graph is compiled yet: run the session once, or fix its input shapes")
        return latest.graph

    def get_inputs(self) -> list[NodeArg]:
        """The inputs to feed."""
        return [spec.node_arg() for spec in self._specs.values()]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return [spec.node_arg() for spec in self._outputs.values()]

    def get_modelmeta(self) -> ModelMeta:
        """Producer, descriptions, version and the model's own key-value pairs."""
        proto = self._model.proto
        return ModelMeta(
            proto.producer_name,
            proto.graph.name,
            proto.domain,
            proto.doc_string,
            proto.graph.doc_string,
            int(proto.model_version),
            {entry.key: entry.value for entry in proto.metadata_props},
        )

    @property
    def weight_bytes(self) -> int:
        """Bytes of different weights, shared by the graphs of all shapes."""
        return self._weights.nbytes

    # Running ------------------------------------------------------------------------------------------------

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> list[Any]:
        """Run the model and return the outputs called `output_names` (None: all) as arrays.

        Feeds are arrays of the declared types, or MLTensors of this context. Raises MLTypeError for unknown or missing
        names and for wrong types or shapes, NotSupportedError when the model can't be expressed for these shapes.
        """
        names = self._names(output_names)
        compiled, feeds = self._prepare(input_feed)
        return compiled.run(feeds, names)

    def run_async(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> MLFuture[list[Any]]:
        """As `run`; the device is not waited for, and its failures arrive through the future."""
        names = self._names(output_names)
        compiled, feeds = self._prepare(input_feed)
        return compiled.run_async(feeds, names)

    def run_tensors(self, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]) -> None:
        """Dispatch on tensors of this context, without touching the host and without waiting.

        Every input is given; outputs that are not stay with the session. Raises MLTypeError for names, types, shapes.
        """
        for name, tensor in {**inputs, **outputs}.items():
            if not isinstance(tensor, MLTensor):
                raise MLTypeError(f"{name!r}: got {type(tensor).__name__}; allowed: an MLTensor")
        for name in outputs:
            if name not in self._outputs:
                raise MLTypeError(f"outputs: no output is named {name!r}; there are: {', '.join(self._outputs)}")
        compiled, feeds = self._prepare(inputs)
        for name, tensor in outputs.items():
            if tensor.shape != compiled.output_shape(name):
                raise MLTypeError(
                    f"output {name!r}: got a tensor of shape {list(tensor.shape)}; "
                    f"the result has {list(compiled.output_shape(name))}"
                )
        compiled.dispatch(feeds, outputs)

    def _names(self, names: Sequence[str] | None) -> list[str]:
        if names is None:
            return list(self._outputs)
        if isinstance(names, str):
            raise MLTypeError(f"output_names: got the str {names!r}; allowed: a list of names, or None for all")
        for name in names:
            if name not in self._outputs:
                raise MLTypeError(f"output_names: no output is named {name!r}; there are: {', '.join(self._outputs)}")
        return list(names)

    def _prepare(self, feed: Mapping[str, Any]) -> tuple[Compiled, Mapping[str, Any]]:
        """The graph for the shapes of `feed`, and the feeds by the names of its inputs."""
        latest = self._latest
        if latest is not None and same_feed(latest[0], feed):
            return latest[1], feed
        checked = self._checked(feed)
        shapes = {name: shape_of(self._declared[name], value) for name, value in checked.items()}
        compiled = self._compiled(shapes, checked)
        flat: dict[str, Any] = {}
        for name, value in checked.items():
            flat |= flatten(name, value)
        with self._lock:
            signature = None if self._by_value or self._destroyed else signature_of(feed)
            self._latest = None if signature is None else (signature, compiled)
        return compiled, flat

    def _checked(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(feed, Mapping):
            raise MLTypeError(f"input_feed: got {type(feed).__name__}; allowed: a mapping of input names to arrays")
        for name in feed:
            if name not in self._declared:
                raise MLTypeError(f"input_feed: no input is named {name!r}; there are: {', '.join(self._declared)}")
        missing = [n for n, s in self._declared.items() if n not in feed and s.kind != "optional"]
        if missing:
            raise MLTypeError(f"input_feed: no value for {', '.join(map(repr, missing))}")
        return {name: self._checked_value(spec, feed.get(name)) for name, spec in self._declared.items()}

    def _checked_value(self, spec: Spec, value: Any) -> Any:
        if not isinstance(value, MLTensor):
            return feed_array(spec, value)
        if spec.dtype == "string" or value.data_type != carrier_of(spec.dtype) or not fits(spec, value.shape):
            raise MLTypeError(
                f"input {spec.name!r}: got a tensor {value.data_type}{list(value.shape)}; "
                f"the model declares {spec.describe()}"
            )
        return value

    # Compiling ----------------------------------------------------------------------------------------------

    def _compiled(self, shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> Compiled:
        """The graph for these shapes (and the values that it depends on), compiled when it is not kept."""
        with self._lock:
            if self._destroyed:
                raise InvalidStateError("the session is destroyed")
            key = self._key(shapes, values)
            found = self._kept.get(key) if key is not None else None
            if found is None:
                found = self._compile(shapes, values)
                key = self._key(shapes, values)
                self._kept[key] = found
            self._kept.move_to_end(key)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            return found

    def _key(self, shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> Any:
        if any(name not in values for name in self._by_value):
            return None
        fixed = {name: self._host(values[name]) for name in sorted(self._by_value)}
        bytes_of = tuple((n, a.dtype.str, a.tobytes()) for n, a in fixed.items())
        return tuple(tuple(s) if isinstance(s, list) else s for s in shapes.values()), bytes_of

    def _host(self, value: Any) -> Array:
        """A fed value on the host: what decides the structure has to be read when it comes as a tensor."""
        return np.asarray(self._context.read_tensor(value)) if isinstance(value, MLTensor) else np.asarray(value)

    def _compile(self, shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> Compiled:
        while True:
            fixed = {n: self._host(values[n]) for n in self._by_value if promotable(shapes[n]) and n in values}
            with self._context.create_graph_builder() as builder:
                importer = Importer(self._model, builder, self._weights)
                results = importer.run(feed_values(builder, self._declared, shapes, fixed))
                if not importer.refusals:
                    self._tell(importer.notices)
                    return Compiled(self._context, builder, results)
            more = self._promote(importer, shapes)
            if not more:
                raise not_supported(importer.refusals)
            if not all(name in values for name in more):
                missing = ", ".join(sorted(more))
                raise _NeedsValues(f"the model is compiled for the values of {missing}, which are not given")

    def _promote(self, importer: Importer, shapes: Mapping[str, Shape]) -> set[str]:
        """Inputs to fix by value, in order that refused nodes can be expressed; none when that would not help."""
        more: set[str] = set()
        for record in importer.refusals:
            if not record.needs or not all(promotable(shapes.get(n)) for n in record.needs):
                return set()
            more |= record.needs
        more -= self._by_value
        self._by_value |= more
        return more

    def _tell(self, notices: Mapping[str, None]) -> None:
        for text in notices:
            if text not in self._told:
                self._told.add(text)
                warnings.warn(f"{self._model.graph.name or 'model'}: {text}", stacklevel=5)

    # Ends ---------------------------------------------------------------------------------------------------

    def destroy(self) -> None:
        """Free the weights and graphs, and the context when the session made it. Repeatable."""
        with self._lock:
            self._destroyed = True
            self._latest = None
            self._kept.clear()
            self._weights.destroy()
        if self._own_context:
            self._context.destroy()

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    def __repr__(self) -> str:
        inputs = ", ".join(f"{s.name}: {s.describe()}" for s in self._specs.values())
        return f"<InferenceSession {self._model.graph.name!r} ({inputs}) on {self._context.device.name}>"


class _NeedsValues(NotSupportedError):
    """The structure depends on input values that are not known yet."""
