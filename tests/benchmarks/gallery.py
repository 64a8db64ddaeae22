"""The plots of docs/gallery, of real output: sizes, planners, look-ahead, limits, epochs.

    PYTHONPATH=build/release/python python3 tests/benchmarks/gallery.py \
        --packhoused build/release/service/packhoused \
        --packhouse build/release/bin/packhouse \
        --histogram molhiv_train.csv [--output docs/gallery] [--only planners]

Needs gnuplot. A histogram is a CSV of num_nodes, num_edges and count; the company of epochs is drawn
of tu_PROTEINS.csv, too, which is beside it. All but the epoch is the same each time.
"""

from __future__ import annotations

import argparse
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from concurrent import futures
from typing import Callable, Final, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from packhouse import (
    Client,
    CostBalanced,
    GraphTable,
    Histogram,
    Loader,
    LocalServer,
    PackOptions,
    next_fit,
)
from packhouse.files import size_files

# The largest graph, and eight times as much.
LIMITS: Final = {"nodes": 222, "edges": 502}
WIDE: Final = {name: 8 * rows for name, rows in LIMITS.items()}
# Of the planner: some seconds, as a proof of the best is not waited for.
BUDGET_STEPS: Final = 10**9

# Of each kind of planner one; the best of the paper's for these sizes, and the one it recommends.
SHOWN: Final = (
    "optimized",
    "filling best-fit product",
    "first-fit decreasing",
    "best-fit max",
    "best-fit product",
    "notebook product",
    "no packing",
)
# Rows of graphs in the picture of a batch.
BATCH_ROWS: Final = 8
# Of the epochs of proteins; how many epochs and which ranks are shown.
PROTEINS: Final = {"nodes": 620, "edges": 2098}
EPOCHS: Final = 10
RANKS: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512, 740)
# Graphs that wait, in powers of two: beyond it the plots are flat.
MOST_LOOK_AHEAD: Final = 8

_COLOURS: Final = ("#1b6ca8", "#d1495b", "#3c8d5a", "#edae49", "#7b5ea7")
_STYLE: Final = (
    "set border 3 linecolor rgb '#555555'",
    "set tics nomirror out",
    "set grid linecolor rgb '#e4e4e4' linetype 1",
)


def draw(path: pathlib.Path, size: str, lines: Iterable[str]) -> None:
    """Has gnuplot draw a script. Raises FileNotFoundError without it."""
    terminal = (
        f"set terminal svg size {size} dynamic background '#ffffff' font 'sans,14' noenhanced"
    )
    script = "\n".join([terminal, *_STYLE, *lines, ""])
    drawn = subprocess.run(["gnuplot"], input=script.encode(), capture_output=True, check=True)
    path.write_bytes(shortened(drawn.stdout))


def shortened(svg: bytes) -> bytes:
    """Without the tabs, blank lines and trailing blanks that make up a good part of gnuplot's."""
    text = re.sub(rb"[ \t]*\n\s*", b"\n", svg)
    return re.sub(rb" +>", b">", text)


def block(name: str, rows: Iterable[Sequence[object]]) -> list[str]:
    """Data of that name within a script."""
    return [f"${name} << END", *(" ".join(map(str, row)) for row in rows), "END"]


class Worker:
    """Takes batches of an epoch, so long for each; with `dies_at` it goes after so many seconds.

    What it has not acknowledged then goes to others.
    """

    def __init__(self, name: str, seconds: float, dies_at: float = math.inf) -> None:
        self.name = name
        self._seconds = seconds
        self._dies_at = dies_at
        self.times: list[float] = []
        self.graph_ids: list[npt.NDArray[np.uint64]] = []

    def run(self, address: str, start: float) -> None:
        with Loader(
            address,
            dataset="sizes",
            job="gallery",
            limits=LIMITS,
            worker=self.name,
            max_in_flight=8,
        ) as loader:
            for batch in loader:
                time.sleep(self._seconds)
                self.times.append(time.monotonic() - start)
                self.graph_ids.append(batch.graph_ids)
                if self.times[-1] > self._dies_at:
                    return


