"""Laws of a loader beside a connection that says what a test wants: no server, no gRPC."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pickle
import threading
import warnings
from typing import Any, Callable

import grpc
import pytest

from packhouse import GraphSchema, Loader, PackhouseError
from packhouse.base.errors import EpochBegunError, EpochFinishedError
from packhouse.data.batch import received_by_protobuf
from packhouse.epochs import loader as loader_module
from packhouse.epochs.settings import EpochBegunWarning, LoaderStart
from packhouse.planning.pack_options import OversizeWarning
from packhouse.v1 import batch_pb2, loader_pb2, packing_pb2

SIZES = GraphSchema(("nodes",))


def away(code: str = "UNAVAILABLE") -> PackhouseError:
    return PackhouseError(grpc.StatusCode[code], f"it is {code}")


def opened(session: int = 2, **fields: Any) -> Any:
    epoch = loader_pb2.Epoch(job="j", num_batches=3, start_cursor="start")
    epoch.share.num_steps = 3
    fields = {"num_steps": 3, "cursor": "generation", "generation": 7, "epoch": epoch, **fields}
    message = loader_pb2.LoadOpened(schema=SIZES.to_proto(), session=session, **fields)
    return loader_pb2.LoadResponse(opened=message)


def batch(step: int) -> Any:
    message = batch_pb2.Batch(id=100 + step, step=step, real_rows=[0, 0], rows=[0, 0])
    return received_by_protobuf(message, loader_pb2.LoadedBatch(batch=message, shape=4))


def end() -> Any:
    return loader_pb2.LoadResponse(end_of_epoch=loader_pb2.EndOfEpoch())


def begun(num_done: int, num_batches: int = 3, **share: Any) -> Any:
    epoch = loader_pb2.Epoch(
        job="j", num_batches=num_batches, num_done=num_done, start_cursor="start"
    )
    epoch.share.CopyFrom(
        loader_pb2.EpochShare(num_steps=num_batches, num_steps_done=num_done, **share)
    )
    return epoch


class Connection:
    """Says what it was told to, and notes what is done with it."""

    longest_delay = 1.0

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.epochs: list[Any] = []
        self.epoch = opened().opened.epoch
        self.sessions = 1
        self.log: list[Any] = []
        self.requests: list[Any] = []
        self.loads: list[Any] = []
        self.pid = os.getpid()
        self.acknowledger = self
        self.cursor = "now"
        self.transport = "lane"
        self.failure: BaseException | None = None
        self._runs = False

    def receive(self, make_request: Callable[[], Any]) -> Any:
        if not self._runs:
            self.loads.append(make_request())
            self._runs = True
        each = self.script.pop(0)
        if callable(each):
            each = each()
        if isinstance(each, BaseException):
            raise each
        return each

    def get_epoch(self, request: Any) -> Any:
        self.requests.append(("get_epoch", request))
        each = self.epochs.pop(0) if self.epochs else self.epoch
        if isinstance(each, BaseException):
            raise each
        return each

    def call(self, method: str, request: Any) -> Any:
        self.requests.append((method, request))
        if method == "GetEpoch":
            return self.epoch
        if method == "GetJob":
            return loader_pb2.Job(epochs=[loader_pb2.JobEpoch(num_sessions=self.sessions)])
        if method == "ReportStep":
            return loader_pb2.ReportStepResponse(cursor=f"step {request.steps}")
        return loader_pb2.AcknowledgeResponse(cursor="of all")

    def describe(self, method: str) -> str:
        return f"{method} at nowhere"

    def check(self) -> None:
        self._fail()

    def _fail(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def leave(self) -> None:
        if self._runs:
            self.abandon()

    def abandon(self, *, is_interrupted: bool = False) -> None:
        self._runs = False
        self.log.append("interrupted" if is_interrupted else "abandon")

    def finish(self) -> None:
        self._runs = False
        self.log.append("finish")

    def interrupt(self) -> None:
        self.log.append("interrupt")

    def close(self) -> None:
        self.log.append("close")

    def add(self, lease: Any) -> None:
        self._fail()
        self.log.append(lease.step)

    def renew(self, *who: int) -> None:
        self.log.append(who)

    def flush(self) -> None:
        self._fail()
        self.log.append("flush")

    def hurry(self) -> None:
        self.log.append("hurry")

    def reset(self) -> None:
        self.log.append("reset")

    def take(self) -> list[Any]:
        taken, self.log = self.log, []
        return taken


class World:
    """Makes loaders of these connections."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.connections: list[Connection] = []
        self.made: list[Any] = []
        self.slept: list[float] = []
        patched.setattr(loader_module, "LoadConnection", self._connect)
        patched.setattr(loader_module.time, "sleep", self.slept.append)

    def _connect(self, connecting: Any, *, writable: bool) -> Connection:
        self.made.append((connecting, writable))
        return self.connections.pop(0)

    def loader(self, *connections: Connection, **arguments: Any) -> Loader:
        self.connections = list(connections)
        arguments = {"dataset": "d", "job": "j", "limits": {"nodes": 3}, **arguments}
        return Loader("nowhere:1", **arguments)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def whole() -> list[Any]:
    return [opened(), batch(0), batch(1), batch(2), end()]


