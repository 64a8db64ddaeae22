"""Batches as DGL makes them, and its graphs as ours."""

from __future__ import annotations

import pathlib
from typing import Any, Callable, Iterator

import dgl
import pytest
import torch
from dgl.dataloading import GraphDataLoader
from graph_sources import PlainGraph, TypedGraph, of_npz, random_plain, random_typed

import packhouse.dgl
from packhouse import Client, GraphTable, Loader, LocalServer, PackOptions, Padding
from packhouse.batch import Batch


def graph_of(graph: PlainGraph) -> tuple[dgl.DGLGraph, torch.Tensor]:
    source, target = map(torch.from_numpy, graph.edge_index)
    made = dgl.graph((source, target), num_nodes=graph.num_nodes)
    made.ndata.update({name: torch.from_numpy(array) for name, array in graph.nodes.items()})
    made.edata.update({name: torch.from_numpy(array) for name, array in graph.edges.items()})
    return made, torch.from_numpy(graph.whole["y"])[0]


def typed_graph_of(graph: TypedGraph) -> tuple[dgl.DGLGraph, dict[str, torch.Tensor]]:
    ends = {key: tuple(map(torch.from_numpy, ends)) for key, ends in graph.edge_index.items()}
    made = dgl.heterograph(ends, graph.num_nodes)
    for name, features in graph.nodes.items():
        for feature, array in features.items():
            made.nodes[name].data[feature] = torch.from_numpy(array)
    for key, features in graph.edges.items():
        for feature, array in features.items():
            made.edges[key].data[feature] = torch.from_numpy(array)
    return made, {name: torch.from_numpy(array) for name, array in graph.whole.items()}


def packed(client: Client, table: GraphTable, padding: Padding) -> Iterator[Batch]:
    limits = {name: 8 + 3 * int(table.counts(name).max()) for name in table.schema.components}
    limits["graphs"] = 12
    # How integers travelled makes no difference.
    compact = padding is Padding.GRAPH
    yield from client.pack([table], PackOptions(limits, padding, compact=compact))


def assert_same_frame(ours: Any, theirs: Any) -> None:
    assert set(ours) == set(theirs)
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype and torch.equal(ours[name], tensor), name


def assert_same_graph(ours: dgl.DGLGraph, theirs: dgl.DGLGraph) -> None:
    assert ours.ntypes == theirs.ntypes and ours.canonical_etypes == theirs.canonical_etypes
    assert ours.idtype == theirs.idtype and ours.batch_size == theirs.batch_size
    for name in theirs.ntypes:
        assert ours.num_nodes(name) == theirs.num_nodes(name)
        mine, other = ours.batch_num_nodes(name), theirs.batch_num_nodes(name)
        assert mine.dtype == other.dtype and torch.equal(mine, other)
        assert_same_frame(ours.nodes[name].data, theirs.nodes[name].data)
    for key in theirs.canonical_etypes:
        for mine, other in zip(
            ours.edges(order="eid", etype=key), theirs.edges(order="eid", etype=key)
        ):
            assert mine.dtype == other.dtype and torch.equal(mine, other)
        mine, other = ours.batch_num_edges(key), theirs.batch_num_edges(key)
        assert mine.dtype == other.dtype and torch.equal(mine, other)
        assert_same_frame(ours.edges[key].data, theirs.edges[key].data)


def assert_conforms(client: Client, items: list[Any]) -> None:
    table = packhouse.dgl.table(items)
    for padding in (Padding.NONE, Padding.GRAPH):
        num_seen = 0
        for batch in packed(client, table, padding):
            ours, data = packhouse.dgl.to_batch(batch)
            chosen = [items[number] for number in batch.graph_ids]
            theirs = dgl.batch([graph for graph, _ in chosen])
            assert_same_graph(ours, theirs)
            for mine, other in zip(dgl.unbatch(ours), dgl.unbatch(theirs)):
                assert_same_graph(mine, other)
            for position, (_, label) in enumerate(chosen):
                labels = label if isinstance(label, dict) else {"label": label}
                assert set(data) == set(labels)
                for name, value in labels.items():
                    assert torch.equal(data[name][position], value)
            num_seen += len(batch)
            if padding is Padding.GRAPH:
                assert_padded(batch, ours)
        assert num_seen == len(items)


def assert_padded(batch: Batch, real: dgl.DGLGraph) -> None:
    """The padding graphs are more graphs; without them it is the same."""
    padded, data = packhouse.dgl.to_batch(batch, padding=True)
    assert padded.batch_size == batch.rows["graphs"] == len(data["graph_mask"])
    assert int(data["graph_mask"].sum()) == len(batch)
    for name in padded.ntypes:
        assert int(padded.nodes[name].data.pop("node_mask").sum()) == real.num_nodes(name)
    for key in padded.canonical_etypes:
        assert int(padded.edges[key].data.pop("edge_mask").sum()) == real.num_edges(key)
    apart = dgl.unbatch(padded)
    assert_same_graph(dgl.batch(apart[: len(batch)]), real)


