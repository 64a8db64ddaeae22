"""Wings that are left out: the build says what does not go together, the server what it was built without."""

from __future__ import annotations

import os
import pathlib
import subprocess
import urllib.error
import urllib.request
from typing import Iterator

import numpy as np
import pytest

from packhouse import Client, GraphSchema, GraphTable, Loader, LocalServer

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = GraphSchema(("nodes", "edges"), ())


def built_with(wings: str, folder: pathlib.Path) -> tuple[list[str], str]:
    """The wings that are built for a value of PACKHOUSE_WINGS, and what CMake complains of."""
    script = folder / "wings.cmake"
    script.write_text(
        "cmake_minimum_required(VERSION 3.25)\n"
        f"include({REPOSITORY}/service/wings/wings.cmake)\n"
        "packhouse_wings(built)\n"
        'message(STATUS "${built}")\n',
        encoding="utf-8",
    )
    done = subprocess.run(
        ["cmake", f"-DPACKHOUSE_WINGS={wings}", "-P", str(script)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return [], " ".join(done.stderr.split())
    return done.stdout.removeprefix("--").strip().split(";"), ""


def test_a_wing_needs_those_that_it_stands_on(tmp_path: pathlib.Path) -> None:
    everything, complaint = built_with("all", tmp_path)
    assert complaint == ""
    assert everything == ["tfgnn", "graphs", "partition", "partition_mpi", "cluster", "page"]
    # The order in which they are named says nothing.
    assert built_with(";".join(reversed(everything)), tmp_path) == (everything, "")
    for left_out, above in [
        ("tfgnn", "graphs"),
        ("graphs", "partition"),
        ("partition", "partition_mpi"),
    ]:
        wings = ";".join(wing for wing in everything if wing != left_out)
        built, complaint = built_with(wings, tmp_path)
        assert built == []
        assert f"PACKHOUSE_WINGS: the wing '{above}' stands on '{left_out}', which is left out" in complaint


def test_a_wing_that_there_is_not_is_named(tmp_path: pathlib.Path) -> None:
    built, complaint = built_with("tfgnn;paeg", tmp_path)
    assert built == []
    assert "PACKHOUSE_WINGS: there is no wing 'paeg'; there are tfgnn, graphs, " in complaint


@pytest.fixture(scope="module", name="server")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """One without the wings that can be left out."""
    binary = os.environ["PACKHOUSE_SERVER_WITHOUT_WINGS"]
    with LocalServer(binary, data_dir=tmp_path_factory.mktemp("data")) as server:
        yield server


def get(server: LocalServer, path: str) -> tuple[int, str]:
    """Status and body of an HTTP page."""
    try:
        with urllib.request.urlopen(f"http://{server.http_address}{path}", timeout=20) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_package_works_with_such_a_server(server: LocalServer) -> None:
    with Client(server.address) as client:
        client.datasets.create("molecules", SCHEMA)
        client.datasets.append("molecules", [GraphTable(SCHEMA, np.array([[3, 2], [5, 4], [2, 1]]))])
        client.datasets.seal("molecules")
    with Loader(server.address, dataset="molecules", job="job", limits={"nodes": 8, "edges": 8}) as loader:
        graphs = [graph for batch in loader for graph in batch.graph_ids]
    assert sorted(graphs) == [0, 1, 2]


def test_a_path_of_a_wing_that_is_left_out_says_so(server: LocalServer) -> None:
    assert get(server, "/healthz")[0] == 200
    assert get(server, "/metrics")[0] == 200
    for path in ("/", "/page.js"):
        assert get(server, path) == (404, "this packhoused was built without the wing page\n")
    assert get(server, "/nothing")[0] == 404
