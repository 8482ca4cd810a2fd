"""Our outputs beside onnxruntime's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime

import webnn_cl

FLOAT32, INT8 = 2e-3, 5e-2  # largest error as a share of the largest magnitude


def peer_outputs(model: bytes, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime computes on the CPU, whatever shapes the model declares."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Without it, sums of 8-bit products saturate in int16 on processors that have AVX2 but not VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"]).run(None, dict(inputs))


def with_free_dimensions(model: bytes, name: str) -> bytes:
    """A model whose input `name` and outputs take any batch, height and width; weights are not listed as inputs."""
    proto = onnx.load_from_string(model)
    weights = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in weights]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    resized = [value for value in proto.graph.input if value.name == name]
    for value in [*resized, *proto.graph.output]:
        for axis in (0, 2, 3):
            value.type.tensor_type.shape.dim[axis].dim_param = f"{value.name}_{axis}"
    return proto.SerializeToString()


def assert_close(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], bound: float) -> None:
    """Same shapes, same types, and the largest error under `bound` times the largest magnitude of each output."""
    assert len(ours) == len(theirs)
    for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert a.shape == b.shape and a.dtype == b.dtype, f"output {index}: {a.dtype}{a.shape} != {b.dtype}{b.shape}"
        assert np.isfinite(a).all(), f"output {index} holds NaN or infinity"
        error = float(np.abs(a.astype(np.float64) - b).max())
        largest = float(np.abs(b).max())
        assert error <= bound * largest, f"output {index}: largest error {error:.3g} of {largest:.3g}"


def run_and_compare(
    model: bytes,
    context: webnn_cl.MLContext,
    inputs: Mapping[str, np.ndarray],
    bound: float = FLOAT32,
) -> list[np.ndarray]:
    """Our outputs for `inputs`, after they were found close to onnxruntime's, twice: the second inference too."""
    session = webnn_cl.onnx.InferenceSession(model, context)
    expected = peer_outputs(model, inputs)
    assert_close(session.run(None, inputs), expected, bound)
    ours = session.run(None, inputs)
    assert_close(ours, expected, bound)
    return ours
