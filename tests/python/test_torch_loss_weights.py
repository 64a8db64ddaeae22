"""DistributedDataParallel with weights of the loss, beside one batch that is the whole epoch."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from random_graphs import labelled_molecules

from packhouse import Client, LocalServer

torch = pytest.importorskip("torch")
PROGRAM = pathlib.Path(__file__).with_name("torch_weights.py")
DATASET = "torch-weights"
TABLE = labelled_molecules(np.random.default_rng(3), 300)


@pytest.fixture(scope="module", autouse=True)
def dataset(client: Client) -> None:
    client.datasets.create(DATASET, TABLE.schema)
    client.datasets.append(DATASET, [TABLE])
    client.datasets.seal(DATASET)


@pytest.mark.parametrize("component", ["nodes", "labelled"])
def test_the_gradient_of_an_epochs_steps_is_that_of_one_big_batch(
    server: LocalServer, tmp_path: pathlib.Path, component: str
) -> None:
    from torch_weights import gradient_of, losses_of, make_model

    command = [sys.executable, PROGRAM, server.address, DATASET, tmp_path / "meet"]
    ranks = [
        subprocess.Popen([*command, str(rank), "2", component], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    told = [json.loads(rank.communicate()[0]) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    # Both have the mean of their gradients.
    assert told[0] == told[1]
    assert told[0]["steps"] == (told[0]["batches"] + 1) // 2

    model = make_model()
    losses = losses_of(model, torch.from_numpy(TABLE.tensors["x"].astype(np.int64)))
    if component == "labelled":
        losses = losses[torch.from_numpy(TABLE.tensors["labelled"])]
    losses.mean().backward()
    # The sum over ranks and steps, over the number of batches.
    steps = np.array(told[0]["gradient"]) * 2 / told[0]["batches"]
    assert steps == pytest.approx(np.array(gradient_of(model)), rel=1e-9)
