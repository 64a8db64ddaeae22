"""When calls are made again: delays, unary calls with their deadline, and servers that are silent."""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import Any, Callable, Final

import grpc

from packhouse.base.errors import PackhouseError, passes
from packhouse.base.waiting import HelperThread

# Seconds of failing in a row after which a server is given up: one that is started anew elsewhere
# is back by then.
DEFAULT_RETRY_TIMEOUT: Final = 300.0

_LOG: Final = logging.getLogger("packhouse")

# Seconds of failing in a row that nobody is told of: a server that is started anew, or that ends a
# connection by its age, is back by then.
_SILENT: Final = 1.0

_FIRST_DELAY: Final = 0.05
# Seconds that a try has at least: a server that answers may be busy.
_LEAST_TRY: Final = 2.0
LONGEST_DELAY: Final = 1.0


class Backoff:
    """Delays between tries that grow from 50 ms to `longest`, for `timeout` seconds of failing in a
    row.

    Each is drawn at random from the upper half of its range, so that the workers of a server that
    comes back do not all call at once. A failing that lasts is told in one line of the logger
    `packhouse`, at the level WARNING. Use from one thread.
    """

    def __init__(self, timeout: float, longest: float = LONGEST_DELAY, call: str = "") -> None:
        """`call` says what is tried and where, for people: "Load at HOST:PORT"."""
        self._timeout = timeout
        self._longest = longest
        self._call = call
        self._delay = _FIRST_DELAY
        self._began: float | None = None
        self._is_told = False

    def succeeded(self) -> None:
        """The next failure is the first one."""
        self._delay = _FIRST_DELAY
        self._began = None
        self._is_told = False

    def seconds_of_try(self, most: float) -> float:
        """The deadline of the next try, `most` or what is left. If it fails, the failing has begun
        now.
        """
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return min(most, max(self._began + self._timeout - now, _LEAST_TRY))

    def delay_after(self, error: PackhouseError) -> float:
        """Seconds to wait before the next try.

        Raises `error` if the server would fail the next try too; if it is too late for one, the
        same with the call and the time in its message.
        """
        if not passes(error.code.name, error.message):
            raise error
        now = time.monotonic()
        if self._began is None:
            self._began = now
        deadline = self._began + self._timeout
        if now >= deadline:
            raise self._final(error, now - self._began) from None
        # After a call that waited in vain for an answer, it has lasted already.
        if not self._is_told and (
            now - self._began >= _SILENT or error.code.name == "DEADLINE_EXCEEDED"
        ):
            self._is_told = True
            _LOG.warning(
                "%s fails, and is tried again for %.0f s: %s",
                self._call or "a call",
                deadline - now,
                error,
            )
        delay = random.uniform(self._delay / 2, self._delay)
        self._delay = min(2 * self._delay, self._longest)
        return min(delay, deadline - now)

    def _final(self, error: PackhouseError, seconds: float) -> PackhouseError:
        words = f"{self._call or 'the call'} was tried again for {seconds:.0f} s"
        return PackhouseError(error.code, f"{error.message}; {words}")


class UnaryCalls:
    """Makes a stub's unary calls. Constant, therefore thread-safe."""

    def __init__(self, address: str, timeout: float) -> None:
        """`address`: where the calls go, for people. `timeout`: the deadline of each, in seconds."""
        self.address = address
        self.timeout = timeout

    def __call__(self, method: Any, request: Any) -> Any:
        """The answer; waits for a connection. Raises PackhouseError."""
        try:
            return method(request, timeout=self.timeout, wait_for_ready=True)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None

    def again(self, method: Any, request: Any, retry_timeout: float, name: str) -> Any:
        """The same of a call that is safe to repeat: made again for `retry_timeout` seconds in all
        while the server is away. `name` says what is called, for people.
        """
        backoff = Backoff(retry_timeout, call=f"{name} at {self.address}")
        while True:
            seconds = backoff.seconds_of_try(self.timeout)
            try:
                return method(request, timeout=seconds, wait_for_ready=False)
            except grpc.RpcError as error:
                failure = PackhouseError.of(error)
            time.sleep(backoff.delay_after(failure))

    def delete(self, method: Any, request: Any) -> None:
        """Retries, too: NOT_FOUND after a first try that may have worked counts as deleted."""
        tries = 0

        def attempt(*arguments: Any, **options: Any) -> Any:
            nonlocal tries
            tries += 1
            return method(*arguments, **options)

        try:
            self.again(attempt, request, self.timeout, "a deletion")
        except PackhouseError as error:
            if tries == 1 or error.code is not grpc.StatusCode.NOT_FOUND:
                raise


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
        on_failure: Callable[[], None],
        period: float = _PERIOD,
    ) -> None:
        """`lives` asks, and may take some seconds; `on_silence` is called when it says no, or
        fails. After any failure, which ends the thread, `on_failure` is called, too: it ends the
        wait, and who waited tries again, calls `start`, and meets what the failure was.

        All are called on the watching thread.
        """
        self._period = period
        self._lives = lives
        self._on_silence = on_silence
        self._on_failure = on_failure
        # The number of the present wait, and 0 between two: of the one thread that waits.
        self.waiting = 0
        self._end = threading.Event()
        self._watcher = HelperThread("packhouse-silence", self._watch, self._fail)

    def start(self) -> None:
        """Watches from now on. To be called before each wait. Idempotent."""
        self._watcher.start()

    def close(self) -> None:
        """Ends watching. Idempotent."""
        self._end.set()
        self._watcher.join()

    def _fail(self, _: BaseException) -> None:
        # Whatever it is, it comes again where the trainer waits.
        try:
            self._on_silence()
        finally:
            self._on_failure()

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
