"""The output of `packhouse plan`: certificate, table, patterns; or JSON.

Pure functions of the server's answer; texts end in a line feed.
"""

from __future__ import annotations

from typing import Any, Final, Sequence

import numpy as np

from packhouse.command.output import Column, fields, grouped, percent, small_percent, TextTable
from packhouse.planning.plans import PlanAlgorithm

# The sections of the report in order: of each its name in JSON, and its heading.
_SECTIONS: Final = {
    "planner": "planners",
    "heuristic": "the paper's tuple packing",
    "notebook": "as the paper's companion notebook computes it",
    "baseline": "baselines (a single component ignores the other limits)",
}
_SECTION_OF: Final = {
    PlanAlgorithm.OPTIMIZED: "planner",
    PlanAlgorithm.FIRST_FIT_DECREASING: "planner",
    PlanAlgorithm.NOTEBOOK: "notebook",
    PlanAlgorithm.NO_PACKING: "baseline",
    PlanAlgorithm.SINGLE_COMPONENT: "baseline",
}
# As wide as what may follow.
_WIDE: Final = 10


def certificate(best: Any) -> str:
    """How many packs, how far from the fewest, how full, found by whom."""
    fullness = ", ".join(f"{part.component} {percent(part.efficiency, 3)} %" for part in _limited(best))
    found_by = best.winner or best.name
    if best.steps:
        found_by += f", {best.steps:,} steps"
    seconds = _seconds(best)
    found_by += f", {1e3 * seconds:.1f} ms" if seconds < 1 else f", {seconds:.2f} s"
    if best.optimal:
        proof = "proved optimal: no plan has fewer"
    else:
        more = grouped(best.packs - best.lower_bound)
        proof = f"at most {more} ({small_percent(best.gap)}) more than the fewest possible"
    text = (
        f"packs        {best.packs:,}, {proof}\n"
        f"lower bound  {best.lower_bound:,}, by {best.lower_bound_name}\n"
        f"efficiency   {fullness}\n"
        f"found by     {found_by}\n"
    )
    return text + (f"receipt      {best.receipt}\n" if best.receipt else "")


class ComparisonTable:
    """The table whose rows come one by one."""

    def __init__(self, best: Any, others: Sequence[Any]) -> None:
        self._best = best
        longest = max(len(one.name) for one in (best, *others))
        self._columns = [
            column._replace(min_width=(longest + 2, _WIDE, 6, _WIDE)[k] if k < 4 else 6)
            for k, column in enumerate(_columns(best))
        ]
        self._section = ""

    def head(self) -> str:
        """The names of the columns, and the best."""
        table = TextTable(self._columns)
        table.add_row(*_cells(self._best, is_best=True))
        return table.render()

    def row(self, summary: Any) -> str:
        """With the heading of its section, if it is the first there."""
        table = TextTable(self._columns)
        section = _section(summary)
        if section != self._section:
            self._section = section
            table.add_heading("")
            table.add_heading(_SECTIONS[section])
        table.add_row(*_cells(summary, is_best=False))
        return table.render(has_head=False)


def comparison_end(best: Any, summaries: Sequence[Any], waits: bool) -> str:
    """What is better than the best, and what did not end."""
    better = [
        f"{one.name} ({one.packs})"
        for one in summaries
        if not one.unfinished and one.keeps_limits and one.packs < best.packs
    ]
    unfinished = [one.name for one in summaries if one.unfinished]
    text = f"fewer packs than * have: {', '.join(better)}\n" if better else "* the fewest packs\n"
    if unfinished:
        hint = "" if waits else "; --compare all waits for them"
        text += f"unfinished: {', '.join(unfinished)}{hint}\n"
    return text


