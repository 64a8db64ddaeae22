"""The loader behind those that take the place of a framework's own: steps, batches, passes, states.

With a server, tests/conformance has it.
"""

from __future__ import annotations

import types
from typing import Any, Iterator

import numpy as np
import pytest
from random_graphs import random_schema, random_table

from packhouse import DeviceProfile, GraphSchema, GraphTable, TensorSpec
from packhouse.data.batch import Padding
from packhouse.frameworks import packed_loader
from packhouse.frameworks.ingest import Stored
from packhouse.frameworks.packed_loader import FixedSteps, LocalBatches, PackedLoader
from packhouse.stored.dataset import DatasetState


def steps_of(num_graphs: int, batch_size: int, **options: Any) -> list[list[list[int]]]:
    """Of each rank, of each step, the graphs."""
    usual: dict[str, Any] = {"shuffle": False, "seed": 1, "drop_last": False}
    num_ranks, epoch = options.pop("num_ranks", 1), options.pop("epoch", 0)
    made = []
    for rank in range(num_ranks):
        steps = FixedSteps(
            num_graphs, batch_size, rank=rank, num_ranks=num_ranks, **{**usual, **options}
        )
        of_epoch = steps.of_epoch(epoch)
        assert len(of_epoch) == len(steps)
        made.append([each.tolist() for each in of_epoch])
    return made


def test_steps_are_of_a_fixed_number_and_ranks_share_the_last_one() -> None:
    assert steps_of(7, 3) == [[[0, 1, 2], [3, 4, 5], [6]]]
    assert steps_of(7, 3, drop_last=True) == [[[0, 1, 2], [3, 4, 5]]]
    assert steps_of(6, 3) == steps_of(6, 3, drop_last=True) == [[[0, 1, 2], [3, 4, 5]]]
    assert steps_of(11, 3, num_ranks=2) == [[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10]]]
    assert steps_of(7, 3, num_ranks=2) == [[[0, 1, 2], [6]], [[3, 4, 5], []]]
    assert steps_of(7, 3, num_ranks=2, drop_last=True) == [[[0, 1, 2]], [[3, 4, 5]]]
    assert steps_of(0, 3) == [[]]
    assert steps_of(2, 3, drop_last=True) == [[]]


def test_shuffled_steps_follow_from_seed_and_epoch() -> None:
    def shuffled(**options: Any) -> list[list[list[int]]]:
        return steps_of(50, 4, shuffle=True, num_ranks=3, **options)

    first = shuffled()
    assert first == shuffled()
    flat = [number for rank in first for step in rank for number in step]
    assert sorted(flat) == list(range(50)) != flat
    others = [shuffled(epoch=1), shuffled(epoch=2), shuffled(seed=2)]
    assert all(each != first for each in others) and others[0] != others[1]


@pytest.mark.parametrize("seed", range(25))
def test_a_batch_has_the_graphs_at_its_positions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(rng, random_schema(rng), 9)
    batches = LocalBatches(table)
    for positions in (rng.integers(0, 9, 5), np.arange(9), np.zeros(0, np.int64), np.array([4])):
        batch = batches.batch(positions, 6, 3)
        expected = table.take(positions)
        assert batch.graph_ids.tolist() == table.graph_ids[positions].tolist()
        assert (batch.id, batch.epoch, batch.step) == (6, 3, 6)
        assert batch.rows == batch.real_rows == {
            name: expected.rows(name) for name in table.schema.all_components
        }
        if table.schema.tensors:
            assert batch.unbatch().equals(expected)
        else:
            assert batch.sizes.tolist() == expected.sizes.tolist()
        for name, column in batch.tensors.items():
            assert not np.shares_memory(column, table.tensors[name])


SCHEMA = GraphSchema(("nodes",), [TensorSpec("x", "int64", "nodes")])


def numbered(count: int, first: int = 0) -> GraphTable:
    """Graphs of one node, which has their number."""
    x = np.arange(first, first + count)
    return GraphTable(SCHEMA, np.ones((count, 1), int), {"x": x}, first_id=first)


