"""The completion thread: waits for events in order and tells whoever asked.

The thread knows nothing of the context that started it, so that a context can be collected while it waits.
"""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pyopencl as cl

__all__ = ["Completion"]

_log = logging.getLogger(__name__)

# An event to wait for (None: don't wait), and what to call with None or with the error that the wait gave.
_Item = tuple[Any, Callable[[BaseException | None], None]]


class Completion:
    """Calls back when events complete, in the order of `watch`; the thread starts with the first."""

    def __init__(self, name: str) -> None:
        self._inbox: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._name = name
        self._start_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None

    def watch(self, event: Any, done: Callable[[BaseException | None], None]) -> None:
        """Call ``done(None)`` once `event` has completed, ``done(error)`` when it failed; keeps both until then."""
        self._inbox.put((event, done))
        if self._thread is None:
            self.start()

    def start(self) -> None:
        """Start the thread, if it does not run yet."""
        if self._thread is not None:
            return
        with self._start_lock:
            if self._thread is None:
                thread = threading.Thread(target=_work, args=(self._inbox,), name=self._name, daemon=True)
                # What is in the inbox is still served; then the thread ends.
                self._finalizer = weakref.finalize(self, self._inbox.put, None)
                self._finalizer.atexit = False
                _serving[thread] = self._inbox
                thread.start()
                self._thread = thread


# Threads that have not ended, with what they serve; also those whose context is gone already.
_serving: dict[threading.Thread, queue.SimpleQueue[_Item | None]] = {}
_EXIT_SECONDS = 60.0


@atexit.register
def _end_all() -> None:
    """Let the threads finish before the interpreter does: one that returns from OpenCL later aborts the process."""
    end = time.monotonic() + _EXIT_SECONDS
    for inbox in list(_serving.values()):
        inbox.put(None)
    for thread in list(_serving):
        thread.join(max(end - time.monotonic(), 0.0))


def _work(inbox: queue.SimpleQueue[_Item | None]) -> None:
    try:
        _serve(inbox)
    finally:
        _serving.pop(threading.current_thread(), None)


def _serve(inbox: queue.SimpleQueue[_Item | None]) -> None:
    while (item := inbox.get()) is not None:
        event, done = item
        error: BaseException | None = None
        try:
            if event is not None:
                event.wait()
        except cl.Error as failure:
            error = failure
        try:
            done(error)
        except Exception:  # a caller's callback must not end the thread that all others rely on
            _log.exception("a callback on the completion of device work failed")
        del item, event, done  # or they would live until the next one comes
