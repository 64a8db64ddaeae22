"""An exception at any line of a helping thread stalls nobody who waits for what it does.

Two orders are tried for each line: it is raised at once, or when the other thread has gone as far as
it comes without this one. For all lines, as far as the package's own are concerned: what Python's
threads do before and after them is Python's.
"""

from __future__ import annotations

import asyncio
import contextlib
import linecache
import os
import queue
import sys
import tempfile
import threading
from typing import Any, Callable, Iterator

import pytest
from interrupting import Interruption, Stop, each_line

from lanes import SlotServer

from packhouse.base.waiting import Ahead, AsyncItems, HelperThread
from packhouse.calls.lane import Lane, LaneOpening
from packhouse.calls.retrying import SilenceWatch
from packhouse.data.reading import BatchReader
from packhouse.epochs.acknowledging import Acknowledger, Lease
from packhouse.frameworks.packed_loader import ReadAhead
from packhouse.v1 import loader_pb2

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    # Of a finalizer, which such a thread may run.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NUM_ITEMS = 6
# Seconds until a wait counts as stalled.
STALLED = 60.0

# Where a thread waits for another one: lines of the package, and functions of Python's library.
_WAITS = ("with self._lock", "return begun.get(", "told.get(")
_WAITING = ("select", "wait", "join", "_wait_for_tstate_lock")


def until_it_waits(thread: int) -> Callable[[], None]:
    """Returns when that thread is at a line that waits."""

    def wait() -> None:
        while True:
            frame: Any = sys._current_frames()[thread]
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            if line.startswith(_WAITS) or frame.f_code.co_name in _WAITING:
                return
            os.sched_yield()

    return wait


def each_interruption(thread: str, run: Callable[[], None]) -> Iterator[Interruption]:
    """One for each line that such threads come to while `run` runs, in each order."""
    passing = Interruption(thread=thread)
    with passing:
        run()
    assert passing.lines
    for at in sorted(set(each_line(passing.lines))):
        yield Interruption(at, thread)
        yield Interruption(at, thread, until_it_waits(threading.get_ident()))


def acknowledge() -> None:
    """As a trainer: it waits for a batch, which the server gives when the last one is done."""
    sent: set[int] = set()
    told: queue.SimpleQueue[None] = queue.SimpleQueue()

    def send(request: Any) -> Any:
        sent.update(request.batches)
        told.put(None)
        return loader_pb2.AcknowledgeResponse(cursor="cursor")

    def end_wait() -> None:
        told.put(None)

    acknowledger = Acknowledger(send, "job", 60.0, end_wait, gather=2)
    num_raised = 0
    for number in range(NUM_ITEMS):
        is_added = False
        while number not in sent:
            while not told.empty():
                told.get()
            try:
                if not is_added:
                    acknowledger.add(Lease(0, 1, 5, number))
                    is_added = True
                acknowledger.check()
            except Stop:
                num_raised += 1
                continue
            if number not in sent:
                told.get(timeout=STALLED)
    try:
        acknowledger.flush()
    except Stop:
        num_raised += 1
        acknowledger.flush()
    assert sent == set(range(NUM_ITEMS)) and num_raised <= 1
    assert acknowledger.cursor == "cursor"
    assert acknowledger.close(STALLED)


def watch_silence() -> None:
    """Each wait is ended, as the server is silent."""
    told: queue.SimpleQueue[None] = queue.SimpleQueue()
    watch = SilenceWatch(lambda: False, lambda: told.put(None), lambda: told.put(None), 0.001)
    for number in range(NUM_ITEMS):
        while not told.empty():
            told.get()
        watch.waiting = number + 1
        watch.start()
        told.get(timeout=STALLED)
        watch.waiting = 0
    watch.close()


def wait_on_a_loop() -> None:
    async def read(items: Any) -> list[int]:
        taken: list[int] = []
        while True:
            try:
                taken.append(await asyncio.wait_for(items.__anext__(), STALLED))
            except Stop:
                pass
            except StopAsyncIteration:
                return taken

    taken = asyncio.run(read(AsyncItems(Ahead(iter(range(NUM_ITEMS))))))
    assert taken == list(range(NUM_ITEMS))


def read_ahead() -> None:
    """What was made comes in order, and its end is told, or the failure."""
    items = ReadAhead(iter(range(NUM_ITEMS)), depth=2)
    taken: list[int] = []
    has_failed = False
    try:
        taken.extend(iter(lambda: next(items, -1), -1))
    except Stop:
        has_failed = True
    assert taken == list(range(len(taken) if has_failed else NUM_ITEMS))


def open_a_lane() -> None:
    """It is open, or it is known why not, and the server sees its end."""
    with tempfile.TemporaryDirectory() as folder:
        server = SlotServer(folder)

        def make() -> Lane:
            return Lane(server.offer, BatchReader(is_loaded=True), lambda data: None)

        opening = LaneOpening(make)
        opening.wait()
        if opening.failure is None:
            assert opening.lane is not None and not opening.lane.has_ended
            assert server.taken().hello
        else:
            assert opening.lane is None and isinstance(opening.failure, Stop)
        opening.leave()
        assert opening.lane is None
        if server.hello:
            server.taken().connection.settimeout(STALLED)
            # The welcome was not read, perhaps.
            with contextlib.suppress(ConnectionResetError):
                assert server.connection.recv(64) == b""
        server.close()


@pytest.mark.parametrize(
    "thread, run",
    [
        ("packhouse-acknowledge", acknowledge),
        ("packhouse-silence", watch_silence),
        ("packhouse-batches", wait_on_a_loop),
        ("packhouse-ahead", read_ahead),
        ("packhouse-lane", open_a_lane),
    ],
)
def test_an_exception_at_any_line_of_a_helping_thread_stalls_nobody(
    thread: str, run: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("packhouse.epochs.acknowledging._PAUSE", 0.001)
    num_raised = 0
    for interruption in each_interruption(thread, run):
        with interruption:
            run()
        num_raised += interruption.has_raised
    assert num_raised


def test_a_thread_that_cannot_begin_is_an_error() -> None:
    """It is tried more than once, and each failure is told."""
    told: list[BaseException] = []

    class Dying(HelperThread):
        def _begin(self) -> bool:
            raise MemoryError

    with pytest.raises(RuntimeError, match="the thread helper ends before it begins"):
        Dying("helper", lambda: None, told.append).start()
    assert len(told) > 1


def test_of_two_threads_only_the_first_works() -> None:
    """As when a signal handler raises while the first is started."""
    begun: queue.SimpleQueue[None] = queue.SimpleQueue()
    may_end = threading.Event()

    def work() -> None:
        begun.put(None)
        may_end.wait()

    helper = HelperThread("helper", work, lambda _: None)
    helper.start()
    begun.get(timeout=STALLED)
    second: queue.SimpleQueue[bool] = queue.SimpleQueue()
    helper._run(second)
    assert second.get_nowait() and begun.empty()
    helper.start()
    assert begun.empty() and not helper.join(0)
    may_end.set()
    assert helper.join(STALLED)
    helper.start()
    begun.get(timeout=STALLED)
    assert helper.join(STALLED)
