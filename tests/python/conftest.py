"""Fixtures: real servers for the tests that need one."""

from __future__ import annotations

import os
import pathlib
from typing import Iterator

import pytest

try:
    import packhouse.v1.packing_pb2  # noqa: F401
except ImportError:
    pytest.exit(
        "no built packhouse package on PYTHONPATH: build packhouse_python, then set "
        "PYTHONPATH to <build>/python",
        returncode=2,
    )

from packhouse import Client, LocalServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    with LocalServer(data_dir=tmp_path_factory.mktemp("data")) as running:
        yield running
    assert running.returncode == 0, "the server did not drain cleanly"


# One for all: connecting takes longer than most tests.
@pytest.fixture(scope="session")
def client(server: LocalServer) -> Iterator[Client]:
    with Client(server.address) as connected:
        yield connected


@pytest.fixture
def mortal_server(tmp_path: pathlib.Path) -> Iterator[LocalServer]:
    """One of the test's own, which it may kill and start again on the same folder and socket."""
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    listen = f"unix:{tmp_path}/socket"
    with LocalServer(listen=listen, data_dir=tmp_path / "data") as running:
        yield running
