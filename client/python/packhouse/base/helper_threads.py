"""Threads that help a trainer, whose end nobody overlooks."""

from __future__ import annotations

import queue
import threading
from typing import Callable, Final

# Seconds between two looks at whether a thread that was started still lives.
_LOOK: Final = 1.0
# How often a thread that dies before it works is started anew, at one time.
_STARTS: Final = 3


class HelperThread:
    """A daemon thread that does `work`, until that returns. One at a time.

    Whatever `work` raises ends the thread: from then on `start` begins another one, and after that
    `on_failure` is called with the exception, on the thread that ends. So whoever waits for what
    the thread does

    1. puts down where `on_failure` finds it,
    2. calls `start`,
    3. waits, until it is there or `on_failure` has ended the wait; then from 1 again.

    Either `start` comes after the end, or `on_failure` comes after 1. So no exception leaves
    anybody waiting, at whatever line of `work` or of this class it is raised. Thread-safe. An
    exception that a signal handler raises in any method leaves it sound.
    """

    def __init__(
        self, name: str, work: Callable[[], None], on_failure: Callable[[BaseException], None]
    ) -> None:
        """`name` is the thread's. Starts nothing yet."""
        self._name = name
        self._work = work
        self._on_failure = on_failure
        # Held by such threads only, never while they wait.
        self._lock = threading.Lock()
        # Below: written under _lock. The thread that works, or worked last.
        self._thread: threading.Thread | None = None
        self._is_working = False

    def start(self) -> None:
        """Starts the thread, unless it works. Raises RuntimeError if no thread can be started.

        Waits until the thread is where its end would be told, but never for a lock of its caller's.
        """
        for _ in range(_STARTS):
            if self._works():
                return
            begun: queue.SimpleQueue[bool] = queue.SimpleQueue()
            thread = threading.Thread(target=self._run, args=(begun,), name=self._name, daemon=True)
            thread.start()
            if _has_begun(thread, begun):
                return
        raise RuntimeError(f"the thread {self._name} ends before it begins")

    def join(self, timeout: float | None = None) -> bool:
        """Whether it has ended within `timeout` seconds (None: however long it takes). True on the
        thread itself.
        """
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _works(self) -> bool:
        # Not alive: after a fork.
        return self._is_working and self._thread is not None and self._thread.is_alive()

    # Without a loop: of the `try` in a loop, Python has an instruction that no handler of the same
    # function covers.
    def _run(self, begun: queue.SimpleQueue[bool]) -> None:
        try:
            is_first = self._begin()
            begun.put(True)
            if is_first:
                self._work()
            self._end()
        except BaseException as error:  # Whatever it is, it is told.
            self._end()
            begun.put(False)
            self._on_failure(error)

    def _begin(self) -> bool:
        """Whether this thread is to work: of several that were started, only the first one."""
        with self._lock:
            if self._works():
                return False
            self._thread = threading.current_thread()
            self._is_working = True
            return True

    def _end(self) -> None:
        with self._lock:
            if self._thread is threading.current_thread():
                self._is_working = False


def _has_begun(thread: threading.Thread, begun: queue.SimpleQueue[bool]) -> bool:
    """Waits until the thread says so, or has ended."""
    while True:
        is_alive = thread.is_alive()
        try:
            return begun.get(is_alive, _LOOK)
        except queue.Empty:
            if not is_alive:
                return False
