"""Epochs of a data set: what is asked for, what they are like, the batches that come."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence, Union

import grpc
import numpy as np
import numpy.typing as npt

from packhouse.acknowledging import Lease
from packhouse.batch import (
    Batch,
    DerivedLike,
    DerivedTensor,
    Padding,
    PaddingLike,
    fields_of,
    tensors_of,
)
from packhouse.batch_reader import ReceivedBatch
from packhouse.graphs import convert_exactly
from packhouse.errors import PackhouseError
from packhouse.packing import (
    OversizePolicy,
    Rejection,
    check_limits,
    limits_to_proto,
    warn_of_oversize,
)
from packhouse.planning import ComponentEfficiency, efficiencies_from_proto
from packhouse.schema import GraphSchema
from packhouse.tuning import DeviceProfile
from packhouse.v1 import loader_pb2


@dataclasses.dataclass(frozen=True)
class RankProfile:
    """The limits of `num_ranks` ranks: shapes, the largest first, or the device to choose them for.

    Only a job with one profile may have several shapes. Ranks are numbered by profile, the first
    one's come first.
    """

    shapes: Sequence[Mapping[str, int]] = ()
    device_profile: DeviceProfile | None = None
    num_ranks: int = 1

    def to_proto(self) -> Any:
        """This profile as a `packhouse.v1.RankGroup`."""
        return loader_pb2.RankGroup(
            shapes=[limits_to_proto(limits, "shapes") for limits in self.shapes],
            device_profile=None if self.device_profile is None else self.device_profile.to_proto(),
            num_ranks=self.num_ranks,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Sampling:
    """Draws each epoch's graphs anew; see `packhouse.v1.Draw`.

    `weights` has one number for each graph of the data set, or of the subset in the data set's
    order; None: all the same. `num_graphs` 0: as many as there are to draw from.
    """

    weights: npt.ArrayLike | None = None
    num_graphs: int = 0
    with_replacement: bool = False

    def to_proto(self) -> Any:
        """This sampling as a `packhouse.v1.Draw`."""
        weights = () if self.weights is None else self.weights
        return loader_pb2.Draw(
            weights=np.ascontiguousarray(weights, "<f8").tobytes(),
            num_graphs=self.num_graphs,
            with_replacement=self.with_replacement,
        )


# Graph ids, or ranges of them.
GraphSubset = Union[npt.ArrayLike, range, Sequence[range]]


def subset_to_proto(subset: GraphSubset) -> Any:
    """The `packhouse.v1.Subset` for ids or ranges.

    Raises ValueError for a range with a step, and for a mask.
    """
    ranges: Sequence[Any] = ()
    if isinstance(subset, range):
        ranges = (subset,)
    elif isinstance(subset, Sequence) and subset and isinstance(subset[0], range):
        ranges = subset
    if not ranges:
        if np.asarray(subset).dtype == np.bool_:
            raise ValueError(
                "subset is a mask; it must be graph ids: where graphs are numbered from 0, "
                "np.flatnonzero(mask)"
            )
        ids = convert_exactly(subset, np.dtype("<u8"), "subset")
        return loader_pb2.Subset(graph_ids=np.ascontiguousarray(ids).tobytes())
    if any(part.step != 1 for part in ranges):
        raise ValueError("subset: the ranges must have steps of 1")
    return loader_pb2.Subset(
        ranges=[loader_pb2.GraphIdRange(first=part.start, count=len(part)) for part in ranges]
    )


def profiles_of(
    limits: Mapping[str, int] | None,
    shapes: Sequence[Mapping[str, int]] | None,
    device_profile: DeviceProfile | None,
    profiles: Sequence[RankProfile] | None,
) -> tuple[RankProfile, ...]:
    """The one way that is given to say what a batch takes. Raises ValueError for none or several."""
    ways = {
        "limits": limits is not None,
        "shapes": shapes is not None,
        "device_profile": device_profile is not None,
        "profiles": profiles is not None,
    }
    given = [name for name, is_given in ways.items() if is_given]
    if len(given) != 1:
        raise ValueError(
            f"one of limits, shapes, device_profile, profiles is needed; given: {given or 'none'}"
        )
    if profiles is not None:
        return tuple(profiles)
    if limits is not None:
        check_limits(limits, "limits")
        shapes = (limits,)
    return (RankProfile(shapes or (), device_profile),)


def epoch_spec(
    profiles: Sequence[RankProfile],
    *,
    dataset: str,
    job: str,
    seed: int,
    padding: PaddingLike,
    derived: DerivedLike,
    sizes_only: bool,
    oversize: OversizePolicy | str,
    in_order: bool,
    look_ahead: int,
    grouped: bool,
    subset: GraphSubset | None,
    sampling: Sampling | None,
) -> Any:
    """The `packhouse.v1.EpochSpec` of epoch 0."""
    return loader_pb2.EpochSpec(
        dataset=dataset,
        job=job,
        seed=seed,
        rank_groups=[profile.to_proto() for profile in profiles],
        padding=int(Padding.of(padding, "padding")),
        derived=[int(tensor) for tensor in DerivedTensor.each_of(derived, "derived")],
        payload="PAYLOAD_SIZES" if sizes_only else "PAYLOAD_UNSPECIFIED",
        oversize_policy=int(OversizePolicy.of(oversize, "oversize")),
        in_order=in_order,
        look_ahead=look_ahead,
        grouped=grouped,
        subset=None if subset is None else subset_to_proto(subset),
        draw=None if sampling is None else sampling.to_proto(),
    )


def check_not_empty(epoch: Any, level: int) -> None:
    """Looks at what a `packhouse.v1.Epoch` leaves out, once for each epoch that is loaded.

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
class EpochProfile:
    """One profile's batches, and their shapes, the largest first."""

    shapes: tuple[EpochShape, ...]
    num_batches: int


