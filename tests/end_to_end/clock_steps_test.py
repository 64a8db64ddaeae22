"""The wall clock is set while a server runs: nothing waits longer, and nothing is deleted.

A library that is preloaded (stepping_clock.c) sets the server's clock, and no other.
"""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
import re
import signal
import struct
import subprocess
import time

import numpy as np
import pytest
from etcd_process import EtcdProcess, free_port
from server_process import ServerProcess

from packhouse import Client, GraphSchema, GraphTable, PackOptions

HERE = pathlib.Path(__file__).parent
SCHEMA = GraphSchema(("nodes", "edges"), ())
HOUR = 3600.0
# Long, beside what is waited for, and short beside an hour.
PATIENCE = 30.0
# Longer than a busy disk keeps etcd from answering, so that only the clock could lose the lease.
LEASE_SECONDS = 10


class WallClock:
    """Of servers that are started after this."""

    def __init__(self, folder: pathlib.Path, patch: pytest.MonkeyPatch) -> None:
        if platform.machine() != "x86_64":
            pytest.skip("stepping_clock.c is for x86-64")
        shim = folder / "stepping_clock.so"
        subprocess.run(
            [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", str(shim),
             str(HERE / "stepping_clock.c")],
            check=True,
        )
        self._file = folder / "step"
        self._file.write_bytes(bytes(8))
        patch.setenv("LD_PRELOAD", str(shim))
        patch.setenv("CLOCK_STEP", str(self._file))

    def step(self, seconds: float) -> None:
        with self._file.open("r+b") as file:
            (now,) = struct.unpack("<q", file.read(8))
            file.seek(0)
            file.write(struct.pack("<q", now + int(seconds * 1e9)))


@pytest.fixture
def wall_clock(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> WallClock:
    return WallClock(tmp_path, monkeypatch)


def metric(server: ServerProcess, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", server.get("/metrics")[1], re.MULTILINE)
    assert found is not None, name
    return float(found.group(1))


@pytest.mark.parametrize("seconds", [-HOUR, HOUR], ids=["back", "forward"])
def test_graphs_leave_in_time_and_a_drain_ends(wall_clock: WallClock, seconds: float) -> None:
    delay = PackOptions({"nodes": 1000}, max_delay=datetime.timedelta(milliseconds=300))
    with ServerProcess("--lame-duck", "300ms", "--drain-timeout", "500ms") as server:
        with Client(server.address) as client:
            stream = client.open_pack(SCHEMA, delay)
            stream.send(GraphTable(SCHEMA, np.array([[1, 0]])))
            # What waits now, and what waits from now on.
            wall_clock.step(seconds)
            began = time.monotonic()
            assert len(next(iter(stream))) == 1
            stream.send(GraphTable(SCHEMA, np.array([[2, 0]])))
            assert len(next(iter(stream))) == 1
            assert time.monotonic() - began < PATIENCE
            # The stream stays open beyond the time for the drain.
            server.process.send_signal(signal.SIGTERM)
            wall_clock.step(seconds)
            assert server.process.wait(PATIENCE) == 0
            stream.close()


def test_a_day_ahead_deletes_nothing_that_is_not_a_day_old(
    wall_clock: WallClock, tmp_path: pathlib.Path
) -> None:
    flags = ("--data-dir", str(tmp_path / "data"), "--dataset-retention", "1h,short=1s",
             "--histogram-retention", "1h")
    table = GraphTable(SCHEMA, np.array([[1, 0]]))
    with ServerProcess(*flags) as server, Client(server.address) as client:
        for name in ("kept", "short/gone"):
            client.datasets.create(name, SCHEMA)
            client.datasets.append(name, table)
        client.histograms.observe("kept", np.array([[1, 2]]))
        wall_clock.step(24 * HOUR)
        # A sweep has seen the new time.
        while metric(server, "packhouse_datasets_expired_total") < 1:
            pass
        assert [each.name for each in client.datasets.list()] == ["kept"]
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
    # Nor does a clock that was set while no server ran.
    for seconds in (24 * HOUR, -72 * HOUR):
        wall_clock.step(seconds)
        with ServerProcess(*flags) as server, Client(server.address) as client:
            client.datasets.create("short/gone", SCHEMA)
            while metric(server, "packhouse_datasets_expired_total") < 1:
                pass
            assert [each.name for each in client.datasets.list()] == ["kept"]
            assert metric(server, "packhouse_histograms_expired_total") == 0
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("seconds", [-HOUR, HOUR], ids=["back", "forward"])
def test_a_lease_is_kept(
    wall_clock: WallClock, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    shim = os.environ["LD_PRELOAD"]
    monkeypatch.delenv("LD_PRELOAD")
    with EtcdProcess(tmp_path / "etcd") as etcd:
        monkeypatch.setenv("LD_PRELOAD", shim)
        key = tmp_path / "key"
        key.write_text("ab" * 32, encoding="ascii")
        flags = (f"--ledger=etcd://{etcd.address}/test", f"--advertise=127.0.0.1:{free_port()}",
                 f"--ledger-lease={LEASE_SECONDS}s", "--data-dir", str(tmp_path / "data"),
                 f"--signing-key={key}")
        with ServerProcess(*flags) as server:
            wall_clock.step(seconds)
            # For longer than the lease would last without being kept.
            began = time.monotonic()
            while time.monotonic() - began < 1.5 * LEASE_SECONDS:
                assert server.get("/readyz") == (200, "ready\n")
            # An etcd that answers nothing is noticed in time, too, whatever gRPC waits for.
            etcd.pause(0)
            wall_clock.step(seconds)
            began = time.monotonic()
            while server.get("/readyz")[0] == 200:
                assert time.monotonic() - began < PATIENCE
            etcd.resume(0)
            while server.get("/readyz")[0] != 200:
                assert time.monotonic() - began < 2 * PATIENCE