def test_batches_are_acknowledged_when_the_next_is_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader_module.EpochRows, "of", lambda epoch: epoch.num_batches)
    connection = Connection(*whole())
    loader = world.loader(connection, max_in_flight=5, attempt="a", writable=True)
    assert loader.transport == "bytes" and loader.cursor == "" and loader.handed is None
    assert world.made == []
    first = next(loader)
    assert (first.step, first.generation, first.session, first.shape) == (0, 7, 2, 4)
    assert first.epoch_rows == 3
    assert loader.handed is first
    assert loader.transport == "lane" and loader.cursor == "now"
    ((connecting, writable),) = world.made
    assert writable and connecting.max_in_flight == 5
    ((method, asked),) = connection.requests
    (load,) = connection.loads
    for request in (asked, load):
        assert (request.epoch.job, request.epoch.epoch, request.attempt, request.cursor) == (
            "j",
            0,
            "a",
            "",
        )
        assert (request.ranked.rank, request.ranked.num_ranks) == (0, 1)
        assert not request.HasField("generation")
    assert method == "get_epoch" and load.max_in_flight == 5
    assert connection.take() == [(0, 7, 2)]
    assert next(loader).step == 1
    assert connection.take() == [0]
    assert not loader.has_given_all
    assert next(loader).step == 2
    assert loader.has_given_all and not loader.has_ended
    assert connection.take() == [1]
    assert next(loader, None) is None
    # The last one that is awaited goes at once: the server waits for it.
    assert connection.take() == [2, "hurry", "finish", "flush"]
    assert loader.has_ended
    with pytest.raises(ValueError, match="^epoch 0 has ended: call set_epoch$"):
        iter(loader)
    assert next(loader, None) is None and connection.script == []
    loader.close()
    assert loader.transport == "lane" and loader.cursor == ""
    assert connection.take() == ["close"]
    loader.close()
    assert connection.take() == []


def test_what_is_looked_at_is_still_ahead(world: World) -> None:
    connection = Connection(*whole())
    loader = world.loader(connection)
    second = loader.peek(1)
    assert second is not None and second.step == 1
    assert len(connection.script) == 2
    first = loader.peek()
    assert first is not None and first.step == 0
    assert next(loader) is first
    # Nothing that was not given out is acknowledged.
    assert connection.take() == [(0, 7, 2)]
    assert loader.peek() is second
    assert connection.take() == [0]
    assert loader.peek(1) is not None and loader.peek(2) is None
    assert connection.script[0].HasField("end_of_epoch")
    made = loader.hand_over(second, "made of it")
    assert made == "made of it" and loader.handed is second
    assert [each.step for each in loader] == [2]
    assert loader.peek() is None and loader.peek(5) is None


def test_what_failed_is_tried_again_and_nothing_is_given_twice(world: World) -> None:
    connection = Connection(
        away(),
        opened(),
        batch(0),
        away(),
        opened(3),
        batch(0),
        batch(1),
        away(),
        away(),
        opened(4, generation=8),
        batch(0),
        batch(1),
        batch(2),
        end(),
    )
    loader = world.loader(connection)
    assert [(each.step, each.generation, each.session) for each in loader] == [
        (0, 7, 2),
        (1, 7, 3),
        (2, 7, 4),
    ]
    assert len(world.slept) == 4 and all(each > 0 for each in world.slept)
    assert [load.HasField("generation") and load.generation for load in connection.loads] == [
        False,
        False,
        7,
        7,
        7,
    ]
    renewed = [each for each in connection.log if isinstance(each, tuple)]
    assert renewed == [(0, 7, 2), (0, 7, 3), (0, 8, 4)]
    assert connection.log.count("abandon") == 4
    # It was asked once how the epoch is.
    assert len(connection.requests) == 1