def make(batch: Any) -> list[int]:
    made: list[int] = batch["x"].tolist()
    return made


def loader_of(count: int = 7, **options: Any) -> PackedLoader:
    return PackedLoader(lambda: [numbered(count)], make, **{"batch_size": 3, **options})


@pytest.mark.parametrize("num_workers", [0, 2])
def test_each_pass_is_the_next_epoch(num_workers: int) -> None:
    loader = loader_of(shuffle=True, seed=5, num_workers=num_workers)
    assert len(loader) == 3 and loader.epoch == 0
    passes = [list(loader) for _ in range(3)]
    assert loader.epoch == 2
    for number, each in enumerate(passes):
        assert sorted(sum(each, [])) == list(range(7))
        expected = FixedSteps(7, 3, shuffle=True, seed=5, drop_last=False).of_epoch(number)
        assert each == [step.tolist() for step in expected]
    loader.set_epoch(1)
    assert loader.epoch == 1 and list(loader) == passes[1] and list(loader) == passes[2]
    with pytest.raises(ValueError, match="epoch"):
        loader.set_epoch(-1)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_state_goes_on_after_what_was_given(num_workers: int) -> None:
    loader = loader_of(shuffle=True, seed=5, num_workers=num_workers)
    assert loader.state_dict() == {"epoch": 0, "next_step": 0, "seed": 5}
    list(loader)
    assert loader.state_dict() == {"epoch": 0, "next_step": 3, "seed": 5}
    items = iter(loader)
    assert loader.state_dict() == {"epoch": 1, "next_step": 0, "seed": 5}
    given = [next(items), next(items)]
    state = loader.state_dict()
    assert state == {"epoch": 1, "next_step": 2, "seed": 5}
    again = loader_of(shuffle=True, seed=5, num_workers=num_workers)
    again.load_state_dict(state)
    assert again.state_dict() == state and again.epoch == 1
    rest = list(again)
    assert rest == list(items) and sorted(sum(given + rest, [])) == list(range(7))
    assert sorted(sum(again, [])) == list(range(7)) and again.epoch == 2
    with pytest.raises(ValueError, match="the state is of seed 6: give seed=6"):
        again.load_state_dict({**state, "seed": 6})
    # What an earlier pass gives is not where the latest one is.
    early, late = iter(again), iter(again)
    next(late)
    next(early)
    next(early)
    assert again.state_dict() == {"epoch": 4, "next_step": 1, "seed": 5}
    again.set_epoch(9)
    next(late)
    assert again.state_dict() == {"epoch": 9, "next_step": 0, "seed": 5}


def test_a_seed_is_drawn_and_one_graph_is_a_batch_where_nothing_is_said() -> None:
    one, other = loader_of(batch_size=None), loader_of(batch_size=None)
    assert one.seed != other.seed and len(one) == 7 and list(one) == [[each] for each in range(7)]
    assert len(loader_of(drop_last=True)) == 2
    parts = PackedLoader(lambda: [numbered(2), numbered(3, 2)], make, batch_size=4)
    assert list(parts) == [[0, 1, 2, 3], [4]]
    assert [list(loader_of(rank=rank, num_ranks=2)) for rank in range(2)] == [
        [[0, 1, 2], [6]],
        [[3, 4, 5], []],
    ]
    with loader_of() as entered:
        assert isinstance(entered, PackedLoader)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"batch_size": 0}, "batch_size 0 is below 1"),
        ({"batch_size": 1.5}, "batch_size: 1.5"),
        ({"num_workers": -1}, "num_workers: -1"),
        ({"seed": -1}, "seed: -1"),
        ({"limits": {"nodes": 3}, "device": "d"}, "limits: given beside device"),
        ({"padding": "graph"}, "padding: fixed shapes need limits of nodes and edges, or a device"),
        ({"shuffle": True, "job": "j"}, "batch_size: a server packs shuffled graphs by limits"),
        ({"shuffle": True, "subset": [1]}, "batch_size: a server packs shuffled graphs by limits"),
    ],
)
def test_arguments_that_make_no_sense_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        loader_of(**options)
    with pytest.raises(ValueError, match="data set 'mine': say at which server it is, by address"):
        PackedLoader("mine", make)


