"""Batches that are on their way to a device before they are asked for."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Iterable, Iterator

from packhouse.epochs.epoch_readers import Leased
from packhouse.epochs.evaluation import Evaluation
from packhouse.epochs.loader import Loader
from packhouse.epochs.settings import Dynamic
from packhouse.planning.packing import PackStream


def prefetch(
    batches: Iterable[Any], move: Callable[[Any], Any], depth: int = 2
) -> Iterator[Any]:
    """The results of `move` for `batches`; it is called for `depth` of them ahead of their use.

        for batch in prefetch(loader, lambda batch: jax.device_put(dict(batch))):
            train(batch)

    `move` should start a copy and not wait for it, as jax.device_put does, and not write to the
    batch, which it may get once more; for torch there is `packhouse.torch.prefetch_to`. Batches are acknowledged when they have been used, not when they
    are fetched ahead. This acknowledges a loader's batch when the next one is asked for. With
    worker processes `trained` acknowledges; put it around this:

        for batch in dataset.trained(prefetch(data_loader, move)):

    Leaving the loop over a Loader or a PackStream early loses nothing: what was fetched ahead comes
    with its next loop, of any kind. `depth` must be below the loader's `max_in_flight`. Raises ValueError for a
    dynamic worker's loader, whose epoch ends only when all is acknowledged.
    """
    if depth < 1:
        raise ValueError(f"depth {depth} is below 1")
    if isinstance(batches, Loader):
        if isinstance(batches.settings.sharing, Dynamic):
            raise ValueError("a dynamic worker's loader cannot be fetched ahead from")
        return _LookedAt(batches, move, depth)
    if isinstance(batches, PackStream):
        return _LookedAt(batches, move, depth)
    keeps_lease = not isinstance(batches, Evaluation)
    return _ahead(batches, lambda item: _moved(item, move, keeps_lease), depth)


def _ahead(batches: Iterable[Any], move: Callable[[Any], Any], depth: int) -> Iterator[Any]:
    moved: deque[Any] = deque()
    for item in batches:
        moved.append(move(item))
        if len(moved) > depth:
            yield moved.popleft()
    while moved:
        yield moved.popleft()


class _LookedAt(Iterator[Any]):
    """Of batches that are only looked at until they are given out: they stay with the source."""

    def __init__(
        self, source: Loader | PackStream, move: Callable[[Any], Any], depth: int
    ) -> None:
        self._source = source
        self._move = move
        self._depth = depth
        # What `move` has made of the source's next batches, in their order.
        self._moved: list[tuple[Any, Any]] = []

    def __iter__(self) -> Iterator[Any]:
        iter(self._source)
        return self

    def __next__(self) -> Any:
        source = self._source
        if isinstance(source, Loader):
            # Also those that are acknowledged by hand.
            source.acknowledge_in_hand()
        moved: list[tuple[Any, Any]] = []
        for index in range(self._depth + 1):
            batch: Any = source.peek(index)
            if batch is None:
                break
            moved.append((batch, self._moved_of(batch)))
        self._moved = moved
        if not moved:
            # It has ended, and says so.
            return next(source)
        batch, item = moved[0]
        return source.hand_over(batch, item)

    def _moved_of(self, batch: Any) -> Any:
        for other, moved in self._moved:
            if other is batch:
                return moved
        return self._move(batch)


def _moved(item: Any, move: Callable[[Any], Any], keeps_lease: bool) -> Any:
    if isinstance(item, Leased):
        return Leased(move(item.item), item.lease)
    moved = move(item)
    if keeps_lease and hasattr(item, "lease") and not hasattr(moved, "lease"):
        return Leased(moved, item.lease)
    return moved
