"""Batches as jraph makes and pads them, and its graphs as ours."""

from __future__ import annotations

import pathlib
from typing import Any, Callable, Iterator

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from graph_sources import PlainGraph, of_npz, random_plain

import packhouse.jraph
from packhouse import (
    Client,
    DType,
    Evaluation,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    PackOptions,
    Padding,
    TensorSpec,
)
from packhouse.data.batch import Batch


def tuple_of(graph: PlainGraph, as_dicts: bool) -> jraph.GraphsTuple:
    def features(arrays: dict[str, Any]) -> Any:
        if as_dicts:
            return dict(arrays) or None
        return next(iter(arrays.values()), None)

    return jraph.GraphsTuple(
        nodes=features(graph.nodes),
        edges=features(graph.edges),
        globals=features(graph.whole),
        senders=graph.edge_index[0].astype(np.int32),
        receivers=graph.edge_index[1].astype(np.int32),
        n_node=np.array([graph.num_nodes], np.int32),
        n_edge=np.array([graph.edge_index.shape[1]], np.int32),
    )


def packed(client: Client, table: GraphTable, padding: Padding) -> Iterator[Batch]:
    limits = {name: 8 + 3 * int(table.counts(name).max()) for name in table.schema.components}
    limits["graphs"] = 12
    # How integers travelled makes no difference.
    compact = padding is Padding.GRAPH
    yield from client.pack([table], PackOptions(limits, padding, compact=compact))


def assert_same(ours: Any, theirs: Any) -> None:
    """Structure, types, values. Ends are int32 here, also where numpy 2 makes them int64 there."""
    for field in ("nodes", "edges", "globals", "n_node", "n_edge"):
        mine, other = getattr(ours, field), getattr(theirs, field)
        assert jax.tree_util.tree_structure(mine) == jax.tree_util.tree_structure(other), field
        for a, b in zip(jax.tree_util.tree_leaves(mine), jax.tree_util.tree_leaves(other)):
            assert a.dtype == b.dtype and a.shape == b.shape, field
            np.testing.assert_array_equal(a, b)
    for field in ("senders", "receivers"):
        assert getattr(ours, field).dtype == np.int32
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))


def assert_conforms(client: Client, graphs: list[jraph.GraphsTuple]) -> None:
    table = packhouse.jraph.table(graphs)
    num_seen = 0
    for batch in packed(client, table, Padding.GRAPH):
        chosen = jraph.batch_np([graphs[number] for number in batch.graph_ids])
        rows = batch.rows
        theirs = jraph.pad_with_graphs(chosen, rows["nodes"], rows["edges"], rows["graphs"])
        ours = packhouse.jraph.to_graphs_tuple(batch)
        assert_same(ours, theirs)
        assert_same(packhouse.jraph.to_graphs_tuple(batch, padding=False), chosen)
        masks = packhouse.jraph.masks(batch)
        np.testing.assert_array_equal(masks.graphs, jraph.get_graph_padding_mask(theirs))
        if jax.tree_util.tree_leaves(theirs.nodes):
            np.testing.assert_array_equal(masks.nodes, jraph.get_node_padding_mask(theirs))
        if jax.tree_util.tree_leaves(theirs.edges):
            np.testing.assert_array_equal(masks.edges, jraph.get_edge_padding_mask(theirs))
        assert_same(jraph.unpad_with_graphs(ours), chosen)
        back = packhouse.jraph.table([packhouse.jraph.to_graphs_tuple(batch, padding=False)])
        expected = table.take(batch.graph_ids.astype(np.int64))
        assert back.equals(GraphTable(table.schema, expected.sizes, expected.tensors))
        num_seen += len(batch)
    assert num_seen == len(graphs)
    for batch in packed(client, table, Padding.NONE):
        chosen = jraph.batch_np([graphs[number] for number in batch.graph_ids])
        assert_same(packhouse.jraph.to_graphs_tuple(batch), chosen)


@pytest.mark.parametrize("as_dicts", [False, True])
@pytest.mark.parametrize("name, count", [("molhiv", 300), ("tu_PROTEINS", 120)])
def test_real_graphs(
    client: Client,
    shared_data: Callable[[str], pathlib.Path],
    name: str,
    count: int,
    as_dicts: bool,
) -> None:
    graphs = of_npz(shared_data(f"graphs/{name}.npz"), count)
    assert_conforms(client, [tuple_of(graph, as_dicts) for graph in graphs])


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_with_empty_ones(client: Client, seed: int) -> None:
    assert_conforms(client, [tuple_of(graph, seed % 2 == 0) for graph in random_plain(seed, 60)])


def test_graphs_without_features_or_edges(client: Client) -> None:
    graphs = []
    for graph in random_plain(1, 40, largest=0):
        graph.nodes, graph.edges, graph.whole = {}, {}, {}
        graphs.append(tuple_of(graph, True))
    assert_conforms(client, graphs)


