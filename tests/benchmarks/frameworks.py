"""packhouse against what would be used instead, on the same graphs and the same two processors.

Every contestant gives all graphs in random order, epoch after epoch, as batches of about 256 with
the same features: node features, edge features, edges by node number, and labels, each in the type
that they have in the file (PyG's edge_index: int64, as it wants it).

- `packhouse, Python`: a data set on disk, loaded by packhouse.Loader over loopback TCP from a
  packhoused of its own; padded to one shape, with the graph of each row. The time is all of it:
  opening epochs, collation, the wire, acknowledgements, the views as numpy arrays.
- `packhouse, C++`: what `packhouse-bench --only load` says of batches of 256 KiB, with --bench.
- `PyG`: torch_geometric.loader.DataLoader with 0 and 2 workers; not padded.
- `torch`: torch.utils.data.DataLoader that joins numpy arrays, with 0 and 2 workers; not padded.
- `jraph`: jraph.dynamically_batch on numpy arrays, with the budget that its examples take: room for
  a batch of mean graphs, rounded up to the next 64.

Contestants are processes of their own and take turns; those whose framework is not installed are
left out with a message. All have glibc's malloc set as packhouse.tune_process_for_batches does. DGL
and TF-GNN are not compared.

The frameworks, in an environment of their own (PyTorch: Debian's python3-torch, or PyPI's):

    python3 -m venv --system-site-packages frameworks
    frameworks/bin/pip install torch_geometric jraph 'jax<0.4.31' 'jaxlib<0.4.31' 'numpy<2'

Then, after `make build`:

    PYTHONPATH=build/release/python frameworks/bin/python tests/benchmarks/frameworks.py \\
        --packhoused build/release/service/packhoused --bench
        build/release/client/bench/packhouse-bench \\ --data ../shared/data/graphs/molhiv.npz
        --markdown frameworks.md --json frameworks.json

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
import time
from typing import Any, Callable, Final, Iterable, Iterator, Sequence

import numpy as np
from measuring import (
    DATASET,
    Contestant,
    Run,
    Runner,
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

from packhouse import (
    GRAPHS,
    DerivedTensor,
    GraphTable,
    Loader,
    LocalServer,
    Padding,
    tune_process_for_batches,
)
from packhouse.graphs import Array

BATCH_SIZE: Final = 256

# What others are compared with.
BASELINE: Final = "PyG, 0 workers"


@dataclasses.dataclass(frozen=True)
class Source:
    """What graphs, for a contestant to load itself."""

    path: pathlib.Path | None
    count: int | None


@dataclasses.dataclass(frozen=True)
class Graph:
    """One graph's rows, by tensor; `edges` is [2, edges]."""

    tensors: dict[str, Array]
    components: dict[str, str]
    nodes: int
    edges: Array


def graphs_of(source: Source) -> list[Graph]:
    """Each graph by itself, as frameworks take them."""
    table, _ = load_graphs(source.path, source.count)
    components = {
        spec.name: spec.component
        for spec in table.schema.tensors
        if spec.name not in ("senders", "receivers")
    }
    ends = {name: np.cumsum(table.counts(name)) for name in (*table.schema.components, GRAPHS)}
    starts = {name: ends[name] - table.counts(name) for name in ends}
    edges = np.stack([table.tensors["senders"], table.tensors["receivers"]])

    def rows(component: str, graph: int) -> slice:
        return slice(int(starts[component][graph]), int(ends[component][graph]))

    return [
        Graph(
            {name: table.tensors[name][rows(components[name], i)] for name in components},
            components,
            int(table.sizes[i, 0]),
            edges[:, rows("edges", i)],
        )
        for i in range(len(table))
    ]


def epochs(run_epoch: Callable[[int], Run]) -> Runner:
    """Runs whole epochs."""
    number = 0

    def run(seconds: float) -> Run:
        nonlocal number
        total = Run(0.0)
        started = time.perf_counter()
        while total.seconds < seconds:
            one = run_epoch(number)
            number += 1
            total = Run(
                seconds=time.perf_counter() - started,
                graphs=total.graphs + one.graphs,
                batches=total.batches + one.batches,
                rows=total.rows + one.rows,
                real_rows=total.real_rows + one.real_rows,
            )
        return total

    return run


def make_packhouse(address: str, limits: dict[str, int]) -> Runner:
    """Loads from a server."""
    tune_process_for_batches()
    loader = Loader(
        address,
        dataset=DATASET,
        job="frameworks",
        limits=limits,
        padding=Padding.GRAPH,
        # What PyG has as `batch`.
        derived=(DerivedTensor.GRAPH_INDEX,),
        max_in_flight=64,
    )

    def run_epoch(epoch: int) -> Run:
        loader.set_epoch(epoch)
        graphs = batches = rows = real_rows = 0
        for batch in loader:
            for array in batch.tensors.values():
                assert isinstance(array, np.ndarray)
            graphs += len(batch)
            batches += 1
            rows += batch.rows["nodes"] + batch.rows["edges"]
            real_rows += batch.real_rows["nodes"] + batch.real_rows["edges"]
        return Run(0.0, graphs=graphs, batches=batches, rows=rows, real_rows=real_rows)

    return epochs(run_epoch)


