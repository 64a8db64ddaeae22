"""A line on the terminal while many graphs are read or stored."""

from __future__ import annotations

import sys
import time
from typing import Callable, Final, Iterable, Iterator

from packhouse.data.graphs import GraphTable

# Seconds before it is shown, and between two looks of it.
_DELAY: Final = 0.5
_PERIOD: Final = 0.1
_WIDTH: Final = 30


class Progress:
    """Shows how many graphs of how many have been counted, on stderr if that is a terminal."""

    def __init__(
        self,
        what: str,
        total: int | None,
        is_shown: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._total = total
        self._is_shown = is_shown and sys.stderr.isatty()
        self._clock = clock
        self._next = clock() + _DELAY
        self._count = 0
        self._has_shown = False

    def counted(self, tables: Iterable[GraphTable]) -> Iterator[GraphTable]:
        """The tables; when they have been taken the line is gone."""
        try:
            for table in tables:
                yield table
                self._add(len(table))
        finally:
            if self._has_shown:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

    def _add(self, count: int) -> None:
        self._count += count
        if not self._is_shown or self._clock() < self._next:
            return
        self._next = self._clock() + _PERIOD
        self._has_shown = True
        sys.stderr.write(f"\r\x1b[K{self.line()}")
        sys.stderr.flush()

    def line(self) -> str:
        """What is shown now."""
        if not self._total:
            return f"packhouse: {self._what} {self._count:,} graphs"
        done = min(1.0, self._count / self._total)
        bar = "█" * round(_WIDTH * done)
        return (
            f"packhouse: {self._what} {bar:░<{_WIDTH}} {self._count:,} of {self._total:,} graphs"
        )
