"""Limits that choose themselves. See `Client.tune`."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any, Callable, Iterable, Mapping, NamedTuple

from google.protobuf import json_format

from packhouse.base.arguments import Choice, Uint32, names_arguments
from packhouse.planning.plans import ComponentEfficiency, efficiencies_from_proto
from packhouse.v1 import planning_pb2


class TuneObjective(Choice):
    """What is best.

    - EPOCH_COST: the least sum over all packs of relative_cost * limit.
    - HARMONIC_MEAN: the highest harmonic mean of the efficiencies of the components that have a cost
      (Krell et al. 2022, figure 5). One shape.
    """

    EPOCH_COST = 1
    HARMONIC_MEAN = 2


@names_arguments
@dataclasses.dataclass(frozen=True)
class ComponentProfile:
    """The allowed limits are the multiples of `multiple_of` in [min_rows, max_rows]; also what a
    row takes and costs.

    `max_rows` 0 means no limit. `relative_cost` None means the default: 0 for `graphs`, 1 for all
    others.
    """

    max_rows: int = 0
    min_rows: int = 0
    multiple_of: int = 1
    bytes_per_row: int = 0
    relative_cost: float | None = None


@names_arguments
@dataclasses.dataclass(frozen=True)
class DeviceProfile:
    """What the hardware can take, by component (and `graphs`); components not named have no limit.

    A batch may take `fixed_bytes` and the sum of bytes_per_row * capacity, together at most
    `memory_bytes`; 0 means no bound. `fixed_cost` is what each batch costs besides its rows,
    in the unit of `relative_cost`: launches of kernels, the optimizer, Python. It makes large
    batches worth more.

    `measured_as`, "MODEL/DEVICE", takes costs and bytes from what was measured of the model on the
    device (`Client.feedback`) instead of the figures here, which hold until there are measurements.
    """

    _hint = "DeviceProfile.load(path) reads one from a file"

    components: Mapping[str, ComponentProfile]
    memory_bytes: int = 0
    fixed_bytes: int = 0
    max_distinct_shapes: Uint32 = 1
    measured_as: str = ""
    fixed_cost: float = 0.0

    @staticmethod
    def load(path: str | os.PathLike[str]) -> DeviceProfile:
        """Reads a file as `packhouse pack --device` does: JSON with the fields of a
        `packhouse.v1.DeviceProfile`.

        Raises OSError, or ValueError naming the file if it has something else.
        """
        message = planning_pb2.DeviceProfile()
        try:
            json_format.Parse(pathlib.Path(path).read_text(encoding="utf-8"), message)
        except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{os.fspath(path)}: no device profile: {error}") from None
        return DeviceProfile.from_proto(message)

    @staticmethod
    def from_proto(message: Any) -> DeviceProfile:
        """Reads a `packhouse.v1.DeviceProfile`."""
        return DeviceProfile(
            components={
                component.component: ComponentProfile(
                    max_rows=component.max_rows,
                    min_rows=component.min_rows,
                    multiple_of=component.multiple_of or 1,
                    bytes_per_row=component.bytes_per_row,
                    relative_cost=(
                        component.relative_cost if component.HasField("relative_cost") else None
                    ),
                )
                for component in message.components
            },
            memory_bytes=message.memory_bytes,
            fixed_bytes=message.fixed_bytes,
            max_distinct_shapes=message.max_distinct_shapes or 1,
            measured_as=message.measured_as,
            fixed_cost=message.fixed_cost,
        )

    def to_proto(self) -> Any:
        """This profile as a `packhouse.v1.DeviceProfile`."""
        message = planning_pb2.DeviceProfile(
            memory_bytes=self.memory_bytes,
            fixed_bytes=self.fixed_bytes,
            max_distinct_shapes=self.max_distinct_shapes,
            measured_as=self.measured_as,
            fixed_cost=self.fixed_cost,
        )
        for name, component in self.components.items():
            # None leaves a field unset.
            message.components.add(component=name, **dataclasses.asdict(component))
        return message


@dataclasses.dataclass(frozen=True)
class TunedShape:
    """Limits (0: none), and what a plan under them is like."""

    limits: dict[str, int]
    packs: int
    lower_bound: int
    epoch_cost: float
    harmonic_mean: float
    components: dict[str, ComponentEfficiency]
    batch_bytes: int

    @staticmethod
    def from_proto(message: Any) -> TunedShape:
        """Reads a `packhouse.v1.TunedShape`."""
        return TunedShape(
            limits={capacity.component: capacity.rows for capacity in message.limits.capacities},
            packs=message.packs,
            lower_bound=message.lower_bound,
            epoch_cost=message.epoch_cost,
            harmonic_mean=message.harmonic_mean,
            components=efficiencies_from_proto(message.components),
            batch_bytes=message.batch_bytes,
        )


@dataclasses.dataclass(frozen=True)
class TuneProgress:
    """How far the search is; `incumbent` is the best so far."""

    candidates: int
    planned: int
    excluded: int
    incumbent: TunedShape | None

    @staticmethod
    def from_proto(message: Any) -> TuneProgress:
        """Reads a `packhouse.v1.TuneProgress`."""
        return TuneProgress(
            candidates=message.candidates,
            planned=message.planned,
            excluded=message.excluded,
            incumbent=(
                TunedShape.from_proto(message.incumbent) if message.HasField("incumbent") else None
            ),
        )


OnProgress = Callable[[TuneProgress], None]


class TuneCell(NamedTuple):
    """One of the profile's limits: figures of its plan, or bounds if it was not planned."""

    capacities: tuple[int, ...]
    harmonic_mean: float
    epoch_cost: float
    planned: bool


