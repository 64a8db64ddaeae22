"""How far a command is, on one line of a terminal that goes in the end."""

from __future__ import annotations

import sys
import time
from typing import Final

from packhouse.command.readable import readable

_SECONDS: Final = 0.1
_CLEARED: Final = "\r\x1b[K"


class Progress:
    """`show` replaces the line on stderr, as often as a person can read it; where stderr is no
    terminal, nothing is shown. For a `with` block.
    """

    def __init__(self) -> None:
        self._is_on = sys.stderr is not None and sys.stderr.isatty()
        self._is_shown = False
        self._due = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.clear()

    def show(self, text: str) -> None:
        """The state of things now."""
        if self._is_on and time.monotonic() >= self._due:
            self._due = time.monotonic() + _SECONDS
            self._is_shown = True
            print(_CLEARED + readable(text), end="", flush=True, file=sys.stderr)

    def clear(self) -> None:
        """Takes the line away, for others or at the end."""
        if self._is_shown:
            self._is_shown = False
            print(_CLEARED, end="", flush=True, file=sys.stderr)
