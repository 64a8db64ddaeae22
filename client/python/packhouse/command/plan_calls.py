"""What `packhouse plan` asks the server: a plan, or one made again; and the comparison, the same
histogram by other planners, one call for each, so that each row can be shown as soon as it is known.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import Any, Callable, Final, Iterator, Mapping, NamedTuple, Sequence

from packhouse.base.errors import PackhouseError
from packhouse.base.arguments import parse_whole
from packhouse.client.facade import Client
from packhouse.command import plan_report
from packhouse.command.arguments import (
    axes_of, check_plot, limits_of, limits_text, padding_text, set_padding, without_limit
)  # fmt: skip
from packhouse.command.connection import CALL_SECONDS, ask, connected
from packhouse.command.failures import Failure, Misuse
from packhouse.command.output import grouped, print_json
from packhouse.command.plots import histogram_plot, plan_plot
from packhouse.command.sizes import SizeSource
from packhouse.data.histogram import Histogram
from packhouse.planning.plans import (
    OpeningRule, PlacementRule, PlanAlgorithm, PlanHeuristic, PriorityKind
)  # fmt: skip
from packhouse.v1 import planning_pb2, receipts_pb2

_KINDS: Final = (PriorityKind.PRODUCT, PriorityKind.SUM, PriorityKind.MAX, PriorityKind.MIN)
_FORM: Final = (
    "optimized, first-fit-decreasing, [filling-]best-fit:PRIORITY, [filling-]first-fit:PRIORITY, "
    "notebook:PRIORITY, no-packing or single-component:COMPONENT"
)
_PLAIN: Final = {
    "optimized": PlanAlgorithm.OPTIMIZED,
    "first-fit-decreasing": PlanAlgorithm.FIRST_FIT_DECREASING,
    "no-packing": PlanAlgorithm.NO_PACKING,
}
# The fields of those that have a priority.
_RULES: Final[Mapping[str, dict[str, Any]]] = {
    "best-fit": {"placement": PlacementRule.BEST_FIT},
    "first-fit": {"placement": PlacementRule.FIRST_FIT},
    "filling-best-fit": {"placement": PlacementRule.BEST_FIT, "opening": OpeningRule.FILL},
    "filling-first-fit": {"placement": PlacementRule.FIRST_FIT, "opening": OpeningRule.FILL},
    "notebook": {"algorithm": PlanAlgorithm.NOTEBOOK},
    "single-component": {"algorithm": PlanAlgorithm.SINGLE_COMPONENT},
}


def run(given: Mapping[str, Any]) -> None:
    """The command, of which `given` has the options."""
    source = SizeSource(given["sizes"], given["dataset"], given["histogram"])
    if given["receipt"]:
        _refuse_beside_receipt(given)
        _plan_again(given, source)
        return
    source.check(given["server"])
    if not given["limit"]:
        raise Misuse("--limit is required without --receipt")
    _check(given)
    _plan(given, source)


def _check(given: Mapping[str, Any]) -> None:
    """Finds contradictions before anything is read."""
    check_plot(given["plot"], given["axes"])
    if given["heuristic"] and "optimized" not in given["heuristic"]:
        for name in ("budget_steps", "seed", "warm_start"):
            if given[name]:
                raise Misuse(
                    f"--{name.replace('_', '-')} is for the heuristic 'optimized', which is not among "
                    "those of --heuristic"
                )


def _plan(given: Mapping[str, Any], source: SizeSource) -> None:
    histogram = source.read(given["server"])
    components = histogram.components
    limits = limits_of(given["limit"], components)
    request = _request(given, histogram, limits)
    view = None
    if given["plot"]:
        # Checked before a long plan: whether the picture can be drawn.
        view = histogram_plot.view_of(histogram, axes_of(given, components, limits), [limits])
    with connected(given["server"]) as client:
        response = ask(client, "planning.Planning.Plan", request)
        if not given["as_json"]:
            print(
                f"{histogram.num_graphs:,} graphs of {len(histogram.counts):,} sizes in "
                f"{source.name}; limits {limits_text(limits)}{without_limit(components, limits)}"
                f"{padding_text(given['padding'])}\n\n{plan_report.certificate(response.best)}",
                flush=True,
            )
            if given["patterns"]:
                print(plan_report.pattern_list(response, components, given["patterns"]), flush=True)
        if given["save_plan"]:
            _save(given["save_plan"], response)
        # A picture that cannot be drawn does not keep the comparison back.
        failure = None
        if view is not None:
            try:
                plan_plot.draw(given["plot"], source.name, view, components, response)
            except (Failure, OSError, ImportError) as error:
                failure = error
        _compare(given, client, request, response, limits, components)
    if given["as_json"]:
        print_json(plan_report.plan_json(response, components, given["patterns"]))
    if failure is not None:
        raise failure


def _request(given: Mapping[str, Any], histogram: Histogram, limits: Mapping[str, int]) -> Any:
    request = planning_pb2.PlanRequest(
        histogram=histogram.to_proto(), budget_steps=given["budget_steps"], seed=given["seed"]
    )
    for name, rows in limits.items():
        request.limits.capacities.add(component=name, rows=rows)
    set_padding(request, given, histogram.components)
    for text in given["heuristic"]:
        request.heuristics.add().CopyFrom(heuristic_of(text, histogram.components).to_proto())
    if given["warm_start"]:
        request.warm_start.CopyFrom(_read_plan(given["warm_start"], histogram.components))
    request.summaries_only = not (given["patterns"] or given["plot"] or given["save_plan"])
    return request


def _compare(
    given: Mapping[str, Any], client: Client, request: Any, response: Any, limits: Mapping[str, int],
    components: Sequence[str],
) -> None:
    """Compares the plan with others, unless heuristics are named: then only these are shown."""
    is_shown = not given["as_json"]
    if given["heuristic"]:
        if is_shown:
            print(plan_report.summary_table(response), end="")
        return
    is_compared = given["compare"] != "none"
    compared = Compared(*(is_compared and not given[f"no_{name}"] for name in Compared._fields))
    summaries = summaries_to_fill(limits, components, compared)
    waits = given["compare"] == "all"
    table = plan_report.ComparisonTable(response.best, summaries)
    if is_shown:
        print(table.head(), end="", flush=True)

    def show(summary: Any) -> None:
        if is_shown and not summary.unfinished:
            print(table.row(summary), end="", flush=True)

    seconds = math.inf if waits else given["compare_seconds"]
    fill(client, request, response.best, seconds, show, summaries)
    if is_shown:
        print(plan_report.comparison_end(response.best, summaries, waits), end="")
    response.summaries.extend(summaries)


def _save(path: str, response: Any) -> None:
    kept = planning_pb2.PlanResponse(best=response.best, plan=response.plan)
    # Only the elapsed time differs from run to run.
    kept.best.ClearField("elapsed")
    with open(path, "wb") as file:
        file.write(kept.SerializeToString(deterministic=True))


def _read_plan(path: str, components: Sequence[str]) -> Any:
    """The plan that `_save` wrote. Raises Failure, OSError."""
    response = planning_pb2.PlanResponse()
    with open(path, "rb") as file, contextlib.suppress(ValueError):
        parse_whole(response, file.read())
    if not response.HasField("plan"):
        raise Failure("INVALID_ARGUMENT", f"{path}: is no plan that `packhouse plan --save-plan` wrote")
    of_plan = [part.component for part in response.best.components if part.component != "graphs"]
    if of_plan != list(components):
        told = f"{path}: is a plan of {', '.join(of_plan)}, but the sizes have {', '.join(components)}"
        raise Failure("INVALID_ARGUMENT", told)
    return response.plan


# A plan made again.


def _refuse_beside_receipt(given: Mapping[str, Any]) -> None:
    for name in ("limit", "heuristic", "budget_steps", "seed", "plot"):
        if given[name]:
            raise Misuse(
                f"--{name.replace('_', '-')}: not with --receipt, which says what the plan is made of"
            )


def _plan_again(given: Mapping[str, Any], source: SizeSource) -> None:
    if sum(map(bool, source)) > 1:
        raise Misuse("--sizes, --dataset, --histogram: the sizes come from one of them")
    if given["warm_start"] and not source.file:
        raise Misuse("--warm-start with --receipt needs --sizes")
    if not source.file and not given["server"].address:
        raise Misuse("--server: needed with --receipt, unless --sizes says what the plan is made of")
    request = receipts_pb2.ReplanRequest(
        receipt=given["receipt"], summaries_only=not (given["patterns"] or given["save_plan"])
    )
    if source.file:
        histogram = source.read(given["server"])
        request.histogram.CopyFrom(histogram.to_proto())
        if given["warm_start"]:
            request.warm_start.CopyFrom(_read_plan(given["warm_start"], histogram.components))
    elif source.dataset:
        request.dataset = source.dataset
    elif source.histogram:
        request.histogram_name = source.histogram
    with connected(given["server"]) as client:
        response = ask(client, "receipts.Receipt.Replan", request)
    plan: planning_pb2.PlanResponse = response.plan
    components = [part.component for part in plan.best.components][:-1]
    if given["as_json"]:
        print_json(plan_report.plan_json(plan, components, given["patterns"]))
    else:
        is_kept = bool(response.job)
        print(_kept_text(response) if is_kept else plan_report.certificate(plan.best), end="")
        if given["patterns"]:
            print("\n" + plan_report.pattern_list(plan, components, given["patterns"]), end="")
    if given["save_plan"]:
        _save(given["save_plan"], plan)


def _kept_text(response: Any) -> str:
    """What the ledger keeps of a plan: without the figures of the planner that made it."""
    best = response.plan.best
    return (
        f"packs        {best.packs:,}\n"
        f"lower bound  {grouped(best.lower_bound) if best.lower_bound else 'none'}\n"
        f"kept for     epoch {response.epoch} of job {response.job}, of {response.dataset}\n"
        f"receipt      {best.receipt}\n"
    )


# The comparison.


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
        yield "first-fit decreasing", PlanHeuristic(algorithm=PlanAlgorithm.FIRST_FIT_DECREASING)
    if compared.baselines:
        yield "no packing", PlanHeuristic(algorithm=PlanAlgorithm.NO_PACKING)
        for name in limited:
            yield f"{name} alone", heuristic_of(f"single-component:{name}", components)
    rules = ["best-fit", "first-fit", "filling-best-fit", "filling-first-fit"]
    for rule in rules if compared.tuple_packing else ():
        for name, fields in (_priorities(limited) | _weighted(limits, components)).items():
            yield f"{rule.replace('filling-', 'filling ')} {name}", PlanHeuristic(**_RULES[rule], **fields)
    if compared.notebook and len(limited) == len(components):
        for name, fields in _priorities(limited).items():
            yield f"notebook {name}", PlanHeuristic(**_RULES["notebook"], **fields)


def heuristic_of(text: str, components: Sequence[str]) -> PlanHeuristic:
    """That of `--heuristic`. Raises Misuse."""
    if text in _PLAIN:
        return PlanHeuristic(algorithm=_PLAIN[text])
    name, _, priority = text.partition(":")
    if name not in _RULES:
        raise Misuse(f"--heuristic '{text}': must be {_FORM}")
    known = _priorities(components, () if name == "single-component" else _KINDS)
    if priority not in known:
        raise Misuse(f"--heuristic '{text}': '{priority}' is none of {', '.join(known)}")
    return PlanHeuristic(**_RULES[name], **known[priority])


def _priorities(
    components: Sequence[str], kinds: Sequence[PriorityKind] = _KINDS
) -> dict[str, dict[str, Any]]:
    """By name, the fields of the paper's; a component that is called as a kind is hidden by it."""
    named = {name: {"priority": PriorityKind.COMPONENT, "component": name} for name in components}
    fields: dict[str, dict[str, Any]] = {kind.name.lower(): {"priority": kind} for kind in kinds}
    return {**fields, **{name: each for name, each in named.items() if name not in fields}}


def _weighted(limits: Mapping[str, int], components: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Of sizes relative to their capacities; none if that makes no difference."""
    capacities = [limits.get(name, 0) for name in components]
    largest = max(capacities, default=0)
    # In 1/16 of the largest capacity's weight.
    weights = [min(int(16 * largest / rows), (1 << 32) - 1) if rows else 1 for rows in capacities]
    if len({weight for weight, rows in zip(weights, capacities) if rows}) < 2:
        return {}
    text = ",".join(map(str, weights))
    return {
        f"{kind.name.lower()} weighted {text}": {"priority": kind, "weights": weights}
        for kind in (PriorityKind.SUM, PriorityKind.MAX)
    }


def fill(
    client: Client, request: Any, best: Any, seconds: float, shown: Callable[[Any], None],
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
            response = ask(client, "planning.Planning.Plan", asked, min(left, CALL_SECONDS))
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
