"""Idle and dripping connections, in a process of their own, so that who measures is not slowed.

    hostile_connections.py HOST:PORT --idle 1000 --dripping 100 --sources 127.0.0.2 [--stubborn]

Prints "ready" once all are open, and goes on until stdin ends. What the server closes is opened
again at once if they are stubborn; at the end it prints how often that was.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import select
import socket
import sys
from typing import Iterator


def open_one(address: tuple[str, int], sources: Iterator[str]) -> socket.socket:
    """A connection from the next of the sources."""
    connection = socket.create_connection(address, source_address=(next(sources), 0))
    connection.setblocking(False)
    return connection


def is_closed(connection: socket.socket, drips: bool) -> bool:
    """Whether the server has closed it; sends a byte if it drips."""
    try:
        if drips:
            connection.send(b"G")
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--idle", type=int, required=True)
    parser.add_argument("--dripping", type=int, required=True)
    parser.add_argument("--sources", nargs="+", required=True)
    parser.add_argument("--stubborn", action="store_true")
    options = parser.parse_args()
    host, _, port = options.address.rpartition(":")
    address = (host, int(port))
    count = options.idle + options.dripping
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 64:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 64, hard), hard))
    sources = itertools.cycle(options.sources)
    connections = [open_one(address, sources) for _ in range(count)]
    print("ready", flush=True)
    reopened = 0
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        for i, connection in enumerate(connections):
            if is_closed(connection, i < options.dripping) and options.stubborn:
                connection.close()
                connections[i] = open_one(address, sources)
                reopened += 1
    print(reopened, flush=True)


if __name__ == "__main__":
    main()
