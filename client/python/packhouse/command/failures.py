"""How a command fails: one line, and an exit status."""

from __future__ import annotations

import click

# Exit statuses. A failure is caused by a file, the server or the sizes; misuse by the command line.
OK = 0
FAILURE = 1
MISUSE = 2


class Failure(Exception):
    """Ends the command with status 1. `code` is the name of a gRPC status, as in NOT_FOUND."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Misuse(click.UsageError):
    """Ends the command with status 2: the command line makes no sense."""


def text_of(error: Exception) -> str:
    """What is printed of an error that ends a command, without the program's name."""
    from packhouse.base.errors import PackhouseError

    if isinstance(error, PackhouseError):
        text = f"{error.message} [{error.code.name}]"
        if error.message.startswith("--memory-budget"):
            # A server's words, which name a flag that no command has.
            text = (
                f"{error.message}; --memory-budget is a flag of packhoused: start one with more, and "
                f"name it with --server [{error.code.name}]"
            )
        return text
    if isinstance(error, Failure):
        return f"{error} [{error.code}]"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
