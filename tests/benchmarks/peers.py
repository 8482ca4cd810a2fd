"""What other runtimes take for one matrix product, convolution or attention: calls to time beside ours.

Each function returns a call, or None where the runtime is not installed. All use `threads` threads and float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["Attention", "Conv", "attention_peers", "conv_peers", "product_peers"]

Call = Callable[[], object]


class Conv:
    """A convolution with bias and relu: `x` is nchw, `w` oihw or (transposed) iohw, padding the same on all sides."""

    def __init__(
        self,
        x: np.ndarray,
        w: np.ndarray,
        bias: np.ndarray,
        stride: int,
        padding: int,
        groups: int,
        transposed: bool = False,
    ) -> None:
        self.x, self.w, self.bias = x, w, bias
        self.stride, self.padding, self.groups, self.transposed = stride, padding, groups, transposed


class Attention:
    """softmax(q k^T / sqrt(depth) + mask) v of one batch entry.

    `inputs` are q, k, v and perhaps mask [1, 1, rows, keys]; the others are [1, heads, length, depth] where `separate`,
    else [1, length, heads * depth].
    """

    def __init__(self, inputs: dict[str, np.ndarray], heads: int, depth: int, separate: bool) -> None:
        self.inputs, self.heads, self.depth, self.separate = inputs, heads, depth, separate


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


def attention_peers(attention: Attention, threads: int) -> dict[str, Call]:
    """torch, onnxruntime and OpenVINO, as far as they are there."""
    model = _onnx_attention(attention)
    calls = {
        "torch": _torch_attention(attention, threads),
        "onnxruntime": _onnxruntime(model, attention.inputs, threads),
        "openvino": _openvino(model, attention.inputs, threads),
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
            if conv.transposed:
                return f.relu_(f.conv_transpose2d(x, w, bias, conv.stride, conv.padding, 0, conv.groups))
            return f.relu_(f.conv2d(x, w, bias, conv.stride, conv.padding, 1, conv.groups))

    return call


def _torch_attention(attention: Attention, threads: int) -> Call | None:
    torch = _torch(threads)
    if torch is None:
        return None
    tensors = {name: torch.from_numpy(x) for name, x in attention.inputs.items()}
    mask, shape = tensors.pop("mask", None), (1, -1, attention.heads, attention.depth)
    attend = torch.nn.functional.scaled_dot_product_attention

    def call() -> object:
        with torch.inference_mode():
            if attention.separate:
                return attend(*tensors.values(), attn_mask=mask)
            heads = [tensor.view(shape).transpose(1, 2) for tensor in tensors.values()]
            return attend(*heads, attn_mask=mask).transpose(1, 2).flatten(2)

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


def _onnx_attention(attention: Attention) -> bytes:
    from onnx import helper

    nodes, constants = [], {"scale": np.array(attention.depth**-0.5, np.float32)}
    if not attention.separate:
        constants["heads"] = np.array([0, 0, attention.heads, -1])
    for name in "qkv":
        order = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        if attention.separate:
            kind, options = ("Transpose", {"perm": [0, 1, 3, 2]}) if name == "k" else ("Identity", {})
            nodes.append(helper.make_node(kind, [name], [f"{name} heads"], **options))
        else:
            nodes.append(helper.make_node("Reshape", [name, "heads"], [f"{name} split"]))
            nodes.append(helper.make_node("Transpose", [f"{name} split"], [f"{name} heads"], perm=order))
    nodes += [helper.make_node("MatMul", ["q heads", "k heads"], ["s"]), helper.make_node("Mul", ["s", "scale"], ["t"])]
    if "mask" in attention.inputs:
        nodes.append(helper.make_node("Add", ["t", "mask"], ["u"]))
    nodes.append(helper.make_node("Softmax", ["u" if "mask" in attention.inputs else "t"], ["p"], axis=-1))
    if attention.separate:
        nodes.append(helper.make_node("MatMul", ["p", "v heads"], ["y"]))
    else:
        constants["joined"] = np.array([0, 0, -1])
        nodes.append(helper.make_node("MatMul", ["p", "v heads"], ["y heads"]))
        nodes.append(helper.make_node("Transpose", ["y heads"], ["y split"], perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("Reshape", ["y split", "joined"], ["y"]))
    return _model(nodes, attention.inputs, constants)


def _onnx_conv(conv: Conv) -> bytes:
    from onnx import helper

    options = {"pads": [conv.padding] * 4, "strides": [conv.stride] * 2, "group": conv.groups}
    operator = "ConvTranspose" if conv.transposed else "Conv"
    nodes = [helper.make_node(operator, ["x", "w", "b"], ["c"], **options), helper.make_node("Relu", ["c"], ["y"])]
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
