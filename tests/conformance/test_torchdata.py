"""torchdata's StatefulDataLoader beside packhouse's data set: its state alone goes on exactly, and whatever
is raised in the client each graph comes once.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torchdata.stateful_dataloader")

PROGRAM = pathlib.Path(__file__).with_name("stateful_epochs.py")


@pytest.fixture(scope="module")
def dataset(server, client) -> str:  # type: ignore[no-untyped-def]
    from packhouse import GraphSchema, GraphTable, TensorSpec

    schema = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
    nodes = np.random.default_rng(5).integers(1, 40, (300, 1))
    table = GraphTable(schema, nodes, {"x": np.ones(nodes.sum(), np.float32)})
    client.datasets.create("stateful", schema)
    client.datasets.append("stateful", table)
    client.datasets.seal("stateful")
    return "stateful"


def run(*arguments: object) -> list[list[int]]:
    """What a trainer was given: in a process of its own, as it forks."""
    command = [sys.executable, PROGRAM, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    batches: list[list[int]] = json.loads(ran.stdout)
    return batches


@pytest.mark.parametrize(
    ("source", "workers", "steps"),
    [
        *(("loader", 0, 2), ("loader", 1, 1), ("loader", 2, 1), ("loader", 3, 7)),
        *(("evaluation", 0, 7), ("evaluation", 3, 7)),
    ],
)
def test_a_state_goes_on_exactly(
    server, dataset: str, tmp_path: pathlib.Path, source: str, workers: int, steps: int
) -> None:  # type: ignore[no-untyped-def]
    """The server has gone further since: the first trainer went on after the state."""
    state = tmp_path / "state"
    job = f"{source}-{workers}-{steps}"
    place = (server.address, dataset, source, job, workers, state)
    first = run("first", *place, steps, steps + 5)
    assert len(first) == steps + 5
    rest = run("second", *place)
    again = run("second", *place)
    assert rest == again
    assert rest[:5] == first[steps:]
    everything = [graph for batch in first[:steps] + rest for graph in batch]
    assert sorted(everything) == list(range(300))


INTERRUPTED = PROGRAM.parents[1] / "python" / "interrupted_epochs.py"


# With the part of the lines that is tried (interrupting.py).
@pytest.mark.parametrize(("kind", "part"), [("stateful", 50), ("stateful-workers", 20)])
def test_an_exception_at_any_line_loses_nothing(server, client, kind: str, part: int) -> None:  # type: ignore[no-untyped-def]
    from packhouse import GraphSchema, GraphTable, TensorSpec

    schema = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
    graphs = [{"x": np.full(3, number, np.float32)} for number in range(24)]
    dataset = f"interrupted-{kind}"
    client.datasets.create(dataset, schema)
    client.datasets.append(dataset, GraphTable.from_graphs(schema, graphs))
    client.datasets.seal(dataset)
    command = [sys.executable, "-B", INTERRUPTED, kind, server.address, dataset, str(part)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
