"""Laws of a trainer whose batches others read: what it asks, orders and acknowledges."""

from __future__ import annotations

import os
import pathlib
import pickle
import warnings
from types import SimpleNamespace
from typing import Any, Callable, Iterator

import grpc
import pytest

from packhouse import EpochReaders, Loader, PackhouseError
from packhouse.base.errors import EpochBegunError, EpochFinishedError
from packhouse.epochs import reader_pass
from packhouse.epochs.acknowledging import Lease
from packhouse.epochs.epoch_readers import Leased
from packhouse.epochs.reader_pass import Orders, OrdersFile, ReaderPass, worker_process
from packhouse.epochs.settings import EpochBegunWarning, LoaderSettings, LoaderStart
from packhouse.planning.pack_options import OversizeWarning
from packhouse.v1 import loader_pb2


class Calls:
    """A trainer's calls, answered as of an epoch of five steps of which nothing is done."""

    def __init__(self) -> None:
        self.epoch = loader_pb2.Epoch(job="j", num_batches=5, start_cursor="start")
        self.share: dict[str, Any] = {"num_steps": 5, "num_steps_of_epoch": 9}
        self.shares_by_cursor: dict[str, dict[str, Any]] = {}
        self.log: list[Any] = []
        self.requests: list[Any] = []
        self.sessions = 0
        self.failure: Exception | None = None

    def acknowledge(self, lease: Lease) -> None:
        self.log.append(lease.number)

    def flush(self) -> None:
        self.log.append("flush")
        if self.failure is not None:
            raise self.failure

    def reset(self) -> None:
        self.log.append("reset")

    def close(self) -> None:
        self.log.append("close")

    def call(self, method: str, request: Any, answer: Any) -> Any:
        self.requests.append((method, request))
        if method == "GetEpoch":
            assert answer is loader_pb2.Epoch
            told = loader_pb2.Epoch()
            told.CopyFrom(self.epoch)
            told.epoch = request.epoch.epoch
            if request.WhichOneof("sharing"):
                share = self.shares_by_cursor.get(request.cursor, self.share)
                told.share.CopyFrom(loader_pb2.EpochShare(**share))
            return told
        if method == "GetJob":
            epochs = [loader_pb2.JobEpoch(epoch=0, num_sessions=self.sessions)]
            return loader_pb2.Job(job=request.job, epochs=epochs)
        cursor = f"{method} {request.generation}"
        return answer(cursor=f"{cursor} {request.steps}" if method == "ReportStep" else cursor)

    def take(self) -> list[Any]:
        taken, self.log = self.log, []
        return taken

    def asked(self) -> list[Any]:
        taken, self.requests = self.requests, []
        return taken


def readers_of(**arguments: Any) -> tuple[EpochReaders, Any]:
    loader = Loader("nowhere:1", dataset="d", job="j", limits={"nodes": 3}, **arguments)
    readers = EpochReaders(loader)
    made = readers._calls
    assert made._connecting is loader.settings.connecting
    assert made._relay == readers._orders.calls
    calls = Calls()
    readers._calls = calls  # type: ignore[assignment]
    return readers, calls


def item(step: int, generation: int = 7) -> Any:
    return SimpleNamespace(lease=Lease(0, generation, 2, 100 + step, step), step=step)


def orders_of(readers: EpochReaders) -> Orders:
    orders = readers._orders.read()
    assert orders is not None
    return orders


def test_a_new_epoch_is_looked_at_and_ordered() -> None:
    readers, calls = readers_of(rank=1, num_ranks=2, attempt="a", drop_last=True)
    readers.set_epoch(3)
    assert calls.take() == ["flush"]
    ((method, request),) = calls.asked()
    assert method == "GetEpoch"
    assert (request.epoch.epoch, request.attempt, request.cursor) == (3, "a", "")
    assert (request.ranked.rank, request.ranked.num_ranks, request.ranked.drop_last) == (1, 2, True)
    first = orders_of(readers)
    assert first == Orders(3, "", "a", first.common, 0, 0, is_rest=False, is_acknowledged=False)
    assert len(first.common) == 32
    # Again, it is only asked how far it is; and the pass has another name.
    readers.set_epoch(3)
    ((_, request),) = calls.asked()
    assert request.WhichOneof("sharing") is None
    assert orders_of(readers).common != first.common
    readers.acknowledge(item(0).lease)
    readers.acknowledge(item(1).lease)
    readers.set_epoch(3)
    assert orders_of(readers).generation == 7 and orders_of(readers).next_step == 2
    readers._has_ended_one = True
    readers.set_epoch(4)
    assert orders_of(readers).generation == 0 and orders_of(readers).next_step == 0
    assert readers.epoch == 4 and readers._has_ended_one
    readers.set_epoch(1)
    assert not readers._has_ended_one
    assert readers.epoch_info().epoch == 1
    *_, (_, request) = calls.asked()
    assert request.company


