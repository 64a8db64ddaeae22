"""Notices that a server is silent: stopped, or cut off. See `LoadConnection`."""

from __future__ import annotations

import threading
from typing import Callable, Final

# Seconds between two looks. The first question is asked after one to two of them.
_PERIOD: Final = 0.5


class SilenceWatch:
    """While a thread waits for a server, asks the server whether it lives, once a second or so.

    gRPC's own pings will not do for a stream that is read on its caller's thread: nobody takes their
    answers while the caller trains, so that a long step would look like a dead server. This asks
    only while the caller waits. The thread of its own begins with `start`. Thread-safe.
    """

    def __init__(
        self,
        lives: Callable[[], bool],
        on_silence: Callable[[], None],
        period: float = _PERIOD,
    ) -> None:
        """`lives` asks, and may take some seconds; `on_silence` is called when it says no, or
        fails: then who waits tries again, and meets what the failure was.

        Both are called on the watching thread.
        """
        self._period = period
        self._lives = lives
        self._on_silence = on_silence
        # The number of the present wait, and 0 between two: of the one thread that waits.
        self.waiting = 0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watches from now on. To be called by the thread that waits. Idempotent."""
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._run, name="packhouse-silence", daemon=True)
            thread.start()
            self._thread = thread

    def close(self) -> None:
        """Ends watching. Idempotent."""
        self._end.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                self._watch()
            except BaseException:  # Whatever it is, it comes again where the trainer waits.
                self._on_silence()

    def _watch(self) -> None:
        seen = 0
        while not self._end.wait(self._period):
            waiting = self.waiting
            is_old, seen = waiting != 0 and waiting == seen, waiting
            if not is_old:
                continue
            # What it waited for may have come while the server was asked.
            if not self._lives() and self.waiting == waiting and not self._end.is_set():
                self._on_silence()
            # A second or so until the next question.
            seen = 0
