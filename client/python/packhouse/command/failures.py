"""How a command ends early: by a failure, which is one line that ends in the name of a status code, and
an exit status; or by SIGINT, SIGTERM and SIGHUP, at once or after what it owns is put away.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import os
import signal
import time
from typing import Final, Iterator

import click

# Exit statuses. A failure is caused by a file, the server or the sizes; misuse by the command line.
OK = 0
FAILURE = 1
MISUSE = 2

# Of errors that no server told; the first kind counts.
_CODES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (FileNotFoundError, "NOT_FOUND"),
    (FileExistsError, "ALREADY_EXISTS"),
    (PermissionError, "PERMISSION_DENIED"),
    (IsADirectoryError, "FAILED_PRECONDITION"),
    (NotADirectoryError, "FAILED_PRECONDITION"),
    (OSError, "UNKNOWN"),
    (MemoryError, "RESOURCE_EXHAUSTED"),
    (ImportError, "FAILED_PRECONDITION"),
    (ValueError, "INVALID_ARGUMENT"),
    (OverflowError, "OUT_OF_RANGE"),
    # A program that was started does not start, or has ended.
    (RuntimeError, "UNAVAILABLE"),
)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE)

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# So long the blocks that a signal ends may take.
SECONDS_TO_END: Final = 10.0


class Failure(Exception):
    """Ends the command with status 1. `code` is the name of a gRPC status, as in NOT_FOUND."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Misuse(click.UsageError):
    """Ends the command with status 2: the command line makes no sense."""


def text_of(error: Exception) -> str | None:
    """What is printed of an error that ends a command, without the program's name; None if its
    message does not say all, as that of a mistake of this program.
    """
    from packhouse.base.errors import PackhouseError

    message = str(error)
    if isinstance(error, PackhouseError):
        code, message = error.code.name, error.message
        if "--memory-budget: " in message:
            # A server's words, which name a flag that no command has.
            message += "; --memory-budget is a flag of packhoused: start one with more, and name it "
            message += "with --server"
    elif isinstance(error, Failure):
        code = error.code
    else:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), "")
    if isinstance(error, OSError):
        code = "RESOURCE_EXHAUSTED" if error.errno in _FULL else code
        if error.filename is not None and error.strerror:
            # Unless it is told in words that say more.
            is_plain = code == "NOT_FOUND" and error.strerror == os.strerror(errno.ENOENT)
            message = f"{error.filename}: {'cannot open: ' * is_plain}{error.strerror}"
    return f"{message} [{code}]" if code else None


class _Ended(KeyboardInterrupt):
    """A signal asks the program to end."""


class _Came:
    """The first signal that came; 0 before."""

    number = 0


def end_at_once() -> None:
    """From now on signals end the program where it stands, unless they are ignored.

    Python would raise KeyboardInterrupt at any line of any library: some drop it, some turn it into
    another error, and in the midst of an import it may crash.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.default_int_handler:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def signals_raised() -> Iterator[None]:
    """In this block, which owns what must go with it, signals raise a KeyboardInterrupt.

    Whatever a library makes of it, the program ends by the signal (`die_of_signal`), after
    `SECONDS_TO_END` at the latest: gRPC has a lock taken about once in 600 times, for which the end
    of the block waits. A second signal ends it at once. Then guards end the program's servers
    (`LocalServer`). For the main thread: Python takes signals on no other.
    """
    taken = [each for each in _SIGNALS if signal.getsignal(each) is signal.SIG_DFL]

    def end(number: int, _frame: object) -> None:
        _Came.number = number
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
        # A thread without locks of Python's, which the line that was interrupted may hold.
        _thread.start_new_thread(_die_later, (number,))
        raise _Ended

    for each in taken:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)


def _die_later(number: int) -> None:
    time.sleep(SECONDS_TO_END)
    os.kill(os.getpid(), number)


def die_of_signal() -> None:
    """If a signal has come: as if it had not been caught."""
    if _Came.number:
        signal.signal(_Came.number, signal.SIG_DFL)
        os.kill(os.getpid(), _Came.number)
