"""Batches as DGL makes them, and its graphs as ours."""

from __future__ import annotations

import pathlib
from typing import Any, Callable, Iterator

import dgl
import numpy as np
import pytest
import torch
from dgl.dataloading import GraphDataLoader
from graph_sources import PlainGraph, TypedGraph, of_npz, random_plain, random_typed

import packhouse.dgl
from packhouse import Client, Evaluation, GraphTable, Loader, LocalServer, PackOptions, Padding
from packhouse.data.batch import Batch


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
    with pytest.raises(ValueError, match="graph 0: label 'label' has gaps"):
        packhouse.dgl.table([(graph, np.ma.masked_array([1, 2], mask=[False, True]))])
    with pytest.raises(ValueError, match="'node_mask': batches have something else of this name"):
        packhouse.dgl.table([small(ndata={"node_mask": torch.ones(2)})])


def small(ndata: dict[str, Any], edata: dict[str, Any] | None = None) -> Any:
    graph = dgl.graph(([0], [1]))
    graph.ndata.update(ndata)
    graph.edata.update(edata or {})
    return graph


def typed(*names: str) -> Any:
    return dgl.heterograph({("a", name, "b"): ([0], [0]) for name in names})


def alone(graph: Any, name: str) -> Any:
    """With nodes of one more type, in which no edge ends."""
    ends = {key: graph.edges(order="eid", etype=key) for key in graph.canonical_etypes}
    return dgl.heterograph(ends, {**{each: 1 for each in graph.ntypes}, name: 1})


X, Z = torch.zeros(2, 1), torch.zeros(2, 3)
# A pair of items that differ, and what the error says when the second comes after the first.
DIFFERENT: list[tuple[Any, Any, str]] = [
    (small({"x": X, "z": X}), small({"x": X}), "1 lacks .* 0 has: nodes with the feature 'z'"),
    (small({"x": X}), small({"x": X, "z": X}), "1 has .* 0 lacks: nodes with the feature 'z'"),
    (small({"x": X}), small({"x": Z}), r"'x': graph 1 has float32, .* \[3\], graph 0 .* \[1\]"),
    (small({"x": X}), small({"x": X.double()}), "'x': graph 1 has float64, .*graph 0 float32"),
    (small({"x": X}), small({"x": X.long()}), "'x': graph 1 has int64, .*graph 0 float32"),
    (small({}, {"w": X[:1]}), small({}), "1 lacks .* edges with the feature 'w'"),
    (typed("likes"), typed("likes", "buys"), r"0 lacks: edges of type \('a', 'buys', 'b'\)"),
    (typed("likes", "buys"), typed("likes"), r"0 has: edges of type \('a', 'buys', 'b'\)"),
    (small({}, {"w": X[:1]}), small({}, {"w": Z[:1]}), r"edges .* 'w': graph 1 .* \[3\], .* \[1\]"),
    (typed("likes"), alone(typed("likes"), "c"), "0 lacks: nodes of type 'c'"),
    ((small({}), X[:, 0]), (small({}), Z[0]), r"'label': graph 1 .* \[3\], graph 0 .* \[2\]"),
    ((small({}), {"a": X}), (small({}), {"a": X, "b": X}), "1 has .* the label 'b'"),
    ((small({}), {"a": X, "b": X}), (small({}), {"a": X}), "1 lacks .* the label 'b'"),
    ((small({}), 16777217), (small({}), 0.5), "the label 'label': graph 1 has float64.* 0 int64"),
    ((small({}), torch.tensor(70000)), (small({}), torch.tensor(0.5).half()), "float16.* int64"),
    ((small({}), 1), small({}), "1 lacks what graph 0 has: the label 'label'"),
]


@pytest.mark.parametrize("first, second, words", DIFFERENT)
def test_graphs_that_differ_are_named_and_nothing_is_stored(
    client: Client, first: Any, second: Any, words: str
) -> None:
    """Whichever part the second is in, and whether there is a list to look at before or none."""
    for graphs_per_table in (0, 1, 2):
        with pytest.raises(ValueError, match=words):
            list(packhouse.dgl.tables([first, second], graphs_per_table=graphs_per_table))
        with pytest.raises(ValueError, match=words):
            list(packhouse.dgl.tables(iter([first, second]), graphs_per_table=graphs_per_table))
    for graphs in ([first, second], iter([first, second])):
        with pytest.raises(ValueError, match=words):
            packhouse.dgl.ingest(client, "dgl/different", graphs)
        assert "dgl/different" not in [dataset.name for dataset in client.datasets.list()]


