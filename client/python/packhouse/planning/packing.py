"""One `Pack` stream: graphs in, full batches out."""

from __future__ import annotations

import itertools
import socket
import threading
import weakref
from collections import deque
from typing import Any, AsyncIterator, Callable, ClassVar, Final, Iterable, Iterator, TypeVar

import grpc

from packhouse.base.waiting import AsyncItems
from packhouse.base.errors import PackhouseError
from packhouse.calls.lane import (
    ASKING,
    GraphWay,
    Lane,
    LaneChoice,
    LaneOpening,
    Transport,
    chosen_lane,
    is_worth_asking,
    offered_lanes,
)
from packhouse.data.batch import Batch, ReceivedBatch, received_by_protobuf
from packhouse.data.graphs import GraphTable, check_table
from packhouse.data.reading import new_reader, parse_response
from packhouse.data.schema import GraphSchema
from packhouse.planning.pack_options import (
    OnRejected,
    OversizePolicy,
    PackDrifted,
    PackFlushed,
    PackOpened,
    PackOptions,
    PackTuned,
    Rejection,
    warn_of_oversize,
)
from packhouse.v1 import packing_pb2

_Item = TypeVar("_Item")

_PACK_METHOD: Final = "/packhouse.v1.PackingService/Pack"

# The most messages that wait for the connection when `PackStream.send` runs ahead of it.
_MAX_WAITING_REQUESTS: Final = 2


