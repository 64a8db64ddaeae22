"""packhouse.lightning, .ray and .huggingface with what these call of their frameworks, and no more.

tests/conformance has the frameworks.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import pathlib
import sys
import types
from typing import Any, Iterator

import numpy as np
import pytest

pytest.importorskip("torch.utils.data")

from packhouse import Client, Evaluation, GraphSchema, GraphTable, Loader, LocalServer, TensorSpec

NUM_GRAPHS = 20
# Four graphs: five steps an epoch.
LIMITS = {"nodes": 8, "graphs": 4}
ALL = list(range(NUM_GRAPHS))


@pytest.fixture(scope="module", autouse=True)
def graphs(client: Client) -> None:
    """Two nodes each, which have the number of their graph."""
    schema = GraphSchema(("nodes",), [TensorSpec("x", "float32", "nodes", (1,))])
    x = np.repeat(np.arange(NUM_GRAPHS, dtype=np.float32), 2)[:, np.newaxis]
    client.datasets.create("trainers", schema)
    client.datasets.append("trainers", GraphTable(schema, np.full((NUM_GRAPHS, 1), 2), {"x": x}))
    client.datasets.seal("trainers")


def numbers(batch: Any) -> list[int]:
    return [int(number) for number in batch["x"][::2, 0]]


def loader_of(server: LocalServer, job: str, **options: Any) -> Loader:
    return Loader(server.address, dataset="trainers", job=job, limits=LIMITS, **options)


def evaluation_of(server: LocalServer, graphs: int) -> Evaluation:
    return Evaluation(server.address, dataset="trainers", limits={"nodes": 8, "graphs": graphs})


def assert_done(server: LocalServer, job: str, epochs: int) -> None:
    with loader_of(server, job) as loader:
        for epoch in range(epochs):
            loader.set_epoch(epoch)
            info = loader.epoch_info()
            assert info.num_done == info.num_batches == 5, f"epoch {epoch}: {info.num_done}"


@contextlib.contextmanager
def imported(name: str, *modules: types.ModuleType) -> Iterator[Any]:
    """The module, beside these in the place of a framework's."""
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setitem(sys.modules, module.__name__, module)
        sys.modules.pop(name, None)
        try:
            yield importlib.import_module(name)
        finally:
            sys.modules.pop(name, None)


class DataModule:
    """As Lightning's: it is told its trainer later."""

    def __init__(self) -> None:
        self.is_made = True


@contextlib.contextmanager
def lightning_called(name: str) -> Iterator[Any]:
    whole, inner = types.ModuleType("lightning"), types.ModuleType(name)
    setattr(inner, "LightningDataModule", DataModule)
    with imported("packhouse.lightning", whole, inner) as module:
        yield module


@pytest.fixture(scope="module")
def lightning() -> Iterator[Any]:
    with lightning_called("lightning.pytorch") as module:
        yield module


def test_lightning_may_have_its_former_name() -> None:
    with lightning_called("pytorch_lightning") as module:
        assert isinstance(module.DataModule(), DataModule)


def test_lightnings_module_has_the_epoch_of_its_trainer(
    lightning: Any, server: LocalServer
) -> None:
    job = "lightning"
    data = lightning.DataModule(loader_of(server, job))
    assert data.is_made and not data.allow_zero_length_dataloader_with_multiple_devices
    data.trainer = types.SimpleNamespace(current_epoch=0)
    for stage in ("", "validate"):
        data.setup(stage)
        assert data.train_dataloader() == [] and data.state_dict() == {}
    data.setup("fit")
    train = data.train_dataloader()
    assert len(train) == 5 and train.state_dict() == {}
    batches = iter(train)
    seen = numbers(next(batches)) + numbers(next(batches))
    state = data.state_dict()
    # What is under way goes on.
    data.setup("fit")
    data.teardown("validate")
    assert data.state_dict() == state != {}
    assert sorted(seen + [each for batch in batches for each in numbers(batch)]) == ALL
    for epoch in (1, 2):
        data.trainer.current_epoch = epoch
        assert len(train) == 5 and data.state_dict()["epoch"] == epoch
        assert sorted(each for batch in train for each in numbers(batch)) == ALL
    data.trainer.current_epoch = 3
    assert len(numbers(next(iter(train)))) == 4 and data.state_dict()["epoch"] == 3
    data.teardown("fit")
    assert data.train_dataloader() == [] and data.state_dict() == {}
    assert_done(server, job, 3)
    again = lightning.DataModule(loader_of(server, job))
    again.trainer = types.SimpleNamespace(current_epoch=0)
    again.load_state_dict(state)
    again.setup("fit")
    again.load_state_dict({})
    again.load_state_dict(state)
    train = again.train_dataloader()
    assert len(train) == 5
    rest = list(train)
    assert len(rest) == 3 and sorted(seen + [n for batch in rest for n in numbers(batch)]) == ALL
    again.teardown("fit")


