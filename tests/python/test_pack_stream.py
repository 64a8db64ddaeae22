"""Laws of the client's end of a Pack stream, against a call that says what a test wants."""

from __future__ import annotations

import datetime
import socket
import threading
import warnings
import weakref
from typing import Any, Callable, Iterator

import grpc
import pytest

from packhouse import (
    DerivedTensor,
    GraphSchema,
    GraphTable,
    Loader,
    OversizePolicy,
    PackhouseError,
    PackOptions,
    Padding,
    TensorSpec,
    prefetch,
)
from packhouse.data.examples import TfgnnSchema
from packhouse.planning import packing
from packhouse.planning.pack_options import (
    DriftWatch,
    OversizeWarning,
    PackDrifted,
    PackFlushed,
    Rejection,
    SizesDriftedWarning,
)
from packhouse.planning.packing import (
    ExampleRequests,
    PackStream,
    RequestQueue,
    TableRequests,
    pack_method,
    pack_tables,
    requests_of,
)
from packhouse.planning.tuning import ComponentProfile, DeviceProfile
from packhouse.v1 import batch_pb2, graphs_pb2, loader_pb2, packing_pb2

LIMITS = {"nodes": 8, "graphs": 4}
SIZES = GraphSchema(("nodes",))
ROWS = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
TABLE = GraphTable(ROWS, [[2], [1]], {"x": [0, 1, 2]})
SIZE_TABLE = GraphTable(SIZES, [[2], [1], [3]])


class Failure(grpc.RpcError):
    """What a call raises."""

    def __init__(self, code: grpc.StatusCode, words: str) -> None:
        super().__init__()
        self.code = lambda: code
        self.details = lambda: words
        self.trailing_metadata = lambda: ()


class Call:
    """A call that gives what it was made with: messages, and exceptions that it raises."""

    def __init__(self, *script: Any, metadata: Any = (), runs: bool = True) -> None:
        self._script: Iterator[Any] = iter(script)
        self._metadata = metadata
        self._runs = runs
        self.is_cancelled = False
        self.ending = grpc.StatusCode.OK
        self.callbacks: list[Callable[[], None]] = []

    def __iter__(self) -> Call:
        return self

    def __next__(self) -> bytes:
        each = next(self._script)
        if isinstance(each, BaseException):
            raise each
        if callable(each):
            each()
        return bytes(each.SerializeToString())

    def cancel(self) -> None:
        self.is_cancelled = True

    def initial_metadata(self) -> Any:
        return self._metadata

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self.callbacks.append(callback)
        return self._runs

    def code(self) -> grpc.StatusCode:
        return self.ending

    def details(self) -> str:
        return "it has failed"

    def trailing_metadata(self) -> Any:
        return ()


def batch(number: int) -> Any:
    return packing_pb2.PackResponse(batch=batch_pb2.Batch(id=number, real_rows=[0, 0], rows=[0, 0]))


def opened(schema: GraphSchema = SIZES) -> Any:
    return packing_pb2.PackResponse(
        opened=packing_pb2.PackOpened(
            schema=schema.to_proto(), look_ahead=5, padding="PADDING_NONE"
        )
    )


def flushed(token: int) -> Any:
    totals = packing_pb2.PackFlushed(token=token, num_graphs=7, num_batches=3, num_rejected=2)
    return packing_pb2.PackResponse(flushed=totals)


def rejected(*graphs: int) -> Any:
    of = [
        packing_pb2.Rejection(
            graph_id=each,
            reason=packing_pb2.REJECTION_REASON_TOO_LARGE,
            component="nodes",
            value=9,
            bound=8,
        )
        for each in graphs
    ]
    return packing_pb2.PackResponse(rejected=packing_pb2.PackRejected(rejections=of))


def drifted(first_graph: int) -> Any:
    message = packing_pb2.PackDrifted(first_graph=first_graph, loss=0.25, reasons=["They grew."])
    return packing_pb2.PackResponse(drifted=message)


