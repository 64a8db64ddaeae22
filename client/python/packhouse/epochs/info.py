"""What an epoch is like, and how far it is."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

import grpc

from packhouse.base.errors import PackhouseError
from packhouse.epochs.request import RankGroup
from packhouse.planning.pack_options import Rejection, warn_of_oversize
from packhouse.planning.plans import ComponentEfficiency, efficiencies_from_proto


def check_not_empty(epoch: Any, level: int) -> None:
    """Checks which graphs a `packhouse.v1.Epoch` leaves out, once for each epoch that is loaded.

    Warns with OversizeWarning; `level` as warnings.warn's `stacklevel`. Raises PackhouseError with
    OUT_OF_RANGE if nothing is left.
    """
    if not epoch.num_rejected:
        return
    rejections = list(map(Rejection.from_proto, epoch.rejections[:1]))
    first = rejections[0] if rejections else None
    of = f" of job '{epoch.job}'" if epoch.job else ""
    if not epoch.num_batches:
        example = "" if first is None else f"; the first: {first.describe()}"
        raise PackhouseError(
            grpc.StatusCode.OUT_OF_RANGE,
            f"epoch {epoch.epoch}{of}: none of its graphs fits the limits, all "
            f"{epoch.num_rejected} would be left out{example}",
        )
    warn_of_oversize(f"epoch {epoch.epoch}{of}", epoch.num_rejected, first, level + 1)


@dataclasses.dataclass(frozen=True)
class EpochShape:
    """Batches of one shape; `usable` is `limits` less what the padding keeps free, 0: no limit.

    `batch_bytes` is the size of one padded batch's tensors, 0 if the shape is not fixed.
    """

    limits: dict[str, int]
    usable: dict[str, int]
    num_batches: int
    components: dict[str, ComponentEfficiency]
    batch_bytes: int

    @property
    def real_rows(self) -> dict[str, int]:
        """Real rows of all these batches, per component, `graphs` last; empty if they are not known."""
        # The shares of the fullest batch's rows are exact up to 2^50 rows.
        return {
            name: round(part.efficiency_of_fullest * part.fullest_pack * self.num_batches)
            for name, part in self.components.items()
        }

    @staticmethod
    def from_proto(message: Any) -> EpochShape:
        """Reads a `packhouse.v1.EpochShape`."""
        return EpochShape(
            limits={capacity.component: capacity.rows for capacity in message.limits.capacities},
            usable={capacity.component: capacity.rows for capacity in message.usable.capacities},
            num_batches=message.num_batches,
            components=efficiencies_from_proto(message.components),
            batch_bytes=message.batch_bytes,
        )


@dataclasses.dataclass(frozen=True)
class EpochRankGroup:
    """One rank group's batches, and their shapes, a larger one before a smaller one."""

    shapes: tuple[EpochShape, ...]
    num_batches: int


@dataclasses.dataclass(frozen=True)
class JoinedParts:
    """What an epoch's batches have of the edges of parts.

    `num_cut_edges` are those that the partition has cut; `num_restored_edges` of them are in a
    batch again, since both of their ends are.
    """

    num_inner_edges: int
    num_cut_edges: int
    num_restored_edges: int


@dataclasses.dataclass(frozen=True)
class EpochSegments:
    """The segments of an epoch that is planned in segments; `max_graphs` are of the largest.

    Segmentation costs at most the part `loss` of the batches; 0 where no bound is known, as with several
    shapes.
    """

    num_segments: int
    num_tracks: int
    max_graphs: int
    loss: float


@dataclasses.dataclass(frozen=True)
class Company:
    """How often two graphs that share a batch of one epoch share one of another epoch, too.

    `chance` is the share of the pairs of a batch that are together again, `of_shuffle` what a
    shuffle into batches of as many graphs would come to.
    """

    chance: float
    of_shuffle: float

    @property
    def ratio(self) -> float:
        """1 for an epoch as fresh as a shuffle; 0 without pairs."""
        return self.chance / self.of_shuffle if self.of_shuffle else 0.0


