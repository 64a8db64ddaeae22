"""Laws of a loader's connection, over channels that say what a test wants."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from packhouse import PackhouseError
from packhouse.calls.servers import Servers
from packhouse.data.batch import ReceivedBatch
from packhouse.epochs import load_connection
from packhouse.epochs.acknowledging import Lease
from packhouse.epochs.load_connection import LoadConnection, is_foreign
from packhouse.epochs.request import Connecting
from packhouse.v1 import batch_pb2, loader_pb2
from test_loader import end, opened
from test_pack_stream import Failure

AWAY = Failure(grpc.StatusCode.UNAVAILABLE, "away")
WRONG = Failure(grpc.StatusCode.NOT_FOUND, "no job")


def batch(step: int) -> Any:
    message = batch_pb2.Batch(id=100 + step, step=step, real_rows=[0, 0], rows=[0, 0])
    return loader_pb2.LoadResponse(batch=loader_pb2.LoadedBatch(batch=message))


def redirect(address: str) -> Any:
    return loader_pb2.LoadResponse(redirect=loader_pb2.LoadRedirect(address=address))


class Load:
    """A call of Load, which gives what its world says."""

    def __init__(self, script: list[Any], world: World) -> None:
        self._script = script
        self._world = world
        self.is_cancelled = False

    def __iter__(self) -> Load:
        return self

    def __next__(self) -> bytes:
        self._world.on_wait()
        if self.is_cancelled:
            raise Failure(grpc.StatusCode.CANCELLED, "cancelled")
        if not self._script:
            raise StopIteration
        each = self._script.pop(0)
        if isinstance(each, BaseException):
            raise each
        return bytes(each.SerializeToString())

    def cancel(self) -> None:
        self.is_cancelled = True


class Channel:
    """One to an address."""

    def __init__(self, world: World, address: str, how: dict[str, Any]) -> None:
        self.world, self.address, self.how = world, address, how
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def unary_stream(self, method: str, request_serializer: Any, **_: Any) -> Any:
        def start(request: Any) -> Load:
            assert method == "/packhouse.v1.LoaderService/Load" and not self.is_closed
            load = Load(self.world.loads.pop(0), self.world)
            self.world.started.append((self.address, request, load))
            return load

        return start

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Any:
        def call(request: Any, timeout: float = 0, wait_for_ready: bool = False) -> Any:
            self.world.calls.append(
                (self.address, method.rpartition("/")[2], timeout, wait_for_ready)
            )
            each = self.world.answers.pop(0)
            if isinstance(each, BaseException):
                raise each
            return each

        def future(request: Any, timeout: float) -> Any:
            question = SimpleNamespace(is_cancelled=False)

            def cancel() -> None:
                question.is_cancelled = True

            def result() -> Any:
                if question.is_cancelled:
                    raise grpc.FutureCancelledError
                return call(request, timeout)

            question.cancel, question.result = cancel, result
            self.world.questions.append(question)
            return question

        call.future = future  # type: ignore[attr-defined]
        return call


class World:
    """What is said, and what was made."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.loads: list[list[Any]] = []
        self.answers: list[Any] = []
        self.started: list[Any] = []
        self.calls: list[Any] = []
        self.questions: list[Any] = []
        self.channels: list[Channel] = []
        self.failure: BaseException | None = None
        self.slept: list[float] = []
        self.asks = False
        self.on_wait: Any = int
        patched.setattr(load_connection, "make_channel", self._make)
        patched.setattr(load_connection.time, "sleep", self.slept.append)
        patched.setattr(
            load_connection, "is_worth_asking", lambda address, lane: self.asks and lane != "off"
        )

    def _make(self, address: str, **how: Any) -> Channel:
        if self.failure is not None:
            raise self.failure
        self.channels.append(Channel(self, address, how))
        return self.channels[-1]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def request() -> Any:
    return loader_pb2.LoadRequest()


def fails(use: Any, code: str, words: str) -> None:
    with pytest.raises(PackhouseError) as failed:
        use()
    assert (failed.value.code.name, failed.value.message) == (code, words)