def test_what_no_try_mends_is_raised(world: World) -> None:
    for failure, how in ((away("NOT_FOUND"), "abandon"), (KeyboardInterrupt(), "interrupted")):
        connection = Connection(opened(), failure, opened(), batch(0))
        loader = world.loader(connection)
        with pytest.raises(type(failure)):
            next(loader)
        assert world.slept == [] and connection.take()[-1] == how
        assert next(loader).step == 0
        connection = Connection(failure, opened())
        loader = world.loader(connection)
        with pytest.raises(type(failure)):
            loader.num_steps_done
        assert connection.take()[-1] == how
        assert loader.num_steps_done == 0
    # What acknowledging has failed with comes first, also while a server is away.
    connection = Connection(opened(), batch(0))
    loader = world.loader(connection)
    connection.failure = away("FAILED_PRECONDITION")
    with pytest.raises(PackhouseError, match="it is FAILED_PRECONDITION"):
        next(loader)

    def fails() -> PackhouseError:
        connection.failure = away("FAILED_PRECONDITION")
        return away()

    connection = Connection(opened(), fails)
    with pytest.raises(PackhouseError, match="it is FAILED_PRECONDITION"):
        next(world.loader(connection))
    assert world.slept == []


def test_a_wait_that_is_left_ends_and_takes_nothing(world: World) -> None:
    def leave() -> PackhouseError:
        loader.interrupt()
        return away()

    connection = Connection(opened(), leave, opened(), batch(0))
    loader = world.loader(connection)
    with pytest.raises(PackhouseError, match="the wait for a batch was left") as failed:
        next(loader)
    assert failed.value.code is grpc.StatusCode.CANCELLED
    assert world.slept == [] and "interrupt" in connection.log
    assert next(loader).step == 0

    async def first() -> int:
        async for each in loader:
            return each.step
        return -1

    connection = Connection(*whole())
    loader = world.loader(connection)
    assert asyncio.run(first()) == 0
    assert asyncio.run(first()) == 1
    # One that is gone is left, and those of others go on.
    waits = loader_module._AsyncWaits(loader)
    waits.leave()
    assert connection.log[-1] == "interrupt"
    with pytest.raises(PackhouseError, match="the wait for a batch was left"):
        waits.peek()
    connection.script = [opened(), batch(0), batch(1), batch(2), end()]
    assert next(loader).step == 2


def test_who_waits_in_another_thread_is_interrupted_before_the_stream_ends(world: World) -> None:
    connection = Connection(*whole())
    loader = world.loader(connection)
    next(loader)
    holds, interrupted = threading.Event(), threading.Event()

    def wait() -> None:
        with loader._reading:
            holds.set()
            interrupted.wait(20)

    connection.interrupt = interrupted.set  # type: ignore[method-assign]
    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    holds.wait(20)
    loader.set_epoch(1)
    assert interrupted.is_set()
    waiting.join(20)
    # The lock is free again.
    assert loader._reading.acquire(blocking=False)
    taken: list[bool] = []
    other = threading.Thread(target=lambda: taken.append(loader._reading.acquire(timeout=0.01)))
    other.start()
    other.join()
    loader._reading.release()
    assert taken == [False]
    other = threading.Thread(target=lambda: taken.append(loader._reading.acquire(timeout=9)))
    other.start()
    other.join()
    assert taken == [False, True]


def test_manual_acknowledgements_end_an_epoch_without_the_servers_word(world: World) -> None:
    connection = Connection(*whole()[:-1])
    loader = world.loader(connection, acknowledge="manual")
    given = list(loader)
    assert len(given) == 3 and connection.script == []
    assert connection.take() == [(0, 7, 2), "flush", "abandon"]
    with pytest.raises(ValueError, match="step 1 is acknowledged, step 0 before it is not"):
        loader.acknowledge(given[1])
        loader.state_dict()
    loader.acknowledge(given[0])
    assert connection.take() == [1, "flush", 0]
    assert loader.state_dict() == {"epoch": 0, "cursor": "step 2"}
    loader.acknowledge(given[2])
    assert connection.take() == ["flush", 2, "hurry"]
    # Dynamic workers wait for the others.
    connection = Connection(*whole())
    loader = world.loader(connection, acknowledge="manual", worker="w")
    assert len(list(loader)) == 3
    assert connection.take() == [(0, 7, 2), "finish", "flush"]
    # An estimate says not which is the last one.
    connection = Connection(opened(num_steps_is_estimate=True))
    with pytest.raises(
        ValueError, match="^samples: acknowledging by hand, and reading in other processes, need"
    ):
        next(world.loader(connection, acknowledge="manual"))
    assert "abandon" in connection.log
    for arguments in ({"acknowledge": "manual", "worker": "w"}, {}):
        loader = world.loader(
            Connection(opened(num_steps_is_estimate=True), *whole()[1:]), **arguments
        )
        assert len(list(loader)) == 3


