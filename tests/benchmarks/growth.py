"""Time and memory of the server against the number of graphs: nothing may grow faster than that.

    PYTHONPATH=build/release/python python3 tests/benchmarks/growth.py \
        --packhoused build/release/service/packhoused [--histogram molhiv_all.csv] \
        [--sizes 1e4,1e5,1e6,1e7] [--runs 3] [--json growth.json] [--plot growth.svg]

For each number of graphs a server of its own. The sizes are drawn from a histogram: a CSV of nodes,
edges and count, otherwise a made one, much like ogbg-molhiv's. Of a graph are stored a byte for
each node and one of label, so that ten million of them fit a small disk.

| step | what is measured |
|---|---|
| observe | `Observe` of all sizes, 8192 a message |
| append | `Append` of all graphs, durable, some hundred kilobytes a message, and `SealDataset` |
| plan | `Plan` of the histogram that was observed |
| epoch start | from `Load` to the first batch, of an epoch like none before: plan included |
| next epoch | the same of the epoch after it: the plan is there, the order is not |
| load | the rest of the first epoch, acknowledged, 1024 mean graphs a batch |

CPU seconds are the server's. Memory is the most that it had of its own in the step (RssAnon,
sampled), above what it had when it started. The slope says with which power of the number of graphs
a figure grows from one number to the next: 1 is linear, 0 flat. Medians of some runs; short times
say little.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Final, Iterator

import numpy as np
import numpy.typing as npt

from packhouse import (
    Client,
    DType,
    GraphSchema,
    GraphTable,
    Histogram,
    Loader,
    LocalServer,
    Padding,
    TensorSpec,
)

STEPS: Final = ("observe", "append", "plan", "epoch start", "next epoch", "load")
_SCHEMA: Final = GraphSchema(
    ("nodes", "edges"),
    (TensorSpec("x", DType.UINT8, "nodes"), TensorSpec("y", DType.UINT8, "graphs")),
)
_OBSERVED: Final = 8192
_APPENDED: Final = 16384
_GRAPHS_A_BATCH: Final = 1024
_SAMPLE_SECONDS: Final = 0.02

Sizes = npt.NDArray[np.uint32]


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a step took."""

    seconds: float
    cpu_seconds: float
    # At its peak, above that of the server that has just started.
    memory_bytes: int


@dataclasses.dataclass(frozen=True)
class Growth:
    """All steps of one number of graphs."""

    num_graphs: int
    distinct_sizes: int
    stored_bytes: int
    costs: dict[str, Cost]


