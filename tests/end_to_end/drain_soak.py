"""Rolling restarts under load: what clients notice of servers that are drained and come back.

    python3 drain_soak.py --packhoused BINARY [--update-to BINARY] [--seconds 60] [--interval 5]

Two servers, each with a folder of its own, behind a TCP proxy that does what a Kubernetes service
does: it forwards new connections to servers whose /readyz says so, and leaves those that are open
alone. Every `interval` seconds one of the two gets SIGTERM and is started again when it has ended,
meanwhile clients work:

- unary calls, on any server. Those that are safe to retry are retried as the service config says
  (proto/packhouse/v1/service_config.json), the others never.
- Pack streams, on any server, each of about a second.
- two workers of a job at each server, epoch after epoch. Their server owns their epochs, so that a
  port of the proxy for each server leads there alone, when it is ready: they wait until it is back.

With --update-to each restart of a server is an update to the other program, or back: two versions
work side by side, and each goes on with the folder that the other has left.

Said at the end, with exit status 1 if one is beyond its bound: calls that failed, streams that broke,
graphs lost, epochs that were not whole, and the longest time that a worker waited for a batch, beyond
the time that its server was away.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import dataclasses
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Final

import grpc
import numpy as np

from packhouse import (
    Client,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    PackhouseError,
    Padding,
    PackOptions,
)
from packhouse.v1 import (
    dataset_pb2,
    dataset_pb2_grpc,
    histogram_pb2,
    histogram_pb2_grpc,
    planning_pb2,
    planning_pb2_grpc,
)

_CONFIG: Final = pathlib.Path(__file__).parents[2] / "proto/packhouse/v1/service_config.json"
_SCHEMA: Final = GraphSchema(("nodes", "edges"), ())
_DATASET: Final = "graphs"
_GRAPHS: Final = 2000
# Between two looks at /readyz.
_PROBE_SECONDS: Final = 0.1
# How many graphs a Pack stream sends at once, and the time between two sends.
_CHUNK: Final = 50
_CHUNK_SECONDS: Final = 0.05
_CHUNKS: Final = 20
# What a worker does with a batch.
_STEP_SECONDS: Final = 0.01
# What a worker may wait for a batch beyond the time that its server is away.
_MOST_GAP_SECONDS: Final = 2.0


@dataclasses.dataclass
class Away:
    """One restart: when the server ended its Load streams, and when it was there again."""

    left: float
    back: float


class Server:
    """packhoused on free ports with a folder of its own, restarted now and then."""

    def __init__(self, options: argparse.Namespace, folder: str) -> None:
        # In turns, a program for each start.
        self._programs = itertools.cycle([options.packhoused, options.update_to or options.packhoused])
        self.commits: list[str] = []
        self._folder = folder
        self._arguments = ("--lame-duck", f"{options.lame_duck}s", "--drain-timeout", "10s")
        self._lame_duck = options.lame_duck
        self.restarts: list[Away] = []
        self.slowest_end = 0.0
        # Empty while it is not there.
        self.http_address = ""
        self.address = ""
        self.is_ready = False
        self._start()

    def _start(self) -> None:
        self._server = LocalServer(
            next(self._programs),
            data_dir=self._folder,
            arguments=(*self._arguments, "--log-level", "error"),
            stop_timeout=600.0,
        )
        self._server.start()
        self.address, self.http_address = self._server.address, self._server.http_address
        with urllib.request.urlopen(f"http://{self.http_address}/metrics") as page:
            built = re.search(r'^packhouse_build_info\{(.*)\}', page.read().decode(), re.MULTILINE)
        self.commits.append(built[1] if built is not None else "")

    def restart(self) -> None:
        """Returns when it is there again."""
        asked = time.monotonic()
        self._server.stop()
        status = self._server.returncode
        ended = time.monotonic()
        if status != 0:
            raise RuntimeError(f"a drained server ended with status {status}")
        self.slowest_end = max(self.slowest_end, ended - asked)
        self.http_address = ""
        self._start()
        self.restarts.append(Away(asked + self._lame_duck, time.monotonic()))

    def kill(self) -> None:
        """At the end of everything."""
        self._server.kill()


class Proxy:
    """Forwards new connections to servers that are ready; on a thread of its own.

    Port 0 leads to any server, port 1 + i to server i.
    """

    def __init__(self, servers: list[Server]) -> None:
        self._servers = servers
        self._turns = itertools.count()
        self.ports: list[int] = []
        self.connections = 0
        listening = threading.Event()
        threading.Thread(target=self._run, args=(listening,), daemon=True).start()
        listening.wait()

    def address(self, port: int) -> str:
        """Where clients connect to."""
        return f"127.0.0.1:{self.ports[port]}"

    def _run(self, listening: threading.Event) -> None:
        asyncio.run(self._serve(listening))

    async def _serve(self, listening: threading.Event) -> None:
        for server in self._servers:
            server.is_ready = await self._probe(server)
        for choices in [self._servers, *([server] for server in self._servers)]:

            async def accept(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                choices: list[Server] = choices,
            ) -> None:
                await self._forward(choices, reader, writer)

            listener = await asyncio.start_server(accept, "127.0.0.1", 0)
            self.ports.append(listener.sockets[0].getsockname()[1])
        listening.set()
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            for server in self._servers:
                server.is_ready = await self._probe(server)

    async def _probe(self, server: Server) -> bool:
        host, _, port = server.http_address.rpartition(":")
        if not port:
            return False
        try:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            line = await asyncio.wait_for(reader.readline(), 1)
            writer.close()
        except (OSError, asyncio.TimeoutError):
            return False
        return b" 200 " in line

    async def _forward(
        self, choices: list[Server], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        ready = [server for server in choices if server.is_ready]
        if not ready:
            writer.close()
            return
        server = ready[next(self._turns) % len(ready)]
        host, _, port = server.address.rpartition(":")
        try:
            there_reader, there_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        self.connections += 1
        await asyncio.gather(self._pipe(reader, there_writer), self._pipe(there_reader, writer))

    @staticmethod
    async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


class Figures:
    """What all clients saw. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: collections.Counter[str] = collections.Counter()
        self.longest: dict[str, float] = collections.defaultdict(float)
        self.faults: list[str] = []

    def count(self, name: str, number: int = 1) -> None:
        """Adds to a count."""
        with self._lock:
            self.counts[name] += number

    def took(self, name: str, seconds: float) -> None:
        """Keeps the longest."""
        with self._lock:
            self.longest[name] = max(self.longest[name], seconds)

    def fault(self, name: str, what: str) -> None:
        """Something that must not happen."""
        with self._lock:
            self.counts[name] += 1
            self.faults.append(f"{name}: {what}")