class GivenOut:
    """A batch of so many graphs that have the epoch's number."""

    def __init__(self, length: int, epoch: int) -> None:
        self._x = np.full(length, epoch)

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, name: str) -> Any:
        return self._x


class Noted:
    """Stands for an Evaluation or a Loader of a server's."""

    made: list[Any] = []

    def __init__(self, address: str, **arguments: Any) -> None:
        self.address, self.arguments = address, arguments
        self.sharing, self.epoch, self.has_ended, self.calls = "sharing", 0, False, []
        Noted.made.append(self)

    def __len__(self) -> int:
        return 9

    def epoch_info(self) -> Any:
        return types.SimpleNamespace(num_graphs=14)

    def of(self, epoch: int, sharing: Any) -> Any:
        assert sharing == "sharing"
        self.epoch = epoch
        return self

    def from_step(self, step: int) -> Iterator[Any]:
        for length in (3, 3, 2)[step:]:
            yield GivenOut(length, self.epoch)

    def __iter__(self) -> Iterator[Any]:
        return iter([GivenOut(1, self.epoch)])

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        return {"of": "job"}

    def load_state_dict(self, state: Any) -> None:
        self.calls.append(state)

    def close(self) -> None:
        self.calls.append("close")


class Shared:
    address = "shared:1"
    calls: list[str] = []

    def join(self) -> None:
        self.calls.append("join")

    def leave(self) -> None:
        self.calls.append("leave")


