"""packhouse.lightning.DataModule with Lightning itself: each graph once an epoch, whatever stops it.

python test_trainers_lightning.py ADDRESS FOLDER STEPS    # one rank of two, as the test starts them
"""

from __future__ import annotations

import collections
import pathlib
import sys
from typing import Any

import pytest
import torch
from numbered_graphs import LIMITS, NUM_GRAPHS, run_ranks, store, told

from packhouse import Client, Evaluation, Loader, LocalServer

lightning = pytest.importorskip("lightning")

from packhouse.lightning import DataModule

STEPS = 5


@pytest.fixture(scope="module", autouse=True)
def graphs(client: Client) -> None:
    store(client, "module")


class Stop(Exception):
    """The machine fails."""


class Model(lightning.LightningModule):
    """Notes the graphs that it is trained on; fails after so many steps of all."""

    def __init__(self, fails_after: int = 0) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained: dict[int, list[int]] = collections.defaultdict(list)
        self.validated: list[int] = []
        self._left = fails_after or 1 << 30

    def training_step(self, batch: Any, _: int) -> Any:
        if not self._left:
            raise Stop
        self._left -= 1
        self.trained[self.current_epoch] += numbers(batch)
        return self.layer(batch["x"]).mean()

    def validation_step(self, batch: Any, _: int) -> None:
        self.validated += numbers(batch)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 1e-3)


def numbers(batch: Any) -> list[int]:
    return [int(number) for number in batch["x"][::2, 0]]


def data_of(address: str, job: str, **options: Any) -> DataModule:
    return DataModule(
        Loader(address, dataset="module", job=job, limits=LIMITS),
        val=Evaluation(address, dataset="module", limits=LIMITS),
        **options,
    )


def trainer_of(epochs: int, *callbacks: Any, **options: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    checkpoints = {} if callbacks else {"enable_checkpointing": False}
    settings: dict[str, Any] = {"accelerator": "cpu", "callbacks": list(callbacks), **options}
    return lightning.Trainer(max_epochs=epochs, **quiet, **checkpoints, **settings)


def assert_all_done(server: LocalServer, job: str, epochs: int) -> None:
    with Loader(server.address, dataset="module", job=job, limits=LIMITS) as loader:
        for epoch in range(epochs):
            loader.set_epoch(epoch)
            info = loader.epoch_info()
            assert info.num_done == info.num_batches == STEPS, f"epoch {epoch}: {info.num_done}"


@pytest.mark.parametrize("workers", [0, 2])
def test_each_epoch_has_each_graph_once(server: LocalServer, workers: int) -> None:
    options = {"num_workers": workers, "multiprocessing_context": "spawn"} if workers else {}
    model, job = Model(), f"module-{workers}"
    trainer = trainer_of(3, num_sanity_val_steps=0)
    trainer.fit(model, data_of(server.address, job, **options))
    assert trainer.global_step == 3 * STEPS
    assert {epoch: sorted(each) for epoch, each in model.trained.items()} == {
        epoch: list(range(NUM_GRAPHS)) for epoch in range(3)
    }
    assert sorted(model.validated) == sorted(3 * list(range(NUM_GRAPHS)))
    assert_all_done(server, job, 3)


# In the middle of an epoch, with a step more than was saved, and at the end of one.
@pytest.mark.parametrize("fails_after, kept", [(3, 2), (8, 8), (10, 10)])
@pytest.mark.filterwarnings("error:.*dataloader is not resumable")
def test_a_checkpoint_goes_on_with_exactly_the_rest(
    server: LocalServer, tmp_path: pathlib.Path, fails_after: int, kept: int
) -> None:
    from lightning.pytorch.callbacks import ModelCheckpoint

    job = f"resumed-{fails_after}"

    def saving() -> ModelCheckpoint:
        return ModelCheckpoint(tmp_path, every_n_train_steps=2, save_top_k=-1)

    before = Model(fails_after)
    with pytest.raises(Stop):
        trainer_of(3, saving()).fit(before, data_of(server.address, job))
    (saved,) = tmp_path.glob(f"*step={kept}.ckpt")
    after = Model()
    trainer = trainer_of(3, saving())
    trainer.fit(after, data_of(server.address, job), ckpt_path=saved)
    assert trainer.global_step == 3 * STEPS
    for epoch in range(3):
        # What was trained on after the checkpoint is forgotten with it, and comes again.
        first = before.trained[epoch][: 4 * max(0, min(STEPS, kept - epoch * STEPS))]
        assert sorted(first + after.trained[epoch]) == list(range(NUM_GRAPHS)), f"epoch {epoch}"
    assert_all_done(server, job, 3)


def test_two_ranks_have_equal_steps_and_go_on_with_exactly_the_rest(
    server: LocalServer, tmp_path: pathlib.Path
) -> None:
    """Five batches in three steps: one rank trains on padding once an epoch."""
    before = run_ranks(__file__, server.address, str(tmp_path), "4")
    assert told(before, "steps") == [4, 4]
    # Of the second epoch one step, of the checkpoint.
    after = run_ranks(__file__, server.address, str(tmp_path), "6")
    assert told(after, "steps") == [6, 6]
    assert sorted(told(before, "trained") + told(after, "trained")) == sorted(2 * list(range(NUM_GRAPHS)))


def test_what_is_packhouses_to_say_is_refused(server: LocalServer) -> None:
    with pytest.raises(TypeError, match="batch_size: the loader's arguments"):
        data_of(server.address, "refused", batch_size=3)


def run_rank(address: str, folder: str, steps: str) -> None:
    """To so many steps, from the last checkpoint if there is one."""
    from lightning.pytorch.callbacks import ModelCheckpoint

    model = Model()
    saving = ModelCheckpoint(folder, filename="at", every_n_train_steps=4, save_top_k=-1)
    trainer = trainer_of(
        2, saving, strategy="ddp", devices=2, num_sanity_val_steps=0, max_steps=int(steps)
    )
    saved = pathlib.Path(folder, "at.ckpt")
    trainer.fit(model, data_of(address, "two-ranks"), ckpt_path=saved if steps == "6" else None)
    for each in model.trained.values():
        print("trained", *each)
    print("steps", trainer.global_step, flush=True)


if __name__ == "__main__":
    run_rank(*sys.argv[1:])