def test_one_call_gives_all_and_the_next_epoch_has_the_same_connection(world: World) -> None:
    world.loads = [[opened(), batch(0), end()], [opened(), AWAY], [opened(), WRONG], [], [batch(3)]]
    connection = LoadConnection(Connecting("a:1", "j", options=(("x", 1),)), writable=True)
    assert world.channels == [] and connection.transport == "bytes"

    def receive() -> Any:
        return connection.receive(request)

    assert receive().HasField("opened")
    received = receive()
    assert type(received) is ReceivedBatch and received.id == 100
    assert receive().HasField("end_of_epoch")
    (channel,) = world.channels
    assert channel.address == "a:1" and channel.how["reads_on_callers_thread"]
    assert channel.how["options"] == (("grpc.enable_retries", 0), ("x", 1))
    connection.finish()
    assert len(world.started) == 1 and not channel.is_closed
    receive()
    assert len(world.started) == 2 and len(world.channels) == 1
    # A failure is raised each time until the call is left; then all is new.
    fails(receive, "UNAVAILABLE", "away")
    connection.leave()
    assert channel.is_closed and world.started[1][2].is_cancelled
    connection.leave()
    receive()
    assert len(world.channels) == 2
    fails(receive, "NOT_FOUND", "no job")
    connection.leave()
    fails(receive, "UNAVAILABLE", "the stream ended before the epoch did")
    connection.abandon(is_interrupted=True)
    assert receive().id == 103
    connection.close()
    assert world.channels[-1].is_closed
    connection.close()
    for use in (
        receive,
        lambda: connection.call("GetJob", None),
        lambda: connection.acknowledger.add(Lease(0, 0, 0, 0)),
    ):
        with pytest.raises(ValueError, match="^the loader is closed$"):
            use()


def test_a_call_that_breaks_at_its_end_is_left(world: World) -> None:
    world.loads = [[opened(), end(), AWAY], [batch(1)]]
    connection = LoadConnection(Connecting("a:1"))
    connection.receive(request), connection.receive(request)
    connection.finish()
    assert world.channels[0].is_closed
    assert connection.receive(request).id == 101
    # It is another process's, here.
    connection.pid += 1
    connection.close()
    assert not world.channels[-1].is_closed and connection in load_connection._INHERITED
    load_connection._INHERITED.remove(connection)
    connection.pid -= 1
    connection.close()


def test_the_owner_that_a_server_names_is_asked_and_no_circle_is_gone_round(world: World) -> None:
    world.loads = [
        [redirect("b:1")],
        [opened(), redirect("c:1")],
        [batch(1)],
        [redirect("d:1")],
        [redirect("a:1")],
        [batch(2)],
    ]
    connection = LoadConnection(Connecting("a:1"))
    assert connection.receive(request).HasField("opened")
    assert [address for address, _, _ in world.started] == ["a:1", "b:1"]
    assert [each.is_closed for each in world.channels] == [True, False]
    # Another one later is no circle.
    assert connection.receive(request).id == 101
    assert world.started[-1][0] == "c:1"
    connection.leave()
    fails(
        lambda: connection.receive(request),
        "UNAVAILABLE",
        "d:1, which another server named, names a:1",
    )
    # It was lost: the next is the given one, and may be named again.
    assert connection.receive(request).id == 102
    assert world.started[-1][0] == "a:1"
    assert connection.longest_delay < 1
    connection.leave()
    world.loads = [[redirect("e:1")], [batch(3), end()], [batch(4)]]
    assert connection.receive(request).id == 103
    # A unary call may have been told of another one between two epochs.
    connection.receive(request)
    connection.finish()
    assert not world.channels[-1].is_closed
    connection._replicas.redirected("f:1")
    assert connection.receive(request).id == 104
    assert world.channels[-2].is_closed and world.channels[-1].address == "f:1"
    connection.close()