def test_lightnings_module_without_a_loader_trains_on_nothing(lightning: Any) -> None:
    data = lightning.DataModule()
    data.setup("fit")
    assert data.train_dataloader() == [] and data.state_dict() == {}
    data.load_state_dict({"epoch": 1})
    data.teardown("fit")
    assert data.val_dataloader() == data.test_dataloader() == data.predict_dataloader() == []


def test_lightnings_module_has_each_evaluation_and_what_is_said_of_processes(
    lightning: Any, server: LocalServer
) -> None:
    def doubled(graph: dict[str, Any]) -> None:
        graph["x"] *= 2

    data = lightning.DataModule(
        val=evaluation_of(server, 4),
        test=evaluation_of(server, 2),
        predict=evaluation_of(server, 1),
        transform=lambda batch: types.SimpleNamespace(lease=batch.lease, x=batch["x"][::2, 0]),
        graph_transform=doubled,
    )
    made = (data.val_dataloader(), data.test_dataloader(), data.predict_dataloader())
    for loader, steps in zip(made, (5, 10, 20)):
        for _ in range(2):
            seen = [batch.x.tolist() for batch in loader]
            assert len(seen) == steps and sorted(sum(seen, [])) == [2 * each for each in ALL]
    assert made[0].batch_size is None
    data = lightning.DataModule(val=evaluation_of(server, 4), num_workers=3)
    assert data.val_dataloader().num_workers == 3
    for name in ("batch_size", "sampler", "batch_sampler", "shuffle", "drop_last", "collate_fn"):
        with pytest.raises(TypeError, match=f"{name}: the loader's arguments say which batches"):
            lightning.DataModule(**{name: None})


class Context:
    """Of a worker of Ray Train."""

    def __init__(self, rank: int, size: int) -> None:
        self.get_world_rank = lambda: rank
        self.get_world_size = lambda: size


@pytest.fixture
def ray() -> Iterator[Any]:
    whole, train = types.ModuleType("ray"), types.ModuleType("ray.train")
    setattr(train, "get_context", lambda: Context(0, 1))
    with imported("packhouse.ray", whole, train) as module:
        yield module


class Checkpoint:
    """A folder, as Ray has them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        yield str(self._folder)


def test_rays_workers_are_the_ranks(
    ray: Any, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the loader has been told its rank."""
    seen = []
    for rank in range(2):
        monkeypatch.setattr(ray, "get_context", lambda: Context(rank, 2))
        shard = ray.DatasetShard(loader_of(server, "ray-ranks"))
        assert len(shard) == 3 and shard.epoch == 0
        batches = list(shard.iter_torch_batches(0))
        assert len(batches) == 3
        seen.append([each for batch in batches for each in numbers(batch)])
        shard.close()
    assert all(seen) and sorted(sum(seen, [])) == ALL
    assert_done(server, "ray-ranks", 1)
    monkeypatch.setattr(ray, "get_context", lambda: pytest.fail("is placed"))
    told = []
    for rank in range(2):
        shard = ray.DatasetShard(loader_of(server, "ray-told", rank=rank, num_ranks=2))
        told.append([each for batch in shard.iter_torch_batches(0) for each in numbers(batch)])
        shard.close()
    assert all(told) and sorted(sum(told, [])) == ALL


def test_rays_checkpoint_is_gone_on_with(ray: Any, server: LocalServer, tmp_path: pathlib.Path) -> None:
    shard = ray.DatasetShard(loader_of(server, "ray-saved"), transform=lambda batch: numbers(batch))
    shard.load_checkpoint(None)
    assert sorted(sum(shard.iter_torch_batches(0), [])) == ALL
    batches = shard.iter_torch_batches(1)
    seen = next(batches) + next(batches)
    with shard.checkpoint() as folder:
        assert [path.name for path in folder.iterdir()] == [ray.STATE]
        text = (folder / ray.STATE).read_text()
    assert not folder.exists() and shard.epoch == 1
    shard.close()
    assert_done(server, "ray-saved", 1)
    again = ray.DatasetShard(loader_of(server, "ray-saved"))
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}: the checkpoint has no packhouse.json"):
        again.load_checkpoint(Checkpoint(tmp_path))
    (tmp_path / ray.STATE).write_text(text)
    again.load_checkpoint(Checkpoint(tmp_path))
    assert again.epoch == 1
    rest = list(again.iter_torch_batches(1))
    assert len(rest) == 3 and sorted(seen + [n for batch in rest for n in numbers(batch)]) == ALL
    again.close()
    assert_done(server, "ray-saved", 2)


@pytest.mark.parametrize("given, expected", [("mine", "mine"), (None, "common")])
def test_rays_workers_know_each_other_by_an_attempt(
    ray: Any, server: LocalServer, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    given: str | None, expected: str,
) -> None:  # fmt: skip
    told: list[Any] = []
    monkeypatch.setattr(ray, "common_attempt", lambda: "common")
    monkeypatch.setattr(ray.EpochDataset, "load_state_dict", lambda _, *words: told.append(words))
    (tmp_path / ray.STATE).write_text('{"a": 1}')
    shard = ray.DatasetShard(loader_of(server, "ray-attempt"), num_workers=2)
    shard.load_checkpoint(Checkpoint(tmp_path), given)
    assert told == [({"a": 1}, expected)] and shard._data_loader.num_workers == 2


