"""Epochs under fire: workers and the server are killed (-9) at random while epochs are loaded.

    python3 soak.py --packhoused BINARY [--dataset molhiv.npz --split molhiv_split.npz]
                    [--workers 8] [--kills 60] [--seed 0]

Every worker is a process of its own. It says, on a pipe, what it has received before it acknowledges
it: number of the batch, checksum of its bytes, id and checksum of each of its graphs. Two epochs are
loaded: one dynamic, one ranked. At the end, from these words alone: every graph is in exactly one
batch, with the content that was appended; a batch that was sent again had the same bytes; and the
server's ledger, asked by GetEpoch, has every batch done.

Kills are counted out in received batches, not in time: a slow machine sees as many.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import pathlib
import random
import selectors
import subprocess
import sys
import tempfile
import time
import zlib
from typing import Final, Iterator

import numpy as np
from lane_remains import has_left_all

from packhouse import (
    Client,
    DerivedTensor,
    DType,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    Padding,
    TensorSpec,
)
from packhouse.files import npz

_DATASET: Final = "soak"
_JOB: Final = "soak"
_SEED: Final = 11
# For what is left of lanes to go.
_GONE_SECONDS: Final = 60.0
# The share of kills that hit the server.
_SERVER_SHARE: Final = 0.25


def graph_checksums(table: GraphTable) -> list[int]:
    """A checksum of each graph's sizes and rows."""
    sums = [zlib.crc32(row.tobytes()) for row in table.sizes]
    for spec in table.schema.tensors:
        rows = table.tensors[spec.name]
        offsets = table.offsets(spec.component)
        for i in range(len(table)):
            sums[i] = zlib.crc32(rows[offsets[i] : offsets[i + 1]].tobytes(), sums[i])
    return sums


def make_loader(
    address: str, mode: str, worker: int, num_workers: int, limits: dict[str, int]
) -> Loader:
    """The same words for all workers of an epoch."""
    sharing = (
        {"rank": worker, "num_ranks": num_workers} if mode == "ranked" else {"worker": f"w{worker}"}
    )
    return Loader(
        address,
        dataset=_DATASET,
        job=f"{_JOB}-{mode}",
        seed=_SEED,
        limits=limits,
        padding=Padding.GRAPH,
        derived=(DerivedTensor.ROW_COUNTS,),
        acknowledge="automatic",
        lane="required",
        # Killed at the end, it comes back to an epoch that the others have finished.
        on_existing="resume",
        **sharing,  # type: ignore[arg-type]
    )


def work(options: argparse.Namespace) -> int:
    """A worker: says what it received, then asks for more, which acknowledges it."""
    limits = dict(pair.split("=") for pair in options.limits.split(","))
    with make_loader(
        options.address,
        options.mode,
        options.worker,
        options.workers,
        {name: int(rows) for name, rows in limits.items()},
    ) as loader:
        for batch in loader:
            table = batch.unbatch()
            content = zlib.crc32(batch.graph_ids.tobytes())
            for name in sorted(batch.tensors):
                content = zlib.crc32(np.ascontiguousarray(batch.tensors[name]).tobytes(), content)
            graphs = ",".join(
                f"{graph}:{checksum}"
                for graph, checksum in zip(table.graph_ids, graph_checksums(table), strict=True)
            )
            line = f"{batch.number} {int(batch.is_padding)} {content} {graphs}\n"
            os.write(sys.stdout.fileno(), line.encode())
    return 0


@dataclasses.dataclass
class Books:
    """What the workers of one epoch said."""

    # Checksum and graphs of each batch, as first received.
    batches: dict[int, tuple[str, str]] = dataclasses.field(default_factory=dict)
    padding: set[int] = dataclasses.field(default_factory=set)
    received: int = 0
    redelivered: int = 0
    faults: list[str] = dataclasses.field(default_factory=list)

    def hear(self, line: str) -> None:
        """One batch that a worker received."""
        number, is_padding, content, graphs = line.split(" ")
        batch = int(number)
        self.received += 1
        if is_padding == "1":
            self.padding.add(batch)
        if batch not in self.batches:
            self.batches[batch] = (content, graphs)
            return
        self.redelivered += 1
        if self.batches[batch] != (content, graphs):
            self.faults.append(f"batch {batch} came again with other bytes")


