"""The arguments that loaders and evaluations have in common: which epochs, and how to connect."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Mapping, NamedTuple, Sequence, TypedDict, Union

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import UINT64_MAX, Uint32, check_limits, names_arguments, whole_number
from packhouse.calls.channel import MAX_MESSAGE_BYTES, ChannelOptions
from packhouse.calls.credentials import Credentials
from packhouse.calls.lane import LaneChoice, chosen_lane
from packhouse.calls.retrying import DEFAULT_RETRY_TIMEOUT
from packhouse.data.batch import DerivedLike, DerivedTensor, Padding, PaddingLike
from packhouse.data.graphs import array_of, convert_exactly
from packhouse.epochs.order import ByScore, CostBalanced
from packhouse.large.sub_graphs import Samples, beyond_limits, seeds_to_proto
from packhouse.planning.pack_options import OversizePolicy, limits_to_proto
from packhouse.planning.tuning import DeviceProfile
from packhouse.v1 import loader_pb2

# Graph ids, or ranges of them.
GraphSubset = Union[npt.ArrayLike, range, Sequence[range]]


@names_arguments
@dataclasses.dataclass(frozen=True)
class RankGroup:
    """The limits of `num_ranks` ranks: shapes, a larger one before a smaller one, or the device to choose them for.

    Only a job with one group may have several shapes. Ranks are numbered by group: first those of
    the first group.
    """

    shapes: Sequence[Mapping[str, int]] = ()
    device_profile: DeviceProfile | None = None
    num_ranks: Uint32 = 1

    def to_proto(self) -> Any:
        """This group as a `packhouse.v1.RankGroup`."""
        return loader_pb2.RankGroup(
            shapes=[limits_to_proto(limits, "shapes") for limits in self.shapes],
            device_profile=None if self.device_profile is None else self.device_profile.to_proto(),
            num_ranks=self.num_ranks,
        )


@names_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Draw:
    """Draws each epoch's graphs anew, by weights.

    `weights` has one number for each graph of the data set, or of the subset in the data set's
    order; None: all the same. `num_graphs` 0: as many as there are to draw from.
    """

    weights: npt.ArrayLike | None = None
    num_graphs: int = 0
    with_replacement: bool = False

    def to_proto(self) -> Any:
        """This draw as a `packhouse.v1.Draw`."""
        weights = () if self.weights is None else self.weights
        return loader_pb2.Draw(
            weights=np.ascontiguousarray(array_of(weights, "weights"), "<f8").tobytes(),
            num_graphs=self.num_graphs,
            with_replacement=self.with_replacement,
        )


@names_arguments
@dataclasses.dataclass(frozen=True)
class Segments:
    """Plans epochs in segments, for data sets that are larger than the server's memory.

    A segment is a draw of about `graphs` graphs (0: 2^20), with which batches are made while the
    next one is planned. `tracks` (0: 1, at most 64): batch b is of track b % tracks, and each track
    goes through segments of its own. The first epoch of a job opens when all segments are counted,
    and with a `draw` each epoch. Shapes are the same in all segments; `ByScore` orders each by itself.
    """

    graphs: int = 0
    tracks: Uint32 = 0

    def to_proto(self) -> Any:
        """The `packhouse.v1.Segments`."""
        return loader_pb2.Segments(
            graphs=whole_number(self.graphs, "graphs", UINT64_MAX),
            tracks=whole_number(self.tracks, "tracks"),
        )


class EpochArguments(TypedDict, total=False):
    """Which graphs, in which batches. `dataset` or `samples` is needed, and one of the four ways to
    say limits:

    - `limits` (one shape), `shapes` (several, a larger one before a smaller one), `device_profile` (the server
      chooses), or `rank_groups` (ranks of unequal hardware).

    The rest; docs/epoch-options.md has the pairs that exclude each other:
    - `dataset`: the name of a sealed data set, or a mixture: the names of up to 16 with `+` between.
      Then an epoch has each graph of each once, and batches have one tensor more, `dataset`, which
      says by its number which of them a graph is from. One must have all components and tensors
      that others have; what others lack is filled. Not with `grouped` or `join_parts`.
    - `samples`: epochs of sub-graphs that are drawn from a source graph; see `Samples`.
    - `seed`: which order each epoch has; the same seed gives the same batches.
    - `padding`, `derived`: see `Padding` and `DerivedTensor`.
    - `compact`: integers travel in the narrowest of uint8, int16 and int32 that holds them, for a
      third to a sixth of the bytes of most graphs, and become what the schema says when they are
      asked for (`widen`). Upgrade all servers before you ask for it; a job changes it between
      epochs.
    - `sizes_only`: batches say which graphs belong together; their tensors stay here.
    - `oversize`: what happens to graphs beyond the limits; see `OversizePolicy`.
    - `in_order`: not shuffled, but in the data set's own order, packed within `look_ahead` graphs
      (0: 64); every epoch is the same. With `samples`: in the order of the seeds, window by window;
      what is drawn for them is still new in each epoch.
    - `grouped`: groups are never split over batches; the data set must be grouped.
    - `subset`: graph ids, or a range of them, or several ranges (None: all graphs). With `samples`:
      places in the list of seeds.
    - `draw`: see `Draw` (None: each graph once). With `samples`: of the seeds.
    - `join_parts`: the data set is one of parts (`Client.partitions.make_dataset`), and those that
      share a batch are one graph, with the edges between them that the partition has cut.
    - `min_rows`: the fewest rows of some components in each graph, padding included (TF-GNN's
      `min_nodes_per_component`); only with Padding.TFGNN and limits or shapes.
    - `adaptive`: limits may move from epoch to epoch by what batches cost (`Client.feedback`); needs
      a `device_profile` with `measured_as`, and a loader of a job.
    - `segments`: see `Segments` (None: the epoch is planned as a whole).
    - `mixing`: how fresh batches are. Graphs are exchanged between batches until two that share one
      are together again about as seldom as in a shuffle (`EpochInfo.company`): 1.1 times as often
      (True), or so many times (a number of at least 1). False: only as the plan draws them. None:
      as True, but an epoch that was begun without mixing goes on without it.
    - `order`: see `CostBalanced`: batches of like cost share a step; or `ByScore`: a curriculum
      (None: all orders are equally likely).
    """

    dataset: str
    samples: Samples | None
    seed: int
    limits: Mapping[str, int] | None
    shapes: Sequence[Mapping[str, int]] | None
    device_profile: DeviceProfile | None
    rank_groups: Sequence[RankGroup] | None
    padding: PaddingLike
    derived: DerivedLike
    compact: bool
    sizes_only: bool
    oversize: OversizePolicy | str
    in_order: bool
    look_ahead: Uint32
    grouped: bool
    subset: GraphSubset | None
    draw: Draw | None
    join_parts: bool
    min_rows: Mapping[str, int] | None
    adaptive: bool
    segments: Segments | None
    mixing: bool | float | None
    order: CostBalanced | ByScore | None


# Arguments that may be None, and what else they may be.
_KINDS: dict[str, tuple[type, ...]] = {
    "segments": (Segments,),
    "draw": (Draw,),
    "order": (CostBalanced, ByScore),
}


class EpochRequest:
    """Epochs of a data set, as given by arguments. Constant."""

    def __init__(self, arguments: Mapping[str, Any], job: str) -> None:
        """`arguments` are EpochArguments. Raises ValueError or TypeError naming the argument."""
        unknown = sorted(set(arguments) - set(EpochArguments.__annotations__))
        if unknown:
            raise TypeError(f"there is no argument {unknown[0]!r}")
        given = arguments.get
        samples = given("samples")
        if samples is None and "dataset" not in arguments:
            raise TypeError("the argument 'dataset' is missing")
        self.job = job
        self.rank_groups = _rank_groups_of(arguments)
        padding = Padding.of(given("padding", Padding.NONE), "padding")
        oversize = OversizePolicy.of(given("oversize", OversizePolicy.ERROR), "oversize")
        derived = DerivedTensor.each_of(given("derived", ()), "derived")
        subset, draw = given("subset"), given("draw")
        if samples is not None:
            if not isinstance(samples, Samples):
                raise TypeError(f"samples: {samples!r} is no Samples")
            if given("dataset") is not None:
                raise ValueError("samples: given beside dataset; an epoch is of one of them")
        elif not isinstance(given("dataset"), str):
            raise TypeError(f"dataset: {given('dataset')!r} is no name of a data set")
        segments, order = given("segments"), given("order")
        for name, kinds in _KINDS.items():
            if not isinstance(given(name), (*kinds, type(None))):
                names = " or ".join(kind.__name__ for kind in kinds)
                raise TypeError(f"{name}: {given(name)!r} is no {names}")
        # Of epoch 0.
        self._spec = loader_pb2.EpochSpec(
            dataset=given("dataset") or "",
            job=job,
            seed=whole_number(given("seed", 0), "seed", UINT64_MAX),
            rank_groups=[group.to_proto() for group in self.rank_groups],
            padding=int(padding),
            derived=[int(tensor) for tensor in derived],
            integer_width="INTEGER_WIDTH_COMPACT" if given("compact") else None,
            payload="PAYLOAD_SIZES" if given("sizes_only") else "PAYLOAD_UNSPECIFIED",
            oversize_policy=int(oversize) if samples is None else 0,
            in_order=given("in_order", False),
            look_ahead=whole_number(given("look_ahead", 0), "look_ahead"),
            grouped=given("grouped", False),
            subset=None if subset is None else subset_to_proto(subset),
            draw=None if draw is None else draw.to_proto(),
            min_rows=limits_to_proto(given("min_rows") or {}, "min_rows").capacities,
            samples=None if samples is None else samples_to_proto(samples),
            join_parts=given("join_parts", False),
            adaptive=given("adaptive", False),
            segments=None if segments is None else segments.to_proto(),
            mixing=mixing_to_proto(given("mixing")),
            order=None if order is None else order.to_proto(),
        )

    @property
    def name(self) -> str:
        """The data set, or the source graph of samples."""
        spec = self._spec
        name: str = spec.dataset or spec.samples.sub_graphs.graph
        return name

    @property
    def source(self) -> str:
        """What epochs are made of, as the argument that names it: `dataset='molecules'`."""
        return f"{'dataset' if self._spec.dataset else 'graph'}={self.name!r}"

    @property
    def num_ranks(self) -> int:
        """The number of ranks, unless the caller gives another."""
        if len(self.rank_groups) == 1:
            return 1
        return sum(group.num_ranks for group in self.rank_groups)

    def of_epoch(self, epoch: int, num_ranks: int = 0) -> Any:
        """The `packhouse.v1.EpochSpec`, for so many ranks; 0: not known."""
        spec = loader_pb2.EpochSpec()
        spec.CopyFrom(self._spec)
        spec.epoch = epoch
        is_for_ranks = spec.order.HasField("cost_balanced") and len(self.rank_groups) == 1
        if is_for_ranks and not spec.order.cost_balanced.num_ranks:
            spec.order.cost_balanced.num_ranks = num_ranks
        return spec


def samples_to_proto(samples: Samples) -> Any:
    """The `packhouse.v1.SampleSpec`."""
    return loader_pb2.SampleSpec(
        sub_graphs=samples.sub_graphs.to_proto(),
        seeds=seeds_to_proto(samples.seeds, samples.sub_graphs),
        window=whole_number(samples.window, "window"),
        exact_steps=samples.exact_steps,
        beyond_limits=beyond_limits(samples.draw_smaller),
    )


def mixing_to_proto(mixing: bool | float | None) -> Any:
    """The `packhouse.v1.Mixing`; None: unset.

    Raises TypeError unless it is a boolean or a number, and ValueError for one below 1.
    """
    if mixing is None:
        return None
    if isinstance(mixing, (bool, np.bool_)):
        return loader_pb2.Mixing(off=not mixing)
    if not isinstance(mixing, (int, float, np.integer, np.floating)):
        raise TypeError(f"mixing: {mixing!r} is neither a boolean nor a number")
    if not (math.isfinite(mixing) and mixing >= 1):
        raise ValueError(
            f"mixing: {mixing}, must be a finite number of at least 1, the company of a shuffle, or "
            "False"
        )
    return loader_pb2.Mixing(most_company=float(mixing))


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


def _rank_groups_of(arguments: Mapping[str, Any]) -> tuple[RankGroup, ...]:
    """Reads the one argument that says what a batch takes. Raises ValueError unless there is
    exactly one.
    """
    ways = ("limits", "shapes", "device_profile", "rank_groups")
    given = [name for name in ways if arguments.get(name) is not None]
    if len(given) != 1:
        raise ValueError(f"one of {', '.join(ways)} is needed; given: {given or 'none'}")
    (way,) = given
    value = arguments[way]
    if way == "rank_groups":
        return tuple(value)
    if way == "device_profile":
        return (RankGroup(device_profile=value),)
    if way == "limits":
        check_limits(value, "limits")
        value = (value,)
    return (RankGroup(tuple(value)),)


class ConnectionArguments(TypedDict, total=False):
    """How to connect, and how batches come.

    - `writable`: batches have arrays of their own, aligned to 64 bytes, that may be written to: see
      `Batch.writable`.
    - `widen`: with `compact`, tensors have the types of the schema; False: the narrow types in which
      they come, as for a device that widens them after the transfer (True).
    - `retry_timeout`: seconds of failing in a row after which a server is given up (300).
    - `timeout`: the deadline of unary calls, in seconds (60).
    - `max_message_bytes`: the largest message that is taken.
    - `options`: gRPC's channel arguments: see `packhouse.calls.channel.make_channel`.
    - `credentials`: for TLS and tokens: see `Credentials`; None for those of the environment.
    - `lane`: how batches come where the server is on this machine and offers a lane, memory that it
      shares with this process. Then arrays are views of what the server has written, writable and at
      multiples of 64 bytes, whatever `writable` says; they stay valid as long as they live. "auto":
      so, if it can be, or what the environment variable PACKHOUSE_LANE says; "required": so, or
      iterating raises FAILED_PRECONDITION with the reason; "off": as bytes.
    """

    writable: bool
    widen: bool
    retry_timeout: float
    timeout: float
    max_message_bytes: int
    options: ChannelOptions
    credentials: Credentials | None
    lane: LaneChoice


class LoadArguments(EpochArguments, ConnectionArguments, total=False):
    """What `Loader` and `Evaluation` have in common."""


class Connecting(NamedTuple):
    """How to connect; can be sent to another process."""

    address: str
    job: str = ""
    # As the loader's, 0 for the default.
    max_in_flight: int = 0
    retry_timeout: float = DEFAULT_RETRY_TIMEOUT
    timeout: float = 60.0
    max_message_bytes: int = MAX_MESSAGE_BYTES
    options: ChannelOptions = ()
    credentials: Credentials | None = None
    # As ConnectionArguments.
    widen: bool = True
    lane: LaneChoice = "auto"
    # Where another process makes the calls (`Relay`); "": this one makes them.
    relay: str = ""


def split_arguments(
    arguments: Mapping[str, Any], address: str, job: str = "", max_in_flight: int = 0
) -> tuple[Connecting, bool, dict[str, Any]]:
    """How to connect, whether batches are to be writable, and the other LoadArguments."""
    rest = dict(arguments)
    writable = bool(rest.pop("writable", False))
    given = {
        name: rest.pop(name)
        for name in ("retry_timeout", "timeout", "max_message_bytes", "options", "credentials")
        if name in rest
    }
    given["widen"] = bool(rest.pop("widen", True))
    given["lane"] = chosen_lane(rest.pop("lane", "auto"))
    if "options" in given:
        given["options"] = tuple(given["options"])
    in_flight = whole_number(max_in_flight, "max_in_flight")
    return Connecting(address, job, in_flight, **given), writable, rest
