"""The batches of an epoch, as a loader gives them."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from packhouse.data.batch import Batch, ReceivedBatch, fields_of, received_by_protobuf
from packhouse.data.schema import GraphSchema
from packhouse.epochs.acknowledging import Lease


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedBatch(Batch):
    """A batch of an epoch, leased until it is acknowledged; can be sent to another process.

    `shape` is the number of its shape among those of its rank group. `drawn_smaller` has the level of
    each sub-graph that was drawn smaller than the spec says, by its id. `generation` and `session`
    say who got it.
    """

    generation: int
    session: int
    is_padding: bool
    is_redelivered: bool
    graphs_of_step: int
    shape: int
    drawn_smaller: Mapping[int, int]

    @staticmethod
    def of(message: Any, schema: GraphSchema, generation: int, session: int) -> LoadedBatch:
        """Views a `packhouse.v1.LoadedBatch`. Raises ValueError if it contradicts itself."""
        parts = received_by_protobuf(message.batch, message)
        return LoadedBatch.of_loaded_parts(parts, schema, generation, session)

    @staticmethod
    def of_loaded_parts(
        parts: ReceivedBatch, schema: GraphSchema, generation: int, session: int
    ) -> LoadedBatch:
        """What a reader of `Load` has read. Raises ValueError likewise."""
        fields = fields_of(parts, schema)
        fields["generation"] = generation
        fields["session"] = session
        fields["is_padding"] = parts.is_padding
        fields["is_redelivered"] = parts.is_redelivered
        fields["graphs_of_step"] = parts.graphs_of_step
        fields["shape"] = parts.shape
        fields["drawn_smaller"] = dict(parts.drawn_smaller)
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
        return Lease(self.epoch, self.generation, self.session, self.number, self.step)

    @property
    def loss_weight(self) -> float:
        """Its share of the graphs of all ranks' batches of this step; 0 if it is padding only.

        The sum over ranks of loss_weight * (mean loss of the batch) is the mean over the step's
        graphs. 1 for dynamic workers, which have no steps in common.
        """
        return len(self) / self.graphs_of_step if self.graphs_of_step else 1.0
