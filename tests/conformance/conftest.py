"""Fixtures: a real server, and the folder of real graphs."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Callable, Iterator

import pytest
import random_sets

from packhouse import Client, LocalServer


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server that loaders share is these tests' alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACKHOUSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    with LocalServer(data_dir=tmp_path_factory.mktemp("data")) as running:
        yield running
    assert running.returncode == 0, "the server did not drain cleanly"


@pytest.fixture(scope="session")
def client(server: LocalServer) -> Iterator[Client]:
    with Client(server.address) as connected:
        yield connected


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], pathlib.Path]:
    """The path of a file of real data; skips the test where it is missing."""

    def find(name: str) -> pathlib.Path:
        path = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA", "../shared/data"), name)
        if not path.exists():
            pytest.skip(f"no {name}: PACKHOUSE_SHARED_DATA does not name the folder of real data")
        return path

    return find


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What became of random sets of graphs: see random_sets.py."""
    for tally in random_sets.TALLIES:
        for line in tally.lines():
            terminalreporter.write_line(line)
