"""What hostile clients are made of: other addresses, raw connections, samples of the server."""

from __future__ import annotations

import contextlib
import pathlib
import re
import selectors
import socket
import statistics
import threading
import time
from types import TracebackType
from typing import Callable, Final, Sequence

import grpc

_SAMPLE_SECONDS: Final = 0.05
# A client with more at a time needs another connection: the server allows one 64.
STREAMS_OF_CONNECTION: Final = 50


def address_of(text: str) -> tuple[str, int]:
    """Host and port of "host:port"."""
    host, _, port = text.rpartition(":")
    return host, int(port)


class Forwarder:
    """Another client's address: forwards connections to a server from 127.0.0.`number`.

    To the server, all that comes through `address` comes from a host of its own. One thread; it
    forwards as fast as either side reads, and keeps no more than 64 KiB a connection and direction.
    """

    def __init__(self, server: str, number: int) -> None:
        assert 2 <= number <= 254
        self._server = address_of(server)
        self._host = f"127.0.0.{number}"
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        # For each socket, its other end, and the bytes that wait to be written to it.
        self._peer: dict[socket.socket, socket.socket] = {}
        self._waiting: dict[socket.socket, bytes] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where clients connect to."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Forwarder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wake.close()
        self._thread.join()

    def _run(self) -> None:
        while True:
            for key, events in self._selector.select():
                if key.fileobj is self._woken:
                    for end in [*self._peer, self._listener, self._woken]:
                        end.close()
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._peer:
                    self._forward(key.fileobj, events)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            client, _ = self._listener.accept()
            try:
                server = socket.create_connection(self._server, source_address=(self._host, 0))
            except OSError:
                client.close()
                return
            for end, other in ((client, server), (server, client)):
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._peer[end] = other
                self._waiting[end] = b""
                self._selector.register(end, selectors.EVENT_READ)

    def _forward(self, end: socket.socket, events: int) -> None:
        other = self._peer[end]
        try:
            if events & selectors.EVENT_WRITE:
                self._waiting[end] = self._waiting[end][end.send(self._waiting[end]) :]
            if events & selectors.EVENT_READ and not self._waiting[other]:
                read = end.recv(65536)
                if not read:
                    raise ConnectionResetError
                self._waiting[other] = read[other.send(read) :]
        except BlockingIOError:
            if events & selectors.EVENT_READ and not self._waiting[other]:
                self._waiting[other] = read
        except OSError:
            for gone in (end, other):
                self._selector.unregister(gone)
                gone.close()
                del self._peer[gone], self._waiting[gone]
            return
        for each in (end, other):
            wanted = 0 if self._waiting[self._peer[each]] else selectors.EVENT_READ
            wanted |= selectors.EVENT_WRITE if self._waiting[each] else 0
            # A socket that waits for its peer alone is asked for nothing.
            self._watch(each, wanted)

    def _watch(self, end: socket.socket, events: int) -> None:
        registered = end in self._selector.get_map()
        if events and registered:
            self._selector.modify(end, events)
        elif events:
            self._selector.register(end, events)
        elif registered:
            self._selector.unregister(end)


def own_channel(address: str, number: int = 0, has_fixed_window: bool = False) -> grpc.Channel:
    """A connection of its own for each number, without bounds on messages."""
    return grpc.insecure_channel(
        address,
        options=[
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
            ("packhouse.number", number),
            # Otherwise unread streams take some MiB.
            *((("grpc.http2.bdp_probe", 0),) if has_fixed_window else ()),
        ],
    )


def raw_unary(channel: grpc.Channel, method: str) -> Callable[..., bytes]:
    """A call of "package.Service/Method" that sends and gets bytes as they are."""
    call: Callable[..., bytes] = channel.unary_unary(
        f"/{method}", request_serializer=bytes, response_deserializer=bytes
    )
    return call


def percentile(seconds: Sequence[float], share: float) -> float:
    """The value that `share` of the values do not exceed."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def time_calls(call: Callable[[], object], count: int) -> list[float]:
    """Seconds that each of `count` calls took, one after another."""
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return taken


def milliseconds(seconds: float) -> str:
    """For a row."""
    return f"{seconds * 1e3:.2f} ms"


def median(values: Sequence[float]) -> float:
    """For a row."""
    return statistics.median(values)


def anonymous_bytes(pid: int) -> int:
    """RssAnon of a process: its own memory, without pages of files."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) << 10


def num_threads(pid: int) -> int:
    """Of a process."""
    return len(list(pathlib.Path(f"/proc/{pid}/task").iterdir()))


def lane_bytes(pid: int) -> int:
    """Memory that a process shares with clients by lanes."""
    smaps = pathlib.Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8")
    return sum(map(int, re.findall(r"packhouse-lane.*\n(?:.*\n){3}Rss:\s+(\d+) kB", smaps))) << 10


class MemorySampler:
    """Memory of a process, sampled by a thread of its own while a `with` block runs: its own, without
    pages of files, and that of lanes if it has some.
    """

    def __init__(self, pid: int, has_lanes: bool = False) -> None:
        self._pid = pid
        self._has_lanes = has_lanes
        self.first = self._bytes()
        self.peak = self.first
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(OSError, AssertionError):
            self._note()

    def _sample(self) -> None:
        with contextlib.suppress(OSError, AssertionError):
            while not self._ended.wait(_SAMPLE_SECONDS):
                self._note()

    def _note(self) -> None:
        self.peak = max(self.peak, self._bytes())

    def _bytes(self) -> int:
        return anonymous_bytes(self._pid) + (lane_bytes(self._pid) if self._has_lanes else 0)
