"""Batches of a data set of which the server keeps nothing. See `Evaluation`."""

from __future__ import annotations

import time
from typing import Any, Iterator, Mapping, Sequence

from packhouse.backoff import DEFAULT_RETRY_TIMEOUT, Backoff
from packhouse.batch import DerivedLike, Padding, PaddingLike
from packhouse.batch_reader import ReceivedBatch
from packhouse.channel import MAX_MESSAGE_BYTES, ChannelOptions
from packhouse.epoch import (
    EpochInfo,
    GraphSubset,
    LoadedBatch,
    RankProfile,
    Sampling,
    check_not_empty,
    epoch_spec,
    profiles_of,
)
from packhouse.errors import PackhouseError
from packhouse.load_connection import LoadConnection
from packhouse.packing import OversizePolicy
from packhouse.schema import GraphSchema
from packhouse.tuning import DeviceProfile
from packhouse.v1 import loader_pb2


class Evaluation:
    """All batches of an epoch, the same ones each time that it is iterated over.

        validation = Evaluation("localhost:50051", dataset="molhiv-valid", limits=limits)
        for epoch in range(10):
            ...
            losses = [evaluate(batch) for batch in validation]

    For validation and tests: there is no job, nothing is acknowledged, and however often and by
    whomever it is read, every graph comes once in each pass. Passes may run at the same time. If the
    server goes away, a pass goes on where it was, for `retry_timeout` seconds of failing in a row.

    Errors are raised by iterating, as PackhouseError: see `packhouse.v1.LoaderService.Load`. A graph
    beyond the limits is OUT_OF_RANGE, unless `oversize` says REJECT; then a warning gives their
    number, once for this object.

    Each pass has a connection of its own, in the process that iterates; it may be made before a
    fork, and pickled. `len` and `epoch_info` connect for the time of the call.
    """

    def __init__(
        self,
        address: str,
        *,
        dataset: str,
        seed: int = 0,
        epoch: int = 0,
        limits: Mapping[str, int] | None = None,
        shapes: Sequence[Mapping[str, int]] | None = None,
        device_profile: DeviceProfile | None = None,
        profiles: Sequence[RankProfile] | None = None,
        padding: PaddingLike = Padding.NONE,
        derived: DerivedLike = (),
        sizes_only: bool = False,
        oversize: OversizePolicy | str = OversizePolicy.ERROR,
        in_order: bool = False,
        look_ahead: int = 0,
        grouped: bool = False,
        subset: GraphSubset | None = None,
        sampling: Sampling | None = None,
        rank: int = 0,
        num_ranks: int | None = None,
        drop_last: bool = False,
        writable: bool = False,
        retry_timeout: float = DEFAULT_RETRY_TIMEOUT,
        timeout: float = 60.0,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        options: ChannelOptions = (),
    ) -> None:
        """As for `Loader`; `seed` and `epoch` only say which graphs come together, and when.

        `rank` of `num_ranks` gets its share of the steps, as do the worker processes of a data
        loader that take their numbers for it.
        """
        self._address = address
        self._profiles = profiles_of(limits, shapes, device_profile, profiles)
        self._spec = epoch_spec(
            self._profiles,
            dataset=dataset,
            job="",
            seed=seed,
            padding=padding,
            derived=derived,
            sizes_only=sizes_only,
            oversize=oversize,
            in_order=in_order,
            look_ahead=look_ahead,
            grouped=grouped,
            subset=subset,
            sampling=sampling,
        )
        self._spec.epoch = epoch
        if num_ranks is None:
            of_profiles = sum(each.num_ranks for each in self._profiles)
            num_ranks = of_profiles if len(self._profiles) > 1 else 1
        self._rank = rank
        self._num_ranks = num_ranks
        self._drop_last = drop_last
        self._writable = writable
        self._retry_timeout = retry_timeout
        self._timeout = timeout
        self._max_message_bytes = max_message_bytes
        self._options = tuple(options)
        self._has_checked = False

    def epoch_info(self) -> EpochInfo:
        """What it is like. Errors: see `packhouse.v1.GetEpoch`."""
        connection = self._connect()
        try:
            request = loader_pb2.GetEpochRequest(epoch=self._spec)
            return EpochInfo.from_proto(connection.call("GetEpoch", request))
        finally:
            connection.close()

    def __len__(self) -> int:
        """Steps of a pass. Asks the server, and waits for it for `retry_timeout` seconds."""
        return self.epoch_info().num_steps(self._profiles, self._num_ranks, self._drop_last)

    def __iter__(self) -> Iterator[LoadedBatch]:
        """A new pass, from the start; leaving it early is cheap."""
        connection = self._connect()
        backoff = Backoff(self._retry_timeout)
        schema = GraphSchema()
        next_step = 0

        def request() -> Any:
            load = loader_pb2.LoadRequest(epoch=self._spec)
            load.evaluation.first_step = next_step
            load.evaluation.ranked.rank = self._rank
            load.evaluation.ranked.num_ranks = self._num_ranks
            load.evaluation.ranked.drop_last = self._drop_last
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
                    next_step = received.head.step + 1
                    batch = LoadedBatch.of_loaded_parts(received, schema, 0, 0)
                    yield batch.writable() if self._writable else batch
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

    def _connect(self) -> LoadConnection:
        return LoadConnection(
            self._address,
            "",
            self._timeout,
            self._retry_timeout,
            self._max_message_bytes,
            0,
            self._options,
        )