def summary_table(response: Any) -> str:
    """All summaries of an answer, by section; the first of the best's name is marked."""
    table = TextTable(_columns(response.best))
    before = best = None
    for summary in sorted(response.summaries, key=lambda one: list(_SECTIONS).index(_section(one))):
        section = _section(summary)
        # The first section of the table needs no heading.
        if before not in (None, section):
            table.add_heading("")
            table.add_heading(_SECTIONS[section])
        before = section
        is_best = best is None and summary.name == response.best.name
        best = summary if is_best else best
        table.add_row(*_cells(summary, is_best=is_best))
    return table.render() + "* the fewest packs\n"


def pattern_list(response: Any, components: Sequence[str], count: int) -> str:
    """The first patterns of the plan."""
    shown = min(count, len(response.plan.patterns))
    text = (
        f"first {shown} of the {len(response.plan.patterns)} patterns of {response.best.name}, graphs "
        f"as ({', '.join(components)})\n"
    )
    tuples = _tuples(response, components)
    for pattern in response.plan.patterns[:shown]:
        entries = " + ".join(
            f"{entry.copies} x ({', '.join(map(str, tuples[entry.tuple]))})"
            for entry in pattern.entries
        )
        text += f"{pattern.repeats:7d} packs of  {entries}\n"
    return text


def plan_json(response: Any, components: Sequence[str], count: int) -> dict[str, Any]:
    """`best`, `summaries` and, unless `count` is 0, `patterns`. Ratios are in [0, 1], times in
    seconds.
    """
    told: dict[str, Any] = {
        "best": _summary_json(response.best),
        "summaries": [_summary_json(one) for one in response.summaries],
    }
    if count:
        tuples = _tuples(response, components)
        told["patterns"] = [
            {
                "repeats": pattern.repeats,
                "graphs": [
                    {**dict(zip(components, tuples[entry.tuple])), "copies": entry.copies}
                    for entry in pattern.entries
                ],
            }
            for pattern in response.plan.patterns[:count]
        ]
    return told


def efficiencies_json(components: Any) -> list[dict[str, Any]]:
    """The efficiencies of a plan or shape."""
    names = "component capacity efficiency fullest_pack efficiency_of_fullest"
    return [fields(part, names) for part in components]


def _tuples(response: Any, components: Sequence[str]) -> list[list[int]]:
    values = np.frombuffer(response.plan.tuples, "<u4")
    rows: list[list[int]] = values.reshape(-1, max(1, len(components))).tolist()
    return rows


def _limited(summary: Any) -> list[Any]:
    return [part for part in summary.components if part.capacity]


def _section(summary: Any) -> str:
    return _SECTION_OF.get(summary.heuristic.algorithm, "heuristic")


def _seconds(summary: Any) -> float:
    return float(summary.elapsed.seconds + 1e-9 * summary.elapsed.nanos)


def _columns(best: Any) -> list[Column]:
    columns = [Column(name) for name in ("  planner", "packs", "lower bound", "gap %")]
    for group in ("efficiency %", "of the fullest pack %"):
        columns += [Column(part.component, group) for part in _limited(best)]
    return columns


def _cells(summary: Any, *, is_best: bool) -> list[str]:
    name = ("* " if is_best else "  ") + summary.name
    if summary.unfinished:
        return [name, "unfinished"]
    return [
        *(name, str(summary.packs), str(summary.lower_bound), percent(summary.gap)),
        *(percent(part.efficiency) for part in _limited(summary)),
        *(percent(part.efficiency_of_fullest) for part in _limited(summary)),
    ]


def _summary_json(summary: Any) -> dict[str, Any]:
    told = fields(summary, "name unfinished") | {"section": _section(summary)}
    if summary.unfinished:
        return told
    told |= fields(summary, "packs lower_bound lower_bound_name gap optimal keeps_limits num_patterns")
    told["elapsed_seconds"] = _seconds(summary)
    if summary.heuristic.algorithm == PlanAlgorithm.OPTIMIZED:
        told |= fields(summary, "winner steps receipt")
    told["components"] = efficiencies_json(summary.components)
    return told
