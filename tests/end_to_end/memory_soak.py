"""Slow readers: the server's memory stays under its budget, and does not creep.

    PYTHONPATH=build/release/python python3 tests/end_to_end/memory_soak.py \
        --packhoused build/release/service/packhoused [--minutes 10] [--streams 64] [--budget 1024]

A server for each size of batches, with so many `Load` streams and as many `Pack` streams, every one
on a connection of its own. A quarter of them never read until the end; the others read one batch a
round. A fast reader of each kind reads many batches a round. All of them get theirs to the end: no
stream is ended to make room.

What is measured is RssAnon: pages of the data set that are mapped from the disk (RssFile) go when
others need the room. Exit status 1 if it was ever above the budget and a tenth, or more in the last
third of the rounds than in the first and a twentieth of the budget.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import os
import pathlib
import re
import sys
import tempfile
import threading
import time
from typing import Any, Final, Iterator, Sequence

import grpc
import numpy as np
from server_process import ServerProcess

from packhouse import Client, DType, GraphSchema, GraphTable, TensorSpec
from packhouse.v1 import (
    batch_pb2,
    graphs_pb2,
    loader_pb2,
    loader_pb2_grpc,
    packing_pb2,
    packing_pb2_grpc,
    sizes_pb2,
)

KIB: Final = 1 << 10
MIB: Final = 1 << 20
_DATASET: Final = "soak"
_ROW_BYTES: Final = 16 * KIB
_NUM_GRAPHS: Final = 4096
_CHUNK_GRAPHS: Final = 16
_SCHEMA: Final = GraphSchema((), (TensorSpec("x", DType.UINT8, "graphs", (_ROW_BYTES,)),))
# The number of readers that read slowly, of every four.
_SLOW_OF_FOUR: Final = 3
_ACKNOWLEDGE_AT: Final = 16
_SAMPLE_SECONDS: Final = 0.1
ALLOWED: Final = 1.1
CREEP: Final = 0.05


def open_channel(address: str, number: int) -> grpc.Channel:
    """A connection of its own."""
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
        ("packhouse.number", number),
    ]
    return grpc.insecure_channel(address, options=options)


def limits_of(graphs: int) -> batch_pb2.Limits:
    """So many graphs, which all are of one size."""
    return batch_pb2.Limits(capacities=[batch_pb2.Capacity(component="graphs", rows=graphs)])


class PackReader:
    """A `Pack` stream whose graphs never end."""

    def __init__(self, address: str, number: int, batch_bytes: int) -> None:
        self._graphs = batch_bytes // _ROW_BYTES
        self._channel = open_channel(address, number)
        self._call = packing_pb2_grpc.PackingServiceStub(self._channel).Pack(self._requests())

    def _requests(self) -> Iterator[packing_pb2.PackRequest]:
        yield packing_pb2.PackRequest(
            open=packing_pb2.PackOpen(
                schema=_SCHEMA.to_proto(), limits=limits_of(self._graphs), look_ahead=64
            )
        )
        rows = bytes(_ROW_BYTES * _CHUNK_GRAPHS)
        for chunk in itertools.count():
            yield packing_pb2.PackRequest(
                graphs=graphs_pb2.GraphChunk(
                    sizes=sizes_pb2.SizeTable(
                        num_graphs=_CHUNK_GRAPHS, first_id=chunk * _CHUNK_GRAPHS
                    ),
                    tensors=[graphs_pb2.TensorData(name="x", data=rows)],
                )
            )

    def read(self) -> None:
        """Takes one response."""
        next(self._call)

    def close(self) -> None:
        self._call.cancel()
        self._channel.close()


class LoadReader:
    """A `Load` stream of a job of its own, epoch after epoch."""

    def __init__(self, address: str, number: int, batch_bytes: int) -> None:
        self._channel = open_channel(address, number)
        self._stub = loader_pb2_grpc.LoaderServiceStub(self._channel)
        self._spec = loader_pb2.EpochSpec(
            dataset=_DATASET,
            job=f"reader-{number}",
            rank_groups=[loader_pb2.RankGroup(shapes=[limits_of(batch_bytes // _ROW_BYTES)])],
        )
        self._call: Any = None
        self._opened: Any = None
        self._unacknowledged: list[int] = []

    def read(self) -> None:
        """Takes one response."""
        if self._call is None:
            request = loader_pb2.LoadRequest(
                epoch=self._spec,
                ranked=loader_pb2.Ranked(rank=0, num_ranks=1),
                max_in_flight=1024,
            )
            self._call = self._stub.Load(request)
        response = next(self._call)
        if response.HasField("opened"):
            self._opened = response.opened
        elif response.HasField("batch"):
            self._unacknowledged.append(response.batch.batch.id)
            self._opened.num_steps_done += 1
        ended = self._opened.num_steps_done == self._opened.num_steps
        if len(self._unacknowledged) >= _ACKNOWLEDGE_AT or ended:
            self._acknowledge()
        if ended:
            self._call.cancel()
            self._call = None
            self._spec.epoch += 1

    def _acknowledge(self) -> None:
        self._stub.Acknowledge(
            loader_pb2.AcknowledgeRequest(
                job=self._spec.job,
                epoch=self._spec.epoch,
                generation=self._opened.generation,
                session=self._opened.session,
                batches=self._unacknowledged,
            )
        )
        self._unacknowledged.clear()

    def close(self) -> None:
        if self._call is not None:
            self._call.cancel()
        self._channel.close()


Reader = PackReader | LoadReader


def resident_bytes(pid: int) -> tuple[int, int]:
    """Memory of a process: its own, and that of files."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    anonymous = re.search(r"RssAnon:\s+(\d+) kB", status)
    of_files = re.search(r"RssFile:\s+(\d+) kB", status)
    assert anonymous is not None and of_files is not None
    return int(anonymous.group(1)) * KIB, int(of_files.group(1)) * KIB