def test_graphs_that_are_left_out_are_told_to_who_sets_the_epoch() -> None:
    readers, calls = readers_of()
    calls.epoch.num_rejected = 3
    with pytest.warns(OversizeWarning, match="^epoch 0 of job 'j': 3 graphs") as told:
        readers.set_epoch(0)
    assert told[0].filename == __file__


def test_manual_readers_are_acknowledged_by_hand() -> None:
    readers, calls = readers_of(acknowledge="manual")
    readers.set_epoch(0)
    assert orders_of(readers).is_acknowledged
    readers._position.in_hand = None
    assert isinstance(iter(readers), ReaderPass)
    copy = pickle.loads(pickle.dumps(readers))
    assert not hasattr(copy, "_calls") and copy._orders.read() == orders_of(readers)


BEGUN = {"num_steps": 5, "num_steps_done": 2, "num_steps_of_epoch": 5}
FINISHED = {"num_steps": 5, "num_steps_done": 5, "num_steps_of_epoch": 5}


@pytest.mark.parametrize("is_over", [False, True])
def test_ranks_that_come_to_a_begun_epoch_do_as_they_were_told(is_over: bool) -> None:
    def come(**arguments: Any) -> tuple[EpochReaders, Any]:
        readers, calls = readers_of(**arguments)
        calls.share = FINISHED if is_over else BEGUN
        calls.shares_by_cursor = {"start": {"num_steps": 8, "num_steps_of_epoch": 8}}
        calls.epoch.generation, calls.epoch.num_done = 6, 5 if is_over else 2
        return readers, calls

    readers, _ = come()
    error = EpochFinishedError if is_over else EpochBegunError
    words = (
        "was finished before this trainer"
        if is_over
        else "was begun before this trainer came to it: 2 of its"
    )
    with pytest.raises(error, match=words):
        readers.set_epoch(0)
    readers, _ = come(on_existing="resume")
    readers.set_epoch(0)
    assert orders_of(readers).cursor == "" and len(readers) == (0 if is_over else 3)
    readers, calls = come(on_existing="restart")
    # Before it is set, it is told as it will be.
    assert len(readers) == 8 and readers.num_steps == 8
    readers.set_epoch(0)
    orders = orders_of(readers)
    assert orders.cursor == "start" and len(orders.attempt) == 32
    assert readers._attempt == orders.attempt
    assert len(readers) == 8
    # An attempt of the caller's is kept, and one of several ranks is not drawn.
    for arguments, attempt in (({"attempt": "a"}, "a"), ({"rank": 0, "num_ranks": 2}, "")):
        readers, _ = come(on_existing="restart", **arguments)
        readers.set_epoch(0)
        assert orders_of(readers).attempt == attempt
    # A state goes on, and so does who has begun it itself.
    readers, _ = come()
    readers.load_state_dict({"epoch": 0, "cursor": "c"})
    readers.set_epoch(0)
    assert orders_of(readers).cursor == "c"
    readers, calls = come()
    readers._position.generation = 6
    readers.set_epoch(0)
    assert calls.requests[-1][1].generation == 6


