"""Producers of requests that are stored once each, without a server."""

from __future__ import annotations

from typing import Any, Iterator

import grpc
import numpy as np
import pytest

from packhouse import GraphSchema, GraphTable, PackhouseError, TensorSpec
from packhouse.stored import appending
from packhouse.stored.appending import EncodedChunk, ReliableAppend
from packhouse.stored.dataset import Dataset, DatasetState
from packhouse.stored.histograms import ReliableObserve
from packhouse.v1 import dataset_pb2, graphs_pb2, histogram_pb2

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


DATASET = Dataset(
    name="d", schema=GraphSchema(("nodes",)), state=DatasetState.OPEN, id=7, version=1, num_graphs=30,
    num_records=0, num_bytes=0, max_bytes=0, max_rows={}, grouped=False,
)  # fmt: skip


class _Appends:
    """A server that answers appends: by each call so many, and then it ends or fails."""

    def __init__(self, *ends: tuple[int, Any]) -> None:
        self.ends = list(ends)
        self.calls: list[list[int]] = []
        self.requests: list[Any] = []
        self.unread = 0
        self.answer = dataset_pb2.AppendResponse(num_appended=2, num_graphs=40)

    def __call__(self, requests: Iterator[Any]) -> Any:
        count, failure = self.ends.pop(0) if self.ends else (1000, None)
        taken: list[int] = []
        self.calls.append(taken)
        return _AppendCall(self._answers(requests, count, failure, taken))

    def _answers(self, requests: Any, count: int, failure: Any, taken: list[int]) -> Iterator[Any]:
        for number, request in enumerate(requests):
            if number == count:
                break
            taken.append(request.producer_sequence.sequence)
            message = dataset_pb2.AppendRequest.FromString(request.SerializeToString())
            self.requests.append(message)
            answer = dataset_pb2.AppendResponse.FromString(self.answer.SerializeToString())
            yield answer
        if failure is not None:
            raise failure


class _AppendCall(_Call):
    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class _Failure(grpc.RpcError):  # type: ignore[misc]
    def __init__(self, code: grpc.StatusCode) -> None:
        super().__init__()
        self.code = lambda: code
        self.details = lambda: "it broke"
        self.trailing_metadata = lambda: ()


def _appending(server: _Appends, **arguments: Any) -> ReliableAppend:
    given = {
        "producer": "p",
        "first_sequence": 1,
        "retry_timeout": 60.0,
        "address": "a:1",
        **arguments,
    }
    return ReliableAppend(server, DATASET, **given)


TABLE = GraphTable(
    GraphSchema(
        ("nodes",), (TensorSpec("x", "float32", "nodes"), TensorSpec("y", "int64", "nodes"))
    ),
    [[2], [1]],
    {"x": [0, 1, 2], "y": [7, 8, 9]},
)


def test_what_was_not_answered_is_sent_again_and_in_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    told: list[Any] = []
    monkeypatch.setattr(appending.time, "sleep", slept.append)
    away = _Failure(grpc.StatusCode.UNAVAILABLE)
    server = _Appends((0, away), (1, None), (2, away), (0, None))
    producing = _appending(server, on_wait=lambda *what: told.append(what))
    for _ in range(12):
        producing.send(EncodedChunk(TABLE))
        assert len(producing._unanswered) <= 8
    totals = producing.finish()
    # First it is asked where the producer is, until that is answered.
    assert server.calls == [[], [0], [1, 2], [], list(range(3, 13))]
    assert (totals.num_chunks, totals.next_sequence, totals.producer) == (12, 13, "p")
    assert (totals.num_appended, totals.num_repeated, totals.num_graphs) == (24, 0, 40)
    assert [(error.code, error.message, delay) for error, delay in told] == [
        (grpc.StatusCode.UNAVAILABLE, words, delay)
        for words, delay in zip(
            ("it broke", "it broke", "the stream ended with requests unanswered"), slept
        )
    ]
    assert all(0 < each for each in slept) and len(slept) == 3
    # What no try mends is raised.
    server = _Appends((1, None), (1, _Failure(grpc.StatusCode.NOT_FOUND)))
    producing = _appending(server)
    producing.send(EncodedChunk(TABLE))
    producing.send(EncodedChunk(TABLE))
    with pytest.raises(PackhouseError, match="it broke") as failed:
        producing.finish()
    assert failed.value.code is grpc.StatusCode.NOT_FOUND and len(slept) == 3
    # How the stream ends does not matter once all is stored; and asking is not left in its midst.
    server = _Appends((1, None), (1, away))
    producing = _appending(server)
    producing.send(EncodedChunk(TABLE))
    call: Any = producing._call
    assert producing.finish().num_chunks == 1
    assert not call.is_cancelled and producing._call is None
    producing = _appending(_Appends())
    producing.send(EncodedChunk(TABLE))
    call = producing._call
    producing.close()
    producing.close()
    assert call.is_cancelled
    with pytest.raises(ValueError, match="^first_sequence 0 is below 1$"):
        _appending(_Appends(), first_sequence=0)