def count_ragged(batches: Iterable[tuple[int, int]]) -> Run:
    """Of batches without padding: graphs, nodes and edges of each."""
    num_batches = num_graphs = rows = 0
    for graphs, batch_rows in batches:
        num_batches += 1
        num_graphs += graphs
        rows += batch_rows
    return Run(0.0, graphs=num_graphs, batches=num_batches, rows=rows, real_rows=rows)


def worker_arguments(workers: int) -> dict[str, Any]:
    """Of a DataLoader: workers that stay, and see the graphs without a copy."""
    if not workers:
        return {}
    # What is usual on Linux; this process was spawned, and would spawn.
    return {"persistent_workers": True, "multiprocessing_context": "fork"}


def make_pyg(source: Source, workers: int) -> Runner:
    """PyG's own DataLoader."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader

    tune_process_for_batches()
    data = [
        Data(
            edge_index=torch.from_numpy(graph.edges.astype(np.int64)),
            num_nodes=graph.nodes,
            **{name: torch.from_numpy(np.array(rows)) for name, rows in graph.tensors.items()},
        )
        for graph in graphs_of(source)
    ]
    loader = DataLoader(
        data,
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=workers,
        **worker_arguments(workers),
    )

    def run_epoch(_: int) -> Run:
        return count_ragged(
            (batch.num_graphs, batch.num_nodes + batch.num_edges) for batch in loader
        )

    return epochs(run_epoch)


def join(graphs: Sequence[Graph]) -> dict[str, Any]:
    """A batch as numpy arrays: what a plain collate function does."""
    nodes = np.array([graph.nodes for graph in graphs])
    edges = np.array([graph.edges.shape[1] for graph in graphs])
    shift = np.repeat(np.cumsum(nodes) - nodes, edges)
    return {
        **{
            name: np.concatenate([graph.tensors[name] for graph in graphs])
            for name in graphs[0].tensors
        },
        "edge_index": np.concatenate([graph.edges for graph in graphs], axis=1) + shift,
        "batch": np.repeat(np.arange(len(graphs)), nodes),
    }


def make_torch(source: Source, workers: int) -> Runner:
    """PyTorch's DataLoader without PyG."""
    import torch.utils.data

    tune_process_for_batches()
    loader: Any = torch.utils.data.DataLoader(
        graphs_of(source),  # type: ignore[arg-type]
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=workers,
        **worker_arguments(workers),
        collate_fn=join,
    )

    def run_epoch(_: int) -> Run:
        # The last graph's number tells how many there are.
        return count_ragged(
            (int(batch["batch"][-1]) + 1, len(batch["batch"]) + batch["edge_index"].shape[1])
            for batch in loader
        )

    return epochs(run_epoch)


def make_jraph(source: Source) -> Runner:
    """jraph's dynamic batching, without workers: it has none."""
    import jraph

    tune_process_for_batches()
    graphs = graphs_of(source)

    def features(graph: Graph, component: str) -> dict[str, Array]:
        return {
            name: rows
            for name, rows in graph.tensors.items()
            if graph.components[name] == component
        }

    tuples = [
        jraph.GraphsTuple(
            nodes=features(graph, "nodes"),
            edges=features(graph, "edges"),
            senders=graph.edges[0],
            receivers=graph.edges[1],
            globals=features(graph, GRAPHS),
            n_node=np.array([graph.nodes], np.int32),
            n_edge=np.array([graph.edges.shape[1]], np.int32),
        )
        for graph in graphs
    ]

    def budget(rows: Sequence[int]) -> int:
        # At least what the largest graph takes, with one more for the padding.
        return max(64 * (1 + int(np.mean(rows) * BATCH_SIZE) // 64), max(rows) + 1)

    n_node = budget([graph.nodes for graph in graphs])
    n_edge = budget([graph.edges.shape[1] for graph in graphs])
    rng = np.random.default_rng(0)

    def run_epoch(_: int) -> Run:
        num_graphs = batches = real_rows = 0
        shuffled = (tuples[i] for i in rng.permutation(len(tuples)))
        for batch in jraph.dynamically_batch(shuffled, n_node, n_edge, BATCH_SIZE):
            mask = jraph.get_graph_padding_mask(batch)
            num_graphs += int(mask.sum())
            batches += 1
            real_rows += int(batch.n_node[mask].sum() + batch.n_edge[mask].sum())
        rows = batches * (n_node + n_edge)
        return Run(0.0, graphs=num_graphs, batches=batches, rows=rows, real_rows=real_rows)

    return epochs(run_epoch)


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
    frameworks: dict[str, tuple[Any, ...]] = {
        BASELINE: (make_pyg, source, 0),
        "PyG, 2 workers": (make_pyg, source, 2),
        "torch, 0 workers": (make_torch, source, 0),
        "torch, 2 workers": (make_torch, source, 2),
        "jraph": (make_jraph, source),
    }
    with contextlib.ExitStack() as stack:
        turns = stack.enter_context(packhouse_contestants(options, source))
        for name, arguments in frameworks.items():
            contestant = stack.enter_context(Contestant(*arguments))
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