class PackStream(Iterator[Batch]):
    """Batches as they come; get one from `Client.pack`, `pack_sizes` or `open_pack`.

    Iterate over it until it ends, or leave its `with` block (or drop it) to cancel the call.
    Iterating raises PackhouseError if the call fails, after all batches that preceded the error.

    Memory is bounded both ways: the server holds two unsent batches (or 512 KiB) and stops reading,
    and no more than a few messages wait on this side. Read from one thread; `send`, `flush` and
    `finish` may be called from another.

    A wait of `async for` that is cancelled takes nothing: go on with any loop. An exception that a
    signal handler raises, as KeyboardInterrupt, takes nothing either, unless it interrupts gRPC
    itself. What came then is lost with the call: iterating raises PackhouseError (ABORTED) from then
    on, and never leaves graphs out without a word.
    """

    # Whether the call may be asked for a lane (PackOptions.lane).
    _takes_lane: ClassVar[bool] = True

    def __init__(
        self,
        start_call: Callable[..., Any],
        requests: TableRequests | RequestQueue,
        schema: GraphSchema | None,
        options: PackOptions,
        on_rejected: OnRejected | None = None,
    ) -> None:
        """`start_call` takes `packhouse.v1.PackRequest`s, and gives responses as bytes. It takes the
        choice of a lane, too.

        Without a `schema`, the one that the server answers with. Raises ValueError for an `on_rejected` that would never be called.
        """
        if on_rejected is not None and options.oversize is OversizePolicy.ERROR:
            raise ValueError("on_rejected is for oversize=OversizePolicy.REJECT; it is ERROR")
        # Of the tables that are sent; and of the batches, which come after `opened`.
        self._sent_schema = schema
        self._schema = schema if schema is not None else GraphSchema(())
        self._takes_schema = schema is None or options.oversize is OversizePolicy.PARTITION
        self._options = options
        self._requests = requests
        self._on_rejected = on_rejected
        self._opened: PackOpened | None = None
        self._tuned: PackTuned | None = None
        # The changes of sizes that were told, with `PackOptions.drift`.
        self.drifts: list[PackDrifted] = []
        self._next_token = 1
        self._closed = False
        # Held by the thread that reads: of waits that `async for` has left, another one.
        self._reading = threading.RLock()
        # Below: guarded by _reading. What was received and not looked at, one response at most: with
        # its number among those of the call, or as the lane's message, which may say that the next
        # one comes by the call.
        self._received: deque[Any] = deque()
        self._num_responses = 0
        self._opening: LaneOpening | None = None
        self._lane: Lane | None = None
        # Batches that have come and are not given out; the first one perhaps is (`_handed`).
        self._early: deque[Batch] = deque()
        self._handed: Batch | None = None
        self._given: Batch | None = None
        # Of an exception that interrupted gRPC.
        self._interruption = ""
        self._reader = new_reader(
            is_loaded=False, writable=options.writable, widen=options.widen
        )
        # Rejected so far, unless it is an error; stays empty if `on_rejected` takes them.
        self.rejections: list[Rejection] = []
        self._has_warned = False
        # The answer to the last flush.
        self.flushed: PackFlushed | None = None
        self._lane_choice = chosen_lane(options.lane) if self._takes_lane else "off"
        if self._lane_choice == "off":
            self._call = start_call(requests)
        else:
            self._call = start_call(requests, self._lane_choice)
        self._responses = enumerate(self._call, 1)
        if isinstance(requests, RequestQueue) and not self._call.add_callback(requests.close):
            requests.close()

    @property
    def drift(self) -> PackDrifted | None:
        """The latest of `drifts`."""
        return self.drifts[-1] if self.drifts else None

    @property
    def transport(self) -> Transport:
        """How batches come: "lane" or "bytes", which it is before `opened` has come. See
        `PackOptions.lane`.
        """
        return "bytes" if self._lane is None else "lane"

    @property
    def opened(self) -> PackOpened:
        """What the server resolved; waits for it. Raises PackhouseError if opening failed."""
        while self._opened is None:
            self._read()
        return self._opened

    @property
    def tuned(self) -> PackTuned | None:
        """The shapes that the server chose for `PackOptions.device`; waits for them.

        They come when there are enough graphs (`PackOptions.calibration_graphs`), and before the
        first batch. A stream that ends without a graph has none. Raises PackhouseError if none
        could be chosen, ValueError in a stream without a `device`.
        """
        if self._options.device is None:
            raise ValueError("the stream has limits and no device: see `opened`")
        while self._tuned is None:
            try:
                self._read()
            except StopIteration:
                return None
        return self._tuned

    def __aiter__(self) -> AsyncIterator[Batch]:
        """As iterating, but waits on another thread."""
        return AsyncItems(self)

    def __next__(self) -> Batch:
        batch = self.peek()
        if batch is None:
            raise StopIteration
        return self.hand_over(batch, batch)

    def peek(self, index: int = 0) -> Batch | None:
        """What iterating gives after `index` other batches; waits for it. None after the last one.

        Does not give it out: whatever happens, it is still ahead. Errors: as iterating.
        """
        self._settle()
        try:
            if len(self._early) <= index:
                with self._reading:
                    while len(self._early) <= index:
                        self._read()
            return self._early[index]
        except StopIteration:
            return None
        except PackhouseError as error:
            if self._closed and error.code is grpc.StatusCode.CANCELLED:
                return None
            raise

    def _settle(self) -> None:
        """What was given out is no longer among what is not."""
        if self._handed is not None and self._early and self._early[0] is self._handed:
            self._given = self._handed
            self._early.popleft()
        self._handed = None

    def hand_over(self, batch: Batch, item: _Item) -> _Item:
        """`item`, which was made of what `peek` gave: from now on it is given out."""
        try:
            # As in `Loader.hand_over`.
            self._handed = batch
            return item
        except BaseException:
            self._handed = None
            raise

    def send(self, table: GraphTable) -> None:
        """Sends graphs on a stream made by `open_pack`.

        Waits while the server pushes back: to send many more graphs than a batch holds, read
        batches on another thread meanwhile. Raises PackhouseError once the call has failed, or
        ValueError after `finish` or `close`.
        """
        check_table(table)
        if table.schema != (self._schema if self._sent_schema is None else self._sent_schema):
            raise ValueError("the table has another schema than the stream")
        way = self._requests.graph_way
        try:
            for request in requests_of(table, self._options.chunk_bytes, way):
                self._put(request)
        except BaseException:
            # A slot may be filled of which the server is not told.
            way.leave_lane()
            raise

    def flush(self) -> int:
        """Asks for all pending graphs to be packed now; returns the token of the answer."""
        token = self._next_token
        self._next_token += 1
        self._put(packing_pb2.PackRequest(flush=packing_pb2.PackFlush(token=token)))
        return token

    def read_until_flushed(self, token: int) -> Iterator[Batch]:
        """The batches up to the answer to that flush, which is then in `flushed`."""
        while True:
            self._settle()
            if self._early:
                yield self.hand_over(self._early[0], self._early[0])
            elif self.flushed is not None and self.flushed.token == token:
                return
            else:
                self._read()

    def finish(self) -> None:
        """Ends the requests; the batches left then come, and the stream ends."""
        self._manual_queue().finish()

    def close(self) -> None:
        """Cancels the call if it still runs. Idempotent."""
        self._closed = True
        self._requests.close()
        self._requests.graph_way.leave_lane()
        self._call.cancel()
        lane = self._lane
        if lane is not None:
            lane.interrupt()

    def __enter__(self) -> PackStream:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _manual_queue(self) -> RequestQueue:
        if not isinstance(self._requests, RequestQueue):
            raise ValueError("this stream sends the tables it was made with")
        return self._requests

    def _put(self, request: Any) -> None:
        if not self._manual_queue().put(request):
            # The call has ended, so asking for its code does not wait.
            if not self._closed and self._call.code() is not grpc.StatusCode.OK:
                raise PackhouseError.of(self._call)
            raise ValueError("the stream has ended")

    def _read(self) -> None:
        """Takes in one response. Raises StopIteration at the end."""
        with self._reading:
            if self._interruption:
                raise PackhouseError(grpc.StatusCode.ABORTED, self._interruption)
            lane = self._lane
            is_by_lane = lane is not None and self._num_responses >= lane.num_before
            if not (is_by_lane and self._read_slot()):
                if not self._received or isinstance(self._received[-1], bytes):
                    self._receive()
                number, data = self._received[-1]
                if lane is not None and number > lane.num_before and len(self._received) == 1:
                    raise PackhouseError(
                        grpc.StatusCode.CANCELLED if self._closed else grpc.StatusCode.UNAVAILABLE,
                        "the lane ended before its call did",
                    )
                self._take_in(number, data)
            self._received.clear()
            if lane is not None:
                lane.has_kept()

    def _read_slot(self) -> bool:
        """Waits for the lane's next message, and takes in the batch that it tells of; False if it
        tells of none, or the lane has ended.
        """
        assert self._lane is not None
        if not self._received and not self._lane.has_ended:
            self._lane.wait(self._received)
        if not self._received or not isinstance(self._received[-1], (bytes, ReceivedBatch)):
            return False
        parts = self._lane.read(self._received[0])
        if parts is None:
            return False
        self._keep(Batch.of_parts(parts, self._schema))
        return True

    def _receive(self) -> None:
        """Waits for the call's next response. Raises StopIteration at its end."""
        before = len(self._received)
        failure: BaseException | None = None
        try:
            # In C: no exception comes between receiving and keeping.
            self._received.extend(itertools.islice(self._responses, 1))
        except grpc.RpcError as error:
            failure = PackhouseError.of(error)
            # The error is the call itself, whose traceback would keep this stream alive.
            error.__traceback__ = None
        except BaseException as error:
            if _is_of_grpc(error.__traceback__):
                self._interruption = (
                    f"{type(error).__name__} interrupted gRPC in its wait for a batch, and what came "
                    "is not known: pack the graphs again that no batch has brought"
                )
                self.close()
            raise
        if failure is None and len(self._received) == before:
            self._close_lane()
            if self._requests.error is None:
                if self.rejections and not self._has_warned:
                    self._has_warned = True
                    # The caller of __next__.
                    warn_of_oversize("pack", len(self.rejections), self.rejections[0], 5)
                raise StopIteration
            failure = self._requests.error
        if failure is not None:
            self._close_lane()
            self._requests.close()
            raise failure

    def _take_in(self, number: int, data: bytes) -> None:
        """Takes in a response of the call; doing so again after an exception changes nothing."""
        parts = self._reader.read(data)
        response = None
        if parts is None:
            response = self._parse(data)
            if response.WhichOneof("message") == "batch":
                parts = _batch_of(
                    response, widen=self._options.widen, writable=self._options.writable
                )
        if response is not None and response.WhichOneof("message") == "opened":
            self._open_lane()
        self._num_responses = number
        if parts is not None:
            if self._opening is not None:
                # Batches may be written to however they come: the server may have sent all before
                # the lane is open.
                parts = parts.writable()
            self._keep(Batch.of_parts(parts, self._schema))
            return
        assert response is not None
        kind = response.WhichOneof("message")
        if kind == "rejected":
            self._reject(response.rejected)
        elif kind == "opened":
            opened = PackOpened.from_proto(response.opened)
            if self._takes_schema:
                self._schema = opened.schema
            self._opened = opened
        elif kind == "tuned":
            self._tuned = PackTuned.from_proto(response.tuned)
        elif kind == "drifted":
            drift = PackDrifted.from_proto(response.drifted)
            if self.drift != drift:
                self.drifts.append(drift)
            # The caller of __next__.
            drift.warn(5)
        elif kind == "flushed":
            totals = response.flushed
            self.flushed = PackFlushed(
                token=totals.token,
                num_graphs=totals.num_graphs,
                num_batches=totals.num_batches,
                num_rejected=totals.num_rejected,
            )

    def _open_lane(self) -> None:
        """Raises PackhouseError if there is none, and must be one."""
        if self._lane_choice == "off" or self._lane is not None:
            return
        offer, offer_for_graphs = offered_lanes(self._call)
        why = "the server does not know lanes of streams" if offer is None else offer.refusal
        code = grpc.StatusCode.FAILED_PRECONDITION
        if offer is not None and offer.token:
            opening = self._opening or self._begin_opening(offer, offer_for_graphs)
            # An exception that interrupts it comes here again.
            opening.wait()
            failure = opening.failure
            if failure is None:
                self._lane = opening.lane
                return
            if isinstance(failure, (ConnectionAbortedError, ConnectionResetError)):
                # The call has sent all, and has ended for the server.
                return
            if isinstance(failure, socket.timeout):
                why = "the server does not take the connection"
            else:
                why = f"{offer.socket_path}: {getattr(failure, 'strerror', None) or failure!r}"
            if isinstance(failure, ConnectionRefusedError):
                # It has gone, if it was here.
                code = grpc.StatusCode.UNAVAILABLE
        if self._lane_choice == "required":
            self.close()
            raise PackhouseError(code, f"lane 'required': there is none: {why}")

    def _begin_opening(self, offer: Any, offer_for_graphs: Any) -> LaneOpening:
        reader, widen, way = self._reader, self._options.widen, self._requests.graph_way

        def read_bytes(data: bytes) -> ReceivedBatch:
            response = parse_response(packing_pb2.PackResponse, data)
            return _batch_of(response, widen=widen, writable=True)

        def make() -> Lane:
            lane = Lane(offer, reader, read_bytes)
            way.open_lane(offer_for_graphs)
            return lane

        opening = LaneOpening(make)
        # Of a stream that is dropped.
        weakref.finalize(self, opening.leave)
        weakref.finalize(self, way.leave_lane)
        self._opening = opening
        return opening

    def _close_lane(self) -> None:
        self._requests.graph_way.leave_lane()
        if self._lane is not None:
            self._lane.close()

    def _keep(self, batch: Batch) -> None:
        last = self._early[-1] if self._early else self._given
        if last is None or last.id != batch.id:
            self._early.append(batch)

    def _parse(self, data: bytes) -> Any:
        """The response; a subclass may have another type of it, with the same kinds."""
        return self._parse_as(packing_pb2.PackResponse, data)

    @staticmethod
    def _parse_as(kind: Any, data: bytes) -> Any:
        return parse_response(kind, data)

    def _reject(self, message: Any) -> None:
        rejections = [Rejection.from_proto(rejection) for rejection in message.rejections]
        if self._on_rejected is not None:
            self._on_rejected(rejections)
        elif self.rejections[-len(rejections) :] != rejections:
            self.rejections.extend(rejections)