def tuned() -> Any:
    return packing_pb2.PackResponse(tuned=packing_pb2.PackTuned(num_graphs=11))


def stream(
    call: Call, requests: Any = None, schema: GraphSchema | None = SIZES, **options: Any
) -> PackStream:
    on_rejected = options.pop("on_rejected", None)
    if "device" not in options:
        options["limits"] = LIMITS
    options = {"lane": "off", **options}
    requests = requests or RequestQueue(packing_pb2.PackOpen())
    return PackStream(lambda *_: call, requests, schema, PackOptions(**options), on_rejected)


def ids(batches: Any) -> list[int]:
    return [each.id for each in batches]


def test_batches_come_once_and_in_their_order_also_if_they_are_looked_at_before() -> None:
    packed = stream(Call(opened(), batch(1), batch(2), batch(2), batch(3), batch(4)))
    assert packed.opened.look_ahead == 5
    assert packed.opened.schema == SIZES
    assert packed.transport == "bytes"
    second = packed.peek(1)
    assert second is not None and second.id == 2
    first = packed.peek()
    assert first is not None and first.id == 1
    assert next(packed) is first
    assert packed.peek() is second
    with pytest.raises(RuntimeError):
        packed.hand_over(second, _raises())
    assert packed.peek() is second
    assert next(packed) is second
    assert ids(packed) == [3, 4]
    assert packed.peek() is None and packed.peek(3) is None
    with pytest.raises(StopIteration):
        next(packed)


def _raises() -> Any:
    raise RuntimeError