def test_several_servers_are_tried_in_turn(world: World) -> None:
    world.loads = [[AWAY], [Failure(grpc.StatusCode.CANCELLED, "left")], [WRONG], [batch(1)]]
    connection = LoadConnection(Connecting("a:1,b:1"))
    fails(lambda: connection.receive(request), "UNAVAILABLE", "away")
    connection.leave()
    for code, words in (("CANCELLED", "left"), ("NOT_FOUND", "no job")):
        fails(lambda: connection.receive(request), code, words)
        connection.leave()
    connection.receive(request)
    # Only who is away is left.
    assert [address for address, _, _ in world.started] == ["a:1", "b:1", "b:1", "b:1"]
    assert connection.describe("Load") == "Load at b:1"
    assert dict(world.channels[0].how["options"]).keys() >= {"grpc.min_reconnect_backoff_ms"}
    # One that is found silent is left like one that is away.
    world.loads = [[opened(), batch(1)], [batch(2)]]
    connection.leave()
    connection.receive(request)
    connection._silent_load = connection._load
    connection._cancel(connection._load)
    fails(lambda: connection.receive(request), "UNAVAILABLE", "b:1 does not answer")
    connection.leave()
    assert set(connection._replicas._losses) == {"a:1", "b:1"}
    connection.receive(request)
    assert world.started[-1][0] == "a:1"
    # It answers again.
    assert set(connection._replicas._losses) == {"b:1"}
    connection.close()


@pytest.mark.parametrize("address", ["a:1", "a:1,b:1"])
def test_each_wait_is_watched_by_a_number_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(load_connection, "Lane", Lane)
    connection = LoadConnection(Connecting(address))
    started: list[bool] = []
    monkeypatch.setattr(connection._silence, "start", lambda: started.append(True))
    waits: list[int] = []
    world.on_wait = lambda: waits.append(connection._silence.waiting)
    world.loads = [[opened(lane=OFFER), batch(1), end()]]
    connection.receive(request)
    Lane.made.items = ["zero", "one"]
    lane_receive = Lane.made.receive
    monkeypatch.setattr(Lane.made, "receive", lambda: (world.on_wait(), lane_receive())[1])
    for _ in range(4):
        connection.receive(request)
        assert connection._silence.waiting == 0
    connection.finish()
    assert connection._silence.waiting == 0
    # Two of them are by the lane, three by the call, and between them that the lane has no more.
    assert len(waits) == len(set(waits)) == 8 and 0 not in waits and None not in waits
    # A single server is not watched: nobody else could be asked.
    assert bool(started) is ("," in address)
    connection.close()


def test_batches_are_as_they_were_asked_for_where_protobuf_reads_them() -> None:
    message = batch(1)
    schema = message.batch.batch
    schema.tensors.add(name="x", dtype=1, shape=[2], data=bytes(2))
    for writable in (False, True):
        connection = LoadConnection(Connecting("a:1"), writable=writable)
        parsed = connection._parse(message.SerializeToString())
        assert parsed.tensors["x"].flags.writeable is writable
        connection.close()
    for most, gathers in ((0, 8), (10, 5), (1, 1)):
        made = LoadConnection(Connecting("a:1", max_in_flight=most))
        assert made.acknowledger._gather == gathers
        made.close()


def test_a_wait_may_be_ended_before_it_begins(world: World) -> None:
    world.loads = [[opened()], [batch(1)], [batch(2)]]
    connection = LoadConnection(Connecting("a:1"))
    connection.interrupt()
    fails(lambda: connection.receive(request), "UNAVAILABLE", "the wait for a batch was ended")
    assert world.started[0][2].is_cancelled
    connection.leave()
    connection.check()
    assert connection.receive(request).id == 101
    connection.interrupt()
    assert world.started[1][2].is_cancelled
    connection.leave()
    connection.interrupt()
    fails(
        lambda: connection.get_epoch(loader_pb2.GetEpochRequest()),
        "UNAVAILABLE",
        "the wait for the epoch was ended",
    )
    connection.check()
    world.answers = ["epoch"]
    assert connection.get_epoch(loader_pb2.GetEpochRequest()) == "epoch"
    assert [each.is_cancelled for each in world.questions] == [True, False]
    # Nobody waits for that one any more.
    connection.interrupt()
    assert not world.questions[-1].is_cancelled
    connection.close()


