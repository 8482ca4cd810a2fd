"""The table of ONNX operators that the importer expresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call

__all__ = ["HANDLERS", "Handler", "op"]

Handler = Callable[["Call"], Any]
HANDLERS: dict[tuple[str, str], Handler] = {}


def op(*names: str, domain: str = "") -> Callable[[Handler], Handler]:
    """Register a function as the handler of the ONNX operators `names`.

    A handler gets a Call and returns one result or a list of them. A result is an MLOperand, a numpy array (known on
    the host), or a Value; what is wrong it raises as Refusal.
    """

    def add(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[domain, name] = handler
        return handler

    return add
