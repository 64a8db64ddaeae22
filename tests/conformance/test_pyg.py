"""Batches as PyTorch Geometric makes them: field for field, and its data sets as ours."""

from __future__ import annotations

import contextlib
import copy
import gc
import pathlib
from typing import Any, Callable, Iterator

import numpy as np
import pytest
import torch
from graph_sources import PlainGraph, TypedGraph, of_npz, random_plain, random_typed
from torch_geometric.data import Batch, Data, HeteroData

import packhouse.pyg
from packhouse import (
    Client,
    GraphTable,
    Loader,
    LocalServer,
    PackOptions,
    Padding,
)
from packhouse.data.batch import Batch as PackedBatch


def data_of(graph: PlainGraph) -> Data:
    tensors = {**graph.nodes, **graph.edges, **graph.whole}
    return Data(
        edge_index=torch.from_numpy(graph.edge_index),
        num_nodes=graph.num_nodes,
        **{name: torch.from_numpy(array) for name, array in tensors.items()},
    )


def hetero_data_of(graph: TypedGraph) -> HeteroData:
    data = HeteroData()
    for name, features in graph.nodes.items():
        for feature, array in features.items():
            data[name][feature] = torch.from_numpy(array)
        if not features:
            data[name].num_nodes = graph.num_nodes[name]
    for key, features in graph.edges.items():
        data[key].edge_index = torch.from_numpy(graph.edge_index[key])
        for feature, array in features.items():
            data[key][feature] = torch.from_numpy(array)
    for feature, array in graph.whole.items():
        data[feature] = torch.from_numpy(array)
    return data


def packed(
    client: Client, table: GraphTable, padding: Padding, graphs: int = 16
) -> Iterator[PackedBatch]:
    """The table's graphs in batches of at most so many."""
    limits = {name: 8 + 3 * int(table.counts(name).max()) for name in table.schema.components}
    limits["graphs"] = graphs
    # How integers travelled makes no difference.
    compact = padding is Padding.GRAPH
    yield from client.pack([table], PackOptions(limits, padding, compact=compact))


def assert_same_value(ours: Any, theirs: Any, name: str) -> None:
    assert type(ours) is type(theirs), name
    if isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, name
        assert torch.equal(ours, theirs), name
        assert ours.is_contiguous() == theirs.is_contiguous(), name
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), name
        for key, value in theirs.items():
            assert_same_value(ours[key], value, f"{name}/{key}")
    else:
        assert ours == theirs, name


def assert_same_data(ours: Any, theirs: Any) -> None:
    """Every store, every field of it, in their order, what is private too."""
    assert type(ours) is type(theirs)
    assert [store._key for store in ours.stores] == [store._key for store in theirs.stores]
    for our_store, their_store in zip(ours.stores, theirs.stores):
        assert list(our_store.keys()) == list(their_store.keys())
        for key in their_store.keys():
            assert_same_value(our_store[key], their_store[key], key)
        assert getattr(our_store, "_num_nodes", None) == getattr(their_store, "_num_nodes", None)


def assert_same_batch(ours: Any, theirs: Any) -> None:
    assert_same_data(ours, theirs)
    assert ours.num_graphs == theirs.num_graphs
    assert ours.num_nodes == theirs.num_nodes
    for kind in ("_slice_dict", "_inc_dict"):
        # PyG notes nothing of stores that have no tensor, whose batches it cannot take apart.
        noted = {key: value for key, value in getattr(ours, kind).items() if not _is_empty(value)}
        assert set(noted) == set(getattr(theirs, kind)), kind
        for key, value in getattr(theirs, kind).items():
            assert_same_value(noted[key], value, f"{kind}/{key}")


def _is_empty(value: Any) -> bool:
    return isinstance(value, dict) and not value


def assert_conforms(client: Client, graphs: list[Any], data_class: Any = None) -> None:
    """What comes out of the server is what PyG would have made of the same graphs."""
    table = packhouse.pyg.table(graphs)
    num_seen = 0
    for padding in (Padding.NONE, Padding.GRAPH, Padding.MASKED):
        for batch in packed(client, table, padding):
            ours = packhouse.pyg.to_batch(batch, data_class=data_class)
            chosen = [graphs[number] for number in batch.graph_ids]
            theirs = Batch.from_data_list(chosen)
            assert_same_batch(ours, theirs)
            assert_same_apart(ours, theirs, chosen)
            num_seen += len(batch)
            if padding is Padding.GRAPH:
                assert_padded(batch, ours, data_class)
    assert num_seen == 3 * len(graphs)


