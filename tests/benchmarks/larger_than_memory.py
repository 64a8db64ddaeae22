"""Loads a data set that is larger than the server's memory, in segments.

    larger_than_memory.py --sizes molpcba_train.csv.gz [--graphs 1e8] [--memory BYTES] [--sorted]
    larger_than_memory.py --sizes molpcba_train.csv.gz --s3 [--cache BYTES]
    larger_than_memory.py --sizes molpcba_train.csv.gz --simulate 1e10

Sizes are those of the file, in its order, again and again; the tensor of a graph is a byte. Every
graph's id is ticked off. Memory is the server's own (RssAnon), at its peak; mapped pages of the
store are the page cache's. With --s3 the data set is in a real S3 server on loopback. --simulate loads nothing: it plans the segments of so many graphs, as
many as --plans says, and compares them with the bound of all graphs together.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import pathlib
import sys
import tempfile
from typing import Any, Final, Iterator

import numpy as np
import numpy.typing as npt

from growth import ServerUse
from packhouse import (
    Client,
    DType,
    GraphSchema,
    GraphTable,
    Histogram,
    Loader,
    LocalServer,
    Segments,
    TensorSpec,
)

_SCHEMA: Final = GraphSchema(("nodes", "edges"), (TensorSpec("y", DType.UINT8, "graphs"),))
_APPENDED: Final = 16384

Sizes = npt.NDArray[np.uint32]


def read_sizes(path: pathlib.Path, largest: int) -> Sizes:
    """The rows of a CSV of nodes and edges, without graphs of more than `largest` nodes."""
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.uint32)
    return np.ascontiguousarray(table[table[:, 0] <= largest])


def tables_of(sizes: Sizes, count: int, is_sorted: bool) -> Iterator[GraphTable]:
    """So many graphs; if sorted, each size comes as often as it is in the whole."""
    if is_sorted:
        sizes = sizes[np.lexsort((sizes[:, 1], sizes[:, 0]))]
    for first in range(0, count, _APPENDED):
        numbers = np.arange(first, min(count, first + _APPENDED))
        # The number's share of all, or its place in the next repetition.
        rows = numbers * len(sizes) // count if is_sorted else numbers % len(sizes)
        yield GraphTable(
            _SCHEMA, sizes[rows], {"y": (numbers & 255).astype(np.uint8)}, first_id=first
        )


def limits_of(sizes: Sizes, graphs: int) -> dict[str, int]:
    """Room for so many mean graphs, and for the largest one."""
    means, most = sizes.mean(axis=0), sizes.max(axis=0)
    return {
        "nodes": max(int(means[0] * graphs), int(most[0])),
        "edges": max(int(means[1] * graphs), int(most[1])),
        "graphs": graphs * 5 // 4,
    }


def simulate(options: argparse.Namespace, sizes: Sizes) -> int:
    """Plans some segments of many graphs, and prints what segmentation costs."""
    total, graphs = int(options.simulate), options.segment or 1 << 20
    distinct, counts = np.unique(sizes, axis=0, return_counts=True)
    chooser = np.random.default_rng(1)
    limits = limits_of(sizes, options.batch)
    with LocalServer(options.packhoused) as server, Client(server.address, timeout=600) as client:
        scaled = counts.astype(np.uint64) * np.uint64(total // len(sizes))
        num_graphs = int(scaled.sum())
        bound = client.plan(
            Histogram(("nodes", "edges"), distinct, scaled), limits, summaries_only=True
        ).best.lower_bound
        batches = []
        for _ in range(options.plans):
            drawn = chooser.multinomial(graphs, counts / counts.sum()).astype(np.uint64)
            some = drawn != 0
            plan = client.plan(
                Histogram(("nodes", "edges"), distinct[some], drawn[some]), limits, summaries_only=True
            )
            batches.append(plan.best.packs)
    segments = num_graphs / graphs
    loss = float(np.mean(batches)) * segments / bound - 1
    print(
        f"{num_graphs:,} graphs in {math.ceil(segments):,} segments of {graphs:,}: "
        f"{np.mean(batches) * segments:,.0f} batches by {options.plans} of them, at least {bound:,}; "
        f"lost at most {100 * loss:.4f} %"
    )
    return 0


def server_of(
    options: argparse.Namespace, folder: pathlib.Path, stack: contextlib.ExitStack
) -> LocalServer:
    """The server, not started; S3 and etcd are, if it needs them."""
    arguments = [f"--memory-budget={options.memory}", *options.server]
    if not options.s3:
        return LocalServer(options.packhoused, data_dir=folder, arguments=arguments)
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "end_to_end"))
    # pylint: disable=import-outside-toplevel
    from etcd_process import EtcdProcess, free_port
    from s3_process import BUCKET, S3Process

    s3 = stack.enter_context(S3Process(folder / "s3"))
    etcd = stack.enter_context(EtcdProcess(folder / "etcd", compacting=False))
    address = f"127.0.0.1:{free_port()}"
    arguments += [
        *(f"--ledger=etcd://{etcd.address}/larger", f"--advertise={address}"),
        *(f"--store=s3://{BUCKET}", f"--s3-endpoint=http://{s3.address}"),
        *(f"--s3-credentials={s3.credentials}", f"--cache-dir={folder / 'cache'}"),
        *(f"--cache-bytes={options.cache}", f"--signing-key={folder / 'key'}"),
    ]
    return LocalServer(options.packhoused, listen=address, arguments=arguments)


def run(options: argparse.Namespace, sizes: Sizes) -> int:
    """Appends, opens, loads, and prints what each took."""
    count = int(options.graphs)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder))
        server = stack.enter_context(server_of(options, pathlib.Path(folder), stack))
        use = ServerUse(server.pid)

        def step(what: str, work: Any) -> None:
            cost = use.measure(work)
            print(
                f"{what}: {cost.seconds:.1f} s, {cost.cpu_seconds:.1f} CPU s of the server, "
                f"peak {cost.memory_bytes / (1 << 20):.0f} MiB RssAnon above idle",
                flush=True,
            )

        with Client(server.address, timeout=600) as client:

            def append() -> None:
                client.datasets.create("d", _SCHEMA)
                client.datasets.append("d", tables_of(sizes, count, options.sorted))
                if client.datasets.seal("d").num_graphs != count:
                    raise RuntimeError("graphs are missing")

            step(f"append {count:,} graphs", append)
        files = (path for path in pathlib.Path(folder).rglob("*") if path.is_file())
        stored = sum(path.stat().st_blocks * 512 for path in files)
        print(f"on the disk: {stored >> 20:,} MiB", flush=True)
        for epoch in range(options.epochs):
            with Loader(
                server.address,
                dataset="d",
                job="larger",
                limits=limits_of(sizes, options.batch),
                segments=Segments(options.segment, options.tracks),
                max_in_flight=256,
            ) as loader:
                if epoch != 0:
                    loader.set_epoch(epoch)
                batches: list[Iterator[Any]] = [iter(loader)]
                seen = np.zeros(count, np.uint8)

                def first() -> None:
                    seen[next(batches[0]).graph_ids] += 1

                def rest() -> None:
                    for batch in batches[0]:
                        seen[batch.graph_ids] += 1

                step(f"epoch {epoch}: first batch", first)
                info = loader.epoch_info()
                step(f"epoch {epoch}: {info.num_batches:,} batches", rest)
                if not (seen == 1).all():
                    raise RuntimeError("not every graph came once")
                parts = info.segments
                assert parts is not None
                print(
                    f"epoch {epoch}: every graph once; {parts.num_segments} segments of up to "
                    f"{parts.max_graphs:,} graphs in {parts.num_tracks} tracks; at least "
                    f"{info.lower_bound:,} batches, so segmentation lost at most "
                    f"{100 * parts.loss:.4f} %",
                    flush=True,
                )
        use.close()
    return 0


def main() -> int:
    """Prints some lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packhoused", help="default: $PACKHOUSED, then PATH")
    parser.add_argument("--sizes", type=pathlib.Path, required=True, help="a CSV of nodes, edges")
    parser.add_argument("--largest", type=int, default=36_123, help="nodes; larger graphs are left out")
    parser.add_argument("--graphs", type=float, default=1e8)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--segment", type=int, default=0, help="graphs of a segment; 0: the default")
    parser.add_argument("--tracks", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1024, help="mean graphs of a batch")
    parser.add_argument("--sorted", action="store_true", help="the data set is sorted by size")
    parser.add_argument("--memory", type=int, default=1 << 30, help="the server's --memory-budget")
    parser.add_argument("--server", action="append", default=[], help="more arguments of the server")
    parser.add_argument("--s3", action="store_true", help="the store is an S3 server")
    parser.add_argument("--cache", type=int, default=2 << 30, help="--cache-bytes, with --s3")
    parser.add_argument("--folder", default=os.environ.get("TMPDIR"), help="for the store")
    parser.add_argument("--simulate", type=float, default=0.0, help="graphs; only plans")
    parser.add_argument("--plans", type=int, default=16, help="segments that --simulate plans")
    options = parser.parse_args()
    sizes = read_sizes(options.sizes, options.largest)
    return simulate(options, sizes) if options.simulate else run(options, sizes)


if __name__ == "__main__":
    sys.exit(main())
