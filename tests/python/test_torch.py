"""Epochs through torch's own DataLoader. In processes of their own: forks need one without gRPC."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
from typing import Iterator

import numpy as np
import pytest
from random_graphs import molecules

from packhouse import Client, Evaluation, Loader, LocalServer

pytest.importorskip("torch.utils.data")

PROGRAM = pathlib.Path(__file__).with_name("torch_epochs.py")
GRAPHS = 300
LIMITS = {"nodes": 128, "edges": 288, "graphs": 12}


@pytest.fixture(scope="module")
def dataset(server: LocalServer, client: Client) -> str:
    table = molecules(np.random.default_rng(5), GRAPHS)
    client.datasets.create("torch", table.schema)
    client.datasets.append("torch", [table])
    client.datasets.seal("torch")
    return "torch"


@pytest.fixture(scope="module", name="expected")
def expected_fixture(
    server: LocalServer, dataset: str, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """A file with what two epochs should be."""
    told = []
    for epoch in range(2):
        batches = Evaluation(server.address, dataset=dataset, limits=LIMITS, seed=7, epoch=epoch)
        told.append([batch.graph_ids.tolist() for batch in batches])
    file = tmp_path_factory.mktemp("expected") / "epochs.json"
    file.write_text(json.dumps(told))
    return file


@pytest.mark.parametrize("mode", ["ranked", "dynamic"])
@pytest.mark.parametrize("start", ["none", "fork", "spawn"])
def test_every_graph_comes_once_whatever_reads(
    server: LocalServer, dataset: str, expected: pathlib.Path, start: str, mode: str
) -> None:
    """0, 1, 2 and 4 worker processes, which live on or not: no hang, the order of a rank kept."""
    ran = subprocess.run(
        [sys.executable, PROGRAM, "recipe", server.address, dataset, expected, start, mode],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count(": ok\n") == {"none": 1, "fork": 6, "spawn": 2}[start]


def test_the_recipe_of_the_readme_runs(server: LocalServer, dataset: str) -> None:
    """Word for word, except for names and the number of epochs."""
    readme = PROGRAM.parents[2] / "client" / "python" / "README.md"
    (recipe,) = re.findall(
        "## In torch's DataLoader\n\n```python\n(.*?)```", readme.read_text(), flags=re.DOTALL
    )
    for word, instead in (
        ("localhost:50051", server.address),
        ('"molecules"', f'"{dataset}"'),
        ("range(10)", "range(3)"),
    ):
        assert recipe.count(word) == 1
        recipe = recipe.replace(word, instead)
    around = """
import collections, faulthandler
faulthandler.dump_traceback_later(250, exit=True)
limits = {"nodes": 128, "edges": 288, "graphs": 12}
model, steps = None, collections.Counter()
def train(x, mask): steps["trained"] += bool(len(x) == len(mask) > 0)
def time_for_a_checkpoint(): return steps["trained"] % 7 == 0
def save(model, state): steps["saved", state["epoch"]] += state["cursor"] != ""
"""
    report = "print(*steps.values(), len(dataset), dataset.epoch_info().num_done)"
    ran = subprocess.run(
        [sys.executable, "-c", around + recipe + report], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with Loader(server.address, dataset=dataset, job="steps", limits=LIMITS) as loader:
        num_steps = len(loader)
    trained, *saved, length, done = map(int, ran.stdout.split())
    assert (trained, length, done) == (3 * num_steps, num_steps, num_steps)
    assert len(saved) == 3 and sum(saved) == trained // 7


@pytest.mark.parametrize("program", ["evaluation", "transforms", "plain", "ahead"])
def test_what_the_program_says(server: LocalServer, dataset: str, program: str) -> None:
    """See torch_epochs.py."""
    ran = subprocess.run(
        [sys.executable, PROGRAM, program, server.address, dataset], capture_output=True, text=True
    )
    assert ran.returncode == 0 and ran.stdout == "ok\n", ran.stdout + ran.stderr


def test_the_recipe_for_rows_runs(server: LocalServer) -> None:
    """Word for word, except for the address."""
    page = (PROGRAM.parents[2] / "docs" / "frameworks" / "torch.md").read_text()
    (recipe,) = re.findall("## Rows of plain tensors\n\n```python\n(.*?)```", page, flags=re.DOTALL)
    torch = pytest.importorskip("torch")
    steps: list[int] = []
    names = {
        "X": torch.rand(300, 5),
        "y": torch.arange(300),
        "step": lambda x, target: steps.append(len(x)),
    }
    exec(recipe.replace("localhost:50051", server.address), names)
    assert sum(steps) == 3000 and len(steps) == 50


def test_the_page_of_torch_runs(server: LocalServer, dataset: str) -> None:
    """Word for word, except for names and the number of epochs; in a process that may fork."""
    page = (PROGRAM.parents[2] / "docs" / "frameworks" / "torch.md").read_text()
    snippets = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert len(snippets) == 5
    program = "\n".join(snippets)
    for word, instead in (
        ("localhost:50051", server.address),
        ('"molecules"', f'"{dataset}"'),
        ('job="run-1"', 'job="page"'),
        ("range(10)", "range(2)"),
    ):
        assert word in program
        program = program.replace(word, instead)
    around = """
