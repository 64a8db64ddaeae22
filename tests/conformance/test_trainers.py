"""Real trainers, which count steps or shard by themselves: every graph is trained once, or it is refused.

python test_trainers.py ADDRESS DATASET WAY    # one rank of accelerate, as the test starts them
"""

from __future__ import annotations

import collections
import sys
from typing import Any, Iterator

import pytest
import torch
from numbered_graphs import LIMITS, NUM_GRAPHS, run_ranks, store, told
from torch.utils.data import DataLoader

from packhouse import Client, Loader, LocalServer
from packhouse.torch import EpochDataset


@pytest.fixture(scope="module", autouse=True)
def graphs(client: Client) -> None:
    store(client, "twenty")


def epochs_of(server: LocalServer, job: str, **settings: Any) -> EpochDataset:
    return EpochDataset(
        Loader(server.address, dataset="twenty", job=job, limits=LIMITS, **settings)
    )


def loader_of(epochs: EpochDataset, workers: int = 0) -> DataLoader[Any]:
    context = "spawn" if workers else None
    return DataLoader(epochs, batch_size=None, num_workers=workers, multiprocessing_context=context)


def numbers(batch: Any) -> list[int]:
    """Of the graphs in it."""
    return [int(number) for number in batch["x"][::2, 0]]


def assert_all_done(server: LocalServer, job: str, epochs: range) -> None:
    with Loader(server.address, dataset="twenty", job=job, limits=LIMITS) as loader:
        for epoch in epochs:
            loader.set_epoch(epoch)
            info = loader.epoch_info()
            assert info.num_done == info.num_batches == 5, f"epoch {epoch}: {info.num_done}"


def assert_each_once(trained: dict[int, list[int]], epochs: range) -> None:
    assert {epoch: sorted(numbers) for epoch, numbers in trained.items()} == {
        epoch: list(range(NUM_GRAPHS)) for epoch in epochs
    }


class Stop(Exception):
    """The machine fails."""


@pytest.mark.parametrize("workers", [0, 2])
def test_lightning(server: LocalServer, workers: int) -> None:
    """It counts `len` steps. With worker processes the module acknowledges."""
    import lightning

    job = f"lightning-{workers}"
    epochs = epochs_of(server, job, acknowledge="manual" if workers else "automatic")
    trained: dict[int, list[int]] = collections.defaultdict(list)

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def on_train_epoch_start(self) -> None:
            epochs.set_epoch(self.current_epoch)

        def training_step(self, batch: Any, _: int) -> Any:
            trained[self.current_epoch] += numbers(batch)
            return self.layer(batch["x"]).mean()

        def on_train_batch_end(self, outputs: Any, batch: Any, _: int) -> None:
            if workers:
                epochs.acknowledge(batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-3)

    lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Model(), loader_of(epochs, workers))
    epochs.close()
    assert_each_once(trained, range(3))
    assert_all_done(server, job, range(3))


def test_ignite(server: LocalServer) -> None:
    from ignite.engine import Engine, Events

    epochs = epochs_of(server, "ignite")
    trained: dict[int, list[int]] = collections.defaultdict(list)

    def step(engine: Any, batch: Any) -> None:
        trained[engine.state.epoch - 1] += numbers(batch)

    engine = Engine(step)
    engine.add_event_handler(
        Events.EPOCH_STARTED, lambda engine: epochs.set_epoch(engine.state.epoch - 1)
    )
    engine.run(loader_of(epochs), max_epochs=3, epoch_length=len(epochs))
    epochs.close()
    assert_each_once(trained, range(3))
    assert_all_done(server, "ignite", range(3))


def test_ignite_that_fails_in_its_last_step_has_not_trained_on_it(server: LocalServer) -> None:
    from ignite.engine import Engine

    trained: dict[int, list[int]] = collections.defaultdict(list)

    def step(engine: Any, batch: Any) -> None:
        if engine.state.iteration == 5 and not trained[1]:
            raise Stop
        trained[0] += numbers(batch)

    with pytest.raises(Stop), epochs_of(server, "failing") as epochs:
        epochs.set_epoch(0)
        Engine(step).run(loader_of(epochs), max_epochs=1, epoch_length=5)
    trained[1] = [-1]
    with epochs_of(server, "failing", on_existing="resume") as epochs:
        epochs.set_epoch(0)
        Engine(step).run(loader_of(epochs), max_epochs=1, epoch_length=len(epochs))
    assert_each_once({0: trained[0]}, range(1))
    assert_all_done(server, "failing", range(1))


def rank_of_accelerate(address: str, dataset: str, way: str) -> None:
    """Prints the numbers of the graphs that this rank trains on."""
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    epochs = EpochDataset(Loader(address, dataset=dataset, job=f"accelerate-{way}", limits=LIMITS))
    data_loader = loader_of(epochs)
    if way != "own":
        data_loader = accelerator.prepare(data_loader)
    epochs.set_epoch(0)
    batches: Iterator[Any] = iter(data_loader if way == "plain" else epochs.trained(data_loader))
    for batch in batches:
        print("trained", *numbers(batch.to(accelerator.device)), flush=True)
    epochs.close()


def test_accelerate_beside_packhouse_shards_once(server: LocalServer) -> None:
    ranks = run_ranks(__file__, server.address, "twenty", "own")
    assert sorted(told(ranks, "trained")) == list(range(NUM_GRAPHS))


@pytest.mark.parametrize("way", ["plain", "trained"])
def test_accelerate_that_would_shard_once_more_is_refused(server: LocalServer, way: str) -> None:
    for rank in run_ranks(__file__, server.address, "twenty", way):
        assert rank.returncode and "trained" not in rank.stdout
        if "Connection" not in rank.stderr:
            assert "accelerate" in rank.stderr and "accelerator.prepare" in rank.stderr, rank.stderr


if __name__ == "__main__":
    rank_of_accelerate(*sys.argv[1:])
