"""packhouse.ray.DatasetShard in Ray Train itself: two workers, one fails, each graph once an epoch."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any, Iterator

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
import pytest
import ray
import ray.train
import ray.train.torch

from packhouse import Client, GraphSchema, GraphTable, Loader, LocalServer, TensorSpec

NUM_GRAPHS = 20
LIMITS = {"nodes": 8, "graphs": 4}
EPOCHS = 3


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """On this machine; its workers find the package and the frameworks where this process does."""
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    yield
    ray.shutdown()


@pytest.fixture(scope="module", autouse=True)
def graphs(client: Client) -> None:
    """Two nodes each, which have the number of their graph."""
    schema = GraphSchema(("nodes",), [TensorSpec("x", "float32", "nodes", (1,))])
    x = np.repeat(np.arange(NUM_GRAPHS, dtype=np.float32), 2)[:, np.newaxis]
    client.datasets.create("ray", schema)
    client.datasets.append("ray", GraphTable(schema, np.full((NUM_GRAPHS, 1), 2), {"x": x}))
    client.datasets.seal("ray")


def loop(config: dict[str, Any]) -> None:
    """Notes the graphs of each step, and fails once in the middle of the second epoch."""
    from packhouse.ray import DatasetShard

    notes = pathlib.Path(config["notes"])
    rank = ray.train.get_context().get_world_rank()
    shard = DatasetShard(config["loader"])
    shard.load_checkpoint(ray.train.get_checkpoint())
    start = "again" if ray.train.get_checkpoint() else "first"
    for epoch in range(shard.epoch, EPOCHS):
        for step, batch in enumerate(shard.iter_torch_batches(epoch)):
            if start == "first" and (epoch, step) == (1, 2):
                raise RuntimeError("the machine fails")
            numbers = [int(number) for number in batch["x"][::2, 0]]
            with open(notes / f"{start}-{epoch}-{rank}", "a") as file:
                print(*numbers, file=file)
            if step == 1 or epoch == EPOCHS - 1:
                with shard.checkpoint() as folder:
                    saved = ray.train.Checkpoint.from_directory(folder)
                    ray.train.report({"epoch": epoch}, checkpoint=saved)
    shard.close()


def test_workers_have_equal_steps_and_go_on_with_exactly_the_rest(
    server: LocalServer, tmp_path: pathlib.Path
) -> None:
    """Five batches in three steps of two workers, a checkpoint after the second one of each epoch."""
    notes = tmp_path / "notes"
    notes.mkdir()
    loader = Loader(server.address, dataset="ray", job="ray", limits=LIMITS)
    ray.train.torch.TorchTrainer(
        loop,
        train_loop_config={"loader": loader, "notes": str(notes)},
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(
            storage_path=str(tmp_path / "results"),
            failure_config=ray.train.FailureConfig(max_failures=1),
        ),
    ).fit()

    def noted(start: str, epoch: int) -> list[int]:
        files = [notes / f"{start}-{epoch}-{rank}" for rank in range(2)]
        return [int(word) for file in files if file.exists() for word in file.read_text().split()]

    assert sorted(noted("first", 0)) == list(range(NUM_GRAPHS))
    # What came before the checkpoint, and after it.
    assert noted("first", 1) and noted("again", 1)
    assert sorted(noted("first", 1) + noted("again", 1)) == list(range(NUM_GRAPHS))
    assert sorted(noted("again", 2)) == list(range(NUM_GRAPHS))
    with Loader(server.address, dataset="ray", job="ray", limits=LIMITS) as done:
        for epoch in range(EPOCHS):
            done.set_epoch(epoch)
            info = done.epoch_info()
            assert info.num_done == info.num_batches == 5
