"""Plans: how the graphs of a histogram share packs. See `Client.plan`.

Beside the server's plans, next-fit in arrival order as a baseline: the batching of jraph, PyG and
TF-GNN. Graphs are added to the open batch until one does not fit; that one opens the next batch.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import Choice, Uint32, names_arguments
from packhouse.data.graphs import array_of
from packhouse.data.schema import GRAPHS
from packhouse.v1 import planning_pb2


class PriorityKind(Choice):
    """In which order sizes are placed, by a function of the size s over the components with a limit.

    PRODUCT of s_k ** weight_k, SUM, MAX or MIN of weight_k * s_k, or s_k of one COMPONENT.
    """

    PRODUCT = 1
    SUM = 2
    MAX = 3
    MIN = 4
    COMPONENT = 5


class PlacementRule(Choice):
    """Which pack with room gets the next graph: the one with the least room, or with the most."""

    BEST_FIT = 1
    FIRST_FIT = 2


class OpeningRule(Choice):
    """What to open for graphs that find no room: a pack for each, or packs of as many of them as
    fit.
    """

    ONE_GRAPH = 1
    FILL = 2


class PlanAlgorithm(Choice):
    """How a plan is made.

    - OPTIMIZED: the strong planner, until its plan meets a lower bound or its budget is used up.
    - TUPLE_PACKING: Krell et al. 2022, by priority, placement and opening; NOTEBOOK: as their
      notebook computes it, with its quirks.
    - Baselines: NO_PACKING has one graph a pack; SINGLE_COMPONENT looks at one component alone, and
      ignores other limits; FIRST_FIT_DECREASING goes by each size's largest share of a limit.
    """

    TUPLE_PACKING = 1
    NOTEBOOK = 2
    NO_PACKING = 3
    SINGLE_COMPONENT = 4
    OPTIMIZED = 5
    FIRST_FIT_DECREASING = 6


class LowerBoundKind(Choice):
    """How a lower bound was found.

    - VOLUME: the total of one component over its limit; LIFTED_VOLUME: with each large graph counted
      for the room that nothing else can fill beside it.
    - LINEAR_PROGRAM: over all patterns (Gilmore and Gomory 1961), in whole numbers.
    """

    UNSPECIFIED = 0
    VOLUME = 1
    LIFTED_VOLUME = 2
    LINEAR_PROGRAM = 3


@names_arguments
@dataclasses.dataclass(frozen=True)
class PlanHeuristic:
    """One way to plan; choices may be given by name. `component` belongs to PriorityKind.COMPONENT.

    OPTIMIZED and FIRST_FIT_DECREASING take nothing but the algorithm.
    """

    priority: PriorityKind = PriorityKind.PRODUCT
    placement: PlacementRule = PlacementRule.BEST_FIT
    algorithm: PlanAlgorithm = PlanAlgorithm.TUPLE_PACKING
    component: str = ""
    weights: Sequence[Uint32] = ()
    opening: OpeningRule = OpeningRule.ONE_GRAPH

    if TYPE_CHECKING:

        def __init__(
            self,
            priority: PriorityKind | str = PriorityKind.PRODUCT,
            placement: PlacementRule | str = PlacementRule.BEST_FIT,
            algorithm: PlanAlgorithm | str = PlanAlgorithm.TUPLE_PACKING,
            component: str = "",
            weights: Sequence[int] = (),
            opening: OpeningRule | str = OpeningRule.ONE_GRAPH,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "priority", PriorityKind.of(self.priority, "priority"))
        object.__setattr__(self, "placement", PlacementRule.of(self.placement, "placement"))
        object.__setattr__(self, "algorithm", PlanAlgorithm.of(self.algorithm, "algorithm"))
        object.__setattr__(self, "opening", OpeningRule.of(self.opening, "opening"))

    def to_proto(self) -> Any:
        """This heuristic as a `packhouse.v1.PlanHeuristic`."""
        return planning_pb2.PlanHeuristic(
            algorithm=self.algorithm,
            placement=self.placement,
            opening=self.opening,
            priority=planning_pb2.Priority(
                kind=self.priority, component=self.component, weights=self.weights
            ),
        )


@dataclasses.dataclass(frozen=True)
class ComponentEfficiency:
    """What holds for one component over a whole plan; `capacity` 0 means no limit."""

    capacity: int
    efficiency: float
    fullest_pack: int
    efficiency_of_fullest: float


def efficiencies_from_proto(messages: Any) -> dict[str, ComponentEfficiency]:
    """Reads `packhouse.v1.ComponentEfficiency`s."""
    return {
        part.component: ComponentEfficiency(
            capacity=part.capacity,
            efficiency=part.efficiency,
            fullest_pack=part.fullest_pack,
            efficiency_of_fullest=part.efficiency_of_fullest,
        )
        for part in messages
    }


@dataclasses.dataclass(frozen=True)
class PlanSummary:
    """A plan's figures. No plan for these limits has fewer than `lower_bound` packs.

    `winner`, `steps` and `receipt` are of PlanAlgorithm.OPTIMIZED: equal receipts, equal plans.
    """

    name: str
    packs: int
    lower_bound: int
    lower_bound_name: str
    gap: float
    components: dict[str, ComponentEfficiency]
    keeps_limits: bool
    num_patterns: int
    elapsed: datetime.timedelta
    unfinished: bool
    lower_bound_kind: LowerBoundKind
    optimal: bool
    winner: str
    steps: int
    receipt: str

    @staticmethod
    def from_proto(message: Any) -> PlanSummary:
        """Reads a `packhouse.v1.PlanSummary`."""
        return PlanSummary(
            name=message.name,
            packs=message.packs,
            lower_bound=message.lower_bound,
            lower_bound_name=message.lower_bound_name,
            gap=message.gap,
            components=efficiencies_from_proto(message.components),
            keeps_limits=message.keeps_limits,
            num_patterns=message.num_patterns,
            elapsed=message.elapsed.ToTimedelta(),
            unfinished=message.unfinished,
            lower_bound_kind=LowerBoundKind(message.lower_bound_kind),
            optimal=message.optimal,
            winner=message.winner,
            steps=message.steps,
            receipt=message.receipt,
        )


@dataclasses.dataclass(frozen=True)
class Pattern:
    """Size tuples that fit together: (row of `Plan.tuples`, copies), and how many packs have it."""

    entries: tuple[tuple[int, int], ...]
    repeats: int


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """The best plan, in full, and one summary per heuristic tried.

    `patterns` and `tuples` (uint32 [d, l]) are empty if only summaries were asked for.
    """

    _hint = "an earlier `plan` gave one"

    best: PlanSummary
    tuples: npt.NDArray[np.uint32]
    patterns: tuple[Pattern, ...]
    summaries: tuple[PlanSummary, ...]

    def to_proto(self) -> Any:
        """Its patterns as a `packhouse.v1.PackingPlan`."""
        return planning_pb2.PackingPlan(
            tuples=np.ascontiguousarray(self.tuples, "<u4").tobytes(),
            patterns=[
                planning_pb2.Pattern(
                    entries=[
                        planning_pb2.PatternEntry(tuple=number, copies=copies)
                        for number, copies in pattern.entries
                    ],
                    repeats=pattern.repeats,
                )
                for pattern in self.patterns
            ],
        )

    @staticmethod
    def from_proto(message: Any) -> Plan:
        """Reads a `packhouse.v1.PlanResponse`."""
        best = PlanSummary.from_proto(message.best)
        # A summary lists the histogram's components and then `graphs`.
        components = max(1, len(best.components) - 1)
        return Plan(
            best=best,
            tuples=np.frombuffer(message.plan.tuples, "<u4").reshape(-1, components),
            patterns=tuple(
                Pattern(
                    entries=tuple((entry.tuple, entry.copies) for entry in pattern.entries),
                    repeats=pattern.repeats,
                )
                for pattern in message.plan.patterns
            ),
            summaries=tuple(PlanSummary.from_proto(summary) for summary in message.summaries),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class NextFit:
    """Batch b holds graphs `order[starts[b]:starts[b + 1]]`; `too_large` fit no batch."""

    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]  # [batches + 1]
    too_large: npt.NDArray[np.int64]
    totals: dict[str, int]  # Real rows of the graphs in `order`, per component and of `graphs`.

    @property
    def num_batches(self) -> int:
        """Batches made."""
        return len(self.starts) - 1

    def efficiency(self, capacities: Mapping[str, int]) -> dict[str, float]:
        """Real rows / (batches * capacity), for the components that have a capacity."""
        return {
            name: self.totals[name] / (self.num_batches * rows) if self.num_batches else 1.0
            for name, rows in capacities.items()
            if rows
        }


def next_fit(
    sizes: npt.ArrayLike,
    usable: Mapping[str, int],
    components: Sequence[str] = ("nodes", "edges"),
) -> NextFit:
    """Batches the graphs of an [n, l] table of sizes in their order.

    `usable` is the most real rows of a batch per component and of `graphs` (absent or 0: no limit):
    subtract what padding keeps free first. Cost: O(n l + batches l log n).
    """
    table = array_of(sizes, "sizes").astype(np.int64)
    table = table.reshape(len(table), len(components))
    columns = {name: table[:, k] for k, name in enumerate(components)}
    columns[GRAPHS] = np.ones(len(table), np.int64)
    for name in usable:
        if name not in columns:
            raise ValueError(f"no component {name!r}")
    bounds = {name: rows for name, rows in usable.items() if rows}

    fits = np.ones(len(table), bool)
    for name, rows in bounds.items():
        fits &= columns[name] <= rows
    order = np.flatnonzero(fits)
    ends = {name: np.cumsum(columns[name][order]) for name in columns}
    starts = [0]
    while starts[-1] < len(order):
        start = starts[-1]
        stop = len(order)
        for name, rows in bounds.items():
            before = int(ends[name][start - 1]) if start else 0
            stop = min(stop, int(np.searchsorted(ends[name], before + rows, side="right")))
        starts.append(stop)
    return NextFit(
        order=order,
        starts=np.array(starts, np.int64),
        too_large=np.flatnonzero(~fits),
        totals={name: int(end[-1]) if len(order) else 0 for name, end in ends.items()},
    )
