"""Tables of sizes as the requests that count them. See `Client.histograms.observe`."""

from __future__ import annotations

import datetime
from typing import Any, Callable, Final, Iterable, Iterator, Sequence

import numpy.typing as npt

from packhouse.data.graphs import DEFAULT_CHUNK_BYTES, as_sizes
from packhouse.stored.appending import ReliableRequests
from packhouse.v1 import histogram_pb2, sizes_pb2

# grpcio takes some 100 us for a request of any size; beside so many sizes that is little.
DEFAULT_GATHER_BYTES: Final = 1 << 19

# An answer costs as much as a request, and is not needed before the end.
_REQUESTS_PER_RESPONSE: Final = 64


class ReliableObserve(ReliableRequests):
    """One producer's sizes for one histogram, counted once each. Use from one thread."""

    def __init__(
        self,
        start_call: Callable[[Iterator[Any]], Any],
        histogram: str,
        producer: str,
        first_sequence: int | None,
        retry_timeout: float,
        address: str,
    ) -> None:
        asking = histogram_pb2.ObserveRequest(histogram=histogram)
        call = f"Observe of '{histogram}' at {address}"
        super().__init__(start_call, asking, producer, first_sequence, retry_timeout, call)
        self.num_counted = 0
        self.num_graphs = 0

    def send(self, request: Any) -> None:
        """Sends sizes; waits if too many are unanswered."""
        self._send(request)

    def finish(self) -> None:
        """Waits until all are counted."""
        self._finish()

    def _take(self, request: Any, answer: Any) -> None:
        self.num_counted += answer.num_counted
        self.num_graphs = answer.num_graphs


def observe_requests(
    histogram: str,
    tables: Iterable[npt.ArrayLike],
    components: Sequence[str],
    half_life: datetime.timedelta | None,
    gather_bytes: int,
    *,
    is_repeatable: bool,
) -> Iterator[Any]:
    """`packhouse.v1.ObserveRequest`s: the same ones for the same tables, so that repetitions are
    recognized. `is_repeatable`: each may be the first of a stream, and has an answer of its own.

    Raises ValueError for a table without a column for each component. An exception ends the
    requests. Sizes that still waited for others are not sent then: a repetition would send more
    sizes under the same number.
    """
    row_bytes = 4 * len(components)
    is_first = True
    for counts in _chunks(tables, len(components), gather_bytes):
        table = sizes_pb2.SizeTable(num_graphs=len(counts) // row_bytes, counts=counts)
        request = histogram_pb2.ObserveRequest(sizes=table)
        if is_first or is_repeatable:
            is_first = False
            request.histogram = histogram
            request.components.extend(components)
            request.requests_per_response = 1 if is_repeatable else _REQUESTS_PER_RESPONSE
            if half_life is not None:
                request.half_life.FromTimedelta(half_life)
        yield request
    if is_first:
        # There was no size. The histogram is made nevertheless.
        request = histogram_pb2.ObserveRequest(
            histogram=histogram,
            components=components,
            sizes=sizes_pb2.SizeTable(),
            requests_per_response=1,
        )
        if half_life is not None:
            request.half_life.FromTimedelta(half_life)
        yield request


def _chunks(
    tables: Iterable[npt.ArrayLike], components: int, gather_bytes: int
) -> Iterator[bytes]:
    """Little-endian sizes, at least one, of whole tables or of a part of a large one."""
    most = DEFAULT_CHUNK_BYTES // (4 * components) * (4 * components)

    def joined() -> Iterator[bytes]:
        counts = b"".join(waiting)
        for begin in range(0, len(counts), most):
            yield counts[begin : begin + most]

    waiting: list[Any] = []
    waiting_bytes = 0
    for table in tables:
        sizes = as_sizes(table, components)
        waiting.append(sizes)
        waiting_bytes += sizes.nbytes
        if waiting_bytes >= gather_bytes:
            yield from joined()
            waiting, waiting_bytes = [], 0
    yield from joined()