@dataclasses.dataclass(frozen=True)
class EpochSteps:
    """How alike the costs of batches are that share a step of `num_ranks` ranks (by rank group).

    `efficiency` is the mean over steps of the mean cost over ranks as a share of the largest: the
    part of their time that ranks compute. `of_shuffle` is that of the same batches in random order.
    """

    efficiency: float
    of_shuffle: float
    num_ranks: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class MixedDataset:
    """What an epoch has of one data set of a mixture: real rows per component, `graphs` last.

    `efficiency` are the rows over those that all batches have room for, per component that has rows
    and a limit: those of the mixture's data sets add up to the epoch's. So do `num_rejected`.
    """

    dataset: str
    num_graphs: int
    rows: dict[str, int]
    efficiency: dict[str, float]
    num_rejected: int

    @staticmethod
    def from_proto(message: Any) -> MixedDataset:
        """Reads a `packhouse.v1.MixedDataset`."""
        return MixedDataset(
            dataset=message.dataset,
            num_graphs=message.num_graphs,
            rows={each.component: each.rows for each in message.components},
            efficiency={
                each.component: each.efficiency for each in message.components if each.efficiency
            },
            num_rejected=message.num_rejected,
        )


@dataclasses.dataclass(frozen=True)
class EpochSamples:
    """The seeds and windows of an epoch of sub-graphs.

    `num_planned_batches` are those of the `num_planned_windows` windows that were planned so far.
    Unless these are all of the `num_windows`, the epoch's `num_batches` is an estimate.
    """

    num_seeds: int
    num_windows: int
    num_planned_windows: int
    num_planned_batches: int


@dataclasses.dataclass(frozen=True)
class EpochShare:
    """What an epoch has for one worker: a rank with all of its readers, or a rank group's workers.

    `num_steps` are those of the worker's generation, `num_steps_done` of them are done; the
    `num_batches_before` were done before the generation, by whichever workers. `num_steps_of_epoch`
    are those of the epoch from its start. With `is_estimate` not all batches are known.
    """

    num_steps: int
    num_steps_done: int
    is_estimate: bool
    num_batches_before: int
    num_steps_of_epoch: int

    @staticmethod
    def from_proto(message: Any) -> EpochShare:
        """Reads a `packhouse.v1.EpochShare`."""
        return EpochShare(
            num_steps=message.num_steps,
            num_steps_done=message.num_steps_done,
            is_estimate=message.num_steps_is_estimate,
            num_batches_before=message.num_batches_before,
            num_steps_of_epoch=message.num_steps_of_epoch,
        )

    @property
    def num_left(self) -> int:
        """Steps that are not done."""
        return self.num_steps - self.num_steps_done

    @property
    def is_begun(self) -> bool:
        """Whether something was done that would not come again."""
        return self.num_steps_done > 0 or self.num_batches_before > 0