def test_unary_calls_are_tried_again_by_new_channels(world: World) -> None:
    connection = LoadConnection(Connecting("a:1,b:1", timeout=7.0))
    named = Failure(grpc.StatusCode.UNAVAILABLE, "another's")
    named.trailing_metadata = lambda: (("packhouse-owner", "c:1"),)
    world.answers = [AWAY, "one", "two", WRONG, "three", named, "four"]
    assert connection.call("GetJob", None) == "one" and len(world.slept) == 1
    assert connection.call("GetJob", None) == "two"
    fails(lambda: connection.call("GetJob", None), "NOT_FOUND", "no job")
    assert connection.call("GetEpoch", None) == "three"
    assert connection.call("GetEpoch", None) == "four"
    places = [address for address, *_ in world.calls]
    assert places == ["a:1", "b:1", "b:1", "b:1", "b:1", "b:1", "c:1"]
    assert {timeout for *_, timeout, _ in world.calls} == {7.0}
    assert [(each.address, each.is_closed) for each in world.channels] == [
        ("a:1", True),
        ("b:1", True),
        ("c:1", False),
    ]
    assert not world.channels[0].how["reads_on_callers_thread"]
    connection.close()
    assert world.channels[-1].is_closed


def test_a_channel_that_others_use_is_closed_by_the_last_of_them(world: World) -> None:
    connection = LoadConnection(Connecting("a:1"))
    with connection._lock:
        first = connection._take_calls("a:1")
        assert connection._take_calls("a:1") is first
        other = connection._take_calls("b:1")
    assert not first.channel.is_closed and other is not first  # type: ignore[attr-defined]
    connection._leave_calls(first, True)
    assert not first.channel.is_closed  # type: ignore[attr-defined]
    connection._leave_calls(first, False)
    assert first.channel.is_closed  # type: ignore[attr-defined]
    # Not while it is the one that is used next.
    connection._leave_calls(other, False)
    assert not other.channel.is_closed  # type: ignore[attr-defined]
    with connection._lock:
        assert connection._take_calls("b:1") is other
    connection._leave_calls(other, True)
    assert other.channel.is_closed  # type: ignore[attr-defined]
    connection.close()


def test_what_cannot_be_connected_is_an_error_of_the_arguments_only_at_first(world: World) -> None:
    connection = LoadConnection(Connecting("a:1"))
    world.failure = OSError("no file")
    with pytest.raises(OSError, match="no file"):
        connection.receive(request)
    world.failure = None
    world.answers = ["one"]
    connection.call("GetJob", None)
    for failure in (OSError("no file"), ValueError("no file")):
        world.failure = failure
        fails(
            lambda: connection.receive(request),
            "UNAVAILABLE",
            "no connection to a:1 can be made: no file",
        )
    world.failure = KeyError("other")
    with pytest.raises(KeyError):
        connection.receive(request)
    connection.close()


def test_whether_a_server_lives_is_what_it_answers(world: World) -> None:
    connection = LoadConnection(Connecting("a:1,b:1"))
    world.loads = [[opened()]]
    connection.receive(request)
    for answer, lives in (
        (b"", True),
        (WRONG, True),
        (AWAY, False),
        (Failure(grpc.StatusCode.DEADLINE_EXCEEDED, ""), False),
        (ValueError(), True),
    ):
        world.answers = [answer]
        assert connection._lives() is lives
        assert world.calls[-1][0] == "a:1" and world.calls[-1][2:] == (2.0, True)
        # The next question goes by a new channel only after no answer.
        assert (connection._calls is None) is not lives
    connection._replicas.redirected("a:1")
    world.answers = [b""]
    assert connection._lives()
    connection._replicas.redirected("b:1")
    assert not connection._lives() and world.answers == []
    connection._replicas.redirected("a:1")
    connection.close()
    assert connection._lives()


