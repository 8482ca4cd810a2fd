"""The order of work on tensors: which operations must wait for an open lease, and which may pass.

Nothing here knows OpenCL. A hold is an open lease; while one is open, an operation that conflicts with it, or with an
operation that waits already, waits as well, so that the order of calls holds per tensor while independent work passes.
Everything is called under the timeline's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Gate", "Hold", "Operation"]

Key = Any  # the Storage of a tensor


class Operation:
    """Work that reads and writes tensors. `run` enqueues it; `fail` hears why it never will, or why it failed."""

    __slots__ = ("fail", "reads", "run", "waiting", "writes")

    def __init__(
        self,
        reads: Iterable[Key],
        writes: Iterable[Key],
        run: Callable[[], None],
        fail: Callable[[BaseException], object],
    ) -> None:
        self.reads = frozenset(reads)
        self.writes = frozenset(writes)
        self.run = run
        self.fail = fail
        self.waiting = False

    def forget(self) -> None:
        """Drop what it would call: what it ran for may refer to it."""
        self.run = self.fail = _nothing


def _nothing(*_: object) -> None:
    pass


class Hold:
    """An open lease on tensors, or an internal one.

    `owner` is the ident of the thread that must give it back, None for internal leases. An internal lease may in turn
    wait for an operation at another gate, `behind` (a copy whose source is leased).
    """

    __slots__ = ("behind", "owner", "reads", "writes")

    def __init__(self, reads: Iterable[Key] = (), writes: Iterable[Key] = (), owner: int | None = None) -> None:
        self.reads = frozenset(reads)
        self.writes = frozenset(writes)
        self.owner = owner
        self.behind: tuple[Gate, Operation] | None = None

    def needs(self, thread: int) -> bool:
        """Whether only something that `thread` does can end this hold."""
        behind = self.behind
        return self.owner == thread or (behind is not None and behind[0].blocks(behind[1], thread))


def _conflict(a: Operation | Hold, b: Operation | Hold) -> bool:
    """Read-write, write-read or write-write on a common tensor."""
    return not (
        a.writes.isdisjoint(b.writes) and a.writes.isdisjoint(b.reads) and a.reads.isdisjoint(b.writes)
    )


class Gate:
    """Open holds, and the operations that wait for them in call order."""

    __slots__ = ("deferred", "holds")

    def __init__(self) -> None:
        self.holds: list[Hold] = []
        self.deferred: list[Operation] = []

    @property
    def open(self) -> bool:
        """Nothing is held and nothing waits: operations need no look at what they touch."""
        return not self.holds and not self.deferred

    def passes(self, operation: Operation) -> bool:
        """Whether `operation` may run now."""
        return not any(_conflict(operation, h) for h in self.holds) and not any(
            _conflict(operation, d) for d in self.deferred
        )

    def defer(self, operation: Operation) -> None:
        """Let `operation` wait."""
        operation.waiting = True
        self.deferred.append(operation)

    def next_free(self) -> Operation | None:
        """Take out the first waiting operation that nothing before it, and no hold, stops."""
        for index, operation in enumerate(self.deferred):
            if any(_conflict(operation, h) for h in self.holds):
                continue
            if any(_conflict(operation, d) for d in self.deferred[:index]):
                continue
            del self.deferred[index]
            operation.waiting = False
            return operation
        return None

    def blocks(self, operation: Operation, thread: int | None = None) -> bool:
        """Whether `operation` waits, directly or through others, for a hold that `thread` must give back."""
        thread = threading.get_ident() if thread is None else thread
        seen: set[Hold] = set()
        waiting: list[tuple[Gate, Operation]] = [(self, operation)]
        while waiting:
            gate, waiter = waiting.pop()
            for hold in gate._holds_before(waiter):
                if hold.owner == thread:
                    return True
                if hold not in seen and (behind := hold.behind) is not None:
                    waiting.append(behind)
                seen.add(hold)
        return False

    def _holds_before(self, operation: Operation) -> list[Hold]:
        """The holds that `operation` waits for, directly or through operations of this gate."""
        # Copies, because the other timeline of a copy asks without this one's lock.
        deferred, holds = list(self.deferred), list(self.holds)
        if operation not in deferred:
            return []
        wanted: list[Operation] = [operation]
        for earlier in reversed(deferred[: deferred.index(operation)]):
            if any(_conflict(earlier, w) for w in wanted):
                wanted.append(earlier)
        return [h for h in holds if any(_conflict(h, w) for w in wanted)]

    def clear(self) -> list[Operation]:
        """Drop everything; the operations that will never run."""
        dropped, self.deferred = self.deferred, []
        for operation in dropped:
            operation.waiting = False
        self.holds = []
        return dropped
