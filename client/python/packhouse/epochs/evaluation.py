"""Batches of a data set; the server keeps no record of them. See `Evaluation`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator

from packhouse.base.arguments import UINT64_MAX, shows_arguments_of, whole_number
from packhouse.base.asynchronous import Ahead, AsyncItems
from packhouse.base.errors import PackhouseError
from packhouse.calls.retrying import Backoff
from packhouse.data.batch import ReceivedBatch
from packhouse.data.schema import GraphSchema
from packhouse.epochs.connecting import LoadArguments, split
from packhouse.epochs.info import EpochInfo, check_not_empty
from packhouse.epochs.load_connection import LoadConnection
from packhouse.epochs.loaded_batch import LoadedBatch
from packhouse.epochs.request import EpochRequest
from packhouse.epochs.sharing import Ranked, ranked_of
from packhouse.v1 import loader_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
        rank: int | None = None,
        num_ranks: int | None = None,
        drop_last: bool = False,
        **arguments: Unpack[LoadArguments],
    ) -> None:
        """Takes all `EpochArguments` and all `ConnectionArguments`. `seed` and `epoch` only say
        which graphs come together, and when.

        `rank` of `num_ranks` gets its share of the steps. Worker processes of a data loader can use
        their own numbers here.
        """
        self._connecting, self._writable, rest = split(arguments, address)
        self._request = EpochRequest(rest, job="")
        self._epoch = whole_number(epoch, "epoch", UINT64_MAX)
        self._is_placed = rank is not None or num_ranks is not None
        self._sharing = ranked_of(self._request, rank, num_ranks, drop_last)
        self._has_checked = False

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

    def of(self, epoch: int, sharing: Ranked) -> Evaluation:
        """An evaluation with the same arguments, but another epoch or other steps."""
        other = Evaluation.__new__(Evaluation)
        other.__dict__.update(self.__dict__)
        other._epoch, other._sharing = epoch, sharing
        return other

    def epoch_info(self) -> EpochInfo:
        """What the epoch is like. Errors: as iterating."""
        connection = LoadConnection(self._connecting)
        try:
            request = loader_pb2.GetEpochRequest(epoch=self._request.of_epoch(self._epoch))
            return EpochInfo.from_proto(connection.call("GetEpoch", request))
        finally:
            connection.close()

    def __len__(self) -> int:
        """Steps of a pass. Asks the server, and waits for it for `retry_timeout` seconds."""
        return self._sharing.num_steps(self.epoch_info(), self._request)

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
        next_step = first_step

        def request() -> Any:
            load = loader_pb2.LoadRequest(epoch=self._request.of_epoch(self._epoch))
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
                    yield LoadedBatch.of_loaded_parts(received, schema, 0, 0)
                    continue
                kind = received.WhichOneof("message")
                if kind == "opened":
                    schema = GraphSchema.from_proto(received.opened.schema)
                    if not self._has_checked:
                        check_not_empty(received.opened.epoch, 3)
                        self._has_checked = True
                elif kind == "end_of_epoch":
                    return
        finally:
            connection.close()