def test_names_that_nodes_edges_and_labels_share_are_kept(client: Client) -> None:
    items = [
        (small({"x": torch.rand(2, 3)}, {"x": torch.rand(1, 2)}), {"x": torch.tensor(float(n))})
        for n in range(3)
    ]
    table = packhouse.dgl.table(items)
    assert {"nodes.x", "edges.x", "graphs.x"} < {spec.name for spec in table.schema.tensors}
    (batch,) = client.pack([table], PackOptions({"graphs": 8}))
    graph, data = packhouse.dgl.to_batch(batch)
    chosen = [items[number] for number in batch.graph_ids]
    assert_same_graph(graph, dgl.batch([each for each, _ in chosen]))
    assert torch.equal(data["x"], torch.stack([labels["x"] for _, labels in chosen]))
    # And the names that ends have.
    graphs = [typed("likes"), typed("likes")]
    for each in graphs:
        each.edges["likes"].data["source"] = torch.rand(1)
    (batch,) = client.pack([packhouse.dgl.table(graphs)], PackOptions({"graphs": 8}))
    ours, _ = packhouse.dgl.to_batch(batch)
    assert_same_graph(ours, dgl.batch([graphs[number] for number in batch.graph_ids]))


@pytest.mark.parametrize(
    "labels", [[16777217, 2], [0.1, 0.2], [True, False], [np.float32(1), np.float32(2)]]
)
def test_numbers_become_what_dgl_makes_of_them(client: Client, labels: list[Any]) -> None:
    items = [(small({}), label) for label in labels]
    (batch,) = client.pack([packhouse.dgl.table(items)], PackOptions({"graphs": 8}))
    ours = packhouse.dgl.to_batch(batch).data["label"]
    (_, theirs) = next(iter(GraphDataLoader([items[n] for n in batch.graph_ids], batch_size=8)))
    assert ours.dtype == theirs.dtype and torch.equal(ours, theirs)


def test_sizes_are_taken_by_name(server: LocalServer) -> None:
    """Two graphs of the same types, in other orders."""
    first = dgl.heterograph({("a", "to", "b"): ([0], [0])}, {"a": 9, "b": 2})
    second = dgl.heterograph({("a", "to", "b"): ([0], [0])}, {"b": 2, "a": 9})
    limits = {"a": 9, "b": 2, "a.to.b": 4, "graphs": 4}
    sampler = packhouse.dgl.batch_sampler(server.address, [first, second], limits)
    assert sorted(map(len, sampler)) == [1, 1]
    with pytest.raises(ValueError, match="graph 1 has 'a.buys.b', which graph 0 lacks"):
        packhouse.dgl.batch_sampler("nowhere", [typed("likes"), typed("likes", "buys")], limits)


def test_padding_values_are_those_of_padded_rows(client: Client, server: LocalServer) -> None:
    items = [small({"x": X}, {"length": torch.ones(1)}) for _ in range(3)]
    values = {"length": 2.5}
    packhouse.dgl.ingest(client, "dgl/values", items, padding_values=values)
    # Again: nothing is done.
    packhouse.dgl.ingest(client, "dgl/values", items, padding_values=values)
    with pytest.raises(ValueError, match="another schema: .*'length', it has .* value 2.5"):
        packhouse.dgl.ingest(client, "dgl/values", items)
    with pytest.raises(ValueError, match=r"padding_values: no tensor 'z'; there are \['x', "):
        packhouse.dgl.ingest(client, "dgl/none", items, padding_values={"z": 1})
    limits = {"nodes": 9, "edges": 8, "graphs": 5}
    (batch,) = Evaluation(server.address, dataset="dgl/values", limits=limits, padding="graph")
    graph, _ = packhouse.dgl.to_batch(batch, padding=True)
    assert graph.edata["length"].tolist() == [1.0] * 3 + [2.5] * 5


def test_the_loader_gives_what_dgls_own_gives() -> None:
    pairs = [graph_of(graph) for graph in random_plain(21, 60) if graph.num_nodes]
    dataset = [(graph, torch.tensor(float(number))) for number, (graph, _) in enumerate(pairs)]
    for (ours, labels), (theirs, their_labels) in zip(
        packhouse.dgl.GraphDataLoader(dataset, 16), GraphDataLoader(dataset, batch_size=16)
    ):
        assert_same_graph(ours, theirs)
        assert torch.equal(labels, their_labels)
    limits = {"nodes": 60, "edges": 200, "graphs": 16}
    with packhouse.dgl.GraphDataLoader(dataset, shuffle=True, limits=limits) as loader:
        seen = []
        for ours, labels in loader:
            chosen = [int(label) for label in labels]
            assert_same_graph(ours, dgl.batch([dataset[number][0] for number in chosen]))
            seen += chosen
        assert sorted(seen) == list(range(len(dataset)))
    (ours,) = packhouse.dgl.GraphDataLoader([graph for graph, _ in dataset], 1000)
    assert_same_graph(ours, dgl.batch([graph for graph, _ in dataset]))
    with pytest.raises(TypeError, match="one graph, not a data set"):
        packhouse.dgl.GraphDataLoader(dataset[0][0])
