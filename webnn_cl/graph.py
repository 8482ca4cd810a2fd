"""MLGraph: a compiled graph."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING

from webnn_cl.compiler.compile import compile_graph
from webnn_cl.compiler.ir import Graph, TensorDesc
from webnn_cl.compiler.work import flops
from webnn_cl.errors import InvalidStateError
from webnn_cl.future import MLFuture

if TYPE_CHECKING:
    from webnn_cl.compiler.executable import Executable
    from webnn_cl.context import MLContext
    from webnn_cl.dispatch import Checked
    from webnn_cl.opencl.devices import MLDevice

__all__ = ["MLGraph"]


class MLGraph:
    """A compiled graph, run by ``context.dispatch`` or ``context.compute`` (W3C WebNN, "The MLGraph interface").

    ``with`` destroys it at the end. Made by MLGraphBuilder.build only.
    """

    def __init__(self, context: MLContext, graph: Graph) -> None:
        self._context = context
        self._inputs = MappingProxyType({name: value.desc for name, value in graph.inputs.items()})
        self._outputs = MappingProxyType({name: value.desc for name, value in graph.outputs.items()})
        self._lost: MLFuture[str] = MLFuture()
        self._checked: Checked | None = None  # the tensors that the last dispatch was checked with
        self._flops = flops(graph)
        self._executable: Executable | None = None
        with context._timeline.refusals():
            self._executable = compile_graph(graph, context)
        self._executable.arrange([*(("in", name) for name in self._inputs), *(("out", name) for name in self._outputs)])
        context._graphs.add(self)
        if context.is_lost:
            self._on_context_lost("the context was lost while the graph was built")
            raise InvalidStateError("the context was lost while the graph was built")

    @property
    def context(self) -> MLContext:
        """The context this graph runs on."""
        return self._context

    @property
    def inputs(self) -> Mapping[str, TensorDesc]:
        """Name -> descriptor (``.shape``, ``.data_type``) of every input that the outputs depend on."""
        return self._inputs

    @property
    def outputs(self) -> Mapping[str, TensorDesc]:
        """Name -> descriptor (``.shape``, ``.data_type``) of every output."""
        return self._outputs

    @property
    def devices(self) -> tuple[MLDevice, ...]:
        """The devices that the graph runs on: always the one of its context."""
        return (self._context.device,)

    @property
    def lost(self) -> MLFuture[str]:
        """Resolves with a message when the graph can't run any more: destroyed, failed, or its context lost."""
        return self._lost

    def destroy(self) -> None:
        """Free the graph; dispatches already queued complete. Repeatable."""
        self._end("the graph was destroyed by destroy()")

    def _on_context_lost(self, message: str) -> None:
        self._end(message)

    def _end(self, message: str) -> None:
        self._executable = None
        self._lost._try_set_result(message)

    def __enter__(self) -> MLGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    def __repr__(self) -> str:
        state = "" if self._executable is not None else ", destroyed"
        return f"<MLGraph {dict(self._inputs)} -> {dict(self._outputs)}{state}>"
