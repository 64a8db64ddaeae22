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
from link_graphs import EDGE_SETS, ChiSquare, Shop, counts_of, drawn_rows, spec_of
from shuffled_graphs import NODES, import_shuffled

import packhouse.dgl
from packhouse import Client, Loader, LocalServer, Samples, Seeds, SubGraphs
from packhouse.sampling import SamplingSpecBuilder

ALL = 1 << 20
REVERSE = {"buys": "bought", "bought": "buys"}


def dgl_graph(shop: Shop) -> Any:
    users, items = map(torch.from_numpy, map(np.ascontiguousarray, shop.ends))
    return dgl.heterograph(
        {("item", "buys", "user"): (items, users), ("user", "bought", "item"): (users, items)},
        {"user": shop.users, "item": shop.items},
    )


def by_dgl(graph: Any, edge: int, exclude: str | None, size: int) -> dict[str, list[int]]:
    reverse = {"reverse_etypes": REVERSE} if exclude == "reverse_types" else {}
    sampler = as_edge_prediction_sampler(NeighborSampler([size]), exclude=exclude, **reverse)
    _, _, blocks = sampler.sample(graph, {("item", "buys", "user"): torch.tensor([edge])})
    return {name: sorted(blocks[0].edges[name].data[dgl.EID].tolist()) for name in EDGE_SETS}


@pytest.mark.parametrize("exclude", [None, "self", "reverse_types"])
def test_the_same_edges_are_left_out(client: Client, exclude: str | None) -> None:
    """Of graphs without parallel edges: of these DGL leaves out the one edge that it was given."""
    for seed in range(50):
        shop = Shop.of(seed)
        theirs = dgl_graph(shop)
        name = f"links/{exclude}-{seed}"
        schema = shop.import_into(client, name)
        ours = SubGraphs(
            name, spec_of(schema, [ALL]), rows=True, link_edge_set="buys", exclude=exclude
        )
        edges = range(min(3, shop.ends.shape[1]))
        seeds = Seeds(rows=shop.ends[:, : len(edges)].T.reshape(-1))
        drawn = drawn_rows(client, ours, seeds)
        assert drawn == [by_dgl(theirs, edge, exclude, -1) for edge in edges], seed


@pytest.mark.parametrize("exclude", [None, "self", "reverse_types"])
def test_of_the_rest_all_are_drawn_as_often(client: Client, exclude: str | None) -> None:
    draws, size = 12, 2
    dgl.seed(1)
    between, ours_even, theirs_even = ChiSquare(), ChiSquare(), ChiSquare()
    for seed in range(50):
        shop = Shop.of(500 + seed)
        theirs = dgl_graph(shop)
        name = f"links/often-{exclude}-{seed}"
        schema = shop.import_into(client, name)
        ours = SubGraphs(
            name, spec_of(schema, [size]), rows=True, link_edge_set="buys", exclude=exclude
        )
        edge = int(np.bincount(shop.ends[0])[shop.ends[0]].argmax())
        link = shop.ends[:, edge]
        # The same link again and again: each time is a draw of its own.
        drawn = drawn_rows(client, ours, Seeds(rows=np.tile(link, draws)))
        theirs_drawn = [by_dgl(theirs, edge, exclude, size) for _ in range(draws)]
        mine, others = (counts_of(each, shop.ends.shape[1]) for each in (drawn, theirs_drawn))
        may = [kept & (end == of_link)
               for kept, end, of_link in zip(shop.kept(link, exclude), shop.ends, link)]
        for k in range(2):
            # As many as there are, up to the size. DGL draws first and leaves out then: it has fewer.
            assert mine[k].sum() == draws * min(size, may[k].sum()) >= others[k].sum()
            assert not mine[k][~may[k]].any() and not others[k][~may[k]].any()
            if may[k].any():
                ours_even.add_even(mine[k][may[k]], size)
                # Of these some draws have one less.
                theirs_even.add_even(others[k][may[k]])
        if exclude is None:
            between.add_two(mine, others)
    for statistic in (ours_even, theirs_even, between):
        assert statistic.degrees == 0 or statistic.is_likely(), statistic.statistic
    assert ours_even.degrees > 200 and (exclude or between.degrees > 200)


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