def test_dynamic_trainers_are_told_of_what_was_done_before() -> None:
    def come(num_done: int, **arguments: Any) -> tuple[EpochReaders, Any]:
        readers, calls = readers_of(worker="w", **arguments)
        calls.epoch.generation, calls.epoch.num_done = 6, num_done
        calls.share = BEGUN
        return readers, calls

    readers, _ = come(5)
    with pytest.raises(EpochFinishedError, match="so that nothing would come"):
        readers.set_epoch(0)
    readers, _ = come(5, on_existing="restart")
    with pytest.raises(EpochFinishedError, match="dynamic workers need an attempt"):
        readers.set_epoch(0)
    readers, calls = come(2)
    with pytest.warns(
        EpochBegunWarning,
        match="before this trainer came to it, and nobody else loads it: 2 of its 5",
    ) as told:
        readers.set_epoch(0)
    assert told[0].filename == __file__
    assert calls.asked()[1][1].job == "j"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # It has been said.
        readers.set_epoch(0)
        # Others load it; it is meant; the others of this run were faster; a state; this trainer.
        readers, calls = come(2)
        calls.sessions = 1
        readers.set_epoch(0)
        come(2, on_existing="resume")[0].set_epoch(0)
        for num_done in (2, 5):
            readers, _ = come(num_done)
            readers._has_ended_one = True
            readers._prepare()
        readers, _ = come(2)
        readers._cursor = "c"
        readers._prepare()
        readers, _ = come(2)
        readers._position.generation = 6
        readers._prepare()
        # Nothing is done, or nobody came before.
        come(0)[0].set_epoch(0)
        readers, calls = come(2)
        calls.epoch.generation = 0
        readers.set_epoch(0)


def test_what_trained_gives_is_acknowledged_when_the_next_is_asked_for() -> None:
    readers, calls = readers_of()
    readers.set_epoch(0)
    calls.take()
    given = object()
    loop = readers.trained([item(0), Leased(given, item(1).lease), item(2)])
    assert next(loop).step == 0
    assert orders_of(readers).is_acknowledged and not orders_of(readers).is_rest
    assert calls.take() == ["flush"]
    assert next(loop) is given
    assert calls.take() == [100]
    # An exception, as of a handler, that comes between takes nothing.
    assert next(loop).step == 2
    assert calls.take() == [101]
    assert next(loop, None) is None
    assert calls.take() == [102, "flush"]
    assert readers._position.has_ended and readers._has_ended_one and not readers._is_trained
    assert next(loop, None) is None
    assert calls.take() == []
    readers.set_epoch(0)
    assert not readers._position.has_ended and not readers._has_ended_one


def test_a_loop_that_was_left_goes_on_after_what_it_gave() -> None:
    readers, calls = readers_of()
    readers.set_epoch(0)
    loop = readers.trained([item(0), item(1)])
    assert next(loop).step == 0
    # A process that is spawned meanwhile gets a copy.
    assert not pickle.loads(pickle.dumps(readers))._is_trained
    calls.take()
    again = readers.trained([item(1), item(2)])
    assert next(again).step == 1
    assert calls.take() == [100, "flush"]
    assert orders_of(readers).next_step == 1 and orders_of(readers).generation == 7
    assert readers.state_dict() == {"epoch": 0, "cursor": "Acknowledge 7"}
    assert calls.take() == [101, "flush"]
    # It is acknowledged once.
    assert next(again).step == 2
    assert calls.take() == []
    # An epoch that is set anew ends what was begun before.
    readers.set_epoch(5)
    assert next(again, None) is None
    assert not readers._position.has_ended
    with pytest.raises(ValueError, match="accelerate shards this data loader once more"):
        readers.trained(type("X", (), {"__module__": "accelerate.data_loader"})())


def test_a_dynamic_trainer_reads_what_others_left() -> None:
    readers, calls = readers_of(worker="w")
    readers.set_epoch(0)
    passes: list[bool] = []

    class Data:
        def __iter__(self) -> Iterator[Any]:
            passes.append(orders_of(readers).is_rest)
            return iter([item(len(passes))])

    calls.epoch.num_done = 4
    assert [each.step for each in readers.trained(Data())] == [1, 2]
    assert passes == [False, True]
    calls.epoch.num_done = 5
    del passes[:]
    readers._position.has_ended = False
    assert [each.step for each in readers.trained(Data())] == [1]
    assert passes == [False]


