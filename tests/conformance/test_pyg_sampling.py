"""Draws beside PyG's `k_hop_subgraph` and `subgraph`.

Where all neighbours are taken, sub-graphs are k-hop neighbourhoods; induced edges are those of
`subgraph`; temporal sampling is the same on the graph without what is too late. PyG's own loader
needs pyg-lib, which the package index does not have. `n_id` and `e_id` of batches are rows of what was
imported, as NeighborLoader's are.

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
from shuffled_graphs import NODES, import_shuffled
from torch_geometric.utils import k_hop_subgraph, subgraph

import packhouse.pyg
from packhouse import Client, Loader, LocalServer, Samples, Seeds, SubGraphs
from packhouse.sampling import SamplingSpecBuilder

ALL = 1 << 30
PROGRAM = os.environ.get("PACKHOUSE_DRAW_CASES", "")

needs_program = pytest.mark.skipif(not PROGRAM, reason="PACKHOUSE_DRAW_CASES is not set")


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


@needs_program
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


@needs_program
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


@needs_program
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


def tensors(arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


@pytest.mark.parametrize("sets", [("nodes", "edges"), ("paper", "cites")])
def test_n_id_and_e_id_are_rows_of_what_was_imported(
    server: LocalServer, client: Client, sets: tuple[str, str]
) -> None:
    nodes, edges = sets
    name = f"rows/{nodes}"
    whole = tensors(import_shuffled(client, name, sets, ("x", "edge_attr")))
    builder = SamplingSpecBuilder(client.source_graphs.get(name).schema, "random_uniform")
    builder.seed(nodes).sample([3, 2], edges)
    mask = np.arange(NODES) % 3 == 0
    samples = Samples(SubGraphs(name, builder.build(), rows=True), seeds=Seeds(rows=mask))
    limits = {nodes: 64, edges: 90, "graphs": 4}
    seeds = []
    for padding in (False, True):
        loader = Loader(server.address, job=f"{nodes}-{padding}", samples=samples, limits=limits,
                        padding="graph", seed=1)
        with loader:
            for batch in loader:
                data = packhouse.pyg.to_batch(batch, padding=padding)
                is_plain = nodes == "nodes"
                of_nodes = data if is_plain else data[nodes]
                of_edges = data if is_plain else data[nodes, edges, nodes]
                real = of_nodes.node_mask if padding else slice(None)
                is_edge = of_edges.edge_mask if padding else slice(None)
                assert of_nodes.n_id.dtype is of_edges.e_id.dtype is torch.int64
                assert torch.equal(whole[nodes][of_nodes.n_id[real]], of_nodes.x[real])
                assert torch.equal(whole[edges][of_edges.e_id[is_edge]], of_edges.edge_attr[is_edge])
                ends = of_nodes.n_id[of_edges.edge_index[:, is_edge]]
                assert torch.equal(whole["ends"][:, of_edges.e_id[is_edge]], ends)
                assert "#row" not in of_nodes.keys() and "#row" not in of_edges.keys()
                if not padding:
                    seeds += of_nodes.n_id[of_nodes.ptr[:-1]].tolist()
                    alone = data.to_data_list()[-1]
                    store = alone if is_plain else alone[nodes]
                    assert torch.equal(store.n_id, of_nodes.n_id[of_nodes.ptr[-2] :])
    # A seed is the first node of its sub-graph, and a mask is over rows.
    assert sorted(seeds) == np.flatnonzero(mask).tolist()


def test_features_of_these_names_stay(server: LocalServer, client: Client) -> None:
    whole = tensors(import_shuffled(client, "rows/taken", ("nodes", "edges"), ("n_id", "e_id")))
    builder = SamplingSpecBuilder(client.source_graphs.get("rows/taken").schema, "random_uniform")
    builder.seed("nodes").sample(3, "edges")
    samples = Samples(SubGraphs("rows/taken", builder.build(), rows=True))
    with Loader(server.address, job="rows/taken", samples=samples,
                limits={"nodes": 64, "edges": 90, "graphs": 8}) as loader:
        for batch in loader:
            data = packhouse.pyg.to_batch(batch)
            assert torch.equal(whole["nodes"][data["nodes.#row"]], data.n_id)
            assert torch.equal(whole["edges"][data["edges.#row"]], data.e_id)
