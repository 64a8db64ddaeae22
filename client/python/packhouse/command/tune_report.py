"""The output of `packhouse tune`: the recommendation with its reasons, and the frontier; or JSON.

Pure functions of the server's answer; texts end in a line feed unless they are parts of a line.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Sequence

from packhouse.command.output import (
    Column, TextTable, bytes_text, counted, fields, grouped, percent, small_percent
)  # fmt: skip
from packhouse.command.plan_report import efficiencies_json

# Rows of the frontier's table.
_MOST_STEPS: Final = 12
_MANY: Final = (1 << 64) - 1


@dataclasses.dataclass
class Outcome:
    """What the messages of a Tune call say, as messages."""

    progress: Any
    recommendation: Any
    frontier: list[Any] = dataclasses.field(default_factory=list)
    cells: list[Any] = dataclasses.field(default_factory=list)

    @property
    def single_shape(self) -> Any:
        """The best single shape, also if only one shape was recommended."""
        recommendation = self.recommendation
        is_told = recommendation.HasField("single_shape")
        return recommendation.single_shape if is_told else recommendation.shapes[0]

    @property
    def has_cheaper_shape(self) -> bool:
        """Whether another shape than the recommended single one costs the least."""
        recommendation = self.recommendation
        return bool(
            recommendation.HasField("cheapest_shape")
            and recommendation.cheapest_shape.packs != recommendation.single_shape.packs
        )


def shape_text(shape: Any) -> str:
    """`nodes=353, edges=756`: the existing capacities."""
    return ", ".join(f"{part.component}={part.capacity}" for part in _limited(shape))


def padding_overhead(epoch_cost: float, least_cost: float) -> float:
    """The cost of padding relative to that of real rows; 0 if nothing has a cost."""
    return epoch_cost / least_cost - 1 if least_cost > 0 else 0.0


def progress_line(progress: Any) -> str:
    """One line for a terminal: the progress of the search, and the best so far."""
    line = f"planned {progress.planned:,}, excluded {progress.excluded:,} of {_candidates(progress)}"
    if progress.HasField("incumbent"):
        best = progress.incumbent
        line += f"; best so far {shape_text(best)}, {percent(best.harmonic_mean, 3)} %"
    return line


def recommendation_text(outcome: Outcome, profile: Any, components: Sequence[str]) -> str:
    """The chosen limits, their cost, how certain they are, the gain over one shape, the graphs that
    are left out with the options that would take them; then a table of the shapes, and the reasons.
    `profile` is that of the request, `components` are the histogram's.
    """
    told = outcome.recommendation
    shapes = list(told.shapes)
    named = shape_text(shapes[0]) if len(shapes) == 1 else f"{len(shapes)} shapes"
    if told.least_cost > 0:
        what = "padding and the cost of a step add" if profile.fixed_cost > 0 else "padding adds"
        overhead = small_percent(padding_overhead(told.epoch_cost, told.least_cost))
        cost = f"{what} {overhead} to the {_cost(told.least_cost)} of real rows"
    else:
        cost = "the real rows cost nothing"
    lines = [
        f"recommended  {named}: {sum(shape.packs for shape in shapes):,} packs, harmonic mean "
        f"of efficiencies {percent(told.harmonic_mean, 3)} %",
        f"cost         {_cost(told.epoch_cost)} an epoch; {cost}",
        f"search       {_search(outcome)}",
    ]
    if outcome.has_cheaper_shape:
        cheapest = told.cheapest_shape
        lines.append(
            f"cheapest     {shape_text(cheapest)}: {cheapest.packs:,} packs, "
            f"{_cost(cheapest.epoch_cost)} an epoch; the recommended limits cost hardly more in fewer steps"
        )
    if len(told.group_graphs) > 1:
        groups = ", ".join(grouped(number) for number in told.group_graphs)
        lines.append(
            f"groups       no one shape takes all graphs: {len(told.group_graphs)} groups, of {groups} "
            "graphs, have shapes of their own"
        )
    elif len(shapes) > 1 and told.HasField("single_shape"):
        single = told.single_shape
        lines.append(
            f"gain         {small_percent(1 - told.epoch_cost / single.epoch_cost)} of the cost of the "
            f"best single shape: {shape_text(single)} with {single.packs:,} packs costs "
            f"{_cost(single.epoch_cost)}"
        )
    if told.HasField("oversize") and told.oversize.num_graphs:
        lines.append(f"too large    {_oversize(told.oversize, profile, components)}")
    table = TextTable(_shape_columns("shape", shapes[0], "of the cost %"))
    for number, shape in enumerate(shapes, 1):
        share = percent(shape.epoch_cost / told.epoch_cost) if told.epoch_cost > 0 else "-"
        table.add_row(*_shape_cells(str(number), shape, share))
    text = "".join(f"{line}\n" for line in lines) + "\n" + table.render()
    if told.reasons:
        text += "\nwhy\n" + "".join(f"- {reason}\n" for reason in told.reasons)
    return text


def frontier_steps(frontier: Sequence[Any], least_cost: float) -> list[Any]:
    """The points of the frontier that its table shows: all if there are few; otherwise the first, the
    last, and those whose padding is smaller by some factor than that of the previous one shown.
    """
    steps = list(frontier)
    overheads = [padding_overhead(shape.epoch_cost, least_cost) for shape in frontier]
    for factor in (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0):
        if len(steps) <= _MOST_STEPS:
            break
        kept: list[int] = []
        for number, overhead in enumerate(overheads):
            is_last = number + 1 == len(overheads)
            if not kept or is_last or factor * overhead <= overheads[kept[-1]]:
                kept.append(number)
        steps = [frontier[number] for number in kept]
    return steps


def frontier_table(outcome: Outcome) -> str:
    """Empty if there is no frontier."""
    if not outcome.frontier:
        return ""
    least_cost = outcome.recommendation.least_cost
    table = TextTable(_shape_columns("padding", outcome.frontier[0], "cost of a batch"))
    steps = frontier_steps(outcome.frontier, least_cost)
    for shape in steps:
        batch_cost = shape.epoch_cost / shape.packs if shape.packs else 0.0
        padding = small_percent(padding_overhead(shape.epoch_cost, least_cost))
        table.add_row(*_shape_cells(padding, shape, f"{batch_cost:.10g}"))
    total = len(outcome.frontier)
    shown = "" if len(steps) == total else f" ({len(steps)} of {total:,} points)"
    return f"frontier: the smallest limits for so much padding{shown}\n{table.render()}"


def tune_json(outcome: Outcome, components: Sequence[str]) -> dict[str, Any]:
    """Everything except the cells; ratios are in [0, 1]."""
    told = outcome.recommendation
    result: dict[str, Any] = {
        "shapes": [_shape_json(shape) for shape in told.shapes],
        **fields(told, "epoch_cost least_cost harmonic_mean exact"),
        **fields(outcome.progress, "candidates planned excluded"),
        "reasons": list(told.reasons),
        "group_graphs": list(told.group_graphs),
    }
    for name in ("single_shape", "cheapest_shape"):
        if told.HasField(name):
            result[name] = _shape_json(getattr(told, name))
    if told.HasField("oversize"):
        over = told.oversize
        needed = zip(components, over.needed_rows)
        result["oversize"] = fields(over, "num_graphs num_apart needed_bytes num_shapes") | {
            "largest": dict(zip(components, over.largest)),
            "needed_rows": {name: rows for name, rows in needed if rows},
        }
    result["frontier"] = [_shape_json(shape) for shape in outcome.frontier]
    return result


def _limited(shape: Any) -> list[Any]:
    return [part for part in shape.components if part.capacity]


def _cost(cost: float) -> str:
    """In any unit; a large one without decimals."""
    return grouped(int(cost + 0.5)) if 1000 <= cost < 1e18 else f"{cost:.6g}"


def _candidates(progress: Any) -> str:
    return "more than 2^64" if progress.candidates == _MANY else grouped(progress.candidates)


def _shape_columns(first: str, model: Any, last: str) -> list[Column]:
    """Of any table of shapes. `model` has the components that have a capacity."""
    columns = [Column(first)]
    for group in ("limit", "efficiency %"):
        columns += [Column(part.component, group) for part in _limited(model)]
    # Without a memory model there is no such column.
    memory = [Column("memory")] if model.batch_bytes else []
    return [*columns, Column("packs"), Column("lower bound"), *memory, Column(last)]


def _shape_cells(first: str, shape: Any, last: str) -> list[str]:
    limited = _limited(shape)
    cells = [first, *(str(part.capacity) for part in limited)]
    cells += [*(percent(part.efficiency, 3) for part in limited), str(shape.packs), str(shape.lower_bound)]
    return [*cells, *([bytes_text(shape.batch_bytes)] if shape.batch_bytes else []), last]


def _oversize(over: Any, profile: Any, components: Sequence[str]) -> str:
    kinds = []
    alone = over.num_graphs - over.num_apart
    if alone:
        kinds.append(f"{counted(alone, 'graph')} that no allowed limits take")
    if over.num_apart:
        number = "one shape" if over.num_shapes <= 1 else f"{over.num_shapes} shapes"
        one = f"graph that does not fit {number} together with the others"
        kinds.append(counted(over.num_apart, one, one.replace("graph that does", "graphs that do")))
    largest = ", ".join(f"{name}={rows}" for name, rows in zip(components, over.largest))
    text = f"{' and '.join(kinds)}, left out; the largest has {largest}"
    needed = dict(zip(components, over.needed_rows))
    options = [
        f"--max {part.component}={needed[part.component]}"
        for part in profile.components
        if part.max_rows and needed.get(part.component, 0) > part.max_rows
    ]
    if over.needed_bytes:
        options.append(f"--memory {over.needed_bytes}")
    return text + (f"; to take all: {' '.join(options)}" if options else "")


def _search(outcome: Outcome) -> str:
    told, progress = outcome.recommendation, outcome.progress
    if told.exact:
        text = "exact: no other allowed limits are better"
        if outcome.has_cheaper_shape:
            text = f"exact: no allowed limits cost less than {shape_text(told.cheapest_shape)}"
    elif len(told.shapes) > 1 or 0 < progress.candidates == progress.planned + progress.excluded:
        text = "the best set of shapes found; not every set was tried"
    else:
        text = "the best found; the budget ended before all others were excluded"
    if progress.candidates:
        text += (
            f" ({_candidates(progress)} candidates: {progress.planned:,} planned, "
            f"{progress.excluded:,} excluded by their bounds)"
        )
    return text


def _shape_json(shape: Any) -> dict[str, Any]:
    return {
        "capacities": {part.component: part.capacity for part in _limited(shape)},
        **fields(shape, "packs lower_bound epoch_cost harmonic_mean batch_bytes"),
        "components": efficiencies_json(shape.components),
    }
