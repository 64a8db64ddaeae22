"""Durable data sets of graphs; get at them by `Client`."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterable

from packhouse.base.arguments import Choice
from packhouse.data.examples import SkippedExample
from packhouse.data.histogram import Histogram
from packhouse.data.pieces import whole_schema
from packhouse.data.schema import GraphSchema


class DatasetState(Choice):
    """OPEN takes graphs. SEALED never changes again, and can be loaded. The description of a
    DAMAGED one fails its checksum; only `Client.datasets.list` shows it, with nothing but its name.
    """

    OPEN = 1
    SEALED = 2
    DAMAGED = 3


@dataclasses.dataclass(frozen=True)
class DatasetDrift:
    """The sizes of the graphs of an open data set have changed.

    - `first_graph`, `found_graph`: places in the data set, from 0: where the change began, by
      estimate, and where it was found.
    - `reference_means`, `means`: rows of a graph by component, before and after the change.
    - `num_changes`: how many changes were found so far.
    """

    first_graph: int
    found_graph: int
    reference_means: dict[str, float]
    means: dict[str, float]
    num_changes: int

    @staticmethod
    def from_proto(message: Any) -> DatasetDrift:
        """Reads a `packhouse.v1.DatasetDrift`."""
        return DatasetDrift(
            first_graph=message.first_graph,
            found_graph=message.found_graph,
            reference_means={each.component: each.reference_mean for each in message.components},
            means={each.component: each.mean for each in message.components},
            num_changes=message.num_changes,
        )


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A data set as the server describes it; `histogram` is None unless it was asked for.

    `drift` is the latest change of sizes while the data set was open; only `Client.datasets.get`
    asks for it.

    `id` distinguishes it from another data set of the same name; `version` changes when it is
    sealed. `num_bytes` counts its records on disk; `max_bytes` is its quota (0: only the server's
    own). `max_rows` bounds single graphs; components that are absent have no bound. Only the name
    of a DAMAGED one is known.
    """

    name: str
    schema: GraphSchema
    state: DatasetState
    id: int
    version: int
    num_graphs: int
    num_records: int
    num_bytes: int
    max_bytes: int
    max_rows: dict[str, int]
    grouped: bool
    histogram: Histogram | None = None
    drift: DatasetDrift | None = None

    def __repr__(self) -> str:
        rows = ", ".join(self.schema.components)
        return (
            f"Dataset({self.name!r}, {self.state.name.lower()}, {self.num_graphs:,} graphs of "
            f"{rows or 'no components'}, {len(self.schema.tensors)} tensors, {self.num_bytes:,} bytes)"
        )

    @property
    def appended_schema(self) -> GraphSchema:
        """Of the graphs that are appended: `schema`, unless it is that of pieces.

        A data set that cuts graphs above `max_rows` makes the tensors of pieces itself.
        """
        cuts = bool(self.max_rows) and any(each.name == "#piece" for each in self.schema.tensors)
        return whole_schema(self.schema) if cuts else self.schema

    @staticmethod
    def from_proto(
        message: Any, histogram: Histogram | None = None, drift: DatasetDrift | None = None
    ) -> Dataset:
        """Reads a `packhouse.v1.Dataset`."""
        return Dataset(
            name=message.name,
            schema=GraphSchema.from_proto(message.schema),
            state=DatasetState(message.state),
            id=message.id,
            version=message.version,
            num_graphs=message.num_graphs,
            num_records=message.num_records,
            num_bytes=message.num_bytes,
            max_bytes=message.max_bytes,
            max_rows={bound.component: bound.rows for bound in message.max_rows if bound.rows},
            grouped=message.grouped,
            histogram=histogram,
            drift=drift,
        )


@dataclasses.dataclass(frozen=True)
class AppendTotals:
    """The result of `Client.datasets.append`: all of it is on the server's disk.

    `num_repeated` of the `num_chunks` that were sent had been stored before. The data set has
    `num_graphs` now. To go on later, give `producer` and `next_sequence` to the next call.
    `num_skipped` examples were left out (`Client.datasets.append_examples`), in stored chunks that
    were sent again too; `skipped` has the first of them.
    """

    num_chunks: int
    num_appended: int
    num_repeated: int
    num_graphs: int
    producer: str
    next_sequence: int
    num_skipped: int = 0
    skipped: tuple[SkippedExample, ...] = ()


@dataclasses.dataclass(frozen=True)
class DamagedRecord:
    """A record that cannot be read, and the graphs that are lost with it."""

    record: int
    first_graph: int
    num_graphs: int
    message: str


@dataclasses.dataclass(frozen=True)
class VerifyProgress:
    """How much has been checked, and how much there is."""

    num_records: int
    num_records_total: int
    num_bytes: int
    num_bytes_total: int


OnVerifyProgress = Callable[[VerifyProgress], None]


@dataclasses.dataclass(frozen=True)
class Verification:
    """What reading all of a data set found.

    `damaged` are the first 1000 of `num_damaged` records; `disagreements` say, for people, what
    does not match though each record can be read.
    """

    num_records: int
    num_bytes: int
    num_damaged: int
    damaged: tuple[DamagedRecord, ...]
    disagreements: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.num_damaged and not self.disagreements

    @staticmethod
    def from_responses(
        responses: Iterable[Any], on_progress: OnVerifyProgress | None
    ) -> Verification:
        """Reads all `packhouse.v1.VerifyDatasetResponse`s of a call."""
        last: Any = None
        for last in responses:
            if on_progress is not None:
                on_progress(
                    VerifyProgress(
                        num_records=last.num_records,
                        num_records_total=last.num_records_total,
                        num_bytes=last.num_bytes,
                        num_bytes_total=last.num_bytes_total,
                    )
                )
        if last is None or not last.finished:
            raise ValueError("the answer ended before the data set did")
        return Verification(
            num_records=last.num_records,
            num_bytes=last.num_bytes,
            num_damaged=last.num_damaged,
            damaged=tuple(
                DamagedRecord(
                    record=damaged.record,
                    first_graph=damaged.first_graph,
                    num_graphs=damaged.num_graphs,
                    message=damaged.message,
                )
                for damaged in last.damaged
            ),
            disagreements=tuple(last.disagreements),
        )