def _batch_of(response: Any, *, widen: bool, writable: bool) -> ReceivedBatch:
    """The batch of a `packhouse.v1.PackResponse` that protobuf has read."""
    batch = received_by_protobuf(response.batch).as_wanted(widen=widen)
    return batch.writable() if writable else batch


def _is_of_grpc(traceback: Any) -> bool:
    """Whether an exception was raised within gRPC, or what interrupted it."""
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "grpc":
            return True
        traceback = traceback.tb_next
    return False


def pack_method(channel: Any, address: str = "") -> Any:
    """What starts a `Pack`; its responses are bytes: see reading.py. With an `address`, that of the
    server, a call may ask for a lane.
    """
    start = channel.stream_stream(
        _PACK_METHOD, request_serializer=packing_pb2.PackRequest.SerializeToString
    )

    def start_pack(requests: Iterator[Any], lane: LaneChoice = "off") -> Any:
        asks = bool(address) and is_worth_asking(address, lane)
        return start(requests, metadata=ASKING if asks else None)

    return start_pack


def pack_tables(
    pack: Any,
    tables: Iterable[GraphTable],
    options: PackOptions,
    on_rejected: OnRejected | None = None,
) -> PackStream:
    """The stream that packs tables of one schema; `pack` starts it. See `Client.pack`."""
    remaining = iter(tables)
    first = next(remaining, None)
    if first is None:
        return pack_of_schema(pack, GraphSchema(), (), options, on_rejected)
    check_table(first)
    return pack_of_schema(
        pack, first.schema, itertools.chain((first,), remaining), options, on_rejected
    )


