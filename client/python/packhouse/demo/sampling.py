"""python3 -m packhouse.demo.sampling: one large graph, many small ones, a trainer. See `--help`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Final, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.base.errors import PackhouseError
from packhouse.base.local_server import LocalServer
from packhouse.base.output import Progress, run_whole
from packhouse.client.facade import Client
from packhouse.data.histogram import Histogram
from packhouse.data.schema import GRAPHS
from packhouse.demo.report import describe_limits
from packhouse.demo.sampled_trainers import SEEDS, Trainer, make_trainer
from packhouse.epochs.loader import Loader
from packhouse.large.sub_graphs import Samples, SubGraphs
from packhouse.sampling import SamplingSpec, SamplingSpecBuilder, SourceSets

GRAPH: Final = "mag"
SETS: Final = SourceSets.of(
    {
        "cites": ("paper", "paper"),
        "written": ("paper", "author"),
        "writes": ("author", "paper"),
        "affiliated_with": ("author", "institution"),
        "has_topic": ("paper", "field_of_study"),
    }
)
# Rows suit vector units.
_MULTIPLE: Final = 8
# Limits leave room above the largest sub-graph that was drawn for the estimate.
_ROOM: Final = 1.25


def guide_spec() -> SamplingSpec:
    """What TF-GNN's guide draws around a paper of OGBN-MAG."""
    papers = SamplingSpecBuilder(SETS, "random_uniform").seed("paper")
    cited = papers.sample(32, "cites")
    authors = papers.join([cited]).sample(8, "written")
    theirs = authors.sample(16, "writes")
    authors.sample(16, "affiliated_with")
    papers.join([cited, theirs]).sample(16, "has_topic")
    return papers.build()


def choose_limits(histogram: Histogram, graphs: int) -> dict[str, int]:
    """Capacities for `graphs` mean sub-graphs, and for any that is a quarter above the largest."""
    means = {name: rows / histogram.num_graphs for name, rows in histogram.totals.items()}
    largest = dict(zip(histogram.components, histogram.tuples.max(axis=0).tolist()))
    limits = {
        name: _round_up(max(graphs * means[name], _ROOM * largest[name], 1)) for name in means
    }
    # More than fit on average, so that small ones fill what is left of the rows.
    limits[GRAPHS] = _round_up(2 * graphs)
    return limits


