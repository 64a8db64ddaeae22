"""Who waits for whom: threads that help a trainer, whose end nobody overlooks, and `async for` over
batches, for which such a thread waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
import weakref
from collections import deque
from typing import Any, AsyncIterator, Callable, Final, Generic, Iterator, Protocol, TypeVar

_Item = TypeVar("_Item", covariant=True)
_Own = TypeVar("_Own")

# Seconds between two looks at whether a thread that was started still lives.
_LOOK: Final = 1.0
# How often a thread that dies before it works is started anew, at one time.
_STARTS: Final = 3


class HelperThread:
    """A daemon thread that does `work`, until that returns. One at a time.

    Whatever `work` raises ends the thread: from then on `start` begins another one, and after that
    `on_failure` is called with the exception, on the thread that ends. So whoever waits for what
    the thread does

    1. puts down where `on_failure` finds it,
    2. calls `start`,
    3. waits, until it is there or `on_failure` has ended the wait; then from 1 again.

    Either `start` comes after the end, or `on_failure` comes after 1. So no exception leaves
    anybody waiting, at whatever line of `work` or of this class it is raised. Thread-safe. An
    exception that a signal handler raises in any method leaves it sound.
    """

    def __init__(
        self, name: str, work: Callable[[], None], on_failure: Callable[[BaseException], None]
    ) -> None:
        """`name` is the thread's. Starts nothing yet."""
        self._name = name
        self._work = work
        self._on_failure = on_failure
        # Held by such threads only, never while they wait.
        self._lock = threading.Lock()
        # Below: written under _lock. The thread that works, or worked last.
        self._thread: threading.Thread | None = None
        self._is_working = False

    def start(self) -> None:
        """Starts the thread, unless it works. Raises RuntimeError if no thread can be started.

        Waits until the thread is where its end would be told, but never for a lock of its caller's.
        """
        for _ in range(_STARTS):
            if self._works():
                return
            begun: queue.SimpleQueue[bool] = queue.SimpleQueue()
            thread = threading.Thread(target=self._run, args=(begun,), name=self._name, daemon=True)
            thread.start()
            if _has_begun(thread, begun):
                return
        raise RuntimeError(f"the thread {self._name} ends before it begins")

    def join(self, timeout: float | None = None) -> bool:
        """Whether it has ended within `timeout` seconds (None: however long it takes). True on the
        thread itself.
        """
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _works(self) -> bool:
        # Not alive: after a fork.
        return self._is_working and self._thread is not None and self._thread.is_alive()

    # Without a loop: of the `try` in a loop, Python has an instruction that no handler of the same
    # function covers.
    def _run(self, begun: queue.SimpleQueue[bool]) -> None:
        try:
            is_first = self._begin()
            begun.put(True)
            if is_first:
                self._work()
            self._end()
        except BaseException as error:  # Whatever it is, it is told.
            self._end()
            begun.put(False)
            self._on_failure(error)

    def _begin(self) -> bool:
        """Whether this thread is to work: of several that were started, only the first one."""
        with self._lock:
            if self._works():
                return False
            self._thread = threading.current_thread()
            self._is_working = True
            return True

    def _end(self) -> None:
        with self._lock:
            if self._thread is threading.current_thread():
                self._is_working = False


def _has_begun(thread: threading.Thread, begun: queue.SimpleQueue[bool]) -> bool:
    """Waits until the thread says so, or has ended."""
    while True:
        is_alive = thread.is_alive()
        try:
            return begun.get(is_alive, _LOOK)
        except queue.Empty:
            if not is_alive:
                return False


class LooksAhead(Protocol[_Item]):
    """An iterator whose next item can be waited for without taking it."""

    def peek(self) -> Any:
        """Waits for the next item, which iterating then gives at once, or for the end.

        A second thread that asks waits for the same.
        """

    def __next__(self) -> _Item:
        """As an iterator."""


class AsyncItems(AsyncIterator[_Own], Generic[_Own]):
    """The items of `source`. One thread of its own waits for each; the event loop goes on.

    A wait that is cancelled takes nothing: the item comes with the next one, in this iteration or
    another. When this object is gone, `leave` is called if its thread waits; it should end that
    wait. Without `leave` the thread ends when its wait does.
    """

    def __init__(self, source: LooksAhead[_Own], leave: Callable[[], None] | None = None) -> None:
        self._source = source
        self._waits = _Waits(source)
        weakref.finalize(self, self._waits.end, leave)

    def __aiter__(self) -> AsyncItems[_Own]:
        return self

    async def __anext__(self) -> _Own:
        told = asyncio.get_running_loop().create_future()
        self._waits.begin(told)
        await told
        try:
            return self._source.__next__()
        except StopIteration:
            raise StopAsyncIteration from None


class _Wait:
    """One that was asked for."""

    def __init__(self, told: asyncio.Future[None]) -> None:
        self._told = told
        self.is_over = False

    def end(self, failure: BaseException | None) -> None:
        """Lets the event loop know. May be called again."""
        self.is_over = True
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            self._told.get_loop().call_soon_threadsafe(_tell, self._told, failure)


class _Waits:
    """The thread that waits; it does not know the AsyncItems, which ends it."""

    def __init__(self, source: LooksAhead[Any]) -> None:
        self._source = source
        # Put in by the event loop, taken out once they have ended.
        self._waits: deque[_Wait] = deque()
        self._has_ended = False
        # Each item lets the thread look again.
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._waiter = HelperThread("packhouse-batches", self._work, self._fail)

    def begin(self, told: asyncio.Future[None]) -> None:
        """`told` is done when an item, or the end, is there."""
        self._waits.append(_Wait(told))
        self._waiter.start()
        self._wakes.put(None)

    def end(self, leave: Callable[[], None] | None) -> None:
        """Ends the thread."""
        self._has_ended = True
        self._wakes.put(None)
        if leave is not None and not all(wait.is_over for wait in tuple(self._waits)):
            leave()

    def _work(self) -> None:
        while not self._has_ended:
            if self._waits:
                self._serve(self._waits[0])
            else:
                self._wakes.get()

    def _serve(self, wait: _Wait) -> None:
        failure: BaseException | None = None
        try:
            self._source.peek()
        except BaseException as error:  # Whatever it is, who waits gets it.
            failure = error
        self._end(wait, failure)

    def _fail(self, failure: BaseException) -> None:
        for wait in tuple(self._waits):
            self._end(wait, failure)

    def _end(self, wait: _Wait, failure: BaseException | None) -> None:
        wait.end(failure)
        # Another thread may be told of the same one.
        with contextlib.suppress(ValueError):
            self._waits.remove(wait)


def _tell(told: asyncio.Future[None], failure: BaseException | None) -> None:
    if told.done():
        return
    if failure is None:
        told.set_result(None)
    elif isinstance(failure, StopIteration):
        told.set_exception(RuntimeError("waiting for an item raised StopIteration"))
    else:
        told.set_exception(failure)


class Ahead(Iterator[_Own]):
    """The items of any iterator, which AsyncItems can wait for."""

    def __init__(self, items: Iterator[_Own]) -> None:
        self._items = items
        self._lock = threading.Lock()
        # The next item, in a list of one, once it is there.
        self._next: list[_Own] = []

    def peek(self) -> bool:
        """Waits for the next item; False: there is none."""
        with self._lock:
            if not self._next:
                # In one call: an exception between two would lose the item.
                self._next.extend(itertools.islice(self._items, 1))
            return bool(self._next)

    def __next__(self) -> _Own:
        if not self.peek():
            raise StopIteration
        taken, self._next = self._next, []
        return taken[0]
