"""What a `Pack` stream is asked for, and what it tells beside its batches.

It is opened with `PackOptions`, and tells the shapes that the server chose for its hardware, graphs
beyond the limits, and when the sizes of its graphs change.
"""

from __future__ import annotations

import dataclasses
import datetime
import warnings
from typing import TYPE_CHECKING, Any, Callable, Final, Mapping, Sequence

import numpy as np

from packhouse.base.arguments import Choice, Uint32, check_limits, names_arguments
from packhouse.calls.lane import LaneChoice, chosen_lane
from packhouse.data.batch import DerivedLike, DerivedTensor, Padding, PaddingLike
from packhouse.data.examples import TfgnnSchema
from packhouse.data.graphs import DEFAULT_CHUNK_BYTES
from packhouse.data.schema import GraphSchema
from packhouse.planning.tuning import DeviceProfile, Oversize
from packhouse.v1 import batch_pb2, packing_pb2

# Of a component without a limit: row numbers of 32 bits are its limit.
_MOST_ROWS: Final = (1 << 31) - 1


class CapacityTerm(Choice):
    """What kept a capacity of the first shape from being larger.

    - NONE: the component has no limit.
    - MAX_ROWS: `ComponentProfile.max_rows`, or the largest multiple of `multiple_of` within it.
    - MEMORY_BYTES: `DeviceProfile.memory_bytes` has no room for `multiple_of` more.
    - SERVER: the server's bound for the bytes of a batch, or for its number of graphs.
    - SIZES: the sizes of the graphs. More rows would cost more and stay empty.
    """

    NONE = 0
    MAX_ROWS = 1
    MEMORY_BYTES = 2
    SERVER = 3
    SIZES = 4


@dataclasses.dataclass(frozen=True)
class PackShape:
    """A shape that batches may have: rows by component (0: no limit), padding included.

    - `usable`: the most real rows.
    - `batch_bytes`: the size of a padded batch's tensors; 0 without padding.
    - `memory_bytes`: what a batch takes by the profile's model.
    - `expected_share`: the share of full batches that will have this shape. 0: it is for batches
      that are not full, or for rare graphs.
    """

    limits: dict[str, int]
    usable: dict[str, int]
    batch_bytes: int
    memory_bytes: int
    expected_share: float

    @staticmethod
    def from_proto(message: Any) -> PackShape:
        """Reads a `packhouse.v1.PackShape`."""
        return PackShape(
            limits={capacity.component: capacity.rows for capacity in message.capacities},
            usable={capacity.component: capacity.usable_rows for capacity in message.capacities},
            batch_bytes=message.batch_bytes,
            memory_bytes=message.memory_bytes,
            expected_share=message.expected_share,
        )


@dataclasses.dataclass(frozen=True)
class TunedComponent:
    """What is expected of a component: real rows over rows in full batches, and why not more."""

    expected_efficiency: float
    term: CapacityTerm


@dataclasses.dataclass(frozen=True)
class PackTuned:
    """The shapes of a stream's batches. A larger shape comes before a smaller one; each batch has the
    last one that takes it. Where no one shape takes all graphs, there are several of which none takes
    all that another takes.

    - `components`: by component, and `graphs`.
    - `expected_overhead`: the cost of full batches over that of their real rows, less 1.
    - `num_graphs`: from how many graphs the shapes were chosen.
    - `oversize`: those of them that fit no allowed shape, or not the shapes together with the others.
    - `reasons`: sentences for people.
    """

    shapes: tuple[PackShape, ...]
    components: dict[str, TunedComponent]
    expected_overhead: float
    num_graphs: int
    oversize: Oversize | None
    reasons: tuple[str, ...]

    @staticmethod
    def from_proto(message: Any) -> PackTuned:
        """Reads a `packhouse.v1.PackTuned`."""
        return PackTuned(
            shapes=tuple(PackShape.from_proto(shape) for shape in message.shapes),
            components={
                component.component: TunedComponent(
                    component.expected_efficiency, CapacityTerm(component.term)
                )
                for component in message.components
            },
            expected_overhead=message.expected_overhead,
            num_graphs=message.num_graphs,
            oversize=(
                Oversize.from_proto(message.oversize) if message.HasField("oversize") else None
            ),
            reasons=tuple(message.reasons),
        )


class SizesDriftedWarning(UserWarning):
    """The sizes of a stream's graphs have changed, and other limits would waste less."""


@names_arguments
@dataclasses.dataclass(frozen=True)
class DriftWatch:
    """How a stream is watched for changes of the sizes of its graphs.

    The test's chance of a false alarm is at most one in a thousand for each stream, however long it
    is. Graphs must come shuffled: each new kind of graphs is a change.

    - `num_graphs`: how many graphs the present limits are judged from after a change; without a
      `device`, and so many at the beginning of the stream that later ones are compared with. 500 to
      65,536; 0: 2,000.
    - `min_loss`: from which share of the cost of batches on a change is told; 0: 0.02.
    """

    num_graphs: Uint32 = 0
    min_loss: float = 0.0


