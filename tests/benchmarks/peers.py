"""What other runtimes take for one matrix product or one convolution: calls to time beside ours.

Each function returns a call, or None where the runtime is not installed. All use `threads` threads and float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["Conv", "conv_peers", "product_peers"]

Call = Callable[[], object]


class Conv:
    """A convolution with bias and relu: `x` is nchw, `w` oihw, padding the same on all sides."""

    def __init__(self, x: np.ndarray, w: np.ndarray, bias: np.ndarray, stride: int, padding: int, groups: int) -> None:
        self.x, self.w, self.bias = x, w, bias
        self.stride, self.padding, self.groups = stride, padding, groups


def product_peers(a: np.ndarray, b: np.ndarray, constant: bool, threads: int) -> dict[str, Call]:
    """numpy, torch, onnxruntime and OpenVINO, as far as they are there."""
    calls: dict[str, Call | None] = {"numpy": lambda: a @ b, "torch": _torch_product(a, b, threads)}
    model = _onnx_product(a, b, constant)
    feeds = {"a": a} if constant else {"a": a, "b": b}
    calls |= {"onnxruntime": _onnxruntime(model, feeds, threads), "openvino": _openvino(model, feeds, threads)}
    return {name: call for name, call in calls.items() if call is not None}


def conv_peers(conv: Conv, threads: int) -> dict[str, Call]:
    """torch in both memory formats, onnxruntime and OpenVINO, as far as they are there."""
    model, feeds = _onnx_conv(conv), {"x": conv.x}
    calls = {
        "torch nchw": _torch_conv(conv, threads, channels_last=False),
        "torch nhwc": _torch_conv(conv, threads, channels_last=True),
        "onnxruntime": _onnxruntime(model, feeds, threads),
        "openvino": _openvino(model, feeds, threads),
    }
    return {name: call for name, call in calls.items() if call is not None}


def _torch(threads: int) -> Any:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(threads)
    return torch


def _torch_product(a: np.ndarray, b: np.ndarray, threads: int) -> Call | None:
    torch = _torch(threads)
    if torch is None:
        return None
    left, right = torch.from_numpy(a), torch.from_numpy(b)

    def call() -> object:
        with torch.inference_mode():
            return left @ right

    return call


def _torch_conv(conv: Conv, threads: int, channels_last: bool) -> Call | None:
    torch = _torch(threads)
    if torch is None:
        return None
    order = torch.channels_last if channels_last else torch.contiguous_format
    x, w = (torch.from_numpy(v).to(memory_format=order) for v in (conv.x, conv.w))
    bias, f = torch.from_numpy(conv.bias), torch.nn.functional

    def call() -> object:
        with torch.inference_mode():
            return f.relu_(f.conv2d(x, w, bias, conv.stride, conv.padding, 1, conv.groups))

    return call


def _model(nodes: Sequence[Any], inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray]) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "peer",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(x, name) for name, x in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def _onnx_product(a: np.ndarray, b: np.ndarray, constant: bool) -> bytes:
    from onnx import helper

    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    return _model([node], {"a": a}, {"b": b}) if constant else _model([node], {"a": a, "b": b}, {})


def _onnx_conv(conv: Conv) -> bytes:
    from onnx import helper

    options = {"pads": [conv.padding] * 4, "strides": [conv.stride] * 2, "group": conv.groups}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], **options), helper.make_node("Relu", ["c"], ["y"])]
    return _model(nodes, {"x": conv.x}, {"w": conv.w, "b": conv.bias})


def _onnxruntime(model: bytes, feeds: dict[str, np.ndarray], threads: int) -> Call | None:
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads that spin between calls would take the cores from whoever has the next turn.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def _openvino(model: bytes, feeds: dict[str, np.ndarray], threads: int) -> Call | None:
    try:
        import openvino
    except ImportError:
        return None
    core = openvino.Core()
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    request = core.compile_model(core.read_model(model), "CPU", options).create_infer_request()
    return lambda: request.infer(feeds, share_inputs=True, share_outputs=True)