def test_an_epoch_that_is_set_leaves_the_one_before(world: World) -> None:
    connection = Connection(*whole()[:-1], *whole(), *whole(), *whole())
    loader = world.loader(connection)
    next(loader), next(loader)
    connection.take()
    loader.set_epoch(0)
    assert connection.take() == []
    next(loader)
    connection.take()
    # All were given out: the last one is done.
    loader.set_epoch(1)
    assert connection.take() == [2, "hurry", "flush", "abandon"]
    assert loader.epoch == 1 and loader.handed is None
    assert next(loader).step == 0
    assert connection.loads[-1].epoch.epoch == 1
    connection.take()
    loader.set_epoch(2)
    assert connection.take() == ["flush", "abandon"]
    connection.script = [*whole(), *whole()]
    assert len(list(loader)) == 3
    assert loader._has_ended_one
    loader.set_epoch(3)
    assert loader._has_ended_one
    loader.set_epoch(3)
    loader.set_epoch(2)
    assert not loader._has_ended_one
    with pytest.raises(ValueError, match="^epoch"):
        loader.set_epoch(-1)
    # One that has ended is begun anew.
    assert len(list(loader)) == 3
    loader.set_epoch(2)
    assert not loader.has_ended and not loader._has_ended_one
    assert iter(loader) is loader


def test_closing_acknowledges_the_last_step_unless_an_exception_is_under_way(world: World) -> None:
    def at_the_end(**arguments: Any) -> tuple[Loader, Connection]:
        connection = Connection(*whole())
        loader = world.loader(connection, **arguments)
        next(loader), next(loader), next(loader)
        connection.take()
        return loader, connection

    loader, connection = at_the_end()
    with loader:
        pass
    assert connection.take() == [2, "hurry", "abandon", "close"]
    loader, connection = at_the_end()
    with pytest.raises(KeyError), loader:
        raise KeyError
    assert connection.take() == ["abandon", "close"]
    loader, connection = at_the_end(acknowledge="manual")
    loader.close()
    assert connection.take() == ["abandon", "close"]
    loader, connection = at_the_end()
    connection.failure = away()
    loader.close()
    assert connection.take() == ["abandon", "close"]
    # In a process that was forked, it is left alone, but for its own end.
    loader, connection = at_the_end()
    connection.pid += 1
    for use in (
        loader.flush,
        loader.look_again,
        loader.peek,
        loader.epoch_info,
        lambda: loader.set_epoch(1),
    ):
        with pytest.raises(
            RuntimeError,
            match=f"^this loader was connected by process {connection.pid} before a fork",
        ):
            use()
    loader.close()
    assert connection.take() == ["close"]
    # Using it again connects again; and one that is dropped is closed, once.
    loader, connection = at_the_end()
    loader.close()
    connection.take()
    again = Connection(*whole())
    world.connections = [again]
    loader.look_again()
    loader.flush()
    loader.set_epoch(1)
    assert next(loader).step == 0 and len(world.connections) == 0
    again.take()
    del loader
    assert again.take() == ["close"] and connection.take() == []


def test_what_is_looked_at_again_comes_fresh(world: World) -> None:
    connection = Connection(*whole()[:-2], opened(3), batch(1), batch(2), end())
    loader = world.loader(connection)
    next(loader)
    loader.peek(0)
    old = loader.peek()
    assert old is not None and old.session == 2
    connection.take()
    loader.look_again()
    assert connection.take() == ["abandon"]
    assert [(each.step, each.session) for each in loader] == [(1, 3), (2, 3)]


