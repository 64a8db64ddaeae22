"""The HTTP port: connections that say nothing, or a byte now and then."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import resource
import socket
import threading
import time
from typing import Iterator

from abuse import Abuse, Row, figure, law, scenario
from hostile import address_of, median, milliseconds, time_calls

_BOUND_SECONDS = 0.2


class HostileConnections:
    """Idle and dripping connections from some addresses.

    What the server closes is opened again at once if they are `stubborn`.
    """

    def __init__(
        self, address: str, idle: int, dripping: int, sources: tuple[str, ...], stubborn: bool
    ) -> None:
        self._address = address_of(address)
        self._dripping = dripping
        self._sources = itertools.cycle(sources)
        self._stubborn = stubborn
        self._connections = [self._open() for _ in range(idle + dripping)]
        self.reopened = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._drip, daemon=True)

    def __enter__(self) -> HostileConnections:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for connection in self._connections:
            connection.close()

    def _open(self) -> socket.socket:
        source = (next(self._sources), 0)
        connection = socket.create_connection(self._address, source_address=source)
        connection.setblocking(False)
        return connection

    def _drip(self) -> None:
        while not self._ended.wait(0.01):
            for i, connection in enumerate(self._connections):
                try:
                    if i < self._dripping:
                        connection.send(b"G")
                    closed = connection.recv(1) == b""
                except BlockingIOError:
                    closed = False
                except OSError:
                    closed = True
                if closed and self._stubborn:
                    connection.close()
                    self._connections[i] = self._open()
                    self.reopened += 1


def get(address: str, path: str) -> None:
    """Asks for a page on a connection of its own."""
    with contextlib.closing(http.client.HTTPConnection(*address_of(address), timeout=20)) as one:
        one.request("GET", path)
        answer = one.getresponse()
        answer.read()
        assert answer.status == 200


@scenario
def idle_and_dripping_connections(abuse: Abuse) -> Iterator[Row]:
    """1,000 idle and 100 dripping connections leave the probes and the scraper their pages."""
    idle, dripping = (300, 30) if abuse.is_short else (1000, 100)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = idle + dripping + 200
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    own = ("127.0.0.1",)
    others = tuple(f"127.0.0.{number}" for number in range(2, 12))
    for whose, sources, stubborn in (
        ("of the prober's own address", own, False),
        ("of ten other addresses, opened again when they are closed", others, True),
    ):
        with abuse.server() as server:
            alone = median(time_calls(lambda: get(server.http_address, "/healthz"), 20))
            with HostileConnections(
                server.http_address, idle, dripping, sources, stubborn
            ) as hostile:
                ends = time.monotonic() + abuse.seconds / 4
                taken: dict[str, list[float]] = {"/healthz": [], "/metrics": []}
                failed = 0
                while time.monotonic() < ends:
                    for path, seconds in taken.items():
                        try:
                            seconds += time_calls(lambda: get(server.http_address, path), 1)
                        except (OSError, http.client.HTTPException, AssertionError):
                            failed += 1
        beside = f"beside {idle} idle and {dripping} dripping connections {whose}"
        yield law(
            f"pages {beside}",
            f"{sum(map(len, taken.values()))} answered, {failed} not; "
            f"{hostile.reopened} opened again",
            "each is answered",
            all(taken.values()) and failed == 0,
        )
        for path, seconds in taken.items():
            yield figure(
                f"{path} {beside}",
                f"at most {milliseconds(max(seconds, default=0))}, "
                f"median {milliseconds(median(seconds or [0]))}, "
                f"/healthz without them {milliseconds(alone)}",
                f"at most {milliseconds(_BOUND_SECONDS)}",
                bool(seconds) and max(seconds) <= _BOUND_SECONDS,
            )
