"""What passes is waited for: a server that stands still, a full disk, a proxy, a connection's age.

The outage ends when the client has told of it in its log, so that nothing here is a matter of time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import signal
import socket
import subprocess
from typing import Callable, Iterator

import grpc
import numpy as np
import pytest
from server_process import ServerProcess

from packhouse import (
    Client,
    GraphSchema,
    GraphTable,
    Loader,
    PackhouseError,
    PackOptions,
    TensorSpec,
)
from packhouse.base.errors import passes

SCHEMA = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
NUM_GRAPHS = 400
LIMITS = {"nodes": 12}
# Of a proxy that is less patient than the trainer.
_NGINX = """
daemon off;
pid {folder}/pid;
error_log {folder}/errors error;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/client;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen {address} http2;
    location / {{ grpc_pass grpc://{server}; grpc_read_timeout 1s; }}
  }}
}}
"""


def table(first: int, count: int, rows: int = 3) -> GraphTable:
    return GraphTable.from_graphs(
        SCHEMA, [{"x": np.full(rows, i, np.float32)} for i in range(first, first + count)]
    )


def store(address: str, num_graphs: int = NUM_GRAPHS) -> None:
    with Client(address) as client:
        client.datasets.create("d", SCHEMA)
        client.datasets.append("d", table(0, num_graphs))
        client.datasets.seal("d")


@contextlib.contextmanager
def once_told(action: Callable[[], None]) -> Iterator[list[str]]:
    """Calls it when the client warns for the first time; what was told, in the end."""
    told: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())
            if len(told) == 1:
                action()

    handler = Handler(logging.WARNING)
    logger = logging.getLogger("packhouse")
    logger.addHandler(handler)
    try:
        yield told
    finally:
        logger.removeHandler(handler)


@contextlib.contextmanager
def impatient_proxy(server: str, folder: pathlib.Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """nginx before the server: its address, and how to wait until it has ended a stream."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=folder, address=address, server=server))
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    try:
        process = subprocess.Popen(
            ["nginx", "-p", str(folder), "-c", str(config)], env={**os.environ, "PATH": path}
        )
    except FileNotFoundError:
        pytest.skip("there is no nginx")

    def await_timeout() -> None:
        seen = (folder / "errors").read_text().count("timed out")
        while (folder / "errors").read_text().count("timed out") == seen:
            assert process.poll() is None

    try:
        yield address, await_timeout
    finally:
        # Its workers end with it, which they do not if it is killed.
        process.terminate()
        process.wait()


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(disk: pathlib.Path) -> None:
    with open(disk / "filler", "wb", 0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(b"0" * 4096)


def test_a_server_that_stands_still_ends_no_epoch(tmp_path: pathlib.Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path / "data")) as server:
        store(server.address)
        pid = server.process.pid
        seen: list[int] = []
        with once_told(lambda: os.kill(pid, signal.SIGCONT)) as told:
            with Loader(
                server.address, dataset="d", job="j", seed=1, limits=LIMITS, timeout=1
            ) as loader:
                for number, batch in enumerate(loader):
                    seen += batch.graph_ids.tolist()
                    if number == 30:
                        os.kill(pid, signal.SIGSTOP)
        assert sorted(seen) == list(range(NUM_GRAPHS))
        assert len(told) == 1 and "Acknowledge of job 'j' fails" in told[0]
        assert "DEADLINE_EXCEEDED" in told[0]


def test_a_disk_that_is_full_for_a_while_ends_no_epoch(small_disk: pathlib.Path) -> None:
    filler = small_disk / "filler"
    with ServerProcess("--data-dir", str(small_disk / "data")) as server:
        store(server.address, 4000)
        seen: list[int] = []
        with once_told(lambda: os.truncate(filler, 0)) as told:
            with Loader(
                server.address, dataset="d", job="j", seed=1, limits=LIMITS
            ) as loader:
                for number, batch in enumerate(loader):
                    seen += batch.graph_ids.tolist()
                    if number == 20:
                        fill(small_disk)
                    # Durable, each by itself: this takes more room than is left.
                    loader.state_dict()
        assert sorted(seen) == list(range(4000))
        assert told and "no space left" in told[0].lower()