def test_states_are_of_the_steps_that_were_given_out(world: World) -> None:
    connection = Connection(opened(num_steps=6, num_steps_done=3), batch(3), batch(4), batch(5))
    loader = world.loader(connection)
    assert loader.state_dict() == {"epoch": 0, "cursor": "step 3"}
    assert (
        loader.num_steps_done == 3 and len(loader) == 3 and loader.generation_cursor == "generation"
    )
    next(loader), next(loader)
    assert not loader.has_given_all
    connection.take()
    assert loader.state_dict() == {"epoch": 0, "cursor": "step 5"}
    assert connection.take() == [4, "flush"]
    method, request = connection.requests[-1]
    assert (method, request.job, request.epoch, request.generation) == ("ReportStep", "j", 0, 7)
    assert loader.cursor_at_step(9) == "step 9"
    loader.acknowledge_in_hand()
    assert connection.take() == []
    next(loader)
    assert loader.has_given_all
    connection = Connection(*whole())
    loader = world.loader(connection, worker="w", rank_group=3)
    next(loader)
    assert loader.state_dict() == {"epoch": 0, "cursor": "of all"}
    method, request = connection.requests[-1]
    assert (method, request.job, request.epoch, request.generation, request.session) == (
        "Acknowledge",
        "j",
        0,
        7,
        2,
    )
    assert (connection.loads[0].dynamic.worker, connection.loads[0].dynamic.rank_group) == ("w", 3)


def test_a_state_is_loaded_with_the_attempt_that_it_needs(world: World) -> None:
    connection = Connection(*whole(), *whole(), *whole())
    loader = world.loader(connection, attempt="a")
    loader.load_state_dict({"epoch": 4, "cursor": "c"})
    assert connection.log == [] and loader.start == LoaderStart(4, "c", "a")
    next(loader)
    # It is not asked how the epoch is: a state says so.
    assert connection.requests == [] and connection.loads[-1].cursor == "c"
    with pytest.raises(ValueError, match="^attempt 'a' has loaded already: give a new one$"):
        loader.load_state_dict({"epoch": 4, "cursor": "c"})
    loader._has_ended_one = True
    connection.take()
    loader.load_state_dict({"epoch": 5, "cursor": "d"}, "b")
    assert connection.take() == ["abandon", "reset"] and not loader._has_ended_one
    assert loader.start == LoaderStart(5, "d", "b")
    loader.load_state_dict({"epoch": 6, "cursor": "e"})
    assert loader.start.attempt == "b" and loader.settings.attempt == "a"
    loader = world.loader(Connection(*whole()))
    loader.load_state_dict({"epoch": 4, "cursor": "c"})
    drawn = loader.start.attempt
    assert len(drawn) == 32 and pickle.loads(pickle.dumps(loader)).start.attempt == drawn
    next(loader)
    assert pickle.loads(pickle.dumps(loader))._attempt_is_used
    loader.load_state_dict({"epoch": 4, "cursor": "c"}, "b")
    assert loader.start.attempt == "b"
    start = LoaderStart(9, "d", "e", 5)
    other = Loader.of_settings(loader.settings, start)
    assert other.settings is loader.settings and other.start is start and other.epoch == 9
    # A reader joins what its trainer has looked at.
    connection = Connection(opened(epoch=begun(3)), batch(0))
    world.connections = [connection]
    other = Loader.of_settings(dataclasses.replace(loader.settings, looks_at_epoch=False), start)
    assert next(other).step == 0 and connection.requests == []
    (load,) = connection.loads
    assert (load.generation, load.cursor, load.attempt, load.epoch.epoch) == (5, "", "e", 9)
    connection = Connection(opened(), batch(0))
    world.connections = [connection]
    assert next(Loader.of_settings(loader.settings, start)).step == 0 and connection.requests == []
    loader = world.loader(rank=0, num_ranks=2)
    loader.load_state_dict({"epoch": 4, "cursor": "c"})
    assert loader.start.attempt == ""
    loader = world.loader(worker="w")
    with pytest.raises(ValueError, match="^dynamic workers need an attempt to load a state$"):
        loader.load_state_dict({"epoch": 4, "cursor": "c"})
    assert loader.start == LoaderStart()
    loader._has_ended_one = True
    copy = pickle.loads(pickle.dumps(loader))
    assert copy._has_ended_one and copy.settings.sharing == loader.settings.sharing
    assert repr(copy) == repr(loader) == "Loader('nowhere:1', job='j', dataset='d', epoch=0)"


