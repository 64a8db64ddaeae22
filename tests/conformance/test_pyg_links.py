"""Sub-graphs of links beside PyG's LinkNeighborLoader: the same edges where all are taken, as many
where some are drawn; negative links as those of its NegativeSampling.

In the environment [pyg_links], whose torch-sparse does PyG's sampling. With it PyG has no times (that
needs pyg-lib, which the package index does not have) and leaves no edges out: PyG gets the graph
without them, as its manual advises.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_sparse")

import torch
from link_graphs import EDGE_SETS, ChiSquare, Shop, counts_of, drawn_rows, spec_of
from torch_geometric.data import HeteroData
from torch_geometric.loader import LinkNeighborLoader
from torch_geometric.sampler import NegativeSampling

from packhouse import Client, Seeds, SubGraphs
from packhouse.sampling import negative_links

ALL = 1 << 20
# PyG's types of the two edge sets, the other way round.
TYPES = (("item", "buys", "user"), ("user", "bought", "item"))


def pyg_graph(shop: Shop, kept: list[np.ndarray[Any, Any]]) -> HeteroData:
    """Each edge has its row; only those that are kept."""
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = shop.users, shop.items
    for edge_type, mask, ends in zip(TYPES, kept, (shop.ends[::-1], shop.ends)):
        data[edge_type].edge_index = torch.from_numpy(np.ascontiguousarray(ends[:, mask]))
        data[edge_type].row = torch.from_numpy(np.flatnonzero(mask))
    return data


def by_pyg(
    data: HeteroData, links: np.ndarray[Any, Any], sizes: list[int]
) -> list[dict[str, list[int]]]:
    """Of each link's sub-graph the rows of its edges. `links`: users and items, [2, links]."""
    loader = LinkNeighborLoader(
        data,
        num_neighbors=sizes,
        edge_label_index=(TYPES[1], torch.from_numpy(links)),
        batch_size=1,
        shuffle=False,
    )
    drawn = []
    for batch in loader:
        rows = {}
        for name, edge_type in zip(EDGE_SETS, TYPES):
            store = batch[edge_type]
            assert torch.equal(store.row, data[edge_type].row[store.e_id])
            rows[name] = sorted(store.row.tolist())
        drawn.append(rows)
    return drawn


@pytest.mark.parametrize("exclude", [None, "self", "reverse_types"])
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_all_edges_are_the_same(client: Client, exclude: str | None, hops: int) -> None:
    for seed in range(6):
        shop = Shop.of(100 * hops + seed, parallel=seed % 2 == 1)
        name = f"pyg-links/{exclude}-{hops}-{seed}"
        schema = shop.import_into(client, name)
        ours = SubGraphs(
            name, spec_of(schema, [ALL] * hops), rows=True, link_edge_set="buys", exclude=exclude
        )
        random = np.random.default_rng(seed)
        some = random.integers(0, [[shop.users], [shop.items]], (2, 8))
        links = np.concatenate([shop.ends[:, :8], some], axis=1)
        drawn = drawn_rows(client, ours, Seeds(rows=links.T.reshape(-1)))
        assert len(drawn) == links.shape[1]
        for link, ours_of_link in zip(links.T, drawn):
            data = pyg_graph(shop, shop.kept(link, exclude))
            assert [ours_of_link] == by_pyg(data, link[:, None], [-1] * hops), (seed, link)


def test_a_window_of_time_is_the_graph_of_that_time(client: Client) -> None:
    for seed in range(6):
        shop = Shop.of(700 + seed, parallel=True)
        schema = shop.import_into(client, f"pyg-links/times-{seed}")
        ours = SubGraphs(
            f"pyg-links/times-{seed}", spec_of(schema, [ALL, ALL]), rows=True, link_edge_set="buys",
            edge_time_column="at", time_window=40, exclude="self",
        )
        links = shop.ends[:, :10]
        times = shop.times[:10] + seed
        drawn = drawn_rows(client, ours, Seeds(rows=links.T.reshape(-1), times=times))
        for link, time, ours_of_link in zip(links.T, times, drawn):
            in_time = (time - 40 <= shop.times) & (shop.times <= time)
            kept = [mask & in_time for mask in shop.kept(link, "self")]
            assert [ours_of_link] == by_pyg(pyg_graph(shop, kept), link[:, None], [-1, -1])


@pytest.mark.parametrize("sizes", [[2], [3, 2]])
def test_some_edges_are_drawn_as_often(client: Client, sizes: list[int]) -> None:
    """As many as PyG draws; all of a node's edges as often, in each hop."""
    draws = 150
    torch.manual_seed(5)
    even = ChiSquare()
    for seed in range(50):
        shop = Shop.of(1000 + seed)
        exclude = (None, "self", "reverse_types")[seed % 3]
        name = f"pyg-links/often-{len(sizes)}-{seed}"
        schema = shop.import_into(client, name)
        ours = SubGraphs(
            name, spec_of(schema, sizes), rows=True, link_edge_set="buys", exclude=exclude
        )
        link = unseen_link(shop) if len(sizes) > 1 else shop.ends[:, 0]
        kept = shop.kept(link, exclude)
        # The same link again and again: each time is a draw of its own.
        drawn = drawn_rows(client, ours, Seeds(rows=np.tile(link, draws)))
        counted = counts_of(drawn, shop.ends.shape[1])
        for k in range(2):
            assert not counted[k][~kept[k]].any()
            for node in range((shop.users, shop.items)[k]):
                of_node = kept[k] & (shop.ends[k] == node)
                size = sizes[0] if node == link[k] else sizes[-1]
                if counted[k][of_node].any():
                    even.add_even(counted[k][of_node], size)
        (theirs,) = by_pyg(pyg_graph(shop, kept), link[:, None], sizes)
        if len(sizes) == 1:
            for each in drawn:
                assert [len(rows) for rows in each.values()] == [len(theirs[n]) for n in each]
    assert even.degrees > 200
    assert even.is_likely(), (even.statistic, even.degrees)


