"""The cuts of `packhouse partition` beside gpmetis's, and streaming beside METIS, in one run.

    PACKHOUSE_CLI=build/release/bin/packhouse tests/benchmarks/partition_quality.py

Three graphs: the dependencies of Debian's packages (a real one; PACKHOUSE_SHARED_DATA names its folder,
without it it is left out), clusters of 500 nodes, and R-MAT, a graph of hubs. Each is exported as METIS's
graph file. gpmetis and packhouse partition that same file with the same seed, k-way with defaults.

With --best also --quality best on the Debian graph (a minute of processor time), beside the cuts of
Mt-KaHyPar that come with the graph. Prints the cut in per cent of the edges, and the seconds of all
processors. Exits with status 1 if METIS in packhouse cuts more than gpmetis, if streaming cuts 10 points
more than METIS on the Debian graph or no less than METIS on R-MAT, or if the best quality cuts 3 % more
than Mt-KaHyPar.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

SEED = 7
MOST_POINTS = 10.0
MOST_OF_MT_KAHYPAR = 1.03

Ids = npt.NDArray[Any]


def debian(shared: pathlib.Path) -> tuple[int, Ids, Ids]:
    with np.load(shared / "partition/bench/debian_depends.npz") as arrays:
        source, target = arrays["src"].astype(np.int64), arrays["dst"].astype(np.int64)
    return int(max(source.max(), target.max())) + 1, source, target


def clustered(nodes: int, edges: int) -> tuple[int, Ids, Ids]:
    rng = np.random.default_rng(0)
    source = rng.integers(0, nodes, edges)
    near = np.minimum(source // 500 * 500 + rng.integers(0, 500, edges), nodes - 1)
    return nodes, source, np.where(rng.random(edges) < 0.8, near, rng.integers(0, nodes, edges))


def rmat(nodes: int, edges: int) -> tuple[int, Ids, Ids]:
    """Quarters with 57, 19, 19 and 5 per cent, numbers shuffled."""
    rng = np.random.default_rng(3)
    source = np.zeros(edges, np.int64)
    target = np.zeros(edges, np.int64)
    for _ in range(int(np.ceil(np.log2(nodes)))):
        drawn = rng.random(edges)
        source = 2 * source + (drawn >= 0.76)
        target = 2 * target + (((drawn >= 0.57) & (drawn < 0.76)) | (drawn >= 0.95))
    numbers = rng.permutation(1 << int(np.ceil(np.log2(nodes))))
    return len(numbers), numbers[source], numbers[target]


def write_metis(path: pathlib.Path, nodes: int, source: Ids, target: Ids) -> int:
    """The undirected graph without self loops and duplicates; gives its edges."""
    kept = source != target
    low = np.minimum(source[kept], target[kept])
    pairs = np.unique(low * nodes + np.maximum(source[kept], target[kept]))
    low, high = pairs // nodes, pairs % nodes
    ends = np.concatenate([low, high])
    others = np.concatenate([high, low])
    order = np.lexsort((others, ends))
    rows = np.split(others[order] + 1, np.searchsorted(ends[order], np.arange(1, nodes)))
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{nodes} {len(pairs)}\n")
        for row in rows:
            file.write(" ".join(map(str, row.tolist())) + "\n")
    return len(pairs)


def measured(command: list[str]) -> tuple[str, float]:
    """What a command prints, and the seconds of its processors with those of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, seconds


def by_packhouse(
    cli: str, graph: pathlib.Path, parts: int, method: str, edges: int, *more: str
) -> tuple[float, float]:
    out = graph.with_suffix(f".{method}{parts}")
    command = [cli, "partition", str(graph), "--parts", str(parts), "--method", method]
    _, seconds = measured([*command, *more, "--seed", str(SEED), "--output", str(out)])
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    shutil.rmtree(out)
    # A METIS file has each edge in both directions.
    return 100 * report["cut_edges"] / (2 * edges), seconds


def by_gpmetis(graph: pathlib.Path, parts: int, edges: int) -> tuple[float, float]:
    printed, seconds = measured(
        ["gpmetis", "-nooutput", f"-seed={SEED}", str(graph), str(parts)]
    )
    found = re.search(r"Edgecut: (\d+)", printed)
    assert found is not None, printed
    return 100 * int(found[1]) / edges, seconds


def by_mt_kahypar(shared: pathlib.Path, parts: int) -> float | None:
    """Its lowest cut of the Debian graph, as it was measured elsewhere."""
    with open(shared / "partition/bench/engines.csv", newline="", encoding="utf-8") as file:
        cuts = [
            float(row["cut_percent"])
            for row in csv.DictReader(file)
            if row["graph"] == "debian"
            and row["k"] == str(parts)
            and row["engine"].startswith("mtkahypar")
        ]
    return min(cuts, default=None)


def compare_best(
    cli: str, graph: pathlib.Path, shared: pathlib.Path, edges: int, all_parts: list[int]
) -> list[str]:
    """Prints a table; gives what was missed."""
    print("\n| graph | parts | packhouse, best | Mt-KaHyPar |\n|---|---|---|---|")
    failures = []
    for parts in all_parts:
        theirs = by_mt_kahypar(shared, parts)
        if theirs is None:
            continue
        cut, seconds = by_packhouse(cli, graph, parts, "metis", edges, "--quality", "best")
        print(f"| debian | {parts} | {cut:.2f} %, {seconds:.1f} s | {theirs:.2f} % |", flush=True)
        if cut > MOST_OF_MT_KAHYPAR * theirs:
            failures.append(f"debian, {parts} parts: the best quality is far from Mt-KaHyPar")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--edges", type=float, default=1e6, help="of the generated graphs")
    parser.add_argument("--best", action="store_true", help="also --quality best")
    options = parser.parse_args()
    cli = os.environ["PACKHOUSE_CLI"]
    edges = int(options.edges)
    graphs = {
        "clusters": clustered(edges // 20, edges),
        "rmat": rmat(edges // 20, edges),
    }
    shared = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA") or "/nonexistent")
    if shared.is_dir():
        graphs["debian"] = debian(shared)
    failures = []
    print("| graph | parts | gpmetis | packhouse, METIS | packhouse, streaming |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (nodes, source, target) in graphs.items():
            path = pathlib.Path(folder) / f"{name}.graph"
            count = write_metis(path, nodes, source, target)
            for parts in options.parts:
                theirs = by_gpmetis(path, parts, count)
                metis = by_packhouse(cli, path, parts, "metis", count)
                streaming = by_packhouse(cli, path, parts, "streaming", count)
                cells = [f"{cut:.2f} %, {s:.1f} s" for cut, s in (theirs, metis, streaming)]
                print(f"| {name} | {parts} | {' | '.join(cells)} |", flush=True)
                if metis[0] > theirs[0]:
                    failures.append(f"{name}, {parts} parts: gpmetis cuts less")
                if name == "debian" and streaming[0] > metis[0] + MOST_POINTS:
                    failures.append(f"{name}, {parts} parts: streaming is far from METIS")
                if name == "rmat" and streaming[0] >= metis[0]:
                    failures.append(f"rmat, {parts} parts: streaming does not cut less than METIS")
            if name == "debian" and options.best:
                failures += compare_best(cli, path, shared, count, options.parts)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