import collections, faulthandler
import torch
faulthandler.dump_traceback_later(250, exit=True)
X, y, device = torch.rand(300, 5), torch.arange(300), "cpu"
counts = collections.Counter()
def train(x, senders, receivers, mask): counts["graphs"] += int(mask.sum())
def step(x, target): counts["rows"] += len(x)
"""
    report = "\nprint(counts['graphs'], graphs, counts['rows'])"
    ran = subprocess.run(
        [sys.executable, "-c", around + program + report], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.split() == [str(3 * GRAPHS), str(GRAPHS), "600"]


def test_ranks_of_torch_share_an_epoch_without_being_told(
    server: LocalServer, dataset: str, tmp_path: pathlib.Path
) -> None:
    command = [sys.executable, PROGRAM, "rank", server.address, dataset, tmp_path / "meet"]
    ranks = [
        subprocess.Popen([*command, str(rank), "2"], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    told = [json.loads(rank.communicate()[0]) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert len(told[0]) == len(told[1])
    assert sorted(graph for batches in told for batch in batches for graph in batch) == list(
        range(GRAPHS)
    )


class Trainer:
    """One of several that share an epoch; trains on a batch when it is told to."""

    def __init__(self, server: LocalServer, dataset: str, job: str, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, "trainer", server.address, dataset, job, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.in_hand: list[int] | None = None
        self.trained: list[int] = []

    def step(self) -> bool:
        """Whether there was one more batch. What it had in hand is done."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if self.in_hand is not None:
            self.trained += self.in_hand
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        self.in_hand = [int(name) for name in line.split()] if line else None
        return bool(line)

    def kill(self) -> None:
        """With its worker processes, as when a machine dies."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> int:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        return self._process.wait()


@pytest.fixture
def job(request: pytest.FixtureRequest) -> str:
    return str(request.function.__name__)


@pytest.fixture
def trainers(server: LocalServer, dataset: str, job: str) -> Iterator[list[Trainer]]:
    made = [Trainer(server, dataset, job, name) for name in ("a", "b")]
    yield made
    for trainer in made:
        trainer.kill()
        trainer.close()


def finish(server: LocalServer, job: str, *trainers: Trainer) -> None:
    def run(trainer: Trainer) -> None:
        while trainer.step():
            pass

    threads = [threading.Thread(target=run, args=(trainer,)) for trainer in trainers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for trainer in trainers:
        assert trainer.close() == 0
    with Loader(server.address, dataset="torch", job=job, limits=LIMITS) as loader:
        info = loader.epoch_info()
        assert info.num_done == info.num_batches


def test_trainers_that_share_an_epoch_wait_for_each_other_only_at_its_end(
    server: LocalServer, job: str, trainers: list[Trainer]
) -> None:
    a, b = trainers
    # One is slow from the start to the end.
    assert b.step()
    while len(a.trained) + len(b.trained) < GRAPHS - 200:
        assert a.step()
    finish(server, job, a, b)
    assert sorted(a.trained + b.trained) == list(range(GRAPHS))


def test_what_a_trainer_had_that_died_another_one_gets(
    server: LocalServer, job: str, trainers: list[Trainer]
) -> None:
    a, b = trainers
    for _ in range(4):
        assert a.step() and b.step()
    lost = a.in_hand
    a.kill()
    finish(server, job, b)
    assert lost is not None and set(lost) <= set(b.trained)
    # The last that it was told to train on may not have been acknowledged when it died.
    assert sorted(set(a.trained + b.trained)) == list(range(GRAPHS))
    assert len(b.trained) == len(set(b.trained))


def test_what_others_have_at_the_end_comes_when_they_leave(
    server: LocalServer, dataset: str, job: str
) -> None:
    with Loader(
        server.address, dataset=dataset, job=job, limits=LIMITS, worker="other", max_in_flight=1
    ) as other:
        kept = next(iter(other)).graph_ids
        trainer = Trainer(server, dataset, job, "trainer")
        with contextlib.ExitStack() as ends:
            ends.callback(trainer.kill)
            steps = threading.Thread(target=finish, args=(server, job, trainer))
            steps.start()
            ends.callback(steps.join)
            # All the rest is done; the trainer waits, or has ended too early.
            info = other.epoch_info()
            while steps.is_alive() and info.num_done < info.num_batches - 1:
                info = other.epoch_info()
            other.close()
            steps.join()
    assert set(kept) <= set(trainer.trained)
    assert sorted(trainer.trained) == list(range(GRAPHS))