def test_a_state_is_where_the_trainer_is() -> None:
    readers, calls = readers_of(rank=0, num_ranks=2)
    assert readers.state_dict() == {"epoch": 0, "cursor": "start"}
    calls.epoch.generation = 4
    assert readers.state_dict() == {"epoch": 0, "cursor": "Acknowledge 4"}
    method, request = calls.requests[-1]
    assert (method, request.job, request.epoch) == ("Acknowledge", "j", 0)
    readers.load_state_dict({"epoch": 2, "cursor": "c"})
    assert readers.state_dict() == {"epoch": 2, "cursor": "c"}
    for step in (0, 1, 1, 2):
        readers.acknowledge(item(step) if step else item(step).lease)
    assert calls.take()[-5:] == ["flush", 100, 101, 101, 102]
    assert readers.state_dict() == {"epoch": 2, "cursor": "ReportStep 7 3"}
    method, request = calls.requests[-1]
    assert (request.job, request.epoch, request.generation, request.steps) == ("j", 2, 7, 3)
    # Another generation begins anew; and a gap is none that ranks could have done together.
    readers.acknowledge(item(0, generation=8).lease)
    assert readers.state_dict()["cursor"] == "ReportStep 8 1"
    readers.acknowledge(item(4, generation=8).lease)
    with pytest.raises(
        ValueError, match="^step 4 is acknowledged, steps before 4 were not: start from a state"
    ):
        readers.state_dict()
    readers.acknowledge(item(5, generation=9).lease)
    with pytest.raises(ValueError, match="^step 5 is acknowledged, steps before 5 were not"):
        readers.state_dict()
    # The only rank, and dynamic workers, have what all have done.
    for arguments in ({}, {"worker": "w"}):
        readers, _ = readers_of(**arguments)
        readers.acknowledge(item(4).lease)
        assert readers.state_dict() == {"epoch": 0, "cursor": "Acknowledge 7"}
    readers._owner = os.getpid() + 1
    assert readers.state_dict() == {}
    readers.load_state_dict({"epoch": 2, "cursor": "c"})
    assert readers.epoch == 0


def test_a_state_is_loaded_with_the_attempt_that_it_needs() -> None:
    readers, calls = readers_of(attempt="a")
    readers.load_state_dict({})
    assert calls.take() == []
    readers._has_ended_one = True
    readers.load_state_dict({"epoch": 2, "cursor": "c"})
    assert calls.take() == ["reset"] and not readers._has_ended_one
    assert (readers.epoch, readers._cursor, readers._attempt) == (2, "c", "a")
    readers.load_state_dict({"epoch": 2, "cursor": "c"}, "b")
    assert readers._attempt == "b"
    # Steps before the state count for who numbers steps.
    calls.share = {"num_steps": 5, "num_steps_done": 1, "num_steps_of_epoch": 9}
    assert (len(readers), readers.num_steps) == (4, 9)
    readers, _ = readers_of()
    readers.load_state_dict({"epoch": 2, "cursor": "c"})
    assert len(readers._attempt) == 32
    readers, _ = readers_of(rank=0, num_ranks=2)
    readers.load_state_dict({"epoch": 2, "cursor": "c"})
    assert readers._attempt == ""
    readers, calls = readers_of(worker="w", attempt="a")
    with pytest.raises(ValueError, match="^dynamic workers need an attempt to load a state$"):
        readers.load_state_dict({"epoch": 2, "cursor": "c"})
    assert calls.log == []
    readers.load_state_dict({"epoch": 2, "cursor": "c"}, "b")
    assert readers._attempt == "b"
    # While `trained` begins: of another epoch, it is one that has ended; of this one, it is read.
    readers, calls = readers_of()
    readers.set_epoch(2)

    class Stateful:
        def __iter__(self) -> Iterator[Any]:
            readers.load_state_dict({"epoch": 1, "cursor": "old"})
            assert orders_of(readers).cursor == ""
            readers.load_state_dict({"epoch": 2, "cursor": "c"})
            assert orders_of(readers).cursor == "c" and orders_of(readers).is_acknowledged
            return iter([item(0)])

    assert [each.step for each in readers.trained(Stateful())] == [0]
    assert readers._position.has_ended


