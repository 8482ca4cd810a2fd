"""Products of quantized matrices: on integers, as float32 after dequantizing, and onnxruntime on the same model.

``python -m tests.benchmarks.integers [--device TEXT] [--rounds N] [--json FILE]``
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import webnn_cl
from tests.benchmarks.timing import in_turns
from webnn_cl.tiles import integer

__all__ = ["SHAPES", "run"]

# Rows, depth and columns.
SHAPES = (
    (1, 1024, 4096), (16, 1024, 1024), (64, 1024, 1024), (256, 1024, 1024), (384, 384, 1536), (400, 384, 384),
    (400, 1536, 384), (400, 768, 768), (512, 768, 3072), (1024, 1024, 1024),
)  # fmt: skip


def model(m: int, k: int, n: int) -> bytes:
    """QuantizeLinear, DequantizeLinear, MatMul with int8 weights of a scale per column, QuantizeLinear."""
    rng = np.random.default_rng(0)
    constants = {
        "scale": np.float32(0.02), "zero": np.uint8(128), "y_scale": np.float32(0.5),
        "w": rng.integers(-60, 61, (k, n)).astype(np.int8),
        "w_scale": (rng.random(n) / 50 + 0.01).astype(np.float32), "w_zero": np.zeros(n, np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["b"], axis=1),
        helper.make_node("MatMul", ["a", "b"], ["product"]),
        helper.make_node("QuantizeLinear", ["product", "y_scale", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (m, k))],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, (m, n))],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def compare(shape: Sequence[int], context: Any, rounds: int) -> dict[str, Any]:
    """Median milliseconds of the three, and by how many steps our results differ from onnxruntime's at most."""
    m, k, n = shape
    data = model(m, k, n)
    feeds = {"x": np.random.default_rng(1).standard_normal((m, k)).astype(np.float32)}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = context.device.compute_units
    peer = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    integers = webnn_cl.onnx.InferenceSession(data, context)
    ours, theirs = integers.run(None, feeds)[0], peer.run(None, feeds)[0]
    with mock.patch.object(integer, "pair_form", lambda context: None):
        floats = webnn_cl.onnx.InferenceSession(data, context)
        floats.run(None, feeds)
    calls = {
        "integers": lambda: integers.run(None, feeds), "float32": lambda: floats.run(None, feeds),
        "onnxruntime": lambda: peer.run(None, feeds),
    }  # fmt: skip
    times = in_turns(calls, rounds)
    return {
        "shape": list(shape),
        **{f"{name}_ms": seconds * 1e3 for name, seconds in times.items()},
        "to_float32": times["integers"] / times["float32"],
        "to_onnxruntime": times["integers"] / times["onnxruntime"],
        "steps": int(np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max()),
    }


def run(device: str | None, rounds: int) -> list[dict[str, Any]]:
    """All shapes, printed and returned."""
    rows = []
    with webnn_cl.ML().create_context(device=device) as context:
        for shape in SHAPES:
            row = compare(shape, context, rounds)
            rows.append(row)
            print(
                f"  {' x '.join(map(str, shape)):18} integers {row['integers_ms']:8.2f} ms  float32 "
                f"{row['float32_ms']:8.2f} ms  onnxruntime {row['onnxruntime_ms']:8.2f} ms  ratio to float32 "
                f"{row['to_float32']:5.2f}  to onnxruntime {row['to_onnxruntime']:5.2f}  differs by {row['steps']}",
                flush=True,
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = run(options.device, options.rounds)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