class Oversize(NamedTuple):
    """Graphs that are left out, and limits that would take them.

    `num_apart` of the `num_graphs` fit some of the profile's limits, but not `num_shapes` shapes
    together with the others; the rest exceed all of them. `needed_bytes` is the `memory_bytes` that
    would take all in one shape (0: the profile's suffice, or have no bound).
    """

    num_graphs: int
    largest: tuple[int, ...]
    needed_rows: tuple[int, ...]
    num_apart: int = 0
    needed_bytes: int = 0
    num_shapes: int = 1

    @staticmethod
    def from_proto(message: Any) -> Oversize:
        """Reads a `packhouse.v1.Oversize`."""
        return Oversize(
            num_graphs=message.num_graphs,
            largest=tuple(message.largest),
            needed_rows=tuple(message.needed_rows),
            num_apart=message.num_apart,
            needed_bytes=message.needed_bytes,
            num_shapes=message.num_shapes or 1,
        )


@dataclasses.dataclass(frozen=True)
class Tuning:
    """The shapes to use, and why. A larger shape comes before a smaller one; a batch gets the last one
    that takes it.

    `group_graphs` has one number, that of all graphs, if one shape takes them all. If the memory takes
    each graph but no one shape takes all, and `max_distinct_shapes` allows it, the graphs are in
    groups, each with a shape of its own, and these are their numbers of graphs; `single_shape`,
    `cheapest_shape`, `frontier` and `cells` are then of the first group alone.

    `single_shape` is the recommended single shape. It is `cheapest_shape`, the best by the
    objective, or has fewer packs and costs at most 0.5 % more. `exact`: no limits of the profile
    are better than `cheapest_shape`. `frontier` is by ascending size, and ends with it; `cells` is
    empty unless the grid was asked for.
    """

    shapes: tuple[TunedShape, ...]
    epoch_cost: float
    least_cost: float
    harmonic_mean: float
    exact: bool
    reasons: tuple[str, ...]
    oversize: Oversize | None
    single_shape: TunedShape
    cheapest_shape: TunedShape
    frontier: tuple[TunedShape, ...]
    cells: tuple[TuneCell, ...]
    group_graphs: tuple[int, ...] = ()

    @staticmethod
    def from_responses(responses: Iterable[Any], on_progress: OnProgress | None) -> Tuning:
        """Reads all `packhouse.v1.TuneResponse`s of a call."""
        frontier: list[TunedShape] = []
        cells: list[TuneCell] = []
        recommendation = planning_pb2.TuneRecommendation()
        for response in responses:
            event = response.WhichOneof("event")
            if event == "progress" and on_progress is not None:
                on_progress(TuneProgress.from_proto(response.progress))
            elif event == "cell":
                cell = response.cell
                cells.append(
                    TuneCell(
                        tuple(cell.capacities), cell.harmonic_mean, cell.epoch_cost, cell.planned
                    )
                )
            elif event == "frontier":
                frontier.append(TunedShape.from_proto(response.frontier))
            elif event == "recommendation":
                recommendation = response.recommendation
        return Tuning(
            shapes=tuple(TunedShape.from_proto(shape) for shape in recommendation.shapes),
            epoch_cost=recommendation.epoch_cost,
            least_cost=recommendation.least_cost,
            harmonic_mean=recommendation.harmonic_mean,
            exact=recommendation.exact,
            reasons=tuple(recommendation.reasons),
            oversize=(
                Oversize.from_proto(recommendation.oversize)
                if recommendation.HasField("oversize")
                else None
            ),
            single_shape=TunedShape.from_proto(recommendation.single_shape),
            cheapest_shape=TunedShape.from_proto(recommendation.cheapest_shape),
            frontier=tuple(frontier),
            cells=tuple(cells),
            group_graphs=tuple(recommendation.group_graphs),
        )