def pack_of_schema(
    pack: Any,
    schema: GraphSchema,
    tables: Iterable[GraphTable],
    options: PackOptions,
    on_rejected: OnRejected | None,
) -> PackStream:
    """As `pack_tables`, where the schema is known before the first table."""
    requests = TableRequests(options.to_proto(schema), tables, schema, options.chunk_bytes)
    return PackStream(pack, requests, schema, options, on_rejected)


class TableRequests(Iterator[Any]):
    """The requests for an iterable of tables; gRPC's sending thread pulls them.

    If the iterable raises, the requests end there. Graphs that were sent are still packed, and the
    reader gets `error` afterwards. Keeps no reference to the call: a dropped stream is cancelled.
    """

    def __init__(
        self, opening: Any, tables: Iterable[GraphTable], schema: GraphSchema, chunk_bytes: int
    ) -> None:
        self.error: BaseException | None = None
        self.graph_way = GraphWay()
        self._closed = False
        self._running = threading.Lock()
        # Below: guarded by _running, which is held while the caller's iterable works.
        self._requests: Iterator[Any] = self._generate(
            opening, tables, schema, chunk_bytes, self.graph_way
        )

    def __next__(self) -> Any:
        request = None
        try:
            with self._running:
                if not self._closed:
                    request = next(self._requests, None)
            if self._closed:
                self.close()
        except BaseException as error:  # Whatever it is, the reader gets it.
            self.error = error
            request = None
        if request is None:
            raise StopIteration
        return request

    def close(self) -> None:
        """Ends the requests, and drops the iterable as soon as it does not run."""
        self._closed = True
        if self._running.acquire(blocking=False):
            self._requests = iter(())
            self._running.release()

    @staticmethod
    def _generate(
        opening: Any,
        tables: Iterable[GraphTable],
        schema: GraphSchema,
        chunk_bytes: int,
        way: GraphWay,
    ) -> Iterator[Any]:
        yield packing_pb2.PackRequest(open=opening)
        for table in tables:
            check_table(table)
            if table.schema != schema:
                raise ValueError("the tables of a stream have different schemas")
            yield from requests_of(table, chunk_bytes, way)


