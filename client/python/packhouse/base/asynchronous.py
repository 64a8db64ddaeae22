"""`async for` over batches: another thread waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import weakref
from typing import Any, AsyncIterator, Callable, Generic, Iterator, Protocol, TypeVar

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


class _Waits:
    """The thread that waits; it does not know the AsyncItems, which ends it."""

    def __init__(self, source: LooksAhead[Any]) -> None:
        self._source = source
        self._wanted: queue.SimpleQueue[asyncio.Future[None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        # Waits that were asked for, by the event loop, and those that are over, by the thread.
        self._num_begun = 0
        self._num_ended = 0

    def begin(self, told: asyncio.Future[None]) -> None:
        """`told` is done when an item, or the end, is there."""
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._run, name="packhouse-batches", daemon=True)
            thread.start()
            self._thread = thread
        self._num_begun += 1
        self._wanted.put(told)

    def end(self, leave: Callable[[], None] | None) -> None:
        """Ends the thread."""
        self._wanted.put(None)
        if self._num_begun != self._num_ended and leave is not None:
            leave()

    def _run(self) -> None:
        while True:
            told = self._wanted.get()
            if told is None:
                return
            failure: BaseException | None = None
            try:
                self._source.peek()
            except BaseException as error:  # Whatever it is, who waits gets it.
                failure = error
            finally:
                self._num_ended += 1
            # The loop may be closed by now.
            with contextlib.suppress(RuntimeError):
                told.get_loop().call_soon_threadsafe(_tell, told, failure)
            del told, failure


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
                for item in self._items:
                    self._next.append(item)
                    break
            return bool(self._next)

    def __next__(self) -> _Own:
        if not self.peek():
            raise StopIteration
        taken, self._next = self._next, []
        return taken[0]