class Stop(Exception):
    """The machine fails."""


class HuggingFaces:
    """A Trainer, as far as a data loader sees of it: steps, epochs, checkpoints."""

    def __init__(self, model: Any, args: Any = None) -> None:
        self.model, self.args = model, args
        self.callbacks: list[Any] = []
        self.state = types.SimpleNamespace(global_step=0, is_world_process_zero=True)
        self.trained: list[Any] = []

    def add_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def train(self, resume_from_checkpoint: Any, trial: Any = None, **options: Any) -> Any:
        loader: Any = self.get_train_dataloader()  # type: ignore[attr-defined]
        steps = len(loader)
        assert steps == 5 and self.args.ignore_data_skip
        first = self.state.global_step // steps
        for epoch in range(first, self.args.epochs):
            loader.set_epoch(epoch)
            for item in loader:
                self.trained.append((epoch, item))
                self.state.global_step += 1
                if self.state.global_step in self.args.saves:
                    folder = pathlib.Path(self.args.output_dir, f"checkpoint-{self.state.global_step}")
                    folder.mkdir()
                    for callback in self.callbacks:
                        callback.on_save(self.args, self.state, None, model=self.model)
                if self.state.global_step == self.args.fails_after:
                    raise Stop
        return resume_from_checkpoint, trial, options


@pytest.fixture(scope="module")
def huggingface() -> Iterator[Any]:
    whole, inner = types.ModuleType("transformers"), types.ModuleType("transformers.trainer_utils")
    setattr(whole, "Trainer", HuggingFaces)
    setattr(whole, "TrainerCallback", object)
    setattr(inner, "get_last_checkpoint", lambda folder: f"{folder}/checkpoint-7")
    with imported("packhouse.huggingface", whole, inner) as module:
        yield module


def args_of(folder: pathlib.Path, **options: Any) -> Any:
    usual = {"output_dir": str(folder), "epochs": 2, "saves": (), "fails_after": 0}
    return types.SimpleNamespace(**{**usual, **options})


# The last checkpoint that there is, and by its folder one after the last step of an epoch.
@pytest.mark.parametrize(
    "saved, fails_after, resumes_from", [(7, 8, True), (5, 5, "checkpoint-5")]
)
def test_hugging_faces_trainer_goes_on_with_exactly_the_rest(
    huggingface: Any, server: LocalServer, tmp_path: pathlib.Path, saved: int, fails_after: int,
    resumes_from: Any,
) -> None:  # fmt: skip
    job = f"huggingface-{saved}-{resumes_from}"
    if resumes_from is not True:
        resumes_from = str(tmp_path / resumes_from)
    args = args_of(tmp_path, saves=(saved,), fails_after=fails_after)
    trainer = huggingface.Trainer("model", args=args, train=loader_of(server, job))
    with pytest.raises(Stop):
        trainer.train()
    assert [path.name for path in (tmp_path / f"checkpoint-{saved}").iterdir()] == [huggingface.STATE]
    before = [(epoch, n) for epoch, item in trainer.trained[:saved] for n in numbers(item)]
    # Outside of training there is no place.
    trainer.save_place(tmp_path, True)
    assert not (tmp_path / huggingface.STATE).exists()
    again = huggingface.Trainer(
        "model", args=args_of(tmp_path), train=loader_of(server, job), transform=numbers
    )
    again.state.global_step = saved
    words = again.train(resumes_from, "trial", more=1)
    assert words == (resumes_from, "trial", {"more": 1})
    after = [(epoch, n) for epoch, item in again.trained for n in item]
    assert sorted(before + after) == [(epoch, n) for epoch in range(2) for n in ALL]
    assert_done(server, job, 2)


def test_hugging_faces_checkpoints_are_the_first_processes(
    huggingface: Any, server: LocalServer, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    def noted(_: Any, **options: Any) -> None:
        told.append(options)

    args = args_of(tmp_path, saves=(2,), fails_after=3)
    trainer = huggingface.Trainer("model", args, train=loader_of(server, "huggingface-first"))
    assert trainer.model == "model" and trainer.args is args
    trainer.state.is_world_process_zero = False
    with pytest.raises(Stop):
        trainer.train()
    assert not list((tmp_path / "checkpoint-2").iterdir())
    with pytest.raises(FileNotFoundError, match="checkpoint-2: the checkpoint has no packhouse.json"):
        trainer.train(str(tmp_path / "checkpoint-2"))
    with pytest.raises(FileNotFoundError):
        huggingface.state_of(tmp_path)
    (tmp_path / huggingface.STATE).write_text(json.dumps({"epoch": 3}))
    assert huggingface.state_of(tmp_path) == {"epoch": 3}
    monkeypatch.setattr(huggingface, "DataLoader", noted)
    trainer = huggingface.Trainer(
        "model", args, train=loader_of(server, "none"), data_loader={"prefetch_factor": 2}
    )
    trainer.get_train_dataloader()
    assert told == [{"batch_size": None, "prefetch_factor": 2}]