class PeakMemory:
    """The most memory of a process since the last `take`, sampled by a thread of its own."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = (0, 0)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            self._note()

    def _note(self) -> None:
        now = resident_bytes(self._pid)
        with self._lock:
            self._peak = (max(self._peak[0], now[0]), max(self._peak[1], now[1]))

    def take(self) -> tuple[int, int]:
        self._note()
        with self._lock:
            peak, self._peak = self._peak, (0, 0)
        return peak

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


@dataclasses.dataclass
class Memory:
    """What a server had while its readers were slow."""

    batch_bytes: int
    idle: int
    # The peak of each round.
    anonymous: list[int] = dataclasses.field(default_factory=list)
    of_files: int = 0
    fast_batches: int = 0

    def thirds(self) -> tuple[int, int]:
        """The peaks of the first and the last third of the rounds."""
        third = max(1, len(self.anonymous) // 3)
        return max(self.anonymous[:third]), max(self.anonymous[-third:])

    def faults(self, budget: int) -> list[str]:
        """What breaks the laws."""
        faults = []
        peak = max(self.anonymous)
        if peak > budget * ALLOWED:
            faults.append(f"{peak:,} bytes, of {budget:,} and a tenth")
        first, last = self.thirds()
        if last > first + budget * CREEP:
            faults.append(f"{first:,} bytes in the first third, {last:,} in the last")
        return [f"batches of {self.batch_bytes:,} bytes: {fault}" for fault in faults]


def store_graphs(address: str) -> None:
    """Makes and seals the data set."""
    rows = np.zeros((256, _ROW_BYTES), np.uint8)
    sizes = np.zeros((len(rows), 0), np.uint32)
    with Client(address) as client:
        client.datasets.create(_DATASET, _SCHEMA)
        tables = (
            GraphTable(_SCHEMA, sizes, {"x": rows}, first_id=first)
            for first in range(0, _NUM_GRAPHS, len(rows))
        )
        client.datasets.append(_DATASET, tables)
        client.datasets.seal(_DATASET)


def soak(
    batch_bytes: int, streams: int, rounds: int, round_seconds: float, arguments: Sequence[str]
) -> Memory:
    """Slow readers of one server, for so many rounds that take at least so long each."""
    fast_reads = max(16, 4 * MIB // batch_bytes)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        server = stack.enter_context(ServerProcess("--data-dir", folder, *arguments))
        store_graphs(server.address)
        peak = PeakMemory(server.process.pid)
        stack.callback(peak.close)
        memory = Memory(batch_bytes, peak.take()[0])

        def open_reader(kind: type[PackReader] | type[LoadReader], number: int) -> Reader:
            reader = kind(server.address, number, batch_bytes)
            stack.callback(reader.close)
            reader.read()
            return reader

        kinds = (LoadReader, PackReader)
        readers = [open_reader(kind, number) for number in range(streams) for kind in kinds]
        fast = [open_reader(kind, streams) for kind in kinds]
        slow = [reader for i, reader in enumerate(readers) if i // 2 % 4 < _SLOW_OF_FOUR]
        for _ in range(rounds):
            end = time.monotonic() + round_seconds
            for reader in slow:
                reader.read()
            for reader, _ in itertools.product(fast, range(fast_reads)):
                reader.read()
                memory.fast_batches += 1
            time.sleep(max(0.0, end - time.monotonic()))
            anonymous, of_files = peak.take()
            memory.anonymous.append(anonymous)
            memory.of_files = max(memory.of_files, of_files)
        for reader in readers:
            reader.read()
    return memory


def run(options: argparse.Namespace) -> int:
    """The soak; exit status 0 if no law was broken."""
    if options.packhoused:
        os.environ["PACKHOUSED"] = options.packhoused
    budget = options.budget * MIB
    arguments = ("--memory-budget", str(budget), *options.server_flags.split())
    rounds = max(6, round(options.minutes * 60 / options.round_seconds / len(options.batch_kib)))
    faults = []
    for batch_kib in options.batch_kib:
        memory = soak(batch_kib * KIB, options.streams, rounds, options.round_seconds, arguments)
        first, last = memory.thirds()
        print(
            f"2 x {options.streams} slow streams, batches of {batch_kib:,} KiB, {rounds} rounds: "
            f"idle {memory.idle >> 20} MiB, peak {max(memory.anonymous) >> 20} MiB, first third "
            f"{first >> 20} MiB, last third {last >> 20} MiB; budget {options.budget:,} MiB; of "
            f"files {memory.of_files >> 20} MiB; fast readers got {memory.fast_batches:,} batches",
            flush=True,
        )
        faults += memory.faults(budget)
    for fault in faults:
        print(f"memory soak: {fault}", file=sys.stderr)
    return 1 if faults else 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packhoused", help="default: $PACKHOUSED")
    parser.add_argument("--minutes", type=float, default=10, help="of all servers together")
    parser.add_argument("--streams", type=int, default=64, help="of each kind")
    parser.add_argument("--round-seconds", type=float, default=1)
    parser.add_argument("--batch-kib", type=int, nargs="+", default=[16, 256, 1024])
    parser.add_argument("--budget", type=int, default=1024, help="in MiB")
    parser.add_argument("--server-flags", default="", help="more flags of packhoused")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(run(parse()))