@dataclasses.dataclass
class Epoch:
    """What arrived: `times` counts the arrivals of each seed."""

    times: npt.NDArray[np.int64]
    batches: int = 0
    edges: int = 0
    nbytes: int = 0
    real_rows: dict[str, int] = dataclasses.field(default_factory=dict)
    rows: dict[str, int] = dataclasses.field(default_factory=dict)
    waiting_seconds: float = 0.0
    training_seconds: float = 0.0

    @property
    def seeds(self) -> int:
        """Arrivals."""
        return int(self.times.sum())


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0 if every seed arrived once and the trainer was content."""
    options = _parse(arguments)
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            tool = shutil.which(options.cli)
            if tool is None:
                raise ValueError(f"there is no program {options.cli!r} (see --cli)")
            trainer = make_trainer(options.trainer)
            log = stack.enter_context(open(options.output / "sampling-packhoused.log", "wb"))
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=options.output))
            server = LocalServer(options.packhoused, data_dir=folder, log=log)
            address = stack.enter_context(server).address
            # Estimates run behind everything else: on a busy machine they take their time.
            client = stack.enter_context(Client(address, timeout=600))
            status = _run(client, address, tool, trainer, options)
        return status
    except (OSError, ValueError, RuntimeError, PackhouseError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _run(
    client: Client, address: str, tool: str, trainer: Trainer, options: argparse.Namespace
) -> int:
    print(f"1. A graph in the shape of OGBN-MAG, scale {options.scale:g}, into the server")
    started = time.perf_counter()
    command = [tool, "graph", "generate", "mag", "--scale", str(options.scale)]
    subprocess.run([*command, "--server", address, "--graph", GRAPH, "--seal"], check=True)
    graph = client.source_graphs.get(GRAPH)
    print(
        f"   {sum(graph.num_nodes.values()):,} nodes, {sum(graph.num_edges.values()):,} edges "
        f"(reverses included), {graph.num_bytes / 1e6:,.1f} MB: {_since(started)}"
    )

    spec = guide_spec()
    sub_graphs = SubGraphs(GRAPH, spec.to_text())
    sizes = ", ".join(str(op.sample_size) for op in spec.ops)
    print(f"2. Sizes of {options.estimate:,} sub-graphs around papers, fan-outs {sizes}")
    started = time.perf_counter()
    estimate = client.samples.estimate_sizes(sub_graphs, num_graphs=options.estimate)
    drawn = estimate.histogram.num_graphs
    means = {name: round(rows / drawn) for name, rows in estimate.histogram.totals.items()}
    print(f"   mean {describe_limits(means)}; {estimate.bytes_per_graph / 1e3:,.0f} kB each")
    limits = choose_limits(estimate.histogram, options.graphs)
    print(f"   limits of a batch: {describe_limits(limits)}: {_since(started)}")

    num_papers = graph.num_nodes["paper"]
    seeds = np.arange(num_papers)
    if 0 < options.seeds < num_papers:
        seeds = np.random.default_rng(0).permutation(num_papers)[: options.seeds]
    print(f"3. An epoch of {len(seeds):,} seeds, for {trainer.name}")
    started = time.perf_counter()
    samples = Samples(sub_graphs, seeds=seeds)
    with Loader(
        address, job="demo", samples=samples, limits=limits, padding="graph", seed=0, writable=True
    ) as loader:
        epoch = _load(loader, trainer, limits, len(seeds))
    seconds = time.perf_counter() - started
    _report(epoch, trainer, seconds)

    once = int(np.count_nonzero(epoch.times == 1))
    complete = once == len(seeds) and epoch.seeds == len(seeds)
    print(
        f"\n{'every seed' if complete else 'NOT every seed'} arrived exactly once: "
        f"{once:,} of {len(seeds):,}"
    )
    for fault in trainer.faults[:10]:
        print(f"demo: {fault}", file=sys.stderr)
    return 0 if complete and not trainer.faults else 1


def _load(loader: Loader, trainer: Trainer, limits: Mapping[str, int], num_seeds: int) -> Epoch:
    epoch = Epoch(np.zeros(num_seeds, np.int64))
    progress = Progress()
    before = time.perf_counter()
    for batch in loader:
        arrived = time.perf_counter()
        epoch.waiting_seconds += arrived - before
        if batch.rows != dict(limits):
            raise ValueError(f"batch {batch.number} has rows {batch.rows}, not {dict(limits)}")
        np.add.at(epoch.times, batch.graph_ids.astype(np.int64), 1)
        epoch.batches += 1
        epoch.nbytes += batch.nbytes
        for name, rows in batch.rows.items():
            epoch.real_rows[name] = epoch.real_rows.get(name, 0) + batch.real_rows[name]
            epoch.rows[name] = epoch.rows.get(name, 0) + rows
        epoch.edges += sum(batch.real_rows[name] for name in SETS.edge_sets)
        trainer.take(batch)
        before = time.perf_counter()
        epoch.training_seconds += before - arrived
        progress.show(f"   {epoch.seeds:,} of {num_seeds:,} seeds; {trainer.words()}")
    epoch.waiting_seconds += time.perf_counter() - before
    progress.done(f"   {epoch.seeds:,} of {num_seeds:,} seeds; {trainer.words()}")
    return epoch


def _report(epoch: Epoch, trainer: Trainer, seconds: float) -> None:
    print(
        f"   {epoch.batches:,} batches in {seconds:.1f} s: {epoch.seeds / seconds:,.0f} seeds/s, "
        f"{epoch.edges / seconds:,.0f} edges/s, {epoch.nbytes / seconds / 1e6:,.0f} MB/s\n"
        f"   waited for batches {epoch.waiting_seconds:.1f} s, {trainer.verb} "
        f"{epoch.training_seconds:.1f} s"
    )
    shares = (
        f"{name} {epoch.real_rows[name] / rows:.1%}"
        for name, rows in epoch.rows.items()
        if name != GRAPHS
    )
    print(f"   efficiency, real rows / rows: {', '.join(shares)}")


def _since(started: float) -> str:
    return f"{time.perf_counter() - started:.1f} s"


def _round_up(rows: float) -> int:
    return -int(-rows // _MULTIPLE) * _MULTIPLE


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m packhouse.demo.sampling",
        description="Generates a graph in the shape of OGBN-MAG into a server of its own, draws a "
        "sub-graph around each paper as TF-GNN's guide does, and feeds a trainer with padded "
        "batches of them. Checks that every paper arrives exactly once.",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="of the graph: 1 has 736,389 papers (default: %(default)s)",
    )
    parser.add_argument(
        "--seeds", type=int, default=0, metavar="N", help="papers of the epoch (default: all)"
    )
    parser.add_argument(
        "--graphs",
        type=int,
        default=SEEDS,
        metavar="N",
        help="mean sub-graphs in a batch (default: %(default)s)",
    )
    parser.add_argument(
        "--estimate",
        type=int,
        default=2000,
        metavar="N",
        help="sub-graphs that are drawn to learn their sizes (default: %(default)s)",
    )
    parser.add_argument(
        "--trainer",
        choices=["auto", "pyg", "torch", "numpy"],
        default="auto",
        help="pyg and torch train a network; numpy checks the batches (default: the first that can "
        "be imported)",
    )
    parser.add_argument(
        "--packhoused",
        metavar="BINARY",
        help="the server to start (default: $PACKHOUSED, then PATH)",
    )
    parser.add_argument(
        "--cli",
        default="packhouse",
        metavar="BINARY",
        help="the tool that generates the graph (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("demo-output"),
        metavar="DIR",
        help="where the graph is while it is needed, and the server's log (default: %(default)s)",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(run_whole("demo", main))
