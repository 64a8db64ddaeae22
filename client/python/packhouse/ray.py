"""Ray Train fed by packhouse's epochs; needs ray and torch.

    from packhouse.ray import DatasetShard

    def train_loop(config):  # In each worker of a TorchTrainer, or of another of Ray Train's.
        shard = DatasetShard(config["loader"])
        shard.load_checkpoint(ray.train.get_checkpoint())
        for epoch in range(shard.epoch, 10):
            for batch in shard.iter_torch_batches(epoch):
                train(batch)
            with shard.checkpoint() as folder:
                torch.save(model.state_dict(), folder / "model.pt")
                ray.train.report({}, checkpoint=ray.train.Checkpoint.from_directory(folder))

    loader = Loader(address, dataset="molecules", job="run-1", limits=limits)
    TorchTrainer(train_loop, train_loop_config={"loader": loader}, ...).fit()
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any, Callable, Final, Iterator

from torch.utils.data import DataLoader

from packhouse.epochs.batches import LoadedBatch
from packhouse.epochs.loader import Loader
from packhouse.epochs.settings import Ranked
from packhouse.frameworks.torch.epoch_dataset import EpochDataset, common_attempt

if TYPE_CHECKING:

    def get_context() -> Any: ...

else:
    from ray.train import get_context

__all__ = ["DatasetShard"]

# In each folder of a checkpoint.
STATE: Final = "packhouse.json"


class DatasetShard:
    """A Ray Train worker's share of a job's epochs, as `ray.train.get_dataset_shard` gives of Ray's
    own data sets.

    Its rank and the number of ranks are those of the worker; all have equal steps. The same worker
    processes may come again after a failure, and others: what a checkpoint has is gone on with,
    by any number of workers.
    """

    def __init__(
        self,
        loader: Loader,
        *,
        transform: Callable[[LoadedBatch], Any] | None = None,
        **data_loader: Any,
    ) -> None:
        """To be made in the worker; `loader` comes there by pickling.

        `transform` makes an item of each batch (without it: TorchBatch); `data_loader` are arguments
        of torch's DataLoader that are about processes.
        """
        settings = loader.settings
        if not settings.is_placed and isinstance(settings.sharing, Ranked):
            context = get_context()
            ranks = context.get_world_size()
            sharing = dataclasses.replace(
                settings.sharing, rank=context.get_world_rank(), num_ranks=ranks
            )
            settings = dataclasses.replace(settings, sharing=sharing, is_placed=True)
            loader = Loader.of_settings(settings, loader.start)
        self._epochs = EpochDataset(loader, transform=transform)
        self._data_loader: Any = DataLoader(self._epochs, batch_size=None, **data_loader)

    @property
    def epoch(self) -> int:
        """The epoch that goes on: 0, or that of the checkpoint."""
        return self._epochs.epoch

    def __len__(self) -> int:
        """Steps of this worker in the epoch."""
        return len(self._epochs)

    def iter_torch_batches(self, epoch: int) -> Iterator[Any]:
        """The batches of that epoch, or what is left of the one of the checkpoint; each is
        acknowledged when the next one is asked for.
        """
        if epoch != self._epochs.epoch:
            self._epochs.set_epoch(epoch)
        return self._epochs.trained(self._data_loader)

    @contextlib.contextmanager
    def checkpoint(self) -> Iterator[pathlib.Path]:
        """A folder with the place in the epoch, to which the caller adds what it likes; it is
        deleted at the end. All workers must have done the same steps.
        """
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / STATE).write_text(json.dumps(self._epochs.state_dict()))
            yield folder

    def load_checkpoint(self, checkpoint: Any, attempt: str | None = None) -> None:
        """Goes on where the `ray.train.Checkpoint` was made, if there is one; all workers must call
        it. Several that are not of torch.distributed need an `attempt`: a name that is the same for
        all of them, and new each time.

        Raises FileNotFoundError if the checkpoint was not made with `checkpoint`.
        """
        if checkpoint is None:
            return
        with checkpoint.as_directory() as folder:
            path = pathlib.Path(folder, STATE)
            if not path.exists():
                raise FileNotFoundError(f"{folder}: the checkpoint has no {STATE} of a DatasetShard")
            state = json.loads(path.read_text())
        self._epochs.load_state_dict(state, attempt or common_attempt())

    def close(self) -> None:
        """Acknowledges the last batch of an epoch that was given out whole, and disconnects."""
        self._epochs.close()
