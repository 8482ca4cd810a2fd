"""``webnn-cl tune``: measure kernel variants on this device, keep the winners."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import webnn_cl
from webnn_cl.cli.models import add_device_option, create_context, input_infos, make_inputs, named_shape, named_size
from webnn_cl.cli.models import open_session as open_model
from webnn_cl.tuning.tuner import Result, tunable_nodes, tune
from webnn_cl.tuning.workloads import typical_nodes

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node

BAR = 30


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "tune",
        help="measure kernel variants on this device and keep the winners",
        description="Measure the variants of every product and convolution of a model (without one: of typical "
        "shapes) on this device, check each result against the plain kernel, and keep the winners in the user's cache "
        "folder for all later graphs. What was measured before is kept; a run that is stopped loses nothing.",
    )
    parser.add_argument("model", metavar="MODEL.onnx", nargs="?", type=Path, help="an ONNX model")
    parser.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1,3,224,224", type=named_shape, help="shape of an input"
    )
    parser.add_argument(
        "--free-dim", action="append", default=[], metavar="batch=1", type=named_size, help="size of a free dimension"
    )
    add_device_option(parser)
    parser.set_defaults(run=run, input=[], seed=0)


def run(options: argparse.Namespace) -> int:
    """Tune, with a progress bar, and print what won."""
    with create_context(options) as context:
        nodes = _nodes(options, context)
        print(f"{len(nodes)} workloads on {context.device.name.strip()}", file=sys.stderr)
        results = []
        for result in tune(context, nodes, lambda done, work: _progress(done, len(nodes), work)):
            results.append(result)
        _progress(len(nodes), len(nodes), "")
        print(file=sys.stderr)
        _report(results, len(nodes))
    return 0


def _nodes(options: argparse.Namespace, context: webnn_cl.MLContext) -> list[Node]:
    if options.model is None:
        return typical_nodes(context)
    session = open_model(options, context)
    inputs = make_inputs(input_infos(session), options)
    session.run(None, inputs)
    return tunable_nodes(session.graph)


def _progress(done: int, count: int, work: str) -> None:
    """One line that is written over; nothing where nobody looks at a terminal."""
    if sys.stderr.isatty():
        filled = BAR * done // max(count, 1)
        text = f"[{'#' * filled}{'.' * (BAR - filled)}] {done}/{count} {work}"
        print("\r" + text[:110].ljust(110), end="", file=sys.stderr, flush=True)


def _report(results: Sequence[Result], count: int) -> None:
    for result in results:
        if not result.seconds:
            print(f"{result.work}: not measured, {next(iter(result.rejected.values()))}")
            continue
        base = result.seconds.get(result.default)
        gain = f"{base / result.seconds[result.variant]:.2f} x the default" if base else "the default failed"
        kept = "default kept" if result.variant == result.default else gain
        print(f"{result.variant:28} {result.seconds[result.variant] * 1e6:10.1f} us  {kept:20} {result.work}")
        for variant, reason in result.rejected.items():
            print(f"    {variant}: not trusted, {reason}")
    if count > len(results):
        print(f"{count - len(results)} workloads had been measured before")