def assert_same_apart(ours: Any, theirs: Any, chosen: list[Any]) -> None:
    """Taken apart, as PyG does it where it can, and always the graphs that went in."""
    apart = ours.to_data_list()
    assert len(apart) == len(chosen)
    with contextlib.suppress(KeyError):
        for our_data, their_data in zip(apart, theirs.to_data_list()):
            assert_same_data(our_data, their_data)
    for our_data, graph in zip(apart, chosen):
        for our_store, store in zip(our_data.stores, graph.stores):
            assert set(our_store.keys()) == set(store.keys())
            for key, value in store.items():
                value = torch.as_tensor(value)
                assert torch.equal(torch.as_tensor(our_store[key]).reshape(value.shape), value)


def assert_padded(batch: PackedBatch, real: Any, data_class: Any) -> None:
    """With padding the real rows come first, untouched, and nothing else touches them."""
    padded = packhouse.pyg.to_batch(batch, padding=True, data_class=data_class)
    assert padded.num_graphs == batch.rows["graphs"] and len(padded.graph_mask) == padded.num_graphs
    assert int(padded.graph_mask.sum()) == real.num_graphs
    for ours, theirs in zip(padded.stores, real.stores):
        for key, value in theirs.items():
            if not isinstance(value, torch.Tensor):
                continue
            start = value
            whole = ours[key]
            dim = real.__cat_dim__(key, value, theirs) or 0
            assert torch.equal(whole.narrow(dim, 0, start.shape[dim]), start), key
    for store in padded.node_stores:
        assert len(store.node_mask) == store.num_nodes == int(store.ptr[-1]) == len(store.batch)
        assert bool((store.batch[~store.node_mask] == real.num_graphs).all())
        assert int(store.node_mask.sum()) == int(store.ptr[real.num_graphs])
    for store in padded.edge_stores:
        ends = [store._key[0], store._key[2]] if store._key else [None, None]
        assert len(store.edge_mask) == store.edge_index.shape[1]
        for end, key in enumerate(ends):
            nodes = padded if key is None else padded[key]
            assert not nodes.node_mask[store.edge_index[end, ~store.edge_mask]].any()


def test_molecules(client: Client, shared_data: Callable[[str], pathlib.Path]) -> None:
    graphs = of_npz(shared_data("graphs/molhiv.npz"), 700)
    assert_conforms(client, [data_of(graph) for graph in graphs])


def test_proteins(client: Client, shared_data: Callable[[str], pathlib.Path]) -> None:
    path = shared_data("graphs/tu_PROTEINS.npz")
    assert_conforms(client, [data_of(graph) for graph in of_npz(path, 300)])


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_with_empty_ones(client: Client, seed: int) -> None:
    assert_conforms(client, [data_of(graph) for graph in random_plain(seed, 60)])


@pytest.mark.parametrize("seed", range(6))
def test_random_heterogeneous_graphs(client: Client, seed: int) -> None:
    assert_conforms(client, [hetero_data_of(graph) for graph in random_typed(seed, 50)])


def test_graphs_without_any_node_or_edge(client: Client) -> None:
    assert_conforms(client, [data_of(graph) for graph in random_plain(1, 40, largest=0)])


class Pairs(Data):
    """With its own rule for a whole-graph tensor, as PyG's documentation has it."""

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        return None if key == "target" else super().__cat_dim__(key, value, *args, **kwargs)


def test_every_kind_of_attribute(client: Client) -> None:
    """Meshes, numbers, bits, all types, rows of other numbers, a subclass's own rule."""
    rng = np.random.default_rng(3)
    graphs = []
    for _ in range(40):
        nodes, edges, faces = (int(n) for n in rng.integers(1, 9, 3))
        graphs.append(
            Pairs(
                pos=torch.from_numpy(rng.random((nodes, 3))),
                edge_index=torch.from_numpy(rng.integers(0, nodes, (2, edges))),
                edge_weight=torch.from_numpy(rng.random(edges, np.float32)),
                face=torch.from_numpy(rng.integers(0, nodes, (3, faces))),
                root_index=torch.from_numpy(rng.integers(0, nodes, 1)),
                train_mask=torch.from_numpy(rng.random(nodes) < 0.5),
                half=torch.rand(nodes, 2).half(),
                brain=torch.rand(nodes).bfloat16(),
                small=torch.from_numpy(rng.integers(0, 255, (nodes, 1, 2)).astype(np.uint8)),
                tags=torch.from_numpy(rng.integers(0, 5, int(rng.integers(0, 4)))),
                number=int(rng.integers(0, 99)),
                real=float(rng.random()),
                scalar=torch.tensor(1.5),
                target=torch.rand(2, 3),
            )
        )
    assert_conforms(client, graphs, Pairs)


