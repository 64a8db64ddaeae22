"""Epochs of a trainer whose batches are read by worker processes. See `EpochReaders`."""

from __future__ import annotations

import os
import uuid
from typing import Any, Iterable, Iterator, NamedTuple, TypeVar, cast

from packhouse.acknowledging import Lease
from packhouse.epoch_info import EpochInfo, check_not_empty
from packhouse.finished_epochs import restarts
from packhouse.loaded_batch import LoadedBatch
from packhouse.loader import Loader
from packhouse.loader_settings import LoaderSettings, LoaderState
from packhouse.reader_pass import ReaderPass
from packhouse.sharing import Dynamic, Ranked
from packhouse.trainer_calls import TrainerCalls
from packhouse.v1 import loader_pb2
from packhouse.worker_processes import Orders, OrdersFile, worker_process

_Item = TypeVar("_Item")


class Leased(NamedTuple):
    """A transform's result that cannot carry the batch's lease, and the lease; `trained` takes the
    result out again.
    """

    item: Any
    lease: Lease


class EpochReaders:
    """One trainer's share of a job's epochs, read by worker processes, as those of a data loader.

        epochs = EpochReaders(Loader(address, dataset="molhiv", job="run-1", limits=limits))
        for epoch in range(10):
            epochs.set_epoch(epoch)                       # In the trainer.
            for batch in epochs.trained(data_loader):     # Which reads `epochs` in its workers.
                train(batch)

    `packhouse.torch.EpochDataset` is this as torch's IterableDataset; this module does not need
    torch. Each worker process iterates over its own copy, pickled or forked. It gets its own part
    of what the loader gets, as a rank or as a dynamic worker. Each graph reaches one of them once.
    A rank gets the same batches in the same order as without worker processes. The trainer
    acknowledges, because only the trainer knows what has been trained on.

    A worker process never waits for another trainer, or for a batch that its own trainer has not
    yet reached: the data loader takes the workers' batches in turn and would wait for ever. Instead
    the worker process ends, and keeps what it has. Batches that are left then, because another
    worker died, come at the end of `trained`, by the first worker process.

    In the trainer this object opens no stream and does not use gRPC, unless the trainer iterates
    over it. A small process of its own makes the trainer's calls (see `trainer_calls.py`), so that
    worker processes may be forked. The trainer must not have used a `Client`, a `Loader` or gRPC
    before; if it has, spawn the worker processes. Only `acknowledge` and `flush` are thread-safe.

    The trainer calls `state_dict` and `load_state_dict`: they ask the server, and serve any number
    of ranks and worker processes. torchdata's StatefulDataLoader keeps the states of the worker
    processes instead, and their number. Make its loader with finished="restart", because the server
    may have got further in the epoch than the state. Dynamic workers have no such state.
    """

    def __init__(self, loader: Loader) -> None:
        """Takes the arguments of `loader`, and its epoch or state; does not use the loader itself.

        Makes a small file, which is deleted with this object. In it the trainer tells its worker
        processes, also those that live on, what to read.
        """
        self._settings = self._place(loader.settings)
        self._owner = os.getpid()
        self._orders = OrdersFile()
        start = loader.start
        self._epoch = start.epoch
        self._cursor = start.cursor
        self._attempt = start.attempt
        # By which worker processes that go on from states of theirs know each other.
        self._common = ""
        self._calls = TrainerCalls(self._settings.connecting)
        self._has_ended_one = False
        # Whether `trained` is at work.
        self._is_trained = False
        self._forget_position()

    def _place(self, settings: LoaderSettings) -> LoaderSettings:
        """Those of this trainer."""
        return settings

    @property
    def _is_alone(self) -> bool:
        sharing = self._settings.sharing
        return isinstance(sharing, Ranked) and sharing.num_ranks == 1

    def _forget_position(self) -> None:
        self._is_prepared = False
        self._has_ended = False
        # Given out last by `trained`, and not acknowledged.
        self._in_hand: Lease | None = None
        # Of the generation that batches came from; 0 before.
        self._generation = 0
        # The step after the last one that was acknowledged, and from where they came one by one.
        self._next_step = 0
        self._in_turn_from: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """For a worker process."""
        state = self.__dict__.copy()
        del state["_calls"]
        return state

    # In the trainer.

    @property
    def epoch(self) -> int:
        """The number of the epoch that iterating gives."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Worker processes that start to iterate read that epoch from now on.

        Call it before each epoch, the first one too. Makes all acknowledgements durable first, and
        asks the server. Raises EpochFinishedError if the epoch was finished before, unless the
        loader's `finished` says otherwise; PackhouseError.
        """
        self.flush()
        if epoch != self._epoch or self._has_ended:
            if epoch <= self._epoch:
                self._has_ended_one = False
            self._epoch = epoch
            self._cursor = ""
            self._forget_position()
        self._prepare()

    def trained(self, data_loader: Iterable[_Item]) -> Iterator[_Item]:
        """The items of the data loader; each is acknowledged when the next one is asked for.

        An item must be a batch, or have the batch's `lease` as an attribute of this name (a collate
        function puts it there), or be a `Leased`, whose item is then given out. The items must be
        all of the epoch. At the end of a dynamic epoch this iterates over the data loader again: it
        waits for the other workers and loads what they leave. Leaving early leaves the last item
        unacknowledged. Errors: PackhouseError.
        """
        if not self._is_prepared:
            self._prepare()
        self._is_trained = True
        try:
            self._write_orders()
            yield from self._pass(data_loader)
            if isinstance(self._settings.sharing, Dynamic) and not self._is_done():
                self._write_orders(is_rest=True)
                yield from self._pass(data_loader)
            self._has_ended = True
            self._has_ended_one = True
        finally:
            self._is_trained = False
            self._in_hand = None

    def _pass(self, data_loader: Iterable[_Item]) -> Iterator[_Item]:
        for item in data_loader:
            self._in_hand = cast(Any, item).lease
            yield item.item if isinstance(item, Leased) else item
            self._acknowledge_in_hand()
        self.flush()

    def acknowledge(self, batch: LoadedBatch | Leased | Lease) -> None:
        """Says that this batch has been trained on. For loops without `trained`; call it in the
        order in which batches came.

        Worker processes need a loader with acknowledge="manual" for it. `flush`, or the next method
        that asks the server, raises what failed.
        """
        lease = batch if isinstance(batch, Lease) else batch.lease
        if lease == self._in_hand:
            self._in_hand = None
        if lease.generation != self._generation:
            self._generation = lease.generation
            self._in_turn_from = None
        if self._in_turn_from is None or lease.step != self._next_step:
            self._in_turn_from = lease.step
        self._next_step = lease.step + 1
        self._calls.acknowledge(lease)

    def flush(self) -> None:
        """Waits until all acknowledgements are durable. Raises PackhouseError if that failed."""
        self._calls.flush()

    def epoch_info(self) -> EpochInfo:
        """What the epoch is like, and how far it is now. Errors: as those of `Loader`."""
        return EpochInfo.from_proto(self._get_epoch())

    def __len__(self) -> int:
        """Steps of this trainer in the epoch (dynamic: batches of its profile), with done ones."""
        return self._settings.sharing.num_steps(self.epoch_info(), self._settings.request)

    def state_dict(self) -> LoaderState | dict[str, Any]:
        """The position in the epoch, for the checkpoint; call it after a step has been done.

        As `Loader.state_dict`: the item that `trained` gave out last counts as done, and is
        acknowledged. Opens no stream. Raises ValueError if several ranks' steps were not
        acknowledged in turn, as after a start without a state in the middle of an epoch. Empty in a
        worker process.
        """
        if os.getpid() != self._owner:
            return {}
        self._acknowledge_in_hand()
        self.flush()
        if self._generation == 0:
            if self._cursor:
                return LoaderState(epoch=self._epoch, cursor=self._cursor)
            epoch = self._get_epoch()
            if epoch.generation == 0:
                return LoaderState(epoch=self._epoch, cursor=epoch.start_cursor)
            return LoaderState(epoch=self._epoch, cursor=self._cursor_now(epoch.generation))
        if isinstance(self._settings.sharing, Dynamic) or self._is_alone:
            return LoaderState(epoch=self._epoch, cursor=self._cursor_now(self._generation))
        if self._in_turn_from != 0:
            raise ValueError(
                f"step {self._next_step - 1} is acknowledged, steps before {self._in_turn_from} were "
                "not: start from a state, or with an attempt of a new name"
            )
        request = loader_pb2.ReportStepRequest(
            job=self._settings.request.job,
            epoch=self._epoch,
            generation=self._generation,
            steps=self._next_step,
        )
        response = self._calls.call("ReportStep", request, loader_pb2.ReportStepResponse)
        return LoaderState(epoch=self._epoch, cursor=response.cursor)

    def load_state_dict(
        self, state: LoaderState | dict[str, Any], attempt: str | None = None
    ) -> None:
        """Goes on exactly where the state was taken: see `Loader.load_state_dict`.

        Call it while no worker process iterates.
        """
        if not state or os.getpid() != self._owner:
            return
        # By torchdata, when `trained` begins: perhaps a state of an epoch that has ended.
        if self._is_trained and state["epoch"] != self._epoch:
            return
        if attempt is None and isinstance(self._settings.sharing, Dynamic):
            raise ValueError("dynamic workers need an attempt to load a state")
        self._calls.reset()
        self._epoch = state["epoch"]
        self._cursor = state["cursor"]
        self._attempt = attempt or self._settings.attempt
        if not self._attempt and self._is_alone:
            self._attempt = uuid.uuid4().hex
        self._has_ended_one = False
        self._forget_position()
        if self._is_trained:
            self._prepare()

    def _prepare(self) -> None:
        """Looks whether there is anything to read, and tells the worker processes what."""
        epoch = self._get_epoch()
        check_not_empty(epoch, 4)
        settings = self._settings
        is_over = epoch.generation != 0 and epoch.num_batches and settings.sharing.all_done(epoch)
        if is_over and not self._cursor and not self._generation:
            if isinstance(settings.sharing, Dynamic) and self._has_ended_one:
                pass  # The others were faster.
            elif restarts(epoch, settings.finished, settings.sharing, self._attempt, "trainer"):
                self._cursor = epoch.start_cursor
                if not self._attempt and self._is_alone:
                    self._attempt = uuid.uuid4().hex
        self._is_prepared = True
        self._common = uuid.uuid4().hex
        self._write_orders()

    def _write_orders(self, is_rest: bool = False) -> None:
        self._orders.write(
            Orders(
                self._epoch,
                self._cursor,
                self._attempt,
                self._common,
                self._generation,
                self._next_step,
                is_rest,
                is_acknowledged=self._is_trained or self._settings.manual,
            )
        )

    def _acknowledge_in_hand(self) -> None:
        if self._in_hand is not None:
            self.acknowledge(self._in_hand)

    def _is_done(self) -> bool:
        epoch = self._get_epoch()
        return bool(epoch.num_done == epoch.num_batches)

    def _cursor_now(self, generation: int) -> str:
        request = loader_pb2.AcknowledgeRequest(
            job=self._settings.request.job, epoch=self._epoch, generation=generation
        )
        return str(self._calls.call("Acknowledge", request, loader_pb2.AcknowledgeResponse).cursor)

    def _get_epoch(self) -> Any:
        spec = self._settings.request.of_epoch(self._epoch)
        return self._calls.call(
            "GetEpoch", loader_pb2.GetEpochRequest(epoch=spec), loader_pb2.Epoch
        )

    # In a worker process, or in the trainer where the data loader has none.

    def __iter__(self) -> Iterator[Any]:
        """This process's part of the epoch that the trainer has set.

        In the trainer itself a batch is acknowledged when the next one is asked for, unless
        acknowledging is manual. Iterating raises ValueError if no epoch is set, or in a worker
        process that `trained` does not read; PackhouseError.
        """
        number, count = worker_process()
        batches = ReaderPass(self._settings, self._orders, number, count)
        if os.getpid() != self._owner or self._is_trained or self._settings.manual:
            return batches
        return self._acknowledged(batches)

    def _acknowledged(self, batches: Iterator[LoadedBatch]) -> Iterator[LoadedBatch]:
        for batch in batches:
            self._in_hand = batch.lease
            yield batch
            self._acknowledge_in_hand()
        self.flush()
        self._has_ended = True
        self._has_ended_one = True
