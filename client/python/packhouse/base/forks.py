"""What becomes of objects when their process forks.

Only forks that Python makes (`os.fork`, multiprocessing) are noticed.
"""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol


class Forked(Protocol):
    """Whoever asks to be told of forks, as long as it lives."""

    def before_fork(self) -> None:
        """In the parent, on the thread that forks."""

    def after_fork_in_child(self) -> None:
        """In the child, before it does anything else."""


# By their addresses. No WeakSet: another thread may add to it while it is iterated over.
_told: Final[dict[int, weakref.ref[Forked]]] = {}


def tell_forks(whom: Forked) -> None:
    """From now on `whom` is told. Thread-safe."""
    key = id(whom)
    _told[key] = weakref.ref(whom, lambda _: _told.pop(key, None))


def _live() -> list[Forked]:
    things = (reference() for reference in list(_told.values()))
    return [each for each in things if each is not None]


def _before() -> None:
    for each in _live():
        each.before_fork()


def _after_in_child() -> None:
    for each in _live():
        each.after_fork_in_child()


os.register_at_fork(before=_before, after_in_child=_after_in_child)
