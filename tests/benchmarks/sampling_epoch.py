"""A graph of OGBN-MAG's shape into a server, and an epoch of sub-graphs out of it, beside goals.

- Import: `packhouse graph generate mag` right into a server over loopback, and sealed. Memory is
  what the server holds beside the map of the graph; bytes on the disk are held against those of
  the arrays that it was given: the ends of edges as int64, and features.
- Epoch: a sub-graph around each paper, as TF-GNN's guide draws them (fan-outs 32, 8, 16, 16, 16),
  packed, padded and delivered to one reader that does nothing with them.

The goals are for scale 1, all seeds and two cores that have nothing else to do. At other scales
times are shown beside the same share of the goals. `--busy N` keeps N other processes at work.

    PYTHONPATH=build/release/python python3 tests/benchmarks/sampling_epoch.py \\
        --packhoused build/release/service/packhoused --cli build/release/bin/packhouse
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from typing import Final, Iterator

import numpy as np

from packhouse import Client, Loader, LocalServer, Samples, SubGraphs
from packhouse.demo.sampling import SETS, choose_limits, guide_spec

PAPERS: Final = 736_389
# At scale 1.
IMPORT_SECONDS: Final = 90.0
IMPORT_BYTES: Final = 1 << 30
DISK_RATIO: Final = 1.3
EPOCH_SECONDS: Final = 900.0


def field_of(pid: int, name: str) -> int:
    """A field of /proc/PID/status that is in KiB, in bytes."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/status has no {name}")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


class PeakMemory:
    """The most memory of a process that no file backs, looked at ten times a second."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, field_of(self._pid, "RssAnon"))
            if self._stop.wait(0.1):
                return


def _spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy_machine(processes: int) -> Iterator[None]:
    """So many other processes at work."""
    others = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(processes)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.kill()


def goal(what: str, value: float, bound: float, unit: str) -> bool:
    """Prints a figure beside its goal."""
    met = value <= bound
    print(f"   {what}: {value:,.2f} {unit}, goal {bound:,.2f}: {'met' if met else 'NOT met'}")
    return met


def measure_import(server: LocalServer, client: Client, options: argparse.Namespace) -> bool:
    """The graph `mag`."""
    print(f"Import, scale {options.scale:g}")
    command = [options.cli, "graph", "generate", "mag", "--scale", str(options.scale), "--seal"]
    started, cpu = time.perf_counter(), cpu_seconds(server.pid)
    with PeakMemory(server.pid) as memory:
        subprocess.run(
            [*command, "--server", server.address, "--graph", "mag"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    seconds = time.perf_counter() - started
    graph = client.source_graphs.get("mag")
    nodes = sum(graph.num_nodes.values())
    edges = sum(n for name, n in graph.num_edges.items() if name != "written")
    arrays = 8 * 2 * edges + graph.num_nodes["paper"] * (128 * 4 + 8 + 8)
    print(
        f"   {nodes:,} nodes and {edges:,} edges; {graph.num_bytes / 1e6:,.0f} MB on the disk, "
        f"arrays {arrays / 1e6:,.0f} MB; server {cpu_seconds(server.pid) - cpu:.1f} CPU s"
    )
    return all(
        [
            goal("imported and sealed", seconds, IMPORT_SECONDS * min(1, options.scale), "s"),
            goal("beside the map", memory.bytes / 2**20, IMPORT_BYTES / 2**20, "MiB"),
            goal("bytes on the disk / arrays", graph.num_bytes / arrays, DISK_RATIO, ""),
        ]
    )


def measure_epoch(server: LocalServer, client: Client, options: argparse.Namespace) -> bool:
    """An epoch of some papers' seeds, or of all."""
    sub_graphs = SubGraphs("mag", guide_spec().to_text())
    limits = choose_limits(client.samples.estimate_sizes(sub_graphs).histogram, options.graphs)
    papers = client.source_graphs.get("mag").num_nodes["paper"]
    seeds = np.random.default_rng(0).permutation(papers)[: options.seeds or papers]
    others = f", {options.busy} others busy" if options.busy else ""
    print(f"Epoch of {len(seeds):,} seeds{others}")
    arrived = np.zeros(len(seeds), np.int64)
    batches = edges = nbytes = 0
    longest = 0.0
    before_cpu, our_cpu = cpu_seconds(server.pid), time.process_time()
    with busy_machine(options.busy), PeakMemory(server.pid) as memory:
        started = last = time.perf_counter()
        with Loader(
            server.address,
            job="bench",
            samples=Samples(sub_graphs, seeds=seeds),
            limits=limits,
            padding="graph",
            seed=0,
        ) as loader:
            for batch in loader:
                now = time.perf_counter()
                longest, last = max(longest, now - last), now
                np.add.at(arrived, batch.graph_ids.astype(np.int64), 1)
                batches += 1
                nbytes += batch.nbytes
                edges += sum(batch.real_rows[name] for name in SETS.edge_sets)
        seconds = time.perf_counter() - started
    print(
        f"   {batches:,} batches, {len(seeds) / seconds:,.0f} seeds/s, "
        f"{edges / seconds:,.0f} edges/s, {nbytes / seconds / 1e6:,.0f} MB/s; "
        f"longest wait {longest:.2f} s\n"
        f"   server {cpu_seconds(server.pid) - before_cpu:.1f} CPU s, "
        f"reader {time.process_time() - our_cpu:.1f} CPU s"
    )
    if not np.all(arrived == 1):
        print("   NOT every seed arrived exactly once")
        return False
    return all(
        [
            goal("sampled and delivered", seconds, EPOCH_SECONDS * len(seeds) / PAPERS, "s"),
            goal("beside the map", memory.bytes / 2**20, IMPORT_BYTES / 2**20, "MiB"),
        ]
    )


def main() -> int:
    """Exit status 1 if a goal was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packhoused", metavar="BINARY", help="the server (default: in PATH)")
    parser.add_argument("--cli", default="packhouse", metavar="BINARY", help="the command line")
    parser.add_argument("--scale", type=float, default=1.0, help="of the graph")
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="of the epoch; 0: all")
    parser.add_argument("--graphs", type=int, default=64, metavar="N", help="mean ones in a batch")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="others at work meanwhile")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with LocalServer(options.packhoused, data_dir=folder, log=subprocess.DEVNULL) as server:
            with Client(server.address, timeout=600) as client:
                met = [
                    measure_import(server, client, options),
                    measure_epoch(server, client, options),
                ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