def test_the_last_step_is_acknowledged_by_who_counts_steps() -> None:
    def at(step: int, **arguments: Any) -> tuple[EpochReaders, Any]:
        readers, calls = readers_of(**arguments)
        readers.set_epoch(0)
        loop = readers.trained([item(step), item(step + 1)])
        next(loop)
        del loop
        calls.take()
        return readers, calls

    leaving: list[tuple[Callable[[EpochReaders], Any], list[Any]]] = [
        (lambda readers: readers.set_epoch(1), ["flush", 104, "flush", "flush"]),
        (lambda readers: readers.close(), ["flush", 104, "flush", "close"]),
        (lambda readers: readers.__exit__(None, None, None), ["flush", 104, "flush", "close"]),
        (lambda readers: readers.set_epoch(0), ["flush"]),
    ]
    for leave, expected in leaving:
        readers, calls = at(4)
        leave(readers)
        assert calls.take() == expected
    readers, calls = at(3)
    readers.close()
    assert calls.take() == ["flush", "close"]
    # Of dynamic workers, it is the last that is open.
    for num_done, is_last in ((4, True), (3, False)):
        readers, calls = at(1, worker="w")
        calls.epoch.num_done = num_done
        readers.close()
        assert calls.take() == (["flush", 101, "flush", "close"] if is_last else ["flush", "close"])
    # Not under an exception; and what fails is not told by who leaves.
    readers, calls = at(4)
    with pytest.raises(KeyError), readers:
        raise KeyError
    assert calls.take() == ["close"]
    readers, calls = at(4)
    calls.failure = PackhouseError(grpc.StatusCode.UNAVAILABLE, "away")
    readers.close()
    assert calls.take() == ["flush", "close"]
    calls.failure = KeyboardInterrupt()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        readers.close()
    assert calls.take() == ["flush", "close"]
    # What was given by hand is not.
    readers, calls = readers_of(acknowledge="manual")
    readers.set_epoch(0)
    readers._own_pass = SimpleNamespace(  # type: ignore[assignment]
        handed=item(4), has_given_all=True, close=lambda: calls.log.append("left")
    )
    calls.take()
    readers.close()
    assert calls.take() == ["left", "close"]


def test_an_estimate_is_asked_for_again_once_batches_come() -> None:
    readers, calls = readers_of()
    calls.share = {"num_steps": 5, "num_steps_of_epoch": 9, "num_steps_is_estimate": True}
    readers.set_epoch(0)
    calls.asked()
    assert len(readers) == 5 and calls.asked() == []
    readers.acknowledge(item(0).lease)
    calls.share = {"num_steps": 6, "num_steps_done": 1, "num_steps_of_epoch": 9}
    assert len(readers) == 6
    ((_, request),) = calls.asked()
    assert request.generation == 7
    readers, calls = readers_of()
    readers.set_epoch(0)
    readers.acknowledge(item(0).lease)
    calls.asked()
    assert len(readers) == 5 and calls.asked() == []


class Read:
    """A loader that a pass reads: of steps from 2 on."""

    made: list[Read] = []

    def __init__(self, settings: LoaderSettings, start: LoaderStart) -> None:
        self.settings, self.start = settings, start
        self.epoch, self.generation_cursor = start.epoch, "generation"
        self.ahead = [item(step) for step in (2, 3, 4)]
        self.handed: Any = None
        self.log: list[Any] = []
        Read.made.append(self)

    @staticmethod
    def of_settings(settings: LoaderSettings, start: LoaderStart) -> Read:
        return Read(settings, start)

    def peek(self) -> Any:
        return self.ahead[0] if self.ahead else None

    def hand_over(self, batch: Any, given: Any) -> Any:
        assert batch is self.ahead.pop(0)
        self.handed = batch
        return given

    def acknowledge(self, batch: Any) -> None:
        self.log.append(batch.step)

    def look_again(self) -> None:
        self.log.append("look again")

    def close(self) -> None:
        self.log.append("close")

    @property
    def has_given_all(self) -> bool:
        return not self.ahead


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Read]:
    monkeypatch.setattr(reader_pass, "Loader", Read)
    Read.made = []
    return Read.made


def written(**changes: Any) -> OrdersFile:
    file = OrdersFile()
    orders: dict[str, Any] = dict(
        epoch=3,
        cursor="c",
        attempt="a",
        common="x",
        generation=0,
        next_step=2,
        is_rest=False,
        is_acknowledged=True,
    )
    file.write(Orders(**{**orders, **changes}))
    return file


