"""When to try again."""

from __future__ import annotations

import logging
import random
import time
from typing import Final

from packhouse.base.errors import PackhouseError, passes

# Seconds of failing in a row after which a server is given up: one that is started anew elsewhere
# is back by then.
DEFAULT_RETRY_TIMEOUT: Final = 300.0

_LOG: Final = logging.getLogger("packhouse")

# Seconds of failing in a row that nobody is told of: a server that is started anew, or that ends a
# connection by its age, is back by then.
_SILENT: Final = 1.0

_FIRST_DELAY: Final = 0.05
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
