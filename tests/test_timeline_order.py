"""The gate: which operations wait for an open lease, which pass, and in which order they go on. No OpenCL."""

from __future__ import annotations

import random
from typing import Any

from webnn_cl.opencl.order import Gate, Hold, Operation

A, B, C, D = "ABCD"


class Line:
    """A gate with a log of what ran."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.log: list[str] = []

    def submit(self, name: str, reads: Any = (), writes: Any = ()) -> Operation:
        """As the timeline does it."""
        operation = Operation(reads, writes, lambda: self.log.append(name), lambda error: None)
        if self.gate.open or self.gate.passes(operation):
            operation.run()
        else:
            self.gate.defer(operation)
        return operation

    def hold(self, *writes: Any, owner: int | None = 1, reads: Any = ()) -> Hold:
        hold = Hold(reads, writes, owner)
        self.gate.holds.append(hold)
        return hold

    def release(self, hold: Hold) -> None:
        self.gate.holds.remove(hold)
        while (operation := self.gate.next_free()) is not None:
            operation.run()


def test_everything_passes_an_open_gate() -> None:
    line = Line()
    line.submit("one", reads=A, writes=B)
    line.submit("two", writes=A)
    assert line.log == ["one", "two"] and line.gate.open


def test_dependent_work_waits_and_independent_work_passes() -> None:
    line = Line()
    hold = line.hold(A)
    line.submit("reads A", reads=A)
    line.submit("writes A", writes=A)
    line.submit("other", reads=B, writes=C)
    assert line.log == ["other"]
    line.release(hold)
    assert line.log == ["other", "reads A", "writes A"] and line.gate.open


def test_dependence_through_other_tensors() -> None:
    line = Line()
    hold = line.hold(A)
    line.submit("A to B", reads=A, writes=B)
    line.submit("B to C", reads=B, writes=C)
    line.submit("overwrites C", writes=C)
    line.submit("reads B too", reads=B, writes=D)
    assert line.log == []
    line.release(hold)
    assert line.log == ["A to B", "B to C", "overwrites C", "reads B too"]


def test_write_after_read_waits_for_the_waiting_reader() -> None:
    line = Line()
    hold = line.hold(A)
    line.submit("A and B to C", reads=(A, B), writes=C)
    line.submit("reads B", reads=B)
    line.submit("writes B", writes=B)
    assert line.log == ["reads B"]
    line.release(hold)
    assert line.log == ["reads B", "A and B to C", "writes B"]


def test_readers_pass_a_shared_hold() -> None:
    line = Line()
    hold = line.hold(reads=A)
    line.submit("reads A", reads=A)
    line.submit("writes A", writes=A)
    line.submit("reads A later", reads=A)
    assert line.log == ["reads A"]
    line.release(hold)
    assert line.log == ["reads A", "writes A", "reads A later"]


def test_two_holds_release_in_any_order() -> None:
    for first, second in ((0, 1), (1, 0)):
        line = Line()
        holds = [line.hold(A), line.hold(B)]
        line.submit("needs both", reads=(A, B))
        line.submit("needs A", reads=A, writes=C)
        line.submit("needs B", reads=B, writes=D)
        line.release(holds[first])
        assert line.log == [("needs A", "needs B")[first]]
        line.release(holds[second])
        assert sorted(line.log) == ["needs A", "needs B", "needs both"]


def test_who_waits_for_whom() -> None:
    line = Line()
    line.hold(A, owner=1)
    line.hold(B, owner=2)
    through = line.submit("A to C", reads=A, writes=C)
    after = line.submit("C to D", reads=C, writes=D)
    other = line.submit("reads B", reads=B)
    assert line.gate.blocks(through, 1) and line.gate.blocks(after, 1)
    assert not line.gate.blocks(through, 2) and not line.gate.blocks(after, 2)
    assert line.gate.blocks(other, 2) and not line.gate.blocks(other, 1)
    ran = line.submit("free", reads="E")
    assert not line.gate.blocks(ran, 1)


def test_internal_holds_ask_what_they_wait_for() -> None:
    line = Line()
    other = Line()
    other.hold(A, owner=7)
    internal = Hold(writes=A)
    internal.behind = (other.gate, other.submit("the source is leased", reads=A))
    line.gate.holds.append(internal)
    waiting = line.submit("reads A", reads=A)
    assert internal.needs(7) and not internal.needs(8)
    assert line.gate.blocks(waiting, 7) and not line.gate.blocks(waiting, 8)


def test_clear_drops_what_waits() -> None:
    line = Line()
    line.hold(A)
    waiting = line.submit("never", reads=A)
    assert line.gate.clear() == [waiting]
    assert line.gate.open and not waiting.waiting and line.log == []


def test_random_programs_keep_the_order_per_tensor() -> None:
    """However leases come and go, every tensor sees conflicting operations in call order, and all run in the end."""
    random_ = random.Random(5)
    for _ in range(200):
        line, holds, calls = Line(), [], []
        for step in range(40):
            dice = random_.random()
            if dice < 0.15:
                free = [k for k in "ABCDEF" if not any(k in h.writes for h in holds)]
                # A lease is an operation itself: it opens only when nothing waits for its tensor.
                probe = Operation((), free[:1], lambda: None, lambda error: None)
                if free and line.gate.passes(probe):
                    holds.append(line.hold(free[0]))
            elif dice < 0.35 and holds:
                line.release(holds.pop(random_.randrange(len(holds))))
            else:
                keys = random_.sample("ABCDEF", 3)
                cut = random_.randrange(4)
                calls.append((str(step), set(keys[:cut]), set(keys[cut:])))
                line.submit(str(step), keys[:cut], keys[cut:])
        for hold in holds:
            line.release(hold)
        assert sorted(line.log) == sorted(name for name, _, _ in calls)
        place = {name: index for index, name in enumerate(line.log)}
        for index, (name, reads, writes) in enumerate(calls):
            for other, reads2, writes2 in calls[index + 1 :]:
                if writes & (reads2 | writes2) or reads & writes2:
                    assert place[name] < place[other]
