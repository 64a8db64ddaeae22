"""Batches that leave because their time has come, one after the other: how late they are.

    delayed_batches.py ADDRESS

A process of its own, so that it does not wait for the interpreter of those who load the server. Says
"ready" with the first batch; when its standard input ends, a line of JSON with the batches: when each
was asked for, by the machine's monotonic clock, and how late it came, in seconds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Final, Iterator

from hostile import own_channel
from packhouse.v1 import packing_pb2, packing_pb2_grpc

DELAY_SECONDS: Final = 0.02


def main(address: str) -> None:
    stop = threading.Event()
    given = threading.Semaphore(0)
    sent = 0.0
    late: list[tuple[float, float]] = []

    def wait_for_the_end() -> None:
        sys.stdin.read()
        stop.set()

    def requests() -> Iterator[packing_pb2.PackRequest]:
        nonlocal sent
        request = packing_pb2.PackRequest()
        request.open.limits.capacities.add(component="nodes", rows=10)
        request.open.max_delay.nanos = int(DELAY_SECONDS * 1e9)
        yield request
        while not stop.is_set():
            given.acquire()
            request = packing_pb2.PackRequest()
            request.sizes.num_graphs = 1
            request.sizes.counts = bytes([1, 0, 0, 0, 0, 0, 0, 0])
            sent = time.monotonic()
            yield request

    threading.Thread(target=wait_for_the_end).start()
    with own_channel(address) as channel:
        for response in packing_pb2_grpc.PackingServiceStub(channel).Pack(requests()):
            if response.HasField("opened"):
                given.release()
            if response.HasField("batch"):
                if not late:
                    print("ready", flush=True)
                late.append((sent, time.monotonic() - sent - DELAY_SECONDS))
                given.release()
    print(json.dumps(late), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
