"""A large data set is deleted while another client appends."""

from __future__ import annotations

import re
import time
from typing import Final, Iterator

import numpy as np
from abuse import Abuse, Row, figure, law, scenario
from server_process import ServerProcess

from packhouse import Client, DType, GraphSchema, GraphTable, TensorSpec

_SCHEMA: Final = GraphSchema(("nodes", "edges"), (TensorSpec("x", DType.FLOAT32, "nodes", (256,)),))


def _graphs(megabytes: int) -> GraphTable:
    """Graphs of 1 MiB each."""
    rows = np.zeros((1024 * megabytes, 256), np.float32)
    return GraphTable(_SCHEMA, [(1024, 0)] * megabytes, {"x": rows})


def _stored_bytes(server: ServerProcess) -> float:
    page = server.get("/metrics")[1]
    (found,) = re.findall(r'^packhouse_store_bytes\{store="datasets"\} (\S+)$', page, re.MULTILINE)
    return float(found)


def _appends(client: Client, count: int) -> list[float]:
    """Seconds that each of `count` appends of 1 MiB took, ascending."""
    graphs = _graphs(1)
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        client.datasets.append("small", [graphs])
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)


@scenario
def beside_appends(abuse: Abuse) -> Iterator[Row]:
    """Deleting is quick, gives all space back, and holds up appends by little."""
    megabytes = 64 if abuse.is_short else 4096
    count = 20 if abuse.is_short else 200
    with abuse.server(data=True) as server, Client(server.address) as client:
        for name in ("small", "large"):
            client.datasets.create(name, _SCHEMA)
        for _ in range(megabytes // 16):
            client.datasets.append("large", [_graphs(16)])
        idle = _appends(client, count)
        before = _stored_bytes(server)
        started = time.perf_counter()
        client.datasets.delete("large")
        deleted = time.perf_counter() - started
        busy = _appends(client, count)
        kept = client.datasets.get("small").num_bytes
        deadline = time.monotonic() + 60
        while _stored_bytes(server) > kept and time.monotonic() < deadline:
            pass
        left = _stored_bytes(server) - kept
        yield law(
            f"bytes of {before / 1e6:.0f} MB that are left", f"{left:.0f}", "0", left == 0
        )
        yield figure(
            "deleting, in the slowest append beside nothing",
            f"{deleted / idle[-1]:.1f}",
            "3",
            deleted <= 3 * idle[-1],
        )
        p99 = count * 99 // 100 - 1
        yield figure(
            "p99 of appends while it is erased, in that of appends beside nothing",
            f"{busy[p99] / idle[p99]:.1f}",
            "3",
            busy[p99] <= 3 * idle[p99],
        )
