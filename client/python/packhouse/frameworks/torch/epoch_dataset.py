"""Epochs as PyTorch has data sets, with a user's change of single graphs, and a name of a start."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import uuid
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import distributed
from torch.utils.data import IterableDataset

from packhouse.base.arguments import names_init_arguments
from packhouse.data.batch import Batch
from packhouse.data.graphs import Array, row_offsets, rows_of, shift_of_rows
from packhouse.epochs.batches import LoadedBatch
from packhouse.epochs.epoch_readers import SHARDED_TWICE, EpochReaders, Leased
from packhouse.epochs.evaluation import Evaluation, EvaluationReaders
from packhouse.epochs.info import EpochInfo
from packhouse.epochs.loader import Loader
from packhouse.epochs.settings import LoaderSettings, Ranked
from packhouse.frameworks.torch.batch import to_torch

# Takes a graph's tensors; may change them, or return those that take their place.
GraphTransform = Callable[[dict[str, Array]], Optional[Mapping[str, npt.ArrayLike]]]

_AnyBatch = TypeVar("_AnyBatch", bound=Batch)


def transform_graphs(batch: _AnyBatch, transform: GraphTransform) -> _AnyBatch:
    """The batch with each real graph as `transform` leaves it; its arrays must be writable.

    `transform` gets a graph's tensors by name, as they were stored: index tensors number the
    graph's own rows. It may write to them, or return a mapping of tensors that replace them. These
    must have the same shape: a graph cannot grow, because its batch is packed. Derived tensors and
    padding stay as they are. Raises ValueError naming the graph and the tensor. Cost: some
    microseconds a graph and tensor.
    """
    schema, sizes = batch.schema, batch.sizes
    offsets = {name: row_offsets(schema, sizes, name) for name in schema.all_components}
    shifts = {
        spec.name: shift_of_rows(schema, sizes, spec).astype(spec.dtype.numpy)
        for spec in schema.tensors
        if spec.index_into is not None
    }
    rows = {
        spec.name: rows_of(batch[spec.name], spec, 0, int(offsets[spec.component][-1]))
        for spec in schema.tensors
    }
    for name, shift in shifts.items():
        rows[name] -= shift
    for position, graph_id in enumerate(batch.graph_ids):
        graph = {
            spec.name: rows_of(
                rows[spec.name],
                spec,
                int(offsets[spec.component][position]),
                int(offsets[spec.component][position + 1]),
            )
            for spec in schema.tensors
        }
        given = dict(graph)
        returned = transform(given)
        for name, tensor in (given if returned is None else returned).items():
            if name not in graph:
                raise ValueError(f"graph {graph_id}: tensor {name!r} is not in the schema")
            if tensor is graph[name]:
                continue
            if np.shape(tensor) != graph[name].shape:
                raise ValueError(
                    f"graph {graph_id}: {name!r} has shape {np.shape(tensor)} after the transform, "
                    f"{graph[name].shape} before: a packed graph keeps its size"
                )
            graph[name][...] = tensor
    for name, shift in shifts.items():
        rows[name] += shift
    return batch


def common_attempt() -> str | None:
    """A new name, the same on all ranks of torch.distributed, all of which must call this; None
    where there is one rank, which needs none.

    Ranks that load a state know each other by it: see `Loader`.
    """
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    if distributed.get_world_size() == 1:
        return None
    drawn = [uuid.uuid4().hex]
    distributed.broadcast_object_list(drawn)
    return drawn[0]


@names_init_arguments
class EpochDataset(IterableDataset):
    """A loader's epochs, or an evaluation, for torch's DataLoader with any number of worker processes.

        dataset = EpochDataset(Loader(address, dataset="molhiv", job="run-1", limits=limits))
        data_loader = DataLoader(dataset, batch_size=None, num_workers=2)
        for epoch in range(10):
            dataset.set_epoch(epoch)
            for batch in dataset.trained(data_loader):
                train(batch["x"], batch["y"])

    Batches come whole, hence `batch_size=None`. Worker processes share the batches by themselves,
    and so do the ranks of torch.distributed if the loader has no `rank` and no `worker`. Each is a
    TorchBatch, or what `transform` makes of packhouse's own batch, in the worker process.
    `graph_transform` is applied before, to each graph: see `transform_graphs`.

    `trained` acknowledges a batch when the next one is asked for, and gives out what a transform
    made. Trainers that count `len` steps ask for no more after the last one: it is acknowledged by
    `set_epoch` of another epoch, `state_dict` and `close`. A plain loop over a data loader without
    worker processes does the same. With worker processes a plain loop raises ValueError, unless the loader says acknowledge="manual" and the
    trainer calls `acknowledge` with each item in turn. An evaluation needs neither: iterate over
    its data loader as often as you like.

    `num_workers`, `multiprocessing_context`, `persistent_workers` and `pin_memory` are as you like;
    `prefetch_factor` stays below the loader's `max_in_flight`. StatefulDataLoader and checkpoints:
    see EpochReaders, and EvaluationReaders, which this hands its calls to.
    """

    def __init__(
        self,
        source: Loader | Evaluation,
        *,
        transform: Callable[[LoadedBatch], Any] | None = None,
        graph_transform: GraphTransform | None = None,
    ) -> None:
        """Takes the arguments of `source`; does not use it itself.

        `transform` gets batches of writable arrays.
        """
        super().__init__()
        self._transform = transform
        self._graph_transform = graph_transform
        self._change = None
        if graph_transform is not None:
            self._change = functools.partial(transform_graphs, transform=graph_transform)
        self._readers: EpochReaders | EvaluationReaders
        if isinstance(source, Evaluation):
            self._readers = EvaluationReaders(_placed_evaluation(source))
        else:
            self._readers = _PlacedReaders(source)

    @property
    def epoch(self) -> int:
        """The number of the epoch that iterating gives."""
        return self._readers.epoch

    def set_epoch(self, epoch: int) -> None:
        """All that is read from now on is of that epoch. Call it before each epoch, the first one
        too.
        """
        self._readers.set_epoch(epoch)

    def trained(self, data_loader: Iterable[Any]) -> Iterator[Any]:
        """The items of the data loader; each is acknowledged when the next one is asked for."""
        return self._readers.trained(data_loader)

    def acknowledge(self, item: Any) -> None:
        """Says that this item of the data loader has been trained on. For loops without `trained`.
        """
        self._readers.acknowledge(item)

    def flush(self) -> None:
        """Waits until all acknowledgements are durable. Raises PackhouseError if that failed."""
        self._readers.flush()

    def close(self) -> None:
        """Ends what the trainer's calls need. If all steps were given out, the last one is
        acknowledged, unless an exception is being handled.
        """
        if isinstance(self._readers, EpochReaders):
            self._readers.close()

    def __enter__(self) -> EpochDataset:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def epoch_info(self) -> EpochInfo:
        """What the epoch is like, and how far it is now."""
        return self._readers.epoch_info()

    def __len__(self) -> int:
        """Steps that come to this trainer in the epoch. Asks the server."""
        return len(self._readers)

    @property
    def num_steps(self) -> int:
        """The same, with the steps before a state that was loaded."""
        readers = self._readers
        return readers.num_steps if isinstance(readers, EpochReaders) else len(readers)

    def state_dict(self) -> Any:
        """The position in the epoch, for the checkpoint; call it after a step has been done."""
        return self._readers.state_dict()

    def load_state_dict(self, state: Any, attempt: str | None = None) -> None:
        """Goes on exactly where the state was taken."""
        if isinstance(self._readers, EpochReaders):
            self._readers.load_state_dict(state, attempt)
        else:
            self._readers.load_state_dict(state)

    def __iter__(self) -> Iterator[Any]:
        """This process's part of the epoch. Raises ValueError if accelerate shards it once more."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_globals.get("__name__") == "accelerate.data_loader":
                raise ValueError(SHARDED_TWICE)
            frame = frame.f_back
        if isinstance(self._readers, EpochReaders):
            return self._readers.iterate(self._made_of)
        return _StatefulItems(iter(self._readers), self._made_of)

    def _made_of(self, batch: LoadedBatch) -> Any:
        if self._transform is None:
            return to_torch(batch, change=self._change)
        # A loader with writable=True has made the arrays its own.
        if not batch.sizes.flags.writeable:
            batch = batch.writable()
        if self._graph_transform is not None:
            batch = transform_graphs(batch, self._graph_transform)
        item = self._transform(batch)
        return item if hasattr(item, "lease") else Leased(item, batch.lease)


class _StatefulItems(Iterator[Any]):
    """Has the state of the pass that it reads: torchdata asks for it after each item."""

    def __init__(self, batches: Any, make: Callable[[LoadedBatch], Any]) -> None:
        self._batches = batches
        self._make = make

    def __next__(self) -> Any:
        return self._make(next(self._batches))

    def state_dict(self) -> Any:
        return self._batches.state_dict()

    def load_state_dict(self, state: Any) -> None:
        self._batches.load_state_dict(state)


class _PlacedReaders(EpochReaders):
    """The readers of this rank, unless the loader was told another."""

    def _place(self, settings: LoaderSettings) -> LoaderSettings:
        if settings.is_placed or not isinstance(settings.sharing, Ranked):
            return settings
        return dataclasses.replace(settings, sharing=_placed(settings.sharing))


def _placed_evaluation(evaluation: Evaluation) -> Evaluation:
    if evaluation.is_placed:
        return evaluation
    return evaluation.of(evaluation.epoch, _placed(evaluation.sharing))


def _placed(sharing: Ranked) -> Ranked:
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return sharing
    return dataclasses.replace(
        sharing, rank=distributed.get_rank(), num_ranks=distributed.get_world_size()
    )