@pytest.mark.parametrize("name, count", [("molhiv", 300), ("tu_PROTEINS", 120)])
def test_real_graphs(
    client: Client, shared_data: Callable[[str], pathlib.Path], name: str, count: int
) -> None:
    graphs = of_npz(shared_data(f"graphs/{name}.npz"), count)
    assert_conforms(client, [graph_of(graph) for graph in graphs])


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_with_empty_ones(client: Client, seed: int) -> None:
    assert_conforms(client, [graph_of(graph) for graph in random_plain(seed, 60)])


@pytest.mark.parametrize("seed", range(6))
def test_random_heterogeneous_graphs(client: Client, seed: int) -> None:
    assert_conforms(client, [typed_graph_of(graph) for graph in random_typed(seed, 50)])


def test_graphs_without_edges(client: Client) -> None:
    assert_conforms(client, [graph_of(graph) for graph in random_plain(1, 40, largest=0)])


def test_indices_may_have_32_bits(client: Client) -> None:
    items = [graph_of(graph) for graph in random_plain(2, 12)]
    (batch,) = client.pack([packhouse.dgl.table(items)], PackOptions({"graphs": 16}))
    ours, _ = packhouse.dgl.to_batch(batch, index_dtype="int32")
    # Made anew: a graph that was joined once keeps its counts as they were.
    fresh = [graph_of(graph)[0].int() for graph in random_plain(2, 12)]
    assert_same_graph(ours, dgl.batch([fresh[number] for number in batch.graph_ids]))


def test_a_data_set_is_stored_and_loaded(client: Client, server: LocalServer) -> None:
    class Items(dgl.data.DGLDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("items")

        def process(self) -> None:
            self.items = [graph_of(graph) for graph in random_plain(4, 70)]

        def __getitem__(self, number: int) -> Any:
            return self.items[number]

        def __len__(self) -> int:
            return len(self.items)

    items = Items()
    assert packhouse.dgl.ingest(client, "dgl/items", items).num_graphs == 70
    limits = {"nodes": 100, "edges": 200, "graphs": 12}
    with Loader(server.address, dataset="dgl/items", job="dgl", limits=limits) as loader:
        for batch in loader:
            ours, data = packhouse.dgl.to_batch(batch)
            assert_same_graph(ours, dgl.batch([items[number][0] for number in batch.graph_ids]))
            assert ours.lease == batch.lease and len(data["label"]) == len(batch)
    sampler = packhouse.dgl.batch_sampler(server.address, items, limits)
    num_graphs = 0
    for graph, labels in GraphDataLoader(items, batch_sampler=sampler):
        assert graph.num_nodes() <= 100 and graph.num_edges() <= 200 and len(labels) <= 12
        num_graphs += graph.batch_size
    assert num_graphs == 70


def test_a_rank_without_graphs_gets_a_batch_of_none(client: Client, server: LocalServer) -> None:
    packhouse.dgl.ingest(client, "dgl/few", [graph_of(graph) for graph in random_plain(9, 10)])
    limits = {"nodes": 200, "edges": 400, "graphs": 16}
    counts = []
    for rank in range(2):
        settings: dict[str, Any] = {"limits": limits, "rank": rank, "num_ranks": 2}
        with Loader(server.address, dataset="dgl/few", job="few", **settings) as loader:
            (batch,) = loader
            graph, data = packhouse.dgl.to_batch(batch)
            counts.append(len(data["label"]))
            assert graph.batch_size == len(data["label"]) == len(batch)
    assert sorted(counts) == [0, 10]


def test_masked_batch_norm_is_that_of_the_real_nodes(client: Client) -> None:
    items = [graph_of(graph) for graph in random_plain(9, 12)]
    limits = {"nodes": 400, "edges": 800, "graphs": 16}
    (batch,) = client.pack([packhouse.dgl.table(items)], PackOptions(limits, Padding.GRAPH))
    real, _ = packhouse.dgl.to_batch(batch)
    padded, _ = packhouse.dgl.to_batch(batch, padding=True)
    ours = packhouse.dgl.MaskedBatchNorm(3)(padded.ndata["x"], padded.ndata["node_mask"])
    theirs = torch.nn.BatchNorm1d(3)(real.ndata["x"])
    torch.testing.assert_close(ours[: len(theirs)], theirs)
    assert not ours[len(theirs) :].any()


def test_what_cannot_be_sent_is_named() -> None:
    graph, label = graph_of(next(iter(random_plain(1, 2))))
    with pytest.raises(ValueError, match="has 3 parts, not a graph and a label"):
        packhouse.dgl.table([(graph, label, label)])
    with pytest.raises(ValueError, match="no graph"):
        packhouse.dgl.table([])
    other = dgl.graph(([0], [0]))
    other.ndata["z"] = torch.zeros(1)
    with pytest.raises(ValueError, match="from 1 on have other features"):
        list(packhouse.dgl.tables([(graph, label), (other, label)], graphs_per_table=1))
