"""Histograms of sizes that a server keeps by name: `Client.histograms`."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Iterator, NamedTuple, Sequence

import grpc

from packhouse.base.errors import PackhouseError
from packhouse.calls.retrying import DEFAULT_RETRY_TIMEOUT, UnaryCalls
from packhouse.data.graphs import Sizes, tables_of_sizes
from packhouse.data.histogram import Histogram
from packhouse.stored.observing import DEFAULT_GATHER_BYTES, ReliableObserve, observe_requests
from packhouse.v1 import histogram_pb2, histogram_pb2_grpc


class ObserveTotals(NamedTuple):
    """What a call of `observe` or `merge` counted, and what the histogram then held."""

    num_counted: int
    num_graphs: int


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
