"""One `Pack` stream: graphs in, full batches out."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import threading
import warnings
from collections import deque
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Callable,
    Final,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    TypeVar,
)

import grpc
import numpy as np

from packhouse.base.arguments import Choice
from packhouse.base.asynchronous import AsyncItems
from packhouse.base.errors import PackhouseError
from packhouse.data.batch import (
    Batch,
    DerivedLike,
    DerivedTensor,
    Padding,
    PaddingLike,
    received_by_protobuf,
)
from packhouse.data.examples import TfgnnSchema
from packhouse.data.graphs import DEFAULT_CHUNK_BYTES, GraphTable, check_table
from packhouse.data.reading import new_reader, parse_response
from packhouse.data.schema import GraphSchema
from packhouse.planning.drift import DriftWatch, PackDrifted
from packhouse.planning.stream_tuning import PackTuned
from packhouse.planning.tuning import DeviceProfile
from packhouse.v1 import batch_pb2, packing_pb2

_Item = TypeVar("_Item")

_PACK_METHOD: Final = "/packhouse.v1.PackingService/Pack"

# The most messages that wait for the connection when `PackStream.send` runs ahead of it.
_MAX_WAITING_REQUESTS: Final = 2


class OversizePolicy(Choice):
    """What happens to a graph beyond the limits; "error", "reject" and "partition" do as well.

    ERROR, the default of this package: OUT_OF_RANGE naming the graph, the component, its rows and
    how many would fit, which is less than the limit where padding keeps rows free. REJECT: it is
    left out and listed, and an OversizeWarning says how many there were. PARTITION: it is cut into
    few pieces that fit, each a graph with its id; batches then have the tensors that `join_pieces`
    puts them together by (`#piece`, `nodes.#row`, `nodes.#inner` and so on). A graph that cannot be
    cut is left out as with REJECT. Only for whole graphs, and for limits that are given.
    """

    REJECT = 1
    ERROR = 2
    PARTITION = 3


class OversizeWarning(UserWarning):
    """Graphs were left out because they exceed the limits (OversizePolicy.REJECT)."""


def warn_of_oversize(what: str, num_rejected: int, first: Rejection | None, level: int) -> None:
    """Warns once for a stream or an epoch; `level` as warnings.warn's `stacklevel`."""
    example = "" if first is None else f"; the first: {first.describe()}"
    warnings.warn(
        f"{what}: {num_rejected} graphs (or groups) do not fit the limits and are left out{example}",
        OversizeWarning,
        stacklevel=level + 1,
    )