@dataclasses.dataclass(frozen=True)
class EpochInfo:
    """What an epoch is like, and how far it is.

    Batches of padding only are not counted. `rejections` are the first 100 of the graphs (or
    groups) that are left out; `lower_bound` 0 means that none is known; `generation` 0 that nobody
    has loaded it yet. With OversizePolicy.PARTITION `num_graphs` counts the `num_pieces` of the
    `num_cut_graphs` that were cut.
    """

    job: str
    epoch: int
    dataset: str
    dataset_version: int
    num_batches: int
    num_graphs: int
    num_rejected: int
    rejections: tuple[Rejection, ...]
    rank_groups: tuple[EpochRankGroup, ...]
    lower_bound: int
    num_done: int
    generation: int
    receipt: str
    joined_parts: JoinedParts | None = None
    """Only with `join_parts`; `num_graphs` then counts parts."""
    num_cut_graphs: int = 0
    num_pieces: int = 0
    segments: EpochSegments | None = None
    """Only with `segments`; graphs that are left out are then counted, but not listed."""
    samples: EpochSamples | None = None
    """Only of sub-graphs."""
    company: Company | None = None
    """Beside the epoch before; of epoch 0, beside epoch 1. With `segments` of the first one, whose
    graphs meet no others. Not with `join_parts` or `draw`, with `samples` whose windows are planned
    as they come, nor where the server has no memory to measure it.
    """
    steps: EpochSteps | None = None
    """Only if batches come in steps of like cost; with `segments`, those of the first one."""
    mixture: tuple[MixedDataset, ...] = ()
    """Only of a mixture, in the order of its name; not with `segments`."""

    @staticmethod
    def from_proto(message: Any) -> EpochInfo:
        """Reads a `packhouse.v1.Epoch`."""
        return EpochInfo(
            job=message.job,
            epoch=message.epoch,
            dataset=message.dataset,
            dataset_version=message.dataset_version,
            num_batches=message.num_batches,
            num_graphs=message.num_graphs,
            num_rejected=message.num_rejected,
            rejections=tuple(map(Rejection.from_proto, message.rejections)),
            rank_groups=tuple(
                EpochRankGroup(
                    shapes=tuple(map(EpochShape.from_proto, group.shapes)),
                    num_batches=group.num_batches,
                )
                for group in message.rank_groups
            ),
            lower_bound=message.lower_bound,
            num_done=message.num_done,
            generation=message.generation,
            receipt=message.receipt,
            joined_parts=(
                JoinedParts(
                    message.joined_parts.num_inner_edges,
                    message.joined_parts.num_cut_edges,
                    message.joined_parts.num_restored_edges,
                )
                if message.HasField("joined_parts")
                else None
            ),
            num_cut_graphs=message.num_cut_graphs,
            num_pieces=message.num_pieces,
            segments=(
                EpochSegments(
                    message.segments.num_segments,
                    message.segments.num_tracks,
                    message.segments.max_graphs,
                    message.segments.loss,
                )
                if message.HasField("segments")
                else None
            ),
            samples=(
                EpochSamples(
                    message.samples.num_seeds,
                    message.samples.num_windows,
                    message.samples.num_planned_windows,
                    message.samples.num_planned_batches,
                )
                if message.HasField("samples")
                else None
            ),
            company=(
                Company(message.company.chance, message.company.of_shuffle)
                if message.HasField("company")
                else None
            ),
            steps=(
                EpochSteps(
                    message.steps.efficiency,
                    message.steps.of_shuffle,
                    tuple(message.steps.num_ranks),
                )
                if message.HasField("steps")
                else None
            ),
            mixture=tuple(map(MixedDataset.from_proto, message.mixture)),
        )

    def num_steps(self, rank_groups: Sequence[RankGroup], num_ranks: int, drop_last: bool) -> int:
        """Steps of each of `num_ranks` ranks; several rank groups have their own numbers of ranks.

        Counts steps that are done, too. `drop_last` is the loader's.
        """
        if len(rank_groups) != len(self.rank_groups):
            raise ValueError(f"{len(rank_groups)} rank_groups, the epoch has {len(self.rank_groups)}")
        steps = []
        for group, of_epoch in zip(rank_groups, self.rank_groups):
            ranks = group.num_ranks if len(rank_groups) > 1 else num_ranks
            whole, rest = divmod(of_epoch.num_batches, ranks)
            steps.append(whole if drop_last or not rest else whole + 1)
        return min(steps) if drop_last else max(steps)

    @property
    def step_efficiency(self) -> float | None:
        """`steps.efficiency`; None for other epochs, whose costs are not known."""
        return None if self.steps is None else self.steps.efficiency

    @property
    def real_rows(self) -> dict[str, int]:
        """Real rows of all batches, per component, `graphs` last.

        Empty where they are not known beforehand: of sub-graphs, and of parts that are joined.
        """
        rows: dict[str, int] = {}
        for shape in (shape for group in self.rank_groups for shape in group.shapes):
            for name, count in shape.real_rows.items():
                rows[name] = rows.get(name, 0) + count
        return {} if self.samples or self.joined_parts else rows

    @property
    def efficiency(self) -> dict[str, float]:
        """Real rows / rows over all batches, per component that has a limit."""
        real: dict[str, float] = {}
        rows: dict[str, float] = {}
        for shape in (shape for group in self.rank_groups for shape in group.shapes):
            for name, component in shape.components.items():
                if component.capacity:
                    capacity = component.capacity * shape.num_batches
                    rows[name] = rows.get(name, 0) + capacity
                    real[name] = real.get(name, 0) + component.efficiency * capacity
        return {name: real[name] / rows[name] for name in rows if rows[name]}


@dataclasses.dataclass(frozen=True)
class EpochRows:
    """The real rows of all of an epoch's `num_batches` batches, per component, `graphs` last."""

    num_batches: int
    rows: dict[str, int]

    @staticmethod
    def of(epoch: Any) -> EpochRows | None:
        """Those that a `packhouse.v1.Epoch` tells; None if they are not known."""
        info = EpochInfo.from_proto(epoch)
        rows = info.real_rows
        return EpochRows(info.num_batches, rows) if rows else None

    def weights_of(self, real_rows: Mapping[str, int]) -> LossWeights:
        """Those of a batch with so many real rows."""
        return LossWeights(
            (name, real_rows[name] * self.num_batches / count if count else 0.0)
            for name, count in self.rows.items()
        )


class LossWeights(dict[str, float]):
    """Weights of the loss by the component whose rows count, `graphs` last."""

    def __missing__(self, name: str) -> float:
        raise KeyError(
            f"no component {name!r} whose rows would weigh: there are {list(self)}; for a mask, store "
            "the data set with its counts (GraphTable.with_counts)"
        )
