"""packhouse.pyg.DataLoader in the place of PyTorch Geometric's: its batches, graph by graph."""

from __future__ import annotations

import concurrent.futures
import functools
from typing import Any

import pytest
import torch
from graph_sources import random_plain, random_typed
from test_pyg import assert_same_batch, data_of, hetero_data_of
from test_pyg_datasets import InMemory
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader as TheirLoader

import packhouse.pyg
from packhouse import Client, LocalServer, PackhouseError
from packhouse.pyg import DataLoader

LIMITS = {"nodes": 60, "edges": 200, "graphs": 16}


@functools.lru_cache(maxsize=None)
def plain(count: int = 150, seed: int = 5) -> list[Data]:
    graphs = [data_of(graph) for graph in random_plain(seed, 2 * count) if graph.num_nodes]
    for number, graph in enumerate(graphs):
        graph.number = torch.tensor([number])
        # PyG itself moves it behind what is joined.
        graph.num_nodes = graph._store._mapping.pop("num_nodes")
    return graphs[:count]


@functools.lru_cache(maxsize=None)
def typed() -> list[Any]:
    graphs = [hetero_data_of(graph) for graph in random_typed(6, 60)]
    for number, graph in enumerate(graphs):
        graph.number = torch.tensor([number])
    return graphs


def numbers(batches: Any) -> list[list[int]]:
    return [batch.number.tolist() for batch in batches]


def assert_whole(batches: Any, graphs: list[Any], follow: Any = None, exclude: Any = None) -> None:
    """Each batch is PyG's of the same graphs, and each graph is in one of them."""
    seen = []
    for batch in batches:
        chosen = batch.number.tolist()
        seen += chosen
        theirs = Batch.from_data_list([graphs[number] for number in chosen], follow, exclude)
        assert_same_batch(batch, theirs)
    assert sorted(seen) == list(range(len(graphs)))


class Subclass(Data):
    """Of the user's own."""


@pytest.mark.parametrize("make", [plain, typed])
@pytest.mark.parametrize("is_joined", [False, True])
@pytest.mark.parametrize("batch_size", [1, 70])
def test_unshuffled_batches_are_pygs_own(make: Any, is_joined: bool, batch_size: int) -> None:
    dataset = InMemory(make()) if is_joined and make is plain else make()
    ours, theirs = DataLoader(dataset, batch_size), TheirLoader(dataset, batch_size)
    assert len(ours) == len(theirs)
    pairs = list(zip(ours, theirs))
    assert len(pairs) == len(theirs)
    for our_batch, their_batch in pairs:
        assert_same_batch(our_batch, their_batch)
    assert (ours.batch_size, ours.dataset) == (theirs.batch_size, dataset)


def test_defaults_are_pygs() -> None:
    assert len(DataLoader(plain())) == len(TheirLoader(plain())) == len(plain())


@pytest.mark.parametrize("num_workers", [0, 2])
def test_shuffled_batches_are_pygs_of_the_same_graphs(num_workers: int) -> None:
    loader = DataLoader(
        plain(), 32, True, ["number"], ["w"], num_workers=num_workers, seed=3
    )
    alone = DataLoader(plain(), 32, True, seed=3)
    for _ in range(2):
        batches = list(loader)
        assert_whole(batches, plain(), ["number"], ["w"])
        assert [batch.num_graphs for batch in batches] == [32, 32, 32, 32, 22]
        assert numbers(batches) == numbers(alone)
    assert numbers(loader) != numbers(batches)


def test_an_order_mixes_small_and_large_graphs() -> None:
    graphs = sorted(plain(), key=lambda graph: graph.num_nodes)
    loader = DataLoader(graphs, 50, shuffle=True, seed=1)
    largest = {max(g.num_nodes for g in batch.to_data_list()) for batch in loader}
    assert len(largest) == 1 or min(largest) > graphs[75].num_nodes


def test_hetero_graphs_and_graphs_of_an_own_class() -> None:
    assert_whole(DataLoader(typed(), 9, shuffle=True), typed())
    own = [Subclass(**graph.to_dict()) for graph in plain()]
    assert_whole(DataLoader(own, 9, shuffle=True), own)
    assert_whole(DataLoader(own, limits=LIMITS, shuffle=True), own)


