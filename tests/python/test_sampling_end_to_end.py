"""Sub-graphs from a real server: streams, data sets and epochs of them, through kills."""

from __future__ import annotations

import dataclasses
from typing import Any

import grpc
import numpy as np
import pytest

from packhouse import (
    Client,
    CostBalanced,
    Evaluation,
    Loader,
    LocalServer,
    PackhouseError,
    PackOptions,
    Samples,
    Seeds,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
    SubGraphs,
)
from packhouse.large.source_graph import EdgeRows, NodeRows
from packhouse.sampling import SamplingSpecBuilder, negative_links

NODES = 700
LIMITS = {"e": 96, "n": 80, "graphs": 24}
SPEC = """
seed_op { op_name: "seed" node_set_name: "n" }
sampling_ops {
  op_name: "a" input_op_names: "seed" edge_set_name: "e" sample_size: 4 strategy: RANDOM_UNIFORM
}
sampling_ops {
  op_name: "b" input_op_names: "a" edge_set_name: "e" sample_size: 3 strategy: RANDOM_UNIFORM
}
"""


def make_graph(client: Client, name: str) -> None:
    random = np.random.default_rng(0)
    degrees = np.arange(NODES) % 11
    schema = SourceGraphSchema(
        (SourceNodeSet("n", (SourceColumn("x", "float32", (2,)),)),),
        (SourceEdgeSet("e", "n", "n"),),
    )
    client.source_graphs.create(name, schema)
    ids = np.arange(NODES)
    x = np.stack([ids, np.ones(NODES)], axis=1).astype(np.float32)
    sources = np.repeat(ids, degrees)
    targets = random.integers(0, NODES, len(sources))
    rows: list[Any] = [NodeRows("n", ids, {"x": x}), EdgeRows("e", sources, targets)]
    client.source_graphs.append(name, rows)
    client.source_graphs.seal(name)


def key_of(batch: Any) -> bytes:
    return b"".join(np.ascontiguousarray(tensor).tobytes() for tensor in batch.tensors.values())


def test_streams_estimates_and_data_sets(server: LocalServer, client: Client) -> None:
    make_graph(client, "sampling/g")
    sub_graphs = SubGraphs("sampling/g", SPEC)
    estimate = client.samples.estimate_sizes(sub_graphs, num_graphs=300, histogram="sampling/sizes")
    assert estimate.histogram.num_graphs == 300
    assert client.histograms.get("sampling/sizes").totals == estimate.histogram.totals
    options = PackOptions(limits=LIMITS, padding="masked")
    with client.samples.pack(sub_graphs, np.arange(NODES), options) as stream:
        batches = list(stream)
    ids = np.concatenate([batch.graph_ids for batch in batches])
    assert sorted(ids.tolist()) == list(range(NODES))
    compact = dataclasses.replace(options, compact=True)
    with client.samples.pack(sub_graphs, np.arange(NODES), compact) as stream:
        assert [key_of(batch) for batch in stream] == [key_of(batch) for batch in batches]
    tables = list(client.samples.tables(sub_graphs, Seeds(ids=list(range(NODES)))))
    assert sum(len(table) for table in tables) == NODES
    # The seed is the first node of its sub-graph.
    for table in tables:
        nodes = table.sizes[:, 0].astype(np.int64)
        starts = np.cumsum(nodes) - nodes
        assert table.tensors["n.x"][starts, 0].astype(int).tolist() == table.graph_ids.tolist()
    assert sum(int(table.sizes[:, 1].sum()) for table in tables) == sum(
        int(batch.real_rows["e"]) for batch in batches
    )
    with client.samples.pack(sub_graphs, np.arange(NODES), options, sizes_only=True) as stream:
        sizes = {
            int(number): size.tolist()
            for batch in stream
            for number, size in zip(batch.graph_ids, batch.sizes)
        }
    for batch in batches:
        for number, size in zip(batch.graph_ids, batch.sizes):
            assert sizes.pop(int(number)) == size.tolist()
    assert not sizes
    made = client.samples.make_dataset(sub_graphs, "sampling/d")
    assert made.num_graphs == NODES
    assert client.samples.make_dataset(sub_graphs, "sampling/d").version == made.version
    with pytest.raises(PackhouseError) as error:
        client.samples.make_dataset(sub_graphs, "sampling/d", seed=1)
    assert error.value.code is grpc.StatusCode.FAILED_PRECONDITION


