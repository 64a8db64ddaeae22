"""Raises an exception at a line of the package, as a signal handler or a cancelled thread may."""

from __future__ import annotations

import dis
import linecache
import os
import sys
import threading
from types import FrameType
from typing import Any, Callable, Iterator

import packhouse

PACKAGE = os.path.dirname(packhouse.__file__) + os.sep


class Stop(BaseException):
    """What is raised: nobody can expect it."""


class Interruption:
    """Raises Stop once, when the package has come to its line number `at` (None: never).

    Counts the lines of threads whose name is `thread`, of which there may be several one after the
    other; None: of the thread that enters it. `lines` are those that were passed.
    """

    def __init__(self, at: int | None = None, thread: str | None = None) -> None:
        self.at = at
        self.thread = thread
        self.lines: list[tuple[str, int]] = []
        self.has_raised = False
        self._before: Any = None

    def __enter__(self) -> Interruption:
        self._before = sys.gettrace()
        if self.thread is None:
            sys.settrace(self._trace)
        else:
            threading.settrace(self._trace)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.settrace(self._before)
        threading.settrace(self._before)

    def again(self) -> None:
        """Traces on in this thread, where an exception has ended tracing."""
        if self.thread is None and not self.has_raised:
            sys.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if self.thread is not None and threading.current_thread().name != self.thread:
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        if event == "line" and not self.has_raised and not _leaves_with(frame):
            self.lines.append((frame.f_code.co_filename[len(PACKAGE) :], frame.f_lineno))
            if len(self.lines) - 1 == self.at:
                self.has_raised = True
                raise Stop(f"at {self.lines[-1]}")
        return self._line


def _leaves_with(frame: FrameType) -> bool:
    """Whether the line is a `with` statement that is being left.

    Python tells of it before the lock is released, but no signal handler runs there.
    """
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
    if not line.startswith("with "):
        return False
    return not dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(
        ("LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "PUSH_NULL")
    )


def each_line(lines: list[tuple[str, int]]) -> Iterator[int]:
    """Where each line is passed for the first time and, if it is passed again, for the last time
    but one: in the midst of work.
    """
    passed: dict[tuple[str, int], list[int]] = {}
    for number, line in enumerate(lines):
        passed.setdefault(line, []).append(number)
    for numbers in passed.values():
        yield numbers[0]
        if len(numbers) > 1:
            yield numbers[-2]