def test_rings_have_as_many_edges_as_nodes(client: Client) -> None:
    """Then only names tell which is which, as in PyG."""
    graphs = []
    for nodes in range(1, 30):
        here = torch.arange(nodes)
        graphs.append(
            Data(
                x=torch.rand(nodes, 2),
                edge_index=torch.stack([here, (here + 1) % nodes]),
                edge_attr=torch.rand(nodes, 1),
                deg=torch.ones(nodes),
            )
        )
    with pytest.raises(ValueError, match="'deg' has as many rows as nodes and as edges: say which"):
        packhouse.pyg.table(graphs)
    table = packhouse.pyg.table(graphs, components={"deg": "nodes"})
    components = {spec.name: spec.component for spec in table.schema.tensors}
    assert components == {"x": "nodes", "edge_index": "edges", "edge_attr": "edges", "deg": "nodes"}
    for graph in graphs:
        graph.node_deg = graph.deg
        del graph.deg
    assert_conforms(client, graphs)


class Labelled(Data):
    """Cannot be made without an argument, which PyG gives it None for."""

    def __init__(self, label: Any, **attributes: Any) -> None:
        super().__init__(**attributes)
        if label is not None:
            self.label = label


def test_a_class_with_arguments_of_its_own(client: Client) -> None:
    graphs = [Labelled(torch.tensor([number]), x=torch.rand(number % 3, 1)) for number in range(40)]
    table = packhouse.pyg.table(graphs)
    for batch in packed(client, table, Padding.NONE):
        ours = packhouse.pyg.to_batch(batch, data_class=Labelled)
        # PyG itself cannot take such a batch apart.
        assert_same_batch(ours, Batch.from_data_list([graphs[n] for n in batch.graph_ids]))


def test_a_batch_of_torch_tensors_is_refused(client: Client) -> None:
    from packhouse.torch import to_torch

    table = packhouse.pyg.table([data_of(graph) for graph in random_plain(5, 8)])
    (batch,) = client.pack([table], PackOptions({"graphs": 16}))
    with pytest.raises(TypeError, match="TorchBatch is not packhouse's own batch: give"):
        packhouse.pyg.to_batch(to_torch(batch))


def test_a_batch_leaves_nothing_to_the_garbage_collector(client: Client) -> None:
    graph = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
    table = packhouse.pyg.table([graph] * 4)
    (batch,) = packed(client, table, Padding.GRAPH)
    packhouse.pyg.to_batch(batch)
    gc.collect()
    gc.disable()
    try:
        for is_taken_apart in (False, True):
            made = packhouse.pyg.to_batch(batch)
            if is_taken_apart:
                assert made.get_example(1).num_nodes == 2
            del made
            assert gc.collect() == 0
    finally:
        gc.enable()


def test_padding_that_no_graph_holds_is_refused(client: Client) -> None:
    graphs = [data_of(graph) for graph in random_plain(5, 8)]
    table = packhouse.pyg.table(graphs)
    limits = {"nodes": 200, "edges": 400, "graphs": 8}
    (batch,) = client.pack([table], PackOptions(limits, Padding.MASKED))
    assert packhouse.pyg.to_batch(batch).num_graphs == 8
    with pytest.raises(ValueError, match="no padding graph to hold them: ask for padding"):
        packhouse.pyg.to_batch(batch, padding=True)


