"""Laws of waiting in a thread: it ends with the object that has it, and takes nothing by itself."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any, Iterator

import pytest

from packhouse.base.waiting import Ahead, AsyncItems


class Held:
    """Items that come when they are let go."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.let_go = threading.Event()
        self.left = False
        self.thread: threading.Thread | None = None

    def peek(self) -> bool:
        self.thread = threading.current_thread()
        self.asked.set()
        self.let_go.wait()
        return not self.left

    def __next__(self) -> int:
        self.let_go.clear()
        return 1

    def leave(self) -> None:
        self.left = True
        self.let_go.set()


def wait_and_give_up(items: AsyncItems[int], source: Held) -> None:
    """A wait that is cancelled while the thread waits."""

    async def begin() -> None:
        wait = asyncio.ensure_future(items.__anext__())
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, source.asked.wait)
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait

    asyncio.run(begin())


def test_what_is_gone_ends_its_thread_while_it_waits() -> None:
    source = Held()
    items = AsyncItems(source, source.leave)
    wait_and_give_up(items, source)
    assert source.thread is not None and source.thread.is_alive()
    del items
    gc.collect()
    source.thread.join(60)
    assert not source.thread.is_alive() and source.left


def test_what_is_gone_before_its_thread_looks_ends_it() -> None:
    source = Held()
    looks = threading.Event()

    class Slow(Held):
        def peek(self) -> bool:
            looks.wait()
            return Held.peek(source)

    items = AsyncItems(Slow(), source.leave)

    async def begin() -> None:
        asyncio.ensure_future(items.__anext__())
        await asyncio.sleep(0)

    asyncio.run(begin())
    del items
    gc.collect()
    # Its wait had not begun, and ends all the same.
    assert source.left
    looks.set()


def test_what_is_gone_ends_its_thread_that_is_idle() -> None:
    source = Held()
    source.let_go.set()
    items = AsyncItems(source, source.leave)

    async def take() -> int:
        return await items.__anext__()

    assert asyncio.run(take()) == 1
    assert source.thread is not None and source.thread.is_alive()
    del items
    gc.collect()
    source.thread.join(60)
    assert not source.thread.is_alive()
    # Nobody waited, so nothing else is ended.
    assert not source.left


def test_items_come_one_after_another_until_the_end_or_a_failure() -> None:
    async def all_of(items: Any) -> list[Any]:
        return [item async for item in AsyncItems(items)]

    assert asyncio.run(all_of(Ahead(iter(range(5))))) == list(range(5))

    def failing() -> Iterator[int]:
        yield 1
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        asyncio.run(all_of(Ahead(failing())))

    class Odd(Held):
        def peek(self) -> bool:
            raise StopIteration

    with pytest.raises(RuntimeError, match="^waiting for an item raised StopIteration$"):
        asyncio.run(all_of(Odd()))


def test_an_item_that_was_waited_for_is_still_there() -> None:
    items = iter("ab")
    ahead = Ahead(items)
    assert ahead.peek() and ahead.peek()
    assert next(items) == "b"
    assert next(ahead) == "a" and not ahead.peek()
    with pytest.raises(StopIteration):
        next(ahead)
