"""What a program prints: all of it or an error, and a line of progress that is updated."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from typing import Callable, Final, Iterable, Iterator, TextIO, cast


class OutputError(Exception):
    """stdout could not be written. No OSError: argparse would pass over that one."""


class _Output(io.TextIOBase):
    """stdout, whose failures have one type and say what failed."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._file.encoding

    def isatty(self) -> bool:
        return self._file.isatty()

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, text: str) -> int:
        with _named():
            return self._file.write(text)

    def writelines(self, lines: Iterable[str]) -> None:  # type: ignore[override]
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with _named():
            self._file.flush()


@contextlib.contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write all of stdout: {error.strerror or error}") from None


def run_whole(program: str, main: Callable[[], int]) -> int:
    """The exit status of `main`, which prints; 1, with a line on stderr, if that was not possible.

    Call it last: after such a failure stdout leads nowhere, so that the end of the interpreter
    does not fail once more.
    """
    file = sys.stdout
    if file is None:
        # Started with a closed stdout: there is nothing that could be written.
        return main()
    try:
        with contextlib.redirect_stdout(cast(TextIO, _Output(file))):
            try:
                status = main()
            except SystemExit:
                # After --help.
                sys.stdout.flush()
                raise
            sys.stdout.flush()
            return status
    except OutputError as error:
        print(f"{program}: {error}", file=sys.stderr)
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, file.fileno())
            os.close(nowhere)
        return 1


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
