"""Small graphs to be cut, and what is true of each partition of theirs, read from its .npy files."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

_SIZES = {"_N": 90, "item": 50, "tag": 3, "user": 40}
_EDGES = {
    "homo": {"_N:_E:_N": 500},
    "hetero": {"item:has:tag": 60, "user:buys:item": 200, "user:follows:user": 150},
}


class SmallGraph:
    """`homo`, of one type, or `hetero`. Nodes and edges have numbers through all types, in the order
    of `ntypes` and `etypes`; there are self loops, edges that are there twice, and nodes without any.
    """

    def __init__(self, kind: str) -> None:
        random = np.random.default_rng(7)
        edges = _EDGES[kind]
        self.etypes = sorted(edges)
        self.ntypes = sorted({end for name in edges for end in name.split(":")[::2]})
        self.count = np.array([_SIZES[name] for name in self.ntypes])
        self.ecount = np.array([edges[name] for name in self.etypes])
        self.nstart, self.estart = (np.concatenate([[0], np.cumsum(of)]) for of in (self.count, self.ecount))
        ends: list[list[Any]] = [[], []]
        for name in self.etypes:
            for side, end in enumerate(name.split(":")[::2]):
                begin = self.nstart[self.ntypes.index(end)]
                # The last node of a type has no edge.
                ends[side].append(begin + random.integers(0, _SIZES[end] - 1, edges[name]))
        self.src, self.dst = map(np.concatenate, ends)
        # Each row tells whose it is.
        self.nfeat = {f"{name}/x": self._rows(_SIZES[name], 3) for name in self.ntypes}
        self.efeat = {f"{name}/w": self._rows(edges[name], 1) for name in self.etypes}

    @staticmethod
    def _rows(count: int, width: int) -> Any:
        return np.arange(count * width, dtype=np.float32).reshape(count, width)


def check_parts(folder: pathlib.Path, name: str, graph: SmallGraph, hops: int) -> None:
    """The laws of a partition that was written with `--format npy`, of halos as DGL's partition_graph
    has them.
    """
    meta = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    parts = [_Part(folder / f"part{number}", graph) for number in range(meta["num_parts"])]
    assert meta["num_nodes"] == graph.nstart[-1] and meta["num_edges"] == graph.estart[-1]
    # Each node and each edge is in one part, and in no other.
    owner, edge_owner = np.full(graph.nstart[-1], -1), np.full(graph.estart[-1], -1)
    for number, part in enumerate(parts):
        nodes, edges = part.nodes[part.is_inner], part.edges[part.is_inner_edge]
        assert (owner[nodes] == -1).all() and (edge_owner[edges] == -1).all()
        owner[nodes], edge_owner[edges] = number, number
    assert (owner >= 0).all()
    # An edge is where its target is.
    assert (edge_owner == owner[graph.dst]).all()
    for number, part in enumerate(parts):
        assert len(np.unique(part.nodes)) == len(part.nodes)
        assert len(np.unique(part.edges)) == len(part.edges)
        assert (part.owners == owner[part.nodes]).all()
        # Edges join what they joined.
        assert (part.nodes[part.sources] == graph.src[part.edges]).all()
        assert (part.nodes[part.targets] == graph.dst[part.edges]).all()
        _check_halo(part, number, graph, owner, hops)
        _check_ids(part, number, meta, graph)
        for kind, feats, ids in (
            ("node_feat", graph.nfeat, part.nodes[part.is_inner]),
            ("edge_feat", graph.efeat, part.edges[part.is_inner_edge]),
        ):
            names, starts = (graph.ntypes, graph.nstart) if kind == "node_feat" else (graph.etypes, graph.estart)
            for of, rows in feats.items():
                type_, _, column = of.rpartition("/")
                at = names.index(type_)
                mine = ids[(ids >= starts[at]) & (ids < starts[at + 1])] - starts[at]
                got = np.load(folder / f"part{number}" / kind / type_ / f"{column}.npy")
                np.testing.assert_array_equal(got, rows[mine])


class _Part:
    """One part; nodes and edges by their numbers in the graph."""

    def __init__(self, folder: pathlib.Path, graph: SmallGraph) -> None:
        def load(name: str) -> Any:
            return np.load(folder / "graph" / f"{name}.npy")

        self.new_nodes, self.new_edges = load("nodes/_ID"), load("edges/_ID")
        self.nodes, self.edges = load("nodes/orig_id"), load("edges/orig_id")
        # Of one type there is no array of types.
        if len(graph.etypes) > 1:
            self.nodes = self.nodes + graph.nstart[load("nodes/_TYPE")]
            self.edges = self.edges + graph.estart[load("edges/_TYPE")]
        self.is_inner, self.is_inner_edge = (
            load(name).astype(bool) for name in ("nodes/inner_node", "edges/inner_edge")
        )
        self.owners, self.sources, self.targets = map(load, ("nodes/part_id", "sources", "targets"))


def _check_halo(part: _Part, number: int, graph: SmallGraph, owner: Any, hops: int) -> None:
    """In-edges `hops` levels back from the inner nodes, and the out-edges of these to other parts."""
    has_node, has_edge = owner == number, np.zeros(len(graph.src), bool)
    level = has_node
    for _ in range(hops):
        in_edges = level[graph.dst]
        has_edge |= in_edges
        level = np.zeros_like(has_node)
        level[graph.src[in_edges]] = True
        level &= ~has_node
        has_node = has_node | level
    out_edges = owner[graph.src] == number
    has_node[graph.dst[out_edges]] = True
    assert sorted(part.nodes) == np.flatnonzero(has_node).tolist()
    assert sorted(part.edges) == np.flatnonzero(has_edge | out_edges).tolist()


def _check_ids(part: _Part, number: int, meta: dict[str, Any], graph: SmallGraph) -> None:
    """Inner ones come first, with the new ids of the part's ranges, type after type."""
    for ids, is_inner, ranges, names in (
        (part.new_nodes, part.is_inner, meta["node_map"], graph.ntypes),
        (part.new_edges, part.is_inner_edge, meta["edge_map"], graph.etypes),
    ):
        own = np.concatenate([np.arange(*ranges[name][number]) for name in names])
        assert is_inner[: len(own)].all() and not is_inner[len(own) :].any()
        np.testing.assert_array_equal(ids[: len(own)], own)
