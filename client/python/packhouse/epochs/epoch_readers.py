"""Epochs of a trainer whose batches are read by worker processes. See `EpochReaders`."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import sys
import uuid
import weakref
from collections import deque
from typing import Any, Callable, Final, Iterable, Iterator, NamedTuple, TypeVar, cast

from packhouse.base.arguments import names_init_arguments
from packhouse.base.errors import PackhouseError
from packhouse.epochs.acknowledging import Lease
from packhouse.epochs.batches import LoadedBatch
from packhouse.epochs.info import EpochInfo, EpochShare, check_not_empty
from packhouse.epochs.loader import Loader
from packhouse.epochs.reader_pass import Orders, OrdersFile, ReaderPass, worker_process
from packhouse.epochs.settings import (
    Dynamic,
    LoaderSettings,
    LoaderState,
    Ranked,
    nobody_else_loads,
    restarts,
    warn_of_begun,
)
from packhouse.epochs.trainer_calls import TrainerCalls
from packhouse.v1 import loader_pb2

SHARDED_TWICE: Final = (
    "accelerate shards this data loader once more, though its ranks share the epoch by themselves, so "
    "that graphs would be left out: do not give it to accelerator.prepare, and move batches with "
    "batch.to(accelerator.device)"
)

_Item = TypeVar("_Item")


class Leased(NamedTuple):
    """A transform's result that cannot carry the batch's lease, and the lease; `trained` takes the
    result out again.
    """

    item: Any
    lease: Lease


@names_init_arguments
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

    An epoch goes on after its loop was left, by break or an exception of any kind: the next loop
    acknowledges the item that was given out last, as asking for the next one does, and gives what
    has not been given out. The last item of an epoch is acknowledged when one more is asked for or,
    if all `len` steps were given out, by `set_epoch` of another epoch, `state_dict` and `close`.

    In the trainer this object opens no stream and does not use gRPC, unless the trainer iterates
    over it. A small process of its own makes the trainer's calls (see `trainer_calls.py`), so that
    worker processes may be forked. Where their batches come by a lane, it makes the calls of worker
    processes, too, which then use no gRPC. Otherwise the trainer must not have used a `Client`, a
    `Loader` or gRPC before; if it has, spawn the worker processes. Only `acknowledge` and `flush` are
    thread-safe.

    The trainer calls `state_dict` and `load_state_dict`: they ask the server, and serve any number
    of ranks and worker processes. torchdata's StatefulDataLoader keeps the states of the worker
    processes instead, and their number. Make its loader with on_existing="restart", because the
    server may have got further in the epoch than the state. Dynamic workers have no such state.
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
        self._calls = TrainerCalls(self._settings.connecting, self._orders.calls)
        self._has_ended_one = False
        # The loop of `trained` that is at work, and the one over this object in the trainer itself.
        self._trained: weakref.ref[_TrainedItems[Any]] | None = None
        self._own_pass: ReaderPass | None = None
        self._position = _Position()

    def _place(self, settings: LoaderSettings) -> LoaderSettings:
        """Those of this trainer."""
        return settings

    @property
    def _is_alone(self) -> bool:
        sharing = self._settings.sharing
        return isinstance(sharing, Ranked) and sharing.num_ranks == 1

    @property
    def _is_trained(self) -> bool:
        """Whether `trained` is at work."""
        return self._trained is not None and self._trained() is not None

    def _in_hand(self) -> Lease | None:
        """Of the item given out last in the trainer, if it is not acknowledged."""
        lease = self._position.in_hand
        if lease is None and self._own_pass is not None and self._own_pass.handed is not None:
            lease = self._own_pass.handed.lease
        return None if lease == self._position.last_acknowledged else lease

    def _go_to(self, epoch: int, cursor: str) -> None:
        own, self._own_pass = self._own_pass, None
        self._epoch, self._cursor, self._position = epoch, cursor, _Position()
        if own is not None:
            own.close()

    def __getstate__(self) -> dict[str, Any]:
        """For a worker process."""
        state = self.__dict__.copy()
        del state["_calls"]
        state["_trained"] = state["_own_pass"] = None
        return state

    # In the trainer.

    @property
    def epoch(self) -> int:
        """The number of the epoch that iterating gives."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Worker processes that start to iterate read that epoch from now on.

        Call it before each epoch, the first one too. Makes all acknowledgements durable first, and
        asks the server. Raises EpochFinishedError or, unless its workers are dynamic, EpochBegunError
        for what was done before, unless the loader's `on_existing` says otherwise; PackhouseError.
        """
        if epoch != self._epoch:
            self._acknowledge_last()
        self.flush()
        if epoch != self._epoch or self._position.has_ended:
            if epoch <= self._epoch:
                self._has_ended_one = False
            self._go_to(epoch, "")
        self._prepare()

    def trained(self, data_loader: Iterable[_Item]) -> Iterator[_Item]:
        """The items of the data loader; each is acknowledged when the next one is asked for.

        An item must be a batch, or have the batch's `lease` as an attribute of this name (a collate
        function puts it there), or be a `Leased`, whose item is then given out. The items must be
        all of the epoch that are left. At the end of a dynamic epoch this iterates over the data
        loader again: it waits for the other workers and loads what they leave. Errors:
        PackhouseError.
        """
        if type(data_loader).__module__.partition(".")[0] == "accelerate":
            raise ValueError(SHARDED_TWICE)
        return _TrainedItems(self, data_loader)

    def acknowledge(self, batch: LoadedBatch | Leased | Lease) -> None:
        """Says that this batch has been trained on. For loops without `trained`; call it in the
        order in which batches came.

        Worker processes need a loader with acknowledge="manual" for it. `flush`, or the next method
        that asks the server, raises what failed.
        """
        lease = batch if isinstance(batch, Lease) else batch.lease
        self._calls.acknowledge(lease)
        position = self._position
        if lease == position.last_acknowledged:
            return
        if lease.generation != position.generation:
            position.generation = lease.generation
            position.in_turn_from = None
        if position.in_turn_from is None or lease.step != position.next_step:
            position.in_turn_from = lease.step
        position.next_step = lease.step + 1
        position.last_acknowledged = lease

    def flush(self) -> None:
        """Waits until all acknowledgements are durable. Raises PackhouseError if that failed."""
        self._calls.flush()

    def close(self) -> None:
        """Ends the process that makes the calls, after some seconds at most; using this object again
        starts another. If all steps were given out, the last one is acknowledged, unless an
        exception is being handled.
        """
        try:
            if sys.exc_info()[0] is None:
                with contextlib.suppress(PackhouseError):
                    self._acknowledge_last()
        finally:
            if self._own_pass is not None:
                self._own_pass.close()
            self._calls.close()

    def __enter__(self) -> EpochReaders:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def epoch_info(self) -> EpochInfo:
        """What the epoch is like, and how far it is now. Errors: as those of `Loader`."""
        request = loader_pb2.GetEpochRequest(company=True)
        return EpochInfo.from_proto(self._call_get_epoch(request))

    def __len__(self) -> int:
        """Steps that come to this trainer in the epoch, from where it came to it (dynamic: the batches
        of its profile that are left then). Asks the server.
        """
        return self._share().num_left

    @property
    def num_steps(self) -> int:
        """The same, with the steps before a state that was loaded: what trainers count that keep the
        number of their step.
        """
        share = self._share()
        return share.num_steps_of_epoch if self._cursor else share.num_left

    def _share(self) -> EpochShare:
        """What the epoch had for this trainer when it came to it."""
        found, generation = self._position.share, self._position.generation
        if found is not None and not (found.is_estimate and generation):
            return found
        epoch = self._get_shared_epoch(self._cursor)
        share = EpochShare.from_proto(epoch.share)
        if found is not None:
            return dataclasses.replace(share, num_steps_done=found.num_steps_done)
        if self._settings.on_existing == "restart" and share.is_begun and not self._cursor:
            if isinstance(self._settings.sharing, Ranked):
                share = EpochShare.from_proto(self._get_shared_epoch(epoch.start_cursor).share)
        return share

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
        if self._position.generation == 0:
            if self._cursor:
                return LoaderState(epoch=self._epoch, cursor=self._cursor)
            epoch = self._get_epoch()
            if epoch.generation == 0:
                return LoaderState(epoch=self._epoch, cursor=epoch.start_cursor)
            return LoaderState(epoch=self._epoch, cursor=self._cursor_now(epoch.generation))
        if isinstance(self._settings.sharing, Dynamic) or self._is_alone:
            return LoaderState(epoch=self._epoch, cursor=self._cursor_now(self._position.generation))
        if self._position.in_turn_from != 0:
            raise ValueError(
                f"step {self._position.next_step - 1} is acknowledged, steps before {self._position.in_turn_from} were "
                "not: start from a state, or with an attempt of a new name"
            )
        request = loader_pb2.ReportStepRequest(
            job=self._settings.request.job,
            epoch=self._epoch,
            generation=self._position.generation,
            steps=self._position.next_step,
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
        self._attempt = attempt or self._settings.attempt
        if not self._attempt and self._is_alone:
            self._attempt = uuid.uuid4().hex
        self._has_ended_one = False
        self._go_to(state["epoch"], state["cursor"])
        if self._is_trained:
            self._prepare()

    def _prepare(self) -> None:
        """Looks whether there is anything to read, and tells the worker processes what."""
        is_new = not self._position.is_prepared
        epoch = self._get_shared_epoch(self._cursor) if is_new else self._get_epoch()
        check_not_empty(epoch, 3)
        settings = self._settings
        sharing = settings.sharing
        share = EpochShare.from_proto(epoch.share)
        is_over = epoch.generation != 0 and epoch.num_batches and sharing.all_done(epoch)
        is_begun = share.is_begun and isinstance(sharing, Ranked)
        if (is_over or is_begun) and not self._cursor and not self._position.generation:
            if isinstance(sharing, Dynamic) and self._has_ended_one:
                pass  # The others were faster.
            elif restarts(
                epoch,
                None if is_over else share,
                settings.on_existing,
                sharing,
                self._attempt,
                "trainer",
            ):
                self._cursor = epoch.start_cursor
                if not self._attempt and self._is_alone:
                    self._attempt = uuid.uuid4().hex
                share = EpochShare.from_proto(self._get_shared_epoch(self._cursor).share)
                self._position.share = None
        elif self._finds_it_begun(epoch):
            warn_of_begun(epoch, "trainer", 3)
        if self._position.share is None:
            self._position.share = share
        self._common = uuid.uuid4().hex
        self._write_orders()

    def _finds_it_begun(self, epoch: Any) -> bool:
        """Whether a dynamic epoch was begun before this trainer came, and nobody loads it."""
        is_open = epoch.generation != 0 and epoch.num_done and epoch.num_done < epoch.num_batches
        if not is_open or not isinstance(self._settings.sharing, Dynamic):
            return False
        if self._position.is_prepared or self._cursor or self._position.generation:
            return False
        if self._has_ended_one or self._settings.on_existing == "resume":
            return False

        def get_job() -> Any:
            request = loader_pb2.GetJobRequest(job=self._settings.request.job)
            return self._calls.call("GetJob", request, loader_pb2.Job)

        return nobody_else_loads(epoch, get_job, num_own=0)

    def _write_orders(self, is_rest: bool = False) -> None:
        self._orders.write(
            Orders(
                self._epoch,
                self._cursor,
                self._attempt,
                self._common,
                self._position.generation,
                self._position.next_step,
                is_rest,
                is_acknowledged=self._is_trained or self._settings.manual,
            )
        )

    def _go_on(self) -> None:
        """Before a loop: what was given out is done, and the loop begins after it."""
        if not self._settings.manual:
            self._acknowledge_in_hand()
        if not self._position.is_prepared:
            self._prepare()
        else:
            self.flush()
        self._write_orders()

    def _acknowledge_in_hand(self) -> None:
        lease = self._in_hand()
        if lease is not None:
            self.acknowledge(lease)

    def _acknowledge_last(self) -> None:
        """The same, if all steps have been given out."""
        lease = self._in_hand()
        if lease is None or (self._settings.manual and self._position.in_hand is None):
            return
        self.flush()
        if self._own_pass is not None:
            is_last = self._own_pass.has_given_all
        elif isinstance(self._settings.sharing, Dynamic):
            epoch = self._get_epoch()
            is_last = epoch.num_done + 1 == epoch.num_batches
        else:
            is_last = lease.step + 1 == self._share().num_steps
        if is_last:
            self.acknowledge(lease)
            self.flush()

    def _is_done(self) -> bool:
        epoch = self._get_epoch()
        return bool(epoch.num_done == epoch.num_batches)

    def _cursor_now(self, generation: int) -> str:
        request = loader_pb2.AcknowledgeRequest(
            job=self._settings.request.job, epoch=self._epoch, generation=generation
        )
        return str(self._calls.call("Acknowledge", request, loader_pb2.AcknowledgeResponse).cursor)

    def _get_epoch(self) -> Any:
        return self._call_get_epoch(loader_pb2.GetEpochRequest())

    def _get_shared_epoch(self, cursor: str) -> Any:
        """With the share of this trainer, which comes from the cursor ("": comes anew), or is in a
        generation.
        """
        request = loader_pb2.GetEpochRequest(attempt=self._attempt)
        self._settings.sharing.to_proto(request)
        if self._position.generation:
            request.generation = self._position.generation
        else:
            request.cursor = cursor
        return self._call_get_epoch(request)

    def _call_get_epoch(self, request: Any) -> Any:
        request.epoch.CopyFrom(self._settings.of_epoch(self._epoch))
        return self._calls.call("GetEpoch", request, loader_pb2.Epoch)

    # In a worker process, or in the trainer where the data loader has none.

    def __iter__(self) -> Iterator[Any]:
        """This process's part of the epoch that the trainer has set.

        In the trainer itself a batch is acknowledged when the next one is asked for, unless
        acknowledging is manual. Iterating raises ValueError if no epoch is set, or in a worker
        process that `trained` does not read; PackhouseError.
        """
        return self.iterate()

    def iterate(self, make: Callable[[LoadedBatch], Any] | None = None) -> Iterator[Any]:
        """The same, of what `make` makes of each batch. A batch for which it raises is not given
        out: it comes again.
        """
        number, count = worker_process()
        batches = ReaderPass(self._settings, self._orders, number, count, make)
        if os.getpid() != self._owner or self._is_trained or self._settings.manual:
            return batches
        return _OwnItems(self, batches)


class _Position:
    """Where a trainer is in its epoch: of one generation."""

    def __init__(self) -> None:
        # What the epoch had for this trainer when it came.
        self.share: EpochShare | None = None
        self.has_ended = False
        # Given out last by `trained`.
        self.in_hand: Lease | None = None
        self.last_acknowledged: Lease | None = None
        # Of the generation that batches came from; 0 before.
        self.generation = 0
        # The step after the last one that was acknowledged, and from where they came one by one.
        self.next_step = 0
        self.in_turn_from: int | None = None

    @property
    def is_prepared(self) -> bool:
        return self.share is not None


class _OwnItems(Iterator[Any]):
    """A loop over an EpochReaders in its trainer: asking for an item acknowledges the one before."""

    def __init__(self, readers: EpochReaders, batches: ReaderPass) -> None:
        self._readers = readers
        self._batches = batches
        self._has_begun = False

    def __next__(self) -> Any:
        readers = self._readers
        if readers._own_pass is not self._batches:
            if self._has_begun:
                # Of an epoch, or a place in it, that was left.
                raise StopIteration
            self._begin()
        readers._acknowledge_in_hand()
        try:
            # Not next(): after that, Python may run a signal handler.
            return self._batches.__next__()
        except StopIteration:
            readers.flush()
            readers._position.has_ended = readers._has_ended_one = True
            raise

    def _begin(self) -> None:
        readers = self._readers
        if not readers._position.is_prepared and readers._orders.read() is None:
            return  # Reading says what is missing.
        readers._go_on()
        before = readers._own_pass
        readers._position.in_hand = None
        readers._own_pass = self._batches
        self._has_begun = True
        if before is not None:
            before.close()


class _TrainedItems(Iterator[_Item]):
    """The loop of `EpochReaders.trained`."""

    def __init__(self, readers: EpochReaders, data_loader: Iterable[_Item]) -> None:
        self._readers = readers
        self._data_loader = data_loader
        self._items: Iterator[_Item] | None = None
        self._position = readers._position
        self._is_rest = False
        self._has_ended = False
        # What the data loader has given, one at most, until it is given out.
        self._taken: deque[_Item] = deque()
        self._handed: Any = None

    def __next__(self) -> _Item:
        readers = self._readers
        while not self._has_ended:
            if self._items is None:
                self._begin()
                continue
            if self._taken and self._taken[0] is self._handed:
                readers._acknowledge_in_hand()
                self._taken.clear()
            if not self._taken:
                self._taken.extend(itertools.islice(self._items, 1))
            if not self._taken:
                self._end_pass()
                continue
            item = cast(Any, self._taken[0])
            lease = item.lease
            given = item.item if isinstance(item, Leased) else item
            position = readers._position
            before, handed_before = position.in_hand, self._handed
            try:
                # As in `Loader.hand_over`.
                position.in_hand = lease
                self._handed = item
                return cast(_Item, given)
            except BaseException:
                position.in_hand, self._handed = before, handed_before
                raise
        raise StopIteration

    def _begin(self) -> None:
        readers = self._readers
        readers._trained = weakref.ref(self)
        readers._acknowledge_in_hand()
        if not readers._position.is_prepared:
            readers._prepare()
        else:
            readers.flush()
        readers._write_orders(is_rest=self._is_rest)
        own, readers._own_pass = readers._own_pass, None
        if own is not None:
            own.close()
        self._items = iter(self._data_loader)
        # torchdata may have loaded a state just now.
        self._position = readers._position

    def _end_pass(self) -> None:
        readers = self._readers
        readers.flush()
        is_dynamic = isinstance(readers._settings.sharing, Dynamic)
        if is_dynamic and not self._is_rest and not readers._is_done():
            self._is_rest, self._items = True, None
            return
        if readers._position is self._position:
            readers._position.has_ended = readers._has_ended_one = True
            readers._trained = None
        self._has_ended = True
