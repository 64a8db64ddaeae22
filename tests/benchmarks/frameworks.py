"""packhouse against what would be used instead, on the same graphs and the same two processors.

Every contestant gives all graphs in random order, epoch after epoch, as batches of about 256 with
the same features: node features, edge features, edges by node number, and labels, each in the type
that they have in the file (PyG's edge_index: int64, as it wants it).

- `packhouse, Python`: a data set on disk, loaded by packhouse.Loader over loopback TCP from a
  packhoused of its own; padded to one shape, with the graph of each row. The time is all of it:
  opening epochs, collation, the wire, acknowledgements, the views as numpy arrays.
- `packhouse, C++`: what `packhouse-bench --only load` says of batches of 256 KiB, with --bench.
- `PyG`: torch_geometric.loader.DataLoader with 0 and 2 workers; not padded. With its
  DynamicBatchSampler: batches of as many graphs as have the nodes of 256 mean graphs.
- `torch`: torch.utils.data.DataLoader that joins numpy arrays, with 0 and 2 workers; not padded.
- `jraph`: jraph.dynamically_batch on numpy arrays, with the budget that its examples take: room for
  a batch of mean graphs, rounded up to the next 64.

- `DGL`: dgl.dataloading.GraphDataLoader with 0 and 2 workers; not padded.
- `TF-GNN`: a tf.data pipeline over a file of tf.Examples: shuffled, parsed by the batch with
  tfgnn.parse_example, and merged to one graph; not padded. TensorFlow uses all processors.

Contestants are processes of their own and take turns; those whose framework is not installed are
left out with a message. All have glibc's malloc set as packhouse.tune_process_for_batches does.

`make bench-frameworks` makes an environment of pinned packages for each framework and runs this.
With --environments FOLDER a contestant has the interpreter of FOLDER/NAME, without it this one's.
Without --data: the syntax trees of this machine's Python library.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Callable, Final, Iterator, Sequence

from framework_loaders import (
    BATCH_SIZE,
    Source,
    make_dgl,
    make_jraph,
    make_packhouse,
    make_pyg,
    make_pyg_dynamic,
    make_tfgnn,
    make_torch,
)
from measuring import (
    Contestant,
    Run,
    Spread,
    benchmark_parser,
    cpu_seconds_of,
    limits_for,
    load_graphs,
    markdown,
    pin,
    publish,
    store,
)

from packhouse import GraphTable, LocalServer

# What others are compared with.
BASELINE: Final = "PyG, 0 workers"


def bench_cpp(options: argparse.Namespace) -> Run:
    """What `packhouse-bench` measures of the C++ client, in one run."""
    with tempfile.TemporaryDirectory() as folder:
        figures = pathlib.Path(folder, "figures.json")
        subprocess.run(
            [
                *(options.bench, "--packhoused", options.packhoused, "--json", figures),
                *("--only", "load", "--streams", "1", "--payloads", "256KiB", "--runs", "1"),
                *("--seconds", str(options.seconds)),
                *(("--data", options.data) if options.data else ()),
            ],
            env={**os.environ, "TMPDIR": folder},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        report = json.loads(figures.read_text(encoding="utf-8"))
    (load,) = (each for each in report["measures"] if each["measure"] == "load")
    gigabytes = load["gigabytes_per_second"]["median"] * options.seconds
    per_gigabyte = sum(
        load[f"{side}_cpu_seconds_per_gigabyte"]["median"] for side in ("client", "server")
    )
    return Run(
        options.seconds,
        cpu=per_gigabyte * gigabytes,
        graphs=round(load["graphs_per_second"]["median"] * options.seconds),
    )


@contextlib.contextmanager
def packhouse_contestants(
    options: argparse.Namespace, source: Source
) -> Iterator[dict[str, Callable[[], Run]]]:
    """Those of packhouse, by name: what makes a run."""
    with contextlib.ExitStack() as stack:
        table, _ = load_graphs(source.path, source.count)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        flags = ("--tcp-congestion", options.tcp_congestion) if options.tcp_congestion else ()
        server = stack.enter_context(
            LocalServer(
                options.packhoused, data_dir=folder, arguments=(*flags, "--log-level", "error")
            )
        )
        store(server.address, table)
        limits = _limits(table)
        loader = stack.enter_context(Contestant(make_packhouse, server.address, limits))

        def run() -> Run:
            before = cpu_seconds_of(server.pid)
            done = loader.run(options.seconds)
            return dataclasses.replace(done, cpu=done.cpu + cpu_seconds_of(server.pid) - before)

        runs: dict[str, Callable[[], Run]] = {"packhouse, Python": run}
        if options.bench:
            runs["packhouse, C++"] = functools.partial(bench_cpp, options)
        yield runs


def _limits(table: GraphTable) -> dict[str, int]:
    return limits_for(table, BATCH_SIZE)


def compete(options: argparse.Namespace) -> dict[str, list[Run]]:
    """Everyone's runs, by name; they take turns."""
    source = Source(options.data, options.graphs)
    # The environment of tests/conformance/environments.txt, then what makes it.
    frameworks: dict[str, tuple[Any, ...]] = {
        BASELINE: ("benchmarks", make_pyg, source, 0),
        "PyG, 2 workers": ("benchmarks", make_pyg, source, 2),
        "PyG, DynamicBatchSampler": ("benchmarks", make_pyg_dynamic, source),
        "torch, 0 workers": ("benchmarks", make_torch, source, 0),
        "torch, 2 workers": ("benchmarks", make_torch, source, 2),
        "jraph": ("benchmarks", make_jraph, source),
        "DGL, 0 workers": ("dgl", make_dgl, source, 0),
        "DGL, 2 workers": ("dgl", make_dgl, source, 2),
        "TF-GNN": ("tfgnn", make_tfgnn, source),
    }
    with contextlib.ExitStack() as stack:
        turns = stack.enter_context(packhouse_contestants(options, source))
        for name, (environment, *making) in frameworks.items():
            if options.only and options.only not in name:
                continue
            python = options.environments and options.environments / environment / "bin/python"
            contestant = stack.enter_context(Contestant(*making, python=python))
            if contestant.missing:
                print(f"{name}: left out: {contestant.missing}", file=sys.stderr)
            else:
                turns[name] = functools.partial(contestant.run, options.seconds)
        runs: dict[str, list[Run]] = {name: [] for name in turns}
        for turn in range(options.runs + 1):
            for name, run in turns.items():
                done = run()
                # The first turn warms up.
                if turn > 0:
                    runs[name].append(done)
    return runs


