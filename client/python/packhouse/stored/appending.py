"""Chunks that are stored once each, even if the connection breaks. See `Client.datasets.append`."""

from __future__ import annotations

import queue
import time
import uuid
from collections import deque
from typing import Any, Callable, Final, Iterable, Iterator

import grpc
import numpy as np
import numpy.typing as npt

from packhouse.base.errors import PackhouseError
from packhouse.calls.retrying import Backoff
from packhouse.data.examples import SkippedExample
from packhouse.data.graphs import GraphTable, check_table, convert_exactly
from packhouse.data.schema import GraphSchema
from packhouse.stored.dataset import AppendTotals, Dataset
from packhouse.v1 import dataset_pb2, graphs_pb2

# Requests that are sent and not answered: enough to keep the server busy while answers travel.
_WINDOW: Final = 8
# Examples that were left out and are told.
_MAX_SKIPPED: Final = 1000


# The longest time that a server remembers a producer whose name was made up, in seconds.
_MOST_SECONDS_REMEMBERED: Final = 30 * 24 * 3600
# Beyond the time for which a call is tried again.
_SECONDS_REMEMBERED_MORE: Final = 60


# Called with a failure, and the seconds until the next try.
OnWait = Callable[[PackhouseError, float], None]


class ReliableRequests:
    """One producer's requests to one thing, in order. Use from one thread.

    If the connection breaks, the requests that were not answered are sent again. The server knows
    by their sequence numbers and contents which of them it has. Without a `producer` a name is made
    up, which the server forgets when the call cannot be tried again any more. A named producer goes
    on at its next sequence, or at `first_sequence`: then requests that are older than what the
    server can compare are taken for stored, and not sent.
    """

    def __init__(
        self,
        start_call: Callable[[Iterator[Any]], Any],
        asking: Any,
        producer: str | None,
        first_sequence: int | None,
        retry_timeout: float,
        call: str,
        forget_seconds: int | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        """`asking` names the thing and has no content: it asks for the producer's state. `call`
        says what is called and where, for people. The server forgets a named producer after
        `forget_seconds`, if there are any. `on_wait` is told before a call is tried again.

        Raises PackhouseError if the server does not answer it.
        """
        if first_sequence is not None and first_sequence < 1:
            raise ValueError(f"first_sequence {first_sequence} is below 1")
        self._start_call = start_call
        self._producer = producer or uuid.uuid4().hex
        self._forget_seconds = (
            forget_seconds
            if producer
            else int(
                min(_MOST_SECONDS_REMEMBERED, 2 * retry_timeout + _SECONDS_REMEMBERED_MORE)
            )
        )
        self._backoff = Backoff(retry_timeout, call=call)
        self._on_wait = on_wait
        self._first_remembered = 1
        # The answer to `asking`, as that to a repetition.
        self._repetition: Any = None
        self._num_unsent = 0
        if producer:
            asking.producer_sequence.producer = producer
            self._repetition = self._ask(asking)
            state = self._repetition.producer_state
            if first_sequence is None:
                first_sequence = state.next_sequence
            self._first_remembered = state.first_remembered_sequence
            if "is_repetition" in self._repetition.DESCRIPTOR.fields_by_name:
                self._repetition.is_repetition = True
        self._first_sequence = first_sequence or 1
        self._next_sequence = self._first_sequence
        self._unanswered: deque[Any] = deque()
        # Of the running call; bounded, because _unanswered is. None ends the requests.
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._call: Any = None

    def _take(self, request: Any, answer: Any) -> None:
        """Takes in the answer to a request; called once for each, in order."""
        raise NotImplementedError

    def _send(self, request: Any) -> None:
        """Numbers and sends a request; waits if too many are unanswered.

        Raises PackhouseError if the server refused this or an earlier one.
        """
        if self._next_sequence < self._first_remembered:
            self._next_sequence += 1
            self._num_unsent += 1
            self._take(request, self._repetition)
            return
        while len(self._unanswered) >= _WINDOW:
            self._read_answer()
        request.producer_sequence.producer = self._producer
        request.producer_sequence.sequence = self._next_sequence
        if self._forget_seconds is not None:
            request.producer_sequence.forget_after.seconds = self._forget_seconds
        self._next_sequence += 1
        self._unanswered.append(request)
        if self._call is None:
            self._start()
        else:
            self._requests.put(request)

    def _finish(self) -> None:
        """Waits until everything is stored, and ends the call."""
        while self._unanswered:
            self._read_answer()
        self._requests.put(None)
        try:
            for _ in self._call or ():
                pass
        except grpc.RpcError:
            pass  # All is stored, however the stream ends.
        self._call = None
        if self._num_unsent and self._next_sequence <= self._first_remembered:
            raise PackhouseError(
                grpc.StatusCode.ALREADY_EXISTS,
                f"sequences {self._first_sequence} to {self._next_sequence - 1} of producer "
                f"'{self._producer}' are older than those of which the server remembers what they "
                f"held, from {self._first_remembered} on: nothing was sent",
            )

    def _ask(self, asking: Any) -> Any:
        while True:
            call = self._start_call(iter((asking,)))
            answer = None
            try:
                # To its end: to the server, a call that is left is one that has failed.
                for answer in call:
                    pass
                if answer is not None:
                    self._backoff.succeeded()
                    return answer
                failure = PackhouseError(
                    grpc.StatusCode.UNAVAILABLE, "the stream ended with a request unanswered"
                )
            except grpc.RpcError as error:
                failure = PackhouseError.of(error)
            finally:
                call.cancel()
            self._wait(failure)

    def close(self) -> None:
        """Cancels the call if it still runs. Idempotent."""
        self._requests.put(None)
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _start(self) -> Any:
        """Starts a new call, which sends all unanswered requests."""
        self._requests = queue.SimpleQueue()
        for request in self._unanswered:
            self._requests.put(request)
        self._call = self._start_call(iter(self._requests.get, None))
        return self._call

    def _wait(self, failure: PackhouseError) -> None:
        """Until the call may be tried again. Raises the failure if it may not."""
        delay = self._backoff.delay_after(failure)
        if self._on_wait is not None:
            self._on_wait(failure, delay)
        time.sleep(delay)

    def _read_answer(self) -> None:
        """Takes in the answer to the oldest unanswered request."""
        while True:
            try:
                answer = next(self._call or self._start())
                break
            except StopIteration:
                failure = PackhouseError(
                    grpc.StatusCode.UNAVAILABLE, "the stream ended with requests unanswered"
                )
            except grpc.RpcError as error:
                failure = PackhouseError.of(error)
            self._requests.put(None)
            self._call = None
            self._wait(failure)
        self._backoff.succeeded()
        self._take(self._unanswered.popleft(), answer)


class EncodedChunk:
    """A table as the bytes of a `packhouse.v1.GraphChunk`, in pieces that are joined when they are
    sent. Columns that are `constant`, as those of a mapped file, are not copied before.
    """

    def __init__(self, table: GraphTable, *, constant: bool = False) -> None:
        self.num_graphs = len(table)
        pieces: list[Any] = [_field(graphs_pb2.GraphChunk, "sizes", table.to_size_table())]
        for name, column in table.tensors.items():
            data = np.ascontiguousarray(column).reshape(-1).view(np.uint8)
            head = graphs_pb2.TensorData(name=name).SerializeToString()
            head += _tag(graphs_pb2.TensorData, "data") + _varint(len(data))
            tag = _tag(graphs_pb2.GraphChunk, "tensors")
            pieces += [tag + _varint(len(head) + len(data)) + head, data.data]
        self.num_bytes = sum(map(len, pieces))
        self.pieces = pieces if constant else [b"".join(pieces)]


def _tag(message: Any, field: str) -> bytes:
    """Of a field whose value has its length before it."""
    return _varint(message.DESCRIPTOR.fields_by_name[field].number << 3 | 2)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _field(message: Any, field: str, value: Any) -> bytes:
    encoded: bytes = value.SerializeToString()
    return _tag(message, field) + _varint(len(encoded)) + encoded


class AppendRequest:
    """A `packhouse.v1.AppendRequest` with a chunk that is encoded already."""

    def __init__(self, message: Any, chunk: EncodedChunk) -> None:
        self._message = message
        self.chunk = chunk

    @property
    def producer_sequence(self) -> Any:
        """That of the message."""
        return self._message.producer_sequence

    @property
    def examples(self) -> Any:
        """None: there are graphs."""
        return self._message.examples

    def SerializeToString(self) -> bytes:  # As messages have it.
        """The whole request."""
        head = self._message.SerializeToString()
        head += _tag(dataset_pb2.AppendRequest, "graphs") + _varint(self.chunk.num_bytes)
        return b"".join((head, *self.chunk.pieces))


def append_call(channel: Any) -> Callable[[Iterator[Any]], Any]:
    """The method Append, for messages and for `AppendRequest`s."""
    call: Callable[[Iterator[Any]], Any] = channel.stream_stream(
        "/packhouse.v1.DatasetService/Append",
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=dataset_pb2.AppendResponse.FromString,
    )
    return call


class ReliableAppend(ReliableRequests):
    """One producer's chunks to one data set, in order. Use from one thread."""

    def __init__(
        self,
        start_call: Callable[[Iterator[Any]], Any],
        dataset: Dataset,
        producer: str | None,
        first_sequence: int | None,
        retry_timeout: float,
        address: str,
        forget_seconds: int | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        asking = dataset_pb2.AppendRequest(dataset=dataset.name, dataset_id=dataset.id)
        call = f"Append to '{dataset.name}' at {address}"
        super().__init__(
            start_call, asking, producer, first_sequence, retry_timeout, call, forget_seconds, on_wait
        )
        self._dataset = dataset
        self._num_appended = 0
        self._num_repeated = 0
        self._num_graphs = 0
        self._num_answered_examples = 0
        self._num_skipped = 0
        self._skipped: list[SkippedExample] = []

    def send(self, chunk: Any, group_ids: bytes = b"") -> None:
        """Sends an EncodedChunk, or `packhouse.v1.Examples`; waits if too many are unanswered.

        Raises PackhouseError if the server refused this or an earlier one.
        """
        request = dataset_pb2.AppendRequest(
            dataset=self._dataset.name,
            dataset_id=self._dataset.id,
            group_ids=group_ids,
        )
        if isinstance(chunk, EncodedChunk):
            self._send(AppendRequest(request, chunk))
        else:
            request.examples.CopyFrom(chunk)
            self._send(request)

    def finish(self) -> AppendTotals:
        """Waits until everything is stored."""
        self._finish()
        num_chunks = self._next_sequence - self._first_sequence
        return AppendTotals(
            num_chunks=num_chunks,
            num_appended=self._num_appended,
            num_repeated=self._num_repeated,
            num_graphs=self._num_graphs if num_chunks else self._dataset.num_graphs,
            producer=self._producer,
            next_sequence=self._next_sequence,
            num_skipped=self._num_skipped,
            skipped=tuple(self._skipped),
        )

    def _take(self, request: Any, answer: Any) -> None:
        self._num_skipped += answer.num_skipped
        self._skipped += [
            SkippedExample(self._num_answered_examples + each.example, each.graph_id, each.message)
            for each in answer.skipped[: _MAX_SKIPPED - len(self._skipped)]
        ]
        self._num_answered_examples += len(request.examples.examples)
        self._num_appended += answer.num_appended
        self._num_repeated += answer.is_repetition
        self._num_graphs = answer.num_graphs


def chunks_with_groups(
    tables: Iterable[GraphTable],
    group_ids: Iterable[npt.ArrayLike] | None,
    schema: GraphSchema,
    chunk_bytes: int,
) -> Iterator[tuple[Any, bytes]]:
    """The EncodedChunks of tables of one schema, each with its graphs' group ids.

    Raises ValueError for a table of another schema, or with another number of group ids than
    graphs.
    """
    groups: Iterator[Any] | None = None if group_ids is None else iter(group_ids)
    for number, table in enumerate(tables):
        check_table(table)
        # Compared as sent, where two padding values that are not a number are the same.
        if table.schema is not schema and table.schema.to_proto() != schema.to_proto():
            raise ValueError(f"table {number} has another schema than the data set")
        ids = None if groups is None else _next_ids(groups, number, len(table))
        start = 0
        for part in table.parts(chunk_bytes):
            chunk = EncodedChunk(part)
            stop = start + len(part)
            yield chunk, b"" if ids is None else ids[start:stop].tobytes()
            start = stop


def _next_ids(
    groups: Iterator[Any], number: int, num_graphs: int
) -> npt.NDArray[np.uint64]:
    given = next(groups, None)
    if given is None:
        raise ValueError(f"group_ids of table {number} are missing")
    ids = convert_exactly(given, np.dtype("<u8"), f"group_ids of table {number}")
    if ids.shape != (num_graphs,):
        raise ValueError(
            f"group_ids of table {number} have shape {ids.shape}, needs ({num_graphs},)"
        )
    return ids
