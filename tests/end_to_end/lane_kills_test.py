"""A C++ client of Load or Pack by a lane, or its server, is killed at any point of the stream.

With PACKHOUSE_ALL_CASES=1 (`make soak-lanes`) at every step of the client.
"""

from __future__ import annotations

import collections
import os
import pathlib
import random
import signal
import subprocess
import time
from typing import Callable, Iterator

import numpy as np
import pytest
from lane_remains import tell
from lane_test import await_left, left
from server_process import ServerProcess

from packhouse import Client, GraphSchema, GraphTable, TensorSpec

PROGRAM = os.environ["PACKHOUSE_LANE_UNTIL_KILLED"]
IDS = list(range(60))
# Of the program.
WIDTH = 4096
ROWS = 3
MOST_IN_FLIGHT = 8

Meanwhile = Callable[["subprocess.Popen[str]"], None]


class Ran:
    """What the program has said before it ended, if it did. `meanwhile` is called as it runs."""

    def __init__(self, *words: object, meanwhile: Meanwhile = lambda running: None) -> None:
        command = [PROGRAM, *map(str, words)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            meanwhile(running)
            said = running.communicate(timeout=240)[0]
        self.returncode = running.returncode
        # Without a line that a kill has cut off.
        lines = [line.split() for line in said[: said.rfind("\n") + 1].splitlines()]
        assert "another" not in [line[0] for line in lines]
        # By number: a checksum, and the graphs.
        self.batches = {int(line[1]): tuple(map(int, line[2:])) for line in lines if line[0] == "batch"}
        self.ids = [graph for _, *graphs in self.batches.values() for graph in graphs]
        assert len(self.batches) == sum(line[0] == "batch" for line in lines), "a batch came twice"
        assert len(self.ids) == len(set(self.ids))
        self.said = {line[0]: line[1] for line in lines if line[0] != "batch"}


def pack(server: ServerProcess, step: int = 0, pid: int = 0, ids: list[int] = IDS) -> Ran:
    return Ran("pack", server.address, step, pid, *ids)


def points(seed: int, most: int, count: int, times: int = 1) -> list[int]:
    """Some of the steps, the first ones among them; or all, so many times, each time in another order:
    threads are elsewhere each time.
    """
    draws = random.Random(seed)
    if os.environ.get("PACKHOUSE_ALL_CASES"):
        return [step for _ in range(times) for step in draws.sample(range(1, most + 1), most)]
    return [*range(1, 5), *draws.sample(range(5, most + 1), count)]


def test_nothing_stays_of_a_packer_that_is_killed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ServerProcess("--lane", f"unix:{tmp_path}/lane") as server:
        whole = pack(server)
        assert (sorted(whole.ids), whole.said["ended"], whole.said["left"]) == (IDS, "OK", "0")
        await_left(server, 10**6)
        before = left(server)[0]
        endings = collections.Counter[int]()
        for step in points(1, int(whole.said["steps"]) * 9 // 10, 12, 2):
            endings[pack(server, step).returncode] += 1
            await_left(server, before + 2)
        assert sorted(pack(server).ids) == IDS
    assert endings.keys() <= {-signal.SIGKILL, 0} and endings[-signal.SIGKILL] > 0
    tell(capsys, f"{endings[-signal.SIGKILL]} packers killed")


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_servers_graphs_come_once_or_are_known_to_be_missing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    endings = collections.Counter[str]()
    for step in points(10 + seed, 300, 8):
        with ServerProcess("--lane", f"unix:{tmp_path}/lane") as server:
            first = pack(server, step, server.process.pid)
            server.process.kill()
            server.process.wait(60)
        assert first.returncode == 0 and first.said["left"] == "0"
        endings[first.said["ended"]] += 1
        # The server may have sent all before.
        assert first.said["ended"] == "UNAVAILABLE" or sorted(first.ids) == IDS, step
        # Those that no batch has brought are sent again.
        with ServerProcess("--lane", f"unix:{tmp_path}/lane") as server:
            again = pack(server, ids=sorted(set(IDS) - set(first.ids)))
        assert again.said["ended"] == "OK"
        assert sorted(first.ids + again.ids) == IDS
    assert endings["UNAVAILABLE"] > 0 and endings.keys() <= {"UNAVAILABLE", "OK"}
    tell(capsys, f"{endings['UNAVAILABLE']} servers killed under a packer")


class Jobs:
    """A server with numbered graphs; jobs of it, each of which loads the same epoch."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.server = ServerProcess(
            *("--data-dir", str(folder / "data"), "--lane", f"unix:{folder}/lane")
        )
        schema = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes", (WIDTH,)),))
        graphs = [{"x": np.full((ROWS, WIDTH), i, np.float32)} for i in IDS]
        with Client(self.server.address) as client:
            client.datasets.create("set", schema)
            client.datasets.append("set", GraphTable.from_graphs(schema, graphs))
            client.datasets.seal("set")
        self.by_grpc = Ran("load-by-grpc", self.server.address, 0, 0, "by-grpc")
        self.by_lane = Ran("load", self.server.address, 0, 0, "by-lane")
        await_left(self.server, 10**6)
        self.num_descriptors = left(self.server)[0] + 2

    def load(self, job: str, step: int = 0, pid: int = 0, **more: Meanwhile) -> Ran:
        """What came is as by gRPC."""
        ran = Ran("load", self.server.address, step, pid, job, **more)
        assert ran.batches.items() <= self.by_grpc.batches.items()
        return ran

    def all_done(self, job: str) -> bool:
        with Client(self.server.address) as client:
            (epoch,) = client.jobs.get(job).epochs
        return epoch.num_done == epoch.num_batches == len(self.by_grpc.batches)


@pytest.fixture
def jobs(tmp_path: pathlib.Path) -> Iterator[Jobs]:
    made = Jobs(tmp_path)
    with made.server:
        assert made.by_lane.batches == made.by_grpc.batches
        assert sorted(made.by_grpc.ids) == IDS
        assert (made.by_lane.said["transport"], made.by_grpc.said["transport"]) == ("lane", "grpc")
        yield made


def test_a_loader_that_is_killed_loses_and_leaves_nothing(
    jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    most = int(jobs.by_lane.said["steps"]) * 9 // 10
    num_again = num_killed = 0
    for number, step in enumerate(points(20, most, 10, 8)):
        killed = jobs.load(f"job-{number}", step)
        assert killed.returncode in (-signal.SIGKILL, 0)
        num_killed += killed.returncode != 0
        await_left(jobs.server, jobs.num_descriptors)
        rest = jobs.load(f"job-{number}")
        assert (rest.said["ended"], rest.said["left"]) == ("OK", "0")
        assert killed.batches | rest.batches == jobs.by_grpc.batches, step
        # What came again had not been acknowledged.
        again = killed.batches.keys() & rest.batches.keys()
        assert len(again) <= MOST_IN_FLIGHT, step
        num_again += len(again)
        assert jobs.all_done(f"job-{number}"), step
    assert num_again > 0 and num_killed > 0
    tell(capsys, f"{num_killed} loaders killed")


def test_a_server_that_is_killed_under_a_loader_gives_each_graph_once(
    jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    most = int(jobs.by_lane.said["steps"]) * 9 // 10
    endings, transports = collections.Counter[int | None](), collections.Counter[str]()

    def starts_again(running: subprocess.Popen[str]) -> None:
        while jobs.server.process.poll() is None and running.poll() is None:
            time.sleep(0.01)
        endings[jobs.server.process.poll()] += 1
        jobs.server.kill()
        jobs.server.start()

    for number, step in enumerate(points(30, most, 10, 4)):
        pid = jobs.server.process.pid
        loaded = jobs.load(f"job-{number}", step, pid, meanwhile=starts_again)
        assert (loaded.returncode, loaded.said["ended"], loaded.said["left"]) == (0, "OK", "0")
        assert loaded.batches == jobs.by_grpc.batches, step
        transports[loaded.said["transport"]] += 1
        await_left(jobs.server, jobs.num_descriptors)
        assert jobs.all_done(f"job-{number}"), step
    assert transports["lane"] > 0 and endings[-signal.SIGKILL] > 0
    tell(capsys, f"{endings[-signal.SIGKILL]} servers killed under a loader")