def summarize(runs: dict[str, list[Run]]) -> list[dict[str, Any]]:
    """One entry for each contestant."""
    figures = []
    for name, mine in runs.items():
        rows = sum(run.rows for run in mine)
        figures.append(
            {
                "contestant": name,
                "graphs_per_second": [run.graphs / run.seconds for run in mine],
                "graphs_per_cpu_second": [run.graphs / run.cpu for run in mine],
                "padded_share": 1 - sum(run.real_rows for run in mine) / rows if rows else None,
                "ratio_to_baseline": [
                    run.graphs / run.seconds / (other.graphs / other.seconds)
                    for run, other in zip(mine, runs.get(BASELINE, ()))
                ],
                "ratio_to_baseline_per_cpu_second": [
                    run.graphs / run.cpu / (other.graphs / other.cpu)
                    for run, other in zip(mine, runs.get(BASELINE, ()))
                ],
            }
        )
    return figures


def describe(figures: Sequence[dict[str, Any]]) -> str:
    """The table."""
    rows = []
    for entry in figures:
        ratios, padded = entry["ratio_to_baseline"], entry["padded_share"]
        cpu_ratios = entry["ratio_to_baseline_per_cpu_second"]
        rows.append(
            [
                entry["contestant"],
                Spread.of(entry["graphs_per_second"]).show(),
                Spread.of(entry["graphs_per_cpu_second"]).show(),
                "" if padded is None else f"{100 * padded:.1f} %",
                Spread.of(ratios).show(1) if ratios else "",
                Spread.of(cpu_ratios).show(1) if ratios else "",
            ]
        )
    header = ["", "graphs/s", "graphs per CPU second", "padded rows"]
    return markdown([*header, f"times {BASELINE}", "per CPU second"], rows)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = benchmark_parser(__doc__, seconds=1.0)
    parser.add_argument("--markdown", type=pathlib.Path, help="where the table goes too")
    parser.add_argument(
        "--environments", type=pathlib.Path, help="a folder with one for each framework"
    )
    parser.add_argument("--only", default="", help="frameworks whose names contain this")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    options = parse(arguments)
    pin(2)
    _, title = load_graphs(options.data, options.graphs)
    figures = summarize(compete(options))
    text = publish(options, title, describe(figures), contestants=figures)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
