"""How fast the Python client reads batches, and with how much CPU, beside what grpcio alone can do.

Readers take turns, each a process of its own, on streams of one server each over loopback TCP:

- `raw`: the stream of a data set, read with grpcio alone: nothing is parsed, what comes is bytes;
  acknowledged, as it must be;
- `loader`: packhouse.Loader on the same stream, every tensor of every batch looked at as a numpy
  array; `loader, in Python`: without the native reader; `loader, writable`: with arrays of its own;
  `loader, by lane`: through memory that the server shares, where the others have lane="off";
- `pyg`, `jraph`, `torch`: that loader, and each batch made a `torch_geometric.data.Batch` (of
  writable arrays), a padded `jraph.GraphsTuple`, or tensors; left out where there is no such framework;
- `ceiling`: opaque bytes of the same size from `packhouse-bench ceiling`;
- with --settings, variants of these: each without one of the settings that the others have.

The time is that from an epoch's first batch to its last one. `thread` is the CPU of the thread that
reads, without that of acknowledgements; the goal is at most 12 us for `loader, by lane`. `CPU of raw` is the median ratio of a
turn: the client CPU of a batch beside that of the same batch as opaque bytes; the goal is at most 1.3
for `loader` and 1.6 for `pyg` and `jraph`, and 1.3 for these by lane. `make bench-readers` runs it with both frameworks. By hand,
after `make build`:

    PYTHONPATH=build/release/python python3 tests/benchmarks/python_client.py \\
        --packhoused build/release/service/packhoused --bench build/release/client/bench/packhouse-bench \\
        --data ../shared/data/graphs/molhiv.npz --json python-client.json

Without --data: the syntax trees of this machine's Python library. A gigabyte of graphs is written
to the folder for temporary files (--copies).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import itertools
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Final, Iterator, Sequence

import grpc
import grpc.experimental
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

import packhouse.jraph
import packhouse.pyg
from packhouse import (
    Batch,
    DerivedTensor,
    GraphTable,
    Loader,
    LocalServer,
    Padding,
    tune_process_for_batches,
)
from packhouse.client.facade import MAX_MESSAGE_BYTES
from packhouse.v1 import loader_pb2, loader_pb2_grpc

_SEED: Final = 1
_IN_FLIGHT: Final = 1024
_BATCHES_PER_ACKNOWLEDGEMENT: Final = 64
_DERIVED: Final = (DerivedTensor.GRAPH_INDEX, DerivedTensor.MASKS)

_Limits = dict[str, int]


@dataclasses.dataclass(frozen=True)
class Reader:
    """A row of the table."""

    name: str
    # The native reader, where it was built.
    is_native: bool = True
    # Batches of arrays of their own.
    is_writable: bool = False
    # Through memory that the server shares.
    has_lane: bool = False
    # GRPC_EXPERIMENTS=-tcp_read_chunks, as importing packhouse.calls.channel sets it.
    reads_whole: bool = True
    # packhouse.tune_process_for_batches.
    keeps_memory: bool = True
    # SingleThreadedUnaryStream, as packhouse.Loader sets it.
    is_single_threaded: bool = True


READERS: Final = (
    Reader("raw"),
    Reader("loader"),
    Reader("loader", is_native=False),
    Reader("loader", is_writable=True),
    Reader("loader", has_lane=True),
    Reader("loader", is_native=False, has_lane=True),
    Reader("pyg"),
    Reader("pyg", is_writable=True),
    Reader("pyg", has_lane=True),
    Reader("jraph"),
    Reader("jraph", has_lane=True),
    Reader("torch", has_lane=True),
    Reader("ceiling"),
)
SETTINGS: Final = (
    *(Reader(name, reads_whole=False) for name in ("loader", "ceiling")),
    *(Reader(name, keeps_memory=False) for name in ("loader", "ceiling")),
    Reader("ceiling", is_single_threaded=False),
)


def title_of(reader: Reader) -> str:
    """As it is called in the table."""
    words = [reader.name]
    if not reader.is_native:
        words.append("in Python")
    if reader.is_writable:
        words.append("writable")
    if reader.has_lane:
        words.append("by lane")
    if not reader.reads_whole:
        words.append("tcp_read_chunks left on")
    if not reader.keeps_memory:
        words.append("malloc as it is")
    if not reader.is_single_threaded:
        words.append("not single-threaded")
    return ", ".join(words)


def channel_options(reader: Reader) -> list[tuple[str, int]]:
    """As those of packhouse.epochs.loader."""
    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if reader.is_single_threaded:
        options.append((grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1))
    return options


def open_loader(
    address: str, limits: _Limits, job: str, *, writable: bool = False, has_lane: bool = False
) -> Loader:
    """An epoch in the words of all."""
    return Loader(
        address,
        dataset=DATASET,
        job=job,
        seed=_SEED,
        limits=limits,
        padding=Padding.GRAPH,
        derived=_DERIVED,
        max_in_flight=_IN_FLIGHT,
        writable=writable,
        lane="required" if has_lane else "off",
    )


def make_loader(address: str, limits: _Limits, name: str, reader: Reader) -> Runner:
    """Reads with packhouse, and makes of each batch what the framework wants."""
    convert = _conversion_to(reader.name)
    if reader.keeps_memory:
        tune_process_for_batches()
    jobs = itertools.count()

    def run(seconds: float) -> Run:
        total = Run(0.0)
        while total.seconds < seconds:
            job = f"{name}/{next(jobs)}"
            with open_loader(
                address, limits, job, writable=reader.is_writable, has_lane=reader.has_lane
            ) as loader:
                next(loader)
                batches = graphs = received = 0
                thread = time.thread_time()
                started = ended = time.perf_counter()
                for batch in loader:
                    batches += 1
                    graphs += len(batch)
                    for array in batch.tensors.values():
                        received += array.nbytes
                    convert(batch)
                    ended = time.perf_counter()
                thread = time.thread_time() - thread
            total = _sum(total, ended - started, batches, graphs, received, thread)
        return total

    return run


def _conversion_to(name: str) -> Callable[[Batch], object]:
    """Raises ImportError without the framework."""
    if name == "pyg":
        import torch
        import torch_geometric  # noqa: F401

        # One core is the reader's; the conversion is too small for more.
        torch.set_num_threads(1)
        return packhouse.pyg.to_batch
    if name == "jraph":
        import jraph  # noqa: F401

        return packhouse.jraph.to_graphs_tuple
    if name == "torch":
        import torch
        from packhouse.torch import to_torch

        torch.set_num_threads(1)
        return to_torch
    return len


def make_raw(address: str, limits: _Limits, name: str, reader: Reader) -> Runner:
    """Reads the same as bytes. Acknowledges by what is known from a first reading with packhouse:
    epochs of equal words are equal."""
    if reader.keeps_memory:
        tune_process_for_batches()
    with open_loader(address, limits, f"{name}/first") as loader:
        # Every batch's number, graphs, and bytes of tensors, which is what the loader counts too.
        known = [
            (batch.number, len(batch), sum(array.nbytes for array in batch.tensors.values()))
            for batch in loader
        ]
        request = loader._load_request()
    numbers = [number for number, _, _ in known]
    graphs = sum(each for _, each, _ in known[1:])
    received = sum(each for _, _, each in known[1:])
    jobs = itertools.count()
    acknowledging = concurrent.futures.ThreadPoolExecutor(1)
    calls = loader_pb2_grpc.LoaderServiceStub(grpc.insecure_channel(address))

    def run(seconds: float) -> Run:
        total = Run(0.0)
        while total.seconds < seconds:
            job = f"{name}/{next(jobs)}"
            request.epoch.job = job
            request.ClearField("cursor")
            request.ClearField("generation")
            with grpc.insecure_channel(address, options=channel_options(reader)) as channel:
                load = channel.unary_stream(
                    "/packhouse.v1.LoaderService/Load",
                    request_serializer=loader_pb2.LoadRequest.SerializeToString,
                )(request)
                opened = loader_pb2.LoadResponse.FromString(next(load)).opened
                step = 0
                answers = []
                started = ended = time.perf_counter()
                for _ in load:
                    step += 1
                    if step == 1:
                        started = time.perf_counter()
                    if step == len(numbers):
                        ended = time.perf_counter()
                    if step % _BATCHES_PER_ACKNOWLEDGEMENT == 0 or step == len(numbers):
                        first = (step - 1) // _BATCHES_PER_ACKNOWLEDGEMENT
                        acknowledgement = loader_pb2.AcknowledgeRequest(
                            job=job,
                            generation=opened.generation,
                            session=opened.session,
                            batches=numbers[first * _BATCHES_PER_ACKNOWLEDGEMENT : step],
                        )
                        answers.append(acknowledging.submit(calls.Acknowledge, acknowledgement))
                for answer in answers:
                    answer.result()
            total = _sum(total, ended - started, len(numbers) - 1, graphs, received)
        return total

    return run


def make_ceiling(address: str, message_bytes: int, reader: Reader) -> Runner:
    """Reads opaque bytes."""
    if reader.keeps_memory:
        tune_process_for_batches()

    def run(seconds: float) -> Run:
        with grpc.insecure_channel(address, options=channel_options(reader)) as channel:
            # As client/bench/bench_ceiling.h: so many bytes each, without end.
            answers = channel.unary_stream("/packhouse.bench.Ceiling/Stream")(
                struct.pack("<QQ", message_bytes, 0)
            )
            next(answers)
            batches = 0
            started = ended = time.perf_counter()
            while ended - started < seconds:
                next(answers)
                batches += 1
                ended = time.perf_counter()
            answers.cancel()
        return _sum(Run(0.0), ended - started, batches, 0, batches * message_bytes)

    return run


def _sum(
    total: Run, seconds: float, batches: int, graphs: int, received: int, thread: float = 0.0
) -> Run:
    return dataclasses.replace(
        total,
        seconds=total.seconds + seconds,
        batches=total.batches + batches,
        graphs=total.graphs + graphs,
        bytes=total.bytes + received,
        thread=total.thread + thread,
    )


@contextlib.contextmanager
def ceiling_server(bench: str, congestion: str) -> Iterator[tuple[str, int]]:
    """`packhouse-bench ceiling`: its address and process."""
    congestion_flag = ["--tcp-congestion", congestion] if congestion else []
    process = subprocess.Popen(
        [bench, "ceiling", *congestion_flag], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = re.match(r'\{"event":"listening","grpc":"([^"]+)"', line)
        if ready is None:
            raise RuntimeError(f"{bench} ceiling did not get ready: it said {line!r}")
        yield ready.group(1), process.pid
    finally:
        process.kill()
        process.communicate()


def message_bytes_of(address: str, limits: _Limits) -> int:
    """Of one batch's message, much the same for all."""
    with Loader(
        address,
        dataset=DATASET,
        job=f"size/{limits}".translate({ord(c): "_" for c in "{}': ,"}),
        limits=limits,
        padding=Padding.GRAPH,
        derived=_DERIVED,
    ) as loader:
        return next(loader).nbytes


