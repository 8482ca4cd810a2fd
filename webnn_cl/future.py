"""MLFuture: the result of an asynchronous call, with and without a running asyncio loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from webnn_cl.errors import InvalidStateError
from webnn_cl.opencl import fork

if TYPE_CHECKING:
    import asyncio

__all__ = ["MLFuture", "run_in_thread"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

_PENDING, _READY, _DONE = range(3)


class MLFuture(Generic[T]):
    """A value that arrives later: ``await future``, ``future.result(timeout)``, ``future.done()``.

    A future settles once, with a value or with an exception, and may be awaited and asked any number of times,
    from any thread and any event loop.
    """

    __slots__ = ("__weakref__", "_blocked", "_callbacks", "_condition", "_error", "_produce", "_state", "_value",
                 "_waiters")  # fmt: skip

    def __init__(self, blocked: Callable[[], str | None] | None = None) -> None:
        """`blocked` says why the calling thread would wait for itself (a lease it holds), or None."""
        self._condition = threading.Condition(threading.Lock())
        self._state = _PENDING
        self._value: T | None = None
        self._error: BaseException | None = None
        self._produce: Callable[[], T] | None = None
        self._blocked = blocked
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._callbacks: list[Callable[[MLFuture[T]], object]] = []

    # For users -----------------------------------------------------------------------------------------------

    def done(self) -> bool:
        """True once the value (or the failure) is there."""
        return self._state == _DONE

    def result(self, timeout: float | None = None) -> T:
        """Wait for the value and return it, or raise the failure; TimeoutError after `timeout` seconds.

        InvalidStateError instead of a hang when the work waits for a lease that this thread holds.
        """
        self._wait(timeout)
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait, then the failure or None; TimeoutError after `timeout` seconds."""
        self._wait(timeout)
        return self._error

    def add_done_callback(self, callback: Callable[[MLFuture[T]], object]) -> None:
        """Call ``callback(self)`` when the future settles: at once if it has, else on the thread that settles it."""
        with self._condition:
            if self._state != _DONE:
                self._callbacks.append(callback)
                return
        callback(self)

    def __await__(self) -> Generator[Any, None, T]:
        if self._state != _DONE:
            import asyncio  # slow to import; whoever awaits has it already

            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            if self._add_waiter(loop, waiter):
                try:
                    yield from waiter.__await__()
                finally:
                    self._remove_waiter(waiter)
        return self.result()

    def __repr__(self) -> str:
        state = "pending" if self._state != _DONE else "failed" if self._error is not None else "done"
        return f"<MLFuture {state}>"

    # For the library -----------------------------------------------------------------------------------------

    @classmethod
    def resolved(cls, value: T) -> MLFuture[T]:
        """A future that has its value already."""
        future: MLFuture[T] = cls()
        future._try_set_result(value)
        return future

    @classmethod
    def rejected(cls, error: BaseException) -> MLFuture[T]:
        """A future that has failed already."""
        future: MLFuture[T] = cls()
        future._try_set_exception(error)
        return future

    def _run(self, function: Callable[[], T]) -> None:
        try:
            value = function()
        except BaseException as error:
            self._try_set_exception(error)
        else:
            self._try_set_result(value)

    def _try_set_result(self, value: T) -> bool:
        """Settle with `value`; False when the future had settled before."""
        return self._finish(value, None)

    def _try_set_exception(self, error: BaseException) -> bool:
        """Settle with `error`; False when the future had settled before."""
        return self._finish(None, error)

    def _try_set_produced(self, produce: Callable[[], T]) -> bool:
        """Settle with ``produce()``, called on the loop's thread when the future is awaited, else here.

        A rejection that comes before the loop gets to it still wins, and then `produce` is never called.
        """
        with self._condition:
            if self._state != _PENDING:
                return False
            self._produce = produce
            self._state = _READY
            handed = self._wake_waiters()
            self._condition.notify_all()
        if not handed:
            self._settle()
        return True

    def _settle(self) -> None:
        """READY -> DONE: whoever comes first (loop, result(), completion thread) produces the value, once."""
        with self._condition:
            if self._state != _READY:
                return
            assert self._produce is not None
            try:
                self._value = self._produce()
            except BaseException as error:
                self._error = error
            callbacks = self._mark_done()
        self._call(callbacks)

    def _finish(self, value: T | None, error: BaseException | None) -> bool:
        with self._condition:
            if self._state == _DONE:
                return False
            self._value, self._error = value, error
            callbacks = self._mark_done()
        self._call(callbacks)
        return True

    def _call(self, callbacks: list[Callable[[MLFuture[T]], object]]) -> None:
        for callback in callbacks:
            try:
                callback(self)
            except Exception:  # not the business of whoever settles the future
                _log.exception("a done callback failed")

    def _mark_done(self) -> list[Callable[[MLFuture[T]], object]]:
        self._state = _DONE
        self._produce = self._blocked = None
        self._wake_waiters()
        self._condition.notify_all()
        callbacks, self._callbacks = self._callbacks, []
        return callbacks

    def _wait(self, timeout: float | None) -> None:
        if self._state == _DONE:
            return
        fork.check()
        blocked = self._blocked
        if timeout != 0 and blocked is not None and (reason := blocked()) is not None and self._state == _PENDING:
            raise InvalidStateError(reason)
        with self._condition:
            if not self._condition.wait_for(lambda: self._state != _PENDING, timeout):
                raise TimeoutError(f"not done after {timeout} s")
        self._settle()

    def _add_waiter(self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> bool:
        with self._condition:
            if self._state == _PENDING:
                self._waiters.append((loop, waiter))
                return True
        self._settle()
        return False

    def _remove_waiter(self, waiter: asyncio.Future[None]) -> None:
        with self._condition:
            self._waiters = [w for w in self._waiters if w[1] is not waiter]

    def _wake_waiters(self) -> bool:
        """Schedule every waiter on its loop; False when there is none, or no loop is running any more."""
        woken = False
        for loop, waiter in self._waiters:
            try:
                loop.call_soon_threadsafe(self._wake, waiter)
                woken = True
            except RuntimeError:  # the loop was closed while the device worked
                continue
        return woken

    def _wake(self, waiter: asyncio.Future[None]) -> None:
        self._settle()
        if not waiter.done():
            waiter.set_result(None)


def run_in_thread(function: Callable[[], T], name: str) -> MLFuture[T]:
    """The result of `function`, run on a thread of its own called `name`, which a process that ends waits for."""
    future: MLFuture[T] = MLFuture()
    # Not a daemon: a thread that returns from OpenCL while the interpreter ends aborts the process.
    threading.Thread(target=future._run, args=(function,), name=name).start()
    return future
