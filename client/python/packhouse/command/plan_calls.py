"""The comparison of `packhouse plan`: the same histogram by other planners, one call for each, so that
each row can be shown as soon as it is known.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from packhouse.base.errors import PackhouseError
from packhouse.command.connection import CALL_SECONDS, Connection
from packhouse.planning.plans import (
    OpeningRule,
    PlacementRule,
    PlanAlgorithm,
    PlanHeuristic,
    PriorityKind,
)
from packhouse.v1 import planning_pb2

_KINDS = (PriorityKind.PRODUCT, PriorityKind.SUM, PriorityKind.MAX, PriorityKind.MIN)


class Compared(NamedTuple):
    """Which planners are compared."""

    # And first-fit decreasing.
    tuple_packing: bool = True
    notebook: bool = True
    baselines: bool = True


def summaries_to_fill(
    limits: Mapping[str, int], components: Sequence[str], compared: Compared
) -> list[Any]:
    """A `packhouse.v1.PlanSummary` for each planner that suits the limits, with name and heuristic
    alone, as unfinished: first-fit decreasing, the baselines, the paper's heuristics, the
    notebook's. `components` are the histogram's.
    """
    return [
        planning_pb2.PlanSummary(name=name, heuristic=heuristic.to_proto(), unfinished=True)
        for name, heuristic in _heuristics(limits, components, compared)
    ]


def _heuristics(
    limits: Mapping[str, int], components: Sequence[str], compared: Compared
) -> Iterator[tuple[str, PlanHeuristic]]:
    limited = [name for name in components if name in limits]
    if compared.tuple_packing:
        first_fit = PlanHeuristic(algorithm=PlanAlgorithm.FIRST_FIT_DECREASING)
        yield "first-fit decreasing", first_fit
    if compared.baselines:
        yield "no packing", PlanHeuristic(algorithm=PlanAlgorithm.NO_PACKING)
        for name in limited:
            yield f"{name} alone", PlanHeuristic(
                PriorityKind.COMPONENT, algorithm=PlanAlgorithm.SINGLE_COMPONENT, component=name
            )
    if compared.tuple_packing:
        for opening in (OpeningRule.ONE_GRAPH, OpeningRule.FILL):
            for placement in (PlacementRule.BEST_FIT, PlacementRule.FIRST_FIT):
                before = "filling " if opening is OpeningRule.FILL else ""
                fit = "best-fit" if placement is PlacementRule.BEST_FIT else "first-fit"
                for name, fields in _priorities(limited) + _weighted(limits, components):
                    yield f"{before}{fit} {name}", PlanHeuristic(
                        placement=placement, opening=opening, **fields
                    )
    if compared.notebook and len(limited) == len(components):
        for name, fields in _priorities(limited):
            yield f"notebook {name}", PlanHeuristic(algorithm=PlanAlgorithm.NOTEBOOK, **fields)


def _priorities(limited: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Names and fields of those of the paper that suit the limits."""
    plain: list[tuple[str, dict[str, Any]]] = [
        (kind.name.lower(), {"priority": kind}) for kind in _KINDS
    ]
    return plain + [
        (name, {"priority": PriorityKind.COMPONENT, "component": name}) for name in limited
    ]


def _weighted(
    limits: Mapping[str, int], components: Sequence[str]
) -> list[tuple[str, dict[str, Any]]]:
    """Of sizes relative to their capacities; none if that makes no difference."""
    capacities = [limits.get(name, 0) for name in components]
    largest = max(capacities, default=0)
    # In 1/16 of the largest capacity's weight.
    weights = [
        min(int(16 * largest / rows), (1 << 32) - 1) if rows else 1 for rows in capacities
    ]
    if len({weight for weight, rows in zip(weights, capacities) if rows}) < 2:
        return []
    text = ",".join(map(str, weights))
    return [
        (f"{kind.name.lower()} weighted {text}", {"priority": kind, "weights": weights})
        for kind in (PriorityKind.SUM, PriorityKind.MAX)
    ]


def fill(
    connection: Connection,
    request: Any,
    best: Any,
    seconds: float,
    shown: Callable[[Any], None],
    summaries: Sequence[Any],
) -> None:
    """Asks for each of `summaries` in turn, for so many seconds in all, and fills it in, measured by
    the bound of `best`. A planner that does not end in time, or within its steps, stays unfinished.
    `request` has the histogram, limits and padding. `shown` is called after each planner that was
    asked for.

    Raises PackhouseError as Plan, except for those of planners that do not end.
    """
    end = time.monotonic() + seconds
    asked = planning_pb2.PlanRequest()
    asked.CopyFrom(request)
    asked.ClearField("warm_start")
    asked.summaries_only = True
    for summary in summaries:
        left = end - time.monotonic()
        if left <= 0:
            break
        del asked.heuristics[:]
        # A list needs a planner that keeps the limits.
        if summary.heuristic.algorithm == PlanAlgorithm.SINGLE_COMPONENT:
            asked.heuristics.add(algorithm=int(PlanAlgorithm.NO_PACKING))
        asked.heuristics.add().CopyFrom(summary.heuristic)
        try:
            response = connection.call("planning.Planning.Plan", asked, min(left, CALL_SECONDS))
        except PackhouseError as error:
            if error.code.name not in ("DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"):
                raise
        else:
            if response.summaries:
                summary.CopyFrom(response.summaries[-1])
        if not summary.unfinished:
            _measure(summary, best)
        shown(summary)


def _measure(summary: Any, best: Any) -> None:
    summary.lower_bound = best.lower_bound
    summary.lower_bound_name = best.lower_bound_name
    summary.lower_bound_kind = best.lower_bound_kind
    summary.optimal = summary.keeps_limits and summary.packs == best.lower_bound
    if best.lower_bound:
        summary.gap = summary.packs / best.lower_bound - 1
