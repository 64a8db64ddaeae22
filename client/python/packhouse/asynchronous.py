"""`async for` over batches: another thread waits for them."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any, AsyncIterator, Callable, Iterator, TypeVar

_Item = TypeVar("_Item")


async def iterate(
    items: Iterator[_Item], interrupt: Callable[[], None] | None = None
) -> AsyncIterator[_Item]:
    """The items of `items`. One thread of its own waits for each; the event loop goes on.

    Leaving early, or being cancelled, calls `interrupt` from another thread; it must end what the
    thread waits for. Without `interrupt` the thread ends when its wait does.
    """
    end: Any = object()
    executor = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="packhouse-batches")
    loop = asyncio.get_running_loop()
    ended = False
    try:
        while True:
            item = await loop.run_in_executor(executor, next, items, end)
            if item is end:
                ended = True
                return
            yield item
    finally:
        if not ended and interrupt is not None:
            interrupt()
        executor.shutdown(wait=False)
