"""``webnn-cl check``: what of a model can be expressed, without building anything."""

from __future__ import annotations

import argparse
from typing import Any

import webnn_cl
from webnn_cl.cli.models import add_model_options, create_context, require_file


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "check",
        help="tell whether a model can be expressed, and what can't",
        description="Report how each node of a model is expressed. Exit status 0 when all can be, 2 when not.",
    )
    add_model_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the import report; 0 when everything can be expressed, else 2."""
    require_file(options.model)
    with create_context(options) as context:
        report = webnn_cl.onnx.check(
            str(options.model), context, free_dimensions=dict(options.free_dim), input_shapes=dict(options.shape)
        )
    print(report)
    return 0 if report.ok else 2