class Lane:
    """A lane that tells these, after one message by the call."""

    num_before = 1
    made: Lane

    def __init__(self, offer: Any, reader: Any, parse: Any) -> None:
        self.items: list[Any] = []
        self.has_ended = False
        self.log: list[str] = []
        Lane.made = self

    def receive(self) -> Any:
        return self.items.pop(0) if self.items else None

    def close(self) -> None:
        self.log.append("close")

    def interrupt(self) -> None:
        self.log.append("interrupt")


OFFER = loader_pb2.Lane(socket_path="/nowhere/lane", token=b"t")


def test_batches_come_by_the_lane_until_it_says_that_the_next_comes_by_the_call(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_connection, "Lane", Lane)
    world.asks = True
    world.loads = [
        [opened(lane=OFFER), batch(1), end()],
        [opened(lane=OFFER), batch(5)],
        [opened(), batch(6)],
    ]
    connection = LoadConnection(Connecting("a:1"))
    assert connection.receive(request).HasField("opened")
    assert world.started[0][1].lane and connection.transport == "lane"
    lane = Lane.made
    lane.items = ["zero", None, "two"]
    assert connection.receive(request) == "zero"
    received = connection.receive(request)
    assert received.id == 101
    assert connection.receive(request) == "two"
    connection.interrupt()
    assert lane.log == ["interrupt"]
    connection.check()
    world.started[0][2].is_cancelled = False
    assert connection.receive(request).HasField("end_of_epoch")
    connection.finish()
    assert lane.log == ["interrupt", "close"] and connection.transport == "lane"
    # One that ends without a word has lost batches: the call that goes on is none.
    connection.receive(request)
    Lane.made.has_ended = True
    fails(lambda: connection.receive(request), "UNAVAILABLE", "the lane ended before its call did")
    connection.leave()
    assert connection.receive(request).HasField("opened")
    assert connection.transport == "bytes"
    assert connection.receive(request).id == 106
    # Who is woken asks the call, which ends.
    connection.close()
    world.loads = [[opened(lane=OFFER), batch(5)]]
    connection = LoadConnection(Connecting("a:1"))
    connection.receive(request)
    Lane.made.items = ["zero"]
    connection.interrupt()
    fails(lambda: connection.receive(request), "UNAVAILABLE", "the wait for a batch was ended")
    connection.leave()
    assert Lane.made.log[-1] == "close"
    connection.close()


@pytest.mark.parametrize(
    "offer, failure, code, why",
    [
        (None, None, "FAILED_PRECONDITION", "the server does not know lanes"),
        (loader_pb2.Lane(refusal="it is full"), None, "FAILED_PRECONDITION", "it is full"),
        (OFFER, socket.timeout(), "FAILED_PRECONDITION", "the server does not take the connection"),
        (OFFER, ConnectionRefusedError(1, "refused"), "UNAVAILABLE", "/nowhere/lane: refused"),
        (OFFER, FileNotFoundError(2, "no file"), "FAILED_PRECONDITION", "/nowhere/lane: no file"),
        (OFFER, OSError("odd"), "FAILED_PRECONDITION", "/nowhere/lane: odd"),
        (OFFER, ConnectionAbortedError(), "", ""),
        (OFFER, ConnectionResetError(), "", ""),
    ],
)
def test_without_a_lane_batches_come_by_the_call_unless_one_is_required(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
    offer: Any,
    failure: Any,
    code: str,
    why: str,
) -> None:
    def no_lane(*_: Any) -> Any:
        raise failure

    monkeypatch.setattr(load_connection, "Lane", no_lane)
    world.asks = True
    for lane in ("auto", "required"):
        world.loads = [[opened(lane=offer), batch(1)], [batch(2)]]
        connection = LoadConnection(Connecting("a:1", lane=lane))
        if lane == "required" and code:
            fails(
                lambda: connection.receive(request), code, f"lane 'required': a:1 gives none: {why}"
            )
        else:
            assert connection.receive(request).HasField("opened")
            assert connection.receive(request).id == 101
            assert connection.transport == "bytes"
        connection.leave()
        # A server that was too slow is not asked again, unless one must be.
        connection.receive(request)
        avoids = isinstance(failure, TimeoutError) and lane == "auto"
        assert world.started[-1][1].lane is not avoids
        connection.close()
    # Where calls are relayed, they are made here from then on.
    if code:
        relay = tmp_path / "calls"
        relay.touch()
        connection = LoadConnection(Connecting("a:1", relay=str(relay)))
        monkeypatch.setattr(
            connection._relay,
            "channel",
            lambda address, options: world._make(address, relayed=True),
        )
        world.loads = [[opened(lane=offer)], [opened(lane=offer), batch(1)]]
        fails(lambda: connection.receive(request), "UNAVAILABLE", f"a:1 gives no lane: {why}")
        assert world.channels[-1].how == {"relayed": True}
        connection.leave()
        assert connection.receive(request).HasField("opened")
        assert world.channels[-1].how["reads_on_callers_thread"]
        connection.close()