def test_bfloat16_is_itself(client: Client) -> None:
    graphs = []
    for graph in random_plain(3, 20):
        graph.nodes["x"] = np.asarray(jnp.asarray(graph.nodes["x"], jnp.bfloat16))
        graphs.append(tuple_of(graph, False))
    assert_conforms(client, graphs)


def test_a_tensor_is_chosen_by_name(client: Client) -> None:
    graphs = [tuple_of(graph, True) for graph in random_plain(4, 20)]
    (batch,) = client.pack([packhouse.jraph.table(graphs)], PackOptions({"graphs": 32}))
    chosen = packhouse.jraph.to_graphs_tuple(batch, nodes="x", edges="edge_attr", globals="y")
    whole = packhouse.jraph.to_graphs_tuple(batch)
    assert chosen.nodes is not None and np.array_equal(chosen.nodes, whole.nodes["x"])
    assert np.array_equal(chosen.globals, whole.globals["y"])
    with pytest.raises(KeyError, match="nodes='z': the tensors there are"):
        packhouse.jraph.to_graphs_tuple(batch, nodes="z")


def test_one_compilation_for_all_batches(
    client: Client, shared_data: Callable[[str], pathlib.Path]
) -> None:
    """Padded batches have one shape: a jitted function is traced once, and padding adds nothing."""
    num_traces = 0

    @jax.jit
    def total(graph: jraph.GraphsTuple) -> Any:
        nonlocal num_traces
        num_traces += 1
        mask = jraph.get_graph_padding_mask(graph)
        owner = jnp.repeat(
            jnp.arange(len(graph.n_node)), graph.n_node, total_repeat_length=len(graph.nodes)
        )
        sums = jraph.segment_sum(graph.nodes.sum(axis=1), owner, len(graph.n_node))
        return jnp.where(mask, sums, 0).sum(), mask.sum()

    graphs = [tuple_of(graph, False) for graph in of_npz(shared_data("graphs/molhiv.npz"), 300)]
    sums = 0.0
    num_graphs = 0
    device = jax.devices()[0]
    for batch in packed(client, packhouse.jraph.table(graphs), Padding.GRAPH):
        graph = packhouse.jraph.to_graphs_tuple(batch, device=device)
        assert isinstance(graph.nodes, jax.Array)
        part, count = total(graph)
        sums += float(part)
        num_graphs += int(count)
    assert num_traces == 1
    assert num_graphs == 300
    assert sums == sum(float(np.sum(graph.nodes)) for graph in graphs)