def settings_of(**arguments: Any) -> LoaderSettings:
    return Loader("nowhere:1", dataset="d", job="j", limits={"nodes": 3}, **arguments).settings


def test_orders_are_in_a_file_that_goes_with_its_owner() -> None:
    file = OrdersFile()
    path = pathlib.Path(file._path)
    assert file.read() is None and path.exists()
    assert file.calls == f"{path}.calls"
    orders = Orders(1, "c", "a", "x", 2, 3, is_rest=True, is_acknowledged=False)
    file.write(orders)
    copy = pickle.loads(pickle.dumps(file))
    assert file.read() == copy.read() == orders
    others = [pathlib.Path(f"{path}.new"), pathlib.Path(f"{path}.calls")]
    assert not others[0].exists()
    for each in others:
        each.touch()
    del copy
    assert path.exists()
    reader_pass._remove(str(path), os.getpid() + 1)
    assert path.exists()
    del file
    assert not any(each.exists() for each in (path, *others))


def test_a_worker_process_reads_its_part(read: list[Read], monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker_process() == (0, 1)
    part = ReaderPass(settings_of(rank=1, num_ranks=3, acknowledge="automatic"), written(), 1, 4)
    assert [each.step for each in part] == [2, 3, 4]
    (loader,) = read
    sharing: Any = loader.settings.sharing
    assert (sharing.rank, sharing.num_ranks, sharing.reader, sharing.num_readers) == (1, 3, 3, 4)
    assert loader.settings.manual and not loader.settings.looks_at_epoch
    assert loader.settings.connecting.relay == ""
    assert loader.start == LoaderStart(3, "c", "a", None)
    assert loader.log == ["close"]
    assert part.has_given_all and next(part, None) is None
    # In a generation that has begun; as a dynamic worker, which waits for others in the trainer alone.
    for info, waits in ((None, True), (SimpleNamespace(id=1, num_workers=2), False)):
        monkeypatch.setattr(reader_pass, "_worker_info", lambda info=info: info)
        part = ReaderPass(settings_of(worker="w"), written(generation=9), 1, 2)
        assert next(part).step == 2 and part.handed.lease.step == 2  # type: ignore[union-attr]
        assert part.state_dict() == {}
        assert read[-1].start.generation == 9
        sharing = read[-1].settings.sharing
        assert (sharing.worker, sharing.waits_for_others) == ("w/1", waits)
    assert worker_process() == (1, 2)
    # The rest may be waited for, by the first one alone.
    count = len(read)
    assert next(ReaderPass(settings_of(worker="w"), written(is_rest=True), 1, 2), None) is None
    assert len(read) == count
    next(ReaderPass(settings_of(worker="w"), written(is_rest=True), 0, 2))
    assert read[-1].settings.sharing.waits_for_others  # type: ignore[union-attr]
    with pytest.raises(
        ValueError, match="^nothing acknowledges these batches, and the epoch would stop soon"
    ):
        next(ReaderPass(settings_of(), written(is_acknowledged=False), 0, 2))
    monkeypatch.setattr(reader_pass, "_worker_info", lambda: None)
    next(ReaderPass(settings_of(), written(is_acknowledged=False), 0, 1))
    with pytest.raises(ValueError, match="^no epoch is set: call set_epoch in the trainer"):
        next(ReaderPass(settings_of(), OrdersFile(), 0, 1))


def test_workers_leave_calls_to_the_trainers_process_where_a_lane_may_be(
    read: list[Read], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_pass, "is_worth_asking", lambda address, lane: lane != "off")
    for info, lane, relays in ((True, "auto", True), (None, "auto", False), (True, "off", False)):
        monkeypatch.setattr(reader_pass, "_worker_info", lambda info=info: info)
        file = written()
        next(ReaderPass(settings_of(lane=lane), file, 0, 1))
        assert read[-1].settings.connecting.relay == (file.calls if relays else "")


def test_a_pass_that_goes_on_from_a_state_gives_what_comes_after_it(read: list[Read]) -> None:
    part = ReaderPass(settings_of(), written(), 0, 1)
    assert part.handed is None and not part.has_given_all
    assert part.state_dict() == {"epoch": 3, "cursor": "generation", "next_step": 0}
    assert next(part).step == 2
    state = part.state_dict()
    assert state == {"epoch": 3, "cursor": "generation", "next_step": 3}
    later = ReaderPass(settings_of(), written(next_step=1, attempt=""), 1, 2)
    later.load_state_dict(state)
    assert later.state_dict()["next_step"] == 3
    assert [each.step for each in later] == [3, 4]
    assert later.state_dict()["next_step"] == 5
    loader = read[-1]
    assert loader.log == [2, "close"]
    assert loader.start == LoaderStart(3, "generation", "x")
    sharing: Any = loader.settings.sharing
    assert (sharing.reader, sharing.num_readers) == (1, 2)
    # Of another epoch it says nothing, and of several ranks an attempt must know them.
    other = ReaderPass(settings_of(), written(epoch=4), 0, 1)
    other.load_state_dict(state)
    assert next(other).step == 2 and read[-1].start.cursor == "c"
    for attempt in ("", "a"):
        several = ReaderPass(settings_of(rank=0, num_ranks=2), written(attempt=attempt), 0, 1)
        several.load_state_dict(state)
        if attempt:
            assert next(several).step == 3 and read[-1].start.attempt == "a"
        else:
            with pytest.raises(
                ValueError, match="^several ranks need an attempt to go on from a state$"
            ):
                next(several)
    dynamic = ReaderPass(settings_of(worker="w"), written(), 0, 1)
    dynamic.load_state_dict(state)
    assert next(dynamic).step == 2


def test_a_batch_that_could_not_be_made_comes_again(read: list[Read]) -> None:
    failures = [KeyError()]

    def make(batch: Any) -> int:
        if failures:
            raise failures.pop()
        return int(10 * batch.step)

    part = ReaderPass(settings_of(), written(), 0, 1, make)
    with pytest.raises(KeyError):
        next(part)
    assert read[-1].log == ["look again"]
    assert [next(part), next(part)] == [20, 30]
    part.close()
    assert part.has_given_all and next(part, None) is None
    assert read[-1].log == ["look again", "close"]
    ReaderPass(settings_of(), written(), 0, 1).close()


def test_a_trainer_that_reads_itself_acknowledges_when_it_asks_for_the_next(
    read: list[Read],
) -> None:
    readers, calls = readers_of()
    with pytest.raises(ValueError, match="^no epoch is set"):
        next(iter(readers))
    readers.set_epoch(0)
    calls.take()
    loop = iter(readers)
    assert next(loop).step == 2
    assert not orders_of(readers).is_acknowledged
    assert calls.take() == ["flush"]
    assert next(loop).step == 3
    assert calls.take() == [102]
    # Another loop goes on after it, and this one is over.
    again = readers.iterate(lambda batch: -batch.step)
    assert next(again) == -2
    assert calls.take() == [103, "flush"] and orders_of(readers).next_step == 4
    assert read[0].log == ["close"]
    assert next(loop, None) is None
    assert list(again) == [-3, -4]
    assert calls.take() == [102, 103, 104, "flush"]
    assert readers._position.has_ended and readers._has_ended_one
    # A state that was loaded is looked at first.
    readers.load_state_dict({"epoch": 0, "cursor": "c"})
    again = iter(readers)
    next(again)
    assert readers._position.is_prepared and orders_of(readers).cursor == "c"
    readers.load_state_dict({"epoch": 0, "cursor": ""})
    # `trained` ends it, too, and an epoch that is set.
    readers.set_epoch(0)
    loop = iter(readers)
    next(loop)
    calls.take()
    assert [each.step for each in readers.trained([item(3)])] == [3]
    assert calls.take() == [102, "flush", 103, "flush"]
    assert read[-1].log == ["close"] and next(loop, None) is None
    readers.set_epoch(1)
    next(iter(readers))
    readers._own_pass.ahead = []  # type: ignore[union-attr]
    read[-1].ahead = []
    calls.take()
    readers.set_epoch(2)
    assert calls.take() == ["flush", 102, "flush", "flush"]
    assert "close" in read[-1].log
