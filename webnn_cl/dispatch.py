"""The checks of dispatch() (W3C WebNN, "MLContext.dispatch"), quick when all is well and exact when it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from webnn_cl.errors import InvalidStateError, MLTypeError, argument_error
from webnn_cl.graph import MLGraph
from webnn_cl.tensor import MLTensor

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import TensorDesc
    from webnn_cl.context import MLContext
    from webnn_cl.opencl.memory import Storage

__all__ = ["Checked", "as_before", "bind", "check_graph"]

Checked = tuple[Sequence[tuple[str, int]], Sequence[tuple[str, int]]]
"""Names of inputs and of outputs, with the serial number of the memory that was found good for each."""


def as_before(
    context: MLContext, graph: MLGraph, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]
) -> list[Storage] | None:
    """The memory of inputs and outputs when they are the very tensors that were checked last, which don't change since;
    None when somebody has to look closer. Under the lock.
    """
    try:
        checked = graph._checked
        if checked is None or graph._context is not context or graph._executable is None:
            return None
        if len(checked[0]) != len(inputs) or len(checked[1]) != len(outputs):
            return None
        storages = []
        for name, serial in checked[0]:
            storage = inputs[name]._storage  # a destroyed tensor has none
            if storage.serial != serial:
                return None
            storages.append(storage)
        for name, serial in checked[1]:
            storage = outputs[name]._storage
            if storage.serial != serial:
                return None
            storages.append(storage)
    except (AttributeError, KeyError, TypeError):
        return None
    return storages


def bind(
    context: MLContext, graph: MLGraph, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]
) -> list[Storage]:
    """The memory of every input and output, in the order that the graph declares them; the error of the first failed
    check otherwise. Under the lock.
    """
    if graph.__class__ is not MLGraph or graph._context is not context or graph._executable is None:
        _explain(context, graph, inputs, outputs)
    try:
        read = _quick(context, graph._inputs, inputs, written=False)
        written = _quick(context, graph._outputs, outputs, written=True)
    except (AttributeError, TypeError):  # not a mapping, or of something else than tensors
        _explain(context, graph, inputs, outputs)
    if read is None or written is None:
        _explain(context, graph, inputs, outputs)
    storages = [*read, *written]
    # Two tensors never share a Storage, so equal storages are equal tensors.
    if len(set(storages)) != len(storages):
        _explain(context, graph, inputs, outputs)
    _check_overlap(graph, storages)
    # Numbers, because a reference would keep the memory alive.
    graph._checked = (
        [(name, storage.serial) for name, storage in zip(graph._inputs, read, strict=True)],
        [(name, storage.serial) for name, storage in zip(graph._outputs, written, strict=True)],
    )
    return storages


def _check_overlap(graph: MLGraph, storages: Sequence[Storage]) -> None:
    """MLTypeError when an output lies in the same imported memory as another tensor of the dispatch."""
    if not any(storage.aliases for storage in storages):
        return
    labels = [*(f"inputs[{name!r}]" for name in graph._inputs), *(f"outputs[{name!r}]" for name in graph._outputs)]
    labelled = list(zip(labels, storages, strict=True))
    for label, storage in labelled[len(graph._inputs) :]:
        for other_label, other in labelled:
            if other in storage.aliases:
                given = f"memory that overlaps that of {other_label}"
                raise argument_error("dispatch", label, given, "outputs in memory of their own")


def _quick(
    context: MLContext, declared: Mapping[str, TensorDesc], given: Mapping[str, MLTensor], written: bool
) -> list[Storage] | None:
    if len(declared) != len(given):
        return None
    storages: list[Storage] = []
    for name, desc in declared.items():
        tensor = given.get(name)
        if tensor.__class__ is not MLTensor or tensor is None:
            return None
        if tensor._context is not context or tensor._destroyed or tensor._constant:
            return None
        own = tensor._desc
        if own.shape != desc.shape or own.data_type != desc.data_type:
            return None
        storage = tensor._storage
        if storage.read_only and written:
            return None
        storages.append(storage)
    return storages


def check_graph(context: MLContext, graph: object, where: str) -> None:
    """MLTypeError unless `graph` is a graph of `context`; InvalidStateError when it is destroyed."""
    if not isinstance(graph, MLGraph):
        raise argument_error(where, "graph", repr(graph), "an MLGraph")
    if graph._context is not context:
        raise argument_error(where, "graph", "a graph of another context", "a graph of this context")
    if graph._executable is None:
        reason = graph.lost.result() if graph.lost.done() else "the graph was destroyed"
        raise InvalidStateError(f"{where}: the graph can't run: {reason}")


def _explain(context: MLContext, graph: MLGraph, inputs: Any, outputs: Any) -> NoReturn:
    """Raise the error of the first check that fails, in the specification's order."""
    for argument, given in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(given, Mapping):
            raise argument_error("dispatch", argument, repr(given), "a mapping of names to tensors")
    for label, tensor in _labelled(inputs, outputs):
        if not isinstance(tensor, MLTensor):
            raise argument_error("dispatch", label, repr(tensor), "an MLTensor")
    check_graph(context, graph, "dispatch")
    seen: dict[int, str] = {}
    for label, tensor in _labelled(inputs, outputs):
        other = seen.setdefault(id(tensor), label)
        if other != label:
            raise argument_error("dispatch", label, f"the tensor that is also {other}", "each tensor once")
    for label, tensor in _labelled(inputs, outputs):
        tensor._check_usable(context, f"dispatch: {label}")
    _explain_side("inputs", graph.inputs, inputs)
    _explain_side("outputs", graph.outputs, outputs)
    raise MLTypeError("dispatch: the arguments changed while they were checked")


def _labelled(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for argument, given in (("inputs", inputs), ("outputs", outputs)):
        for name, tensor in given.items():
            yield f"{argument}[{name!r}]", tensor


def _explain_side(argument: str, declared: Mapping[str, TensorDesc], given: Mapping[str, MLTensor]) -> None:
    if set(declared) != set(given):
        raise argument_error("dispatch", argument, f"the names {list(given)}", f"exactly the names {list(declared)}")
    for name, desc in declared.items():
        tensor, label = given[name], f"{argument}[{name!r}]"
        if tensor.constant:
            raise argument_error("dispatch", label, "a constant tensor", "a tensor made by create_tensor")
        if (tensor.shape, tensor.data_type) != (desc.shape, desc.data_type):
            raise argument_error("dispatch", label, f"{tensor._desc}", f"{desc}")
        if tensor._storage.read_only and argument == "outputs":
            raise argument_error("dispatch", label, "a tensor over read-only memory", "a tensor that can be written")