def test_masked_moments_are_those_of_real_rows() -> None:
    x = np.random.default_rng(0).random((20, 3), np.float32)
    mask = np.arange(20) < 13
    mean, variance = jax.jit(packhouse.jraph.masked_mean_and_variance)(x, mask)
    np.testing.assert_allclose(mean, x[:13].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(variance, x[:13].var(axis=0), rtol=1e-5)
    none = packhouse.jraph.masked_mean_and_variance(x, np.zeros(20, bool))
    assert not np.any(none[0]) and not np.any(none[1])


def test_several_kinds_are_refused_by_name(client: Client) -> None:
    ends = [
        TensorSpec(f"likes.{end}", DType.INT32, "likes", index_into=into)
        for end, into in (("source", "users"), ("target", "items"))
    ]
    schema = GraphSchema(("users", "items", "likes"), ends)
    table = GraphTable(schema, [[1, 1, 1]], {"likes.source": [0], "likes.target": [0]})
    (batch,) = client.pack([table], PackOptions({"graphs": 8}))
    with pytest.raises(ValueError, match=r"jraph has one kind .* node sets \['users', 'items'\]"):
        packhouse.jraph.to_graphs_tuple(batch)


def test_nests_are_refused_by_name() -> None:
    nest = jraph.GraphsTuple(
        nodes={"a": {"b": np.ones((2, 1))}},
        edges=None,
        globals=None,
        senders=np.zeros(0, np.int32),
        receivers=np.zeros(0, np.int32),
        n_node=np.array([2]),
        n_edge=np.array([0]),
    )
    with pytest.raises(ValueError, match="nodes: 'a' is a nest"):
        packhouse.jraph.table([nest])
    with pytest.raises(ValueError, match="no graph"):
        packhouse.jraph.table([])
    for name in ("nodes", "senders"):
        with pytest.raises(ValueError, match=f"nodes: a feature cannot be called '{name}'"):
            packhouse.jraph.table([nest._replace(nodes={name: np.ones((2, 1))})])


def small(nodes: Any, edges: Any = None, globals: Any = None) -> jraph.GraphsTuple:
    one = np.zeros(1, np.int32)
    return jraph.GraphsTuple(nodes, edges, one, one, globals, one + 2, one + 1)


X = np.zeros((2, 1), np.float32)


@pytest.mark.parametrize("field", ["n_node", "n_edge", "senders", "receivers"])
@pytest.mark.parametrize(
    "values, words",
    [
        (np.ones(1, np.float32), ": float32 are no whole numbers"),
        (np.ones((1, 1), np.int32), r" has the shape \(1, 1\), not \(n,\)"),
        (np.int32(1), r" has the shape \(\), not \(n,\)"),
    ],
)
def test_what_is_no_list_of_whole_numbers_is_refused(field: str, values: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"'{field}'{words}"):
        packhouse.jraph.table([small(X)._replace(**{field: values})])
    if field.startswith("n_"):
        with pytest.raises(ValueError, match=f"'{field}'{words}"):
            limits = {"nodes": 8, "edges": 8}
            packhouse.jraph.batch_sampler("", [small(X)._replace(**{field: values})], limits)


# What the error says when the second comes after the first.
DIFFERENT: list[tuple[jraph.GraphsTuple, jraph.GraphsTuple, str]] = [
    (small({"a": X}), small({"a": X, "b": X}), "GraphsTuple 2 has a tensor 'b', .* 0 lacks"),
    (small({"a": X, "b": X}), small({"a": X}), "GraphsTuple 0 has a tensor 'b', .* 2 lacks"),
    (small(X), small(X, X[:1]), "2 has a tensor 'edges', which GraphsTuple 0 lacks"),
    (small(X), small(X.astype(np.int32)), "2 has int32 .* 'nodes', GraphsTuple 0 has float32"),
    (small(X), small(np.zeros((2, 3), np.float32)), r"2 has .* shape \[3\] .* 'nodes', .* \[1\]"),
    (small(X, None, X[:1]), small(X), "0 has a tensor 'globals', which GraphsTuple 2 lacks"),
]


@pytest.mark.parametrize("first, second, words", DIFFERENT)
def test_graphs_that_differ_are_named_and_nothing_is_stored(
    client: Client, first: jraph.GraphsTuple, second: jraph.GraphsTuple, words: str
) -> None:
    graphs = [first, first, second]
    for tuples_per_table in (0, 1, 2):
        with pytest.raises(ValueError, match=words):
            list(packhouse.jraph.tables(graphs, tuples_per_table=tuples_per_table))
    # In a part of its own, when others are stored.
    many = [first] * (1 << 12) + [second]
    with pytest.raises(ValueError, match=words.replace("2", "4096", 1) if "2 has" in words else ""):
        packhouse.jraph.ingest(client, "jraph/different", many)
    assert "jraph/different" not in [dataset.name for dataset in client.datasets.list()]


@pytest.mark.parametrize(
    ("field", "says"),
    [("nodes", "nodes: 'x' has"), ("senders", "'senders' has"), ("n_edge", "'n_edge' has")],
)
def test_gaps_of_masked_arrays_are_refused_by_name(field: str, says: str) -> None:
    graph = jraph.GraphsTuple(
        nodes={"x": np.ones(2)},
        edges=None,
        globals=None,
        senders=np.array([0]),
        receivers=np.array([1]),
        n_node=np.array([2]),
        n_edge=np.array([1]),
    )
    value = getattr(graph, field)
    whole = value["x"] if field == "nodes" else value
    gaps = np.ma.masked_array(whole, mask=np.arange(len(whole)) == 0)
    odd = graph._replace(**{field: {"x": gaps} if field == "nodes" else gaps})
    with pytest.raises(ValueError, match=f"GraphsTuple 1.*{says} gaps"):
        packhouse.jraph.table([graph, odd])


def test_keys_that_nodes_edges_and_globals_share_are_kept(client: Client) -> None:
    rng = np.random.default_rng(5)
    graphs = []
    for n in range(4):
        nodes = {"f": rng.random((2, 3), np.float32), "x": rng.random((2, 1), np.float32)}
        # The order of a dict's keys tells nothing.
        nodes = dict(sorted(nodes.items(), reverse=bool(n % 2)))
        edges, whole = {"f": rng.random((1, 2), np.float32)}, {"f": rng.random((1, 4), np.float32)}
        graphs.append(small(nodes, edges, whole))
    table = packhouse.jraph.table(graphs)
    names = [spec.name for spec in table.schema.tensors]
    assert names[:4] == ["nodes.f", "x", "edges.f", "graphs.f"]
    assert_conforms(client, graphs)


def test_padding_values_are_those_of_padded_rows(client: Client, server: LocalServer) -> None:
    graphs = [small(X, {"length": np.ones(1, np.float32)}) for _ in range(3)]
    packhouse.jraph.ingest(client, "jraph/values", graphs, padding_values={"length": 2.5})
    limits = {"nodes": 9, "edges": 8, "graphs": 5}
    (batch,) = Evaluation(server.address, dataset="jraph/values", limits=limits, padding="graph")
    graph = packhouse.jraph.to_graphs_tuple(batch)
    assert graph.edges["length"].tolist() == [1.0] * 3 + [2.5] * 5


def test_a_rank_without_graphs_gets_padding_alone(client: Client, server: LocalServer) -> None:
    """Of the one shape, so that nothing is compiled for it."""
    graphs = [tuple_of(graph, False) for graph in random_plain(9, 10)]
    packhouse.jraph.ingest(client, "jraph/few", graphs)
    settings: dict[str, Any] = {"limits": {"nodes": 200, "edges": 400, "graphs": 16}}
    settings.update(dataset="jraph/few", job="few", padding="graph", num_ranks=2)
    counts = []
    for rank in range(2):
        with Loader(server.address, rank=rank, **settings) as loader:
            (batch,) = loader
            graph = packhouse.jraph.to_graphs_tuple(batch)
            assert graph.nodes.shape == (200, 3) and len(graph.n_node) == 16
            counts.append(int(packhouse.jraph.masks(batch).graphs.sum()))
            if not counts[-1]:
                assert graph.n_node.tolist() == [200] + 15 * [0]
    assert sorted(counts) == [0, 10]


def test_what_was_put_on_a_device_stays_when_its_slot_serves_again(
    client: Client, server: LocalServer
) -> None:
    """A device may read, or go on viewing, what was put there: on a CPU nothing is copied."""
    graphs = [tuple_of(graph, True) for graph in random_plain(4, 400)]
    packhouse.jraph.ingest(client, "jraph/lane", graphs)
    words: dict[str, Any] = {"dataset": "jraph/lane", "limits": {"graphs": 4}, "padding": "graph"}
    words["limits"] |= {"nodes": 60, "edges": 120}
    device = jax.devices()[0]
    by_lane = Loader(server.address, job="by-lane", lane="required", max_in_flight=4, **words)
    by_bytes = Loader(server.address, job="by-bytes", lane="off", **words)
    with by_lane, by_bytes:
        kept = []
        for batch, expected in zip(by_lane, by_bytes):
            put = packhouse.jraph.to_graphs_tuple(batch, device=device)
            kept.append((put, packhouse.jraph.to_graphs_tuple(expected, device=device)))
            # Nobody but the device has it.
            del batch
            if len(kept) > 5:
                assert_same(*kept.pop(0))
        assert (by_lane.transport, by_bytes.transport) == ("lane", "bytes")
    for put, expected in kept:
        assert_same(put, expected)


def test_the_sampler_fits_what_is_padded_afterwards(server: LocalServer) -> None:
    graphs = [tuple_of(graph, True) for graph in random_plain(7, 90)]
    limits = {"nodes": 60, "edges": 150, "graphs": 12}
    sampler = packhouse.jraph.batch_sampler(
        server.address, graphs, limits, padding=Padding.GRAPH, seed=1
    )
    seen: list[int] = []
    for numbers in sampler:
        joined = jraph.batch_np([graphs[number] for number in numbers])
        padded = jraph.pad_with_graphs(joined, 60, 150, 12)
        assert int(padded.n_node.sum()) == 60
        seen += numbers
    assert sorted(seen) == list(range(90))


def test_batches_are_jraphs_own_in_one_line() -> None:
    graphs = [tuple_of(graph, False) for graph in random_plain(21, 120) if graph.num_nodes]
    numbered = [
        graph._replace(globals={"number": np.array([number])})
        for number, graph in enumerate(graphs)
    ]
    plain = list(packhouse.jraph.batches(numbered, 16))
    for start, ours in zip(range(0, len(numbered), 16), plain):
        theirs = jraph.batch_np(numbered[start : start + 16])
        assert ours.globals["number"].tolist() == theirs.globals["number"].tolist()
        for field in ("senders", "receivers", "n_node", "n_edge"):
            assert np.array_equal(getattr(ours, field), getattr(theirs, field))
    limits = {"nodes": 61, "edges": 200, "graphs": 17}
    with packhouse.jraph.batches(numbered, shuffle=True, limits=limits) as loader:
        for _ in range(2):
            seen = []
            for ours in loader:
                real = int(jraph.get_graph_padding_mask(ours).sum())
                chosen = ours.globals["number"][:real].tolist()
                theirs = jraph.pad_with_graphs(
                    jraph.batch_np([numbered[number] for number in chosen]), 61, 200, 17
                )
                for field in ("senders", "receivers", "n_node", "n_edge"):
                    assert np.array_equal(getattr(ours, field), getattr(theirs, field))
                seen += chosen
            assert sorted(seen) == list(range(len(numbered)))
    with pytest.raises(TypeError, match="one GraphsTuple"):
        packhouse.jraph.batches(numbered[0])
