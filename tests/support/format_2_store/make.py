"""Writes a data folder of the current formats, and what is acknowledged in it.

    python3 make.py --packhoused BINARY FOLDER
"""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

import numpy as np

from packhouse import (
    Client,
    DType,
    EdgeRows,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    NodeRows,
    Samples,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
    SubGraphs,
    TensorSpec,
)

NUM_GRAPHS = 90
NUM_NODES = 120
LIMITS = {"nodes": 32, "edges": 64, "graphs": 8}
SPEC = """
seed_op { op_name: "seed" node_set_name: "n" }
sampling_ops {
  op_name: "a" input_op_names: "seed" edge_set_name: "e" sample_size: 2 strategy: RANDOM_UNIFORM
}
"""
# What each job loads, and how many of its batches are acknowledged.
JOBS: dict[str, tuple[dict[str, Any], int]] = {
    "dynamic": ({"dataset": "molecules", "limits": LIMITS, "worker": "w"}, 4),
    "ranked": ({"dataset": "molecules", "limits": LIMITS, "rank": 0, "num_ranks": 1, "seed": 5}, 3),
    "sub-graphs": (
        {
            "samples": Samples(SubGraphs("g", SPEC), window=40),
            "limits": {"n": 40, "e": 60, "graphs": 12},
            "worker": "w",
        },
        2,
    ),
}


def molecules(first_id: int, count: int) -> GraphTable:
    schema = GraphSchema(
        tensors=(
            TensorSpec("x", DType.INT16, "nodes", (2,)),
            TensorSpec("edge_index", DType.INT32, "edges", index_into="nodes"),
        )
    )
    random = np.random.default_rng(first_id)
    nodes, edges = random.integers(1, 9, count), random.integers(0, 12, count)
    owners = np.repeat(np.arange(count), edges)
    return GraphTable(
        schema,
        np.stack([nodes, edges], axis=1),
        {
            "x": random.integers(0, 99, (int(nodes.sum()), 2)),
            "edge_index": (random.random(len(owners)) * nodes[owners]).astype(np.int32),
        },
        first_id=first_id,
    )


def make_graph(client: Client, name: str) -> None:
    schema = SourceGraphSchema(
        [SourceNodeSet("n", [SourceColumn("x", "float32", (2,)), SourceColumn("t", text=True)])],
        [SourceEdgeSet("e", "n", "n")],
    )
    ids = np.arange(NUM_NODES)
    x = np.stack([ids, -ids], 1).astype(np.float32)
    sources = np.repeat(ids, 3)
    client.source_graphs.create(name, schema)
    client.source_graphs.append(
        name,
        [
            NodeRows("n", ids, {"x": x, "t": [f"node {i}" for i in ids]}),
            EdgeRows("e", sources, (sources * 7 + np.arange(len(sources)) % 5) % NUM_NODES),
        ],
        producer="p",
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--packhoused", required=True)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    acknowledged: dict[str, list[int]] = {}
    with LocalServer(options.packhoused, data_dir=options.folder) as server:
        with Client(server.address) as client:
            for name, count in (("molecules", NUM_GRAPHS), ("open/more", 5)):
                table = molecules(0, count)
                client.datasets.create(name, table.schema)
                client.datasets.append(name, [table], producer="p")
            client.datasets.seal("molecules")
            make_graph(client, "g")
            client.source_graphs.seal("g")
            make_graph(client, "open")
            client.partitions.begin("g", "parts", 2)
            client.partitions.wait("g", "parts")
        for job, (arguments, count) in JOBS.items():
            acknowledged[job] = []
            with Loader(server.address, job=job, acknowledge="manual", **arguments) as loader:
                for _, batch in zip(range(count), loader, strict=False):
                    acknowledged[job] += map(int, batch.graph_ids)
                    loader.acknowledge(batch)
    text = json.dumps(acknowledged, indent=1)
    (options.folder / "acknowledged.json").write_text(text)


if __name__ == "__main__":
    main()