_SPAWNED = {"num_workers": 2, "multiprocessing_context": "spawn", "persistent_workers": True}


@pytest.mark.parametrize(
    ("shuffle", "options"),
    [
        (False, {}),
        (True, {}),
        (True, {"num_workers": 1}),
        (True, _SPAWNED),
    ],
)
def test_packed_batches_are_pygs_of_the_same_graphs(shuffle: bool, options: Any) -> None:
    with DataLoader(plain(), shuffle=shuffle, limits=LIMITS, seed=4, **options) as loader:
        batches = list(loader)
        assert len(loader) == len(batches) < len(plain()) / 4
        assert_whole(batches, plain())
        for batch in batches:
            assert batch.num_nodes <= 60 and batch.num_edges <= 200 and batch.num_graphs <= 16
        assert (numbers(batches) == numbers(loader)) is not shuffle


def test_padding_gives_one_shape() -> None:
    limits = {"nodes": 61, "edges": 200, "graphs": 17}
    with DataLoader(plain(), shuffle=True, limits=limits, padding="graph") as loader:
        real = 0
        for batch in loader:
            assert batch.num_nodes == 61 and batch.num_edges == 200 and batch.num_graphs == 17
            real += int(batch.graph_mask.sum())
        assert real == len(plain())


def test_what_is_stored_once_is_found_and_equal_graphs_are_one_data_set() -> None:
    with DataLoader(plain(), limits=LIMITS) as loader:
        address = loader._server.address
        with Client(address) as client:
            before = {dataset.name for dataset in client.datasets.list()}
            with DataLoader(InMemory(plain()), limits={"nodes": 80}) as other:
                assert_whole(other, plain())
            assert {dataset.name for dataset in client.datasets.list()} == before
            with DataLoader(plain(100), limits=LIMITS, name="mine") as other:
                assert len(numbers(other)) == len(other)
            with pytest.raises(ValueError, match="'mine' is stored with 100 graphs; these are 150"):
                DataLoader(plain(), limits=LIMITS, name="mine")
            with DataLoader("mine", limits=LIMITS, address=address) as other:
                assert sorted(sum(numbers(other), [])) == list(range(100))
            with DataLoader("mine", 30, address=address, drop_last=True) as other:
                assert [len(each) for each in numbers(other)] == [30, 30, 30]
                assert len(other) == 3


def test_loaders_that_are_made_at_the_same_time_store_a_data_set_once() -> None:
    graphs = plain(140)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        made = [threads.submit(DataLoader, graphs, limits=LIMITS) for _ in range(4)]
    for future in made:
        assert_whole(future.result(), graphs)


def test_seeds_epochs_and_states() -> None:
    for options in ({"batch_size": 8}, {"limits": LIMITS}):
        first = DataLoader(plain(), shuffle=True, seed=9, **options)
        again = DataLoader(plain(), shuffle=True, seed=9, **options)
        epochs = [numbers(first) for _ in range(3)]
        assert first.epoch == 2
        again.set_epoch(2)
        assert numbers(again) == epochs[2]
        again.set_epoch(1)
        passing = iter(again)
        given = [next(passing).number.tolist() for _ in range(3)]
        state = again.state_dict()
        assert state == {"epoch": 1, "next_step": 3, "seed": 9}
        other = DataLoader(plain(), shuffle=True, seed=9, **options)
        other.load_state_dict(state)
        assert given + numbers(other) == epochs[1]
        # The next pass is the next epoch.
        assert numbers(other) == epochs[2]
        with pytest.raises(ValueError, match="seed=9"):
            DataLoader(plain(), shuffle=True, seed=8, **options).load_state_dict(state)
    torch.manual_seed(1)
    drawn = DataLoader(plain(), 8, shuffle=True).seed
    torch.manual_seed(1)
    assert DataLoader(plain(), 8, shuffle=True).seed == drawn
    generator = torch.Generator().manual_seed(1)
    assert DataLoader(plain(), 8, shuffle=True, generator=generator).seed == drawn


@pytest.mark.parametrize("options", [{"batch_size": 8}, {"limits": LIMITS}])
def test_ranks_share_each_epoch(options: Any) -> None:
    ranks = [
        DataLoader(plain(), shuffle=True, seed=2, rank=rank, num_ranks=3, **options)
        for rank in range(3)
    ]
    shares = [numbers(loader) for loader in ranks]
    assert len({len(share) for share in shares}) == 1 and len(shares[0]) == len(ranks[0])
    assert sorted(sum(sum(shares, []), [])) == list(range(len(plain())))


