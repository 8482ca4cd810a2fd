"""The command line: ``webnn-cl`` and ``python -m webnn_cl``.

Each command is one module with ``add_parser(commands)``; adding one is adding it to COMMANDS. Whatever goes wrong is
one readable line on stderr and exit status 1; ``--debug`` shows the traceback instead.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from webnn_cl.cli import bench, check, devices, run, tune

COMMANDS = (devices, run, bench, check, tune)


class Parser(argparse.ArgumentParser):
    """argparse's parser, but wrong arguments are one line and exit status 1, as every other failure."""

    def error(self, message: str) -> NoReturn:
        """End the process with one line."""
        self.exit(1, f"{self.prog}: {message} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = Parser(prog="webnn-cl", description="Run neural networks with the WebNN API on any OpenCL device.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for command in COMMANDS:
        command.add_parser(commands)
    for sub in commands.choices.values():
        sub.add_argument("--debug", action="store_true", help="show a traceback when something fails")
    return parser


def one_line(error: BaseException) -> str:
    """What an exception says, on one line and not endless."""
    text = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
    if not text or isinstance(error, (KeyError, AttributeError, IndexError, ImportError)):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= 2000 else text[:1990] + " ..."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 after a failure, and what the command itself defines."""
    options = build_parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output went away (| head): nothing is left to say, not even at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as error:
        if options.debug:
            raise
        print(f"webnn-cl {options.command}: {one_line(error)}", file=sys.stderr)
        return 1
