"""Fork guard: OpenCL runtimes keep threads that a forked child doesn't have, so its first wait would hang.

From the first platform query on, a child made by ``os.fork`` is refused with a message that says to use spawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from webnn_cl.errors import InvalidStateError

__all__ = ["check", "forked", "in_child", "note_query"]

_queried = False
forked = False
"""True in a child that was forked after its parent had used OpenCL."""


def note_query() -> None:
    """Remember that this process has asked the OpenCL loader for something: its children may not."""
    global _queried
    _queried = True


def check() -> None:
    """InvalidStateError in such a child."""
    if forked:
        raise InvalidStateError(
            "this process was forked after its parent had used OpenCL, whose threads don't survive a fork; "
            'start workers with multiprocessing.get_context("spawn") instead'
        )


def _after_fork_in_child() -> None:
    global forked
    forked = forked or _queried
    for renew in _renewals:
        renew()


def in_child(renew: Callable[[], None]) -> None:
    """Call `renew` in every forked child: for locks that a thread of the parent may hold at the fork."""
    _renewals.append(renew)


_renewals: list[Callable[[], None]] = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
