"""Connections and calls by the thousands that say nothing, in a process of their own, so that who
measures is not slowed.

    hostile_calls.py HOST:PORT watch --connections 400 --calls 1000

Several clients, from 127.0.0.10 to .17. Prints "going" once all have connected, and "done" once so
many calls have been begun on each connection. Holds them until stdin ends, and opens again what the
server closes. No answer is looked at. With --unconfirmed the server's SETTINGS are not confirmed,
so that gRPC does not bound the calls of a connection.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import resource
import select
import socket
import struct
import sys
from typing import Final

from hostile import address_of
from hostile_http2 import PREFACE, frame, headers

_GET: Final = "packhouse.v1.HistogramService/GetHistogram"
_TUNE: Final = "packhouse.v1.PlanningService/Tune"
_CHECK: Final = "grpc.health.v1.Health/Check"
_WATCH: Final = "grpc.health.v1.Health/Watch"
_EMPTY: Final = b"\0\0\0\0\0"
_SOURCES: Final = 8

_OPENING: Final = PREFACE + frame(4, 0, 0, b"")
_NO_WINDOW: Final = PREFACE + frame(4, 0, 0, struct.pack(">HI", 4, 0))
_CONFIRMATION: Final = frame(4, 1, 0, b"")
_FRAME_BYTES: Final = 16000
_CALLS_AT_ONCE: Final = 50


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a connection says first, and then for each of its calls."""

    opening: bytes = _OPENING
    methods: tuple[str, ...] = ()
    message: bytes = b""
    # Further fields in the headers of each call, with values of so many bytes.
    fields: int = 0
    value_bytes: int = 0
    # Whether each call is cancelled as soon as it has begun.
    is_cancelled: bool = False


KINDS: Final[dict[str, Kind]] = {
    "silent": Kind(opening=b""),
    "idle": Kind(),
    "watch": Kind(methods=(_WATCH,), message=_EMPTY),
    # Their headers, and no request.
    "begun": Kind(methods=(_GET, _TUNE, _WATCH)),
    # No window for the answers.
    "unread": Kind(opening=_NO_WINDOW, methods=(_GET, _CHECK), message=_EMPTY),
    "cancelled": Kind(methods=(_GET, _TUNE, _WATCH), is_cancelled=True),
    "fields": Kind(methods=(_GET, _TUNE), fields=10_000),
    # As much as a call may say.
    "large": Kind(methods=(_GET, _TUNE), fields=119, value_bytes=120),
    "unknown": Kind(opening=_NO_WINDOW, methods=("none.such/Method",)),
}


@functools.cache
def call_frames(kind: str, number: int) -> bytes:
    """A call on a connection."""
    asked = KINDS[kind]
    stream = 2 * number + 1
    field = b"\0\1a" + bytes([asked.value_bytes]) + b"a" * asked.value_bytes
    block = headers(asked.methods[number % len(asked.methods)]) + field * asked.fields
    parts = [block[at : at + _FRAME_BYTES] for at in range(0, len(block), _FRAME_BYTES)]
    call = b"".join(
        frame(9 if part else 1, 4 if part == len(parts) - 1 else 0, stream, parts[part])
        for part in range(len(parts))
    )
    if asked.message:
        call += frame(0, 1, stream, asked.message)
    if asked.is_cancelled:
        call += frame(3, 0, stream, struct.pack(">I", 8))
    return call


class Connection:
    """One that is opened again whenever the server has closed it."""

    def __init__(self, address: str, kind: str, number: int, confirms: bool) -> None:
        self._address = address_of(address)
        self._kind = kind
        self._confirms = confirms and kind != "silent"
        self._source = (f"127.0.0.{10 + number % _SOURCES}", 0)
        self._socket: socket.socket | None = None
        self._calls = 0
        self._unsent = b""
        self.open()

    def open(self) -> None:
        """Unless it is open, or cannot be."""
        if self._socket is None:
            with contextlib.suppress(OSError):
                self._socket = socket.create_connection(
                    self._address, 5, source_address=self._source
                )
                self._calls, self._unsent = 0, KINDS[self._kind].opening
                if self._confirms:
                    self._socket.sendall(self._unsent)
                    self._unsent = _CONFIRMATION if self._socket.recv(4096) else b""
                self._socket.setblocking(False)

    def send(self, calls: int) -> None:
        """So many calls more, as far as the server reads them."""
        if self._socket is None:
            return
        try:
            if KINDS[self._kind].opening != _NO_WINDOW and self._socket.recv(65536) == b"":
                raise ConnectionResetError
        except BlockingIOError:
            pass
        except OSError:
            return self._close()
        if not self._unsent:
            begun = range(self._calls, self._calls + calls)
            self._unsent = b"".join(call_frames(self._kind, number) for number in begun)
            self._calls += calls
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._close()

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--unconfirmed", action="store_true")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    connections = [
        Connection(options.address, options.kind, number, not options.unconfirmed)
        for number in range(options.connections)
    ]
    print("going", flush=True)
    has_calls = bool(KINDS[options.kind].methods)
    rounds = -(-options.calls // _CALLS_AT_ONCE) if has_calls else 1
    for _ in range(rounds):
        for connection in connections:
            connection.send(_CALLS_AT_ONCE if has_calls else 0)
    print("done", flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        for connection in connections:
            connection.open()
            connection.send(1 if has_calls else 0)


if __name__ == "__main__":
    main()
