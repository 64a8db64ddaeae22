"""One line that is updated on a terminal, or about a line a second elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Final, TextIO

_ON_TERMINAL_SECONDS: Final = 0.1
_ELSEWHERE_SECONDS: Final = 1.0


class Progress:
    """Call `show` as often as you like; it writes only when it is time. `done` ends the line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """`stream` is where it writes: stdout, unless it is given."""
        self._stream = stream or sys.stdout
        self._terminal = self._stream.isatty()
        self._interval = _ON_TERMINAL_SECONDS if self._terminal else _ELSEWHERE_SECONDS
        self._due = time.monotonic() + self._interval

    def show(self, text: str) -> None:
        """The state of things now."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self._interval
        self._write(text, final=False)

    def done(self, text: str) -> None:
        """The last state."""
        self._write(text, final=True)

    def _write(self, text: str, final: bool) -> None:
        if self._terminal:
            # Back to the start of the line, and erase to its end.
            print(
                f"\r{text}\033[K", end="\n" if final else "", flush=True, file=self._stream
            )
        else:
            print(text, flush=True, file=self._stream)
