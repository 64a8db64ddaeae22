"""Laws of passes over an evaluation, and of batches that were given or split, without a server."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, Callable, Iterator

import numpy as np
import pytest
from reference_collation import batch_message

from packhouse import (
    CostBalanced,
    Evaluation,
    EvaluationReaders,
    GraphSchema,
    GraphTable,
    LoadedBatch,
    PackhouseError,
    Padding,
    TensorSpec,
)
from packhouse.epochs import batches as batches_module
from packhouse.epochs import evaluation as evaluation_module
from packhouse.epochs.batches import GivenBatches, MicroBatch, smaller_limits, split_batch
from packhouse.epochs.epoch_readers import Leased
from packhouse.epochs.info import EpochRows
from packhouse.epochs.request import Connecting
from packhouse.epochs.settings import Ranked
from packhouse.planning.pack_options import OversizeWarning
from packhouse.v1 import loader_pb2
from test_loader import away, batch, end, opened


class Connection:
    """Says what it was told to, and notes what it was asked."""

    transport = "lane"

    def __init__(self, world: World, script: list[Any]) -> None:
        self._world = world
        self._script = script
        self._runs = False

    def describe(self, method: str) -> str:
        return method

    def receive(self, make_request: Callable[[], Any]) -> Any:
        if not self._runs:
            self._world.loads.append(make_request())
            self._runs = True
        each = self._script.pop(0)
        if isinstance(each, BaseException):
            raise each
        return each

    def call(self, method: str, request: Any) -> Any:
        self._world.requests.append((method, request))
        if self._world.failure is not None:
            raise self._world.failure
        epoch = loader_pb2.Epoch(num_batches=9)
        epoch.share.num_steps = self._world.num_steps
        return epoch

    def leave(self) -> None:
        self._runs = False
        self._world.log.append("leave")

    def finish(self) -> None:
        self._world.log.append("finish")

    def close(self) -> None:
        self._world.log.append("close")


class World:
    """Makes connections that say these things."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.scripts: list[list[Any]] = []
        self.loads: list[Any] = []
        self.requests: list[Any] = []
        self.log: list[str] = []
        self.slept: list[float] = []
        self.writable: list[bool] = []
        self.num_steps = 5
        self.failure: Exception | None = None
        patched.setattr(evaluation_module, "LoadConnection", self._connect)
        patched.setattr(evaluation_module.time, "sleep", self.slept.append)

    def _connect(self, connecting: Any, *, writable: bool = False) -> Connection:
        self.writable.append(writable)
        return Connection(self, self.scripts.pop(0) if self.scripts else [])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def evaluation_of(**arguments: Any) -> Evaluation:
    return Evaluation("nowhere:1", dataset="d", limits={"nodes": 3}, **arguments)


def test_a_pass_goes_on_where_it_was(world: World) -> None:
    world.scripts = [[away(), opened(), batch(0), away(), opened(), batch(1), end()]]
    evaluation = evaluation_of(rank=1, num_ranks=2, epoch=3, writable=True)
    assert evaluation.transport == "bytes" and evaluation.epoch == 3 and evaluation.is_placed
    assert [(each.step, each.generation, each.session) for each in evaluation] == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    assert evaluation.transport == "lane" and world.writable == [True]
    asked = [load.evaluation for load in world.loads]
    assert [each.first_step for each in asked] == [0, 0, 1]
    assert {(each.ranked.rank, each.ranked.num_ranks) for each in asked} == {(1, 2)}
    assert {(load.epoch.epoch, load.epoch.job) for load in world.loads} == {(3, "")}
    # Each failure is the first one after what came.
    assert len(world.slept) == 2 and max(world.slept) <= 0.05
    assert world.log == ["leave", "leave", "finish", "close"]
    # Leaving it early disconnects, and so does what no try mends.
    world.scripts = [[opened(), batch(4)], [away("NOT_FOUND")]]
    steps = evaluation.from_step(4)
    assert next(steps).step == 4
    assert world.loads[-1].evaluation.first_step == 4
    steps.close()  # type: ignore[attr-defined]
    with pytest.raises(PackhouseError, match="it is NOT_FOUND"):
        next(iter(evaluation))
    assert world.log[4:] == ["close", "leave", "close"]
    assert not evaluation_of().is_placed
    assert evaluation_of(rank=0).is_placed and evaluation_of(num_ranks=1).is_placed


def test_what_an_epoch_is_like_is_asked_by_a_connection_of_its_own(world: World) -> None:
    evaluation = evaluation_of(rank=1, num_ranks=2, drop_last=True)
    assert len(evaluation) == 5
    ((method, request),) = world.requests
    ranked = request.evaluation.ranked
    assert method == "GetEpoch" and (ranked.rank, ranked.num_ranks, ranked.drop_last) == (
        1,
        2,
        True,
    )
    assert evaluation.epoch_info().num_batches == 9
    assert world.requests[-1][1].company and world.requests[-1][1].epoch.epoch == 0
    world.failure = away()
    with pytest.raises(PackhouseError):
        len(evaluation)
    assert world.log == ["close"] * 3


