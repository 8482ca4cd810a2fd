"""The timeline of a context: one lock, one in-order queue, and the work that waits for leases.

A call checks its arguments and enqueues under `lock`; nothing waits for the device there. Work is bounded: beyond
`MAX_COMMANDS` commands (or `max_bytes` of replaced memory) in flight a call first waits for the oldest of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyopencl as cl

from webnn_cl.errors import InvalidStateError, MLError, OperationError
from webnn_cl.opencl import fork
from webnn_cl.opencl.arena import Arena
from webnn_cl.opencl.completion import Completion
from webnn_cl.opencl.facts import DeviceFacts
from webnn_cl.opencl.loss import DeviceLostError, is_loss
from webnn_cl.opencl.memory import Storage
from webnn_cl.opencl.order import Gate, Hold, Operation
from webnn_cl.opencl.staging import StagingPool

__all__ = ["MAX_COMMANDS", "Timeline"]

MAX_COMMANDS = 4096
"""Commands in flight beyond which a call waits for the oldest."""
_COMMANDS_PER_MARK = 256
_OWN_LEASE = "this would wait for a lease that the calling thread holds itself; return the lease first"

Run = Callable[[Any], Sequence[Any] | None]


class Timeline:
    """Everything that runs on one context, in call order (W3C WebNN, "context timeline")."""

    def __init__(
        self, cl_context: Any, queue: Any, facts: DeviceFacts, on_loss: Callable[[str], None], owned: bool = True
    ) -> None:
        """`on_loss(message)` is called, without the lock, when the device is found to have failed.

        `owned` is false for a queue that the user brought, on which unknown work may run.
        """
        self.cl_context = cl_context
        self.queue = queue
        self.facts = facts
        self.owned = owned
        self.lock = threading.RLock()
        self.arena = Arena(cl_context)
        self.completion = Completion("webnn_cl completion")
        self.gate = Gate()
        self.staging = StagingPool(cl_context, queue.device)
        self.lost: str | None = None
        self.max_bytes = max(256 << 20, facts.global_memory_bytes // 8)
        self._on_loss = on_loss
        self._changed = threading.Condition(self.lock)
        self._afterwards: deque[Callable[[], None]] = deque()
        self._deferred_error: BaseException | None = None
        # By serial number of the storage; failures are rare enough to keep those of dead storages.
        self.failures: dict[int, BaseException] = {}
        # In-flight accounting: what was enqueued since the last mark, and the marks not yet seen complete.
        self._commands = 0
        self._bytes = 0
        self._marks: deque[tuple[Any, int, int]] = deque()
        self._marked_commands = 0
        self._marked_bytes = 0
        self._recent: list[Any] = []  # the last event of every operation, until it is known to have succeeded

    # Submitting ----------------------------------------------------------------------------------------------

    def submit(
        self,
        reads: Sequence[Any],
        writes: Sequence[Any],
        run: Run,
        fail: Callable[[BaseException], object] | None = None,
        commands: int = 1,
    ) -> Operation | None:
        """Enqueue ``run(queue)``, which reads and writes the given tensors; None when it was enqueued at once.

        While a lease stops it, the operation that waits is returned; it runs, in call order, when the lease ends,
        and a failure then goes to `fail`, or to the next `finish` without one. `run` is called under the lock,
        returns the events of its commands (or None), and must take each tensor's memory when called
        (``storage.buffer`` of a `storage` taken before). Raises what `run` raises, pyopencl's errors as
        OperationError, and InvalidStateError on a lost timeline.
        """
        self.throttle()
        with self.lock:
            return self.submit_locked(reads, writes, run, fail, commands)

    def submit_locked(
        self,
        reads: Sequence[Any],
        writes: Sequence[Any],
        run: Run,
        fail: Callable[[BaseException], object] | None = None,
        commands: int = 1,
    ) -> Operation | None:
        """`submit` for callers that hold the lock, and have called `throttle` before they took it."""
        try:
            if self.run_if_free(run, commands):
                return None
            operation = Operation(
                _keys(reads), _keys(writes), lambda: self._run(run, commands), fail or _told_by_finish
            )
            if self.gate.passes(operation):
                self._run(run, commands)
                self._spread(operation)
                return None
        except cl.Error as error:
            raise self.failure(error) from error
        self.gate.defer(operation)
        return operation

    def run_if_free(self, run: Run, commands: int) -> bool:
        """Enqueue ``run(queue)`` when no lease is open, so that what it touches does not matter; False otherwise.

        For callers that hold the lock and explain pyopencl's errors themselves.
        """
        if self.lost is not None or fork.forked:
            self.check_alive()
        gate = self.gate
        if gate.holds or gate.deferred or self.failures:
            return False
        self._run(run, commands)
        return True

    def _run(self, run: Run, commands: int) -> None:
        queue = self.queue
        events = run(queue)
        queue.flush()
        if events:
            self._recent.append(events[-1])
        self._commands += commands
        if self._commands >= _COMMANDS_PER_MARK:
            self._mark()
            queue.flush()

    def _spread(self, operation: Operation) -> None:
        """What was computed from memory that a failed operation should have written is no better than that."""
        failure = next((self.failures[s.serial] for s in operation.reads if s.serial in self.failures), None)
        for storage in operation.writes:
            if failure is not None:
                self.failures[storage.serial] = failure
            else:
                self.failures.pop(storage.serial, None)

    def written(self, storage: Storage) -> None:
        """`storage` holds good data, whatever failed to write it before."""
        if self.failures:
            with self.lock:
                self.failures.pop(storage.serial, None)

    def check_alive(self) -> None:
        """InvalidStateError when this timeline is lost or its process was forked."""
        if self.lost is not None:
            raise InvalidStateError(f"the context is lost: {self.lost}")
        if fork.forked:
            fork.check()

    # Holds (leases) ------------------------------------------------------------------------------------------

    def hold(
        self, hold: Hold, granted: Callable[[Any], None], fail: Callable[[BaseException], object]
    ) -> Operation | None:
        """Open `hold` as soon as all earlier work on its tensors is enqueued, then call ``granted(queue)``.

        Both happen under the lock. None when that was at once, else the operation that waits; `fail` hears when it
        never will, or when `granted` raised later.
        """

        def run() -> None:
            self.gate.holds.append(hold)
            try:
                granted(self.queue)
            except BaseException:
                self.gate.holds.remove(hold)
                raise

        try:
            with self.lock:
                self.check_alive()
                operation = Operation(hold.reads, hold.writes, run, fail)
                if self.gate.open or self.gate.passes(operation):
                    run()
                    return None
                self.gate.defer(operation)
                return operation
        except cl.Error as error:
            raise self.failure(error) from error

    def unhold(self, hold: Hold) -> None:
        """End `hold` and enqueue, in call order, the work that it alone kept waiting."""
        with self.lock:
            if hold not in self.gate.holds:
                return
            self.gate.holds.remove(hold)
        self._advance()

    def cancel(self, operation: Operation | None) -> bool:
        """Forget an operation that still waits; False when it has been enqueued (or was at once)."""
        with self.lock:
            if operation is None or not operation.waiting:
                return False
            self.gate.deferred.remove(operation)
            operation.waiting = False
            operation.forget()
        self._advance()
        return True

    def _advance(self) -> None:
        """Enqueue, in call order, what nothing stops any more."""
        failed: list[tuple[Callable[[BaseException], object], BaseException]] = []
        with self.lock:
            while (operation := self.gate.next_free()) is not None:
                try:
                    operation.run()
                except (MLError, cl.Error) as error:
                    failed.append((operation.fail, error))
                    self.keep_error(error, operation.writes)
                else:
                    self._spread(operation)
                operation.forget()
            self._changed.notify_all()
        for fail, reason in failed:
            fail(self.failure(reason) if isinstance(reason, cl.Error) else reason)
        self.run_afterwards()

    def blocked_message(self, operation: Operation | None) -> str | None:
        """Why waiting for `operation` would wait for the calling thread itself; None when it would not."""
        if operation is None or not self.gate.blocks(operation):
            return None
        return _OWN_LEASE

    def afterwards(self, call: Callable[[], None]) -> None:
        """Call `call` once the lock is free: for work on another timeline, whose lock must not be taken inside."""
        self._afterwards.append(call)

    def run_afterwards(self) -> None:
        """Make the calls that waited for the lock to be free."""
        while self._afterwards:
            self._afterwards.popleft()()

    # Waiting -------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Wait until everything submitted so far is done.

        Raises InvalidStateError when some of it waits for a lease of the calling thread, or when the device failed.
        """
        if self.lost is not None or fork.forked:
            self.check_alive()
        gate = self.gate
        if gate.deferred or gate.holds or self._deferred_error is not None:
            self._finish_deferred()
        try:
            self.queue.finish()
        except cl.Error as failure:
            raise self.lose_by(failure) from failure
        with self.lock:
            if self.lost is not None:
                self.check_alive()
            recent, self._recent = self._recent, []
            if self._marks:
                self._forget_marks()
            self._commands = self._bytes = 0
        for event in recent:
            if event.command_execution_status < 0:
                raise self._lose_by_status(event)

    def _finish_deferred(self) -> None:
        with self.lock:
            self._wait_for_deferred()
            self.check_alive()
            error, self._deferred_error = self._deferred_error, None
        if error is not None:
            raise error

    def _wait_for_deferred(self) -> None:
        """Wait, without the lock meanwhile, until the work deferred now is enqueued and internal holds have ended."""
        operations, thread = list(self.gate.deferred), threading.get_ident()
        internal = [h for h in self.gate.holds if h.owner is None]
        while any(op.waiting for op in operations) or any(h in self.gate.holds for h in internal):
            blocked = any(self.gate.blocks(op) for op in operations) or any(h.needs(thread) for h in internal)
            if blocked:
                raise InvalidStateError(_OWN_LEASE)
            self._changed.wait(1.0)

    def check_recent(self) -> None:
        """Look at events of earlier commands: one that failed on the device loses the context."""
        with self.lock:
            recent = self._recent
            self._recent = [event for event in recent if event.command_execution_status > 0]
        for event in recent:
            if event.command_execution_status < 0:
                raise self._lose_by_status(event)

    def _lose_by_status(self, event: Any) -> MLError:
        return self.lose(f"a command failed on the device with status {event.command_execution_status}")

    # Bounds --------------------------------------------------------------------------------------------------

    def throttle(self) -> None:
        """Refuse a forked child; wait for the oldest work when too much is in flight. Before taking the lock."""
        if fork.forked:
            fork.check()
        if self._marks:
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        while self._marked_commands > MAX_COMMANDS or self._marked_bytes > self.max_bytes:
            with self.lock:
                if not self._marks:
                    return
                event = self._marks[0][0]
            try:
                event.wait()
            except cl.Error as error:
                raise self.lose_by(error) from error
            with self.lock:
                self._drop_done_marks()

    def retire(self, nbytes: int) -> None:
        """Count memory that was replaced while queued work may still use it. Under the lock."""
        self._bytes += nbytes
        if self._bytes >= self.max_bytes // 8:
            self._mark()

    def _mark(self) -> None:
        """Put a mark behind what was enqueued since the last one, to know when that is done."""
        self._marks.append((cl.enqueue_marker(self.queue), self._commands, self._bytes))
        self._marked_commands += self._commands
        self._marked_bytes += self._bytes
        self._commands = self._bytes = 0
        self.check_recent()
        self._drop_done_marks()

    def _drop_done_marks(self) -> None:
        while self._marks and self._marks[0][0].command_execution_status <= 0:
            _, commands, nbytes = self._marks.popleft()
            self._marked_commands -= commands
            self._marked_bytes -= nbytes

    def _forget_marks(self) -> None:
        self._marks.clear()
        self._marked_commands = self._marked_bytes = 0

    # Failure -------------------------------------------------------------------------------------------------

    def failure(self, error: cl.Error, told: MLError | None = None) -> MLError:
        """The error to raise for what an OpenCL call refused: OperationError (`told`, when it is explained already).

        When the device turns out to be gone, the context is lost and that is the error.
        """
        if is_loss(error, self.queue):
            return self.lose_by(error)
        return told or OperationError(f"{self.facts.name}: {error}")

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Within the block, pyopencl's errors become the ones of `failure`. Without the lock."""
        try:
            yield
        except cl.Error as error:
            raise self.failure(error) from error

    def lose_by(self, error: BaseException) -> MLError:
        """Lose the context because of `error`, and the error to raise for it."""
        return self.lose(f"the device {self.facts.name} failed: {error}")

    def lose(self, message: str) -> MLError:
        """Lose the context: its objects end as after destroy()."""
        self._on_loss(message)
        return DeviceLostError(message)

    def close(self, message: str) -> list[Operation]:
        """Accept nothing more; the operations that were waiting and never run. Under the lock."""
        self.lost = message
        dropped = self.gate.clear()
        self.arena.release()
        self._forget_marks()
        self._recent = []
        self._changed.notify_all()
        return dropped

    def keep_error(self, error: BaseException, written: Iterable[Storage] = ()) -> None:
        """Let the next `finish` raise `error`, the failure of work that was deferred.

        So does every read of what that work should have `written`, until something else writes it.
        """
        if isinstance(error, cl.Error):
            error = OperationError(f"{self.facts.name}: {error}")
        with self.lock:
            self._deferred_error = self._deferred_error or error
            self.failures.update((storage.serial, error) for storage in written)


def _keys(tensors: Sequence[Any]) -> set[Storage]:
    """The memory of tensors, with that of imported tensors that overlap theirs (a Storage stands for itself)."""
    storages: list[Storage] = [getattr(t, "_storage", t) for t in tensors]
    return {s for storage in storages for s in (storage, *storage.aliases)}


def _told_by_finish(error: BaseException) -> None:
    """The failure of deferred work that nobody else waits for: `keep_error` has it."""
