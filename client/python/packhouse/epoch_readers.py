"""Epochs of a trainer whose batches are read by worker processes. See `EpochReaders`."""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
import uuid
import weakref
from typing import Any, Callable, Iterable, Iterator, TypeVar, cast

from packhouse.acknowledging import Lease
from packhouse.epoch import EpochInfo, LoadedBatch, check_not_empty
from packhouse.errors import EpochFinishedError
from packhouse.loader import Loader, LoaderState
from packhouse.trainer_calls import Connecting, TrainerCalls
from packhouse.v1 import loader_pb2

_Item = TypeVar("_Item")


class EpochReaders:
    """One trainer's share of a job's epochs, read by worker processes, as those of a data loader.

        epochs = EpochReaders(Loader(address, dataset="molhiv", job="run-1", limits=limits))
        for epoch in range(10):
            epochs.set_epoch(epoch)                       # In the trainer.
            for batch in epochs.trained(data_loader):     # Which reads `epochs` in its workers.
                train(batch)

    `packhouse.torch.EpochDataset` is this as torch's IterableDataset; this module does not need
    torch. Each worker process iterates over its own copy, pickled or forked, and gets its own part of
    what the loader says, a rank's or a dynamic worker's: each graph reaches one of them once, and a
    rank's batches are those, and in the order, that it would have without worker processes. The
    trainer acknowledges, as only it knows what has been trained on.

    A worker process never waits for another trainer, or for a batch that its own trainer has not yet
    come to, as the data loader, which takes the workers' batches in turn, would wait for ever: it
    ends, and keeps what it has. What is left then, as others had it who died, comes at the end of
    `trained`, by the first worker process.

    In the trainer nothing here opens a stream, or uses gRPC, unless it iterates itself: its calls are
    made by a small process of their own (see `trainer_calls.py`), so that worker processes may be
    forked. For that the trainer must not have used a `Client`, `Loader` or gRPC before: where it has,
    spawn them. Not thread-safe, but for `acknowledge` and `flush`.
    """

    def __init__(self, loader: Loader) -> None:
        """Takes what `loader` was made with, and its epoch or state; it is not used itself.

        Its `acknowledge` counts as "manual". Makes a small file, by which the trainer tells its
        worker processes, also those that live on, what to read; it goes with this object.
        """
        self._loader = copy.copy(loader)
        self._loader._manual = True
        self._owner = os.getpid()
        handle, self._orders = tempfile.mkstemp(prefix="packhouse-epoch-")
        os.close(handle)
        self._finalizer = weakref.finalize(self, _remove, self._orders, self._owner)
        self._epoch = loader.epoch
        self._cursor = loader._start_cursor
        self._attempt = loader._attempt or loader._drawn_attempt
        self._calls = TrainerCalls(
            Connecting(
                loader._address,
                loader._spec.job,
                loader._timeout,
                loader._retry_timeout,
                loader._max_message_bytes,
                loader._max_in_flight,
                loader._options,
            )
        )
        self._has_ended_one = False
        self._forget_position()

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
        del state["_finalizer"], state["_calls"]
        return state

    # In the trainer.

    @property
    def epoch(self) -> int:
        """The number of the epoch that iterating gives."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Worker processes that start to iterate read that epoch from now on.

        To be called before each, the first one too. Makes all acknowledgements durable first, and
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
        """What the data loader gives; each is acknowledged when the next one is asked for.

        Its items must be batches, or have their `lease` as an attribute of this name: a collate
        function puts it there. They must be all that comes of the epoch: at the end, this loads what
        is left of dynamic epochs, waiting for others: iterates over the data loader again. Leaving
        early leaves the last item unacknowledged. Errors: PackhouseError.
        """
        if not self._is_prepared:
            self._prepare()
        try:
            self._write_orders()
            yield from self._pass(data_loader)
            if self._loader._worker is not None and not self._is_done():
                self._write_orders(is_rest=True)
                yield from self._pass(data_loader)
            self._has_ended = True
            self._has_ended_one = True
        finally:
            self._in_hand = None

    def _pass(self, data_loader: Iterable[_Item]) -> Iterator[_Item]:
        for item in data_loader:
            self._in_hand = cast(Any, item).lease
            yield item
            self._acknowledge_in_hand()
        self.flush()

    def acknowledge(self, batch: LoadedBatch | Lease) -> None:
        """This batch has been trained on. Instead of `trained`; in the order in which they came.

        What fails is raised by `flush`, or what else asks the server.
        """
        lease = batch.lease if isinstance(batch, LoadedBatch) else batch
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
        """What the epoch is like, and how far it is now. Errors: see `packhouse.v1.GetEpoch`."""
        return EpochInfo.from_proto(self._get_epoch())

    def __len__(self) -> int:
        """Steps of this trainer in the epoch (dynamic: batches of its profile), done ones included."""
        info = self.epoch_info()
        loader = self._loader
        if loader._worker is not None:
            return info.profiles[loader._profile].num_batches
        return info.num_steps(loader._profiles, loader._num_ranks, loader._drop_last)

    def state_dict(self) -> LoaderState:
        """Where the epoch is, for the checkpoint; to be called after a step has been done.

        As `Loader.state_dict`: what `trained` gave out last counts as done, and is acknowledged.
        Opens no stream. Raises ValueError if several ranks' steps were not
        acknowledged in turn, as after a start without a state in the middle of an epoch.
        """
        self._acknowledge_in_hand()
        self.flush()
        if self._generation == 0:
            if self._cursor:
                return LoaderState(epoch=self._epoch, cursor=self._cursor)
            epoch = self._get_epoch()
            if epoch.generation == 0:
                return LoaderState(epoch=self._epoch, cursor=epoch.start_cursor)
            return LoaderState(epoch=self._epoch, cursor=self._cursor_now(epoch.generation))
        if self._loader._worker is not None or self._loader._num_ranks == 1:
            return LoaderState(epoch=self._epoch, cursor=self._cursor_now(self._generation))
        if self._in_turn_from != 0:
            raise ValueError(
                f"step {self._next_step - 1} is acknowledged, steps before {self._in_turn_from} were "
                "not: start from a state, or with an attempt of a new name"
            )
        request = loader_pb2.ReportStepRequest(
            job=self._loader._spec.job,
            epoch=self._epoch,
            generation=self._generation,
            steps=self._next_step,
        )
        response = self._calls.call("ReportStep", request, loader_pb2.ReportStepResponse)
        return LoaderState(epoch=self._epoch, cursor=response.cursor)

    def load_state_dict(self, state: LoaderState, attempt: str | None = None) -> None:
        """Goes on exactly where the state was taken: see `Loader.load_state_dict`.

        To be called while no worker process iterates.
        """
        if attempt is None and self._loader._worker is not None:
            raise ValueError("dynamic workers need an attempt to load a state")
        self._calls.reset()
        self._epoch = state["epoch"]
        self._cursor = state["cursor"]
        self._attempt = attempt or self._loader._attempt
        if not self._attempt and self._loader._num_ranks == 1:
            self._attempt = uuid.uuid4().hex
        self._has_ended_one = False
        self._forget_position()

    def _prepare(self) -> None:
        """Looks whether there is anything to read, and tells the worker processes what."""
        epoch = self._get_epoch()
        check_not_empty(epoch, 4)
        loader = self._loader
        is_over = epoch.generation != 0 and epoch.num_batches and loader._all_done(epoch)
        if is_over and not self._cursor and not self._generation:
            words = f"epoch {epoch.epoch} of job {epoch.job!r} was finished before this trainer came"
            if loader._worker is not None and self._has_ended_one:
                pass  # The others were faster.
            elif loader._finished == "error":
                raise EpochFinishedError(
                    f"{words}: take another job name, a later epoch, load a state, or say "
                    'finished="restart" to load it anew or "skip" to go on without it'
                )
            elif loader._finished == "restart":
                if loader._worker is not None and not self._attempt:
                    raise EpochFinishedError(
                        f'{words}: dynamic workers need an attempt for finished="restart"'
                    )
                self._cursor = epoch.start_cursor
                if not self._attempt and loader._num_ranks == 1:
                    self._attempt = uuid.uuid4().hex
        self._is_prepared = True
        self._write_orders()

    def _write_orders(self, is_rest: bool = False) -> None:
        orders = {
            "epoch": self._epoch,
            "cursor": self._cursor,
            "attempt": self._attempt,
            # What has been come to is gone on with.
            "generation": self._generation,
            "next_step": self._next_step,
            # What others leave, by the first process alone, as that may wait.
            "is_rest": is_rest,
        }
        with tempfile.NamedTemporaryFile(
            "w", dir=os.path.dirname(self._orders), delete=False
        ) as file:
            json.dump(orders, file)
        os.replace(file.name, self._orders)

    def _acknowledge_in_hand(self) -> None:
        if self._in_hand is not None:
            self.acknowledge(self._in_hand)

    def _is_done(self) -> bool:
        epoch = self._get_epoch()
        return bool(epoch.num_done == epoch.num_batches)

    def _cursor_now(self, generation: int) -> str:
        request = loader_pb2.AcknowledgeRequest(
            job=self._loader._spec.job, epoch=self._epoch, generation=generation
        )
        return str(self._calls.call("Acknowledge", request, loader_pb2.AcknowledgeResponse).cursor)

    def _get_epoch(self) -> Any:
        spec = loader_pb2.EpochSpec()
        spec.CopyFrom(self._loader._spec)
        spec.epoch = self._epoch
        return self._calls.call(
            "GetEpoch", loader_pb2.GetEpochRequest(epoch=spec), loader_pb2.Epoch
        )

    # In a worker process, or in the trainer where the data loader has none.

    def __iter__(self) -> Iterator[LoadedBatch]:
        """This process's part of the epoch that the trainer has set.

        Raises ValueError if it has not; PackhouseError.
        """
        number, count = _worker_process()
        with open(self._orders) as file:
            text = file.read()
        if not text:
            raise ValueError("no epoch is set: call set_epoch in the trainer before each epoch")
        orders = json.loads(text)
        if orders["is_rest"] and number > 0:
            return iter(())
        loader = copy.copy(self._loader)
        loader._epoch = orders["epoch"]
        loader._start_cursor = orders["cursor"]
        loader._attempt = orders["attempt"]
        loader._attempt_is_used = False
        if orders["generation"]:
            loader._join_generation = orders["generation"]
        if loader._worker is None:
            # The first process gets the first step that is left.
            loader._reader = ((number + orders["next_step"]) % count, count)
        else:
            if count > 1:
                loader._worker = f"{loader._worker}/{number}"
            loader._waits_for_others = orders["is_rest"] or not _is_worker_process()
        # The trainer has looked.
        loader._looks_at_epoch = False
        loader._begin()
        return _until_closed(loader)


def _until_closed(loader: Loader) -> Iterator[LoadedBatch]:
    with loader:
        yield from loader


def _is_worker_process() -> bool:
    return _worker_info() is not None


def _worker_process() -> tuple[int, int]:
    """The number of this process, and of how many. (0, 1) in the trainer."""
    info = _worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


def _worker_info() -> Any:
    torch_data: Any = sys.modules.get("torch.utils.data")
    get: Callable[[], Any] | None = getattr(torch_data, "get_worker_info", None)
    return None if get is None else get()


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        try:
            os.remove(path)
        except FileNotFoundError:
            pass
