"""PyTorch Lightning: a data module of packhouse's epochs; needs lightning (or pytorch_lightning).

    from packhouse.lightning import DataModule

    data = DataModule(
        Loader(address, dataset="molhiv", job="run-1", limits=limits),
        val=Evaluation(address, dataset="molhiv-valid", limits=limits),
        transform=packhouse.pyg.to_batch,
    )
    Trainer(max_epochs=10).fit(model, data, ckpt_path=last)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterator

from torch.utils.data import DataLoader

from packhouse.epochs.batches import LoadedBatch
from packhouse.epochs.evaluation import Evaluation
from packhouse.epochs.loader import Loader
from packhouse.frameworks.torch.epoch_dataset import EpochDataset, GraphTransform, common_attempt

if TYPE_CHECKING:
    _DataModule = object
else:
    try:
        from lightning.pytorch import LightningDataModule as _DataModule
    except ImportError:
        from pytorch_lightning import LightningDataModule as _DataModule

__all__ = ["DataModule"]


class DataModule(_DataModule):
    """The batches of a job for Lightning's Trainer, and evaluations.

    Lightning's epoch is packhouse's epoch of that number. All ranks have equal steps, and share the
    graphs by themselves: Lightning puts no sampler of its own over them. A batch is acknowledged
    when the next one is asked for, the last one of an epoch when the next epoch begins, a checkpoint
    is saved or `fit` ends; of a `fit` that fails it comes again.

    Lightning's checkpoints, those of the middle of an epoch too, have the place in the epoch: `fit`
    with `ckpt_path` gives exactly the batches that were not trained on, whatever the server has
    seen since. Without a checkpoint, a job of which an epoch was begun is the loader's to judge
    (`on_existing`). A job name of its own for each run is the simplest.

    A batch is a TorchBatch, or what `transform` makes of packhouse's own batch.
    """

    # Of Lightning; set when it is given to a Trainer.
    trainer: Any
    # What Lightning asks for where ranks may have no batch.
    allow_zero_length_dataloader_with_multiple_devices = False

    def __init__(
        self,
        train: Loader | None = None,
        *,
        val: Evaluation | None = None,
        test: Evaluation | None = None,
        predict: Evaluation | None = None,
        transform: Callable[[LoadedBatch], Any] | None = None,
        graph_transform: GraphTransform | None = None,
        **data_loader: Any,
    ) -> None:
        """`data_loader` are arguments of torch's DataLoader that are about processes: `num_workers`,
        `multiprocessing_context`, `persistent_workers`, `prefetch_factor`, `pin_memory`.

        Raises TypeError naming one that is about batches, which packhouse makes.
        """
        super().__init__()
        for name in ("batch_size", "sampler", "batch_sampler", "shuffle", "drop_last", "collate_fn"):
            if name in data_loader:
                raise TypeError(f"{name}: the loader's arguments say which batches there are")
        self._train = train
        self._evaluations = {"val": val, "test": test, "predict": predict}
        self._transforms: dict[str, Any] = {
            "transform": transform,
            "graph_transform": graph_transform,
        }
        self._options = {"batch_size": None, **data_loader}
        self._epochs: EpochDataset | None = None

    def setup(self, stage: str) -> None:
        """Called by Lightning in each process, when it knows its rank."""
        if stage == "fit" and self._train is not None and self._epochs is None:
            self._epochs = EpochDataset(self._train, **self._transforms)

    def teardown(self, stage: str) -> None:
        """Called by Lightning when `fit` has ended."""
        if stage == "fit" and self._epochs is not None:
            epochs, self._epochs = self._epochs, None
            epochs.close()

    def train_dataloader(self) -> Any:
        """An iterable with a length: the epoch that Lightning is in."""
        if self._epochs is None:
            return []
        return _Epochs(self.trainer, self._epochs, DataLoader(self._epochs, **self._options))

    def val_dataloader(self) -> Any:
        """Of the evaluation; as often as Lightning likes."""
        return self._evaluation("val")

    def test_dataloader(self) -> Any:
        """As val_dataloader."""
        return self._evaluation("test")

    def predict_dataloader(self) -> Any:
        """As val_dataloader."""
        return self._evaluation("predict")

    def state_dict(self) -> dict[str, Any]:
        """Called by Lightning for its checkpoints: the place in the epoch, for any rank."""
        return {} if self._epochs is None else dict(self._epochs.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Called by Lightning with what a checkpoint has of `state_dict`."""
        if self._epochs is not None and state_dict:
            self._epochs.load_state_dict(state_dict, common_attempt())

    def _evaluation(self, name: str) -> Any:
        evaluation = self._evaluations[name]
        if evaluation is None:
            return []
        return DataLoader(EpochDataset(evaluation, **self._transforms), **self._options)


class _Epochs:
    """What Lightning iterates over: no DataLoader, which it would give a sampler."""

    def __init__(self, trainer: Any, epochs: EpochDataset, data_loader: Any) -> None:
        self._trainer = trainer
        self._epochs = epochs
        self._data_loader = data_loader

    def __len__(self) -> int:
        self._follow()
        return self._epochs.num_steps

    def __iter__(self) -> Iterator[Any]:
        self._follow()
        return self._epochs.trained(self._data_loader)

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the data module keeps the place. Without it Lightning warns of loaders that
        cannot go on.
        """
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As state_dict."""

    def _follow(self) -> None:
        """Lightning's epoch; one that is under way, as after a state was loaded, goes on."""
        if self._epochs.epoch != self._trainer.current_epoch:
            self._epochs.set_epoch(self._trainer.current_epoch)