def test_payload_ids_leave_features_with_the_client(client: Client) -> None:
    make_graph(client, "sampling/ids")
    sub_graphs = SubGraphs("sampling/ids", SPEC, payload="ids")
    for table in client.samples.tables(sub_graphs, [3, 5]):
        assert "n.x" not in table.tensors
        assert (table.tensors["n.#number"] == table.tensors["n.#id"]).all()


def rows_graph(client: Client, name: str) -> dict[str, Any]:
    """A graph whose ids and edges come in an order of their own; what its rows should be."""
    random = np.random.default_rng(4)
    ids = random.permutation(60) * 7
    names = [f"t{number}" for number in random.permutation(9)]
    ends = random.integers(0, 60, (2, 300))
    tags = random.integers(0, 9, 200)
    schema = SourceGraphSchema(
        (
            SourceNodeSet("n", (SourceColumn("label", "int64"),)),
            SourceNodeSet("tag", text_ids=True),
        ),
        (
            SourceEdgeSet("e", "n", "n", (SourceColumn("attr", "int64"),)),
            SourceEdgeSet("back", "n", "n", reverse_of="e"),
            SourceEdgeSet("has", "n", "tag"),
        ),
    )
    client.source_graphs.create(name, schema)
    owners = ids[random.integers(0, 60, 200)]
    client.source_graphs.append(
        name,
        [
            # In several appends: rows are counted over all of them.
            NodeRows("n", ids[:25], {"label": ids[:25]}),
            EdgeRows("e", ids[ends[0]], ids[ends[1]], {"attr": np.arange(300)}),
            NodeRows("n", ids[25:], {"label": ids[25:]}),
            NodeRows("tag", names[:6]),
            EdgeRows("has", owners, [names[tag] for tag in tags]),
        ],
        producer="one",
    )
    client.source_graphs.seal(name)
    return {"ids": ids, "names": names, "ends": ends, "owners": owners, "tags": tags}


def test_rows_of_what_was_imported_are_given_back(client: Client) -> None:
    truth = rows_graph(client, "sampling/rows")
    builder = SamplingSpecBuilder(
        client.source_graphs.get("sampling/rows").schema, "random_uniform"
    )
    seed = builder.seed("n")
    for edge_set in ("e", "back", "has"):
        seed.sample(4, edge_set)
    spec = builder.build()
    ids, ends = truth["ids"], truth["ends"]
    mask = np.zeros(60, bool)
    mask[[2, 40, 59]] = True
    sub_graphs = SubGraphs("sampling/rows", spec, rows=True)
    for seeds in (mask, mask.tolist(), Seeds(rows=mask), Seeds(rows=[2, 40, 59])):
        tables = list(client.samples.tables(sub_graphs, seeds))
        graphs = [table.graph(i) for table in tables for i in range(len(table))]
        # The seed is the row that the mask has, whatever its id is.
        assert [int(graph["n.label"][0]) for graph in graphs] == ids[[2, 40, 59]].tolist()
        for graph in graphs:
            assert ids[graph["n.#row"]].tolist() == graph["n.label"].tolist()
            for edge_set, source, target in (("e", 0, 1), ("back", 1, 0)):
                rows = graph[f"{edge_set}.#row"]
                assert rows.tolist() == graph[f"{edge_set}.attr"].tolist()
                nodes = graph["n.#row"]
                assert nodes[graph[f"{edge_set}.source"]].tolist() == ends[source][rows].tolist()
                assert nodes[graph[f"{edge_set}.target"]].tolist() == ends[target][rows].tolist()
            rows = graph["has.#row"]
            owners = ids[graph["n.#row"][graph["has.source"]]]
            assert owners.tolist() == truth["owners"][rows].tolist()
    # An epoch, and features that stay here.
    by_id = SubGraphs("sampling/rows", spec, payload="ids")
    for table in client.samples.tables(by_id, Seeds(rows=np.arange(60))):
        assert ids[table.tensors["n.#row"]].tolist() == table.tensors["n.#id"].tolist()

    found = client.source_graphs.lookup_nodes("sampling/rows", "n", rows=[0, 59], columns=["label"])
    assert found.columns["label"].tolist() == ids[[0, 59]].tolist() == np.asarray(found.ids).tolist()
    assert found.rows.tolist() == [0, 59]
    found = client.source_graphs.lookup_nodes("sampling/rows", "n", ids=[int(ids[7]), 1])
    assert found.rows.tolist() == [7, -1]
    edges = client.source_graphs.read_edges("sampling/rows", "e", columns=["attr"], rows=True)
    assert edges.rows is not None and edges.rows.tolist() == edges.columns["attr"].tolist()
    # Nodes that only edges name come after those that were appended, in the order of numbers.
    named = sorted({truth["names"][tag] for tag in truth["tags"]} - set(truth["names"][:6]))
    found = client.source_graphs.lookup_nodes("sampling/rows", "tag", ids=truth["names"][:6] + named)
    assert found.rows.tolist() == list(range(6 + len(named)))

    with pytest.raises(PackhouseError, match="seeds.rows: row 60 at position 1.*60 rows"):
        list(client.samples.tables(sub_graphs, Seeds(rows=[0, 60])))
    assert client.source_graphs.verify("sampling/rows").num_damaged == 0


