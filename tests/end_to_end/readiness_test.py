"""Whether the server takes work while its disk does not."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import subprocess
from typing import Iterator

import grpc
import numpy as np
import pytest
from server_process import ServerProcess

from packhouse import Client, GraphSchema, GraphTable, PackhouseError

MIB = 1 << 20
SCHEMA = GraphSchema(("nodes", "edges"), ())


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of 16 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={16 * MIB}", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


def all_voices(server: ServerProcess) -> dict[str, bool]:
    """Whether the server is ready, from everybody who says so; they are asked one after another."""
    with grpc.insecure_channel(server.address) as channel:
        health = channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=20)
    assert health in (SERVING, NOT_SERVING)
    states = [json.loads(server.get("/api/state")[1]),
              json.loads(server.get("/api/overview")[1])["state"]]
    ready = dict(re.findall(r'^packhouse_ready\{reason="(\w+)"\} ([01])', server.get("/metrics")[1],
                            re.MULTILINE))
    assert {"datasets", "delivery", "draining"} <= ready.keys()
    return {
        "/readyz": server.get("/readyz")[0] == 200,
        "health": health == SERVING,
        "page": states[0]["not_ready"] == [],
        "overview": states[1]["not_ready"] == [],
        "metrics": set(ready.values()) == {"1"},
    }


def health_changes(channel: grpc.Channel) -> Iterator[bytes]:
    """What Health.Watch tells."""
    return channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=60)


def test_a_full_disk_is_not_ready_until_there_is_room(
    tmp_path: pathlib.Path, small_disk: pathlib.Path
) -> None:
    other = small_disk / "other"
    other.write_bytes(bytes(8 * MIB))
    log = tmp_path / "log"
    flags = ("--data-dir", str(small_disk / "data"))
    with log.open("w") as file, ServerProcess(*flags, log=file) as server:
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(Client(server.address))
            channel = stack.enter_context(grpc.insecure_channel(server.address))
            changes = health_changes(channel)
            assert server.get("/readyz") == (200, "ready\n")
            assert set(all_voices(server).values()) == {True}
            assert next(changes) == SERVING
            client.datasets.create("graphs", SCHEMA)
            sizes = np.random.default_rng(1).integers(1, 1000, (MIB // 8, 2))
            with pytest.raises(PackhouseError, match="no space left|No space left"):
                while True:
                    client.datasets.append("graphs", [GraphTable(SCHEMA, sizes)], retry_timeout=0)
            status, why = server.get("/readyz")
            assert status == 503
            assert why.startswith("commits fail: ")
            assert server.get("/healthz")[0] == 200
            # All say the same.
            assert set(all_voices(server).values()) == {False}
            assert next(changes) == NOT_SERVING
            other.unlink()
            # Nobody sends anything: it finds out by itself.
            while server.get("/readyz")[0] != 200:
                pass
            assert set(all_voices(server).values()) == {True}
            assert next(changes) == SERVING
        server.process.terminate()
        assert server.process.wait(20) == 0
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    of_disk = [line["event"] for line in events if line.get("store") == "datasets"]
    assert of_disk[0] == "commit failed"
    assert of_disk[-1] == "commits go through again"
    # Who was told, and what.
    (failed, *_) = [line for line in events if line["event"] == "call failed"]
    assert failed["client"] == "127.0.0.1"
    assert failed["method"] == "Append"
    assert failed["code"] == "RESOURCE_EXHAUSTED"