def test_what_is_left_out_is_listed_and_told_once_at_the_end() -> None:
    packed = stream(Call(opened(), rejected(3, 4), batch(1), rejected(6)), oversize="reject")
    with pytest.warns(OversizeWarning) as told:
        assert next(packed).id == 1
        # Here, and not in what this calls.
        assert next(packed, None) is None
        assert next(packed, None) is None
    assert [each.graph_id for each in packed.rejections] == [3, 4, 6]
    assert packed.rejections[0] == Rejection(3, "REJECTION_REASON_TOO_LARGE", "nodes", 9, 8)
    assert [str(each.message) for each in told] == [
        "pack: 3 graphs (or groups) do not fit the limits and are left out; the first: "
        "graph 3 has 9 nodes, at most 8 fit a batch"
    ]
    assert told[0].filename == __file__
    taken: list[Any] = []
    packed = stream(
        Call(opened(), rejected(3, 4), batch(1)), oversize="reject", on_rejected=taken.extend
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ids(packed) == [1]
    assert [each.graph_id for each in taken] == [3, 4]
    assert packed.rejections == []
    with pytest.raises(
        ValueError, match="on_rejected is for oversize=OversizePolicy.REJECT; it is ERROR"
    ):
        stream(Call(), on_rejected=taken.extend)


def test_changes_of_sizes_are_told_and_kept_once_each() -> None:
    packed = stream(
        Call(opened(), drifted(5), drifted(5), drifted(9), batch(1)), drift=DriftWatch()
    )
    assert packed.drift is None
    with pytest.warns(SizesDriftedWarning, match="the limits waste 25.0%.* They grew.") as told:
        assert next(packed).id == 1
    assert told[0].filename == __file__
    assert [each.first_graph for each in packed.drifts] == [5, 9]
    assert packed.drift is packed.drifts[-1]


def test_shapes_of_a_device_are_waited_for() -> None:
    device = DeviceProfile(components={"nodes": ComponentProfile(max_rows=8)})
    for script, num_graphs in (([opened(), tuned(), batch(1)], 11), ([opened()], None)):
        packed = stream(Call(*script), device=device)
        found = packed.tuned
        assert (None if found is None else found.num_graphs) == num_graphs
        assert packed.tuned is found
        assert len(list(packed)) == len(script) // 3
    with pytest.raises(ValueError, match="the stream has limits and no device: see `opened`"):
        stream(Call()).tuned


def test_a_schema_that_was_not_known_is_the_servers() -> None:
    packed = stream(Call(opened(ROWS), batch(1)), schema=None, writable=True)
    first = next(packed)
    assert first.schema == ROWS
    # With one of the caller's the server's is not asked, unless graphs are cut into pieces.
    assert next(stream(Call(opened(ROWS), batch(1)))).schema == SIZES
    assert next(stream(Call(opened(ROWS), batch(1)), oversize="partition")).schema == ROWS


def test_a_failure_comes_after_the_batches_before_it_and_ends_the_requests() -> None:
    queue = RequestQueue(packing_pb2.PackOpen())
    call = Call(opened(), batch(1), Failure(grpc.StatusCode.OUT_OF_RANGE, "graph 3"))
    packed = stream(call, queue)
    assert next(packed).id == 1
    with pytest.raises(PackhouseError, match="graph 3") as failed:
        next(packed)
    assert failed.value.code is grpc.StatusCode.OUT_OF_RANGE
    assert not queue.put(packing_pb2.PackRequest())
    assert queue.graph_way._is_left
    # It is over for who closed it, and only for them.
    for closes in (False, True):
        call = Call(opened(), Failure(grpc.StatusCode.CANCELLED, "cancelled"))
        packed = stream(call)
        if closes:
            packed.close()
            assert call.is_cancelled
            assert list(packed) == []
        else:
            with pytest.raises(PackhouseError, match="cancelled"):
                next(packed)
    with pytest.raises(PackhouseError, match="gone"):
        packed = stream(Call(opened(), Failure(grpc.StatusCode.UNAVAILABLE, "gone")))
        packed.close()
        next(packed)


def test_a_block_that_is_left_cancels_its_call_and_a_call_that_ends_its_requests() -> None:
    call = Call(opened(), batch(1))
    queue = RequestQueue(packing_pb2.PackOpen())
    with stream(call, queue) as packed:
        assert not call.is_cancelled
        assert packed.flush() == 1
    assert call.is_cancelled
    assert not queue.put(None)
    queue = RequestQueue(packing_pb2.PackOpen())
    call = Call()
    stream(call, queue)
    assert queue.put(None)
    call.callbacks[0]()
    assert list(queue) == []
    # One that has ended before it could be told.
    queue = RequestQueue(packing_pb2.PackOpen())
    stream(Call(runs=False), queue)
    assert list(queue) == []
    # Graphs go by no lane after the end of their call.
    queue = RequestQueue(packing_pb2.PackOpen())
    assert ids(stream(Call(opened(), batch(1)), queue)) == [1]
    assert queue.graph_way._is_left


def test_what_is_sent_goes_in_its_order_and_not_after_the_end() -> None:
    queue = RequestQueue(packing_pb2.PackOpen(look_ahead=3))
    call = Call(opened())
    packed = stream(call, queue, ROWS)
    assert next(queue).open.look_ahead == 3
    packed.send(TABLE)
    assert next(queue).WhichOneof("message") == "graphs"
    assert [packed.flush(), packed.flush()] == [1, 2]
    assert [next(queue).flush.token, next(queue).flush.token] == [1, 2]
    for wrong, error, words in (
        (SIZE_TABLE, ValueError, "the table has another schema than the stream"),
        ([[1]], TypeError, "GraphTable"),
    ):
        with pytest.raises(error, match=words):
            packed.send(wrong)  # type: ignore[arg-type]
    assert not queue.graph_way._is_left
    packed.flush()
    packed.finish()
    assert [each.flush.token for each in queue] == [3]
    with pytest.raises(ValueError, match="the stream has ended"):
        packed.send(TABLE)
    assert queue.graph_way._is_left
    call.ending = grpc.StatusCode.RESOURCE_EXHAUSTED
    with pytest.raises(PackhouseError, match="it has failed") as failed:
        packed.flush()
    assert failed.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    packed.close()
    with pytest.raises(ValueError, match="the stream has ended"):
        packed.flush()
    fixed = stream(Call(), TableRequests(packing_pb2.PackOpen(), (), SIZES, 100))
    for use in (fixed.finish, fixed.flush):
        with pytest.raises(ValueError, match="this stream sends the tables it was made with"):
            use()
    # A schema that the server has told.
    late = stream(Call(opened(ROWS), batch(1)), schema=None)
    assert next(late).id == 1
    late.send(TABLE)


def test_a_flush_is_read_up_to_its_answer() -> None:
    packed = stream(Call(opened(), batch(1), flushed(1), batch(2), batch(3), flushed(2), batch(4)))
    assert ids(packed.read_until_flushed(2)) == [1, 2, 3]
    assert packed.flushed == PackFlushed(token=2, num_graphs=7, num_batches=3, num_rejected=2)
    assert ids(packed.read_until_flushed(2)) == []
    assert ids(packed) == [4]


def test_a_queue_holds_two_requests_and_who_waits_for_room_is_told_of_the_end() -> None:
    for end, is_put in (("next", True), ("close", False), ("finish", False)):
        queue = RequestQueue(packing_pb2.PackOpen())
        assert queue.put(1)
        done: list[bool] = []
        waiting = threading.Thread(target=lambda: done.append(queue.put(2)), daemon=True)
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
        if end == "next":
            next(queue)
        else:
            getattr(queue, end)()
        waiting.join(20)
        assert done == [is_put]
        assert queue.error is None
        if end == "close":
            assert list(queue) == []
    # The sender waits, too.
    queue = RequestQueue(packing_pb2.PackOpen())
    next(queue)
    given: list[Any] = []
    waiting = threading.Thread(target=lambda: given.extend(queue), daemon=True)
    waiting.start()
    for each in (1, 2, 3):
        assert queue.put(each)
    queue.finish()
    waiting.join(20)
    assert given == [1, 2, 3]
    idle = threading.Thread(target=lambda: given.extend(queue), daemon=True)
    queue = RequestQueue(packing_pb2.PackOpen())
    next(queue)
    idle.start()
    queue.close()
    idle.join(20)
    assert not idle.is_alive()


def test_what_interrupts_the_sending_thread_reaches_the_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = RequestQueue(packing_pb2.PackOpen())
    packed = stream(Call(opened(), batch(1)), queue)
    stop = KeyboardInterrupt("stop")
    with monkeypatch.context() as patched:
        patched.setattr(queue._condition, "wait_for", lambda _: (_ for _ in ()).throw(stop))
        assert list(queue) == []
    assert not queue.put(1)
    assert next(packed).id == 1
    with pytest.raises(KeyboardInterrupt, match="stop"):
        next(packed)


def test_what_an_iterable_raises_comes_after_the_batches_of_what_was_sent() -> None:
    def tables() -> Iterator[GraphTable]:
        yield SIZE_TABLE
        raise OSError("the disk")

    def others() -> Iterator[Any]:
        yield SIZE_TABLE
        yield TABLE

    def nothing() -> Iterator[Any]:
        yield SIZE_TABLE
        yield [[1]]

    for make, error, words in (
        (tables, OSError, "the disk"),
        (others, ValueError, "the tables of a stream have different schemas"),
        (nothing, TypeError, "GraphTable"),
    ):
        requests = TableRequests(packing_pb2.PackOpen(), make(), SIZES, 100)
        packed = stream(Call(opened(), batch(1)), requests)
        assert [each.WhichOneof("message") for each in requests] == ["open", "sizes"]
        assert next(packed).id == 1
        with pytest.raises(error, match=words):
            next(packed)


def test_an_iterable_is_let_go_when_its_stream_is_closed() -> None:
    class Source:
        def __iter__(self) -> Iterator[GraphTable]:
            return iter([SIZE_TABLE] * 9)

    source = Source()
    gone = weakref.ref(source)
    requests = TableRequests(packing_pb2.PackOpen(), source, SIZES, 100)  # type: ignore[arg-type]
    del source
    next(requests), next(requests)
    requests.close()
    assert gone() is None
    assert list(requests) == []
    # While it runs, it is let go afterwards.
    closed: list[Any] = []

    def tables() -> Iterator[GraphTable]:
        requests.close()
        assert requests._running.locked()
        try:
            yield SIZE_TABLE
            yield SIZE_TABLE
        finally:
            closed.append(True)

    requests = TableRequests(packing_pb2.PackOpen(), tables(), SIZES, 100)
    assert [each.WhichOneof("message") for each in requests] == ["open", "sizes"]
    assert closed == [True]
    assert not requests._running.locked()


def test_examples_go_behind_the_opening() -> None:
    requests = ExampleRequests(packing_pb2.PackOpen(look_ahead=2), iter([graphs_pb2.Examples()]))
    assert [each.WhichOneof("message") for each in requests] == ["open", "examples"]


def test_tables_are_sent_in_parts_by_the_call_or_a_slot() -> None:
    way: Any = packing.GraphWay()
    sizes = list(requests_of(SIZE_TABLE, 1, way))
    assert [each.WhichOneof("message") for each in sizes] == ["sizes"] * 3
    rows = list(requests_of(TABLE, 1, way))
    assert [each.WhichOneof("message") for each in rows] == ["graphs"] * 2

    class Slots:
        def place(self, columns: Any) -> int | None:
            length = sum(map(len, columns))
            return None if length == 1 else 40 + length

    placed = list(requests_of(TABLE, 1, Slots()))  # type: ignore[arg-type]
    assert [each.WhichOneof("message") for each in placed] == ["slot_graphs", "graphs"]
    assert placed[0].slot_graphs.slot == 42
    assert placed[0].slot_graphs.sizes == next(iter(TABLE.parts(1))).to_size_table()


def test_a_stream_has_the_schema_of_its_first_table() -> None:
    seen: list[Any] = []

    def start(requests: Any, lane: Any) -> Call:
        seen.append([each.WhichOneof("message") for each in requests])
        return Call(opened(), batch(1))

    options = PackOptions(LIMITS)
    assert next(pack_tables(start, [TABLE, TABLE], options)).schema == ROWS
    none = pack_tables(start, [], options)
    assert none.opened.look_ahead == 5 and none._schema == GraphSchema()
    assert seen == [["open", "graphs", "graphs"], ["open"]]
    with pytest.raises(TypeError, match="GraphTable"):
        pack_tables(start, [[1]], options)  # type: ignore[list-item]


def test_only_a_call_with_an_address_asks_for_a_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    class Channel:
        def stream_stream(self, method: str, request_serializer: Any) -> Any:
            assert method == "/packhouse.v1.PackingService/Pack"
            assert request_serializer(packing_pb2.PackRequest()) == b""
            return lambda requests, metadata: (requests, metadata)

    monkeypatch.setattr(packing, "is_worth_asking", lambda address, lane: lane != "off")
    with_address, without = pack_method(Channel(), "here:1"), pack_method(Channel())
    assert with_address([], "auto") == ([], packing.ASKING)
    assert with_address([]) == ([], None)
    assert without([], "auto") == ([], None)


_GRPC: dict[str, Any] = {"__name__": "grpc._channel"}
exec("def interrupted():\n    raise KeyboardInterrupt\n", _GRPC)


def test_what_interrupts_grpc_ends_the_stream_and_anything_else_takes_nothing() -> None:
    call = Call(opened(), KeyboardInterrupt(), batch(1))
    packed = stream(call)
    with pytest.raises(KeyboardInterrupt):
        next(packed)
    assert not call.is_cancelled
    packed = stream(_InterruptedCall(opened(), batch(1)))
    with pytest.raises(KeyboardInterrupt):
        next(packed)
    assert packed._call.is_cancelled
    for _ in range(2):
        with pytest.raises(
            PackhouseError, match="KeyboardInterrupt interrupted gRPC in its wait"
        ) as failed:
            next(packed)
        assert failed.value.code is grpc.StatusCode.ABORTED


class _InterruptedCall(Call):
    def __next__(self) -> bytes:
        _GRPC["interrupted"]()
        return b""


_OFFER = loader_pb2.Lane(socket_path="/nowhere/lane", token=b"t")


@pytest.mark.parametrize(
    "offer, failure, code, why",
    [
        (None, None, "FAILED_PRECONDITION", "the server does not know lanes of streams"),
        (loader_pb2.Lane(refusal="it is full"), None, "FAILED_PRECONDITION", "it is full"),
        (
            _OFFER,
            socket.timeout(),
            "FAILED_PRECONDITION",
            "the server does not take the connection",
        ),
        (_OFFER, ConnectionRefusedError(1, "refused"), "UNAVAILABLE", "/nowhere/lane: 'refused'"),
        (
            _OFFER,
            FileNotFoundError(2, "no file"),
            "FAILED_PRECONDITION",
            "/nowhere/lane: 'no file'",
        ),
        (_OFFER, ValueError("odd"), "FAILED_PRECONDITION", "/nowhere/lane: ValueError('odd')"),
        (_OFFER, ConnectionAbortedError(), None, ""),
        (_OFFER, ConnectionResetError(), None, ""),
    ],
)
def test_a_lane_that_must_be_and_is_not_ends_the_stream_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, offer: Any, failure: Any, code: str | None, why: str
) -> None:
    def no_lane(*_: Any) -> Any:
        raise failure

    monkeypatch.setattr(packing, "Lane", no_lane)
    metadata = [] if offer is None else [("packhouse-lane-bin", offer.SerializeToString())]
    for lane in ("auto", "required"):
        call = Call(opened(), batch(1), metadata=metadata)
        packed = stream(call, lane=lane)
        if lane == "required" and code is not None:
            with pytest.raises(PackhouseError) as failed:
                next(packed)
            assert failed.value.code.name == code
            assert failed.value.message == f"lane 'required': there is none: {why}"
            assert call.is_cancelled
        else:
            first = next(packed)
            assert first.id == 1 and packed.transport == "bytes"
            assert packed._num_responses == 2
            assert not call.is_cancelled