def test_of_a_node_that_was_there_twice_one_row_counts(client: Client) -> None:
    schema = SourceGraphSchema(
        (SourceNodeSet("n", (SourceColumn("x", "int64"),)),), (SourceEdgeSet("e", "n", "n"),)
    )
    builder = SamplingSpecBuilder(schema, "random_uniform")
    builder.seed("n").sample(2, "e")
    for duplicates, rows in (("first", [1, 0, 3]), ("last", [1, 2, 3])):
        name = f"sampling/twice-{duplicates}"
        client.source_graphs.create(name, schema)
        ids = [20, 10, 20, 30]
        client.source_graphs.append(
            name, [NodeRows("n", ids, {"x": np.arange(4)}), EdgeRows("e", [10], [20])], producer="p"
        )
        client.source_graphs.seal(name, duplicates=duplicates)
        found = client.source_graphs.lookup_nodes(name, "n", numbers=[0, 1, 2], columns=["x"])
        assert found.rows.tolist() == found.columns["x"].tolist() == rows
        left_out = ({0, 2} - set(rows)).pop()
        with pytest.raises(PackhouseError, match="another row was taken"):
            list(
                client.samples.tables(SubGraphs(name, builder.build()), Seeds(rows=[left_out]))
            )


def test_specs_and_seeds_may_be_what_users_have(client: Client) -> None:
    make_graph(client, "sampling/odd")
    step = SamplingSpecBuilder(
        client.source_graphs.get("sampling/odd").schema, "random_uniform"
    ).seed("n", op_name="seed")
    step = step.sample(4, "e", op_name="a").sample(3, "e", op_name="b")
    (by_builder,) = client.samples.tables(SubGraphs("sampling/odd", step.build()), [7])
    (by_text,) = client.samples.tables(SubGraphs("sampling/odd", SPEC, seeds_per_graph=0), [7])
    assert all((by_text.tensors[name] == by_builder.tensors[name]).all() for name in by_text.tensors)
    # More seeds than a request takes, also with what belongs to each.
    only_seeds = 'seed_op { op_name: "seed" node_set_name: "n" }'
    columns = [SourceColumn("label", "int64")]
    labels = np.arange(150_000) * 3.0
    many = Seeds(numbers=np.arange(150_000) % NODES, readout={"label": labels})
    sub_graphs = SubGraphs("sampling/odd", only_seeds, readout=True, readout_columns=columns)
    read = [table.tensors["_readout.label"] for table in client.samples.tables(sub_graphs, many)]
    assert (np.concatenate(read) == labels).all()

    sub_graphs = SubGraphs("sampling/odd", SPEC)
    for seeds, says in (
        (Seeds(numbers=np.arange(NODES) < 5), "a mask is over rows"),
        (np.zeros((2, 3), int), "needs one axis"),
        ([-1], "beyond uint32"),
        ([1.5], "needs uint32"),
        (Seeds(ids="7"), "one text"),
        (Seeds(ids=["a", 7]), "neither str nor bytes"),
        (Seeds(numbers=np.zeros(70_000, int), times=[1]), "times: 1 rows"),
    ):
        with pytest.raises(ValueError, match=says):
            list(client.samples.tables(sub_graphs, seeds))
    for seeds in (7, None, "7"):
        with pytest.raises(TypeError, match="neither Seeds nor numbers"):
            list(client.samples.tables(sub_graphs, seeds))
    with pytest.raises(PackhouseError, match="seeds.times"):
        list(client.samples.tables(sub_graphs, Seeds(numbers=[1], times=[1])))
    with pytest.raises(PackhouseError, match="seeds.occurrences: 1 of them, there are 2 seeds"):
        list(client.samples.tables(sub_graphs, Seeds(numbers=[0, 0], occurrences=[0])))
    for field, value in (("seeds_per_graph", -1), ("induced_edge_sets", "e")):
        with pytest.raises((TypeError, ValueError), match=field):
            SubGraphs("sampling/odd", SPEC, **{field: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="numbers: -1"):
        client.source_graphs.lookup_nodes("sampling/odd", "n", numbers=[-1])


def test_links_between_users_and_items(server: LocalServer, client: Client) -> None:
    random = np.random.default_rng(6)
    schema = SourceGraphSchema(
        (SourceNodeSet("user"), SourceNodeSet("item", text_ids=True)),
        (
            SourceEdgeSet("buys", "user", "item", (SourceColumn("at", "int64"),)),
            SourceEdgeSet("bought", "item", "user", reverse_of="buys"),
        ),
    )
    client.source_graphs.create("sampling/shop", schema)
    names = [f"i{number:02}" for number in range(20)]
    users, items = random.integers(0, 30, 240), random.integers(0, 20, 240)
    at = random.integers(0, 100, 240)
    client.source_graphs.append(
        "sampling/shop",
        [
            NodeRows("user", np.arange(30)),
            NodeRows("item", names),
            EdgeRows("buys", users, [names[item] for item in items], {"at": at}),
        ],
        producer="one",
    )
    client.source_graphs.seal("sampling/shop")
    builder = SamplingSpecBuilder(schema, "random_uniform")
    from_users, from_items = builder.seed_link_ends("buys")
    from_users.sample(1000, "buys")
    from_items.sample(1000, "bought")
    sub_graphs = SubGraphs(
        "sampling/shop",
        builder.build(),
        rows=True,
        link_edge_set="buys",
        readout_columns=[SourceColumn("label", "int64")],
    )
    links = negative_links(np.stack([users, items])[:, :40], 30, 20, seed=5)
    seeds = Seeds(rows=links.ends, readout={"label": links.labels})

    def drawn(changed: SubGraphs, given: Seeds = seeds) -> list[dict[str, Any]]:
        tables = client.samples.tables(changed, given)
        return [table.graph(i) for table in tables for i in range(len(table))]

    for exclude in (None, "self", "reverse_types"):
        graphs = drawn(dataclasses.replace(sub_graphs, exclude=exclude))
        assert len(graphs) == 80
        for graph, (user, item), label in zip(graphs, links.ends.reshape(-1, 2), links.labels):
            assert int(graph["_readout.label"][0]) == label
            assert int(graph["user.#row"][graph["_readout/source.source"][0]]) == user
            assert int(graph["item.#row"][graph["_readout/target.source"][0]]) == item
            is_link = (users == user) & (items == item)
            forth = np.flatnonzero((users == user) & ~(is_link & (exclude is not None)))
            back = np.flatnonzero((items == item) & ~(is_link & (exclude == "reverse_types")))
            assert sorted(graph["buys.#row"].tolist()) == forth.tolist()
            assert sorted(graph["bought.#row"].tolist()) == back.tolist()
    # A window of time has both of its ends.
    timed = dataclasses.replace(sub_graphs, edge_time_column="at", time_window=30)
    times = random.integers(0, 100, 80)
    for graph, (user, _), time in zip(
        drawn(timed, dataclasses.replace(seeds, times=times)), links.ends.reshape(-1, 2), times
    ):
        in_time = (users == user) & (time - 30 <= at) & (at <= time)
        assert sorted(graph["buys.#row"].tolist()) == np.flatnonzero(in_time).tolist()
    # By ids, where both ends have the same kind; and what is wrong is named.
    with pytest.raises(PackhouseError, match="give rows or numbers"):
        drawn(sub_graphs, Seeds(ids=[1, 2], readout={"label": [1]}))
    with pytest.raises(PackhouseError, match="node 20 at position 3, node set 'item' has 20"):
        drawn(sub_graphs, Seeds(numbers=[0, 1, 29, 20], readout={"label": [1, 0]}))
    with pytest.raises(PackhouseError, match="exclude: .*give link_edge_set"):
        drawn(dataclasses.replace(sub_graphs, link_edge_set="", link_node_set="user", exclude="self"))
    # Epochs of links.
    samples = Samples(dataclasses.replace(sub_graphs, exclude="reverse_types"), seeds=seeds)
    limits = {"user": 900, "item": 900, "buys": 900, "bought": 900, "graphs": 20}
    labels: dict[int, int] = {}
    with Loader(server.address, job="links", samples=samples, limits=limits, seed=1) as loader:
        for batch in loader:
            labels.update(zip(batch.graph_ids.tolist(), batch["_readout.label"].tolist()))
    assert [labels[number] for number in range(80)] == links.labels.tolist()


def test_epochs_name_what_was_drawn_smaller(server: LocalServer, client: Client) -> None:
    make_graph(client, "sampling/small")
    samples = Samples(SubGraphs("sampling/small", SPEC), exact_steps=True)
    limits = {"e": 5, "n": 6, "graphs": 4}
    smaller: dict[int, int] = {}
    with Loader(server.address, job="smaller", samples=samples, limits=limits, seed=1) as loader:
        num_steps, num_batches = len(loader), 0
        for batch in loader:
            num_batches += 1
            assert set(batch.drawn_smaller) <= set(batch.graph_ids.tolist())
            smaller.update(batch.drawn_smaller)
    assert num_batches == num_steps
    tables = client.samples.tables(samples.sub_graphs, range(NODES), seed=1)
    sizes = np.concatenate([table.sizes for table in tables])
    assert set(smaller) == set(np.flatnonzero((sizes > [6, 5]).any(axis=1)).tolist())


def test_windows_are_evaluated_and_ordered(server: LocalServer, client: Client) -> None:
    make_graph(client, "sampling/ordered")
    samples = Samples(SubGraphs("sampling/ordered", SPEC), window=200)
    of_graph: dict[str, Any] = {"samples": samples, "limits": LIMITS, "seed": 4}
    validation = Evaluation(server.address, in_order=True, look_ahead=1, **of_graph)
    for _ in range(2):
        batches = list(validation)
        assert [number for batch in batches for number in batch.graph_ids] == list(range(NODES))
    assert len(validation) == len(batches)
    order = CostBalanced("sum(n^2)", num_ranks=4)
    with Loader(server.address, job="ordered", order=order, **of_graph) as loader:
        steps = loader.epoch_info().steps
        assert steps is not None and steps.num_ranks == (4,)
        assert steps.efficiency > steps.of_shuffle
        ids = [number for batch in loader for number in batch.graph_ids]
    assert sorted(ids) == list(range(NODES))


def test_seeds_are_chosen_and_their_sub_graphs_exported(
    server: LocalServer, client: Client
) -> None:
    make_graph(client, "sampling/chosen")
    samples = Samples(SubGraphs("sampling/chosen", SPEC), window=200)
    larger = {name: 2 * rows for name, rows in LIMITS.items()}
    epoch: dict[str, Any] = {
        "samples": samples, "shapes": [larger, LIMITS], "subset": range(100, 400), "epoch": 1
    }  # fmt: skip
    batches = list(Evaluation(server.address, **epoch))
    ids = [number for batch in batches for number in batch.graph_ids.tolist()]
    assert sorted(ids) == list(range(100, 400))
    stream = client.datasets.export_examples("sampling/chosen", **epoch)
    exported = list(stream)
    assert stream.num_graphs == len(exported) == len(ids)
    client.datasets.create("sampling/exported", stream.schema)
    client.datasets.append_examples("sampling/exported", exported)
    client.datasets.seal("sampling/exported")
    one_by_one = {"limits": {"graphs": 1}, "in_order": True, "look_ahead": 1}
    stored = list(Evaluation(server.address, dataset="sampling/exported", **one_by_one))
    assert np.array_equal(
        np.concatenate([batch["n.x"] for batch in stored]),
        np.concatenate([batch["n.x"] for batch in batches]),
    )
    assert np.array_equal(
        np.concatenate([batch.sizes for batch in stored]),
        np.concatenate([batch.sizes for batch in batches]),
    )
    with pytest.raises(ValueError, match="sampling/chosen"):
        client.datasets.export_examples("sampling/other", **epoch)


def test_features_of_the_readout_come_with_the_seeds(server: LocalServer, client: Client) -> None:
    make_graph(client, "sampling/readout")
    columns = (SourceColumn("label", "int64"), SourceColumn("at", "float32", (2,)))
    sub_graphs = SubGraphs("sampling/readout", SPEC, readout=True, readout_columns=columns)
    numbers = np.arange(NODES)[::-1].copy()

    def seeds_of(chosen: Any) -> Seeds:
        at = np.stack([chosen, -chosen], axis=1).astype(np.float32)
        return Seeds(numbers=chosen, readout={"at": at, "label": chosen.astype(np.int64) * 10})

    # Seed number i of the list is node NODES - 1 - i, and has its label.
    def check(graph_ids: Any, tensors: Any, count: int) -> None:
        nodes = numbers[graph_ids.astype(np.int64)]
        assert tensors["_readout.label"][:count].tolist() == (nodes * 10).tolist()
        assert tensors["_readout.at"][:count, 1].tolist() == (-nodes).tolist()

    all_seeds = seeds_of(numbers)
    (table, *_) = list(client.samples.tables(sub_graphs, all_seeds))
    check(table.graph_ids, table.tensors, len(table))
    made = client.samples.make_dataset(sub_graphs, "sampling/readout-d", seeds=all_seeds)
    assert made.num_graphs == NODES
    limits = {name: 1024 for name in table.schema.components} | {"graphs": 32}
    of_graph: dict[str, Any] = {"samples": Samples(sub_graphs, seeds=all_seeds, window=100)}
    for job, source in (("epoch", of_graph), ("stored", {"dataset": made.name})):
        seen = 0
        with Loader(
            server.address, job=f"readout/{job}", limits=limits, padding="masked", seed=2, **source
        ) as loader:
            for batch in loader:
                check(batch.graph_ids, batch.tensors, len(batch))
                seen += len(batch)
        assert seen == NODES
    # Several seeds share a sub-graph: a row for each of them.
    frontier = SubGraphs(
        "sampling/readout", SPEC, seeds_per_graph=300, readout=True, readout_columns=columns
    )
    tables = list(client.samples.tables(frontier, all_seeds))
    labels = np.concatenate([table.tensors["_readout.label"] for table in tables])
    assert labels.tolist() == (numbers * 10).tolist()
    # Without a list there are no features; sizes need none.
    assert client.samples.estimate_sizes(sub_graphs, num_graphs=5).histogram.num_graphs == 5
    at_only = Seeds(numbers=[3], readout={"at": np.zeros((1, 2), np.float32)})
    for seeds, says in (
        (Seeds(numbers=[3]), "_readout"),
        (at_only, "'label' is missing"),
        (Seeds(numbers=[3, 4], readout=seeds_of(np.array([3])).readout), "2 rows take"),
    ):
        with pytest.raises(PackhouseError, match=says) as error:
            list(client.samples.tables(sub_graphs, seeds))
        assert error.value.code is grpc.StatusCode.INVALID_ARGUMENT
