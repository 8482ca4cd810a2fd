"""The W3C WebNN API in Python, on any OpenCL device.

``webnn_cl.onnx`` (extra ``onnx``) runs ONNX models; it is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from webnn_cl.builder import MLGraphBuilder
from webnn_cl.context import MLContext
from webnn_cl.errors import InvalidStateError, MLError, MLTypeError, NotSupportedError, OperationError
from webnn_cl.future import MLFuture
from webnn_cl.graph import MLGraph
from webnn_cl.ml import ML
from webnn_cl.opencl.devices import MLDevice
from webnn_cl.operand import MLOperand
from webnn_cl.tensor import MLTensor

if TYPE_CHECKING:
    from webnn_cl import onnx as onnx
    from webnn_cl.interop.custom_op import CustomOp

__all__ = [
    "ML", "CustomOp", "InvalidStateError", "MLContext", "MLDevice", "MLError", "MLFuture", "MLGraph", "MLGraphBuilder",
    "MLOperand", "MLTensor", "MLTypeError", "NotSupportedError", "OperationError",
]  # fmt: skip

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What takes long to import, or needs an extra, at its first use."""
    if name == "onnx":
        return importlib.import_module("webnn_cl.onnx")
    if name == "CustomOp":
        return importlib.import_module("webnn_cl.interop.custom_op").CustomOp
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
