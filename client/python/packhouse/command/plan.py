"""packhouse plan."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, Final, Mapping, Sequence

import click

from packhouse.command.arguments import (
    NUMBER_32, axes_of, axes_option, budget_options, check_plot, choice, flag, json_option, limit_option,
    limits_of, limits_text, number, padding_option, padding_text, server_options, set_padding, size_source_options,
    value, values, without_limit,
)  # fmt: skip
from packhouse.command.connection import Connection, connected
from packhouse.command.failures import Failure, Misuse
from packhouse.command.output import grouped, print_json

if TYPE_CHECKING:
    from packhouse.command.sizes import SizeSource
    from packhouse.data.histogram import Histogram

_PRIORITIES: Final = ("product", "sum", "max", "min")
_FORM: Final = (
    "optimized, first-fit-decreasing, [filling-]best-fit:PRIORITY, [filling-]first-fit:PRIORITY, "
    "notebook:PRIORITY, no-packing or single-component:COMPONENT"
)


# fmt: off
@click.command()
@size_source_options
@limit_option()
@value("--receipt", "RECEIPT", "Make the plan of this receipt again, of the sizes of --sizes, --dataset "
       "or --histogram; without these, give that of an epoch which the server remembers")
@padding_option
@budget_options("Work for the optimized plan. 10^9 steps take about a second; 0 means 10^8")
@values("--heuristic", "HEURISTIC", "Try only this heuristic: optimized; first-fit-decreasing; "
        "best-fit:P, first-fit:P, filling-best-fit:P, filling-first-fit:P or notebook:P with P product, "
        "sum, max, min or a component; no-packing; single-component:COMPONENT; may be repeated")
@choice("--compare", ("quick", "all", "none"), "How long the plan, which is printed at once, is "
        "compared with those of other planners: quick: for --compare-seconds; all: until the last has "
        "ended; none: not at all", default="quick", show_default=True, metavar=None)
@value("--compare-seconds", None, "With --compare quick: what has not ended by then is named as "
       "unfinished", type=click.FloatRange(0, 86400), default=2.0, show_default=True)
@flag("--no-tuple-packing", "Leave out first-fit decreasing and the paper's heuristics")
@flag("--no-baselines", "Leave out the paper's baselines")
@flag("--no-notebook", "Leave out the companion notebook's variant")
@number("--patterns", "Print the first N patterns of the plan", type=NUMBER_32)
@value("--save-plan", "FILE", "Write the plan (a serialized packhouse.v1.PlanResponse)")
@value("--warm-start", "FILE", "Start from a plan that --save-plan wrote for similar sizes")
@value("--plot", "FILE", "Draw the histogram and the fill of the packs: FILE.svg, FILE.pdf or FILE.png")
@axes_option("else the first two that have a limit")
@json_option("Print JSON: ratios in [0, 1], times in seconds")
@server_options()
# fmt: on
def command(**given: Any) -> None:
    """Plan as few packs as possible for a whole histogram, with a proof and a comparison."""
    from packhouse.command.sizes import SizeSource

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
        from packhouse.command.plots import histogram_plot

        # Checked before a long plan: whether the picture can be drawn.
        view = histogram_plot.view_of(histogram, axes_of(given, components, limits), [limits])
    with connected(given["server"]) as connection:
        response = connection.call("planning.Planning.Plan", request)
        from packhouse.command import plan_report

        if not given["as_json"]:
            print(
                f"{grouped(histogram.num_graphs)} graphs of {grouped(len(histogram.counts))} sizes in "
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
            from packhouse.command.plots import plan_plot

            try:
                plan_plot.draw(given["plot"], source.name, view, components, response)
            except (Failure, OSError, ImportError) as error:
                failure = error
        _compare(given, connection, request, response, limits, components)
    if given["as_json"]:
        print_json(plan_report.plan_json(response, components, given["patterns"]))
    if failure is not None:
        raise failure


def _request(given: Mapping[str, Any], histogram: Histogram, limits: Mapping[str, int]) -> Any:
    from packhouse.v1 import planning_pb2

    request = planning_pb2.PlanRequest(
        histogram=histogram.to_proto(), budget_steps=given["budget_steps"], seed=given["seed"]
    )
    for name, rows in limits.items():
        request.limits.capacities.add(component=name, rows=rows)
    set_padding(request, given, histogram.components)
    for text in given["heuristic"]:
        request.heuristics.add().CopyFrom(_heuristic(text, histogram.components))
    if given["warm_start"]:
        request.warm_start.CopyFrom(_read_plan(given["warm_start"], histogram.components))
    request.summaries_only = not (given["patterns"] or given["plot"] or given["save_plan"])
    return request


def _compare(
    given: Mapping[str, Any],
    connection: Connection,
    request: Any,
    response: Any,
    limits: Mapping[str, int],
    components: Sequence[str],
) -> None:
    """Compares the plan with others, unless heuristics are named: then only these are shown."""
    from packhouse.command import plan_comparison, plan_report

    is_shown = not given["as_json"]
    if given["heuristic"]:
        if is_shown:
            print(plan_report.summary_table(response), end="")
        return
    is_compared = given["compare"] != "none"
    summaries = plan_comparison.summaries_to_fill(
        limits,
        components,
        plan_comparison.Compared(
            tuple_packing=is_compared and not given["no_tuple_packing"],
            notebook=is_compared and not given["no_notebook"],
            baselines=is_compared and not given["no_baselines"],
        ),
    )
    waits = given["compare"] == "all"
    table = plan_report.ComparisonTable(response.best, summaries)
    if is_shown:
        print(table.head(), end="", flush=True)

    def show(summary: Any) -> None:
        if is_shown and not summary.unfinished:
            print(table.row(summary), end="", flush=True)

    seconds = math.inf if waits else given["compare_seconds"]
    plan_comparison.fill(connection, request, response.best, seconds, show, summaries)
    if is_shown:
        print(plan_report.comparison_end(response.best, summaries, waits), end="")
    response.summaries.extend(summaries)


def _heuristic(text: str, components: Sequence[str]) -> Any:
    """A `packhouse.v1.PlanHeuristic`. Raises Misuse."""
    from packhouse.planning.plans import (
        OpeningRule,
        PlacementRule,
        PlanAlgorithm,
        PlanHeuristic,
        PriorityKind,
    )

    for plain in (
        PlanAlgorithm.OPTIMIZED,
        PlanAlgorithm.FIRST_FIT_DECREASING,
        PlanAlgorithm.NO_PACKING,
    ):
        if text == plain.name.lower().replace("_", "-"):
            return PlanHeuristic(algorithm=plain).to_proto()
    name, _, priority = text.partition(":")
    fields: dict[str, Any] = {}
    rule = name.removeprefix("filling-")
    if rule in ("best-fit", "first-fit"):
        fields["placement"] = PlacementRule.of(rule.replace("-", "_"), "placement")
        fields["opening"] = OpeningRule.FILL if name != rule else OpeningRule.ONE_GRAPH
    elif name == "notebook":
        fields["algorithm"] = PlanAlgorithm.NOTEBOOK
    elif name == "single-component":
        fields["algorithm"] = PlanAlgorithm.SINGLE_COMPONENT
    else:
        raise Misuse(f"--heuristic '{text}': must be {_FORM}")
    kinds = () if name == "single-component" else _PRIORITIES
    if priority in kinds:
        fields["priority"] = PriorityKind.of(priority, "priority")
    elif priority in components:
        fields |= {"priority": PriorityKind.COMPONENT, "component": priority}
    else:
        raise Misuse(
            f"--heuristic '{text}': '{priority}' is none of {', '.join([*kinds, *components])}"
        )
    return PlanHeuristic(**fields).to_proto()


def _save(path: str, response: Any) -> None:
    from packhouse.v1 import planning_pb2

    kept = planning_pb2.PlanResponse(best=response.best, plan=response.plan)
    # Only the elapsed time differs from run to run.
    kept.best.ClearField("elapsed")
    with open(path, "wb") as file:
        file.write(kept.SerializeToString(deterministic=True))


def _read_plan(path: str, components: Sequence[str]) -> Any:
    """The plan that `_save` wrote. Raises Failure, OSError."""
    from packhouse.base.messages import parse_whole
    from packhouse.v1 import planning_pb2

    response = planning_pb2.PlanResponse()
    with open(path, "rb") as file, contextlib.suppress(ValueError):
        parse_whole(response, file.read())
    if not response.HasField("plan"):
        raise Failure(
            "INVALID_ARGUMENT", f"{path}: is no plan that `packhouse plan --save-plan` wrote"
        )
    of_plan = [part.component for part in response.best.components if part.component != "graphs"]
    if of_plan != list(components):
        raise Failure(
            "INVALID_ARGUMENT",
            f"{path}: is a plan of {', '.join(of_plan)}, but the sizes have {', '.join(components)}",
        )
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
        raise Misuse(
            "--server: needed with --receipt, unless --sizes says what the plan is made of"
        )
    from packhouse.command import plan_report
    from packhouse.v1 import planning_pb2, receipts_pb2

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
    with connected(given["server"]) as connection:
        response = connection.call("receipts.Receipt.Replan", request)
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
        f"packs        {grouped(best.packs)}\n"
        f"lower bound  {grouped(best.lower_bound) if best.lower_bound else 'none'}\n"
        f"kept for     epoch {response.epoch} of job {response.job}, of {response.dataset}\n"
        f"receipt      {best.receipt}\n"
    )