def channel_of(address: str) -> grpc.Channel:
    """As any client in any language would: with the service config."""
    return grpc.insecure_channel(
        address,
        options=[
            ("grpc.service_config", _CONFIG.read_text(encoding="ascii")),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 100),
        ],
    )


def call(address: str, seed: int, figures: Figures, stop: threading.Event) -> None:
    """Unary calls, one after the other."""
    chooser = random.Random(seed)
    sizes = np.array([[n, 2 * n] for n in range(1, 20)], np.uint32)
    histogram = histogram_pb2.MergeHistogramRequest().addend
    histogram.components.extend(("nodes", "edges"))
    histogram.tuples = sizes.tobytes()
    histogram.counts = np.full(len(sizes), 3, np.uint64).tobytes()
    plan = planning_pb2.PlanRequest(histogram=histogram)
    plan.limits.capacities.add(component="nodes", rows=64)
    with channel_of(address) as channel:
        datasets = dataset_pb2_grpc.DatasetServiceStub(channel)
        planning = planning_pb2_grpc.PlanningServiceStub(channel)
        histograms = histogram_pb2_grpc.HistogramServiceStub(channel)
        merge = histogram_pb2.MergeHistogramRequest(histogram=f"of-{seed}", addend=histogram)
        calls: list[tuple[str, Callable[[], object]]] = [
            ("GetDataset", lambda: datasets.GetDataset(
                dataset_pb2.GetDatasetRequest(name=_DATASET), timeout=20)),
            ("ListDatasets", lambda: datasets.ListDatasets(
                dataset_pb2.ListDatasetsRequest(), timeout=20)),
            ("Plan", lambda: planning.Plan(plan, timeout=20)),
            # Never retried, since a retry would count twice.
            ("MergeHistogram", lambda: histograms.MergeHistogram(merge, timeout=20)),
        ]
        while not stop.is_set():
            name, one = chooser.choice(calls)
            begun = time.monotonic()
            try:
                one()
            except grpc.RpcError as error:
                figures.fault("failed unary calls", f"{name}: {error.code()} {error.details()}")
            figures.count("unary calls")
            figures.took("unary call", time.monotonic() - begun)