def test_drop_last_leaves_out_what_is_not_full() -> None:
    loader = DataLoader(plain(), 32, shuffle=True, drop_last=True)
    assert len(loader) == 4 and [len(each) for each in numbers(loader)] == [32] * 4


def test_a_transform_is_applied_each_time_unless_once_will_do() -> None:
    calls = []

    def transform(data: Data) -> Data:
        calls.append(data.number)
        return data

    dataset = InMemory(plain(), transform)
    loader = DataLoader(dataset, 8, shuffle=True)
    calls.clear()
    for _ in range(2):
        assert_whole(loader, plain())
    assert len(calls) == 2 * len(plain())
    with pytest.raises(ValueError, match="transform_once=True"):
        DataLoader(dataset, limits=LIMITS)
    loader = DataLoader(dataset, limits=LIMITS, transform_once=True)
    calls.clear()
    assert_whole(loader, plain())
    assert not calls


def test_a_job_goes_on_where_it_was(server: LocalServer) -> None:
    make = functools.partial(
        DataLoader, plain(), limits=LIMITS, job="run/1", seed=5, address=server.address
    )
    with make() as loader:
        passing = iter(loader)
        given = [next(passing).number.tolist() for _ in range(3)]
        state = loader.state_dict()
    with make(num_workers=1) as loader:
        loader.load_state_dict(state)
        rest = numbers(loader)
        assert sorted(sum(given + rest, [])) == list(range(len(plain())))
        assert sorted(sum(numbers(loader), [])) == list(range(len(plain())))
        assert loader.epoch == 1


def test_what_makes_no_sense_is_named() -> None:
    graph = plain()[0]
    with pytest.raises(TypeError, match=r"one graph, not a data set: give a list, as \[data\]"):
        DataLoader(graph)
    with pytest.raises(TypeError, match="one graph, not a data set"):
        packhouse.pyg.table(graph)
    with pytest.raises(ValueError, match="there is no graph"):
        DataLoader([])
    with pytest.raises(ValueError, match="limits: given beside device"):
        DataLoader(plain(), limits=LIMITS, device="gpu.json")
    with pytest.raises(ValueError, match="padding: fixed shapes need limits"):
        DataLoader(plain(), 8, padding="graph")
    with pytest.raises(ValueError, match="batch_size 0 is below 1"):
        DataLoader(plain(), 0)
    with pytest.raises(TypeError, match="sampler: ranks of torch.distributed share"):
        DataLoader(plain(), 8, sampler=[1, 2])
    with pytest.raises(ValueError, match="by address"):
        DataLoader("mine", 8)
    with pytest.raises(ValueError, match="batch_size: a server packs shuffled graphs by limits"):
        DataLoader(plain(), 8, shuffle=True, job="run")
    with pytest.raises(TypeError, match="there is no argument 'no_such'"):
        DataLoader(plain(), limits=LIMITS, no_such=1)
    with pytest.raises(ValueError, match="attribute 'smiles'.*exclude_keys"):
        DataLoader([Data(x=torch.zeros(2, 1), smiles="CC")] * 2, 2)
    loader = DataLoader([Data(x=torch.zeros(2, 1)), Data(x=torch.zeros(9, 1))], limits={"nodes": 8})
    with pytest.raises(PackhouseError, match="graph 1.*9"):
        list(loader)


def test_a_failed_ingest_leaves_nothing(client: Client) -> None:
    class Broken(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 40_000

        def __getitem__(self, number: int) -> Data:
            if number == 39_999:
                raise KeyError("it is broken")
            return plain()[0]

    for dataset, error in (
        (Broken(), KeyError),
        ([*plain(5), Data(x=torch.zeros(2, 7))], ValueError),
        (Data(x=torch.zeros(2, 1)), TypeError),
        ([], ValueError),
    ):
        with pytest.raises(error):
            packhouse.pyg.ingest(client, "broken", dataset)
        with pytest.raises(PackhouseError, match="NOT_FOUND"):
            client.datasets.get("broken")
