"""packhouse plan."""

from __future__ import annotations

from typing import Any

import click

from packhouse.command.arguments import (
    NUMBER_32, axes_option, budget_options, choice, flag, json_option, limit_option, number,
    padding_option, server_options, size_source_options, value, values,
)  # fmt: skip


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
    from packhouse.command import plan_calls

    plan_calls.run(given)