def pack(address: str, seed: int, figures: Figures, stop: threading.Event) -> None:
    """Pack streams, one after the other, on one channel."""
    chooser = np.random.default_rng(seed)
    with Client(address, connect_timeout=60) as client:
        while not stop.is_set():
            received = 0

            def chunks() -> Iterator[GraphTable]:
                for number in range(_CHUNKS):
                    yield GraphTable(
                        _SCHEMA,
                        chooser.integers(1, 30, (_CHUNK, 2)),
                        first_id=number * _CHUNK,
                    )
                    time.sleep(_CHUNK_SECONDS)

            try:
                options = PackOptions({"nodes": 100, "edges": 100})
                for batch in client.pack(chunks(), options):
                    received += len(batch)
            except PackhouseError as error:
                figures.fault("broken Pack streams", f"{error.code} {error}")
                continue
            figures.count("Pack streams")
            if received != _CHUNK * _CHUNKS:
                figures.fault("graphs lost of Pack streams", f"{_CHUNK * _CHUNKS - received}")


class Job:
    """The workers of one job at one server."""

    def __init__(self, address: str, name: str, figures: Figures, stop: threading.Event) -> None:
        self._address = address
        self._name = name
        self._figures = figures
        self._stop = stop
        self._lock = threading.Lock()
        self._graphs: dict[int, set[int]] = collections.defaultdict(set)
        self._barrier = threading.Barrier(2)
        self._goes_on = True
        self.gaps: list[tuple[float, float]] = []

    def work(self, worker: int) -> None:
        """One worker: epoch by epoch, with the other."""
        try:
            self._load(worker)
        except BaseException:
            # The other would wait for ever.
            self._barrier.abort()
            raise

    def _load(self, worker: int) -> None:
        with Loader(
            self._address,
            dataset=_DATASET,
            job=self._name,
            limits={"nodes": 120, "edges": 120, "graphs": 8},
            padding=Padding.GRAPH,
            worker=f"w{worker}",
        ) as loader:
            for epoch in itertools.count():
                loader.set_epoch(epoch)
                last = time.monotonic()
                for batch in loader:
                    now = time.monotonic()
                    with self._lock:
                        self.gaps.append((last, now))
                        self._graphs[epoch].update(map(int, batch.graph_ids))
                    self._figures.count("batches loaded")
                    time.sleep(_STEP_SECONDS)
                    last = time.monotonic()
                # A worker that finds an epoch at its end has waited for the other.
                if self._barrier.wait() == 0:
                    if len(self._graphs[epoch]) != _GRAPHS:
                        self._figures.fault(
                            "epochs not whole", f"{len(self._graphs[epoch])} of {_GRAPHS} graphs"
                        )
                    self._figures.count("epochs")
                    self._goes_on = not self._stop.is_set()
                self._barrier.wait()
                goes_on = self._goes_on
                self._barrier.wait()
                if not goes_on:
                    return

    def longest_gap(self, restarts: list[Away]) -> tuple[float, float]:
        """The longest wait for a batch, and the longest beyond the time that the server was away."""
        longest = beyond = 0.0
        for begun, ended in self.gaps:
            longest = max(longest, ended - begun)
            away = sum(
                max(0.0, min(ended, restart.back) - max(begun, restart.left))
                for restart in restarts
            )
            beyond = max(beyond, ended - begun - away)
        return longest, beyond


def guarded(figures: Figures, work: Callable[[], None]) -> Callable[[], None]:
    """No client may die unseen."""

    def run() -> None:
        try:
            work()
        except Exception as error:  # pylint: disable=broad-exception-caught
            figures.fault("clients that gave up", f"{type(error).__name__}: {error}")

    return run


