"""What the data loaders that take the place of torch's have in common: processes, pinning, ranks."""

from __future__ import annotations

import functools
from typing import Any, Iterator

from packhouse.frameworks.packed_loader import LocalPass, PackedLoader, ServedPass, Step

# Of torch's DataLoader, and of the frameworks' that are made of it.
REFUSED = {
    "sampler": "ranks of torch.distributed share the graphs by themselves; else give rank, num_ranks",
    "batch_sampler": "limits, or batch_size, say what a batch takes; for samplers of your own take "
    "the framework's loader",
    "collate_fn": "batches are the framework's own",
}


class _Steps:
    """A data set as torch has it, of which a step is asked for."""

    def __init__(self, source: LocalPass) -> None:
        self._source = source

    def __getitem__(self, step: Step) -> Any:
        return self._source.item(step)


class TorchPackedLoader(PackedLoader):
    """A PackedLoader with the arguments of torch's DataLoader that are about processes.

    Batches of a fixed number of graphs are made in `num_workers` processes, as torch makes them.
    Packed ones are made in the server's process already: a thread reads `num_workers` times
    `prefetch_factor` of them in advance. With a `multiprocessing_context`, so many worker processes
    read them; "fork" is not for processes that have used gRPC.
    """

    def __init__(
        self,
        *arguments: Any,
        pin_memory: bool = False,
        multiprocessing_context: Any = None,
        persistent_workers: bool = False,
        worker_init_fn: Any = None,
        timeout: float = 0,
        generator: Any = None,
        seed: int | None = None,
        rank: int | None = None,
        num_ranks: int | None = None,
        **options: Any,
    ) -> None:
        """Without a `seed` it is drawn from `generator`, or from torch's own; ranks have seed 0."""
        for name, reason in REFUSED.items():
            if options.pop(name, None) is not None:
                raise TypeError(f"{name}: {reason}")
        if rank is None and num_ranks is None:
            rank, num_ranks = _own_rank()
        if seed is None:
            seed = 0 if num_ranks is not None and num_ranks > 1 else _drawn_seed(generator)
        self.pin_memory = pin_memory
        self.multiprocessing_context = multiprocessing_context
        self._in_processes: dict[str, Any] = {
            "persistent_workers": persistent_workers,
            "worker_init_fn": worker_init_fn,
            "timeout": timeout,
        }
        self._inner: Any = None
        super().__init__(*arguments, seed=seed, rank=rank, num_ranks=num_ranks, **options)
        if self._loader is not None and multiprocessing_context is not None:
            raise ValueError(
                "multiprocessing_context: worker processes of a job are for "
                "packhouse.torch.EpochDataset"
            )

    def _items(self, epoch: int, step: int) -> Iterator[Any]:
        is_local = isinstance(self._pass, LocalPass)
        if self.num_workers and (is_local or self.multiprocessing_context is not None):
            return self._of_processes(epoch, step)
        items = super()._items(epoch, step)
        return map(_pinned, items) if self._pins else items

    @functools.cached_property
    def _pins(self) -> bool:
        import torch

        return self.pin_memory and torch.cuda.is_available()

    def _of_processes(self, epoch: int, step: int) -> Iterator[Any]:
        from torch.utils.data import DataLoader

        options: dict[str, Any] = dict(
            batch_size=None,
            num_workers=self.num_workers,
            prefetch_factor=self.prefetch_factor,
            pin_memory=self._pins,
            multiprocessing_context=self.multiprocessing_context,
            **self._in_processes,
        )
        source = self._pass
        if isinstance(source, LocalPass):
            if self._inner is None:
                self._inner = DataLoader(_Steps(source), sampler=_Order(), **options)
            self._inner.sampler.steps = list(source.steps(epoch, step))
            return iter(self._inner)
        from packhouse.frameworks.torch.epoch_dataset import EpochDataset

        assert isinstance(source, ServedPass)
        if self._inner is None:
            dataset = EpochDataset(source.evaluation, transform=source.make)
            self._inner = DataLoader(dataset, **options)
        self._inner.dataset.set_epoch(epoch)
        self._inner.dataset.load_state_dict({"epoch": epoch, "next_step": step})
        return iter(self._inner.dataset.trained(self._inner))


class _Order:
    """The sampler of a loader that is used for many epochs."""

    steps: list[Step] = []

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)


def _pinned(item: Any) -> Any:
    if isinstance(item, tuple):
        return tuple(map(_pinned, item))
    if isinstance(item, dict):
        return {name: _pinned(value) for name, value in item.items()}
    pin = getattr(item, "pin_memory", None)
    return item if pin is None else pin()


def _own_rank() -> tuple[int | None, int | None]:
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return None, None
    return distributed.get_rank(), distributed.get_world_size()


def _drawn_seed(generator: Any) -> int:
    import torch

    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