class Connected:
    """A client whose data set is `state`."""

    state = DatasetState.SEALED

    def __init__(self, address: str) -> None:
        self.address = address
        get = lambda name: types.SimpleNamespace(state=Connected.state, num_graphs=7)  # noqa: E731
        self.datasets = types.SimpleNamespace(get=get)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is stored by `store_once`."""
    stored: list[Any] = []

    def store_once(client: Any, make_tables: Any, **options: Any) -> Stored:
        stored.append((client.address, len(make_tables()[0]), options))
        return Stored("by-content/x", 7)

    for name, double in (("Evaluation", Noted), ("Loader", Noted), ("SharedServer", Shared)):
        monkeypatch.setattr(packed_loader, name, double)
    monkeypatch.setattr(packed_loader, "Client", Connected)
    monkeypatch.setattr(packed_loader, "store_once", store_once)
    monkeypatch.setattr(packed_loader, "prefetch", lambda of, make, depth: [("ahead", depth)])
    monkeypatch.setattr(Connected, "state", DatasetState.SEALED)
    Noted.made, Shared.calls = [], []
    return stored


USUAL: dict[str, Any] = {
    "dataset": "by-content/x", "device_profile": None, "padding": Padding.NONE, "seed": 5, "rank": None,
    "num_ranks": None, "drop_last": False, "writable": True,
}  # fmt: skip
ONE_BY_ONE = {"in_order": True, "look_ahead": 1}


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"limits": {"nodes": 9}, "batch_size": None, "shuffle": True}, {"limits": {"nodes": 9}}),
        ({"limits": {"nodes": 9}, "shuffle": True}, {"limits": {"nodes": 9, "graphs": 3}}),
        (
            {"limits": {"nodes": 9}, "batch_size": None, "padding": "graph", "rank": 1, "num_ranks": 2},
            {
                "limits": {"nodes": 9}, "in_order": True, "look_ahead": 0, "rank": 1, "num_ranks": 2,
                "padding": Padding.GRAPH,
            },
        ),
        ({"subset": [1]}, {"limits": {"graphs": 3}, "subset": [1], **ONE_BY_ONE}),
        ({"drop_last": True, "subset": [1]}, {
            "limits": {"graphs": 3}, "subset": [1], "drop_last": True, **ONE_BY_ONE,
        }),
    ],
)  # fmt: skip
def test_a_server_is_asked_for_what_the_arguments_say(
    served: list[Any], options: dict[str, Any], expected: dict[str, Any]
) -> None:
    loader = loader_of(seed=5, name="mine", num_graphs=7, progress=False, **options)
    assert served == [("shared:1", 7, {"name": "mine", "num_graphs": 7, "progress": False})]
    (made,) = Noted.made
    assert made.address == "shared:1" and made.arguments == {**USUAL, **expected}
    # Of fixed numbers the last batch may be left out here: the server's would be by its limits.
    only = options.get("drop_last", False)
    assert len(loader) == (4 if only else 9)
    assert list(loader) == [[0] * 3, [0] * 3, *([] if only else [[0] * 2])]
    assert list(loader)[0] == [1] * 3
    loader.load_state_dict({"epoch": 4, "next_step": 1, "seed": 5})
    assert list(loader)[:1] == [[4] * 3] and loader.state_dict()["epoch"] == 4
    assert Shared.calls == ["join"]
    loader.close()
    assert Shared.calls == ["join", "leave"] and made.calls == []


def test_a_device_has_bounds_of_its_own(served: list[Any], tmp_path: Any) -> None:
    profile = DeviceProfile.load  # By its path, or as it is.
    path = tmp_path / "device.json"
    path.write_text('{"components": [{"component": "nodes", "max_rows": 8}]}')
    for device in (str(path), path, profile(path)):
        loader_of(device=device, shuffle=True, address="here:1", seed=5)
        made = Noted.made.pop()
        assert made.arguments["device_profile"] == profile(path) and made.arguments["limits"] is None
        assert made.address == "here:1" and not Shared.calls


def test_a_data_set_of_the_server_must_be_sealed(
    served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    PackedLoader("mine", make, address="here:1", seed=5)
    (made,) = Noted.made
    assert made.arguments == {**USUAL, "dataset": "mine", "limits": {"graphs": 1}, **ONE_BY_ONE}
    monkeypatch.setattr(Connected, "state", DatasetState.OPEN)
    with pytest.raises(ValueError, match="data set 'mine' is not sealed yet"):
        PackedLoader("mine", make, address="here:1")
    assert not served


def test_a_job_is_loaded_by_its_loader(served: list[Any]) -> None:
    loader = loader_of(job="run", limits={"nodes": 9}, shuffle=True, batch_size=None, seed=5)
    (made,) = Noted.made
    assert made.arguments == {**USUAL, "job": "run", "limits": {"nodes": 9}}
    assert len(loader) == 9 and list(loader) == [[0]] and loader.epoch == 0
    made.has_ended = True
    assert list(loader) == [[1]] and loader.epoch == 1
    made.has_ended = False
    loader.set_epoch(7)
    assert made.epoch == 7 and list(loader) == [[7]]
    assert loader.state_dict() == {"of": "job"}
    loader.load_state_dict({"of": "job"})
    loader.close()
    assert made.calls == [{"of": "job"}, "close"]
    for workers, factor, depth in ((1, None, 2), (2, 3, 6), (3, 4, 8)):
        loader = loader_of(
            job="run", limits={"nodes": 9}, num_workers=workers, prefetch_factor=factor
        )
        assert list(loader) == [("ahead", depth)]


def test_ranks_and_jobs_leave_out_no_batch_by_themselves(served: list[Any]) -> None:
    loader = loader_of(drop_last=True, subset=[1], rank=0, num_ranks=2)
    assert len(loader) == 9 and len(list(loader)) == 3


def test_what_a_framework_has_and_this_not_is_refused() -> None:
    packed_loader.refuse({"sampler": None, "shuffle": True}, {"sampler": "no place"})
    with pytest.raises(TypeError, match="sampler: no place"):
        packed_loader.refuse({"sampler": 0}, {"sampler": "no place"})
    assert packed_loader.length_of([1, 2]) == 2 and packed_loader.length_of(iter([1])) is None
