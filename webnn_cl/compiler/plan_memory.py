"""Memory plan: lifetimes of temporaries over the launch list, best-fit offsets in an arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from webnn_cl.compiler.lower import Buffer, Command, Launch

__all__ = ["MemoryPlan", "Slot", "plan_memory"]


@dataclass(frozen=True)
class Slot:
    """Where a temporary lies: byte range in one page of the arena."""

    page: int
    offset: int
    nbytes: int


@dataclass
class MemoryPlan:
    """Slots of all temporaries, bytes needed per page, and the largest sum of bytes alive at one command."""

    slots: dict[Buffer, Slot] = field(default_factory=dict)
    pages: list[int] = field(default_factory=list)
    peak_live_bytes: int = 0


@dataclass(eq=False)
class _Life:
    """A temporary and those that took over its memory in place: alive from command `first` to `last`."""

    buffers: list[Buffer]
    first: int
    last: int
    nbytes: int


def plan_memory(commands: Sequence[Command], alignment: int, page_bytes: int) -> MemoryPlan:
    """Give every temporary of `commands` a slot; two share bytes only when never alive at once.

    `alignment` is the offset alignment in bytes (a device's sub-buffer alignment), `page_bytes` the most that one
    page may hold. Largest first, at the lowest offset that fits.
    """
    lives = _merge_in_place(commands, _lifetimes(commands))
    plan = MemoryPlan(peak_live_bytes=_peak(lives, len(commands)))
    placed: list[tuple[_Life, Slot]] = []
    for life in sorted(lives, key=lambda item: (-item.nbytes, item.first)):
        busy = [slot for other, slot in placed if other.first <= life.last and life.first <= other.last]
        slot = _place(_round_up(life.nbytes, alignment), busy, page_bytes)
        placed.append((life, slot))
        for buffer in life.buffers:
            plan.slots[buffer] = slot
        plan.pages += [0] * (slot.page + 1 - len(plan.pages))
        plan.pages[slot.page] = max(plan.pages[slot.page], slot.offset + slot.nbytes)
    return plan


def _lifetimes(commands: Sequence[Command]) -> dict[Buffer, _Life]:
    lives: dict[Buffer, _Life] = {}
    for index, command in enumerate(commands):
        for buffer in command.buffers():
            if buffer.kind == "temporary":
                life = lives.setdefault(buffer, _Life([buffer], index, index, buffer.nbytes))
                life.last = index
    return lives


def _merge_in_place(commands: Sequence[Command], lives: dict[Buffer, _Life]) -> list[_Life]:
    """Let an element-wise result take over the memory of an operand that dies in the same launch."""
    for index, command in enumerate(commands):
        for source, target in command.in_place if isinstance(command, Launch) else ():
            old, new = lives.get(source), lives.get(target)
            if old is None or new is None or old is new or new.first != index or old.last != index:
                continue
            if old.nbytes < new.nbytes:
                continue
            old.buffers += new.buffers
            old.last = new.last
            for buffer in new.buffers:
                lives[buffer] = old
    return list({id(life): life for life in lives.values()}.values())


def _peak(lives: Sequence[_Life], count: int) -> int:
    change = [0] * (count + 1)
    for life in lives:
        change[life.first] += life.nbytes
        change[life.last + 1] -= life.nbytes
    total = peak = 0
    for step in change:
        total += step
        peak = max(peak, total)
    return peak


def _place(nbytes: int, busy: Sequence[Slot], page_bytes: int) -> Slot:
    """The lowest free offset of the first page with room; a page of its own for what is larger than a page."""
    page = 0
    while True:
        offset = 0
        for slot in sorted((s for s in busy if s.page == page), key=lambda s: s.offset):
            if offset + nbytes <= slot.offset:
                break
            offset = max(offset, slot.offset + slot.nbytes)
        if offset + nbytes <= max(page_bytes, nbytes if offset == 0 else 0):
            return Slot(page, offset, nbytes)
        page += 1


def _round_up(nbytes: int, alignment: int) -> int:
    return -(-nbytes // alignment) * alignment
