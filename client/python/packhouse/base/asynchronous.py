"""`async for` over batches: another thread waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
import weakref
from collections import deque
from typing import Any, AsyncIterator, Callable, Generic, Iterator, Protocol, TypeVar

from packhouse.base.helper_threads import HelperThread

_Item = TypeVar("_Item", covariant=True)
_Own = TypeVar("_Own")


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