@pytest.mark.parametrize(
    "error, foreign",
    [
        (None, False),
        (PackhouseError(grpc.StatusCode.UNKNOWN, ""), False),
        (ValueError(), False),
        (GeneratorExit(), False),
        (KeyboardInterrupt(), True),
        (RuntimeError(), True),
    ],
)
def test_what_may_come_in_the_midst_of_anything(error: Any, foreign: bool) -> None:
    assert is_foreign(error) is foreign


def test_a_call_that_has_ended_is_heard_out() -> None:
    state = SimpleNamespace(due={1, 2})
    load = SimpleNamespace(_state=state, _consume_next_event=lambda: state.due.pop())
    load_connection._drain(load)
    assert state.due == set()
    load_connection._drain(SimpleNamespace())


def test_safe_calls_ask_each_server_once_and_then_wait_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    home = Channel(world, "a:1", {})
    servers = Servers(home, "a:1", lambda to: world._make(to), ["b:1", "a:1", "c:1"])  # type: ignore[arg-type, return-value]
    safe = sorted(servers._safe)[0]
    world.answers = [AWAY, AWAY, AWAY, "answer"]
    assert servers.unary_unary(safe)(None, timeout=5.0, wait_for_ready=True) == "answer"
    assert [(address, waits) for address, _, _, waits in world.calls] == [
        ("a:1", False),
        ("c:1", False),
        ("b:1", False),
        ("a:1", True),
    ]
    assert [timeout for *_, timeout, _ in world.calls[:3]] == [5.0] * 3
    assert 0 < world.calls[3][2] <= 5.0
    # What another try would not mend is raised at once, and so is the last failure.
    named = Failure(grpc.StatusCode.UNAVAILABLE, "another's")
    named.trailing_metadata = lambda: (("packhouse-owner", "c:1"),)
    for failure in (WRONG, named):
        world.answers = [failure]
        with pytest.raises(Failure):
            servers.unary_unary(safe)(None, timeout=5.0)
    world.answers = [AWAY] * 4
    with pytest.raises(Failure):
        servers.unary_unary(safe)(None, timeout=5.0)
    assert world.answers == []
    # All others go to the first.
    servers.leave("a:1")
    world.answers = ["answer"]
    assert servers.unary_unary("/packhouse.v1.DatasetService/CreateDataset")(None) == "answer"
    assert world.calls[-1][0] == "a:1"
    servers.leave("elsewhere")
    assert servers.current()[0] == "c:1" and servers.count == 3
    servers.close()
    assert not home.is_closed and all(each.is_closed for each in world.channels)
    servers.close()
    with pytest.raises(ValueError, match="^the client is closed$"):
        servers.current()
    assert Servers(home, "a:1", lambda to: world._make(to), ["a:1"])._safe == frozenset()  # type: ignore[arg-type, return-value]
