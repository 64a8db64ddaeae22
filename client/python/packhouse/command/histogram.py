"""packhouse histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

import click

from packhouse.command.arguments import (
    axes_option, check_plot, limit_option, limits_of, server_options, sizes_option, value
)  # fmt: skip
from packhouse.command.connection import Server
from packhouse.command.failures import Misuse

if TYPE_CHECKING:
    from packhouse.data.histogram import Histogram


# fmt: off
@click.command()
@sizes_option(required=False)
@value("--name", "NAME", "Use a histogram of the server instead")
@value("--dataset", "NAME", "Use the sizes of a data set of the server")
@value("--csv", "FILE", "Write num_nodes,num_edges,...,count")
@value("--plot", "FILE", "Draw it: FILE.svg, FILE.pdf or FILE.png")
@axes_option("else all")
@limit_option()
@server_options()
# fmt: on
def command(
    sizes: str, name: str, dataset: str, csv: str, plot: str, axes: list[str], limit: Sequence[str],
    server: Server,
) -> None:  # fmt: skip
    """Sum up the sizes of graphs, write or draw their histogram."""
    if sum(map(bool, (sizes, name, dataset))) != 1:
        raise Misuse("one of --sizes, --name and --dataset is needed")
    for flag, named, what in (("--name", name, "histograms"), ("--dataset", dataset, "data sets")):
        if named and not server.address:
            raise Misuse(
                f"{flag} '{named}' needs --server: a server that is started for this command has no {what}"
            )
    if limit and not plot:
        raise Misuse("--limit draws lines: it needs --plot")
    check_plot(plot, axes)
    from packhouse.command.datasets import histogram_summary
    from packhouse.command.sizes import SizeSource

    source = SizeSource(sizes, dataset, name)
    histogram = source.read(server)
    view = None
    if plot:
        from packhouse.command.plots import histogram_plot

        limits = limits_of(limit, histogram.components)
        drawn = axes or histogram.components
        view = histogram_plot.view_of(histogram, drawn, [limits] if limits else [])
    print(f"{histogram.num_graphs} graphs of {len(histogram.counts)} sizes in {source.name}\n")
    print(histogram_summary(histogram), end="")
    if csv:
        _write(csv, histogram)
    if view is not None:
        histogram_plot.draw(plot, source.name, view)


def _write(path: str, histogram: Histogram) -> None:
    """As `--sizes` reads it. Raises OSError."""
    import numpy as np

    head = ",".join([*(f"num_{name}" for name in histogram.components), "count"])
    rows = np.column_stack([histogram.tuples.astype("<u8"), histogram.counts])
    np.savetxt(path, rows, "%d", ",", header=head, comments="", encoding="utf-8")