def test_follow_batch_and_loaders(client: Client, server: LocalServer) -> None:
    """Stored and loaded again; what the trainer needs beside the data is there, and no field."""
    graphs = [data_of(graph) for graph in random_plain(6, 90)]
    dataset = packhouse.pyg.ingest(client, "pyg/plain", graphs)
    assert dataset.num_graphs == 90
    assert packhouse.pyg.ingest(client, "pyg/plain", graphs).id == dataset.id
    with pytest.raises(ValueError, match="sealed with 90 graphs; these are 89"):
        packhouse.pyg.ingest(client, "pyg/plain", graphs[1:])
    limits = {"nodes": 100, "edges": 200, "graphs": 12}
    with Loader(server.address, dataset="pyg/plain", job="pyg", limits=limits) as loader:
        for batch in loader:
            ours = packhouse.pyg.to_batch(batch, follow_batch=["edge_attr", "y"])
            chosen = [graphs[number] for number in batch.graph_ids]
            assert_same_batch(ours, Batch.from_data_list(chosen, ["edge_attr", "y"]))
            assert ours.lease == batch.lease and ours.loss_weight == batch.loss_weight
            assert copy.copy(ours).lease == batch.lease


def test_a_model_says_the_same_of_padded_batches(
    client: Client, shared_data: Callable[[str], pathlib.Path]
) -> None:
    """Messages, pooling and masked BatchNorm: real graphs do not see that there is padding."""
    from torch_geometric.nn import GINConv, global_add_pool

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GINConv(torch.nn.Linear(9, 16))
            self.norm = packhouse.pyg.MaskedBatchNorm(16)

        def forward(self, data: Any) -> Any:
            x = self.conv(data.x.double(), data.edge_index)
            x = self.norm(x, data.get("node_mask"))
            return global_add_pool(x.relu(), data.batch, data.num_graphs)

    torch.manual_seed(0)
    # In double: BatchNorm1d itself is a hundred times further from it than MaskedBatchNorm.
    plain, masked = Net().double(), Net().double()
    masked.load_state_dict(plain.state_dict())
    graphs = [data_of(graph) for graph in of_npz(shared_data("graphs/molhiv.npz"), 100)]
    shapes = set()
    for batch in packed(client, packhouse.pyg.table(graphs), Padding.GRAPH):
        real = plain(packhouse.pyg.to_batch(batch))
        data = packhouse.pyg.to_batch(batch, padding=True)
        shapes.add((data.x.shape, data.edge_index.shape, data.num_graphs))
        torch.testing.assert_close(masked(data)[data.graph_mask], real)
    assert len(shapes) == 1
    for ours, theirs in zip(masked.state_dict().values(), plain.state_dict().values()):
        torch.testing.assert_close(ours, theirs)


def test_masked_batch_norm_of_no_row_uses_its_parameters() -> None:
    """A rank that has nothing to do in a step must still give every gradient."""
    norm = packhouse.pyg.MaskedBatchNorm(3)
    before = norm.running_mean.clone()
    for x, mask in (
        (torch.ones(4, 3), torch.zeros(4, dtype=torch.bool)),
        (torch.ones(0, 3), None),
    ):
        norm.zero_grad()
        x.requires_grad_()
        out = norm(x, mask)
        out.sum().backward()
        assert out.shape == x.shape and not out.any()
        assert x.grad is not None
        assert torch.equal(norm.weight.grad, torch.zeros(3))
    assert torch.equal(norm.running_mean, before)
    # A row alone has no variance.
    torch.testing.assert_close(norm(torch.ones(2, 3), torch.tensor([True, False]))[0], norm.bias)


def test_a_rank_without_graphs_gets_a_batch_of_none(client: Client, server: LocalServer) -> None:
    """All ranks have as many steps; PyG itself has no batch of no graphs."""
    graphs = [data_of(graph) for graph in random_plain(9, 10) if graph.num_nodes]
    packhouse.pyg.ingest(client, "pyg/few", graphs)
    limits = {"nodes": 200, "edges": 400, "graphs": 16}
    for padding in ("none", "graph"):
        counts = []
        for rank in range(2):
            with Loader(
                server.address,
                dataset="pyg/few",
                job=f"few-{padding}",
                limits=limits,
                padding=padding,
                rank=rank,
                num_ranks=2,
            ) as loader:
                (batch,) = loader
                data = packhouse.pyg.to_batch(batch)
                counts.append(data.num_graphs)
                assert len(data.to_data_list()) == data.num_graphs == len(data.ptr) - 1
                if padding == "graph":
                    padded = packhouse.pyg.to_batch(batch, padding=True)
                    assert padded.num_nodes == 200 and int(padded.node_mask.sum()) == data.num_nodes
        assert sorted(counts) == [0, len(graphs)]
