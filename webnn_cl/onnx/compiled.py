"""One compiled graph of a model, for one set of input shapes: its tensors, and running it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.compute import run_here
from webnn_cl.dtypes import dtype_of
from webnn_cl.errors import MLTypeError
from webnn_cl.future import MLFuture
from webnn_cl.onnx.elements import to_carrier, to_surface
from webnn_cl.onnx.feeds import carried
from webnn_cl.onnx.values import Absent, Known, Tensor, Value
from webnn_cl.onnx.values import Sequence as SequenceValue
from webnn_cl.tensor import MLTensor

if TYPE_CHECKING:
    from webnn_cl.builder import MLGraphBuilder
    from webnn_cl.context import MLContext
    from webnn_cl.graph import MLGraph

__all__ = ["Compiled"]

Reader = Callable[[str], Any]


class Compiled:
    """A model's graph for one set of input shapes. `values` are the model's outputs as the importer gives them.

    Outputs that are known on the host stay there; `graph` is None when all of them are.
    """

    def __init__(self, context: MLContext, builder: MLGraphBuilder, values: Mapping[str, Value]) -> None:
        self.context = context
        self._values = values
        self._types: dict[str, str] = {}
        operands: dict[str, Any] = {}
        for name, value in values.items():
            self._collect(builder, name, value, operands)
        self.graph: MLGraph | None = builder.build(operands) if operands else None
        self._inputs: dict[str, MLTensor] = {}
        self._outputs: dict[str, MLTensor] = {}
        self._own: list[MLTensor] = []  # of all inputs, then of all outputs, once they are needed together
        self._lock = threading.Lock()

    def _collect(self, builder: MLGraphBuilder, name: str, value: Value, operands: dict[str, Any]) -> None:
        if isinstance(value, SequenceValue):
            for i, item in enumerate(value.items):
                self._collect(builder, f"{name}[{i}]", item, operands)
        elif isinstance(value, Tensor):
            # Only an operator's output can be a graph output, under one name.
            direct = value.operand._value.producer is not None and value.operand not in operands.values()
            operands[name] = value.operand if direct else builder.identity(value.operand)
            self._types[name] = value.dtype

    # Running ------------------------------------------------------------------------------------------------

    def run(self, feeds: Mapping[str, Any], wanted: Sequence[str]) -> list[Any]:
        """The outputs called `wanted`, after waiting for the device."""
        with self._lock:
            arrays = self._run_here(feeds, wanted)
            if arrays is None:
                self._dispatch(feeds, {})
                arrays = {name: self.context.read_tensor(self._outputs[name]) for name in self._needed(wanted)}
        once = len(set(wanted)) == len(wanted)
        read = arrays.__getitem__ if once else lambda name: arrays[name].copy()
        return [self._value(name, self._values[name], read) for name in wanted]

    def _run_here(self, feeds: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any] | None:
        """The outputs that `wanted` ones are made of, with one wait for all; None where that is not the way."""
        if self.graph is None:
            return {}
        sources: list[Any] = []
        for name in self.graph.inputs:
            value = feeds[name]
            if value.__class__ is MLTensor:
                return None
            sources.append(carried(name, value))
        targets: dict[str, Any] = dict.fromkeys(self.graph.outputs)
        for name in self._needed(wanted):
            desc = self.graph.outputs[name]
            targets[name] = np.empty(desc.shape, dtype_of(desc.data_type).numpy)
        if not self._own:
            self._own = [self._own_input(name) for name in self.graph.inputs]
            self._own += [self._own_output(name) for name in self.graph.outputs]
        results = targets.values()
        here = [*sources, *(None for _ in results)], [*(None for _ in sources), *results]
        return targets if run_here(self.context, self.graph, self._own, *here) else None

    def _needed(self, wanted: Sequence[str]) -> list[str]:
        """The graph outputs that the model outputs called `wanted` are made of."""
        return [n for n in self._types if n in wanted or any(n.startswith(f"{w}[") for w in wanted)]

    def run_async(self, feeds: Mapping[str, Any], wanted: Sequence[str]) -> MLFuture[list[Any]]:
        """As `run`, without waiting."""
        pending: dict[str, MLFuture[Any]] = {}

        def start(tensor: MLTensor) -> MLFuture[Any]:
            return self.context.read_tensor_async(tensor)

        with self._lock:
            self._dispatch(feeds, {})
            for name in self._needed(wanted):
                pending[name] = start(self._outputs[name])
        arrays: dict[str, Any] = {}

        def finish() -> list[Any]:
            arrays.update((name, future.result()) for name, future in pending.items())
            return [self._value(name, self._values[name], arrays.__getitem__) for name in wanted]

        return when_all(list(pending.values()), finish)

    def dispatch(self, feeds: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]) -> None:
        """Run on tensors; outputs that are not given stay with the session. Nothing is waited for."""
        with self._lock:
            self._dispatch(feeds, outputs)
        for name, tensor in outputs.items():
            value = self._values[name]
            if isinstance(value, Known):
                self.context.write_tensor(tensor, to_carrier(value.array))

    def _dispatch(self, feeds: Mapping[str, Any], outputs: Mapping[str, MLTensor]) -> None:
        if self.graph is None:
            return
        bound = {name: self._bound_input(name, feeds[name]) for name in self.graph.inputs}
        results = {name: outputs.get(name) or self._own_output(name) for name in self.graph.outputs}
        self.context.dispatch(self.graph, bound, results)

    def _bound_input(self, name: str, value: Any) -> MLTensor:
        if isinstance(value, MLTensor):
            return value
        tensor = self._own_input(name)
        self.context.write_tensor(tensor, carried(name, value))
        return tensor

    def _own_input(self, name: str) -> MLTensor:
        if name not in self._inputs:
            assert self.graph is not None
            desc = self.graph.inputs[name]
            self._inputs[name] = self.context.create_tensor(desc.shape, desc.data_type, writable=True)
        return self._inputs[name]

    def _own_output(self, name: str) -> MLTensor:
        if name not in self._outputs:
            assert self.graph is not None
            desc = self.graph.outputs[name]
            self._outputs[name] = self.context.create_tensor(desc.shape, desc.data_type, readable=True)
        return self._outputs[name]

    def _value(self, name: str, value: Value, read: Reader) -> Any:
        """What the session hands out for an output."""
        if isinstance(value, Known):
            return value.array.copy()
        if isinstance(value, Absent):
            return None
        if isinstance(value, SequenceValue):
            return [self._value(f"{name}[{i}]", item, read) for i, item in enumerate(value.items)]
        return to_surface(read(name), self._types[name])

    def output_shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor output; MLTypeError for a sequence."""
        value = self._values[name]
        if not isinstance(value, (Known, Tensor)):
            raise MLTypeError(f"output {name!r} is no tensor")
        return value.shape


def when_all(futures: Sequence[MLFuture[Any]], finish: Callable[[], Any]) -> MLFuture[Any]:
    """A future of ``finish()``, called when all `futures` have settled."""
    result: MLFuture[Any] = MLFuture()
    left = [len(futures)]
    lock = threading.Lock()

    def one_done(_: MLFuture[Any]) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            result._run(finish)

    if not futures:
        result._run(finish)
    for future in futures:
        future.add_done_callback(one_done)
    return result


