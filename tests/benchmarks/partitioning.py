"""A graph in the size of ogbn-products into 16 parts: packhouse beside DGL's partition_graph.

    PACKHOUSE_CLI=build/release/bin/packhouse \\
      python3 tests/conformance/environments.py dgl -- tests/benchmarks/partitioning.py

Both start from arrays and end with a directory that DGL's trainers load; reading the arrays counts.
Prints seconds of wall clock and of all processors, the cut, and the ratios; exits with status 1 if
packhouse is not three times as fast. Compare figures of one run only.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

NODES, EDGES, CLUSTER, NEAR = 244_903, 6_190_000, 500, 0.8
LEAST_RATIO = 3.0


def make_graph(folder: pathlib.Path) -> None:
    """Most edges are within clusters of 500; in-degrees are skewed."""
    rng = np.random.default_rng(0)
    source = rng.integers(0, NODES, EDGES)
    within = np.minimum(rng.random(EDGES) ** 2 * CLUSTER, CLUSTER - 1).astype(np.int64)
    near = np.minimum(source // CLUSTER * CLUSTER + within, NODES - 1)
    target = np.where(rng.random(EDGES) < NEAR, near, rng.integers(0, NODES, EDGES))
    np.save(folder / "edges.npy", np.stack([source, target], 1))
    np.save(folder / "feat.npy", rng.normal(size=(NODES, 100)).astype(np.float32))
    numpy = {"name": "numpy"}
    meta = {
        "graph_name": "g",
        "node_type": ["_N"],
        "edge_type": ["_N:_E:_N"],
        "num_nodes_per_type": [NODES],
        "num_edges_per_type": [EDGES],
        "edges": {"_N:_E:_N": {"format": numpy, "data": ["edges.npy"]}},
        "node_data": {"_N": {"feat": {"format": numpy, "data": ["feat.npy"]}}},
        "edge_data": {},
    }
    (folder / "metadata.json").write_text(json.dumps(meta), encoding="utf-8")


BY_DGL = """
import sys, numpy as np, dgl, torch
folder, out, parts = sys.argv[1:]
edges = np.load(folder + "/edges.npy")
graph = dgl.graph((torch.from_numpy(edges[:, 0]), torch.from_numpy(edges[:, 1])),
                  num_nodes=int(np.load(folder + "/feat.npy", mmap_mode="r").shape[0]))
graph.ndata["feat"] = torch.from_numpy(np.load(folder + "/feat.npy"))
dgl.distributed.partition_graph(graph, "g", int(parts), out)
"""


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds of wall clock and of processors, with those of children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cut_of(path: pathlib.Path, edges: np.ndarray) -> float:
    """Per cent of the edges."""
    import dgl  # type: ignore[import]

    meta = json.loads(path.read_text(encoding="utf-8"))
    cut = 0
    for part in range(meta["num_parts"]):
        graph = dgl.distributed.load_partition(str(path), part)[0]
        inner = graph.edata["inner_edge"].bool()
        sources = graph.edges(order="eid")[0][inner]
        cut += int((~graph.ndata["inner_node"].bool()[sources]).sum())
    return 100 * cut / len(edges)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=16)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_graph(folder)
        edges = np.load(folder / "edges.npy", mmap_mode="r")
        parts = str(arguments.parts)
        ours = [os.environ["PACKHOUSE_CLI"], "partition", name, "--name", "g", "--method", "metis",
                "--parts", parts, "--output", str(folder / "ours")]
        theirs = [sys.executable, "-c", BY_DGL, name, str(folder / "theirs"), parts]
        results = {}
        for who, command in (("packhouse", ours), ("DGL", theirs)):
            wall, cpu = timed(command)
            cut = cut_of(folder / ("ours" if who == "packhouse" else "theirs") / "g.json", edges)
            results[who] = (wall, cpu)
            print(f"{who:10} {wall:7.1f} s wall {cpu:7.1f} s CPU   cut {cut:.1f} %", flush=True)
        ratios = [theirs_s / ours_s for ours_s, theirs_s in zip(results["packhouse"], results["DGL"])]
        print(f"DGL takes {ratios[0]:.1f} times the time, {ratios[1]:.1f} times the CPU")
    return 0 if ratios[0] >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