def test_a_disk_that_is_full_for_a_while_ends_no_append(small_disk: pathlib.Path) -> None:
    filler = small_disk / "filler"

    def tables() -> Iterator[GraphTable]:
        for number in range(20):
            if number == 5:
                fill(small_disk)
            yield table(number, 1, rows=20_000)

    with ServerProcess("--data-dir", str(small_disk / "data")) as server:
        with Client(server.address) as client:
            client.datasets.create("d", SCHEMA)
            with once_told(lambda: os.truncate(filler, 0)) as told:
                totals = client.datasets.append("d", tables())
            assert (totals.num_appended, totals.num_graphs) == (20, 20)
            assert told and "Append to 'd' at " + server.address in told[0]


def test_a_proxy_that_ends_idle_streams_ends_no_epoch_and_no_append(tmp_path: pathlib.Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path / "data")) as server:
        with impatient_proxy(server.address, tmp_path) as (address, await_timeout):

            def tables() -> Iterator[GraphTable]:
                for number in range(4):
                    yield table(number * 100, 100)
                    if number == 1:
                        await_timeout()

            with Client(address) as client:
                client.datasets.create("d", SCHEMA)
                assert client.datasets.append("d", tables()).num_graphs == NUM_GRAPHS
                client.datasets.seal("d")
                seen: list[int] = []
                with Loader(
                    address, dataset="d", job="j", seed=1, limits=LIMITS, max_in_flight=2
                ) as loader:
                    for number, batch in enumerate(loader):
                        seen += batch.graph_ids.tolist()
                        if number == 7:
                            await_timeout()
                # Each table numbers its graphs from 0.
                assert sorted(seen) == sorted([*range(100)] * 4)

                # What cannot go on says who ended it.
                def some() -> Iterator[GraphTable]:
                    yield table(0, 3)
                    await_timeout()
                    yield table(3, 3)

                with pytest.raises(PackhouseError, match="a proxy has ended the call") as raised:
                    list(client.pack(some(), PackOptions(limits=LIMITS)))
                assert raised.value.code is grpc.StatusCode.INTERNAL


def test_sizes_are_counted_once_over_the_end_of_a_connection(tmp_path: pathlib.Path) -> None:
    flags = ("--max-connection-age", "1s", "--max-connection-age-grace", "1s")
    with ServerProcess(*flags, "--data-dir", str(tmp_path / "data")) as server:

        def open_streams() -> bool:
            line = 'packhouse_open_streams{method="Observe"} 1'
            return line in server.get("/metrics")[1]

        def sizes() -> Iterator[list[list[int]]]:
            yield [[1, 2], [3, 4]]
            # Of the first request, and until the server has ended it.
            while not open_streams():
                pass
            while open_streams():
                pass
            yield [[5, 6]]

        with Client(server.address) as client:
            totals = client.histograms.observe("h", sizes(), producer="p", gather_bytes=0)
            assert totals == (3, 3)
            with pytest.raises(PackhouseError, match="with `producer` goes on over this"):
                client.histograms.observe("h", sizes(), gather_bytes=0)


def test_calls_that_are_safe_go_on_at_the_next_server(tmp_path: pathlib.Path) -> None:
    servers = [ServerProcess("--data-dir", str(tmp_path / name)) for name in ("a", "b")]
    with servers[0] as first, servers[1] as second:
        for server in servers:
            store(server.address)
        with Client(f"{first.address},{second.address}", timeout=2) as client:
            first.kill()
            # It is not waited for.
            for _ in range(3):
                assert client.datasets.get("d").num_graphs == NUM_GRAPHS
                assert [dataset.name for dataset in client.datasets.list()] == ["d"]
            assert list(client.jobs.list()) == []
            # An answer is an answer.
            with pytest.raises(PackhouseError) as raised:
                client.datasets.get("none")
            assert raised.value.code is grpc.StatusCode.NOT_FOUND
            # What may have been done is not done once more elsewhere.
            with pytest.raises(PackhouseError) as raised:
                client.datasets.create("e", SCHEMA)
            assert raised.value.code is not grpc.StatusCode.ALREADY_EXISTS
            assert [dataset.name for dataset in client.datasets.list()] == ["d"]
            second.kill()
            with pytest.raises(PackhouseError) as raised:
                client.datasets.get("d")
            assert passes(raised.value.code.name, raised.value.message)
        # Only the second is there from the beginning.
        second.start()
        with Client(f"{first.address},{second.address}", timeout=2) as client:
            assert client.datasets.get("d").num_graphs == NUM_GRAPHS
            assert second.address in repr(client)