@dataclasses.dataclass(frozen=True)
class PackOptions:
    """How a stream is packed: `limits` or `device` is needed, not both.

    - `limits` maps components (and `graphs`) to rows per batch, padding included; absent or 0: no
      limit.
    - `device`: the hardware. The server chooses shapes with which it is used best, up to its
      `max_distinct_shapes`; each batch has the last that takes it: see `PackStream.tuned`. A
      graph that is too large for the shapes is `oversize`; `ComponentProfile.min_rows` keeps them
      from becoming smaller than the graphs that are to come.
    - `calibration_graphs`: from how many graphs the shapes are chosen (0: 2,000). The first of the
      stream are held until there are so many, or until a flush or the end of the stream.
    - `calibration_histogram`: the name of a histogram whose graphs count as well. If it has
      enough, shapes are chosen at once. Give the same name as `histogram`, and the next stream
      has its shapes from the graphs of this one.
    - `padding`: see Padding; one that fills batches up needs a limit for every component.
    - `look_ahead`: how many graphs wait at the server for others that fit well with them (0: the
      server's default).
    - `max_age`: a graph leaves at the latest when this many graphs came after it (0: the server's
      default).
    - `max_delay`: a graph leaves at the latest after this time (None: no such bound).
    - `derived`: see DerivedTensor.
    - `compact`: integers travel in the narrowest of uint8, int16 and int32 that holds them, and
      become what the schema says when they are asked for; `widen=False`: they stay as they come.
      Upgrade all servers before you ask for it.
    - `oversize`: see OversizePolicy.
    - `histogram`: the name of a histogram that counts the stream's sizes ("": none).
    - `chunk_bytes` bounds one message sent.
    - `writable`: batches have arrays of their own, aligned to 64 bytes, that may be written to:
      see `Batch.writable`.
    - `drift`: the stream warns when the sizes of its graphs change so that other limits would waste
      less (`PackStream.drift`); batches do not depend on it. Not with `min_rows`.
    - `min_rows`: the fewest rows of some components in each graph, padding included (TF-GNN's
      `min_nodes_per_component`); only with Padding.TFGNN. A smaller graph counts as one beyond the
      limits.

    Raises ValueError naming the field.
    """

    limits: Mapping[str, int] | None = None
    padding: Padding = Padding.NONE
    look_ahead: int = 0
    max_age: int = 0
    max_delay: datetime.timedelta | None = None
    derived: Sequence[DerivedTensor] = ()
    oversize: OversizePolicy = OversizePolicy.ERROR
    histogram: str = ""
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    writable: bool = False
    min_rows: Mapping[str, int] = dataclasses.field(default_factory=dict)
    device: DeviceProfile | None = None
    calibration_graphs: int = 0
    calibration_histogram: str = ""
    drift: DriftWatch | None = None
    compact: bool = False
    widen: bool = True

    if TYPE_CHECKING:

        def __init__(
            self,
            limits: Mapping[str, int] | None = None,
            padding: PaddingLike = Padding.NONE,
            look_ahead: int = 0,
            max_age: int = 0,
            max_delay: datetime.timedelta | None = None,
            derived: DerivedLike = (),
            oversize: OversizePolicy | str = OversizePolicy.ERROR,
            histogram: str = "",
            chunk_bytes: int = DEFAULT_CHUNK_BYTES,
            writable: bool = False,
            min_rows: Mapping[str, int] = ...,
            device: DeviceProfile | None = None,
            calibration_graphs: int = 0,
            calibration_histogram: str = "",
            drift: DriftWatch | None = None,
            compact: bool = False,
            widen: bool = True,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.device is None:
            if self.calibration_graphs or self.calibration_histogram:
                raise ValueError("calibration: it chooses limits for a device, and there is none")
            check_limits(self.limits, "limits")
        elif self.limits is not None:
            raise ValueError("limits: given beside device, for which the server chooses them")
        elif not isinstance(self.device, DeviceProfile):
            raise ValueError(f"device: {self.device!r} is no DeviceProfile")
        check_limits(self.min_rows, "min_rows")
        object.__setattr__(self, "padding", Padding.of(self.padding, "padding"))
        object.__setattr__(self, "derived", DerivedTensor.each_of(self.derived, "derived"))
        object.__setattr__(self, "oversize", OversizePolicy.of(self.oversize, "oversize"))

    def to_proto(self, schema: GraphSchema | TfgnnSchema) -> Any:
        """The `packhouse.v1.PackOpen` for a stream of graphs of this schema."""
        message = packing_pb2.PackOpen(
            limits=None if self.limits is None else limits_to_proto(self.limits),
            device_profile=None if self.device is None else self.device.to_proto(),
            padding=int(self.padding),
            look_ahead=self.look_ahead,
            max_age=self.max_age,
            oversize_policy=int(self.oversize),
            derived=[int(derived) for derived in self.derived],
            histogram=self.histogram,
            min_rows=limits_to_proto(self.min_rows, "min_rows").capacities,
            integer_width="INTEGER_WIDTH_COMPACT" if self.compact else None,
        )
        if isinstance(schema, TfgnnSchema):
            message.tfgnn_schema.CopyFrom(schema.to_proto())
            message.payload = packing_pb2.PAYLOAD_GRAPHS
        else:
            message.schema.CopyFrom(schema.to_proto())
            has_rows = bool(schema.tensors)
            message.payload = packing_pb2.PAYLOAD_GRAPHS if has_rows else packing_pb2.PAYLOAD_SIZES
        if self.max_delay is not None:
            message.max_delay.FromTimedelta(self.max_delay)
        if self.calibration_graphs or self.calibration_histogram:
            message.calibration.num_graphs = self.calibration_graphs
            message.calibration.histogram = self.calibration_histogram
        if self.drift is not None:
            message.drift.SetInParent()
            message.drift.num_graphs = self.drift.num_graphs
            message.drift.min_loss = self.drift.min_loss
        return message

    @staticmethod
    def for_device(options: PackOptions | None, device: DeviceProfile | None) -> PackOptions:
        """`options` with this device, if there is one. Raises ValueError without either."""
        if options is None:
            return PackOptions(device=device)
        return options if device is None else dataclasses.replace(options, device=device)


@dataclasses.dataclass(frozen=True)
class PackOpened:
    """The options as the server resolved them. `limits` is the padded shape, `usable` the most real
    rows. Both are empty in a stream with a `device`: see `PackStream.tuned`.
    """

    schema: GraphSchema
    limits: dict[str, int]
    usable: dict[str, int]
    look_ahead: int
    max_age: int
    padding: Padding
    batch_bytes: int

    @staticmethod
    def from_proto(message: Any) -> PackOpened:
        """Reads a `packhouse.v1.PackOpened`."""
        return PackOpened(
            schema=GraphSchema.from_proto(message.schema),
            limits={capacity.component: capacity.rows for capacity in message.limits.capacities},
            usable={capacity.component: capacity.rows for capacity in message.usable.capacities},
            look_ahead=message.look_ahead,
            max_age=message.max_age,
            padding=Padding(message.padding),
            batch_bytes=message.batch_bytes,
        )


@dataclasses.dataclass(frozen=True)
class Rejection:
    """A graph that will be in no batch: it has `value` rows of `component`, of which `bound` are
    usable.

    For the reasons REJECTION_REASON_TOO_MANY_BYTES and REJECTION_REASON_TOO_MUCH_MEMORY (of a
    `device`) `component` is empty, and both are bytes. For REJECTION_REASON_MALFORMED, an example
    that was left out, only `message` says what is wrong.
    """

    graph_id: int
    reason: str  # Name of a packhouse.v1.RejectionReason.
    component: str
    value: int
    bound: int
    message: str = ""

    def describe(self) -> str:
        """In words."""
        if self.reason == "REJECTION_REASON_MALFORMED":
            return f"graph {self.graph_id} is malformed: {self.message}"
        if self.reason == "REJECTION_REASON_TOO_SMALL":
            return (
                f"graph {self.graph_id}: {self.value} rows of {self.component!r}, at least "
                f"{self.bound} are needed"
            )
        what = f"rows of '{self.component}'" if self.component else "bytes"
        return f"graph {self.graph_id}: {self.value} {what}, at most {self.bound} fit a batch"

    @staticmethod
    def from_proto(message: Any) -> Rejection:
        """Reads a `packhouse.v1.Rejection`."""
        return Rejection(
            graph_id=message.graph_id,
            reason=packing_pb2.RejectionReason.Name(message.reason),
            component=message.component,
            value=message.value,
            bound=message.bound,
            message=message.message,
        )


@dataclasses.dataclass(frozen=True)
class PackFlushed:
    """Answers a flush: totals since the stream was opened."""

    token: int
    num_graphs: int
    num_batches: int
    num_rejected: int


OnRejected = Callable[[Sequence[Rejection]], None]


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

    def __init__(
        self,
        start_call: Callable[[Iterator[Any]], Any],
        requests: TableRequests | RequestQueue,
        schema: GraphSchema | None,
        options: PackOptions,
        on_rejected: OnRejected | None = None,
    ) -> None:
        """`start_call` takes `packhouse.v1.PackRequest`s, and gives responses as bytes.

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
        # The latest change of sizes that was told, with `PackOptions.drift`.
        self.drift: PackDrifted | None = None
        self._next_token = 1
        self._closed = False
        # Held by the thread that reads: of waits that `async for` has left, another one.
        self._reading = threading.RLock()
        # Below: guarded by _reading. What was received and not looked at, one at most.
        self._received: deque[bytes] = deque()
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
        self._call = start_call(requests)
        if isinstance(requests, RequestQueue) and not self._call.add_callback(requests.close):
            requests.close()

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
        for request in requests_of(table, self._options.chunk_bytes):
            self._put(request)

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
        self._call.cancel()

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
            if not self._received:
                self._receive()
            self._take_in(self._received[0])
            self._received.clear()

    def _receive(self) -> None:
        if self._interruption:
            raise PackhouseError(grpc.StatusCode.ABORTED, self._interruption)
        failure: BaseException | None = None
        try:
            # In C: no exception comes between receiving and keeping.
            self._received.extend(itertools.islice(self._call, 1))
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
        if failure is None and not self._received:
            if self._requests.error is None:
                if self.rejections and not self._has_warned:
                    self._has_warned = True
                    # The caller of __next__.
                    warn_of_oversize("pack", len(self.rejections), self.rejections[0], 5)
                raise StopIteration
            failure = self._requests.error
        if failure is not None:
            self._requests.close()
            raise failure

    def _take_in(self, data: bytes) -> None:
        """Takes in a response; doing so again after an exception changes nothing."""
        parts = self._reader.read(data)
        response = None
        if parts is None:
            response = self._parse(data)
            if response.WhichOneof("message") == "batch":
                parts = received_by_protobuf(response.batch)
                parts = parts.as_wanted(widen=self._options.widen)
                if self._options.writable:
                    parts = parts.writable()
        if parts is not None:
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
            self.drift = PackDrifted.from_proto(response.drifted)
            # The caller of __next__.
            self.drift.warn(5)
        elif kind == "flushed":
            totals = response.flushed
            self.flushed = PackFlushed(
                token=totals.token,
                num_graphs=totals.num_graphs,
                num_batches=totals.num_batches,
                num_rejected=totals.num_rejected,
            )

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


def _is_of_grpc(traceback: Any) -> bool:
    """Whether an exception was raised within gRPC, or what interrupted it."""
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "grpc":
            return True
        traceback = traceback.tb_next
    return False


def pack_method(channel: grpc.Channel) -> Any:
    """What starts a `Pack`; its responses are bytes: see batch_reader.py."""
    return channel.stream_stream(
        _PACK_METHOD, request_serializer=packing_pb2.PackRequest.SerializeToString
    )


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
        self._closed = False
        self._running = threading.Lock()
        # Below: guarded by _running, which is held while the caller's iterable works.
        self._requests: Iterator[Any] = self._generate(opening, tables, schema, chunk_bytes)

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
        opening: Any, tables: Iterable[GraphTable], schema: GraphSchema, chunk_bytes: int
    ) -> Iterator[Any]:
        yield packing_pb2.PackRequest(open=opening)
        for table in tables:
            check_table(table)
            if table.schema != schema:
                raise ValueError("the tables of a stream have different schemas")
            yield from requests_of(table, chunk_bytes)


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


def requests_of(table: GraphTable, chunk_bytes: int) -> Iterator[Any]:
    """The `packhouse.v1.PackRequest` messages that carry a table."""
    if table.schema.tensors:
        for chunk in table.to_chunks(chunk_bytes):
            yield packing_pb2.PackRequest(graphs=chunk)
    else:
        for sizes in table.to_size_tables(chunk_bytes):
            yield packing_pb2.PackRequest(sizes=sizes)


def check_limits(limits: Any, argument: str) -> None:
    """Raises ValueError naming the argument unless `limits` maps names to numbers of rows."""
    if not isinstance(limits, Mapping):
        raise ValueError(
            f'{argument}: {limits!r} is no mapping such as {{"nodes": 512, "graphs": 32}}'
        )
    for component, rows in limits.items():
        is_number = isinstance(rows, (int, np.integer)) and not isinstance(rows, bool)
        if not is_number or not 0 <= rows < 1 << 64:
            raise ValueError(f"{argument}: {rows!r} is no number of rows of {component!r}")


def limits_to_proto(limits: Mapping[str, int], argument: str = "limits") -> Any:
    """The `packhouse.v1.Limits` for capacities by component. Raises ValueError."""
    check_limits(limits, argument)
    return batch_pb2.Limits(
        capacities=[
            batch_pb2.Capacity(component=component, rows=int(rows))
            for component, rows in limits.items()
        ]
    )
