"""One line on a terminal's stderr that is written again and again."""

from __future__ import annotations

import sys

from packhouse.command.readable import readable


class TerminalLine:
    """Shows nothing where stderr is no terminal. Leaving the `with` block takes the line away."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> TerminalLine:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.show("")

    def show(self, text: str) -> None:
        """In place of the text before; "": nothing."""
        if self._on_terminal:
            print(f"\r\x1b[K{readable(text)}", end="", flush=True, file=sys.stderr)
