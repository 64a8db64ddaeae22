"""When to try again."""

from __future__ import annotations

import random
import time
from typing import Final

import grpc

from packhouse.errors import PackhouseError

# Seconds of failing in a row after which a server is given up: one that is started anew elsewhere
# is back by then.
DEFAULT_RETRY_TIMEOUT: Final = 300.0

# CANCELLED is what a server answers to calls that arrive in the moment of its leaving.
_RETRIED: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)

_FIRST_DELAY: Final = 0.05
LONGEST_DELAY: Final = 1.0


class Backoff:
    """Delays between tries that grow from 50 ms to `longest`, for `timeout` seconds of failing in a
    row.

    Each is drawn at random from the upper half of its range, so that the workers of a server that
    comes back do not all call at once. Use from one thread.
    """

    def __init__(self, timeout: float, longest: float = LONGEST_DELAY) -> None:
        self._timeout = timeout
        self._longest = longest
        self._delay = _FIRST_DELAY
        self._deadline: float | None = None

    def succeeded(self) -> None:
        """The next failure is the first one."""
        self._delay = _FIRST_DELAY
        self._deadline = None

    def delay_after(self, error: PackhouseError) -> float:
        """Seconds to wait before the next try.

        Raises `error` if the server would fail the next try too, or if it is too late for one.
        """
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._timeout
        if error.code not in _RETRIED or now >= self._deadline:
            raise error
        delay = random.uniform(self._delay / 2, self._delay)
        self._delay = min(2 * self._delay, self._longest)
        return min(delay, self._deadline - now)