class ExampleRequests(TableRequests):
    """The requests for `packhouse.v1.Examples`, in the same way."""

    def __init__(self, opening: Any, messages: Iterable[Any]) -> None:
        super().__init__(opening, (), GraphSchema(()), 1)
        requests = (packing_pb2.PackRequest(examples=message) for message in messages)
        self._requests = itertools.chain(self._requests, requests)


class RequestQueue(Iterator[Any]):
    """A short queue between callers of `PackStream.send` and gRPC's sending thread."""

    def __init__(self, opening: Any) -> None:
        # What ended the requests too early; the reader gets it.
        self.error: BaseException | None = None
        self.graph_way = GraphWay()
        self._condition = threading.Condition()
        # Below: guarded by _condition.
        self._waiting: deque[Any] = deque([packing_pb2.PackRequest(open=opening)])
        self._finished = False
        self._closed = False

    def put(self, request: Any) -> bool:
        """Waits for room; False if the queue was finished or closed."""
        with self._condition:
            self._condition.wait_for(
                lambda: len(self._waiting) < _MAX_WAITING_REQUESTS or self._finished or self._closed
            )
            if self._finished or self._closed:
                return False
            self._waiting.append(request)
            self._condition.notify_all()
            return True

    def __next__(self) -> Any:
        try:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting or self._finished or self._closed)
                if self._closed or not self._waiting:
                    raise StopIteration
                request = self._waiting.popleft()
                self._condition.notify_all()
                return request
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            self.close()
            raise StopIteration from None

    def finish(self) -> None:
        """Ends the requests after those that wait."""
        with self._condition:
            self._finished = True
            self._condition.notify_all()

    def close(self) -> None:
        """Drops the waiting requests and wakes both sides."""
        with self._condition:
            self._closed = True
            self._waiting.clear()
            self._condition.notify_all()


def requests_of(table: GraphTable, chunk_bytes: int, way: GraphWay) -> Iterator[Any]:
    """The `packhouse.v1.PackRequest` messages that carry a table, or say where in a lane it lies."""
    if table.schema.tensors:
        for part in table.parts(chunk_bytes):
            number = way.place(part.tensors.values())
            if number is None:
                yield packing_pb2.PackRequest(graphs=part.to_chunk())
            else:
                place = packing_pb2.SlotGraphs(sizes=part.to_size_table(), slot=number)
                yield packing_pb2.PackRequest(slot_graphs=place)
    else:
        for sizes in table.to_size_tables(chunk_bytes):
            yield packing_pb2.PackRequest(sizes=sizes)
