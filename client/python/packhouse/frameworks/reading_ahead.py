"""Items that a thread makes before they are asked for."""

from __future__ import annotations

import queue
import threading
from typing import Any, Final, Iterator

_END: Final = object()


class ReadAhead(Iterator[Any]):
    """The items of an iterator, up to `depth` of which a thread of its own has made in advance.

    An exception of the iterator is raised at its place. `close` ends the thread as soon as it has
    made the item that it is at; so does dropping this object.
    """

    def __init__(self, items: Iterator[Any], depth: int) -> None:
        """Starts."""
        self._queue: queue.Queue[Any] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._has_ended = False
        thread = threading.Thread(
            target=_fill,
            args=(items, self._queue, self._stopped),
            name="packhouse-ahead",
            daemon=True,
        )
        thread.start()

    def __next__(self) -> Any:
        if self._has_ended:
            raise StopIteration
        kind, item = self._queue.get()
        if kind is None:
            return item
        self._has_ended = True
        if kind is _END:
            raise StopIteration
        raise kind

    def close(self) -> None:
        """Idempotent."""
        self._has_ended = True
        self._stopped.set()
        # The thread may wait for room.
        with self._queue.mutex:
            self._queue.queue.clear()
            self._queue.not_full.notify_all()

    def __del__(self) -> None:
        self.close()


def _fill(items: Iterator[Any], into: queue.Queue[Any], stopped: threading.Event) -> None:
    try:
        for item in items:
            if stopped.is_set():
                return
            into.put((None, item))
            if stopped.is_set():
                return
        into.put((_END, None))
    except BaseException as error:  # Whatever it is, it is raised where it is asked for.
        into.put((error, None))
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()