def measure(options: argparse.Namespace, table: GraphTable) -> list[dict[str, Any]]:
    """One entry for each reader and size of batches."""
    figures: list[dict[str, Any]] = []
    readers = [
        reader
        for reader in (*READERS, *(SETTINGS if options.settings else ()))
        if options.bench or reader.name != "ceiling"
    ]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        flags = ("--tcp-congestion", options.tcp_congestion) if options.tcp_congestion else ()
        server = stack.enter_context(
            LocalServer(
                options.packhoused,
                data_dir=folder,
                arguments=(*flags, "--log-level", "error", "--lane", f"unix:{folder}/lane"),
            )
        )
        ceiling = ("", 0)
        if options.bench:
            ceiling = stack.enter_context(ceiling_server(options.bench, options.tcp_congestion))
        store(server.address, table, options.copies)
        row_bytes = table.nbytes / len(table)
        for kib in options.kib:
            limits = limits_for(table, kib * 1024 / row_bytes)
            size = message_bytes_of(server.address, limits)
            # Derived tensors and padding take their part.
            limits = limits_for(table, kib * 1024 / row_bytes * kib * 1024 / size)
            size = message_bytes_of(server.address, limits)
            figures += _take_turns(options, readers, server, ceiling, limits, size)
    return figures


def _take_turns(
    options: argparse.Namespace,
    readers: Sequence[Reader],
    server: LocalServer,
    ceiling: tuple[str, int],
    limits: _Limits,
    size: int,
) -> list[dict[str, Any]]:
    readers = list(readers)
    with contextlib.ExitStack() as stack:
        contestants = []
        present = []
        for number, reader in enumerate(readers):
            # Unset, packhouse sets it.
            environment = {
                "GRPC_EXPERIMENTS": None if reader.reads_whole else "tcp_read_chunks",
                "PACKHOUSE_NATIVE": "1" if reader.is_native else "0",
            }
            if reader.name == "ceiling":
                contestant = Contestant(
                    make_ceiling, ceiling[0], size, reader, environment=environment
                )
            else:
                contestant = Contestant(
                    make_raw if reader.name == "raw" else make_loader,
                    *(server.address, limits, f"{size}/{number}", reader),
                    environment=environment,
                )
            stack.enter_context(contestant)
            if contestant.missing:
                print(f"{title_of(reader)}: left out: {contestant.missing}", file=sys.stderr)
            else:
                contestants.append(contestant)
                present.append(reader)
        readers = present
        runs: list[list[Run]] = [[] for _ in readers]
        server_cpu = [0.0] * len(readers)
        for turn in range(options.runs + 1):
            for number, contestant in enumerate(contestants):
                pid = ceiling[1] if readers[number].name == "ceiling" else server.pid
                before = cpu_seconds_of(pid)
                run = contestant.run(options.seconds)
                # The first turn warms up.
                if turn > 0:
                    runs[number].append(run)
                    server_cpu[number] += cpu_seconds_of(pid) - before
    figures = []
    of_raw_reader = runs[[r.name for r in readers].index("raw")]
    for number, reader in enumerate(readers):
        turns = list(zip(runs[number], of_raw_reader))
        of_raw = [
            mine.bytes / mine.seconds / (raw.bytes / raw.seconds) for mine, raw in turns
        ]
        cpu_of_raw = [mine.cpu / mine.batches / (raw.cpu / raw.batches) for mine, raw in turns]
        sum_bytes = sum(run.bytes for run in runs[number])
        figures.append(
            {
                "reader": title_of(reader),
                "message_bytes": size,
                "messages_per_second": [run.batches / run.seconds for run in runs[number]],
                "gb_per_second": [run.bytes / run.seconds / 1e9 for run in runs[number]],
                "of_raw": of_raw,
                "client_cpu_of_raw": cpu_of_raw,
                "client_cpu_seconds_per_gb": sum(run.cpu for run in runs[number])
                / (sum_bytes / 1e9),
                "client_cpu_microseconds_per_message": 1e6
                * sum(run.cpu for run in runs[number])
                / sum(run.batches for run in runs[number]),
                "thread_microseconds_per_message": 1e6
                * sum(run.thread for run in runs[number])
                / sum(run.batches for run in runs[number]),
                "server_cpu_seconds_per_gb": server_cpu[number] / (sum_bytes / 1e9),
            }
        )
    return figures


