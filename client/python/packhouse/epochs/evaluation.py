"""Batches of a data set of which the server keeps no record: read here, or by worker processes.

See `Evaluation` and `EvaluationReaders`.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterable, Iterator, TypeVar

from packhouse.base.arguments import (
    UINT64_MAX,
    Uint32,
    names_init_arguments,
    shows_arguments_of,
    whole_number,
)
from packhouse.base.waiting import Ahead, AsyncItems
from packhouse.base.errors import PackhouseError
from packhouse.calls.lane import Transport
from packhouse.calls.retrying import Backoff
from packhouse.data.batch import ReceivedBatch
from packhouse.data.schema import GraphSchema
from packhouse.epochs.batches import LoadedBatch
from packhouse.epochs.epoch_readers import Leased
from packhouse.epochs.info import EpochInfo, EpochRows, EpochShare, check_not_empty
from packhouse.epochs.load_connection import LoadConnection
from packhouse.epochs.reader_pass import Orders, OrdersFile, worker_process
from packhouse.epochs.request import EpochRequest, LoadArguments, split_arguments
from packhouse.epochs.settings import Ranked, ranked_of
from packhouse.v1 import loader_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack


@names_init_arguments
class Evaluation:
    """All batches of an epoch, the same ones each time that it is iterated over.

        validation = Evaluation("localhost:50051", dataset="molhiv-valid", limits=limits)
        for epoch in range(10):
            ...
            losses = [evaluate(batch) for batch in validation]

    For validation and tests: there is no job, and nothing is acknowledged. Every graph comes once
    in each pass, however many readers and passes there are. Passes may run at the same time. If the
    server goes away, a pass goes on where it was; it gives up after `retry_timeout` seconds of
    failing in a row.

    A graph beyond the limits is an error, unless `oversize` says REJECT: then a warning gives the
    number of such graphs, once for this object. Errors are raised by iterating, as PackhouseError:
    - NOT_FOUND: no such data set.
    - INVALID_ARGUMENT: an argument that makes no sense; names it, the value and the bound.
    - OUT_OF_RANGE: a graph that the limits do not take; names it.
    - FAILED_PRECONDITION: the data set is not sealed.
    - RESOURCE_EXHAUSTED: too many streams or bytes at the server now; names the bound.
    - DATA_LOSS: a stored record fails its checksum; names it and its graphs.

    Each pass has a connection of its own, in the process that iterates; it may be made before a
    fork, and pickled. `len` and `epoch_info` connect for the time of the call.
    """

    @shows_arguments_of(LoadArguments)
    def __init__(
        self,
        address: str,
        *,
        epoch: int = 0,
        rank: Uint32 | None = None,
        num_ranks: Uint32 | None = None,
        drop_last: bool = False,
        **arguments: Unpack[LoadArguments],
    ) -> None:
        """Takes all `EpochArguments` and all `ConnectionArguments`. `seed` and `epoch` only say
        which graphs come together, and when.

        `rank` of `num_ranks` gets its share of the steps. Worker processes of a data loader can use
        their own numbers here.
        """
        self._connecting, self._writable, rest = split_arguments(arguments, address)
        self._request = EpochRequest(rest, job="")
        self._epoch = whole_number(epoch, "epoch", UINT64_MAX)
        self._is_placed = rank is not None or num_ranks is not None
        self._sharing = ranked_of(self._request, rank, num_ranks, drop_last)
        # Of a part of a rank: the ranks of the whole, which its batches are ordered for.
        self._ranks_of_order = 0
        self._has_checked = False
        self._transport: Transport = "bytes"

    @property
    def transport(self) -> Transport:
        """How the batches of the pass that began last come: see `Loader.transport`."""
        return self._transport

    @property
    def epoch(self) -> int:
        """The number of the epoch that a pass gives."""
        return self._epoch

    @property
    def sharing(self) -> Ranked:
        """Which of the steps it gives."""
        return self._sharing

    @property
    def is_placed(self) -> bool:
        """Whether `rank` or `num_ranks` was given."""
        return self._is_placed

    def of(self, epoch: int, sharing: Ranked, ranks_of_order: int = 0) -> Evaluation:
        """An evaluation with the same arguments, but another epoch or other steps, with batches in the
        order of so many ranks (0: those of `sharing`).
        """
        other = Evaluation.__new__(Evaluation)
        other.__dict__.update(self.__dict__)
        other._epoch, other._sharing, other._ranks_of_order = epoch, sharing, ranks_of_order
        return other

    def _spec(self) -> Any:
        ranks = self._ranks_of_order or self._sharing.num_ranks
        return self._request.of_epoch(self._epoch, ranks)

    def epoch_info(self) -> EpochInfo:
        """What the epoch is like. Errors: as iterating."""
        return EpochInfo.from_proto(self._get_epoch(loader_pb2.GetEpochRequest(company=True)))

    def _get_epoch(self, request: Any) -> Any:
        request.epoch.CopyFrom(self._spec())
        connection = LoadConnection(self._connecting)
        try:
            return connection.call("GetEpoch", request)
        finally:
            connection.close()

    def __len__(self) -> int:
        """Steps of a pass. Asks the server, and waits for it for `retry_timeout` seconds."""
        request = loader_pb2.GetEpochRequest()
        self._sharing.to_proto(request.evaluation)
        return EpochShare.from_proto(self._get_epoch(request).share).num_left

    def __iter__(self) -> Iterator[LoadedBatch]:
        """A new pass, from the start; leaving it early is cheap."""
        return self.from_step(0)

    def __aiter__(self) -> AsyncIterator[LoadedBatch]:
        """As iterating, but waits on another thread."""
        return AsyncItems(Ahead(iter(self)))

    def from_step(self, first_step: int) -> Iterator[LoadedBatch]:
        """A pass from that step on, as to go on after a restart; steps keep their numbers.

        Raises PackhouseError with OUT_OF_RANGE if there are fewer steps.
        """
        connection = LoadConnection(self._connecting, writable=self._writable)
        backoff = Backoff(self._connecting.retry_timeout, call=connection.describe("Load"))
        schema = GraphSchema()
        epoch_rows: EpochRows | None = None
        next_step = first_step

        def request() -> Any:
            load = loader_pb2.LoadRequest(epoch=self._spec())
            load.evaluation.first_step = next_step
            self._sharing.to_proto(load.evaluation)
            return load

        try:
            while True:
                try:
                    received = connection.receive(request)
                except PackhouseError as error:
                    connection.leave()
                    time.sleep(backoff.delay_after(error))
                    continue
                backoff.succeeded()
                if isinstance(received, ReceivedBatch):
                    next_step = received.step + 1
                    yield LoadedBatch.of_loaded_parts(received, schema, 0, 0, epoch_rows)
                    continue
                kind = received.WhichOneof("message")
                if kind == "opened":
                    self._transport = connection.transport
                    schema = GraphSchema.from_proto(received.opened.schema)
                    epoch_rows = EpochRows.of(received.opened.epoch)
                    if not self._has_checked:
                        check_not_empty(received.opened.epoch, 2)
                        self._has_checked = True
                elif kind == "end_of_epoch":
                    # Otherwise the server may see a call that was cancelled.
                    connection.finish()
                    return
        finally:
            connection.close()


_Item = TypeVar("_Item")


@names_init_arguments
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
        part = self._evaluation.of(self._epoch, Ranked(rank, num_ranks), ranked.num_ranks)
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
