"""Whatever is raised at any line of the client beneath torch's DataLoader: each graph comes once."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np
import pytest

from packhouse import Client, GraphSchema, GraphTable, LocalServer, TensorSpec

pytest.importorskip("torch")

PROGRAM = pathlib.Path(__file__).with_name("interrupted_epochs.py")
NUM_GRAPHS = 24
DATASET = "interrupted-epochs"


@pytest.fixture(scope="module", autouse=True)
def dataset(client: Client) -> None:
    schema = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
    client.datasets.create(DATASET, schema)
    client.datasets.append(
        DATASET,
        GraphTable.from_graphs(
            schema, [{"x": np.full(3, number, np.float32)} for number in range(NUM_GRAPHS)]
        ),
    )
    client.datasets.seal(DATASET)


# With the part of the lines that is tried: each begins an epoch of its own.
@pytest.mark.parametrize("kind, part", [("plain", 60), ("trained", 60), ("workers", 100)])
def test_an_exception_at_any_line_loses_nothing(server: LocalServer, kind: str, part: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-B", PROGRAM, kind, server.address, DATASET, str(part)],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.endswith(" lines\n")
