"""`async for` over batches: they are waited for on another thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any, AsyncIterator, Callable, Iterator, TypeVar

_Item = TypeVar("_Item")


async def iterate(
    items: Iterator[_Item], interrupt: Callable[[], None] | None = None
) -> AsyncIterator[_Item]:
    """What `items` gives, each waited for on one thread of its own; the event loop goes on.

    Leaving early, or being cancelled, calls `interrupt`, which is to end what the thread waits for,
    from another thread; without it the thread ends with what it waits for.
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
