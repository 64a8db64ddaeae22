"""The example that embeds the engine: an epoch without a server."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

PROGRAM = os.environ.get("PACKHOUSE_EMBEDDED_EPOCH", "")
if not PROGRAM:
    pytest.skip("PACKHOUSE_EMBEDDED_EPOCH does not name the program", allow_module_level=True)


def run(folder: pathlib.Path, batches: int) -> list[list[int]]:
    """The ids of each batch."""
    told = subprocess.run(
        [PROGRAM, folder, str(batches)], capture_output=True, text=True, timeout=60, check=True
    )
    return [[int(name) for name in line.split()] for line in told.stdout.splitlines()]


@pytest.mark.parametrize("batches_of_a_run", [1000, 7])
def test_each_graph_comes_once(tmp_path: pathlib.Path, batches_of_a_run: int) -> None:
    given: list[list[int]] = []
    while more := run(tmp_path, batches_of_a_run):
        assert len(more) <= batches_of_a_run
        given += more
    assert sorted(graph for batch in given for graph in batch) == list(range(1000))
    # 1000 rings of 3 to 42 nodes, mean 22.5, in batches of up to 512 nodes: no batch more than needed.
    assert len(given) == -(-1000 * 45 // 2 // 512)


def test_a_run_that_is_killed_loses_nothing(tmp_path: pathlib.Path) -> None:
    first = run(tmp_path, 2)
    with subprocess.Popen([PROGRAM, tmp_path, "1000"], stdout=subprocess.PIPE, text=True) as killed:
        killed.kill()
        told, _ = killed.communicate()
    whole = told[: told.rfind("\n") + 1].splitlines()
    second = [[int(name) for name in line.split()] for line in whole]
    rest = run(tmp_path, 1000)
    # What was printed last may not have been acknowledged.
    if second and second[-1:] == rest[:1]:
        second.pop()
    given = first + second + rest
    assert sorted(graph for batch in given for graph in batch) == list(range(1000))


def test_it_links_no_grpc() -> None:
    libraries = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert "grpc" not in libraries