@dataclasses.dataclass(frozen=True)
class DriftedComponent:
    """A component, before and after a change.

    - `reference_mean`, `mean`: rows of a graph, when limits were chosen and after the change.
    - `reference_efficiency`, `present_efficiency`: real rows over rows in full batches with the
      stream's limits, when they were chosen and after the change.
    - `offered_efficiency`: after the change, with the offered limits.
    """

    reference_mean: float
    mean: float
    reference_efficiency: float
    present_efficiency: float
    offered_efficiency: float


@dataclasses.dataclass(frozen=True)
class PackDrifted:
    """The sizes of a stream's graphs have changed. The stream goes on with its limits.

    - `first_graph`, `found_graph`, `end_graph`: places in the stream, from 0: where the change
      began, by estimate; where it was found; and the end of what it was judged from.
    - `loss`: the share of the cost of batches that the offered limits would save.
    - `components`: by component, and `graphs`.
    - `offered`: the shapes that are offered; None if no others cost less.
    - `look_ahead`: the one that is offered; that of the stream if no other is.
    - `reasons`: sentences for people.
    """

    first_graph: int
    found_graph: int
    end_graph: int
    loss: float
    components: dict[str, DriftedComponent]
    offered: PackTuned | None
    look_ahead: int
    reasons: tuple[str, ...]

    @property
    def limits(self) -> dict[str, int] | None:
        """The largest of the offered shapes, as `PackOptions.limits` of the next stream."""
        return None if self.offered is None else self.offered.shapes[0].limits

    @staticmethod
    def from_proto(message: Any) -> PackDrifted:
        """Reads a `packhouse.v1.PackDrifted`."""
        return PackDrifted(
            first_graph=message.first_graph,
            found_graph=message.found_graph,
            end_graph=message.end_graph,
            loss=message.loss,
            components={
                component.component: DriftedComponent(
                    reference_mean=component.reference_mean,
                    mean=component.mean,
                    reference_efficiency=component.reference_efficiency,
                    present_efficiency=component.present_efficiency,
                    offered_efficiency=component.offered_efficiency,
                )
                for component in message.components
            },
            offered=PackTuned.from_proto(message.offered) if message.HasField("offered") else None,
            look_ahead=message.look_ahead,
            reasons=tuple(message.reasons),
        )

    def warn(self, level: int) -> None:
        """Warns; `level` as warnings.warn's `stacklevel`."""
        limits = "" if self.limits is None else f"; better from the next stream on: {self.limits}"
        warnings.warn(
            f"pack: the sizes of graphs have changed, and the limits waste {self.loss:.1%} of the "
            f"cost of batches{limits}. {' '.join(self.reasons)}",
            SizesDriftedWarning,
            stacklevel=level + 1,
        )


class OversizePolicy(Choice):
    """What happens to a graph beyond the limits; "error", "reject" and "partition" do as well.

    ERROR, the default of this package: OUT_OF_RANGE naming the graph, the component, its rows and
    how many would fit, which is less than the limit where padding keeps rows free. REJECT: it is
    left out and listed, and an OversizeWarning says how many there were. PARTITION: it is cut into
    few pieces that fit, each a graph with its id; batches then have the tensors that `join_pieces`
    puts them together by (`#piece`, `nodes.#row`, `nodes.#inner` and so on). A graph that cannot be
    cut is left out as with REJECT. Only for whole graphs, and for limits that are given.
    """

    REJECT = 1
    ERROR = 2
    PARTITION = 3


class OversizeWarning(UserWarning):
    """Graphs were left out because they exceed the limits (OversizePolicy.REJECT)."""


def warn_of_oversize(what: str, num_rejected: int, first: Rejection | None, level: int) -> None:
    """Warns once for a stream or an epoch; `level` as warnings.warn's `stacklevel`."""
    example = "" if first is None else f"; the first: {first.describe()}"
    warnings.warn(
        f"{what}: {num_rejected} graphs (or groups) do not fit the limits and are left out{example}",
        OversizeWarning,
        stacklevel=level + 1,
    )