class Gallery:
    """Draws each plot into a folder."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._output: pathlib.Path = options.output
        self._sizes = size_files.load(options.histogram)
        self._histogram = Histogram.from_sizes(self._sizes.sizes)

    def sizes(self) -> None:
        """How many graphs have how many nodes and edges, with limits."""
        limits = [f"{name}={rows}" for name, rows in LIMITS.items()]
        self._command("histogram", "sizes.svg", "--limit", limits[0], "--limit", limits[1])

    def limits(self) -> None:
        """What `tune` has looked at: efficiency over the grid, and the frontier."""
        self._command(
            *("tune", "limits.svg", "--max", "nodes=512", "--max", "edges=1024"),
            *("--multiple-of", "nodes=32", "--multiple-of", "edges=64"),
            *("--bytes-per", "nodes=72", "--bytes-per", "edges=44", "--memory", "1MiB"),
        )

    def batch(self) -> None:
        """The same rows twice: a graph in each, padded; and packs of a plan."""
        largest = LIMITS["nodes"]
        shuffled = np.random.default_rng(0).permutation(len(self._sizes.sizes))
        alone = self._sizes.sizes[shuffled[:BATCH_ROWS], 0]
        with self._server() as server, Client(server.address) as client:
            plan = client.plan(self._histogram, LIMITS)
        drawn = np.random.default_rng(0).permutation(len(plan.patterns))[:BATCH_ROWS]
        packs = [
            [
                int(plan.tuples[place, 0])
                for place, copies in plan.patterns[number].entries
                for _ in range(copies)
            ]
            for number in drawn.tolist()
        ]
        panels = [[[int(nodes)] for nodes in alone], packs]
        said = []
        script: list[str] = []
        for panel, rows in enumerate(panels):
            real = sum(map(sum, rows))
            count = sum(map(len, rows))
            said.append(
                f"{count} graphs, {100 * real / (largest * len(rows)):.1f} % of the rows are real"
            )
            for number, row in enumerate(rows):
                left = 0
                top, bottom = len(rows) - number - 0.1, len(rows) - number - 0.9
                for nth, nodes in enumerate(row):
                    colour = _COLOURS[(number + nth) % len(_COLOURS)]
                    script.append(
                        f"set object rectangle from {left},{bottom} to {left + nodes},{top} "
                        f"fillcolor rgb '{colour}' fillstyle solid border rgb '#ffffff'"
                    )
                    left += nodes
                if left < largest:
                    script.append(
                        f"set object rectangle from {left},{bottom} to {largest},{top} "
                        "fillcolor rgb '#eeeeee' fillstyle solid border rgb '#eeeeee'"
                    )
            script += [
                f"set origin {panel * 0.5},0",
                "set size 0.5,1",
                f"set title '{('padded', 'packed')[panel]}: {said[panel]}'",
                f"set xlabel 'nodes, of {largest}'",
                f"plot [0:{largest}] [0:{len(rows)}] NaN notitle",
                "unset object",
            ]
        draw(
            self._output / "batch.svg",
            "1000,300",
            ["set border 1", "unset grid", "unset ytics", "set multiplot", *script, "unset multiplot"],
        )

    def planners(self) -> None:
        """How full packs are, by planner: the worse of nodes and edges."""
        rows = []
        with self._server() as server, Client(server.address) as client:
            plan = client.plan(
                self._histogram,
                LIMITS,
                include_baselines=True,
                include_tuple_packing=True,
                include_notebook=True,
                summaries_only=True,
                budget_steps=BUDGET_STEPS,
            )
        for summary in plan.summaries:
            if summary.name in SHOWN:
                rows.append((self._efficiency(summary.packs, LIMITS), summary.name))
        online = next_fit(self._sizes.sizes, LIMITS)
        rows.append((self._efficiency(online.num_batches, LIMITS), "next-fit, as they come"))
        if len(rows) != len(SHOWN) + 1:
            raise RuntimeError(f"of {SHOWN} the plan has {sorted(name for _, name in rows)}")
        rows.sort()
        labels = ", ".join(f"'{name}' {number}" for number, (_, name) in enumerate(rows))
        draw(
            self._output / "planners.svg",
            f"900,{80 + 24 * len(rows)}",
            [
                *block("efficiency", ((100 * value, n) for n, (value, _) in enumerate(rows))),
                "set xrange [0:108]",
                f"set yrange [-0.6:{len(rows) - 0.4}]",
                f"set ytics ({labels}) scale 0",
                "set xlabel 'real rows of all rows, percent: nodes or edges, the fuller'",
                "set style fill solid",
                "unset grid",
                f"plot $efficiency using (0):2:(0):1:($2-0.35):($2+0.35) with boxxyerror"
                f" linecolor rgb '{_COLOURS[0]}' notitle, \\",
                "  $efficiency using 1:2:(sprintf(' %.1f', $1)) with labels left notitle",
            ],
        )

    def look_ahead(self) -> None:
        """How much of a stream's batches is padding, by the number of graphs that wait."""
        script = []
        plots = []
        with self._server() as server, Client(server.address) as client:
            for number, (limits, title) in enumerate(
                ((LIMITS, "222 nodes, 502 edges"), (WIDE, "eight times as much"))
            ):
                rows = []
                for power in range(MOST_LOOK_AHEAD + 1):
                    options = PackOptions(limits, look_ahead=2**power)
                    packs = sum(1 for _ in client.pack_sizes(self._sizes.sizes, options))
                    rows.append((2**power, 100 * (1 - self._efficiency(packs, limits))))
                plan = client.plan(
                    self._histogram, limits, summaries_only=True, budget_steps=BUDGET_STEPS
                )
                fewest = min(summary.packs for summary in plan.summaries)
                least = 100 * (1 - self._efficiency(fewest, limits))
                script += block(f"stream{number}", rows)
                look = f"linecolor rgb '{_COLOURS[number]}' linewidth 2"
                plots.append(f"$stream{number} with linespoints pointtype 7 {look} title '{title}'")
                plots.append(f"{least} with lines dashtype 2 {look} title 'the whole set planned'")
        draw(
            self._output / "look_ahead.svg",
            "900,420",
            [
                *script,
                "set logscale x 2",
                "set logscale y",
                "set format y '%g'",
                "set key top right",
                "set xlabel 'graphs that wait for others (look-ahead)'",
                "set ylabel 'padding of all rows, percent'",
                "plot " + ", ".join(plots),
            ],
        )

    def epoch(self) -> None:
        """How three workers of unequal speed share an epoch, one of which is lost on the way."""
        workers = (Worker("fast", 0.002), Worker("slow", 0.008), Worker("lost", 0.004, dies_at=1.5))
        with self._server() as server, Client(server.address) as client:
            self._store(client, "sizes", self._sizes)
            start = time.monotonic()
            with futures.ThreadPoolExecutor() as pool:
                list(pool.map(lambda worker: worker.run(server.address, start), workers))
        seen = np.unique(np.concatenate([ids for worker in workers for ids in worker.graph_ids]))
        if len(seen) != len(self._sizes):
            raise RuntimeError(f"{len(seen)} graphs came, of {len(self._sizes)}")
        script = []
        plots = []
        for colour, worker in zip(_COLOURS, workers):
            number = len(worker.times)
            rows = [(0.0, 0), *((when, done) for done, when in enumerate(worker.times, start=1))]
            script += block(worker.name, [*rows[::20], rows[-1]])
            plots.append(
                f"${worker.name} with lines linewidth 3 linecolor rgb '{colour}' "
                f"title '{worker.name}: {number} batches'"
            )
        draw(
            self._output / "epoch.svg",
            "900,420",
            [
                *script,
                "set key top left Left reverse",
                "set xlabel 'seconds'",
                "set ylabel 'batches that each worker has trained on'",
                "plot " + ", ".join(plots),
            ],
        )

    def company(self) -> None:
        """How often graphs of a batch were together in the epoch before, too, beside a shuffle."""
        script, plots = [], []
        proteins = self._options.histogram.with_name("tu_PROTEINS.csv")
        sets = (("molecules", self._sizes, LIMITS), ("proteins", size_files.load(proteins), PROTEINS))
        with self._server() as server, Client(server.address) as client:
            for number, (name, sizes, limits) in enumerate(sets):
                self._store(client, name, sizes)
                for mixing in (False, True):
                    rows = []
                    with Loader(
                        server.address,
                        dataset=name,
                        job=f"{name}-{mixing}",
                        limits=limits,
                        mixing=mixing,
                        rank=0,
                    ) as loader:
                        for epoch in range(1, EPOCHS + 1):
                            loader.set_epoch(epoch)
                            company = loader.epoch_info().company
                            if company is None:
                                raise RuntimeError(f"{name}: epoch {epoch} has no company")
                            rows.append((epoch, f"{company.ratio:.3f}"))
                    script += block(f"{name}{int(mixing)}", rows)
                    title = f"{name}, {'mixed' if mixing else 'as the plan draws them'}"
                    plots.append(
                        f"${name}{int(mixing)} with linespoints pointtype {7 if mixing else 6} "
                        f"linewidth 2 linecolor rgb '{_COLOURS[number]}' title '{title}'"
                    )
        draw(
            self._output / "company.svg",
            "900,420",
            [
                *script,
                "set logscale y",
                "set xtics 1",
                "set yrange [0.5:1000]",
                "set key top right",
                "set xlabel 'epoch'",
                "set ylabel 'together again, times as often as in a shuffle'",
                "plot " + ", ".join([*plots, "1 with lines dashtype 2 linecolor rgb '#555555' notitle"]),
            ],
        )

    def steps(self) -> None:
        """The part of their time that ranks compute, by the order of batches and what they cost."""
        script, plots = [], []
        with self._server() as server, Client(server.address) as client:
            self._store(client, "sizes", self._sizes)
            for number, (cost, title) in enumerate(
                (("edges", "edges"), ("sum(nodes^2)", "squares of nodes"))
            ):
                balanced, shuffled = [], []
                for ranks in RANKS:
                    with Loader(
                        server.address,
                        dataset="sizes",
                        job=f"steps-{number}-{ranks}",
                        limits=LIMITS,
                        order=CostBalanced(cost),
                        rank=0,
                        num_ranks=ranks,
                    ) as loader:
                        steps = loader.epoch_info().steps
                        if steps is None:
                            raise RuntimeError(f"{cost}, {ranks} ranks: no steps")
                        balanced.append((ranks, f"{100 * steps.efficiency:.2f}"))
                        shuffled.append((ranks, f"{100 * steps.of_shuffle:.2f}"))
                script += block(f"balanced{number}", balanced) + block(f"shuffled{number}", shuffled)
                look = f"linewidth 2 linecolor rgb '{_COLOURS[number]}'"
                plots.append(
                    f"$balanced{number} with linespoints pointtype 7 {look} "
                    f"title 'by {title}, steps of like cost'"
                )
                plots.append(
                    f"$shuffled{number} with linespoints pointtype 6 {look} "
                    f"title 'by {title}, shuffled'"
                )
        draw(
            self._output / "steps.svg",
            "900,420",
            [
                *script,
                "set logscale x 2",
                f"set xtics ({', '.join(map(str, RANKS))})",
                "set yrange [0:104]",
                "set key bottom left",
                "set xlabel 'ranks'",
                "set ylabel 'efficiency of steps, percent'",
                "plot " + ", ".join(plots),
            ],
        )

    def _store(self, client: Client, name: str, sizes: GraphTable) -> None:
        client.datasets.create(name, sizes.schema)
        client.datasets.append(name, sizes)
        client.datasets.seal(name)

    def _efficiency(self, packs: int, limits: dict[str, int]) -> float:
        """Of the component that is the fuller in so many packs."""
        totals = self._histogram.totals
        return max(totals[name] / (packs * rows) for name, rows in limits.items())

    def _command(self, command: str, plot: str, *arguments: str) -> None:
        path = self._output / plot
        subprocess.run(
            [
                *(self._options.packhouse, command, "--sizes", self._options.histogram),
                *("--plot", path, *arguments),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PACKHOUSED": str(self._options.packhoused)},
        )
        path.write_bytes(shortened(path.read_bytes()))

    def _server(self) -> LocalServer:
        folder = tempfile.mkdtemp(dir=self._options.scratch)
        return LocalServer(self._options.packhoused, data_dir=folder, log=subprocess.DEVNULL)


PLOTS: Final[dict[str, Callable[[Gallery], None]]] = {
    "batch": Gallery.batch,
    "sizes": Gallery.sizes,
    "planners": Gallery.planners,
    "look_ahead": Gallery.look_ahead,
    "limits": Gallery.limits,
    "epoch": Gallery.epoch,
    "company": Gallery.company,
    "steps": Gallery.steps,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packhoused", type=pathlib.Path, required=True)
    parser.add_argument("--packhouse", type=pathlib.Path, required=True, help="the command line")
    parser.add_argument("--histogram", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("docs/gallery"))
    parser.add_argument("--only", nargs="*", choices=list(PLOTS), default=list(PLOTS))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as options.scratch:
        gallery = Gallery(options)
        for name in options.only:
            PLOTS[name](gallery)
            path = options.output / f"{name}.svg"
            print(f"{path}: {path.stat().st_size:,} bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
