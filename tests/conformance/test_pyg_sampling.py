"""Draws beside PyG's `k_hop_subgraph` and `subgraph`.

Where all neighbours are taken, sub-graphs are k-hop neighbourhoods; induced edges are those of
`subgraph`; temporal sampling is the same on the graph without what is too late. PyG's own loader
needs pyg-lib, which the package index does not have.

PACKHOUSE_DRAW_CASES is the program that draws (tests/sampling/draw_cases.cc).
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.utils import k_hop_subgraph, subgraph

ALL = 1 << 30
PROGRAM = os.environ.get("PACKHOUSE_DRAW_CASES", "")

pytestmark = pytest.mark.skipif(not PROGRAM, reason="PACKHOUSE_DRAW_CASES is not set")


def draw(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run([PROGRAM], input=json.dumps(cases), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    drawn: list[dict[str, Any]] = json.loads(done.stdout)
    return drawn


def random_case(rng: np.random.Generator, sizes: list[int]) -> dict[str, Any]:
    """A graph without parallel edges, of which the first nodes have many."""
    nodes = int(rng.integers(1, 60))
    ends = (rng.random((2, int(rng.integers(0, 300)))) ** 2 * nodes).astype(np.int64)
    ends = np.unique(ends, axis=1)
    ends = ends[:, rng.permutation(ends.shape[1])]
    return {
        "nodes": nodes,
        "sources": ends[0].tolist(),
        "targets": ends[1].tolist(),
        "sizes": sizes,
        "seeds": rng.choice(nodes, min(nodes, int(rng.integers(1, 4))), replace=False).tolist(),
        "induced": False,
        "latest": False,
        "epoch": int(rng.integers(100)),
    }


def edges_of(case: dict[str, Any]) -> torch.Tensor:
    return torch.tensor([case["sources"], case["targets"]], dtype=torch.long).reshape(2, -1)


def in_time(case: dict[str, Any]) -> torch.Tensor:
    """Numbers of the edges that are not too late."""
    if "node_times" in case:
        times = torch.tensor(case["node_times"])[edges_of(case)[1]]
    elif "edge_times" in case:
        times = torch.tensor(case["edge_times"], dtype=torch.long)
    else:
        return torch.arange(len(case["sources"]))
    latest = case["time"] if "time" in case else min(case["node_times"][s] for s in case["seeds"])
    return (times <= latest).nonzero().reshape(-1)


def with_times(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    kind = rng.integers(3)
    if kind == 0:
        case["node_times"] = rng.integers(-5, 5, case["nodes"]).tolist()
        if rng.random() < 0.5:
            case["time"] = int(rng.integers(-5, 5))
    elif kind == 1:
        case["edge_times"] = rng.integers(-5, 5, len(case["sources"])).tolist()
        case["time"] = int(rng.integers(-5, 5))
    return case


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
@pytest.mark.parametrize("induced", [False, True])
def test_whole_neighbourhoods_are_k_hop_subgraphs(hops: int, induced: bool) -> None:
    rng = np.random.default_rng(hops)
    cases = [with_times(random_case(rng, [ALL] * hops), rng) for _ in range(100)]
    for case in cases:
        case["induced"] = induced
    for case, drawn in zip(cases, draw(cases)):
        kept = in_time(case)
        subset, _, _, mask = k_hop_subgraph(
            torch.tensor(case["seeds"]),
            hops,
            edges_of(case)[:, kept],
            num_nodes=case["nodes"],
            flow="target_to_source",
            directed=not induced,
        )
        assert drawn["nodes"][: len(case["seeds"])] == case["seeds"]
        assert sorted(drawn["nodes"]) == subset.tolist()
        # Without an op there is no edge set.
        expected = kept[mask].tolist() if hops else []
        assert sorted(drawn["edges"]) == expected


def test_induced_edges_are_those_of_subgraph() -> None:
    rng = np.random.default_rng(7)
    cases = [with_times(random_case(rng, [3, 2]), rng) for _ in range(200)]
    for case in cases:
        case["induced"] = True
    for case, drawn in zip(cases, draw(cases)):
        kept = in_time(case)
        _, _, mask = subgraph(
            torch.tensor(drawn["nodes"]),
            edges_of(case)[:, kept],
            num_nodes=case["nodes"],
            return_edge_mask=True,
        )
        assert sorted(drawn["edges"]) == kept[mask].tolist()


@pytest.mark.parametrize("latest", [False, True])
def test_fan_outs_are_kept_and_nothing_is_late(latest: bool) -> None:
    rng = np.random.default_rng(11)
    cases = []
    while len(cases) < 200:
        case = with_times(random_case(rng, [3]), rng)
        if "node_times" in case or "edge_times" in case:
            case["latest"] = latest
            cases.append(case)
    for case, drawn in zip(cases, draw(cases)):
        kept = in_time(case)
        sources = edges_of(case)[0]
        times = torch.tensor(case.get("edge_times", []), dtype=torch.long)
        if "node_times" in case:
            times = torch.tensor(case["node_times"])[edges_of(case)[1]]
        for seed in case["seeds"]:
            mine = [edge for edge in drawn["edges"] if sources[edge] == seed]
            may = [edge for edge in kept.tolist() if sources[edge] == seed]
            assert set(mine) <= set(may)
            assert len(mine) == min(3, len(may))
            if latest:
                # The latest of those in time; of equally late ones the first of the table.
                ranked = sorted(may, key=lambda edge: (-int(times[edge]), edge))
                assert sorted(mine) == sorted(ranked[:3])