def odds_of_torch_sparse(degree: int, size: int) -> np.ndarray[Any, Any]:
    """How likely torch-sparse 0.6.18 draws each of a node's edges.

    It has Floyd's algorithm with a random number in [0, j) where [0, j] is needed: of 4 edges, 2 of which
    are drawn, two come twice as often as the others.
    """
    odds = np.zeros(degree)
    for j in range(degree - size, degree):
        already = odds[:j].sum() / j
        odds[:j] += (1 - odds[:j]) / j
        odds[j] = already
    return odds


def test_pyg_does_not_draw_all_as_often() -> None:
    """So counts are compared with what is even, not with PyG's: the difference is theirs."""
    torch.manual_seed(5)
    draws, size = 300, 2
    even, theirs = ChiSquare(), ChiSquare()
    for seed in range(30):
        shop = Shop.of(1000 + seed)
        link = shop.ends[:, 0]
        data = pyg_graph(shop, shop.kept(link, None))
        counted = counts_of(by_pyg(data, np.tile(link[:, None], draws), [size]), shop.ends.shape[1])
        (whole,) = LinkNeighborLoader(
            data, num_neighbors=[-1], edge_label_index=(TYPES[1], torch.from_numpy(link[:, None])),
            batch_size=1,
        )
        for k, edge_type in enumerate(TYPES):
            # In the order in which the sampler has them.
            rows = whole[edge_type].row.numpy()
            if len(rows) > size:
                even.add_even(counted[k][rows], size)
                theirs.add_expected(
                    counted[k][rows], odds_of_torch_sparse(len(rows), size), draws
                )
    assert theirs.degrees > 50
    assert theirs.is_likely() and not even.is_likely(), (theirs.statistic, even.statistic)


def unseen_link(shop: Shop) -> np.ndarray[Any, Any]:
    """A link that is not there, so that the second hop begins at other nodes than the first. With most
    edges at its ends."""
    degrees = [np.bincount(ends, minlength=count)
               for ends, count in zip(shop.ends, (shop.users, shop.items))]
    worth = degrees[0][:, None] + degrees[1][None, :]
    worth[shop.ends[0], shop.ends[1]] = -1
    return np.array(np.unravel_index(int(worth.argmax()), worth.shape))


@pytest.mark.parametrize("mode", ["binary", "triplet"])
@pytest.mark.parametrize("weighted", [False, True])
def test_negative_links_are_drawn_as_often(mode: str, weighted: bool) -> None:
    torch.manual_seed(11)
    in_all = ChiSquare()
    for seed in range(50):
        shop = Shop.of(2000 + seed)
        random = np.random.default_rng(seed)
        weights = [random.integers(1, 5, count) for count in (shop.users, shop.items)]
        links = np.tile(shop.ends[:, :1], 400)
        ours = negative_links(
            links, shop.users, shop.items, mode=mode, amount=1, seed=seed,
            source_weights=weights[0] if weighted else None,
            target_weights=weights[1] if weighted else None,
        )
        tensors = [torch.from_numpy(each).float() if weighted else None for each in weights]
        loader = LinkNeighborLoader(
            pyg_graph(shop, shop.kept(links[:, 0], None)),
            num_neighbors=[0],
            edge_label_index=(TYPES[1], torch.from_numpy(links)),
            neg_sampling=NegativeSampling(
                mode, 1, src_weight=tensors[0] if mode == "binary" else None,
                dst_weight=tensors[1]),
            batch_size=400,
            shuffle=False,
        )
        (batch,) = loader
        users, items = batch["user"].n_id, batch["item"].n_id
        store = batch[TYPES[1]]
        if mode == "binary":
            labels, ends = store.edge_label, store.edge_label_index
            assert labels.tolist() == ours.labels.tolist()
            theirs = torch.stack([users[ends[0]], items[ends[1]]])[:, labels == 0]
        else:
            theirs = torch.stack([users[batch["user"].src_index],
                                  items[batch["item"].dst_neg_index.reshape(-1)]])
        mine = ours.ends.reshape(-1, 2).T[:, ours.labels == 0]
        assert mine.shape == tuple(theirs.shape)
        for end, count in zip((0, 1), (shop.users, shop.items)):
            in_all.add_two(*(np.bincount(np.asarray(each[end]), minlength=count)
                             for each in (mine, theirs)))
    assert in_all.is_likely(), (in_all.statistic, in_all.degrees)


def test_links_that_are_there_are_avoided_where_pygs_may_be_there(client: Client) -> None:
    shop = Shop.of(3)
    links = negative_links(shop.ends, shop.users, shop.items, amount=3, seed=1, avoid=shop.ends)
    known = set(map(tuple, shop.ends.T.tolist()))
    drawn = map(tuple, links.ends.reshape(-1, 2)[links.labels == 0].tolist())
    assert not known & set(drawn)
    schema = shop.import_into(client, "pyg-links/negative")
    ours = SubGraphs("pyg-links/negative", spec_of(schema, [ALL]), rows=True, link_edge_set="buys")
    graphs = drawn_rows(client, ours, Seeds(rows=links.ends))
    excluded = drawn_rows(client, dataclasses.replace(ours, exclude="reverse_types"),
                          Seeds(rows=links.ends))
    # A link that is not there has no edges to leave out.
    assert [a == b for a, b in zip(graphs, excluded)] == (links.labels == 0).tolist()
