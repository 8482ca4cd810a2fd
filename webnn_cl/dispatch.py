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

__all__ = ["Bound", "Checked", "as_before", "bind", "check_graph", "is_bound"]

Bound = tuple[Sequence[tuple[str, str]], Sequence["Storage"]]
"""Keys of the executable, ("in" | "out", name), and the memory bound to each."""

Checked = tuple[Sequence[tuple[str, int]], Sequence[tuple[str, int]]]
"""Names of inputs and of outputs, with the serial number of the memory that was found good for each."""


def is_bound(
    context: MLContext, graph: MLGraph, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]
) -> bool:
    """Whether `graph` is bound to the very memory of these tensors, which were checked then. Under the lock.

    Memory belongs to one tensor, and serial numbers are not used again.
    """
    try:
        names = graph._executable.bound  # type: ignore[union-attr]
        if names is None or graph._context is not context:
            return False
        if len(names[0]) != len(inputs) or len(names[1]) != len(outputs):
            return False
        for name, serial in names[0]:
            if inputs[name]._storage.buffer.serial != serial:  # a destroyed tensor has no storage
                return False
        for name, serial in names[1]:
            if outputs[name]._storage.buffer.serial != serial:
                return False
    except (AttributeError, KeyError, TypeError):
        return False
    return True


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
        for names, given in zip(checked, (inputs, outputs), strict=True):
            for name, serial in names:
                storage = given[name]._storage  # a destroyed tensor has none
                if storage.serial != serial:
                    return None
                storages.append(storage)
    except (AttributeError, KeyError, TypeError):
        return None
    return storages


def bind(
    context: MLContext, graph: MLGraph, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]
) -> tuple[Bound, Bound]:
    """The memory bound to every input and output; the error of the first failed check otherwise. Under the lock."""
    if graph.__class__ is not MLGraph or graph._context is not context or graph._executable is None:
        _explain(context, graph, inputs, outputs)
    try:
        bound_inputs = _quick("in", context, graph._inputs, inputs)
        bound_outputs = _quick("out", context, graph._outputs, outputs)
    except (AttributeError, TypeError):  # not a mapping, or of something else than tensors
        _explain(context, graph, inputs, outputs)
    if bound_inputs is None or bound_outputs is None:
        _explain(context, graph, inputs, outputs)
    # Two tensors never share a Storage, so equal storages are equal tensors.
    if len({*bound_inputs[1], *bound_outputs[1]}) != len(inputs) + len(outputs):
        _explain(context, graph, inputs, outputs)
    _check_overlap(bound_inputs, bound_outputs)
    graph._checked = _remembered(bound_inputs), _remembered(bound_outputs)
    return bound_inputs, bound_outputs


def _check_overlap(inputs: Bound, outputs: Bound) -> None:
    """MLTypeError when an output lies in the same imported memory as another tensor of the dispatch."""
    for (side, name), storage in zip(*outputs, strict=True):
        if not storage.aliases:
            continue
        for (other_side, other_name), other in (*zip(*inputs, strict=True), *zip(*outputs, strict=True)):
            if other in storage.aliases:
                given = f"memory that overlaps that of {other_side}puts[{other_name!r}]"
                raise argument_error("dispatch", f"{side}puts[{name!r}]", given, "outputs in memory of their own")


def _remembered(bound: Bound) -> list[tuple[str, int]]:
    """What the next dispatch compares with; numbers, because a reference would keep the memory alive."""
    return [(name, storage.serial) for (_, name), storage in zip(*bound, strict=True)]


def _quick(
    side: str, context: MLContext, declared: Mapping[str, TensorDesc], given: Mapping[str, MLTensor]
) -> Bound | None:
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
        if storage.read_only and side == "out":
            return None
        storages.append(storage)
    return [(side, name) for name in declared], storages


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
