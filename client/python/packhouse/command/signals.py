"""How SIGINT, SIGTERM and SIGHUP end the program: at once, or after what it owns is put away."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import time
from typing import Final, Iterator

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# So long the blocks that a signal ends may take.
SECONDS_TO_END: Final = 10.0


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
def raised() -> Iterator[None]:
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