def test_batches_that_are_moved_ahead_stay_with_their_stream_until_they_are_given() -> None:
    moved: list[int] = []

    def move(batch: Any) -> int:
        moved.append(batch.id)
        return -int(batch.id)

    packed = stream(Call(opened(), *(batch(number) for number in range(1, 6))))
    ahead = iter(prefetch(packed, move, depth=2))
    assert next(ahead) == -1 and moved == [1, 2, 3]
    assert next(ahead) == -2 and moved == [1, 2, 3, 4]
    # What was moved comes with any other loop, and is not moved again.
    assert next(packed).id == 3
    assert list(ahead) == [-4, -5] and moved == [1, 2, 3, 4, 5]
    seen: list[int] = []
    given = prefetch([1, 2, 3, 4], lambda item: seen.append(item) or -item, depth=1)
    assert next(given) == -1 and seen == [1, 2]
    assert list(given) == [-2, -3, -4]

    class Item:
        lease = "its lease"

    item = Item()
    (same,) = prefetch([item], lambda each: each)
    assert same is item
    worker = Loader("nowhere:1", dataset="d", job="j", limits=LIMITS, worker="w")
    with pytest.raises(ValueError, match="^a dynamic worker's loader cannot be fetched ahead from$"):
        prefetch(worker, move)


