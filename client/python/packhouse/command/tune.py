"""packhouse tune."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, Final, Mapping, Sequence

import click

from packhouse.command.arguments import (
    BYTES_FORM, NUMBER_32, ROWS_FORM, all_of, axes_of, axes_option, budget_options, bytes_of, check_plot,
    choice, each_component, json_option, number, padding_option, padding_text, parse_bytes, parse_rows,
    server_options, set_padding, size_source_options, value, values, without_limit,
)  # fmt: skip
from packhouse.command.connection import answers, connected
from packhouse.command.failures import Failure, Misuse
from packhouse.command.output import Progress, bytes_text, tell

if TYPE_CHECKING:
    from packhouse.client.facade import Client


def _cost(text: str) -> float | None:
    try:
        cost = float(text)
    except ValueError:
        return None
    return cost if math.isfinite(cost) and cost >= 0 else None


# Option, field, form, how it is read.
_PARTS: Final[Sequence[tuple[str, str, str, Callable[[str], Any]]]] = (
    ("--min", "min_rows", ROWS_FORM, parse_rows),
    ("--multiple-of", "multiple_of", ROWS_FORM, parse_rows),
    ("--cost", "relative_cost", "COMPONENT=COST with a number of at least 0", _cost),
    ("--bytes-per", "bytes_per_row", f"COMPONENT=BYTES with {BYTES_FORM}", parse_bytes),
)


# fmt: off
# For `profile_of`.
device_options: Final = all_of(
    values("--max", "COMPONENT=ROWS", "Most rows of a component that a batch may have, as in nodes=512; "
           "repeat it per component, `graphs` is one", required=True),
    values("--min", "COMPONENT=ROWS", "Fewest rows to consider; 1 by default"),
    values("--multiple-of", "COMPONENT=ROWS", "Consider only multiples of this number, which the "
           "hardware prefers; 1 by default"),
    values("--cost", "COMPONENT=COST", "Cost of a row, padding included, in any unit; 1 by default, and "
           "0 for graphs"),
    value("--fixed-cost", "COST", "Cost of a batch besides its rows, in the unit of --cost: what a step "
          "costs the device however small its batch is; 0 by default. docs/devices has figures",
          type=click.FloatRange(0, 1e200), default=0.0),
    values("--bytes-per", "COMPONENT=BYTES", "Memory of a row of a batch, as in nodes=400 or "
           "edges=2KiB"),
    value("--memory", "BYTES", "Most memory of a batch, as in 16GiB"),
    value("--fixed-bytes", "BYTES", "The part of --memory that is used with any batch"),
    number("--shapes", "Most shapes that the client compiles for. What is left over may use a smaller "
           "one", type=NUMBER_32),
)
# fmt: on


# fmt: off
@click.command()
@size_source_options
@device_options
@padding_option
@choice("--objective", ("epoch-cost", "harmonic-mean"), "epoch-cost (the default), or harmonic-mean of "
        "the efficiencies as in the paper", default="epoch-cost")
@budget_options("Work for the whole search. 10^9 steps take about a second; 0 means 2 * 10^9")
@value("--plot", "FILE", "Draw the histogram with the limits, efficiency over the grid of limits, and "
       "the frontier: FILE.svg, FILE.pdf or FILE.png")
@axes_option("else the first two that have a --max")
@json_option("Print JSON: ratios in [0, 1]")
@server_options()
# fmt: on
def command(**given: Any) -> None:
    """Choose the limits under which an epoch costs a device the least."""
    from packhouse.command.sizes import SizeSource

    source = SizeSource(given["sizes"], given["dataset"], given["histogram"])
    source.check(given["server"])
    check_plot(given["plot"], given["axes"])
    histogram = source.read(given["server"])
    components = histogram.components
    profile = profile_of(given, components)
    from packhouse.planning.tuning import TuneObjective
    from packhouse.v1 import planning_pb2

    request = planning_pb2.TuneRequest(
        histogram=histogram.to_proto(), profile=profile,
        objective=int(TuneObjective.of(given["objective"], "--objective")),
        budget_steps=given["budget_steps"], seed=given["seed"],
    )
    set_padding(request, given, components)
    axes = axes_of(given, components, [part.component for part in profile.components])
    if given["plot"]:
        from packhouse.command.plots import histogram_plot

        # Checked before a long search: whether the picture can be drawn.
        histogram_plot.view_of(histogram, axes, [])
    from packhouse.command import tune_report

    cells = []
    with connected(given["server"]) as client, Progress() as shown:

        def show(progress: Any) -> None:
            shown.show(tune_report.progress_line(progress))

        outcome = _tune(client, request, show)
        if given["plot"]:
            from packhouse.command.plots import tune_plot

            grid = tune_plot.grid_request(request, histogram, axes, outcome.recommendation.shapes[0])
            cells = _tune(client, grid, show).cells if grid is not None else []
    limited = [part.component for part in profile.components]
    told = (
        f"{histogram.num_graphs:,} graphs of {len(histogram.counts):,} sizes in "
        f"{source.name}; {_profile_text(profile)}{without_limit(components, limited)}"
        f"{padding_text(given['padding'])}\n\n"
        f"{tune_report.recommendation_text(outcome, profile, components)}\n"
        f"{tune_report.frontier_table(outcome)}"
    )
    tell(given["as_json"], tune_report.tune_json(outcome, components), told)
    if given["plot"]:
        title = f"{source.name}, {_profile_text(profile)}"
        tune_plot.draw(given["plot"], title, histogram, axes, profile, outcome, cells)


def _tune(client: Client, request: Any, show: Callable[[Any], None]) -> Any:
    """The outcome of a call. Raises PackhouseError."""
    from packhouse.v1 import planning_pb2

    from packhouse.command.tune_report import Outcome

    outcome = Outcome(planning_pb2.TuneProgress(), None)
    for response in answers(client, "planning.Planning.Tune", request):
        event = response.WhichOneof("event")
        if event == "progress":
            outcome.progress = response.progress
            show(response.progress)
        elif event == "cell":
            outcome.cells.append(response.cell)
        elif event == "frontier":
            outcome.frontier.append(response.frontier)
        elif event == "recommendation":
            outcome.recommendation = response.recommendation
    if outcome.recommendation is None or not outcome.recommendation.shapes:
        raise Failure("INTERNAL", "the server's answer ended without a recommendation")
    return outcome


def _profile_text(profile: Any) -> str:
    most = ", ".join(f"{part.component}={part.max_rows}" for part in profile.components)
    text = f"at most {most}"
    if profile.memory_bytes:
        text += f", {bytes_text(profile.memory_bytes)}"
    if profile.max_distinct_shapes > 1:
        text += f", {profile.max_distinct_shapes} shapes"
    return text


def profile_of(given: Mapping[str, Any], components: Sequence[str]) -> Any:
    """A `packhouse.v1.DeviceProfile` of the options, its components in the histogram's order.

    Raises Misuse naming option and value.
    """
    from packhouse.v1 import planning_pb2

    most = each_component("--max", ROWS_FORM, given["max"], components, parse_rows)
    fields: dict[str, dict[str, Any]] = {name: {"max_rows": rows} for name, rows in most.items()}
    for name, field, form, read in _PARTS:
        named = given[name.removeprefix("--").replace("-", "_")]
        for component, number_ in each_component(name, form, named, components, read).items():
            # Without a capacity to choose it would be ignored.
            if component not in fields:
                raise Misuse(f"{name} of '{component}': it has no --max, and so no capacity to choose")
            fields[component][field] = number_
    profile = planning_pb2.DeviceProfile(
        memory_bytes=bytes_of("--memory", given["memory"]),
        fixed_bytes=bytes_of("--fixed-bytes", given["fixed_bytes"]), fixed_cost=given["fixed_cost"],
        max_distinct_shapes=given["shapes"],
    )
    for component in (*components, "graphs"):
        if component in fields:
            profile.components.add(component=component, **fields[component])
    if given["memory"] and not profile.memory_bytes:
        raise Misuse("--memory '0': no batch fits into it")
    return profile