@dataclasses.dataclass(frozen=True)
class EpochInfo:
    """What an epoch is like, and how far it is; see `packhouse.v1.Epoch`.

    Batches of padding only are not counted. `rejections` are the first 100 of the graphs (or
    groups) that are left out; `lower_bound` 0 means that none is known; `generation` 0 that nobody
    has loaded it yet.
    """

    job: str
    epoch: int
    dataset: str
    dataset_version: int
    num_batches: int
    num_graphs: int
    num_rejected: int
    rejections: tuple[Rejection, ...]
    profiles: tuple[EpochProfile, ...]
    lower_bound: int
    num_done: int
    generation: int
    receipt: str

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
            profiles=tuple(
                EpochProfile(
                    shapes=tuple(map(EpochShape.from_proto, profile.shapes)),
                    num_batches=profile.num_batches,
                )
                for profile in message.rank_groups
            ),
            lower_bound=message.lower_bound,
            num_done=message.num_done,
            generation=message.generation,
            receipt=message.receipt,
        )

    def num_steps(self, profiles: Sequence[RankProfile], num_ranks: int, drop_last: bool) -> int:
        """Steps of each of so many ranks, which several profiles have as they say.

        Before any of it was done; `drop_last` as for the loader.
        """
        if len(profiles) != len(self.profiles):
            raise ValueError(f"{len(profiles)} profiles, the epoch has {len(self.profiles)}")
        steps = []
        for profile, of_epoch in zip(profiles, self.profiles):
            ranks = profile.num_ranks if len(profiles) > 1 else num_ranks
            whole, rest = divmod(of_epoch.num_batches, ranks)
            steps.append(whole if drop_last or not rest else whole + 1)
        return min(steps) if drop_last else max(steps)

    @property
    def efficiency(self) -> dict[str, float]:
        """Real rows / rows over all batches, per component that has a limit."""
        real: dict[str, float] = {}
        rows: dict[str, float] = {}
        for shape in (shape for profile in self.profiles for shape in profile.shapes):
            for name, component in shape.components.items():
                if component.capacity:
                    capacity = component.capacity * shape.num_batches
                    rows[name] = rows.get(name, 0) + capacity
                    real[name] = real.get(name, 0) + component.efficiency * capacity
        return {name: real[name] / rows[name] for name in rows if rows[name]}


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedBatch(Batch):
    """A batch of an epoch, leased until it is acknowledged; can be sent to another process.

    `shape` is the number of its profile's shape. `generation` and `session` say to whom it was
    given.
    """

    generation: int
    session: int
    is_padding: bool
    is_redelivered: bool
    graphs_of_step: int
    shape: int

    @staticmethod
    def of(message: Any, schema: GraphSchema, generation: int, session: int) -> LoadedBatch:
        """Views a `packhouse.v1.LoadedBatch`. Raises ValueError if it contradicts itself."""
        parts = ReceivedBatch(message.batch, tensors_of(message.batch), message)
        return LoadedBatch.of_loaded_parts(parts, schema, generation, session)

    @staticmethod
    def of_loaded_parts(
        parts: ReceivedBatch, schema: GraphSchema, generation: int, session: int
    ) -> LoadedBatch:
        """Joins what a BatchReader of `Load` has read. Raises ValueError likewise."""
        fields = fields_of(parts.head, parts.tensors, schema)
        message = parts.loaded
        fields["generation"] = generation
        fields["session"] = session
        fields["is_padding"] = message.is_padding
        fields["is_redelivered"] = message.is_redelivered
        fields["graphs_of_step"] = message.graphs_of_step
        fields["shape"] = message.shape
        return LoadedBatch._make(fields)

    @property
    def number(self) -> int:
        """Its number in the epoch, the same however often the epoch is dealt anew."""
        return self.id

    @property
    def lease(self) -> Lease:
        """What acknowledging it needs to know; a collate function keeps it with what it makes."""
        return Lease(self.epoch, self.generation, self.session, self.number, self.step)

    @property
    def loss_weight(self) -> float:
        """Its share of the graphs of all ranks' batches of this step; 0 if it is padding only.

        The sum over ranks of loss_weight * (mean loss of the batch) is the mean over the step's
        graphs. 1 for dynamic workers, which have no steps in common.
        """
        return len(self) / self.graphs_of_step if self.graphs_of_step else 1.0