DEVICE = DeviceProfile(components={"nodes": ComponentProfile(max_rows=8)}, memory_bytes=5)


def test_every_option_is_in_the_opening() -> None:
    options = PackOptions(
        padding="tfgnn",  # type: ignore[arg-type]
        look_ahead=1,
        max_age=2,
        max_delay=datetime.timedelta(milliseconds=1500),
        derived=["masks", "row_counts"],  # type: ignore[list-item]
        oversize="reject",  # type: ignore[arg-type]
        histogram="h",
        min_rows={"nodes": 3},
        device=DEVICE,
        calibration_graphs=4,
        calibration_histogram="c",
        drift=DriftWatch(600, 0.25),
        compact=True,
    )
    expected = packing_pb2.PackOpen(
        schema=ROWS.to_proto(),
        payload=packing_pb2.PAYLOAD_GRAPHS,
        device_profile=DEVICE.to_proto(),
        padding=int(Padding.TFGNN),
        look_ahead=1,
        max_age=2,
        max_delay={"seconds": 1, "nanos": 500_000_000},
        derived=[int(DerivedTensor.MASKS), int(DerivedTensor.ROW_COUNTS)],
        oversize_policy=int(OversizePolicy.REJECT),
        histogram="h",
        min_rows=[{"component": "nodes", "rows": 3}],
        calibration={"num_graphs": 4, "histogram": "c"},
        drift={"num_graphs": 600, "min_loss": 0.25},
        integer_width="INTEGER_WIDTH_COMPACT",
    )
    assert options.to_proto(ROWS) == expected
    limits = [{"component": "nodes", "rows": 8}, {"component": "graphs", "rows": 4}]
    plain = packing_pb2.PackOpen(
        limits={"capacities": limits},
        padding=int(Padding.NONE),
        oversize_policy=int(OversizePolicy.ERROR),
    )
    of_sizes = packing_pb2.PackOpen(schema=SIZES.to_proto(), payload=packing_pb2.PAYLOAD_SIZES)
    of_sizes.MergeFrom(plain)
    assert PackOptions(LIMITS).to_proto(SIZES) == of_sizes
    of_examples = packing_pb2.PackOpen(
        tfgnn_schema={"text": "s"}, payload=packing_pb2.PAYLOAD_GRAPHS
    )
    of_examples.MergeFrom(plain)
    of_examples.drift.SetInParent()
    assert PackOptions(LIMITS, drift=DriftWatch()).to_proto(TfgnnSchema("s")) == of_examples
    for word, said in (("graphs", {"num_graphs": 4}), ("histogram", {"histogram": "c"})):
        (value,) = said.values()
        words: Any = {f"calibration_{word}": value}
        told = PackOptions(device=DEVICE, **words).to_proto(SIZES).calibration
        assert told == packing_pb2.Calibration(**said)
        with pytest.raises(ValueError, match="^calibration: it chooses limits for a device, and"):
            PackOptions(LIMITS, **words)


