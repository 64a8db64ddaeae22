"""A C++ client of Pack by a lane, or its server, is killed at any point of the stream."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess

import pytest
from lane_test import await_left, left
from server_process import ServerProcess

PROGRAM = os.environ["PACKHOUSE_PACK_UNTIL_KILLED"]
IDS = list(range(60))
# Of a stream of all graphs, before its last ones.
MOST_STEPS = 80


class Packed:
    """What the program has said before it ended, if it did."""

    def __init__(self, address: str, step: int, pid: int, ids: list[int]) -> None:
        command = [PROGRAM, address, str(step), str(pid), *map(str, ids)]
        ran = subprocess.run(command, check=False, timeout=240, stdout=subprocess.PIPE, text=True)
        self.returncode = ran.returncode
        # Without a line that a kill has cut off.
        lines = [line.split() for line in ran.stdout[: ran.stdout.rfind("\n") + 1].splitlines()]
        assert ["another", "graph's", "rows"] not in lines
        self.ids = [int(word) for first, *words in lines if first == "batch" for word in words]
        self.said = {first: words[0] for first, *words in lines if first != "batch"}


def serving(folder: pathlib.Path) -> ServerProcess:
    return ServerProcess("--lane", f"unix:{folder}/lane")


def points(seed: int) -> list[int]:
    steps = range(1, MOST_STEPS + 1)
    if os.environ.get("PACKHOUSE_ALL_CASES"):
        return list(steps)
    return [*range(1, 5), *sorted(random.Random(seed).sample(steps, 12))]


def test_nothing_stays_of_a_client_that_is_killed(tmp_path: pathlib.Path) -> None:
    with serving(tmp_path) as server:
        whole = Packed(server.address, 0, 0, IDS)
        assert (sorted(whole.ids), whole.said["ended"], whole.said["left"]) == (IDS, "OK", "0")
        assert int(whole.said["steps"]) > MOST_STEPS
        await_left(server, 10**6)
        before = left(server)[0]
        for step in points(1):
            killed = Packed(server.address, step, 0, IDS)
            assert killed.returncode == -signal.SIGKILL
            assert len(set(killed.ids)) == len(killed.ids)
            await_left(server, before + 2)
        assert sorted(Packed(server.address, 0, 0, IDS).ids) == IDS


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_servers_graphs_come_once_or_are_known_to_be_missing(
    tmp_path: pathlib.Path, seed: int
) -> None:
    endings = set()
    for step in points(10 + seed)[4 * seed :]:
        with serving(tmp_path) as server:
            first = Packed(server.address, step, server.process.pid, IDS)
            server.process.wait(60)
        assert first.returncode == 0 and first.said["left"] == "0"
        assert len(set(first.ids)) == len(first.ids)
        endings.add(first.said["ended"])
        # The server may have sent all before.
        assert first.said["ended"] == "UNAVAILABLE" or sorted(first.ids) == IDS, step
        # Those that no batch has brought are sent again.
        with serving(tmp_path) as server:
            missing = [each for each in IDS if each not in set(first.ids)]
            again = Packed(server.address, 0, 0, missing)
        assert again.said["ended"] == "OK"
        assert sorted(first.ids + again.ids) == IDS
    assert "UNAVAILABLE" in endings <= {"UNAVAILABLE", "OK"}
