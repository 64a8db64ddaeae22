"""packhouse histograms: the sizes that a server counts by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import click

from packhouse.command.datasets import histogram_summary
from packhouse.command.group import Group
from packhouse.command.output import fields
from packhouse.command.stored import Stored, add_commands

if TYPE_CHECKING:
    from packhouse.data.histogram import Histogram


@click.group("histograms", cls=Group)
def command() -> None:
    """List, show or delete the histograms of sizes that a server keeps by name"""


_HISTOGRAMS = Stored(
    "histograms", "NAME", "histograms", "The names of all histograms",
    "Graphs, distinct sizes, totals and largest sizes", "Forget what was counted",
)  # fmt: skip
add_commands(command, _HISTOGRAMS)


def deed(name: str, histogram: Histogram | None) -> str:
    """What its deletion does; None: it cannot be described."""
    graphs = "all graphs" if histogram is None else f"{histogram.num_graphs:,} graphs"
    return f"forget the sizes of {graphs} in histogram '{name}'"


def table(names: Sequence[str]) -> str:
    """A line each."""
    return "".join(f"{name}\n" for name in names)


def text(histogram: Histogram) -> str:
    """Everything but the sizes themselves, which `packhouse histogram --name` writes and draws."""
    counted = f"{histogram.num_graphs:,} graphs of {len(histogram.counts):,} sizes"
    return f"{counted}\n\n{histogram_summary(histogram)}"


def json(of: str | Histogram) -> dict[str, Any]:
    """One as it is listed, by its name, or as it is shown."""
    if isinstance(of, str):
        return {"name": of}
    return fields(of, "num_graphs totals maxima revision") | {"distinct_sizes": len(of.counts)}