def test_a_stream_has_limits_or_a_device() -> None:
    with pytest.raises(ValueError, match="^limits: given beside device, for which the server"):
        PackOptions(LIMITS, device=DEVICE)
    with pytest.raises(ValueError, match="^min_rows: 2.5 is no number of rows of 'nodes'$"):
        PackOptions(LIMITS, min_rows={"nodes": 2.5})  # type: ignore[dict-item]
    options = PackOptions(LIMITS)
    other = DeviceProfile(components={})
    assert PackOptions.for_device(options, None) is options
    assert PackOptions.for_device(None, DEVICE) == PackOptions(device=DEVICE)
    assert PackOptions.for_device(PackOptions(device=other), DEVICE).device is DEVICE
    with pytest.raises(ValueError, match="^limits: None is no mapping"):
        PackOptions.for_device(None, None)


def test_a_change_of_sizes_says_which_limits_are_better() -> None:
    message = packing_pb2.PackDrifted(loss=0.125, reasons=["They grew.", "Much."])
    message.offered.shapes.add(capacities=[{"component": "nodes", "rows": 5}])
    assert PackDrifted.from_proto(packing_pb2.PackDrifted()).limits is None
    with pytest.warns(SizesDriftedWarning) as told:
        PackDrifted.from_proto(message).warn(1)
    assert str(told[0].message) == (
        "pack: the sizes of graphs have changed, and the limits waste 12.5% of the cost of batches; "
        "better from the next stream on: {'nodes': 5}. They grew. Much."
    )
    assert told[0].filename == __file__