def soak(options: argparse.Namespace, folder: str) -> int:
    """Exit status 0 if every figure is within its bound."""
    figures = Figures()
    stop = threading.Event()
    servers = [Server(options, os.path.join(folder, name)) for name in ("a", "b")]
    sizes = np.random.default_rng(1).integers(1, 40, (_GRAPHS, 2))
    for server in servers:
        with Client(server.address) as client:
            client.datasets.create(_DATASET, _SCHEMA)
            client.datasets.append(_DATASET, [GraphTable(_SCHEMA, sizes)])
            client.datasets.seal(_DATASET)
    proxy = Proxy(servers)
    jobs = [Job(proxy.address(1 + i), f"job-{i}", figures, stop) for i in range(2)]
    work: list[Callable[[], None]] = []
    for number in range(4):
        work.append(lambda number=number: call(proxy.address(0), number, figures, stop))
    for number in range(2):
        work.append(lambda number=number: pack(proxy.address(0), number, figures, stop))
    for job in jobs:
        for worker in range(2):
            work.append(lambda job=job, worker=worker: job.work(worker))
    threads = [threading.Thread(target=guarded(figures, one), daemon=True) for one in work]
    for thread in threads:
        thread.start()

    begun = time.monotonic()
    for turn in itertools.count():
        next_restart = begun + (turn + 1) * options.interval
        if next_restart > begun + options.seconds:
            break
        time.sleep(max(0.0, next_restart - time.monotonic()))
        servers[turn % 2].restart()
    time.sleep(max(0.0, begun + options.seconds - time.monotonic()))
    stop.set()
    for thread in threads:
        thread.join(60)
        if thread.is_alive():
            figures.fault("clients that gave up", "one does not end")
    for server in servers:
        server.kill()

    return report(options, servers, jobs, proxy, figures)


def report(
    options: argparse.Namespace,
    servers: list[Server],
    jobs: list[Job],
    proxy: Proxy,
    figures: Figures,
) -> int:
    """Prints what was seen. Exit status as of soak()."""
    restarts = [restart for server in servers for restart in server.restarts]
    waits = [job.longest_gap(server.restarts) for job, server in zip(jobs, servers, strict=True)]
    away = max((restart.back - restart.left for restart in restarts), default=0.0)
    print(
        f"{len(restarts)} restarts, lame duck {options.lame_duck:g} s; slowest end "
        f"{max(server.slowest_end for server in servers):.2f} s, longest away {away:.2f} s; "
        f"{proxy.connections} connections"
    )
    if options.update_to is not None:
        turns = [pair for server in servers for pair in itertools.pairwise(server.commits)]
        print(f"{sum(one != other for one, other in turns)} changes of the version: "
              f"{', '.join(sorted(set(itertools.chain(*turns))))}")
    counts = figures.counts
    print(
        f"{counts['unary calls']} unary calls, the slowest "
        f"{1000 * figures.longest['unary call']:.0f} ms; {counts['Pack streams']} Pack streams; "
        f"{counts['epochs']} epochs, {counts['batches loaded']} batches; longest wait for a batch "
        f"{max(wait for wait, _ in waits):.2f} s"
    )
    rows = [
        *((name, float(counts[name]), 0.0) for name in (
            "failed unary calls", "broken Pack streams", "graphs lost of Pack streams",
            "epochs not whole", "clients that gave up")),
        ("longest wait beyond the restart, s", max(beyond for _, beyond in waits),
         _MOST_GAP_SECONDS),
    ]
    print(f"{'':<38} figure  bound")
    for name, figure, bound in rows:
        print(f"{name:<38} {figure:6.4g} {bound:6.4g}  {'ok' if figure <= bound else 'NOT OK'}")
    for fault in figures.faults[:10]:
        print(f"soak: {fault}", file=sys.stderr)
    if not restarts or not counts["epochs"] or not counts["Pack streams"]:
        print("soak: too short to say anything", file=sys.stderr)
        return 1
    return 0 if all(figure <= bound for _, figure, bound in rows) else 1


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packhoused", default=os.environ.get("PACKHOUSED"))
    parser.add_argument("--update-to", help="the program of another version")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--interval", type=float, default=5, help="seconds between two restarts")
    parser.add_argument("--lame-duck", type=float, default=1, help="of the servers, seconds")
    return parser.parse_args(arguments)


def main() -> int:
    """The whole soak."""
    options = parse()
    options.packhoused = options.packhoused or shutil.which("packhoused")
    if options.packhoused is None:
        print("drain_soak: --packhoused is missing", file=sys.stderr)
        return 2
    json.loads(_CONFIG.read_text(encoding="ascii"))
    with tempfile.TemporaryDirectory() as folder:
        return soak(options, folder)


if __name__ == "__main__":
    sys.exit(main())
