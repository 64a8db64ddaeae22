"""How `packhouse partition` grows: graphs of 10^5 to 10^8 edges, each into 16 parts.

    PACKHOUSE_CLI=build/release/bin/packhouse tests/benchmarks/partition_growth.py
    PACKHOUSE_CLI=... tests/benchmarks/partition_growth.py --edges 1e5 1e6 1e7 --method streaming
    PACKHOUSE_PARTITION=build/release/service/packhouse-partition \
      tests/benchmarks/partition_growth.py --edges 1e5 1e6 1e7 --method 1-rank 2-ranks 4-ranks

The graphs have 25 edges a node, four of five within neighbourhoods of 500 nodes, and one feature of 16
floats. For each method and size: seconds of wall clock and of all processors, the largest memory of
the command and of METIS's process, bytes for each end of an edge beside the graph's own arrays, the
share of edges that is cut; and between sizes the slope, the exponent of the time in the number of
edges: 1 is linear. A table in Markdown, for docs/partitioning.md. METIS is left out above
--metis-edges. N-ranks is packhouse-partition under mpirun, all ranks on this machine; "bytes an end" are
then of all ranks together, if each takes what the largest one does.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

import numpy as np

PARTS = 16
EDGES_PER_NODE = 25
CLUSTER = 500
BLOCK = 1 << 22


class Figures(NamedTuple):
    """Of one run."""

    edges: int
    wall: float
    cpu: float
    bytes: int
    cut: float


def make_graph(folder: pathlib.Path, edges: int) -> int:
    """Writes the chunked layout block by block; gives the bytes of its arrays."""
    nodes = edges // EDGES_PER_NODE
    array = np.lib.format.open_memmap(folder / "edges.npy", "w+", np.int64, (edges, 2))
    rng = np.random.default_rng(0)
    for begin in range(0, edges, BLOCK):
        count = min(BLOCK, edges - begin)
        source = rng.integers(0, nodes, count)
        near = np.minimum(source // CLUSTER * CLUSTER + rng.integers(0, CLUSTER, count), nodes - 1)
        far = rng.integers(0, nodes, count)
        array[begin : begin + count, 0] = source
        array[begin : begin + count, 1] = np.where(rng.random(count) < 0.8, near, far)
    del array
    np.save(folder / "feat.npy", rng.random((nodes, 16), np.float32))
    numpy = {"name": "numpy"}
    meta = {
        "graph_name": "g",
        "node_type": ["_N"],
        "edge_type": ["_N:_E:_N"],
        "num_nodes_per_type": [nodes],
        "num_edges_per_type": [edges],
        "edges": {"_N:_E:_N": {"format": numpy, "data": ["edges.npy"]}},
        "node_data": {"_N": {"feat": {"format": numpy, "data": ["feat.npy"]}}},
        "edge_data": {},
    }
    (folder / "metadata.json").write_text(json.dumps(meta), encoding="utf-8")
    # As they are in memory: edges by source and by target with their numbers, and the rows.
    return edges * 2 * (4 + 8) + nodes * (2 * 8 + 64)


# A process counts as its own the memory that its parent had when it was started. So a small one
# starts the command, not this one, which has made the graph.
STARTER = """
import json, os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
assert process.returncode == 0
cpu = usage.ru_utime + usage.ru_stime
print(json.dumps([time.perf_counter() - began, cpu, usage.ru_maxrss << 10]))
"""


def ranks_of(method: str) -> int:
    """0 if the command runs alone."""
    number, _, ranks = method.partition("-")
    return int(number) if ranks in ("rank", "ranks") else 0


def program_of(method: str) -> list[str]:
    ranks = ranks_of(method)
    if ranks == 0:
        return [os.environ["PACKHOUSE_CLI"], "partition", "--method", method]
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
    return [*mpirun, "-np", str(ranks), os.environ["PACKHOUSE_PARTITION"]]


def run(graph: pathlib.Path, out: pathlib.Path, method: str, edges: int) -> Figures:
    """One partition; its largest memory is that of the largest process."""
    command = [*program_of(method), str(graph), "--parts", str(PARTS)]
    printed = subprocess.run(
        [sys.executable, "-S", "-c", STARTER, *command, "--output", str(out)],
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    wall, cpu, memory = json.loads(printed)
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return Figures(
        edges,
        wall,
        cpu,
        memory,
        report["cut_edges"] / max(report["num_edges"], 1),
    )


def table(name: str, runs: list[Figures], arrays: list[int]) -> str:
    lines = [
        f"| {name}: edges | wall | processors | slope | largest process | bytes an end | cut |",
        "|---|---|---|---|---|---|---|",
    ]
    for i, (each, own) in enumerate(zip(runs, arrays)):
        slope = ""
        if i > 0:
            before = runs[i - 1]
            slope = f"{math.log(each.cpu / before.cpu) / math.log(each.edges / before.edges):.2f}"
        # What ranks have of the graph is not beside it: no rank maps all of its files.
        ranks = ranks_of(name)
        beside = (ranks * each.bytes if ranks else max(0, each.bytes - own)) / (2 * each.edges)
        lines.append(
            f"| {each.edges:,} | {each.wall:.1f} s | {each.cpu:.1f} s | {slope} | "
            f"{each.bytes / 2**20:,.0f} MiB | {beside:.0f} | {each.cut:.1%} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--edges", type=float, nargs="+", default=[1e5, 1e6, 1e7, 1e8])
    parser.add_argument("--method", nargs="+", default=["metis", "streaming", "random"])
    parser.add_argument("--metis-edges", type=float, default=3e7, help="the most for METIS")
    parser.add_argument("--folder", help="for graphs and partitions; about 60 bytes an edge")
    options = parser.parse_args()
    runs: dict[str, list[Figures]] = {method: [] for method in options.method}
    arrays: dict[str, list[int]] = {method: [] for method in options.method}
    for edges in map(int, options.edges):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            graph = pathlib.Path(folder) / "graph"
            graph.mkdir()
            own = make_graph(graph, edges)
            for method in options.method:
                if method == "metis" and edges > options.metis_edges:
                    continue
                out = pathlib.Path(folder) / method
                runs[method].append(run(graph, out, method, edges))
                arrays[method].append(own)
                print(re.sub(r"\w+=", " ", str(runs[method][-1])), method, flush=True)
                subprocess.run(["rm", "-r", out], check=True)
    for method in options.method:
        print(f"\n{table(method, runs[method], arrays[method])}")


if __name__ == "__main__":
    main()
