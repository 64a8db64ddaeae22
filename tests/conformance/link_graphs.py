"""Random shops for tests of links beside other frameworks: users who buy items, and the way back.

Others follow edges backwards, from the node at which they end; here they are followed from their
source. So the others get every edge the other way round, under the same row.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np

from packhouse import Client, Seeds, SourceColumn, SourceEdgeSet, SourceGraphSchema, SourceNodeSet
from packhouse.large.source_graph import EdgeRows, NodeRows
from packhouse.large.sub_graphs import SubGraphs
from packhouse.sampling import SamplingSpecBuilder

# In the order of `Shop.counts`.
EDGE_SETS: Final = ("buys", "bought")
# Of the normal distribution: 99.99 %. Seeds are fixed, so that a test passes always or never.
_QUANTILE: Final = 3.72


@dataclasses.dataclass(frozen=True, eq=False)
class Shop:
    """`ends`: users and items of edges, [2, edges], in an order of its own; times of edges."""

    users: int
    items: int
    ends: np.ndarray[Any, Any]
    times: np.ndarray[Any, Any]

    @staticmethod
    def of(seed: int, *, parallel: bool = False) -> Shop:
        random = np.random.default_rng(seed)
        users, items = (int(each) for each in random.integers(4, 26, 2))
        count = int(random.integers(users, 5 * users))
        ends = np.stack([random.integers(0, users, count), random.integers(0, items, count)])
        if not parallel:
            ends = np.unique(ends, axis=1)
        ends = ends[:, random.permutation(ends.shape[1])]
        return Shop(users, items, ends, random.integers(0, 100, ends.shape[1]))

    def import_into(self, client: Client, name: str) -> SourceGraphSchema:
        schema = SourceGraphSchema(
            (SourceNodeSet("user"), SourceNodeSet("item")),
            (
                SourceEdgeSet("buys", "user", "item", (SourceColumn("at", "int64"),)),
                SourceEdgeSet("bought", "item", "user", reverse_of="buys"),
            ),
        )
        client.source_graphs.create(name, schema)
        nodes = [NodeRows("user", np.arange(self.users)), NodeRows("item", np.arange(self.items))]
        edges = EdgeRows("buys", *self.ends, {"at": self.times})
        client.source_graphs.append(name, [*nodes, edges], producer="one")
        client.source_graphs.seal(name)
        return schema

    def kept(self, link: np.ndarray[Any, Any], exclude: str | None) -> list[np.ndarray[Any, Any]]:
        """Of each edge set which edges a sub-graph of the link may have: a mask over rows."""
        others = (self.ends != link[:, None]).any(axis=0)
        every = np.ones(len(others), bool)
        return [
            others if exclude else every,
            others if exclude == "reverse_types" else every,
        ]


def spec_of(schema: SourceGraphSchema, sizes: list[int]) -> Any:
    """From both ends of links, so many edges in each hop."""
    builder = SamplingSpecBuilder(schema, "random_uniform")
    for step, names in zip(builder.seed_link_ends("buys"), (EDGE_SETS, EDGE_SETS[::-1])):
        for hop, size in enumerate(sizes):
            step = step.sample(size, names[hop % 2])
    return builder.build()


def drawn_rows(client: Client, sub_graphs: SubGraphs, seeds: Seeds) -> list[dict[str, list[int]]]:
    """Of each sub-graph the rows of its edges, ascending, by edge set."""
    tables = client.samples.tables(sub_graphs, seeds)
    graphs = [table.graph(i) for table in tables for i in range(len(table))]
    return [{name: sorted(graph[f"{name}.#row"].tolist()) for name in EDGE_SETS} for graph in graphs]


def counts_of(drawn: list[dict[str, list[int]]], num_edges: int) -> np.ndarray[Any, Any]:
    """How often each edge was drawn, [edge sets, edges]."""
    return np.stack([
        np.bincount(np.concatenate([np.array(each[name], int) for each in drawn]),
                    minlength=num_edges)
        for name in EDGE_SETS
    ])


class ChiSquare:
    """Statistics of many comparisons, added up."""

    def __init__(self) -> None:
        self.statistic = 0.0
        self.degrees = 0

    def add_two(self, ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> None:
        """Counts of as many draws each, which are to be of one distribution."""
        both = (ours + theirs).reshape(-1).astype(float)
        differences = (ours.astype(float) - theirs).reshape(-1)
        is_drawn = both > 0
        self.statistic += float((differences[is_drawn] ** 2 / both[is_drawn]).sum())
        self.degrees += int(is_drawn.sum())

    def add_even(self, counts: np.ndarray[Any, Any], size: int = 0) -> None:
        """Counts that are to be alike. `size`: so many of them are counted in each draw, without
        replacement; 0: they are independent, or it is not known, which makes the statistic smaller.
        """
        if 0 < len(counts) <= size:
            assert (counts == counts[0]).all()
            return
        expected = counts.sum() / max(1, len(counts))
        if len(counts) > 1 and expected > 0:
            scale = (len(counts) - 1) / (len(counts) - size) if size else 1
            self.statistic += scale * float(((counts - expected) ** 2 / expected).sum())
            self.degrees += len(counts) - 1

    def add_expected(
        self, counts: np.ndarray[Any, Any], probabilities: np.ndarray[Any, Any], draws: int
    ) -> None:
        """Counts of draws that have each of them with its probability."""
        expected = probabilities * draws
        self.statistic += float(((counts - expected) ** 2 / expected).sum())
        self.degrees += len(counts) - 1

    def is_likely(self) -> bool:
        """Below the 99.99 % quantile, by the approximation of Wilson and Hilferty."""
        part = 2 / (9 * self.degrees)
        return self.statistic < self.degrees * (1 - part + _QUANTILE * part**0.5) ** 3