def describe(figures: Sequence[dict[str, Any]]) -> str:
    """The table."""
    rows = []
    for entry in figures:
        rows.append(
            [
                entry["reader"],
                f"{entry['message_bytes'] / 1024:.0f} KiB",
                Spread.of(entry["gb_per_second"]).show(2),
                Spread.of([each / 1000 for each in entry["messages_per_second"]]).show(1),
                Spread.of([100 * each for each in entry["of_raw"]]).show(),
                f"{entry['client_cpu_microseconds_per_message']:.1f}",
                f"{entry['thread_microseconds_per_message']:.1f}",
                Spread.of(entry["client_cpu_of_raw"]).show(2),
                f"{entry['client_cpu_seconds_per_gb']:.2f} / "
                f"{entry['server_cpu_seconds_per_gb']:.2f}",
            ]
        )
    return markdown(
        [
            "reader",
            "batch",
            "GB/s",
            "thousand batches/s",
            "% of raw",
            "client CPU us/batch",
            "thread",
            "CPU of raw",
            "CPU s/GB client / server",
        ],
        rows,
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = benchmark_parser(__doc__, seconds=0.5)
    parser.add_argument("--copies", type=int, default=20, help="of each graph in the data set")
    parser.add_argument("--kib", type=int, nargs="+", default=[16, 256, 1024], help="of a batch")
    parser.add_argument("--settings", action="store_true", help="each one left out, too")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    options = parse(arguments)
    pin(2)
    table, title = load_graphs(options.data, options.graphs)
    figures = measure(options, table)
    publish(options, title, describe(figures), readers=figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
