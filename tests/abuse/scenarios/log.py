"""The log, while clients do what they can to fill it."""

from __future__ import annotations

import json
import pathlib
import tempfile
import time
from typing import Iterator

import grpc
from abuse import Abuse, Row, law, scenario
from hostile import Forwarder, own_channel, raw_unary
from server_process import ServerProcess

# The bound of a log line about a call that failed. Its message is cut to fit.
_LINE_BYTES = 1024
_METHODS = (
    *("HistogramService/GetHistogram", "HistogramService/DeleteHistogram"),
    *("PlanningService/Plan", "DatasetService/GetDataset", "DatasetService/DeleteDataset"),
    *("LoaderService/GetEpoch", "LoaderService/DeleteJob"),
)


def field(number: int, value: bytes) -> bytes:
    """A field of a message, below 2^14 bytes."""
    length = len(value)
    size = bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])
    return bytes([number << 3 | 2]) + size + value


@scenario
def failing_calls(abuse: Abuse) -> Iterator[Row]:
    """Thousands of calls that fail, with names that are long, not UTF-8 or full of line ends."""
    names = (b"\xff\xfe", b"\n" * 100, b'"}\n{"level":"error"', b"x" * 10_000, b"", b"\x1b[2J")
    wanted = 300 if abuse.is_short else 50_000
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        with log.open("w") as file, ServerProcess(log=file) as server:
            started = time.monotonic()
            tried = failed = 0
            with Forwarder(server.address, 2) as other:
                for i, address in enumerate((server.address, other.address)):
                    with own_channel(address, i) as channel:
                        calls = [raw_unary(channel, f"packhouse.v1.{each}") for each in _METHODS]
                        while tried < wanted * (i + 1) // 2:
                            for call in calls:
                                try:
                                    call(field(1, names[tried % len(names)]), timeout=20)
                                except grpc.RpcError:
                                    failed += 1
                                tried += 1
            elapsed = time.monotonic() - started
            server.process.terminate()
            server.process.wait(20)
        text = log.read_bytes()
    lines = text.splitlines()
    broken = 0
    counted = 0
    for line in lines:
        try:
            event = json.loads(line.decode())
        except ValueError:
            broken += 1
            continue
        if event["event"] == "call failed":
            counted += 1 + event.get("suppressed", 0)
        elif event["event"] == "log lines suppressed" and "protobuf" not in event["of"]:
            counted += event["count"]
    yield law(
        f"lines of the log after {failed} failing calls",
        f"{len(lines)}, of which {broken} are not JSON",
        "each is JSON",
        bool(lines) and broken == 0,
    )
    # What it may write at once, four lines a second, and the reports of what it left out.
    bound = int(_LINE_BYTES * (50 + 5 * elapsed + 30))
    yield law(
        f"bytes of the log after {failed} failing calls in {elapsed:.1f} s",
        f"{len(text):,}",
        f"at most {bound:,}",
        len(text) <= bound,
    )
    yield law(
        "failing calls that the log tells of, each or by number",
        f"{counted} of {failed}",
        "all",
        counted >= failed > 0,
    )
