"""Hugging Face's Trainer fed by packhouse's epochs; needs transformers and torch.

    from packhouse.huggingface import Trainer

    def make(batch):
        return packhouse.torch.to_sequences(batch, padding=True).for_transformers()

    loader = Loader(address, dataset="corpus", job="run-1", limits=limits, padding="graph")
    trainer = Trainer(model, args, train=loader, transform=make)
    trainer.train(resume_from_checkpoint=True)
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import TYPE_CHECKING, Any, Callable, Final, Iterator, Mapping, cast

from torch.utils.data import DataLoader

from packhouse.epochs.batches import LoadedBatch
from packhouse.epochs.epoch_readers import Leased
from packhouse.epochs.loader import Loader
from packhouse.frameworks.torch.batch import to_torch
from packhouse.frameworks.torch.epoch_dataset import EpochDataset, common_attempt

if TYPE_CHECKING:
    _Trainer = object
    _Callback = object

    def get_last_checkpoint(folder: str) -> str | None: ...

else:
    from transformers import Trainer as _Trainer
    from transformers import TrainerCallback as _Callback
    from transformers.trainer_utils import get_last_checkpoint

__all__ = ["PackedTraining", "Trainer"]

# In each folder of a checkpoint.
STATE: Final = "packhouse.json"


class PackedTraining:
    """What makes a trainer of Hugging Face's train on packhouse's epochs.

        class MyTrainer(PackedTraining, transformers.Trainer): ...

    The Trainer's epoch is packhouse's epoch of that number; `per_device_train_batch_size` is not
    used, and no sampler. All ranks have equal steps and share the graphs by themselves: the batches
    do not go through `accelerator.prepare`. A checkpoint has the place in the epoch, in the file
    packhouse.json: `train(resume_from_checkpoint=...)` gives exactly the batches that were not
    trained on when it was saved, and the Trainer skips none (`ignore_data_skip` is set).
    """

    def __init__(
        self,
        *arguments: Any,
        train: Loader,
        transform: Callable[[LoadedBatch], Mapping[str, Any]] | None = None,
        data_loader: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """`transform` makes the model's arguments of a batch; without it they are its tensors by
        name. `data_loader` has arguments of torch's DataLoader that are about processes
        (`num_workers`, `multiprocessing_context`, ...). The rest goes to the trainer's class.
        """
        self._packed = train
        self._transform = transform or _tensors
        self._processes = dict(data_loader or {})
        self._epochs: EpochDataset | None = None
        self._resumes_from: str | None = None
        super().__init__(*arguments, **options)
        trainer: Any = self
        trainer.args.ignore_data_skip = True
        trainer.add_callback(_Saving(self))

    def train(self, resume_from_checkpoint: Any = None, *arguments: Any, **options: Any) -> Any:
        """As the trainer's own. Raises FileNotFoundError if the checkpoint has no place in an epoch.
        """
        trainer, own = super(), cast(Any, self)
        place = resume_from_checkpoint or None
        self._resumes_from = get_last_checkpoint(own.args.output_dir) if place is True else place
        try:
            return cast(Any, trainer).train(resume_from_checkpoint, *arguments, **options)
        finally:
            epochs, self._epochs = self._epochs, None
            if epochs is not None:
                epochs.close()

    def get_train_dataloader(self) -> Any:
        """An iterable with a length: the epoch that the trainer is in."""
        if self._epochs is None:
            self._epochs = EpochDataset(self._packed, transform=_Made(self._transform))
            if self._resumes_from is not None:
                self._epochs.load_state_dict(state_of(self._resumes_from), common_attempt())
        return _Epochs(self._epochs, DataLoader(self._epochs, batch_size=None, **self._processes))

    def save_place(self, folder: pathlib.Path, is_first: bool) -> None:
        """Called by all ranks when a checkpoint is in the folder; the first one writes."""
        if self._epochs is None:
            return
        state = self._epochs.state_dict()
        if is_first:
            part = folder / f"{STATE}.part"
            part.write_text(json.dumps(state))
            os.replace(part, folder / STATE)


def state_of(folder: str | os.PathLike[str]) -> Any:
    """What `save_place` has written. Raises FileNotFoundError naming the folder."""
    path = pathlib.Path(folder, STATE)
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{os.fspath(folder)}: the checkpoint has no {STATE}: it was not saved by a trainer of "
            "packhouse.huggingface"
        ) from None


class Trainer(PackedTraining, _Trainer):
    """transformers' Trainer with a loader: see PackedTraining."""


class _Saving(_Callback):
    def __init__(self, training: PackedTraining) -> None:
        self._training = training

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        folder = pathlib.Path(args.output_dir, f"checkpoint-{state.global_step}")
        self._training.save_place(folder, state.is_world_process_zero)


class _Epochs:
    """What the trainer iterates over: no DataLoader, which it would shard."""

    def __init__(self, epochs: EpochDataset, data_loader: Any) -> None:
        self._epochs = epochs
        self._data_loader = data_loader

    def set_epoch(self, epoch: int) -> None:
        # One that is under way, as after a state was loaded, goes on.
        if epoch != self._epochs.epoch:
            self._epochs.set_epoch(epoch)

    def __len__(self) -> int:
        return self._epochs.num_steps

    def __iter__(self) -> Iterator[Any]:
        return self._epochs.trained(self._data_loader)


class _Made:
    """A transform whose result is given out with the batch's lease; for worker processes, too."""

    def __init__(self, transform: Callable[[LoadedBatch], Mapping[str, Any]]) -> None:
        self._transform = transform

    def __call__(self, batch: LoadedBatch) -> Leased:
        return Leased(self._transform(batch), batch.lease)


def _tensors(batch: LoadedBatch) -> dict[str, Any]:
    return dict(to_torch(batch).tensors)
