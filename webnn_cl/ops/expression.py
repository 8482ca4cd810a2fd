"""Element-wise operators as C expressions, for eight lanes or one; the compiler joins them into one kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webnn_cl.dtypes import dtype_of

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Node

__all__ = ["Expression"]


@dataclass(frozen=True)
class Expression:
    """A C expression of an operator's inputs, in ``str.format`` fields.

    `text` (or what it returns for a node) may use:

    * the operand roles, such as ``{input}`` or ``{a}``: each is a variable of the operand's compute type;
    * the names in `params`: attributes passed as kernel arguments of the first operand's compute type, so that
      their values don't make another kernel;
    * ``{V}`` the compute type of the first operand at this width (``float8`` or ``float``), ``{S}`` its scalar,
      ``{M}`` the signed integer type of comparisons at this width, ``{T}`` its storage name;
    * ``{OV}`` ``{OS}`` ``{OT}`` the same of the output; ``{W}`` the width, ``8`` or ``1``, to end a macro's or a
      helper's name with (``SEL{W}(a, b, mask)``, ``BOOL{W}(mask)``, ``wn_erf{W}(x)``), ``{N}`` the same but empty
      for one lane, as in type names.

    Literals need a cast that fits both widths: ``({V})(1)``. Helpers live in ``kernels_cl/elementwise.h``.
    The value must have the output's compute type; rounding to float16 is added by the compiler.
    """

    text: str | Callable[[Node], str]
    params: tuple[str, ...] = ()
    # Statements before the text, for a node, that declare temporaries named {t}...: each a stage of its own, since
    # processors overlap short runs of operations better than long ones (compiler/stages.py).
    before: Callable[[Node], Sequence[str]] | None = None
    # Function definitions that the text calls, for a node and a width, put before the kernel.
    code: Callable[[Node, int], str] | None = None

    def render(self, node: Node, variables: dict[str, str], width: int) -> str:
        """The expression for `node` with operands and parameters named by `variables`, at `width` lanes."""
        return self._fill(self.text(node) if callable(self.text) else self.text, node, variables, width)

    def render_before(self, node: Node, variables: dict[str, str], width: int) -> list[str]:
        """The statements before it."""
        return [self._fill(text, node, variables, width) for text in self.before(node)] if self.before else []

    def _fill(self, text: str, node: Node, variables: dict[str, str], width: int) -> str:
        suffix = "" if width == 1 else str(width)
        first = dtype_of(next(iter(node.inputs.values())).data_type)
        out = dtype_of(node.output.data_type)
        return text.format(
            V=first.compute + suffix,
            S=first.compute,
            M=first.mask + suffix if width > 1 else "int",
            T=first.storage,
            OV=out.compute + suffix,
            OS=out.compute,
            OT=out.storage,
            W=width,
            N=suffix,
            **variables,
        )
