"""packhouse.huggingface.Trainer with transformers itself: each graph once an epoch, whatever stops it.

python test_huggingface_trainer.py ADDRESS FOLDER STEPS    # one rank of two, as the test starts them
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest
import torch
from numbered_graphs import LIMITS, NUM_GRAPHS, run_ranks, store, told
from transformers import TrainingArguments

from packhouse import Client, Loader, LocalServer
from packhouse.huggingface import Trainer

STEPS = 5


@pytest.fixture(scope="module", autouse=True)
def graphs(client: Client) -> None:
    store(client, "hugging")


class Stop(Exception):
    """The machine fails."""


class Model(torch.nn.Module):
    """Notes the graphs that it is trained on; fails after so many steps."""

    def __init__(self, fails_after: int = 0) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained: list[list[int]] = []
        self._fails_after = fails_after

    def forward(self, x: Any) -> Any:
        if self._fails_after and len(self.trained) == self._fails_after:
            raise Stop
        self.trained.append([int(number) for number in x[::2, 0]])
        return {"loss": self.layer(x).sum()}


def trainer_of(address: str, job: str, model: Model, folder: pathlib.Path) -> Trainer:
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=3,
        save_steps=2,
        save_strategy="steps",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        per_device_train_batch_size=1,
    )
    return Trainer(model, arguments, train=Loader(address, dataset="hugging", job=job, limits=LIMITS))


def assert_each_once(steps: list[list[int]]) -> None:
    assert len(steps) == 3 * STEPS
    for epoch in range(3):
        graphs = sum(steps[epoch * STEPS : (epoch + 1) * STEPS], [])
        assert sorted(graphs) == list(range(NUM_GRAPHS)), f"epoch {epoch}"


def test_each_epoch_has_each_graph_once(server: LocalServer, tmp_path: pathlib.Path) -> None:
    model = Model()
    trainer = trainer_of(server.address, "hugging", model, tmp_path)
    trainer.train()
    assert trainer.state.global_step == 3 * STEPS and trainer.state.epoch == 3.0
    assert_each_once(model.trained)
    with Loader(server.address, dataset="hugging", job="hugging", limits=LIMITS) as loader:
        for epoch in range(3):
            loader.set_epoch(epoch)
            assert loader.epoch_info().num_done == STEPS


# In the middle of an epoch, with a step more than was saved, and at the end of one.
@pytest.mark.parametrize("fails_after, kept", [(3, 2), (8, 8), (10, 10)])
def test_a_checkpoint_goes_on_with_exactly_the_rest(
    server: LocalServer, tmp_path: pathlib.Path, fails_after: int, kept: int
) -> None:
    job = f"hugging-{fails_after}"
    before, after = Model(fails_after), Model()
    with pytest.raises(Stop):
        trainer_of(server.address, job, before, tmp_path).train()
    trainer = trainer_of(server.address, job, after, tmp_path)
    trainer.train(resume_from_checkpoint=True)
    assert trainer.state.global_step == 3 * STEPS
    # What was trained on after the checkpoint is forgotten with it, and comes again.
    assert_each_once(before.trained[:kept] + after.trained)


def test_a_checkpoint_of_another_trainer_is_named(
    server: LocalServer, tmp_path: pathlib.Path
) -> None:
    trainer = trainer_of(server.address, "hugging-other", Model(), tmp_path)
    trainer.train()
    saved = tmp_path / "checkpoint-14"
    (saved / "packhouse.json").unlink()
    again = trainer_of(server.address, "hugging-another", Model(), tmp_path)
    with pytest.raises(FileNotFoundError, match="checkpoint-14: the checkpoint has no packhouse.json"):
        again.train(resume_from_checkpoint=str(saved))


def test_two_ranks_have_equal_steps_and_go_on_with_exactly_the_rest(
    server: LocalServer, tmp_path: pathlib.Path
) -> None:
    """Five batches in three steps: one rank trains on padding once an epoch."""
    before = run_ranks(__file__, server.address, str(tmp_path), "4")
    assert told(before, "steps") == [4, 4]
    after = run_ranks(__file__, server.address, str(tmp_path), "9")
    assert told(after, "steps") == [9, 9]
    assert sorted(told(before, "trained") + told(after, "trained")) == sorted(3 * list(range(NUM_GRAPHS)))


def run_rank(address: str, folder: str, steps: str) -> None:
    """To so many steps, from the last checkpoint if there is one."""
    model = Model()
    trainer = trainer_of(address, "hugging-ranks", model, pathlib.Path(folder))
    trainer.args.max_steps = int(steps)
    # It finds no place "cpu:0" for the optimizer's state, of several processes on a CPU.
    trainer._load_optimizer_and_scheduler = lambda checkpoint: None
    trainer.train(resume_from_checkpoint=steps == "9")
    print("trained", *sum(model.trained, []))
    print("steps", trainer.state.global_step, flush=True)


if __name__ == "__main__":
    run_rank(*sys.argv[1:])
