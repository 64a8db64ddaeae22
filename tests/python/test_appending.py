"""Producers of requests that are stored once each, without a server."""

from __future__ import annotations

from typing import Any, Iterator

import grpc
import pytest

from packhouse import PackhouseError
from packhouse.stored.histograms import ReliableObserve
from packhouse.v1 import histogram_pb2

_FIRST_REMEMBERED = 5


class _Server:
    """Answers each request; of any producer it remembers what it held from a sequence on."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.num_calls = 0

    def __call__(self, requests: Iterator[Any]) -> Any:
        self.num_calls += 1
        return _Call(self._answers(requests))

    def _answers(self, requests: Iterator[Any]) -> Iterator[Any]:
        for request in requests:
            self.requests.append(request)
            answer = histogram_pb2.ObserveResponse(num_counted=1)
            answer.producer_state.next_sequence = 9
            answer.producer_state.first_remembered_sequence = _FIRST_REMEMBERED
            yield answer

    @property
    def sent(self) -> list[int]:
        """The sequences that came with something to store, in order."""
        numbers = [each.producer_sequence.sequence for each in self.requests]
        return [number for number in numbers if number]


class _Call:
    def __init__(self, answers: Iterator[Any]) -> None:
        self._answers = answers

    def __iter__(self) -> Iterator[Any]:
        return self._answers

    def __next__(self) -> Any:
        return next(self._answers)

    def cancel(self) -> None:
        """As gRPC's."""


def _observe(
    server: _Server, count: int, producer: str, first: int | None, retry_timeout: float = 60.0
) -> ReliableObserve:
    producing = ReliableObserve(server, "h", producer, first, retry_timeout, "server:1")
    for _ in range(count):
        producing.send(histogram_pb2.ObserveRequest())
    producing.finish()
    return producing


@pytest.mark.parametrize("retry_timeout", [0.0, 10.0, 1e6, float("inf")])
def test_a_name_that_was_made_up_is_let_go_and_a_given_one_is_kept(retry_timeout: float) -> None:
    """Not before the call can no longer be tried again, but for the longest that servers take."""
    server = _Server()
    _observe(server, 3, "", None, retry_timeout)
    assert server.sent == [1, 2, 3]
    for request in server.requests:
        kept = request.producer_sequence.forget_after.seconds
        assert min(retry_timeout, 30 * 24 * 3600 - 1) < kept <= 30 * 24 * 3600
    given = _Server()
    _observe(given, 3, "import", None, retry_timeout)
    assert given.sent == [9, 10, 11]
    assert not any(each.producer_sequence.HasField("forget_after") for each in given.requests)


def test_all_requests_go_in_one_call() -> None:
    server = _Server()
    observing = _observe(server, 200, "", None)
    assert server.sent == list(range(1, 201))
    assert server.num_calls == 1
    assert observing.num_counted == 200


def test_nothing_sent_is_nothing_counted() -> None:
    server = _Server()
    observing = _observe(server, 0, "", None)
    assert server.sent == []
    assert (observing.num_counted, observing.num_graphs) == (0, 0)


@pytest.mark.parametrize("count", range(1, 8))
def test_what_is_too_old_to_compare_is_not_sent_and_is_refused_if_it_is_all(count: int) -> None:
    """Nobody is told that something is stored of which nobody knows it."""
    server = _Server()
    if count < _FIRST_REMEMBERED:
        with pytest.raises(PackhouseError, match=f"sequences 1 to {count} of producer 'p'") as old:
            _observe(server, count, "p", 1)
        assert old.value.code is grpc.StatusCode.ALREADY_EXISTS
        assert server.sent == []
    else:
        _observe(server, count, "p", 1)
        assert server.sent == list(range(_FIRST_REMEMBERED, count + 1))
