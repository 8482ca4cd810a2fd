"""``webnn-cl bench``: how long a model takes, beside another runtime when asked."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import webnn_cl
from webnn_cl.cli.models import (
    add_input_options,
    add_model_options,
    create_context,
    describe,
    input_infos,
    make_inputs,
    open_session,
    print_json,
)
from webnn_cl.errors import NotSupportedError

Inputs = Mapping[str, NDArray[Any]]
WARM_UP = 3  # runs before the first that counts


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "bench",
        help="measure latency, build time and memory of a model",
        description="Time whole inferences, arrays in and arrays out. With --compare, the two runtimes take turns.",
    )
    add_model_options(parser)
    add_input_options(parser)
    parser.add_argument("--runs", type=positive, default=20, metavar="N", help="inferences that count (default 20)")
    parser.add_argument("--compare", choices=["onnxruntime"], help="also time this runtime on the same inputs")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.set_defaults(run=run)


def positive(text: str) -> int:
    """A number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Measure and print."""
    with create_context(options) as context:
        start = time.perf_counter()
        session = open_session(options, context)
        inputs = make_inputs(input_infos(session), options)
        session.run(None, inputs)
        cold = time.perf_counter() - start
        start = time.perf_counter()
        open_session(options, context).run(None, inputs)
        warm = time.perf_counter() - start
        runners: dict[str, Callable[[], object]] = {"webnn_cl": lambda: session.run(None, inputs)}
        if options.compare:
            runners[options.compare] = onnxruntime_runner(str(options.model), inputs)
        times = interleaved(runners, options.runs)
        result = {
            "model": options.model.name,
            "device": str(context.device),
            "inputs": {name: [str(array.dtype), list(array.shape)] for name, array in inputs.items()},
            "runs": options.runs,
            "latency_ms": {name: percentiles(seconds) for name, seconds in times.items()},
            "build_s": {"cold": cold, "warm": warm},
            **graph_facts(session.graph, float(np.median(times["webnn_cl"]))),
        }
    if options.json:
        print_json(result)
    else:
        print_report(result, describe(inputs), options.compare)
    return 0


def onnxruntime_runner(model: str, inputs: Inputs) -> Callable[[], object]:
    """One inference of onnxruntime on the CPU with its default number of threads."""
    try:
        import onnxruntime
    except ImportError:
        raise NotSupportedError("--compare onnxruntime: the package onnxruntime is not installed") from None
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, quiet, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, dict(inputs))


def interleaved(runners: Mapping[str, Callable[[], object]], runs: int) -> dict[str, list[float]]:
    """Seconds of each run; the runners take turns, so that a machine that slows down slows them all."""
    times: dict[str, list[float]] = {name: [] for name in runners}
    for turn in range(WARM_UP + runs):
        for name, runner in runners.items():
            start = time.perf_counter()
            runner()
            if turn >= WARM_UP:
                times[name].append(time.perf_counter() - start)
    return times


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Median, 10th and 90th percentile in milliseconds."""
    p10, median, p90 = np.percentile(np.array(seconds) * 1e3, [10, 50, 90])
    return {"median": float(median), "p10": float(p10), "p90": float(p90)}


def graph_facts(graph: webnn_cl.MLGraph, seconds: float) -> dict[str, object]:
    """Memory, launches and arithmetic of a compiled graph; the rate counts multiply-adds of products as two."""
    executable = graph._executable
    assert executable is not None  # the session keeps it alive
    return {
        "memory_bytes": {
            "constants": executable.constant_bytes,
            "temporaries": executable.arena_bytes,
            "peak_live": executable.peak_live_bytes,
        },
        "launches": executable.kernel_count,
        "distinct_kernels": executable.distinct_kernels,
        "gflop": graph._flops / 1e9,
        "gflop_per_s": graph._flops / 1e9 / seconds,
    }


def print_report(result: Mapping[str, Any], inputs: str, peer: str | None) -> None:
    """The same for people."""
    memory, build = result["memory_bytes"], result["build_s"]
    print(f"{result['model']} on {result['device']}: {inputs}")
    for name, latency in result["latency_ms"].items():
        print(
            f"  {name:<12} median {latency['median']:.3f} ms   p10 {latency['p10']:.3f}   p90 {latency['p90']:.3f}"
            f"   ({result['runs']} runs)"
        )
    if peer:
        ratio = result["latency_ms"][peer]["median"] / result["latency_ms"]["webnn_cl"]["median"]
        print(f"  webnn_cl is {ratio:.2f} x as fast as {peer} (interleaved medians)")
    print(f"  rate         {result['gflop_per_s']:.1f} GFLOP/s ({result['gflop']:.3f} GFLOP in sums of products)")
    print(f"  build        cold {build['cold']:.2f} s   warm {build['warm']:.2f} s   (import, compile, first run)")
    print(
        f"  memory       constants {memory['constants'] / 1e6:.2f} MB   temporaries {memory['temporaries'] / 1e6:.2f}"
        f" MB   (most alive at once {memory['peak_live'] / 1e6:.2f} MB)"
    )
    print(f"  kernels      {result['launches']} launches of {result['distinct_kernels']} different kernels")
