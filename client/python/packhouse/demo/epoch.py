"""The demo's epoch: a data set, two ranked workers, one of which is killed and comes back."""

from __future__ import annotations

import dataclasses
import os
import selectors
import subprocess
import sys
import time
from typing import Final, Mapping, Sequence

import grpc

from packhouse.base.errors import PackhouseError
from packhouse.client.facade import Client
from packhouse.data.batch import Padding
from packhouse.data.graphs import GraphTable
from packhouse.epochs.loader import Loader
from packhouse.planning.pack_options import OversizePolicy

DATASET: Final = "demo"
JOB: Final = "demo"
_SEED: Final = 1
_NUM_RANKS: Final = 2
# The rank that is killed, and after which share of its steps.
_VICTIM: Final = 1
_KILLED_AFTER: Final = 1 / 3


@dataclasses.dataclass
class Arrivals:
    """What one rank received: graph ids by batch; a batch that came again counts once."""

    steps: int = 0
    batches: dict[int, list[int]] = dataclasses.field(default_factory=dict)
    redelivered: int = 0
    kills: int = 0


@dataclasses.dataclass
class LoadedEpoch:
    """The epoch's description, and who received what."""

    num_graphs: int
    num_rejected: int  # Too large for the limits.
    num_batches: int
    lower_bound: int
    efficiency: dict[str, float]
    ingest_seconds: float
    load_seconds: float
    ranks: list[Arrivals]
    num_done: int  # As the server's ledger has it.

    def times_received(self, table: GraphTable) -> dict[int, int]:
        """How often each graph of the table arrived."""
        times = dict.fromkeys(map(int, table.graph_ids), 0)
        for rank in self.ranks:
            for ids in rank.batches.values():
                for graph_id in ids:
                    times[graph_id] = times.get(graph_id, 0) + 1
        return times


def load_epoch(
    client: Client, address: str, table: GraphTable, limits: Mapping[str, int]
) -> LoadedEpoch:
    """Stores the graphs, seals them, and loads an epoch by two processes."""
    forget(client)
    started = time.perf_counter()
    client.datasets.create(DATASET, table.schema)
    client.datasets.append(DATASET, [table])
    client.datasets.seal(DATASET)
    ingested = time.perf_counter()
    with _loader(address, 0, limits) as loader:
        before = loader.epoch_info()
        steps = len(loader)
    ranks = _run_workers(address, limits, int(steps * _KILLED_AFTER))
    loaded = time.perf_counter()
    with _loader(address, 0, limits) as loader:
        after = loader.epoch_info()
    return LoadedEpoch(
        num_graphs=before.num_graphs,
        num_rejected=before.num_rejected,
        num_batches=before.num_batches,
        lower_bound=before.lower_bound,
        efficiency=before.efficiency,
        ingest_seconds=ingested - started,
        load_seconds=loaded - ingested,
        ranks=ranks,
        num_done=after.num_done,
    )


def forget(client: Client) -> None:
    """Deletes what the demo stores on the server."""
    for delete, name in ((client.jobs.delete, JOB), (client.datasets.delete, DATASET)):
        try:
            delete(name)
        except PackhouseError as error:
            if error.code is not grpc.StatusCode.NOT_FOUND:
                raise


def _loader(address: str, rank: int, limits: Mapping[str, int]) -> Loader:
    return Loader(
        address,
        dataset=DATASET,
        job=JOB,
        seed=_SEED,
        limits=limits,
        padding=Padding.GRAPH,
        # The parent counts them.
        oversize=OversizePolicy.REJECT,
        rank=rank,
        num_ranks=_NUM_RANKS,
        max_in_flight=8,
        # Killed after its last step, a worker comes back to an epoch that is finished.
        on_existing="resume",
    )


def _run_workers(address: str, limits: Mapping[str, int], killed_after: int) -> list[Arrivals]:
    arrivals = [Arrivals() for _ in range(_NUM_RANKS)]
    heard = [b""] * _NUM_RANKS
    with selectors.DefaultSelector() as selector:

        def start(rank: int) -> subprocess.Popen[bytes]:
            capacities = [f"{name}={rows}" for name, rows in limits.items()]
            process = subprocess.Popen(
                [sys.executable, "-m", "packhouse.demo.epoch", address, str(rank), *capacities],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
            )
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ, rank)
            return process

        running = {rank: start(rank) for rank in range(_NUM_RANKS)}
        while running:
            for key, _ in selector.select():
                rank: int = key.data
                own = arrivals[rank]
                received = os.read(key.fd, 1 << 16)
                *lines, heard[rank] = (heard[rank] + received).split(b"\n")
                for line in lines:
                    number, *ids = map(int, line.split())
                    own.redelivered += number in own.batches
                    own.batches[number] = ids
                if rank == _VICTIM and not own.kills and len(own.batches) > killed_after:
                    running[rank].kill()
                    own.kills += 1
                if received:
                    continue
                stream = running[rank].stdout
                assert stream is not None
                selector.unregister(stream)
                stream.close()
                status = running.pop(rank).wait()
                heard[rank] = b""
                if status < 0:
                    running[rank] = start(rank)
                elif status > 0:
                    raise RuntimeError(f"worker of rank {rank} ended with status {status}")
    for own in arrivals:
        own.steps = len(own.batches)
    return arrivals


def main(arguments: Sequence[str]) -> int:
    """A worker: ADDRESS RANK COMPONENT=ROWS... Says what it received, then acknowledges it."""
    address, rank, *capacities = arguments
    limits = {name: int(rows) for name, rows in (pair.split("=") for pair in capacities)}
    with _loader(address, int(rank), limits) as loader:
        for batch in loader:
            line = " ".join(map(str, [batch.number, *batch.graph_ids.tolist()]))
            os.write(sys.stdout.fileno(), f"{line}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
