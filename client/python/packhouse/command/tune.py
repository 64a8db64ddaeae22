"""packhouse tune."""

from __future__ import annotations

from typing import Any, Callable

import click

from packhouse.command.arguments import (
    axes_of, axes_option, budget_options, check_plot, choice, json_option, padding_option, padding_text,
    server_options, set_padding, size_source_options, value, without_limit,
)  # fmt: skip
from packhouse.command.connection import Connection, connected
from packhouse.command.device import device_options, profile_of
from packhouse.command.failures import Failure
from packhouse.command.output import Progress, bytes_text, grouped, tell


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
        histogram=histogram.to_proto(),
        profile=profile,
        objective=int(TuneObjective.of(given["objective"], "--objective")),
        budget_steps=given["budget_steps"],
        seed=given["seed"],
    )
    set_padding(request, given, components)
    axes = axes_of(given, components, [part.component for part in profile.components])
    if given["plot"]:
        from packhouse.command.plots import histogram_plot

        # Checked before a long search: whether the picture can be drawn.
        histogram_plot.view_of(histogram, axes, [])
    from packhouse.command import tune_report

    cells = []
    with connected(given["server"]) as connection, Progress() as shown:

        def show(progress: Any) -> None:
            shown.show(tune_report.progress_line(progress))

        outcome = _tune(connection, request, show)
        if given["plot"]:
            from packhouse.command.plots import tune_plot

            grid = tune_plot.grid_request(request, histogram, axes, outcome.recommendation.shapes[0])
            cells = _tune(connection, grid, show).cells if grid is not None else []
    limited = [part.component for part in profile.components]
    told = (
        f"{grouped(histogram.num_graphs)} graphs of {grouped(len(histogram.counts))} sizes in "
        f"{source.name}; {_profile_text(profile)}{without_limit(components, limited)}"
        f"{padding_text(given['padding'])}\n\n"
        f"{tune_report.recommendation_text(outcome, profile, components)}\n"
        f"{tune_report.frontier_table(outcome)}"
    )
    tell(given["as_json"], tune_report.tune_json(outcome, components), told)
    if given["plot"]:
        title = f"{source.name}, {_profile_text(profile)}"
        tune_plot.draw(given["plot"], title, histogram, axes, profile, outcome, cells)


def _tune(connection: Connection, request: Any, show: Callable[[Any], None]) -> Any:
    """The outcome of a call. Raises PackhouseError."""
    from packhouse.v1 import planning_pb2

    from packhouse.command.tune_report import Outcome

    outcome = Outcome(planning_pb2.TuneProgress(), None)
    for response in connection.stream("planning.Planning.Tune", request):
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
