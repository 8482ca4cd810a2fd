"""ONNX models on MLGraphBuilder: sessions with onnxruntime's names, an import report, ONNX's backend protocol.

Needs the extra ``onnx``.
"""

from __future__ import annotations

try:
    import onnx as _onnx  # noqa: F401
except ImportError as error:
    raise ImportError("webnn_cl.onnx needs the package onnx: pip install 'webnn_cl[onnx]'") from error

from webnn_cl.onnx import backend
from webnn_cl.onnx.importer import NodeRecord
from webnn_cl.onnx.interface import NodeArg
from webnn_cl.onnx.report import Report, check
from webnn_cl.onnx.session import InferenceSession, ModelMeta

__all__ = ["InferenceSession", "ModelMeta", "NodeArg", "NodeRecord", "Report", "backend", "check"]
