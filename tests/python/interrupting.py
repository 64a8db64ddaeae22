"""Raises an exception at a line of the package, as a signal handler or a cancelled thread may.

The law by line: an exception of any kind is raised at a line of the client's code, and the loop goes
on. Each graph comes exactly once, and nothing hangs. Tests try a part of the lines, which a seed
draws; with PACKHOUSE_ALL_CASES=1 all.
"""

from __future__ import annotations

import collections
import dis
import linecache
import os
import random
import sys
import threading
from types import FrameType
from typing import Any, Callable, Iterator, Sequence

import packhouse

PACKAGE = os.path.dirname(packhouse.__file__) + os.sep


class Stop(BaseException):
    """What is raised: nobody can expect it."""


class Interruption:
    """Raises Stop once, when the package has come to its line number `at` (None: never).

    Counts the lines of threads whose name is `thread`, of which there may be several one after the
    other; None: of the thread that enters it. Counts nothing in a process that is forked. `lines`
    are those that were passed. `before` is called before it is raised.
    """

    def __init__(
        self,
        at: int | None = None,
        thread: str | None = None,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self.at = at
        self.thread = thread
        self.before = before
        self.lines: list[tuple[str, int]] = []
        self.has_raised = False
        self._before: Any = None
        self._process = os.getpid()

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
        if not frame.f_code.co_filename.startswith(PACKAGE) or os.getpid() != self._process:
            return None
        if self.thread is not None and threading.current_thread().name != self.thread:
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        if event == "line" and not self.has_raised and not _leaves_with(frame):
            self.lines.append((frame.f_code.co_filename[len(PACKAGE) :], frame.f_lineno))
            if len(self.lines) - 1 == self.at:
                self.has_raised = True
                self.before()
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


def lines_to_try(lines: list[tuple[str, int]], part: int) -> Sequence[int]:
    """One in `part` of each_line(), or all of them."""
    numbers = sorted(set(each_line(lines)))
    if os.environ.get("PACKHOUSE_ALL_CASES"):
        return numbers
    return random.Random(1).sample(numbers, max(1, len(numbers) // part))


def read(loop: Callable[[], Iterator[list[int]]], interruption: Interruption) -> list[int]:
    """All graphs, by as many loops as it takes."""
    graphs: list[int] = []
    for _ in range(10):
        items: Any = iter(())
        try:
            items = loop()
            while True:
                with interruption:
                    ids = next(items, None)
                if ids is None:
                    return graphs
                graphs += ids
        except Stop:
            continue
        except ValueError as error:
            # The end was reached, and interrupted as it was told.
            if interruption.has_raised and "has ended: call set_epoch" in str(error):
                return graphs
            raise
    raise AssertionError("it does not end")


def expect_each_once(graphs: list[int], num_graphs: int, line: Any) -> None:
    counts = collections.Counter(graphs)
    lost = [number for number in range(num_graphs) if not counts[number]]
    twice = [number for number, count in counts.items() if count > 1]
    assert not lost and not twice, (line, "lost", lost, "twice", twice)
