"""Histograms of sizes that a server keeps by name: `Client.histograms`."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Callable, Final, Iterable, Iterator, NamedTuple, Sequence

import grpc
import numpy.typing as npt

from packhouse.base.arguments import names_arguments
from packhouse.base.errors import PackhouseError
from packhouse.calls.retrying import DEFAULT_RETRY_TIMEOUT, UnaryCalls
from packhouse.data.graphs import DEFAULT_CHUNK_BYTES, Sizes, as_sizes, tables_of_sizes
from packhouse.data.histogram import Histogram
from packhouse.stored.appending import ReliableRequests
from packhouse.v1 import histogram_pb2, histogram_pb2_grpc, sizes_pb2

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


class ObserveTotals(NamedTuple):
    """What a call of `observe` or `merge` counted, and what the histogram then held."""

    num_counted: int
    num_graphs: int


@names_arguments
class Histograms:
    """A server's named histograms. Get it by `Client.histograms`. Thread-safe."""

    def __init__(self, channel: Any, call: UnaryCalls) -> None:
        """`channel` may be of several servers."""
        self._stub = histogram_pb2_grpc.HistogramServiceStub(channel)
        self._call = call

    def observe(
        self,
        histogram: str,
        sizes: Sizes,
        components: Sequence[str] = ("nodes", "edges"),
        half_life: datetime.timedelta | None = None,
        producer: str = "",
        first_sequence: int | None = None,
        gather_bytes: int = DEFAULT_GATHER_BYTES,
        retry_timeout: float = DEFAULT_RETRY_TIMEOUT,
    ) -> ObserveTotals:
        """Counts tables of sizes [n, l], or one, in a named histogram, created if need be.

        Tables are sent together, in requests of `gather_bytes` or more; with 0 each goes as soon as
        it comes. Large ones are sent in parts of 1 MiB.

        Each call counts its tables. A call that a program may repeat after a failure has a
        `producer`, the name of who counts, and a `first_sequence`: requests are numbered from it,
        and a repetition with the same tables and `gather_bytes` counts none of them again. Other
        sizes under the same numbers raise ALREADY_EXISTS. With a `producer` alone the call goes on
        at the server's next number. The server can compare the last 1280 numbers of a producer;
        older requests are not sent, and are taken for counted.

        If the server goes away, or something ends the stream, a call with a `producer` goes on for
        `retry_timeout` seconds: its requests are sent again, and counted once. Without one it
        fails, since nobody knows then what was counted.
        """
        if producer:
            return self._observe_repeatably(
                histogram,
                sizes,
                components,
                half_life,
                producer,
                first_sequence,
                gather_bytes,
                retry_timeout,
            )
        # An exception of `sizes` in gRPC's sending thread is raised here instead.
        failure: list[Exception] = []

        def requests() -> Iterator[Any]:
            try:
                yield from observe_requests(
                    histogram,
                    tables_of_sizes(sizes),
                    components,
                    half_life,
                    gather_bytes,
                    is_repeatable=False,
                )
            except Exception as error:
                failure.append(error)

        counted, graphs_now = 0, 0
        try:
            for response in self._stub.Observe(requests()):
                counted += response.num_counted
                graphs_now = response.num_graphs
        except grpc.RpcError as error:
            failure.append(_without_producer(PackhouseError.of(error)))
        if failure:
            raise failure[0]
        return ObserveTotals(counted, graphs_now)

    def _observe_repeatably(
        self,
        histogram: str,
        sizes: Sizes,
        components: Sequence[str],
        half_life: datetime.timedelta | None,
        producer: str,
        first_sequence: int | None,
        gather_bytes: int,
        retry_timeout: float,
    ) -> ObserveTotals:
        observing = ReliableObserve(
            self._stub.Observe,
            histogram,
            producer,
            first_sequence,
            retry_timeout,
            self._call.address,
        )
        try:
            requests = observe_requests(
                histogram,
                tables_of_sizes(sizes),
                components,
                half_life,
                gather_bytes,
                is_repeatable=True,
            )
            while True:
                try:
                    request = next(requests)
                except StopIteration:
                    observing.finish()
                    return ObserveTotals(observing.num_counted, observing.num_graphs)
                except Exception:  # Whatever it is, it is the caller's.
                    observing.finish()
                    raise
                observing.send(request)
        finally:
            observing.close()

    def get(self, histogram: str) -> Histogram:
        """The named histogram now. Errors: NOT_FOUND."""
        request = histogram_pb2.GetHistogramRequest(histogram=histogram)
        response = self._call(self._stub.GetHistogram, request)
        found = Histogram.from_proto(response.histogram)
        return dataclasses.replace(found, revision=response.revision)

    def list(self) -> Sequence[str]:
        """The names of all histograms that the caller may see, ascending. Errors: UNAVAILABLE;
        RESOURCE_EXHAUSTED if they are more than the server may send.
        """
        request = histogram_pb2.ListHistogramsRequest()
        return list(self._call(self._stub.ListHistograms, request).histograms)

    def merge(
        self,
        histogram: str,
        addend: Histogram,
        *,
        subtract: bool = False,
        producer: str = "",
        sequence: int = 0,
    ) -> ObserveTotals:
        """Adds a histogram to a named one, or subtracts it: all of it or nothing.

        With a `producer` and a rising `sequence`, a repeated call counts once, and another one
        under the same sequence raises ALREADY_EXISTS. Errors: NOT_FOUND if
        `subtract` names no histogram; OUT_OF_RANGE if it would subtract more graphs of some size
        than there are; FAILED_PRECONDITION if the components differ.
        """
        request = histogram_pb2.MergeHistogramRequest(
            histogram=histogram, addend=addend.to_proto(), subtract=subtract
        )
        if producer:
            request.producer_sequence.producer = producer
            request.producer_sequence.sequence = sequence
        response = self._call(self._stub.MergeHistogram, request)
        return ObserveTotals(response.num_counted, response.num_graphs)

    def delete(self, histogram: str) -> None:
        """Forgets a named histogram. Errors: NOT_FOUND."""
        request = histogram_pb2.DeleteHistogramRequest(histogram=histogram)
        self._call.delete(self._stub.DeleteHistogram, request)


def _without_producer(error: PackhouseError) -> PackhouseError:
    """The failure of a stream of sizes that cannot be made again, with the way out."""
    if not error.passes:
        return error
    return PackhouseError(
        error.code,
        f"{error.message}; what was counted is not known: a call with `producer` goes on over this",
    )
