"""The batches of an epoch: as a loader gives them, which it has given, and one in several smaller.

Smaller ones are for a device that a batch did not fit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import sys
import threading
from typing import Any, Final, Mapping

import grpc
import numpy as np

from packhouse.calls.channel import make_channel
from packhouse.calls.servers import addresses_of, first_that_answers
from packhouse.data.batch import (
    Batch,
    DerivedTensor,
    Padding,
    ReceivedBatch,
    fields_of,
    received_by_protobuf,
)
from packhouse.data.reading import loaded_batch
from packhouse.data.schema import GraphSchema
from packhouse.epochs.acknowledging import Lease
from packhouse.epochs.info import EpochRows, LossWeights
from packhouse.epochs.request import Connecting
from packhouse.planning.pack_options import PackOptions
from packhouse.planning.packing import pack_method, pack_tables


_fields_of_lease: Final = operator.attrgetter("epoch", "generation", "session", "id", "step")


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedBatch(Batch):
    """A batch of an epoch, leased until it is acknowledged; can be sent to another process.

    `shape` is the number of its shape among those of its rank group. `drawn_smaller` has the level of
    each sub-graph that was drawn smaller than the spec says, by its id. `generation` and `session`
    say who got it. `epoch_rows` has the rows of all batches of the epoch; None if they are not known.
    """

    generation: int
    session: int
    is_padding: bool
    is_redelivered: bool
    graphs_of_step: int
    shape: int
    drawn_smaller: Mapping[int, int]
    epoch_rows: EpochRows | None = None

    @staticmethod
    def of(
        message: Any,
        schema: GraphSchema,
        generation: int,
        session: int,
        epoch_rows: EpochRows | None = None,
    ) -> LoadedBatch:
        """Views a `packhouse.v1.LoadedBatch`. Raises ValueError if it contradicts itself."""
        parts = received_by_protobuf(message.batch, message)
        return LoadedBatch.of_loaded_parts(parts, schema, generation, session, epoch_rows)

    @staticmethod
    def of_loaded_parts(
        parts: ReceivedBatch,
        schema: GraphSchema,
        generation: int,
        session: int,
        epoch_rows: EpochRows | None = None,
    ) -> LoadedBatch:
        """What a reader of `Load` has read. Raises ValueError likewise."""
        if loaded_batch is not None:
            batch: LoadedBatch | None = loaded_batch(
                LoadedBatch, parts, schema, generation, session, epoch_rows
            )
            if batch is not None:
                return batch
        fields = fields_of(parts, schema)
        fields["generation"] = generation
        fields["session"] = session
        fields["is_padding"] = parts.is_padding
        fields["is_redelivered"] = parts.is_redelivered
        fields["graphs_of_step"] = parts.graphs_of_step
        fields["shape"] = parts.shape
        fields["drawn_smaller"] = dict(parts.drawn_smaller) if parts.drawn_smaller else {}
        fields["epoch_rows"] = epoch_rows
        return LoadedBatch._make(fields)

    def of_step(self, step: int, graphs_of_step: int) -> LoadedBatch:
        """The same batch, as a step among more or fewer ranks."""
        fields = dict(self.__dict__)
        fields.update(step=step, graphs_of_step=graphs_of_step)
        return LoadedBatch._make(fields)

    @property
    def number(self) -> int:
        """Its number in the epoch; it stays the same when the epoch is dealt again."""
        return self.id

    @property
    def lease(self) -> Lease:
        """All that acknowledging it needs; a collate function keeps it with its result."""
        # Its constructor is Python's, and takes three times as long.
        return tuple.__new__(Lease, _fields_of_lease(self))

    @property
    def loss_weight(self) -> float:
        """Its share of the graphs of all ranks' batches of this step; 0 if it is padding only.

        The sum over ranks of loss_weight * (mean loss of the batch) is the mean over the step's
        graphs. 1 for dynamic workers, which have no steps in common.
        """
        return len(self) / self.graphs_of_step if self.graphs_of_step else 1.0

    @property
    def loss_weights(self) -> LossWeights:
        """By component, `graphs` last: its real rows over those of the epoch's mean batch; 0 if it is
        padding only.

        `loss_weights["nodes"]` makes each node of the epoch count alike, whatever batch it is in: the
        sum over ranks and steps of loss_weights[c] * (mean loss over the batch's rows of c), divided
        by `EpochInfo.num_batches`, is the mean over all rows of c of the epoch. A mask that was stored
        with its counts (`GraphTable.with_counts`) is a component: its true rows count. The weights
        of an epoch's batches have the mean 1, and are the same with any number of ranks, for
        dynamic workers and after a restart: each worker knows them by itself.

        Raises ValueError where the rows of the epoch are not known beforehand: of sub-graphs, and of
        parts that are joined.
        """
        if self.epoch_rows is None:
            raise ValueError(
                "loss_weights: the rows of an epoch of sub-graphs, or of parts that are joined, are "
                "not known beforehand; loss_weight is a share of the step's graphs"
            )
        return self.epoch_rows.weights_of(self.real_rows)


class GivenBatches:
    """One generation's, of one loader. Thread-safe; each method may be called again after an
    exception ended it anywhere.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Below: written under _lock, but by `give`, which is for one thread. Read without it, as each
        # batch is looked up: one look at one set. Numbers of batches that were given out.
        self.given: set[int] = set()
        # Steps of those that are not acknowledged, by number.
        self.held: dict[int, int] = {}
        self.num_expected = sys.maxsize
        self._last_given_step = -1
        self._last_acknowledged_step = -1

    def expect(self, num_batches: int) -> None:
        """Says how many will come."""
        with self._lock:
            self.num_expected = num_batches

    def give(self, number: int, step: int) -> None:
        """Marks it as given out, and not done. Idempotent."""
        self.held[number] = step
        if step > self._last_given_step:
            self._last_given_step = step
        self.given.add(number)

    def acknowledge(self, number: int) -> bool:
        """Marks it as done. True if it was the last one that was awaited."""
        with self._lock:
            step = self.held.get(number)
            if step is not None:
                if step > self._last_acknowledged_step:
                    self._last_acknowledged_step = step
                del self.held[number]
            return not self.held and len(self.given) >= self.num_expected

    def has_all_with(self, ahead: list[int]) -> bool:
        """Whether as many as are expected have been given out, or are ahead."""
        with self._lock:
            num_ahead = sum(number not in self.given for number in ahead)
            return len(self.given) + num_ahead >= self.num_expected

    def steps_done(self) -> int | None:
        """The step up to which all is done, and nothing after it; None if nothing was given out.

        Raises ValueError if steps were acknowledged out of order.
        """
        with self._lock:
            # At once: another one may be given meanwhile.
            held = list(self.held.values())
            if held:
                steps = min(held)
                if self._last_acknowledged_step > steps:
                    raise ValueError(
                        f"step {self._last_acknowledged_step} is acknowledged, "
                        f"step {steps} before it is not"
                    )
                return steps
            return self._last_given_step + 1 if self.given else None


# For a server to take the connection.
_CONNECT_SECONDS: Final = 10.0


@dataclasses.dataclass(frozen=True, eq=False)
class MicroBatch(Batch):
    """Some of the graphs of a batch, in a smaller shape.

    The sum over a batch's micro-batches of loss_weight * (mean loss of the micro-batch) is the mean
    loss of the batch; the weights add up to one. `LoadedBatch.loss_weight` comes on top.
    `loss_weights` are the same by component, for means over its rows: `loss_weights["nodes"]`; those
    of the LoadedBatch come on top.
    """

    loss_weight: float
    loss_weights: LossWeights


def split_batch(
    connecting: Connecting,
    batch: LoadedBatch,
    parts: int,
    padding: Padding,
    derived: list[DerivedTensor],
) -> list[MicroBatch]:
    """The graphs of `batch`, each in one of at least two micro-batches, packed by the server.

    See `Loader.split`.
    """
    if parts < 2:
        raise ValueError(f"parts {parts}: a batch is split in 2 or more")
    if len(batch) < 2:
        raise ValueError(f"a batch of {len(batch)} graphs cannot be split")
    table = batch.unbatch()
    limits = smaller_limits(batch, parts, padding)
    options = PackOptions(
        limits=limits, padding=padding, derived=derived, look_ahead=min(len(batch), 16384), lane="off"
    )

    def connect(to: str) -> grpc.Channel:
        return make_channel(
            to,
            max_message_bytes=connecting.max_message_bytes,
            options=connecting.options,
            credentials=connecting.credentials,
        )

    # Any server packs.
    addresses = addresses_of(connecting.address)
    channel, _ = first_that_answers(connect, addresses, _CONNECT_SECONDS)
    with contextlib.closing(channel):
        # Arrays that outlive the stream.
        packed = [
            each.writable() for each in pack_tables(pack_method(channel), (table,), options)
        ]
    return [_weighed(each, batch) for each in packed]


def smaller_limits(batch: Batch, parts: int, padding: Padding) -> dict[str, int]:
    """`batch`'s rows over `parts`, or the least multiple of that which takes each of its graphs.

    So batches of one shape are split to at most `parts` - 1 shapes. Raises ValueError if a graph
    needs all of the batch's rows: then nothing smaller takes it.
    """
    kept_free = 1 if padding in (Padding.GRAPH, Padding.TFGNN) else 0
    largest = dict(zip(batch.schema.components, np.max(batch.sizes, axis=0).tolist()))
    largest["graphs"] = 1
    for times in range(1, parts):
        limits = {name: -(-rows * times // parts) for name, rows in batch.rows.items()}
        # All graphs together must not fit one.
        limits["graphs"] = min(limits["graphs"], len(batch) - 1 + kept_free)
        if all(limits[name] >= rows + kept_free for name, rows in largest.items()):
            return {name: rows for name, rows in limits.items() if rows}
    raise ValueError(
        f"a graph of the batch needs nearly all of its rows ({largest} of {batch.rows}): split in "
        "more parts, or raise the limits"
    )


def _weighed(packed: Batch, whole: LoadedBatch) -> MicroBatch:
    fields: dict[str, Any] = dict(packed.__dict__)
    weights = EpochRows(1, whole.real_rows).weights_of(packed.real_rows)
    fields.update(
        epoch=whole.epoch,
        step=whole.step,
        loss_weight=len(packed) / max(len(whole), 1),
        loss_weights=weights,
    )
    return MicroBatch._make(fields)
