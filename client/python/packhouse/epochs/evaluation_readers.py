"""An evaluation that is read by worker processes. See `EvaluationReaders`."""

from __future__ import annotations

import os
from typing import Any, Iterable, Iterator, TypeVar

from packhouse.base.worker_processes import Orders, OrdersFile, worker_process
from packhouse.epochs.epoch_readers import Leased
from packhouse.epochs.evaluation import Evaluation
from packhouse.epochs.info import EpochInfo
from packhouse.epochs.loaded_batch import LoadedBatch
from packhouse.epochs.sharing import Ranked

_Item = TypeVar("_Item")


class EvaluationReaders:
    """One trainer's share of an evaluation, read by worker processes, as those of a data loader.

    As EpochReaders, but the server keeps nothing: a pass starts at the beginning each time, and any
    number of worker processes gives the same batches in the same order. It also serves for
    training; then only the trainer keeps the position: `state_dict` counts what `trained` has
    given, and torchdata's StatefulDataLoader keeps it by itself. (With several ranks and several
    worker processes `graphs_of_step` is unknown: it is 0, and `loss_weight` is 1.)
    """

    def __init__(self, evaluation: Evaluation) -> None:
        """Takes the arguments of `evaluation`; does not use it itself."""
        self._evaluation = evaluation
        self._orders = OrdersFile()
        self._owner = os.getpid()
        self._epoch = evaluation.epoch
        self._next_step = 0
        self._is_trained = False
        self._write_orders(0)

    @property
    def epoch(self) -> int:
        """The number of the epoch that iterating gives."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Passes that start from now on are of that epoch. To be called in the trainer."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._next_step = 0
        self._write_orders(self._next_step)

    def trained(self, data_loader: Iterable[_Item]) -> Iterator[_Item]:
        """The items of the data loader, counted for `state_dict`."""
        self._write_orders(self._next_step)
        self._is_trained = True
        try:
            for item in data_loader:
                self._next_step += 1
                yield item.item if isinstance(item, Leased) else item
            self._next_step = 0
            self._write_orders(0)
        finally:
            self._is_trained = False

    def acknowledge(self, batch: Any) -> None:
        """Nothing to do."""

    def flush(self) -> None:
        """Nothing to do."""

    def epoch_info(self) -> EpochInfo:
        """What the epoch is like. Errors: as those of `Evaluation`."""
        return self._evaluation.of(self._epoch, self._evaluation.sharing).epoch_info()

    def __len__(self) -> int:
        """Steps of a pass. Asks the server."""
        return len(self._evaluation.of(self._epoch, self._evaluation.sharing))

    def state_dict(self) -> dict[str, Any]:
        """The step after the last that `trained` gave. Empty in a worker process."""
        if os.getpid() != self._owner:
            return {}
        return {"epoch": self._epoch, "next_step": self._next_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next pass goes on there. To be called while no worker process iterates."""
        if not state or os.getpid() != self._owner:
            return
        # By torchdata, when `trained` begins: perhaps a state of an epoch that has ended.
        if not self._is_trained or state["epoch"] == self._epoch:
            self._epoch, self._next_step = state["epoch"], state["next_step"]
            self._write_orders(self._next_step)

    def __iter__(self) -> Iterator[LoadedBatch]:
        """This process's part of a pass."""
        number, count = worker_process()
        return EvaluationPass(self._evaluation, self._orders, number, count)

    def _write_orders(self, next_step: int) -> None:
        self._orders.write(
            Orders(self._epoch, "", "", "", 0, next_step, is_rest=False, is_acknowledged=True)
        )


class EvaluationPass(Iterator[LoadedBatch]):
    """What one process reads; its state is the next step of those of its rank."""

    def __init__(self, evaluation: Evaluation, file: OrdersFile, number: int, count: int) -> None:
        self._evaluation = evaluation
        self._file = file
        self._number = number
        self._count = count
        self._batches: Iterator[LoadedBatch] | None = None
        self._state: dict[str, Any] = {}
        self._epoch = 0
        self._next_step = 0

    def __next__(self) -> LoadedBatch:
        self._begin()
        assert self._batches is not None
        batch = next(self._batches)
        self._next_step = batch.step + self._count
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Plain values."""
        self._begin()
        return {"epoch": self._epoch, "next_step": self._next_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from there; before anything is read."""
        self._state = dict(state)

    def _begin(self) -> None:
        if self._batches is not None:
            return
        orders = self._file.read()
        assert orders is not None
        self._epoch, first_step = orders.epoch, orders.next_step
        lane = (self._number + first_step) % self._count
        self._next_step = first_step + (lane - first_step) % self._count
        if self._state.get("epoch") == orders.epoch:
            self._next_step = self._state["next_step"]
            lane = self._next_step % self._count
        self._batches = self._read(lane)

    def _read(self, lane: int) -> Iterator[LoadedBatch]:
        """Steps lane, lane + count, ... of the rank's, from the next one on."""
        ranked = self._evaluation.sharing
        whole = self._evaluation.of(self._epoch, ranked)
        if self._count == 1:
            yield from whole.from_step(self._next_step)
            return
        # Step s of rank r of n is batch s * n + r: the lane is a rank among `count` times as many.
        num_ranks = ranked.num_ranks * self._count
        rank = ranked.rank + lane * ranked.num_ranks
        part = self._evaluation.of(self._epoch, Ranked(rank, num_ranks))
        num_steps = len(whole)
        first = (self._next_step - lane) // self._count
        if self._next_step >= num_steps:
            return
        for batch in part.from_step(first):
            step = lane + batch.step * self._count
            if step >= num_steps:
                # Padding that only the larger number of ranks asks for.
                return
            yield batch.of_step(step, len(batch) if ranked.num_ranks == 1 else 0)