def test_an_append_says_whose_it_is_and_what_became_of_it() -> None:
    server = _Appends()
    server.answer.is_repetition = True
    server.answer.num_skipped = 2
    for example in (1, 3):
        server.answer.skipped.add(example=example, graph_id=50 + example, message="bad")
    producing = _appending(server, forget_seconds=77)
    asking = server.requests[0]
    assert (asking.dataset, asking.dataset_id, asking.producer_sequence.producer) == ("d", 7, "p")
    examples = graphs_pb2.Examples(examples=[b"a", b"b", b"c", b"d"])
    producing.send(examples)
    producing.send(examples, b"groups")
    producing.send(EncodedChunk(TABLE), b"more")
    totals = producing.finish()
    first, second, third = server.requests[1:]
    assert first.examples == second.examples == examples and not first.HasField("graphs")
    assert [each.group_ids for each in (first, second, third)] == [b"", b"groups", b"more"]
    assert {
        (each.dataset, each.dataset_id, each.producer_sequence.forget_after.seconds)
        for each in (first, second, third)
    } == {("d", 7, 77)}
    assert third.graphs == TABLE.to_chunk()
    assert (totals.num_skipped, totals.num_repeated) == (6, 3)
    assert [(each.example, each.graph_id, each.message) for each in totals.skipped] == [
        (1, 51, "bad"),
        (3, 53, "bad"),
        (5, 51, "bad"),
        (7, 53, "bad"),
        (9, 51, "bad"),
        (11, 53, "bad"),
    ]
    assert {each.producer_sequence.producer for each in server.requests} == {"p"}
    # What is too old to compare counts as repeated, and is not sent.
    server = _Appends()
    server.answer.producer_state.first_remembered_sequence = 5
    producing = _appending(server, first_sequence=3)
    for _ in range(4):
        producing.send(EncodedChunk(TABLE))
    totals = producing.finish()
    assert server.calls == [[0], [5, 6]]
    assert (totals.num_chunks, totals.num_repeated, totals.next_sequence) == (4, 2, 7)
    # Without any, the data set is as it was.
    assert _appending(_Appends()).finish().num_graphs == 30


def test_no_more_than_a_thousand_examples_that_were_left_out_are_told() -> None:
    server = _Appends()
    server.answer.num_skipped = 700
    for _ in range(700):
        server.answer.skipped.add()
    producing = _appending(server, producer=None)
    for _ in range(3):
        producing.send(graphs_pb2.Examples())
    totals = producing.finish()
    assert (totals.num_skipped, len(totals.skipped), len(totals.producer)) == (2100, 1000, 32)


@pytest.mark.parametrize("constant", [False, True])
def test_a_chunk_is_encoded_as_protobuf_has_it(constant: bool) -> None:
    long = GraphTable(TABLE.schema, [[300]] * 2, {"x": np.arange(600), "y": np.arange(600)})
    for table in (TABLE, long):
        chunk = EncodedChunk(table, constant=constant)
        data = b"".join(chunk.pieces)
        assert graphs_pb2.GraphChunk.FromString(data) == table.to_chunk()
        assert (chunk.num_graphs, chunk.num_bytes) == (len(table), len(data))
        assert len(chunk.pieces) == (5 if constant else 1)


def test_tables_go_in_parts_with_the_groups_of_their_graphs() -> None:
    def parts(tables: Any, groups: Any) -> list[tuple[int, list[int]]]:
        found = appending.chunks_with_groups(tables, groups, TABLE.schema, 1)
        return [(chunk.num_graphs, np.frombuffer(ids, "<u8").tolist()) for chunk, ids in found]

    same = GraphTable(GraphSchema.from_proto(TABLE.schema.to_proto()), [[1]], {"x": [5], "y": [5]})
    assert parts([TABLE, same], None) == [(1, [])] * 3
    assert parts([TABLE, same], [[4, 5], [6]]) == [(1, [4]), (1, [5]), (1, [6])]
    other = GraphTable(GraphSchema(("nodes",)), [[2]])
    for tables, groups, words in (
        ([TABLE, other], None, "table 1 has another schema than the data set"),
        ([TABLE, same], [[4, 5]], "group_ids of table 1 are missing"),
        ([TABLE], [[4]], r"group_ids of table 0 have shape \(1,\), needs \(2,\)"),
    ):
        with pytest.raises(ValueError, match=f"^{words}$"):
            parts(tables, groups)
