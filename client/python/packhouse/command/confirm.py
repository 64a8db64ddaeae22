"""Asks before something that cannot be undone."""

from __future__ import annotations

import sys

from packhouse.command.failures import Failure, Misuse
from packhouse.command.readable import readable


def confirm(deed: str, yes: bool) -> None:
    """Returns if it may be done: with `yes` (the option --yes), or if the answer on a terminal is `y`
    or `yes`. `deed` says what would be done, as in `delete job 'a'`.

    Raises Misuse if stdin is no terminal, Failure after any other answer. Where `deed` costs a call,
    do not make it with `yes`.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise Misuse(f"to {deed} where nobody can be asked, add --yes")
    print(f"{readable(deed)}? [y/N] ", end="", flush=True, file=sys.stderr)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure("CANCELLED", "nothing was done")