def test_len_is_what_would_come(world: World) -> None:
    connection = Connection(opened(num_steps=9, num_steps_done=2))
    connection.epoch = begun(0, 4)
    loader = world.loader(connection)
    assert len(loader) == 4 and connection.loads == []
    ((method, request),) = connection.requests
    assert method == "GetEpoch" and request.ranked.num_ranks == 1
    # Where something is done, it is opened, which says why it may not be loaded.
    connection.epoch = begun(1, 4)
    with pytest.raises(EpochBegunError):
        len(loader)
    for arguments, state in (({"worker": "w"}, False), ({}, True)):
        connection = Connection(opened(epoch=begun(0)), batch(0))
        connection.epoch = begun(1, 4)
        loader = world.loader(connection, **arguments)
        if state:
            loader.load_state_dict({"epoch": 0, "cursor": "c"})
        assert len(loader) == 3 and connection.loads == []
        connection.epoch = begun(0)
        next(loader)
        (load,) = connection.loads
        assert load.max_in_flight == load.dynamic.rank_group == 0
    loader = world.loader(Connection(opened(num_steps=9, num_steps_done=2)), on_existing="resume")
    assert loader.num_steps_done == 2
    assert len(loader) == 7


@pytest.mark.parametrize("is_over", [False, True])
def test_an_epoch_that_was_begun_is_refused_resumed_or_loaded_anew(
    world: World, is_over: bool
) -> None:
    found = begun(3 if is_over else 1)
    error = EpochFinishedError if is_over else EpochBegunError
    connection = Connection(*whole())
    connection.epoch = found
    with pytest.raises(error, match="before this loader came to it"):
        next(world.loader(connection))
    assert connection.loads == []
    # Only the stream says so.
    connection = Connection(opened(epoch=found))
    connection.epochs = [away("NOT_FOUND")]
    with pytest.raises(error):
        next(world.loader(connection))
    assert "abandon" in connection.log
    connection = Connection(opened(epoch=found), batch(0))
    assert next(world.loader(connection, on_existing="resume")).step == 0
    assert connection.requests == []
    for arguments, is_drawn in (
        ({}, True),
        ({"attempt": "a"}, False),
        ({"rank": 0, "num_ranks": 2}, False),
    ):
        connection = Connection(opened(epoch=begun(0)), batch(0))
        connection.epochs = [found]
        loader = world.loader(connection, on_existing="restart", **arguments)
        assert next(loader).step == 0
        (load,) = connection.loads
        assert load.cursor == "start"
        assert (len(load.attempt) == 32) is is_drawn and (
            is_drawn or load.attempt == arguments.get("attempt", "")
        )
        # Also if that is seen by loading.
        connection = Connection(opened(epoch=found), opened(epoch=begun(0)), batch(0))
        connection.epochs = [away("NOT_FOUND")]
        loader = world.loader(connection, on_existing="restart", **arguments)
        assert next(loader).step == 0
        assert [load.cursor for load in connection.loads] == ["", "start"]
    if is_over:
        # It was restarted, and is over again: by whoever has the same attempt.
        connection = Connection(opened(epoch=found))
        connection.epochs = [found]
        with pytest.raises(EpochFinishedError, match="by attempt 'a' too: name a new attempt"):
            next(world.loader(connection, on_existing="restart", attempt="a"))
    # A state says so itself.
    connection = Connection(opened(epoch=found), end())
    loader = world.loader(connection)
    loader.load_state_dict({"epoch": 0, "cursor": "c"})
    assert list(loader) == []


def test_what_other_ranks_have_done_says_nothing(world: World) -> None:
    # This rank's steps are done, and others' are not; or something is left for it; or none are known.
    for share in (
        {"num_steps": 0, "num_steps_done": 0},
        {"num_steps": 2},
        {"num_steps_is_estimate": True},
    ):
        epoch = loader_pb2.Epoch(
            num_batches=5, num_done=5 if "num_steps" not in share or share["num_steps"] else 2
        )
        epoch.share.CopyFrom(loader_pb2.EpochShare(**share))
        connection = Connection(opened(epoch=epoch), batch(0))
        connection.epoch = epoch
        assert next(world.loader(connection, rank=1, num_ranks=2)).step == 0
    # Without batches there is nothing to be over.
    epoch = loader_pb2.Epoch()
    connection = Connection(opened(epoch=epoch), end())
    connection.epoch = epoch
    assert list(world.loader(connection)) == []


