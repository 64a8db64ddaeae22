"""Sub-graphs of links beside DGL's `as_edge_prediction_sampler`: which edges are left out; and
`dgl.NID` and `dgl.EID` of batches, which are rows of what was imported, as DGL's are.

DGL follows edges backwards, from the node at which they end; here they are followed from their
source. So DGL has every edge the other way round, under the same id.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import dgl
import numpy as np
import pytest
import torch
from dgl.dataloading import NeighborSampler, as_edge_prediction_sampler
from shuffled_graphs import NODES, import_shuffled

import packhouse.dgl
from packhouse import (
    Client,
    Loader,
    LocalServer,
    Samples,
    Seeds,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
    SubGraphs,
)
from packhouse.sampling import SamplingSpecBuilder
from packhouse.source_graph_rows import EdgeRows, NodeRows

USERS, ITEMS = 25, 18
REVERSE = {"buys": "bought", "bought": "buys"}


def shop(seed: int) -> np.ndarray[Any, Any]:
    """Users and items of edges, none of them parallel, in an order of their own."""
    random = np.random.default_rng(seed)
    ends = np.unique(np.stack([random.integers(0, USERS, 150), random.integers(0, ITEMS, 150)]), axis=1)
    return ends[:, random.permutation(ends.shape[1])]


def dgl_graph(ends: np.ndarray[Any, Any]) -> Any:
    users, items = map(torch.from_numpy, ends)
    return dgl.heterograph(
        {("item", "buys", "user"): (items, users), ("user", "bought", "item"): (users, items)},
        {"user": USERS, "item": ITEMS},
    )


def our_graph(client: Client, name: str, ends: np.ndarray[Any, Any]) -> SubGraphs:
    schema = SourceGraphSchema(
        (SourceNodeSet("user"), SourceNodeSet("item")),
        (
            SourceEdgeSet("buys", "user", "item"),
            SourceEdgeSet("bought", "item", "user", reverse_of="buys"),
        ),
    )
    client.source_graphs.create(name, schema)
    client.source_graphs.append(
        name,
        [
            NodeRows("user", np.arange(USERS)),
            NodeRows("item", np.arange(ITEMS)),
            EdgeRows("buys", ends[0], ends[1]),
        ],
        producer="one",
    )
    client.source_graphs.seal(name)
    return SubGraphs(name, spec_of(schema, 1000), rows=True, link_edge_set="buys")


def spec_of(schema: SourceGraphSchema, size: int) -> Any:
    builder = SamplingSpecBuilder(schema, "random_uniform")
    users, items = builder.seed_link_ends("buys")
    users.sample(size, "buys")
    items.sample(size, "bought")
    return builder.build()


def by_dgl(graph: Any, edge: int, exclude: str | None, size: int) -> dict[str, list[int]]:
    reverse = {"reverse_etypes": REVERSE} if exclude == "reverse_types" else {}
    sampler = as_edge_prediction_sampler(NeighborSampler([size]), exclude=exclude, **reverse)
    _, _, blocks = sampler.sample(graph, {("item", "buys", "user"): torch.tensor([edge])})
    return {name: sorted(blocks[0].edges[name].data[dgl.EID].tolist()) for name in REVERSE}


@pytest.mark.parametrize("exclude", [None, "self", "reverse_types"])
def test_the_same_edges_are_left_out(client: Client, exclude: str | None) -> None:
    for seed in range(2):
        ends = shop(seed)
        theirs = dgl_graph(ends)
        ours = our_graph(client, f"links/{exclude}-{seed}", ends)
        ours = dataclasses.replace(ours, exclude=exclude)
        tables = list(client.sample_graphs(ours, Seeds(rows=ends.T.reshape(-1))))
        graphs = [table.graph(i) for table in tables for i in range(len(table))]
        assert len(graphs) == ends.shape[1]
        for edge, graph in enumerate(graphs):
            drawn = {name: sorted(graph[f"{name}.#row"].tolist()) for name in REVERSE}
            assert drawn == by_dgl(theirs, edge, exclude, -1), (seed, edge)


def test_of_the_rest_all_are_drawn_as_often(client: Client) -> None:
    """Chi-square against even shares, of both samplers; 99.99 % quantiles."""
    ends = shop(7)
    theirs = dgl_graph(ends)
    user = int(np.argmax(np.bincount(ends[0])))
    edge = int(np.flatnonzero(ends[0] == user)[0])
    others = np.setdiff1d(np.flatnonzero(ends[0] == user), [edge])
    schema = client.source_graphs.get(our_graph(client, "links/often", ends).graph).schema
    ours = SubGraphs(
        "links/often", spec_of(schema, 2), rows=True, link_edge_set="buys", exclude="self"
    )
    draws = 500
    # The same link again and again: each time is a draw of its own.
    again = Seeds(rows=np.tile(ends[:, edge], draws))
    counted = np.zeros(ends.shape[1], int)
    for table in client.sample_graphs(ours, again):
        counted += np.bincount(table.tensors["buys.#row"], minlength=len(counted))
    dgl.seed(1)
    by_them = np.zeros(ends.shape[1], int)
    for _ in range(draws):
        by_them[by_dgl(theirs, edge, "self", 2)["buys"]] += 1
    # DGL draws first and leaves out then, so that it has fewer; here there are two as long as there are.
    assert counted.sum() == 2 * draws >= by_them.sum()
    for counts in (counted, by_them):
        assert counts.sum() == counts[others].sum()
        expected = counts.sum() / len(others)
        # Two of a draw are without replacement, which makes the statistic smaller.
        statistic = (((counts[others] - expected) ** 2) / expected).sum()
        degrees = len(others) - 1
        # Wilson and Hilferty's approximation of the quantile.
        assert statistic < degrees * (1 - 2 / (9 * degrees) + 3.72 * (2 / (9 * degrees)) ** 0.5) ** 3


@pytest.mark.parametrize("sets", [("nodes", "edges"), ("paper", "cites")])
def test_nid_and_eid_are_rows_of_what_was_imported(
    server: LocalServer, client: Client, sets: tuple[str, str]
) -> None:
    nodes, edges = sets
    name = f"dgl-rows/{nodes}"
    whole = {
        key: torch.from_numpy(array)
        for key, array in import_shuffled(client, name, sets, ("x", "w")).items()
    }
    builder = SamplingSpecBuilder(client.source_graphs.get(name).schema, "random_uniform")
    builder.seed(nodes).sample([3, 2], edges)
    samples = Samples(SubGraphs(name, builder.build(), rows=True))
    limits = {nodes: 64, edges: 90, "graphs": 4}
    seeds = []
    with Loader(server.address, job=name, samples=samples, limits=limits, seed=1) as loader:
        for batch in loader:
            graph, _ = packhouse.dgl.to_batch(batch)
            n_id, e_id = graph.ndata[dgl.NID], graph.edata[dgl.EID]
            assert torch.equal(whole[nodes][n_id], graph.ndata["x"])
            assert torch.equal(whole[edges][e_id], graph.edata["w"])
            assert torch.equal(whole["ends"][:, e_id], n_id[torch.stack(graph.edges())])
            assert "#row" not in graph.ndata and "#row" not in graph.edata
            # A seed is the first node of its sub-graph.
            seeds += [int(alone.ndata[dgl.NID][0]) for alone in dgl.unbatch(graph)]
    assert sorted(seeds) == list(range(NODES))
