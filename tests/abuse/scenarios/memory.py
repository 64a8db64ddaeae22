"""Whatever clients send, the process takes what its budget says, and gives it back."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import re
import resource
import socket
import struct
import threading
import time
from typing import Callable, Final, Iterator, Sequence

import grpc
from abuse import Abuse, Row, figure, law, scenario
from hostile import (
    MemorySampler,
    address_of,
    anonymous_bytes,
    num_threads,
    STREAMS_OF_CONNECTION,
    own_channel,
    raw_unary,
)
from hostile_http2 import PREFACE, Flood, frame, headers

from packhouse.v1 import batch_pb2, dataset_pb2, graphs_pb2, histogram_pb2, packing_pb2, sizes_pb2

_MIB: Final = 1 << 20
# The law: the budget, and this part of it, and so much.
_PART: Final = 0.15
_BESIDE: Final = 128 * _MIB
# Where the process may be once all have gone, above where it was.
_LEFT: Final = 64 * _MIB
_GONE_SECONDS: Final = 30.0

_PACK: Final = "packhouse.v1.PackingService/Pack"
_REFLECTION: Final = (
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)

# One hostile client: attacks a server at an address until the event is set.
Attack = Callable[[str, threading.Event], None]


def varint(value: int) -> bytes:
    """Protobuf's."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def delimited(number: int, content: bytes) -> bytes:
    """A field of bytes, or a sub-message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def empty_elements(way: Sequence[int], size: int) -> bytes:
    """A message with `size` bytes of empty elements of the last field of `way`."""
    content = (varint(way[-1] << 3 | 2) + b"\0") * (size // 2)
    for number in reversed(way[:-1]):
        content = delimited(number, content)
    return content


# Repeated fields of requests, by their numbers from the outside to the inside.
_REPEATED: Final = (
    (_PACK, (1, 1, 2)),  # open.schema.tensors
    (_PACK, (1, 1, 1)),  # open.schema.components
    (_PACK, (2, 2)),  # graphs.tensors
    ("packhouse.v1.DatasetService/CreateDataset", (2, 2)),  # schema.tensors
    ("packhouse.v1.LoaderService/GetEpoch", (1, 5)),  # epoch.rank_groups
    ("packhouse.v1.LoaderService/Load", (1, 13, 2)),  # epoch.subset.ranges
    ("packhouse.v1.PlanningService/Plan", (11, 2)),  # warm_start.patterns
    ("packhouse.v1.PlanningService/Tune", (3, 1)),  # profile.components
)


def _send_unary_like(channel: grpc.Channel, method: str, message: bytes) -> grpc.StatusCode:
    """What comes of one message, whatever kind of call it is."""
    call = channel.stream_stream(
        f"/{method}", request_serializer=bytes, response_deserializer=bytes
    )(iter([message]), timeout=20)
    with contextlib.suppress(grpc.RpcError):
        for _ in call:
            pass
    code: grpc.StatusCode = call.code()
    return code


def send_empty_elements(size: int) -> Attack:
    """Messages of empty sub-messages, one field after the other."""

    def attack(address: str, ended: threading.Event) -> None:
        with own_channel(address, 1) as channel:
            for method, way in itertools.cycle(_REPEATED):
                if ended.is_set():
                    return
                _send_unary_like(channel, method, empty_elements(way, size))

    return attack


def send_packed_integers(size: int) -> Attack:
    """Packed integers of one byte, eight in memory."""

    def attack(address: str, ended: threading.Event) -> None:
        message = delimited(5, b"\1" * size)
        with own_channel(address, 2) as channel:
            while not ended.is_set():
                _send_unary_like(channel, "packhouse.v1.LoaderService/Acknowledge", message)

    return attack


def _open_pack(rows: int, look_ahead: int, row_bytes: int = 1) -> packing_pb2.PackRequest:
    return packing_pb2.PackRequest(
        open=packing_pb2.PackOpen(
            schema=graphs_pb2.GraphSchema(
                components=["nodes"],
                tensors=[
                    graphs_pb2.TensorSpec(
                        name="x",
                        dtype=graphs_pb2.DATA_TYPE_UINT8,
                        component="graphs",
                        row_shape=[row_bytes],
                    )
                ],
            ),
            limits=batch_pb2.Limits(
                capacities=[batch_pb2.Capacity(component="graphs", rows=rows)]
            ),
            look_ahead=look_ahead,
        )
    )


def _chunk(first_id: int, row_bytes: int = 1) -> packing_pb2.PackRequest:
    return packing_pb2.PackRequest(
        graphs=graphs_pb2.GraphChunk(
            sizes=sizes_pb2.SizeTable(num_graphs=1, counts=b"\1\0\0\0", first_id=first_id),
            tensors=[graphs_pb2.TensorData(name="x", data=bytes(row_bytes))],
        )
    )


def send_unknown_fields(size: int) -> Attack:
    """Chunks of one graph that waits, each with an unknown field of `size` bytes."""
    unknown = delimited(15, bytes(size))

    def attack(address: str, ended: threading.Event) -> None:
        with own_channel(address, 3) as channel:
            while not ended.is_set():

                def requests() -> Iterator[bytes]:
                    yield _open_pack(60_000, 16_384).SerializeToString()
                    for chunk in range(300):
                        if ended.is_set():
                            return
                        yield _chunk(chunk).SerializeToString() + unknown

                call = channel.stream_stream(
                    f"/{_PACK}", request_serializer=bytes, response_deserializer=bytes
                )(requests(), timeout=30)
                with contextlib.suppress(grpc.RpcError):
                    for _ in call:
                        pass

    return attack


def send_pending_graphs(row_bytes: int) -> Attack:
    """Graphs of many bytes that wait in streams, as many as are taken."""

    def attack(address: str, ended: threading.Event) -> None:
        with own_channel(address, 4) as channel:
            while not ended.is_set():

                def requests() -> Iterator[bytes]:
                    yield _open_pack(60_000, 16_384, row_bytes).SerializeToString()
                    for chunk in range(1_000):
                        if ended.is_set():
                            return
                        yield _chunk(chunk, row_bytes).SerializeToString()

                call = channel.stream_stream(
                    f"/{_PACK}", request_serializer=bytes, response_deserializer=bytes
                )(requests(), timeout=30)
                with contextlib.suppress(grpc.RpcError):
                    for _ in call:
                        pass

    return attack


def read_nothing(streams: int, row_bytes: int) -> Attack:
    """Streams whose batches nobody reads."""

    def attack(address: str, ended: threading.Event) -> None:
        with contextlib.ExitStack() as stack:
            for stream in range(streams):
                channel = stack.enter_context(own_channel(address, 100 + stream))

                def requests() -> Iterator[bytes]:
                    yield _open_pack(1, 1, row_bytes).SerializeToString()
                    for chunk in itertools.count():
                        if ended.is_set():
                            return
                        yield _chunk(chunk, row_bytes).SerializeToString()

                call = channel.stream_stream(
                    f"/{_PACK}", request_serializer=bytes, response_deserializer=bytes
                )(requests(), timeout=600)
                stack.callback(call.cancel)
            ended.wait()

    return attack


def observe_much(size: int) -> Attack:
    """Observes of a million sizes that never come again, and histograms of many names."""

    def attack(address: str, ended: threading.Event) -> None:
        with own_channel(address, 5) as channel:
            for name in itertools.count():
                if ended.is_set():
                    _delete_histograms(channel, name)
                    return
                first = name * 64
                counts = struct.pack(f"<{size // 4}I", *range(first, first + size // 4))
                request = histogram_pb2.ObserveRequest(
                    histogram=f"h{name}",
                    components=[f"c{k}" for k in range(16)],
                    sizes=sizes_pb2.SizeTable(num_graphs=size // 64, counts=counts),
                )
                _send_unary_like(
                    channel,
                    "packhouse.v1.HistogramService/Observe",
                    request.SerializeToString(),
                )

    return attack


def _delete_histograms(channel: grpc.Channel, count: int) -> None:
    """Those of `observe_much`: what clients have stored is not given back when they go."""
    delete = raw_unary(channel, "packhouse.v1.HistogramService/DeleteHistogram")
    for name in range(count):
        request = histogram_pb2.DeleteHistogramRequest(histogram=f"h{name}")
        with contextlib.suppress(grpc.RpcError):
            delete(request.SerializeToString(), timeout=20)


def create_datasets(prefix: str) -> Attack:
    """Data sets with schemas that are as large as they may be."""

    def attack(address: str, ended: threading.Event) -> None:
        with own_channel(address, 6) as channel:
            create = raw_unary(channel, "packhouse.v1.DatasetService/CreateDataset")
            schema = graphs_pb2.GraphSchema(
                tensors=[
                    graphs_pb2.TensorSpec(
                        name=f"{t:0>128}",
                        dtype=graphs_pb2.DATA_TYPE_FLOAT64,
                        component="nodes",
                        row_shape=[1] * 8,
                        padding_value=bytes(8),
                    )
                    for t in range(256)
                ],
                components=["nodes"],
            )
            for name in itertools.count():
                if ended.is_set():
                    return
                request = dataset_pb2.CreateDatasetRequest(name=f"{prefix}{name}", schema=schema)
                with contextlib.suppress(grpc.RpcError):
                    create(request.SerializeToString(), timeout=20)

    return attack


def list_datasets(address: str, ended: threading.Event) -> None:
    """Pages of all data sets, which answer with every schema."""
    with own_channel(address, 7) as channel:
        listed = raw_unary(channel, "packhouse.v1.DatasetService/ListDatasets")
        while not ended.is_set():
            with contextlib.suppress(grpc.RpcError):
                listed(
                    dataset_pb2.ListDatasetsRequest(page_size=1000).SerializeToString(),
                    timeout=20,
                )


def take_no_answers(calls: int, size: int) -> Attack:
    """Unary calls with answers of `size` bytes, on a connection that lets the server send none."""

    def attack(address: str, ended: threading.Event) -> None:
        tuples = struct.pack(f"<{size // 12}I", *range(size // 12))
        histogram = sizes_pb2.Histogram(
            components=["nodes"], tuples=tuples, counts=struct.pack("<Q", 1) * (size // 12)
        )
        merge = histogram_pb2.MergeHistogramRequest(histogram="large", addend=histogram)
        get = "packhouse.v1.HistogramService/GetHistogram"
        request = histogram_pb2.GetHistogramRequest(histogram="large").SerializeToString()
        message = b"\0" + struct.pack(">I", len(request)) + request
        with own_channel(address, 9) as channel:
            with contextlib.suppress(grpc.RpcError):
                raw_unary(channel, "packhouse.v1.HistogramService/MergeHistogram")(
                    merge.SerializeToString(), timeout=20
                )
        with socket.create_connection(address_of(address)) as connection:
            no_window = struct.pack(">HI", 4, 0)
            connection.sendall(PREFACE + frame(4, 0, 0, no_window))
            for call in range(calls):
                stream = 2 * call + 1
                with contextlib.suppress(OSError):
                    connection.sendall(
                        frame(1, 4, stream, headers(get)) + frame(0, 1, stream, message)
                    )
                if ended.wait(0.02):
                    return
            ended.wait()

    return attack


def send_half_messages(connections: int, announced: int) -> Attack:
    """Messages that never end, on many connections."""

    def attack(address: str, ended: threading.Event) -> None:
        start = b"\0" + struct.pack(">I", announced)
        with contextlib.ExitStack() as stack:
            halves: list[Flood] = []
            for _ in range(connections):
                with contextlib.suppress(OSError):
                    halves.append(Flood(address, _PACK, start))
                    stack.callback(halves[-1].close)
                if ended.is_set():
                    return
            while not ended.wait(0.05):
                for half in halves:
                    half.send_some()

    return attack


def reflect(streams: int) -> Attack:
    """Reflection streams that say nothing after their first request."""

    def attack(address: str, ended: threading.Event) -> None:
        with contextlib.ExitStack() as stack:
            calls = []
            for number in range(streams):
                if number % STREAMS_OF_CONNECTION == 0:
                    channel = stack.enter_context(own_channel(address, 200 + number))
                call = channel.stream_stream(
                    f"/{_REFLECTION[number % 2]}",
                    request_serializer=bytes,
                    response_deserializer=bytes,
                )(_one_request_until(ended, b"\x3a\x01*"))
                calls.append(call)
            for call in calls:
                with contextlib.suppress(grpc.RpcError):
                    next(call)
            ended.wait()
            for call in calls:
                call.cancel()

    return attack


def _one_request_until(ended: threading.Event, request: bytes) -> Iterator[bytes]:
    yield request
    ended.wait()


def run_attacks(address: str, attacks: Sequence[Attack], seconds: float) -> None:
    ended = threading.Event()
    threads = [
        threading.Thread(target=attack, args=(address, ended), daemon=True) for attack in attacks
    ]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    ended.set()
    for thread in threads:
        thread.join(60)


def with_files(wanted: int) -> int:
    """So many connections, or fewer if this process may not open so many files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return min(wanted, most // 4)


def await_return(pid: int, first: int) -> tuple[int, float]:
    """Memory once it is back, or after all the time that it has, and how long that took."""
    start = time.monotonic()
    while True:
        now, passed = anonymous_bytes(pid), time.monotonic() - start
        if now <= first + _LEFT or passed >= _GONE_SECONDS:
            return now, passed
        time.sleep(0.25)


def _data_bytes(pid: int) -> int:
    """What RLIMIT_DATA counts of a process."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmData:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) << 10


def _attacks(abuse: Abuse) -> dict[str, Sequence[Attack]]:
    if abuse.is_short:
        return {
            "all kinds at once": (
                send_empty_elements(8 * _MIB),
                send_unknown_fields(_MIB),
                send_half_messages(16, 60 * _MIB),
                reflect(32),
            )
        }
    largest = 63 * _MIB
    kinds: dict[str, Sequence[Attack]] = {
        "empty sub-messages": [send_empty_elements(largest)] * 3,
        "packed integers": [send_packed_integers(largest)] * 3,
        "unknown fields": [send_unknown_fields(4 * _MIB)] * 3,
        "pending graphs": [send_pending_graphs(_MIB)] * 2 + [send_pending_graphs(15 * _MIB)] * 2,
        "half-sent messages": [send_half_messages(with_files(2000), 60 * _MIB)],
        "readers that read nothing": [read_nothing(24, 4 * _MIB), read_nothing(24, _MIB)],
        "answers that nobody reads": [take_no_answers(400, 2 * _MIB)],
        "observed sizes": [observe_much(32 * _MIB), observe_much(2 * _MIB)],
        "data sets with large schemas": [
            *(create_datasets(f"d{n}-") for n in range(8)),
            *[list_datasets] * 4,
        ],
        "reflection streams": [reflect(400)],
    }
    kinds["all kinds at once"] = [attack for attacks in kinds.values() for attack in attacks[:1]]
    return kinds


@scenario
def budget(abuse: Abuse) -> Iterator[Row]:
    """RssAnon keeps to the budget, the process lives, and memory comes back."""
    for size in (512,) if abuse.is_short else (512, 1024):
        bound = int(size * _MIB * (1 + _PART)) + _BESIDE
        kinds = _attacks(abuse)
        with abuse.server("--memory-budget", str(size * _MIB), data=True) as server:
            pid = server.process.pid
            start = anonymous_bytes(pid)
            for kind, attacks in kinds.items():
                with MemorySampler(pid) as memory:
                    run_attacks(server.address, attacks, abuse.seconds / len(kinds))
                alive = server.process.poll() is None
                yield law(
                    f"{size} MiB: {kind}",
                    f"peak {memory.peak >> 20} MiB" if alive else "the process has ended",
                    f"{bound >> 20} MiB",
                    alive and memory.peak <= bound,
                )
                if not alive:
                    return
            now, passed = await_return(pid, start)
            yield figure(
                f"{size} MiB: after all have gone",
                f"{now >> 20} MiB, {start >> 20} at the start, after {passed:.1f} s",
                f"{(start + _LEFT) >> 20} MiB after {_GONE_SECONDS:.0f} s",
                now <= start + _LEFT,
            )


@scenario
def hard_limit(abuse: Abuse) -> Iterator[Row]:
    """The process may not have more than the law says: each larger allocation fails.

    The system refuses memory beyond the limit (RLIMIT_DATA), and gRPC's core ends the process where
    malloc fails, so the process lives only if it keeps to the law. The limit counts memory that was
    asked for and not used, too, such as stacks of threads.
    """
    size = 512
    bound = int(size * _MIB * (1 + _PART)) + _BESIDE
    with abuse.server("--memory-budget", str(size * _MIB), data=True) as server:
        pid = server.process.pid
        limit = _data_bytes(pid) - anonymous_bytes(pid) + bound
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))
        kinds = _attacks(abuse)
        for kind, attacks in kinds.items():
            with MemorySampler(pid) as memory:
                run_attacks(server.address, attacks, abuse.seconds / len(kinds))
            ended = server.process.poll()
            yield law(
                f"under a limit of {limit >> 20} MiB: {kind}",
                f"peak {memory.peak >> 20} MiB, "
                + ("it lives" if ended is None else f"it has ended with {ended}"),
                "it lives",
                ended is None,
            )
            if ended is not None:
                return
        with own_channel(server.address, 300) as channel:
            status = raw_unary(channel, "grpc.health.v1.Health/Check")(b"", timeout=20)
        yield law("then it says", str(status), "SERVING", status == b"\x08\x01")


@scenario
def windows(abuse: Abuse) -> Iterator[Row]:
    """Calls that send and are not read take their windows, and no more however fast they are.

    A quarter of the budget is for what is received, and the half of that for windows. The other
    half is for what is being read: a call gets a second window if much has come by the time its
    first message is asked for. A connection as a whole has the window of one call: a lone call
    need not wait for the server before.
    """
    size, calls = 512 * _MIB, 40
    for streams in (64, 128, 4096):
        window = max(65536, min(_MIB, size // 8 // streams))
        flags = ("--memory-budget", str(size), "--max-streams", str(streams))
        with abuse.server(*flags) as server, MemorySampler(server.process.pid) as memory:
            flood = Flood(server.address, "grpc.health.v1.Health/Watch", bytes(5), calls)
            granted, sent = flood.windows[0] + 5 * calls, 0
            while more := flood.send_some():
                sent += more
                flood.await_answer()
            flood.close()
        yield law(
            f"of {streams} streams: bytes that {calls} calls sent and nobody read",
            f"{sent}",
            f"{calls * window} to twice that",
            calls * window <= sent <= 2 * calls * (window + 5),
        )
        yield law(
            f"of {streams} streams: bytes that a connection may send at first",
            f"{granted}",
            f"{window}",
            # 64 KiB are 65,535 bytes to HTTP/2.
            0 <= window - granted <= 1,
        )
        most = 2 * calls * window + 32 * _MIB
        yield law(
            f"of {streams} streams: memory for them",
            f"{(memory.peak - memory.first) >> 20} MiB",
            f"{most >> 20} MiB",
            memory.peak - memory.first <= most,
        )


@scenario
def reflection_threads(abuse: Abuse) -> Iterator[Row]:
    """Reflection streams, and those that watch the server's health, hold no threads."""
    streams = 50 if abuse.is_short else 400
    with abuse.server() as server, contextlib.ExitStack() as stack:
        ended = threading.Event()
        before = num_threads(server.process.pid)
        calls = []
        for number in range(streams):
            if number % STREAMS_OF_CONNECTION == 0:
                channel = stack.enter_context(own_channel(server.address, number))
            method, request = (
                (_REFLECTION[number // 2 % 2], b"\x3a\x01*")
                if number % 2
                else ("grpc.health.v1.Health/Watch", b"")
            )
            calls.append(
                channel.stream_stream(
                    f"/{method}", request_serializer=bytes, response_deserializer=bytes
                )(_one_request_until(ended, request), wait_for_ready=True)
            )
        answers = [next(call) for call in calls]
        after = num_threads(server.process.pid)
        ended.set()
        for call in calls:
            call.cancel()
        # gRPC's own pool of threads grows with the load, not with the streams.
        most = before + 16
        yield law(
            f"threads with {streams} silent streams",
            f"{after}, {before} before",
            f"{most}",
            after <= most and len(answers) == streams,
        )
