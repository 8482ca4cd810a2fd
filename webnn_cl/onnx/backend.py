"""The onnx.backend.base protocol, so that ONNX's own backend test suite runs on webnn_cl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from webnn_cl.onnx.session import InferenceSession

if TYPE_CHECKING:
    from webnn_cl.context import MLContext

__all__ = ["WebnnBackend", "WebnnBackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class WebnnBackendRep(BackendRep):  # type: ignore[misc]  # onnx has no types for it
    """A prepared model."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session
        self._inputs = [i.name for i in session.get_inputs()]
        self._outputs = [o.name for o in session.get_outputs()]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run on one array, a sequence of arrays in the order of the inputs, or a mapping by name."""
        if isinstance(inputs, Mapping):
            feeds = dict(inputs)
        else:
            given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            feeds = dict(zip(self._inputs, given, strict=True))
        return tuple(self.session.run(None, feeds))


class WebnnBackend(Backend):  # type: ignore[misc]
    """Prepares and runs ONNX models; `context` is shared by all models when it is set."""

    context: MLContext | None = None

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every node of the model can be expressed."""
        from webnn_cl.onnx.report import check

        return check(model, cls.context).ok

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> WebnnBackendRep:
        """A model that can be run many times; NotSupportedError when it can't be expressed."""
        return WebnnBackendRep(InferenceSession(model, cls.context))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Run a model once."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Sequence[Any], device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> Any:
        """Run one node of the operator set ``opset_version`` (default: the newest) on arrays."""
        version = int(kwargs.get("opset_version", onnx.defs.onnx_opset_version()))
        arrays = [np.asarray(i) for i in inputs]
        names = [n for n in node.input if n]
        helper = onnx.helper
        graph = helper.make_graph(
            [node],
            node.op_type,
            [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for n, a in zip(names, arrays, strict=True)],
            [helper.make_empty_tensor_value_info(o) for o in node.output if o],
        )  # fmt: skip
        opsets = [helper.make_opsetid(node.domain, version)] + ([helper.make_opsetid("", 17)] if node.domain else [])
        model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets))
        results = cls.prepare(model, device).run(arrays)
        return namedtupledict("Outputs", [o for o in node.output if o])(*results)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """ONNX's device names say nothing about OpenCL: the context decides where a model runs, here called CPU."""
        return device == "CPU"


is_compatible = WebnnBackend.is_compatible
prepare = WebnnBackend.prepare
run_model = WebnnBackend.run_model
run_node = WebnnBackend.run_node
supports_device = WebnnBackend.supports_device
