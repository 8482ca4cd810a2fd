"""Small ONNX models for tests, and what onnxruntime or onnx's reference evaluator makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import webnn_cl

Array = np.ndarray[Any, Any]
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    *,
    opset: int = 18,
    weights: Mapping[str, Array] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[str] = (),
    infer: bool = True,
) -> onnx.ModelProto:
    """A model; `inputs` maps names to arrays of their type and shape, or to (element type, dimensions)."""
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    graph = helper.make_graph(
        list(nodes),
        "test",
        [value_info(name, value) for name, value in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)
    return onnx.shape_inference.infer_shapes(made) if infer else made


def value_info(name: str, value: Any) -> onnx.ValueInfoProto:
    if isinstance(value, np.ndarray):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
    return helper.make_tensor_value_info(name, *value)


def by_onnxruntime(made: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def by_reference(made: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(made).run(None, dict(feeds)))


@dataclass
class Case:
    """One node: `inputs` are fed, or are weights where their position is in `known`; None leaves an input out."""

    op: str
    inputs: list[Array | None]
    attrs: dict[str, Any] = field(default_factory=dict)
    known: Sequence[int] = ()
    outputs: int = 1


def joined(cases: Sequence[Case], opset: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """One model of all cases side by side, so that they cost one compilation, and its feeds."""
    nodes, feeds, weights, outputs = [], dict[str, Array](), dict[str, Array](), list[str]()
    for number, case in enumerate(cases):
        names = []
        for position, array in enumerate(case.inputs):
            name = "" if array is None else f"x{number}_{position}"
            if array is not None:
                (weights if position in case.known else feeds)[name] = array
            names.append(name)
        made = [f"y{number}_{i}" for i in range(case.outputs)]
        nodes.append(helper.make_node(case.op, names, made, name=f"{case.op}_{number}", **case.attrs))
        outputs += made
    return model(nodes, feeds, outputs, opset=opset, weights=weights), feeds


def check(
    context: webnn_cl.MLContext,
    cases: Sequence[Case],
    opset: int = 18,
    *,
    reference: bool = False,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """Every output of every case against onnxruntime, or onnx's reference evaluator."""
    made, feeds = joined(cases, opset)
    expected = (by_reference if reference else by_onnxruntime)(made, feeds)
    with webnn_cl.onnx.InferenceSession(made, context) as session:
        actual = session.run(None, feeds)
    names = [f"{case.op}({case.attrs}) output {i}" for case in cases for i in range(case.outputs)]
    for name, ours, theirs in zip(names, actual, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, f"{name}: {ours.dtype}{ours.shape}"
        np.testing.assert_allclose(
            ours.astype(np.float64), np.asarray(theirs).astype(np.float64), rtol=rtol, atol=atol, err_msg=name
        )


def numbers(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Array:
    """Floats spread over a range."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def whole(*shape: int, low: int = -5, high: int = 6, dtype: str = "int64", seed: int = 0) -> Array:
    """Integers in [low, high)."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