class Epoch:
    """Loads one epoch with all workers, and kills while it goes on."""

    def __init__(
        self,
        server: LocalServer,
        mode: str,
        limits: dict[str, int],
        options: argparse.Namespace,
        kills: Iterator[tuple[int, str]],
    ) -> None:
        self._server = server
        self._command = [
            sys.executable,
            *("-B", os.path.abspath(__file__), "--work", "--address", server.address),
            *("--mode", mode, "--workers", str(options.workers)),
            *("--limits", ",".join(f"{name}={rows}" for name, rows in limits.items())),
        ]
        self._num_workers = options.workers
        self._kills = kills
        self._random = random.Random(f"{options.seed} {mode}")
        self._selector = selectors.DefaultSelector()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._heard: dict[int, bytes] = collections.defaultdict(bytes)
        self.books = Books()
        self.worker_kills = 0
        self.server_kills = 0

    def run(self) -> None:
        """Until every worker has said that the epoch has ended."""
        for worker in range(self._num_workers):
            self._start(worker)
        next_kill, victim = next(self._kills)
        while self._running:
            for key, _ in self._selector.select():
                self._read(key.data)
            if self.books.received >= next_kill and self._running:
                self._kill(victim)
                pause, victim = next(self._kills)
                next_kill = self.books.received + pause

    def _start(self, worker: int) -> None:
        process = subprocess.Popen(
            [*self._command, "--worker", str(worker)],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        self._running[worker] = process
        self._selector.register(process.stdout, selectors.EVENT_READ, worker)

    def _read(self, worker: int) -> None:
        process = self._running[worker]
        assert process.stdout is not None
        received = os.read(process.stdout.fileno(), 1 << 16)
        *lines, rest = (self._heard[worker] + received).split(b"\n")
        self._heard[worker] = rest
        for line in lines:
            self.books.hear(line.decode())
        if received:
            return
        # What a killed worker was about to say it has not acknowledged.
        self._heard[worker] = b""
        self._selector.unregister(process.stdout)
        process.stdout.close()
        del self._running[worker]
        status = process.wait()
        if status < 0:
            self._start(worker)
        elif status > 0:
            self.books.faults.append(f"worker {worker} ended with status {status}")

    def _kill(self, victim: str) -> None:
        if victim == "server":
            self._server.kill()
            self._server.start()
            self.server_kills += 1
            return
        self._running[self._random.choice(sorted(self._running))].kill()
        self.worker_kills += 1


def kill_plan(seed: int, kills: int, num_batches: int) -> Iterator[tuple[int, str]]:
    """After how many more received batches who is killed; at the end never again."""
    chooser = random.Random(seed)
    mean = max(1, num_batches // (kills + 1))
    for _ in range(kills):
        victim = "server" if chooser.random() < _SERVER_SHARE else "worker"
        yield chooser.randrange(1, 2 * mean), victim
    while True:
        yield sys.maxsize, "worker"


def check(books: Books, expected: dict[int, int]) -> tuple[int, int]:
    """Graphs lost and duplicated; what else is wrong becomes a fault."""
    found: collections.Counter[int] = collections.Counter()
    for number, (_, graphs) in books.batches.items():
        for graph in filter(None, graphs.split(",")):
            graph_id, checksum = map(int, graph.split(":"))
            found[graph_id] += 1
            if expected.get(graph_id) != checksum:
                books.faults.append(f"batch {number}: graph {graph_id} is not as it was appended")
    lost = len(expected.keys() - found.keys())
    duplicated = sum(count - 1 for count in found.values())
    return lost, duplicated


def run(options: argparse.Namespace) -> int:
    """The soak; exit status 0 if no law was broken."""
    table = npz.load(options.dataset) if options.dataset else synthetic_graphs(options.graphs)
    if options.split:
        table = table.take(np.load(options.split)["train"])
    components = table.schema.components
    limits = {name: max(256, int(table.counts(name).max()) + 1) for name in components}
    limits["graphs"] = 8
    expected = dict(zip(map(int, table.graph_ids), graph_checksums(table), strict=True))
    totals = collections.Counter[str]()
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "wb") as log:
        server = LocalServer(options.packhoused, data_dir=folder, log=log)
        with server:
            with Client(server.address) as client:
                client.datasets.create(_DATASET, table.schema)
                client.datasets.append(_DATASET, [table])
                client.datasets.seal(_DATASET)
            for number, mode in enumerate(("dynamic", "ranked")):
                with make_loader(server.address, mode, 0, options.workers, limits) as loader:
                    num_batches = loader.epoch_info().num_batches
                plan = kill_plan(options.seed + number, options.kills // 2, num_batches)
                epoch = Epoch(server, mode, limits, options, plan)
                epoch.run()
                lost, duplicated = check(epoch.books, expected)
                end = time.monotonic() + _GONE_SECONDS
                while not has_left_all(server.pid):
                    if time.monotonic() > end:
                        epoch.books.faults.append("the server has lanes of workers that have gone")
                        break
                    time.sleep(0.05)
                with make_loader(server.address, mode, 0, options.workers, limits) as loader:
                    info = loader.epoch_info()
                if info.num_done != info.num_batches:
                    epoch.books.faults.append(
                        f"the ledger has {info.num_done} of {info.num_batches} batches done"
                    )
                totals.update(
                    graphs=len(expected),
                    batches=num_batches,
                    worker_kills=epoch.worker_kills,
                    server_kills=epoch.server_kills,
                    redelivered=epoch.books.redelivered,
                    lost=lost,
                    duplicated=duplicated,
                )
                faults += [f"{mode}: {fault}" for fault in epoch.books.faults]
                print(
                    f"{mode}: {len(expected):,} graphs in {num_batches:,} batches and "
                    f"{len(epoch.books.padding):,} of padding; {options.workers} workers; kills "
                    f"survived: {epoch.worker_kills} of workers, {epoch.server_kills} of the "
                    f"server; batches received again: {epoch.books.redelivered}; graphs lost: "
                    f"{lost}, duplicated: {duplicated}",
                    flush=True,
                )
    for fault in faults[:10]:
        print(f"soak: {fault}", file=sys.stderr)
    bad = bool(faults) or totals["lost"] != 0 or totals["duplicated"] != 0
    print(
        f"in all: {totals['worker_kills'] + totals['server_kills']} kills survived, "
        f"{totals['redelivered']} batches redelivered, graphs lost: {totals['lost']}, "
        f"duplicated: {totals['duplicated']}" + (", laws broken" if bad else "")
    )
    return 1 if bad else 0


def synthetic_graphs(count: int) -> GraphTable:
    """Random trees with labels, where no data set is at hand."""
    chooser = random.Random(1)
    graphs = []
    for _ in range(count):
        nodes = chooser.randrange(1, 40)
        edges = [(chooser.randrange(node), node) for node in range(1, nodes)]
        graphs.append((nodes, edges))
    schema = GraphSchema(
        ("nodes", "edges"),
        (
            TensorSpec("x", DType.INT32, "nodes"),
            TensorSpec("edge_index", DType.INT32, "edges", (2,), index_into="nodes"),
            TensorSpec("y", DType.FLOAT32, "graphs"),
        ),
    )
    tensors = {
        "x": np.arange(sum(nodes for nodes, _ in graphs), dtype=np.int32),
        "edge_index": np.array([pair for _, edges in graphs for pair in edges], np.int32),
        "y": np.arange(count, dtype=np.float32),
    }
    return GraphTable(schema, [(nodes, len(edges)) for nodes, edges in graphs], tensors)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the soak; those after --work are for its own use."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packhoused", help="default: $PACKHOUSED, then PATH")
    parser.add_argument("--dataset", type=pathlib.Path, help="graphs (.npz); default: random trees")
    parser.add_argument("--split", type=pathlib.Path, help="an .npz: take the graphs of its `train`")
    parser.add_argument("--graphs", type=int, default=4000, help="number of random trees")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--kills", type=int, default=60, help="in both epochs together")
    parser.add_argument("--seed", type=int, default=0, help="of the kills")
    for name in ("--address", "--mode", "--limits"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    given = parse()
    sys.exit(work(given) if given.work else run(given))
