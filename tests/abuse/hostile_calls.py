"""Connections and calls by the thousands that say nothing, in a process of their own, so that who
measures is not slowed.

    hostile_calls.py HOST:PORT watch --connections 400 --calls 1000

Several clients, each within its own bounds: from 127.0.0.10 to .17. Prints "going" once all have
connected, "done" once all calls have been begun, and holds them until stdin ends. Nothing is read.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
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

# What a connection says first, and then for each of its calls: the methods, and their message.
KINDS: Final[dict[str, tuple[bytes, tuple[str, ...], bytes]]] = {
    "silent": (b"", (), b""),
    "idle": (_OPENING, (), b""),
    "watch": (_OPENING, (_WATCH,), _EMPTY),
    # Their headers, and no request.
    "begun": (_OPENING, (_GET, _TUNE, _WATCH), b""),
    # No window for the answers.
    "unread": (_NO_WINDOW, (_GET, _CHECK), _EMPTY),
}


def connect(address: str, count: int, opening: bytes) -> list[socket.socket]:
    """Those that could be opened."""
    opened = []
    for number in range(count):
        with contextlib.suppress(OSError):
            source = (f"127.0.0.{10 + number % _SOURCES}", 0)
            connection = socket.create_connection(address_of(address), 5, source_address=source)
            opened.append(connection)
            connection.sendall(opening)
            connection.setblocking(False)
    return opened


def call_frames(methods: tuple[str, ...], message: bytes, number: int) -> bytes:
    """A call on a connection."""
    stream = 2 * number + 1
    call = frame(1, 4, stream, headers(methods[number % len(methods)]))
    return call + frame(0, 1, stream, message) if message else call


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--calls", type=int, required=True)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    opening, methods, message = KINDS[options.kind]
    connections = connect(options.address, options.connections, opening)
    print("going", flush=True)
    for number in range(options.calls if methods else 0):
        sent = call_frames(methods, message, number)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.send(sent)
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