class ServerUse:
    """Measures steps of a server. One thread samples its memory."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._idle = self._memory()
        self._peak = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def measure(self, step: Callable[[], None]) -> Cost:
        """Runs it."""
        with self._lock:
            self._peak = 0
        cpu, start = self._cpu(), time.monotonic()
        step()
        seconds, cpu = time.monotonic() - start, self._cpu() - cpu
        with self._lock:
            return Cost(seconds, cpu, max(self._peak, self._memory()) - self._idle)

    def close(self) -> None:
        """Ends the thread."""
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            memory = self._memory()
            with self._lock:
                self._peak = max(self._peak, memory)

    def _memory(self) -> int:
        status = pathlib.Path(f"/proc/{self._pid}/status").read_text(encoding="ascii")
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        # A process that has ended has none.
        return int(found.group(1)) << 10 if found is not None else 0

    def _cpu(self) -> float:
        # clock_getcpuclockid(3), in nanoseconds where `stat` has hundredths of a second.
        return time.clock_gettime((~self._pid << 3) | 2)


def read_histogram(path: pathlib.Path | None) -> Histogram:
    """A CSV of nodes, edges and count; without one, made molecules."""
    if path is not None:
        table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.uint64)
        return Histogram(("nodes", "edges"), table[:, :2].astype(np.uint32), table[:, 2])
    chooser = np.random.default_rng(1)
    nodes = 4 + chooser.integers(0, 11, (40_000, 4)).sum(axis=1)
    nodes += np.where(chooser.random(40_000) < 1 / 64, chooser.integers(0, 160, 40_000), 0)
    edges = 2 * (nodes - 1 + chooser.integers(0, 6, 40_000))
    return Histogram.from_sizes(np.stack([nodes, edges], axis=1))


def draw_sizes(histogram: Histogram, count: int) -> Iterator[Sizes]:
    """So many sizes, in parts; always the same ones."""
    chooser = np.random.default_rng(count)
    shares = histogram.counts / histogram.counts.sum()
    for begin in range(0, count, _APPENDED):
        part = min(_APPENDED, count - begin)
        yield histogram.tuples[chooser.choice(len(shares), part, p=shares)]


def tables_of(parts: Iterator[Sizes]) -> Iterator[GraphTable]:
    """Graphs of these sizes, numbered in order."""
    first_id = 0
    noise = np.random.default_rng(0).integers(0, 256, 1 << 21, np.uint8)
    for sizes in parts:
        tensors = {"x": noise[: sizes[:, 0].sum()], "y": noise[: len(sizes)]}
        yield GraphTable(_SCHEMA, sizes, tensors, first_id=first_id)
        first_id += len(sizes)


def limits_of(histogram: Histogram) -> dict[str, int]:
    """Room for _GRAPHS_A_BATCH mean graphs."""
    means = {name: total / histogram.num_graphs for name, total in histogram.totals.items()}
    limits = {name: int(mean * _GRAPHS_A_BATCH) for name, mean in means.items()}
    return {**limits, "graphs": _GRAPHS_A_BATCH * 5 // 4}


def measure(server: LocalServer, histogram: Histogram, count: int, folder: str) -> Growth:
    """All steps, on a server that has just started."""
    parts = list(draw_sizes(histogram, count))
    limits = limits_of(histogram)
    distinct = len(np.unique(np.concatenate(parts), axis=0))
    use = ServerUse(server.pid)
    costs: dict[str, Cost] = {}
    with Client(server.address, timeout=600) as client:
        chunks = (part[i : i + _OBSERVED] for part in parts for i in range(0, len(part), _OBSERVED))
        costs["observe"] = use.measure(lambda: _expect(client.histograms.observe("h", chunks)[1], count))

        def append() -> None:
            client.datasets.create("d", _SCHEMA)
            client.datasets.append("d", tables_of(iter(parts)))
            _expect(client.datasets.seal("d").num_graphs, count)

        costs["append"] = use.measure(append)
        costs["plan"] = use.measure(lambda: _plan(client, limits))
    with Loader(
        server.address,
        dataset="d",
        job="growth",
        limits=limits,
        padding=Padding.GRAPH,
        max_in_flight=64,
    ) as loader:
        batches: list[Iterator[Any]] = [iter(loader)]
        got = [0]

        def first() -> None:
            got[0] += len(next(batches[0]).graph_ids)

        def rest() -> None:
            for batch in batches[0]:
                got[0] += len(batch.graph_ids)

        costs["epoch start"] = use.measure(first)
        costs["load"] = use.measure(rest)
        _expect(got[0], count)
        loader.set_epoch(1)
        batches[0] = iter(loader)
        costs["next epoch"] = use.measure(first)
    use.close()
    stored = sum(path.stat().st_blocks * 512 for path in pathlib.Path(folder).rglob("*.mdb"))
    return Growth(count, distinct, stored, {step: costs[step] for step in STEPS})


def median_of(runs: list[Growth]) -> Growth:
    """Each figure of its own."""

    def median(step: str) -> Cost:
        figures = zip(*(dataclasses.astuple(each.costs[step]) for each in runs), strict=True)
        return Cost(*(statistics.median_low(figure) for figure in figures))

    return dataclasses.replace(runs[0], costs={step: median(step) for step in STEPS})


def _plan(client: Client, limits: dict[str, int]) -> None:
    client.plan("h", limits, summaries_only=True)


def _expect(found: int, count: int) -> None:
    if found != count:
        raise RuntimeError(f"{found:,} graphs where {count:,} are")


def slope(small: Growth, large: Growth, figure: Callable[[Growth], float]) -> float:
    """The power with which a figure grows; 0 if it is not positive."""
    low, high = figure(small), figure(large)
    if low <= 0 or high <= 0:
        return 0.0
    return math.log(high / low) / math.log(large.num_graphs / small.num_graphs)


def table_of(growths: list[Growth]) -> str:
    """A table in Markdown: of each step seconds, CPU seconds, memory; then slopes."""
    head = [f"{growth.num_graphs:,}" for growth in growths]
    lines = [
        f"| | {' | '.join(head)} | slope from one to the next |",
        f"|---|{'---:|' * len(head)}---|",
    ]
    for step in STEPS:
        for name, show, field in (
            ("s", lambda value: f"{value:.3g}", "seconds"),
            ("CPU s", lambda value: f"{value:.3g}", "cpu_seconds"),
            ("MiB", lambda value: f"{value / (1 << 20):.1f}", "memory_bytes"),
        ):
            cells = [show(getattr(growth.costs[step], field)) for growth in growths]
            slopes = [
                f"{slope(a, b, lambda g: float(getattr(g.costs[step], field))):.2f}"
                for a, b in zip(growths, growths[1:])
            ]
            lines.append(f"| {step}, {name} | {' | '.join(cells)} | {' '.join(slopes)} |")
    for name, figures in (
        ("distinct sizes", [f"{growth.distinct_sizes:,}" for growth in growths]),
        ("on the disk, MiB", [f"{growth.stored_bytes >> 20:,}" for growth in growths]),
    ):
        lines.append(f"| {name} | {' | '.join(figures)} | |")
    return "\n".join(lines)


_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")


def picture_of(growths: list[Growth]) -> str:
    """A script for gnuplot: CPU time and memory, logarithmic both ways, with lines of slope 1."""
    low, high = growths[0].num_graphs, growths[-1].num_graphs
    script = [
        "set terminal svg size 1000,460 dynamic background '#ffffff' font 'sans,14' noenhanced",
        "set multiplot layout 1,2 title 'What a server takes, by the number of graphs' font ',17'",
        "set logscale xy",
        "set format x '10^{%T}'",
        "set termoption enhanced",
        "set border 3 linecolor rgb '#555555'",
        "set tics nomirror out",
        "set grid linecolor rgb '#e4e4e4' linetype 1",
        "set key left top Left reverse samplen 2",
        f"set xrange [{low * 0.8}:{high * 1.25}]",
        "set xlabel 'graphs'",
    ]
    for title, field, unit in (
        ("CPU seconds", "cpu_seconds", 1.0),
        ("memory, MiB", "memory_bytes", 2.0**20),
    ):
        plots = []
        for number, step in enumerate(STEPS):
            script.append(f"${field}{number} << END")
            for growth in growths:
                value = getattr(growth.costs[step], field) / unit
                if value > 0:
                    script.append(f"{growth.num_graphs} {value}")
            script.append("END")
            plots.append(
                f"${field}{number} with linespoints linewidth 2 pointtype 7 pointsize 0.5 "
                f"linecolor rgb '{_COLOURS[number]}' title '{step}'"
            )
        top = max(getattr(growths[-1].costs[step], field) / unit for step in STEPS)
        plots.append(
            f"x * {top / high * 1.6} with lines dashtype 2 linecolor rgb '#999999' title 'linear'"
        )
        script += [f"set title '{title}'", "set format y '%g'", "plot " + ", \\\n  ".join(plots)]
    return "\n".join([*script, "unset multiplot", ""])


def draw(growths: list[Growth], path: pathlib.Path) -> None:
    """Raises FileNotFoundError without gnuplot."""
    script = picture_of(growths).encode()
    done = subprocess.run(["gnuplot"], input=script, capture_output=True, check=True)
    path.write_bytes(done.stdout)


def run(options: argparse.Namespace) -> int:
    """Measures, prints, draws."""
    histogram = read_histogram(options.histogram)
    growths = []
    for count in options.sizes:
        runs = []
        for _ in range(options.runs):
            with tempfile.TemporaryDirectory() as folder, open(os.devnull, "wb") as log:
                with LocalServer(options.packhoused, data_dir=folder, log=log) as server:
                    runs.append(measure(server, histogram, count, folder))
        growths.append(median_of(runs))
        print(f"{count:,} graphs measured", file=sys.stderr, flush=True)
    print(table_of(growths))
    if options.json:
        options.json.write_text(
            json.dumps([dataclasses.asdict(growth) for growth in growths], indent=1) + "\n",
            encoding="utf-8",
        )
    if options.plot:
        draw(growths, options.plot)
    return 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packhoused", help="default: $PACKHOUSED, then PATH")
    parser.add_argument("--histogram", type=pathlib.Path, help="CSV; default: made molecules")
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(float(word)) for word in text.split(",")],
        default=[10**4, 10**5, 10**6, 10**7],
        help="numbers of graphs, ascending",
    )
    parser.add_argument("--runs", type=int, default=3, help="of each; medians are shown")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path, help="an .svg; needs gnuplot")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(run(parse()))
