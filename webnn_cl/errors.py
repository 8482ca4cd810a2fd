"""Exceptions of the public API. Each one is also the Python exception that a caller would expect."""

from __future__ import annotations

__all__ = ["InvalidStateError", "MLError", "MLTypeError", "NotSupportedError", "OperationError"]


class MLError(Exception):
    """Base of every error that webnn_cl raises on purpose."""


class MLTypeError(MLError, TypeError, ValueError):
    """An argument of the wrong kind, type, shape or value: every case where the specification says TypeError."""


class InvalidStateError(MLError, RuntimeError):
    """The object can't do that now: builder built already, context lost, graph destroyed, tensor leased, a fork."""


class NotSupportedError(MLError, RuntimeError):
    """No OpenCL platform or device was found, or a model can't be expressed with the WebNN operators."""


class OperationError(MLError, RuntimeError):
    """Compilation, allocation or execution failed on the device; the message carries what the device said."""


# Bidirectional controls could make a label read differently from what it is (semantics of labels, W3C WebNN).
_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}


def printable(text: str) -> str:
    """`text` with control and bidirectional characters escaped, so that a label can't disguise a message."""
    return "".join(
        f"\\u{ord(c):04x}" if ord(c) in _BIDI or not (c.isprintable() or c == " ") else c for c in text
    )


def describe_operator(operator: str, label: str = "") -> str:
    """``conv2d [label]``, or ``conv2d`` without a label: how every message names an operator."""
    return f"{operator} [{printable(label)}]" if label else operator


def argument_error(where: str, argument: str, given: object, allowed: object) -> MLTypeError:
    """The message form of every refused argument: operator, argument, what was given, what is allowed."""
    return MLTypeError(f"{where}: {argument}: got {given}; allowed: {allowed}")
