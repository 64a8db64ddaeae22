"""How a command fails: one line that ends in the name of a status code, and an exit status."""

from __future__ import annotations

import errno
import os
from typing import Final

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