def test_dynamic_workers_that_come_late_are_told_unless_others_load(world: World) -> None:
    found = begun(1)

    def come(**arguments: Any) -> tuple[Loader, Connection]:
        connection = Connection(opened(epoch=found), batch(0))
        connection.epoch = found
        return world.loader(connection, worker="w", **arguments), connection

    loader, connection = come()
    with pytest.warns(
        EpochBegunWarning,
        match="before this loader came to it, and nobody else loads it: 1 of its 3",
    ) as told:
        next(loader)
    assert told[0].filename == __file__ and len(told) == 1
    assert [method for method, _ in connection.requests] == ["get_epoch", "GetJob"]
    assert connection.requests[-1][1].job == "j"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader, connection = come()
        connection.sessions = 2
        next(loader)
        next(come(on_existing="resume")[0])
        for found in (begun(1), begun(3)):
            loader, _ = come()
            loader._has_ended_one = True
            next(loader)
    loader, _ = come()
    with pytest.raises(EpochFinishedError):
        next(loader)
    loader, _ = come(on_existing="restart")
    with pytest.raises(EpochFinishedError, match="dynamic workers need an attempt"):
        next(loader)


def test_how_the_epoch_is_is_asked_until_it_is_known(world: World) -> None:
    for failure, is_tried_again in (
        (away(), True),
        (away("DEADLINE_EXCEEDED"), False),
        (away("NOT_FOUND"), False),
    ):
        connection = Connection(opened(), batch(0), away(), opened(), batch(1))
        connection.epochs = [failure]
        loader = world.loader(connection)
        next(loader), next(loader)
        assert len(connection.requests) == 1 + is_tried_again
        assert len(world.slept) == 1 + is_tried_again
        del world.slept[:]
    # Loading has been tried: the epoch is not asked for once more.
    connection = Connection(away(), opened(), batch(0))
    connection.epochs = [away("NOT_FOUND")]
    next(world.loader(connection))
    assert len(connection.requests) == 1


def test_graphs_that_are_left_out_are_told_once_and_all_of_them_are_an_error(world: World) -> None:
    rejection = packing_pb2.Rejection(
        graph_id=3, component="nodes", value=9, bound=2, reason="REJECTION_REASON_TOO_LARGE"
    )
    epoch = loader_pb2.Epoch(job="j", num_batches=2, num_rejected=4, rejections=[rejection])
    epoch.share.num_steps = 2
    connection = Connection(opened(epoch=epoch), batch(0), away(), opened(epoch=epoch), batch(1))
    connection.epoch = epoch
    loader = world.loader(connection, oversize="reject")
    with pytest.warns(
        OversizeWarning, match="^epoch 0 of job 'j': 4 graphs .* the first: graph 3 has 9 nodes"
    ) as told:
        next(loader), next(loader)
    assert len(told) == 1 and told[0].filename == __file__
    epoch.num_batches = 0
    connection = Connection(opened(epoch=epoch))
    with pytest.raises(
        PackhouseError,
        match="none of its graphs fits the limits, all 4 would be left out; the first: graph 3",
    ) as failed:
        next(world.loader(connection, oversize="reject"))
    assert failed.value.code is grpc.StatusCode.OUT_OF_RANGE
    assert connection.take().count("abandon") >= 1


def test_arguments_that_make_no_sense_are_refused_at_once(world: World) -> None:
    loader = world.loader(Connection(*whole()))
    first = next(loader)
    assert loader.handed is first
    info = loader.epoch_info()
    assert info.num_batches == 3
    connection: Any = loader._connection
    assert connection.requests[-1][1].company
    parts = world.loader(join_parts=True)
    with pytest.raises(
        ValueError, match="^split: the parts of a batch are joined, and have no graphs$"
    ):
        parts.split(first)
    with pytest.raises(
        ValueError, match="^acknowledge 'never' is neither 'automatic' nor 'manual'$"
    ):
        world.loader(acknowledge="never")
    with pytest.raises(ValueError, match="^on_existing"):
        world.loader(on_existing="never")
    assert not world.loader().settings.is_placed
    for arguments in ({"rank": 0}, {"num_ranks": 1}, {"worker": "w"}):
        assert world.loader(**arguments).settings.is_placed
    with pytest.raises(ValueError, match="^worker is for dynamic workers, which have no rank"):
        world.loader(worker="w", drop_last=True)
