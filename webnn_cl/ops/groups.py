"""Work-groups of GPUs that share lines of elements (groups.h): how many work-items a line gets, how many groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.compiler.tail import Tail
    from webnn_cl.opencl.facts import DeviceFacts

__all__ = ["HEADERS", "Share", "group_size", "launch_lines", "share_of"]

HEADERS = ("groups.h",)
# Work-items of a group where the device allows as many, and bytes of local memory that kernels ask of each.
GROUP, LOCAL_BYTES = 256, 48
# Elements that a work-item takes before another one joins it, or before another group joins its line.
EACH, EACH_PART = 4, 32
# What keeps a GPU busy: groups of a compute unit that share long lines.
GROUPS_PER_UNIT = 4


@dataclass(frozen=True)
class Share:
    """`depth` work-items of a group of `size` take a line, `parts` groups share one, `chunk` elements each.

    `along`: the elements of a line are neighbours in memory, else those of neighbouring lines are.
    """

    size: int
    depth: int
    parts: int
    chunk: int
    along: bool
    lines: int

    @property
    def grid(self) -> tuple[int, int]:
        return -(-self.lines // (self.size // self.depth)) * self.size, self.parts

    @property
    def local(self) -> tuple[int, int]:
        return self.size, 1

    def arguments(self) -> list[np.generic]:
        """The kernels' arguments chunk, depth and along."""
        return [np.int64(self.chunk), np.int32(self.depth), np.int32(self.along)]

    def whole(self, n: int) -> Share:
        """The same where one group has all `n` elements of its lines."""
        return Share(self.size, self.depth, 1, n, self.along, self.lines)


def group_size(facts: DeviceFacts) -> int:
    """Work-items of a group: a power of two within the device's limits."""
    fitting = min(GROUP, facts.max_work_group_size, max(facts.local_memory_bytes // LOCAL_BYTES, 1))
    return _down(fitting)


def share_of(lines: int, n: int, along: bool, facts: DeviceFacts) -> Share:
    """How `lines` lines of `n` elements are shared out."""
    size, units = group_size(facts), max(facts.compute_units, 1)
    depth = min(_up(-(-n // EACH)), size)
    if not along:
        # Neighbouring lines first, as many as a memory transaction wants; more work-items a line where lines are few.
        side_by_side = min(_up(lines), max(facts.group_multiple, 1), size)
        wanted = _up(-(-GROUPS_PER_UNIT * units * size // lines))
        depth = min(depth, size // side_by_side, wanted)
    groups = -(-lines // (size // depth))
    parts = min(GROUPS_PER_UNIT * units // groups, n // (depth * EACH_PART))
    if parts < 2:
        return Share(size, depth, 1, n, along, lines)
    chunk = -(-n // parts // depth) * depth
    return Share(size, depth, -(-n // chunk), chunk, along, lines)


def launch_lines(
    lowering: Lowering,
    template: str,
    defines: Mapping[str, object],
    share: Share,
    args: Sequence[Arg],
    more: Sequence[Arg] = (),
    tail: Tail | None = None,
    headers: Sequence[str] = (),
    in_place: Sequence[tuple[Arg, Arg]] = (),
    code: str = "",
) -> None:
    """Launch kernel `template` of its file: `args`, the share's own arguments, `more`, and those of the epilogue.

    `code` goes before the template.
    """
    defines = {**defines, "GROUP": share.size}
    every = [*args, *share.arguments(), *more]
    if tail is not None:
        defines, code, headers = defines | tail.defines, code + tail.code, (*headers, *tail.headers)
        every += tail.args
    kernel = Kernel(f"{template}.cl", template, defines, code, (*HEADERS, *headers))
    lowering.launch(kernel, every, share.grid, share.local, in_place)


def _up(n: int) -> int:
    """The smallest power of two that is not below `n`."""
    return 1 << max(n - 1, 0).bit_length()


def _down(n: int) -> int:
    return 1 << max(n, 1).bit_length() - 1