@names_arguments
@dataclasses.dataclass(frozen=True)
class PackOptions:
    """How a stream is packed: `limits` or `device` is needed, not both.

    - `limits` maps components (and `graphs`) to rows per batch, padding included; absent or 0: no
      limit.
    - `device`: the hardware. The server chooses shapes with which it is used best, up to its
      `max_distinct_shapes`; each batch has the last that takes it: see `PackStream.tuned`. A
      graph that is too large for the shapes is `oversize`; `ComponentProfile.min_rows` keeps them
      from becoming smaller than the graphs that are to come.
    - `calibration_graphs`: from how many graphs the shapes are chosen (0: 2,000). The first of the
      stream are held until there are so many, or until a flush or the end of the stream.
    - `calibration_histogram`: the name of a histogram whose graphs count as well. If it has
      enough, shapes are chosen at once. Give the same name as `histogram`, and the next stream
      has its shapes from the graphs of this one.
    - `padding`: see Padding; one that fills batches up needs a limit for every component.
    - `look_ahead`: how many graphs wait at the server for others that fit well with them (0: the
      server's default).
    - `max_age`: a graph leaves at the latest when this many graphs came after it (0: the server's
      default).
    - `max_delay`: a graph leaves at the latest after this time (None: no such bound).
    - `derived`: see DerivedTensor.
    - `compact`: integers travel in the narrowest of uint8, int16 and int32 that holds them, and
      become what the schema says when they are asked for; `widen=False`: they stay as they come.
      Upgrade all servers before you ask for it.
    - `oversize`: see OversizePolicy.
    - `histogram`: the name of a histogram that counts the stream's sizes ("": none).
    - `chunk_bytes` bounds one message sent.
    - `writable`: batches have arrays of their own, aligned to 64 bytes, that may be written to:
      see `Batch.writable`.
    - `drift`: the stream warns when the sizes of its graphs change so that other limits would waste
      less (`PackStream.drift`); batches do not depend on it. Not with `min_rows`.
    - `lane`: how batches come where the server is on this machine and offers a lane, memory that it
      shares with this process. Then arrays are views of what the server has written, writable and at
      multiples of 64 bytes, whatever `writable` says; they stay valid as long as they live. "auto":
      so, if it can be, or what the environment variable PACKHOUSE_LANE says; "off": as bytes;
      "required": so, or `opened` and iterating raise FAILED_PRECONDITION with the reason, as in a
      stream of sizes.
    - `min_rows`: the fewest rows of some components in each graph, padding included (TF-GNN's
      `min_nodes_per_component`); only with Padding.TFGNN. A smaller graph counts as one beyond the
      limits.

    Raises ValueError or TypeError naming the field.
    """

    limits: Mapping[str, int] | None = None
    padding: Padding = Padding.NONE
    look_ahead: Uint32 = 0
    max_age: Uint32 = 0
    max_delay: datetime.timedelta | None = None
    derived: Sequence[DerivedTensor] = ()
    oversize: OversizePolicy = OversizePolicy.ERROR
    histogram: str = ""
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    writable: bool = False
    min_rows: Mapping[str, int] = dataclasses.field(default_factory=dict)
    device: DeviceProfile | None = None
    calibration_graphs: Uint32 = 0
    calibration_histogram: str = ""
    drift: DriftWatch | None = None
    compact: bool = False
    widen: bool = True
    lane: LaneChoice = "auto"

    if TYPE_CHECKING:

        def __init__(
            self,
            limits: Mapping[str, int] | None = None,
            padding: PaddingLike = Padding.NONE,
            look_ahead: int = 0,
            max_age: int = 0,
            max_delay: datetime.timedelta | None = None,
            derived: DerivedLike = (),
            oversize: OversizePolicy | str = OversizePolicy.ERROR,
            histogram: str = "",
            chunk_bytes: int = DEFAULT_CHUNK_BYTES,
            writable: bool = False,
            min_rows: Mapping[str, int] = ...,
            device: DeviceProfile | None = None,
            calibration_graphs: int = 0,
            calibration_histogram: str = "",
            drift: DriftWatch | None = None,
            compact: bool = False,
            widen: bool = True,
            lane: LaneChoice = "auto",
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.device is None:
            if self.calibration_graphs or self.calibration_histogram:
                raise ValueError("calibration: it chooses limits for a device, and there is none")
            check_limits(self.limits, "limits")
        elif self.limits is not None:
            raise ValueError("limits: given beside device, for which the server chooses them")
        check_limits(self.min_rows, "min_rows")
        chosen_lane(self.lane)
        object.__setattr__(self, "padding", Padding.of(self.padding, "padding"))
        object.__setattr__(self, "derived", DerivedTensor.each_of(self.derived, "derived"))
        object.__setattr__(self, "oversize", OversizePolicy.of(self.oversize, "oversize"))

    def to_proto(self, schema: GraphSchema | TfgnnSchema) -> Any:
        """The `packhouse.v1.PackOpen` for a stream of graphs of this schema."""
        message = packing_pb2.PackOpen(
            limits=None if self.limits is None else limits_to_proto(self.limits),
            device_profile=None if self.device is None else self.device.to_proto(),
            padding=int(self.padding),
            look_ahead=self.look_ahead,
            max_age=self.max_age,
            oversize_policy=int(self.oversize),
            derived=[int(derived) for derived in self.derived],
            histogram=self.histogram,
            min_rows=limits_to_proto(self.min_rows, "min_rows").capacities,
            integer_width="INTEGER_WIDTH_COMPACT" if self.compact else None,
        )
        if isinstance(schema, TfgnnSchema):
            message.tfgnn_schema.CopyFrom(schema.to_proto())
            message.payload = packing_pb2.PAYLOAD_GRAPHS
        else:
            message.schema.CopyFrom(schema.to_proto())
            has_rows = bool(schema.tensors)
            message.payload = packing_pb2.PAYLOAD_GRAPHS if has_rows else packing_pb2.PAYLOAD_SIZES
        if self.max_delay is not None:
            message.max_delay.FromTimedelta(self.max_delay)
        if self.calibration_graphs or self.calibration_histogram:
            message.calibration.num_graphs = self.calibration_graphs
            message.calibration.histogram = self.calibration_histogram
        if self.drift is not None:
            message.drift.SetInParent()
            message.drift.num_graphs = self.drift.num_graphs
            message.drift.min_loss = self.drift.min_loss
        return message

    @staticmethod
    def for_device(options: PackOptions | None, device: DeviceProfile | None) -> PackOptions:
        """`options` with this device, if there is one. Raises ValueError without either."""
        if options is None:
            return PackOptions(device=device)
        return options if device is None else dataclasses.replace(options, device=device)


@dataclasses.dataclass(frozen=True)
class PackOpened:
    """The options as the server resolved them. `limits` is the padded shape, `usable` the most real
    rows. Both are empty in a stream with a `device`: see `PackStream.tuned`.
    """

    schema: GraphSchema
    limits: dict[str, int]
    usable: dict[str, int]
    look_ahead: int
    max_age: int
    padding: Padding
    batch_bytes: int

    @staticmethod
    def from_proto(message: Any) -> PackOpened:
        """Reads a `packhouse.v1.PackOpened`."""
        return PackOpened(
            schema=GraphSchema.from_proto(message.schema),
            limits={capacity.component: capacity.rows for capacity in message.limits.capacities},
            usable={capacity.component: capacity.rows for capacity in message.usable.capacities},
            look_ahead=message.look_ahead,
            max_age=message.max_age,
            padding=Padding(message.padding),
            batch_bytes=message.batch_bytes,
        )


@dataclasses.dataclass(frozen=True)
class Rejection:
    """A graph that will be in no batch: it has `value` rows of `component`, of which `bound` are
    usable.

    For the reasons REJECTION_REASON_TOO_MANY_BYTES and REJECTION_REASON_TOO_MUCH_MEMORY (of a
    `device`) `component` is empty, and both are bytes. For REJECTION_REASON_MALFORMED, an example
    that was left out, only `message` says what is wrong.
    """

    graph_id: int
    reason: str  # Name of a packhouse.v1.RejectionReason.
    component: str
    value: int
    bound: int
    message: str = ""

    def describe(self) -> str:
        """In words, as in `graph 0 has 9 nodes, at most 8 fit a batch`."""
        if self.reason == "REJECTION_REASON_MALFORMED":
            return f"graph {self.graph_id} is malformed: {self.message}"
        needs, bound = "has", f"at most {self.bound} fit a batch"
        if self.reason == "REJECTION_REASON_TOO_SMALL":
            bound = f"at least {self.bound} are needed"
        elif self.reason == "REJECTION_REASON_TOO_MUCH_MEMORY":
            needs, bound = "needs a batch of", f"at most {self.bound} are the device's (memory_bytes)"
        elif self.component and self.bound == _MOST_ROWS:
            bound += ", whose rows are numbered in 32 bits"
        return f"graph {self.graph_id} {needs} {self.value} {self.component or 'bytes'}, {bound}"

    @staticmethod
    def from_proto(message: Any) -> Rejection:
        """Reads a `packhouse.v1.Rejection`."""
        return Rejection(
            graph_id=message.graph_id,
            reason=packing_pb2.RejectionReason.Name(message.reason),
            component=message.component,
            value=message.value,
            bound=message.bound,
            message=message.message,
        )


@dataclasses.dataclass(frozen=True)
class PackFlushed:
    """Answers a flush: totals since the stream was opened."""

    token: int
    num_graphs: int
    num_batches: int
    num_rejected: int


OnRejected = Callable[[Sequence[Rejection]], None]


def limits_to_proto(limits: Mapping[str, int], argument: str = "limits") -> Any:
    """The `packhouse.v1.Limits` for capacities by component. Raises ValueError."""
    check_limits(limits, argument)
    return batch_pb2.Limits(
        capacities=[
            batch_pb2.Capacity(component=component, rows=int(rows))
            for component, rows in limits.items()
        ]
    )