def test_graphs_that_are_left_out_are_told_once(world: World) -> None:
    epoch = loader_pb2.Epoch(num_batches=2, num_rejected=4)
    world.scripts = [[opened(epoch=epoch), batch(0)], [opened(epoch=epoch), batch(0)]]
    evaluation = evaluation_of(oversize="reject")
    with pytest.warns(OversizeWarning, match="^epoch 0: 4 graphs") as told:
        next(iter(evaluation))
        next(iter(evaluation))
    assert len(told) == 1 and told[0].filename == __file__
    empty = loader_pb2.Epoch(num_rejected=4)
    world.scripts = [[opened(epoch=empty)], [opened(epoch=empty)]]
    evaluation = evaluation_of(oversize="reject")
    for _ in range(2):
        with pytest.raises(PackhouseError, match="^OUT_OF_RANGE: epoch 0: none of its graphs fits"):
            next(iter(evaluation))


def test_worker_processes_share_a_pass_whoever_comes_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads steps of its own as a rank among more; together they are all, once each."""

    def passes(readers: EvaluationReaders, count: int, states: Any = ()) -> list[Any]:
        made = []
        for number in range(count):
            monkeypatch.setattr(
                evaluation_module, "worker_process", lambda number=number: (number, count)
            )
            made.append(iter(readers))
        for each, state in zip(made, states):
            each.load_state_dict(state)  # type: ignore[attr-defined]
        return made

    def served(self: Evaluation, first_step: int) -> Iterator[Any]:
        asked.append((self.sharing, self._ranks_of_order, first_step, self.epoch))
        ranks = self.sharing.num_ranks
        for step in range(first_step, -(-12 // ranks)):
            number = step * ranks + self.sharing.rank
            yield LoadedBatch.of_loaded_parts(batch(number), GraphSchema(("nodes",)), 0, 0).of_step(
                step, 1
            )

    asked: list[Any] = []
    monkeypatch.setattr(Evaluation, "from_step", served)
    for rank, num_ranks, count in ((0, 1, 1), (0, 1, 3), (1, 2, 1), (1, 2, 2), (0, 2, 5)):
        world.num_steps = 10 // num_ranks
        for first in (0, 1, 4):
            readers = EvaluationReaders(evaluation_of(rank=rank, num_ranks=num_ranks, epoch=2))
            readers.load_state_dict({"epoch": 2, "next_step": first})
            assert len(readers) == world.num_steps
            del asked[:]
            made = passes(readers, count)
            if count > 1:
                assert made[0].state_dict() == {"epoch": 2, "next_step": first}
                assert made[1].state_dict()["next_step"] == first + 1
            found = {each.step: each for one in made for each in one}
            assert sorted(found) == list(
                range(first, world.num_steps if count > 1 else -(-12 // num_ranks))
            )
            for step, each in found.items():
                assert each.id == 100 + step * num_ranks + rank
                assert each.graphs_of_step == (1 if count == 1 else 0)
            for sharing, ranks_of_order, _, epoch in asked:
                assert epoch == 2 and sharing.num_ranks == num_ranks * count
                assert ranks_of_order == (num_ranks if count > 1 else 0)
            # A state of a worker's own goes on after what it gave, in its own epoch.
            made = passes(readers, count)
            before = [next(each, None) for each in made]
            states = [each.state_dict() for each in made]
            assert all(
                state["next_step"] == each.step + count
                for each, state in zip(before, states)
                if each is not None
            )
            later = passes(readers, count, states)
            rest = [each.step for one in later for each in one]
            given = [each.step for each in before if each is not None]
            assert sorted(rest + given) == sorted(found)
            other = passes(readers, count, [{"epoch": 1, "next_step": 3}])
            assert next(other[0]).step == first


def test_a_trainer_counts_the_items_of_an_evaluation(world: World) -> None:
    readers = EvaluationReaders(evaluation_of(epoch=4))

    def next_step() -> int:
        orders = readers._orders.read()
        assert orders is not None and orders.epoch == readers.epoch
        assert orders.is_acknowledged and not orders.is_rest
        return orders.next_step

    assert readers.epoch == 4 and next_step() == 0
    given = object()
    loop = readers.trained([1, Leased(given, None), 3])  # type: ignore[arg-type]
    assert [next(loop), next(loop)] == [1, given]
    assert readers.state_dict() == {"epoch": 4, "next_step": 2} and next_step() == 0
    # By torchdata, of an epoch that has ended.
    readers.load_state_dict({"epoch": 3, "next_step": 7})
    assert readers.epoch == 4
    readers.load_state_dict({"epoch": 4, "next_step": 1})
    assert readers.state_dict()["next_step"] == 1 and next_step() == 1
    loop.close()  # type: ignore[attr-defined]
    readers.load_state_dict({"epoch": 3, "next_step": 2})
    assert readers.epoch == 3 and next_step() == 2
    readers.set_epoch(3)
    assert next_step() == 2
    assert list(readers.trained([8])) == [8]
    assert readers.state_dict() == {"epoch": 3, "next_step": 0} and next_step() == 0
    list(zip(readers.trained([8, 9]), "a"))
    assert next_step() == 0 and readers._next_step > 0
    readers.set_epoch(5)
    assert (readers.epoch, next_step()) == (5, 0)
    readers.load_state_dict({})
    assert readers.epoch == 5
    assert readers.epoch_info().num_batches == 9
    assert world.requests[-1][1].epoch.epoch == 5
    readers._owner = os.getpid() + 1
    assert readers.state_dict() == {}
    readers.load_state_dict({"epoch": 3, "next_step": 2})
    assert readers.epoch == 5


def test_batches_are_ordered_for_the_ranks_of_the_whole(world: World) -> None:
    evaluation = evaluation_of(num_ranks=3, order=CostBalanced("nodes"))
    assert not evaluation.sharing.drop_last
    len(evaluation)
    len(evaluation.of(2, Ranked(0, 12), 3))
    len(evaluation.of(2, Ranked(0, 12)))
    specs = [request.epoch for _, request in world.requests]
    assert [each.order.cost_balanced.num_ranks for each in specs] == [3, 3, 12]
    assert [each.epoch for each in specs] == [0, 2, 2]


def test_what_was_given_is_counted_once_and_steps_end_where_all_is_done() -> None:
    given = GivenBatches()
    assert given.steps_done() is None and not given.has_all_with([1])
    given.expect(3)
    for number, step in ((10, 4), (11, 5)):
        given.give(number, step)
        given.give(number, step)
    assert not given.has_all_with([]) and not given.has_all_with([10, 11])
    assert given.has_all_with([12]) and given.has_all_with([12, 13])
    assert given.steps_done() == 4
    assert not given.acknowledge(10)
    assert given.steps_done() == 5
    assert not given.acknowledge(11) and given.steps_done() == 6
    # Of another loader's: it is not held here.
    assert not given.acknowledge(99)
    given.give(12, 3)
    with pytest.raises(ValueError, match="^step 5 is acknowledged, step 3 before it is not$"):
        given.steps_done()
    assert given.acknowledge(12) and given.acknowledge(99)
    assert given.steps_done() == 6 and given.has_all_with([])


SCHEMA = GraphSchema(("nodes", "edges"), (TensorSpec("x", "float32", "nodes"),))


def whole(
    *sizes: list[int], limits: dict[str, int], padding: Padding = Padding.MASKED
) -> LoadedBatch:
    table = GraphTable(SCHEMA, list(sizes), {"x": np.zeros(sum(each[0] for each in sizes))})
    message = loader_pb2.LoadedBatch(batch=batch_message(table, limits, padding), graphs_of_step=8)
    message.batch.epoch, message.batch.step = 6, 7
    return LoadedBatch.of(
        message, SCHEMA, 1, 2, EpochRows(4, {"nodes": 20, "edges": 0, "graphs": 10})
    )


LIMITS = {"nodes": 8, "edges": 6, "graphs": 4}


def test_a_batch_knows_its_share_of_its_step_and_of_its_epoch() -> None:
    of = whole([2, 1], [3, 0], limits=LIMITS)
    assert of.loss_weight == 2 / 8
    assert of.loss_weights == {"nodes": 5 * 4 / 20, "edges": 0.0, "graphs": 2 * 4 / 10}
    assert of.lease == (6, 1, 2, 0, 7) and of.number == 0
    other = of.of_step(9, 0)
    assert (other.step, other.graphs_of_step, other.loss_weight, other.session) == (9, 0, 1.0, 2)
    unknown = LoadedBatch._make({**of.__dict__, "epoch_rows": None})
    with pytest.raises(ValueError, match="^loss_weights: the rows of an epoch of sub-graphs"):
        unknown.loss_weights


def test_a_batch_says_all_that_was_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    table = GraphTable(SCHEMA, [[2, 1]], {"x": [0.5, 1.5]})
    message = loader_pb2.LoadedBatch(batch=batch_message(table, LIMITS, Padding.NONE), shape=3)
    message.is_padding = message.is_redelivered = True
    message.graphs_of_step = 9
    message.drawn_smaller.add(graph_id=4, level=2)
    rows = EpochRows(4, {})
    for native in (batches_module.loaded_batch, None):
        monkeypatch.setattr(batches_module, "loaded_batch", native)
        of = LoadedBatch.of(message, SCHEMA, 1, 2, rows)
        assert (of.generation, of.session, of.is_padding, of.is_redelivered) == (1, 2, True, True)
        assert (of.graphs_of_step, of.shape, of.drawn_smaller) == (9, 3, {4: 2})
        assert of.epoch_rows is rows and of.tensors["x"].tolist() == [0.5, 1.5]
        other = loader_pb2.LoadedBatch(batch=message.batch)
        plain = LoadedBatch.of(other, SCHEMA, 1, 2)
        assert (plain.is_padding, plain.is_redelivered, plain.shape, plain.drawn_smaller) == (
            False,
            False,
            0,
            {},
        )
        assert plain.epoch_rows is None


@pytest.mark.parametrize(
    "sizes, parts, padding, expected",
    [
        ([[2, 1], [3, 2]], 2, Padding.MASKED, {"nodes": 4, "edges": 3, "graphs": 1}),
        ([[2, 1], [3, 2]], 3, Padding.MASKED, {"nodes": 3, "edges": 2, "graphs": 1}),
        ([[4, 3], [4, 3]], 2, Padding.MASKED, {"nodes": 4, "edges": 3, "graphs": 1}),
        # One does not fit a third, but two.
        ([[4, 1], [2, 2]], 3, Padding.MASKED, {"nodes": 6, "edges": 4, "graphs": 1}),
        # Padding keeps a row of each, and a graph, free.
        ([[3, 2], [2, 1]], 2, Padding.GRAPH, {"nodes": 4, "edges": 3, "graphs": 2}),
        ([[3, 2], [2, 1]], 2, Padding.TFGNN, {"nodes": 4, "edges": 3, "graphs": 2}),
        ([[4, 2], [2, 1]], 2, Padding.GRAPH, None),
        ([[5, 2], [2, 1]], 2, Padding.MASKED, None),
        ([[2, 0], [3, 0]], 2, Padding.NONE, {"nodes": 3, "graphs": 1}),
    ],
)
def test_parts_are_of_the_least_shape_that_takes_each_graph(
    sizes: Any, parts: int, padding: Padding, expected: Any
) -> None:
    of = whole(*sizes, limits=LIMITS, padding=padding)
    if expected is None:
        with pytest.raises(
            ValueError, match=r"^a graph of the batch needs nearly all of its rows \("
        ):
            smaller_limits(of, parts, padding)
    else:
        assert smaller_limits(of, parts, padding) == expected


def test_a_batch_is_split_by_any_server_and_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    of = whole([2, 1], [3, 0], limits=LIMITS)
    asked: list[Any] = []
    channel = SimpleNamespace(close=lambda: asked.append("close"))

    def make_channel(to: str, **how: Any) -> Any:
        asked.append((to, how))
        return channel

    def answers(connect: Any, addresses: list[str], seconds: float) -> Any:
        assert addresses == ["a:1", "b:1"] and seconds == 10.0
        return connect("b:1"), "b:1"

    def pack(method: Any, tables: Any, options: Any) -> Any:
        (table,) = tables
        asked.append(options)
        for number in range(len(table)):
            yield whole(table.sizes[number].tolist(), limits=options.limits)

    monkeypatch.setattr(batches_module, "make_channel", make_channel)
    monkeypatch.setattr(batches_module, "first_that_answers", answers)
    monkeypatch.setattr(batches_module, "pack_method", lambda channel: channel)
    monkeypatch.setattr(batches_module, "pack_tables", pack)
    connecting = Connecting("a:1,b:1")
    parts = split_batch(connecting, of, 2, Padding.MASKED, [])
    to, how = asked[0]
    assert to == "b:1" and how == {
        "max_message_bytes": connecting.max_message_bytes,
        "options": connecting.options,
        "credentials": connecting.credentials,
    }
    assert (asked[1].padding, asked[1].look_ahead, asked[1].lane) == (Padding.MASKED, 2, "off")
    assert asked[1].limits == {"nodes": 4, "edges": 3, "graphs": 1} and asked[2] == "close"
    assert [type(each) for each in parts] == [MicroBatch] * 2
    assert [(each.epoch, each.step, each.loss_weight) for each in parts] == [(6, 7, 0.5)] * 2
    assert [each.loss_weights["nodes"] for each in parts] == [2 / 5, 3 / 5]
    assert all(each.tensors["x"].flags.writeable for each in parts)
    for count, words in ((1, "^parts 1: a batch is split in 2 or more$"), (0, "^parts 0")):
        with pytest.raises(ValueError, match=words):
            split_batch(connecting, of, count, Padding.MASKED, [])
    with pytest.raises(ValueError, match="^a batch of 1 graphs cannot be split$"):
        split_batch(connecting, whole([2, 1], limits=LIMITS), 2, Padding.MASKED, [])
