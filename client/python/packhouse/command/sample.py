"""packhouse sample: sub-graphs around nodes of a large graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packhouse.command.arguments import (
    BYTES, NUMBER_32, all_of, choice, flag, limit_option, number, parse_rows, server_options, value, values
)  # fmt: skip
from packhouse.command.connection import Server, connected
from packhouse.command.failures import Failure, Misuse
from packhouse.command.group import Group
from packhouse.command.output import Progress

if TYPE_CHECKING:
    from packhouse.client.facade import Client
    from packhouse.large.sub_graphs import SampleProgress, Seeds, SubGraphs


@click.group("sample", cls=Group)
def command() -> None:
    """Draw sub-graphs around nodes of a large graph"""


_MOST_NEGATIVES = 10**6
_EXCLUDE = {"self": "self", "reverse-types": "reverse_types"}


# fmt: off
_draw_options = all_of(
    server_options(required=True),
    value("--graph", "NAME", "The source graph, which must be sealed", required=True),
    value("--spec", "FILE", "File with a TF-GNN SamplingSpec, text or binary", required=True),
    number("--seed", "The number that decides the draw"),
    number("--epoch", "Another epoch, another draw"),
    number("--seeds-per-graph", "Seeds that share a sub-graph; by default 1", 1, type=NUMBER_32),
    flag("--ids-only", "Rows, numbers and ids of nodes and edges instead of features"),
    value("--seeds", "FILE", "CSV with a header: a column 'id' ('row', 'number') of nodes, or 'source' "
          "and 'target' of links; 'time'; readout columns. By default all nodes of the seeds' set"),
    choice("--seeds-by", ("id", "row", "number"), "What --seeds calls nodes by: id, row or number; by "
           "default id", metavar="KIND"),
    choice("--negatives", ("binary", "triplet"), "Draws links that are not in --seeds: 'binary', both "
           "ends, or 'triplet', the targets; their feature 'label' is 0, that of the others 1",
           metavar="KIND"),
    value("--negatives-per-link", "NUMBER", "By default 1", type=float, default=None),
    value("--avoid", "FILE", "CSV of links, as --seeds, that a negative one must not be; by default it "
          "may be any, as with PyG"),
    flag("--readout", "A node set '_readout' with a row for each seed; links have it always"),
    values("--readout-column", "NAME=DTYPE", "A feature of '_readout' from the column NAME of --seeds; "
           "may be repeated"),
    value("--link-edge-set", "NAME", "The edge set whose edges the links are or would be"),
    value("--link-node-set", "NAME", "Instead of it: the node set of both ends of links"),
    choice("--exclude", _EXCLUDE, "'self': the edges that a sub-graph's own links are are not drawn; "
           "'reverse-types': nor those back", metavar="KIND"),
    values("--reverse-edge-set", "NAME", "For --exclude reverse-types: one more set of edges back; may "
           "be repeated"),
    value("--node-time-column", "NAME", "Temporal: an edge is as late as the node that it leads to"),
    value("--edge-time-column", "NAME", "Temporal: no edge later than the sub-graph's time ('time' in "
          "--seeds)"),
    values("--untimed-set", "NAME", "A set without the time column, which is never late; may be "
           "repeated"),
    number("--time-window", "No edge that is more than this earlier than the sub-graph's time"),
    flag("--latest", "The latest edges instead of random ones"),
    value("--weight-column", "NAME", "Of TOP_K and RANDOM_WEIGHTED; by default #weight, or else weight"),
    flag("--induced", "All edges between nodes that were drawn"),
    values("--induced-edge-set", "NAME", "Of this edge set only; may be repeated"),
    flag("--merge-parallel", "Of parallel edges that are drawn one is there, as in TF-GNN"),
)
# fmt: on


@command.command("estimate")
@_draw_options
@number("--graphs", "How many are drawn; by default 2000", type=NUMBER_32)
@value("--histogram", "NAME", "Counts the sizes in the histogram of this name, for plan and tune")
def estimate(server: Server, graphs: int, histogram: str, **draw: Any) -> None:
    """Draws some, and shows their sizes"""
    _check(draw)
    with connected(server) as client:
        sub_graphs, seeds = _what_is_drawn(client, draw)
        which = {"num_graphs": graphs, "seed": draw["seed"], "epoch": draw["epoch"]}
        found = client.samples.estimate_sizes(sub_graphs, seeds, histogram=histogram, **which)
    from packhouse.command.datasets import histogram_summary

    print(
        f"{found.histogram.num_graphs} of {found.num_graphs} sub-graphs around {found.num_seeds} "
        f"seeds, {found.bytes_per_graph:.0f} bytes each\n"
    )
    print(histogram_summary(found.histogram), end="")


@command.command("dataset")
@_draw_options
@value("--dataset", "NAME", "The name of the data set", required=True)
@value("--max-bytes", "BYTES", "The most bytes that it may take on disk", type=BYTES, default=0)
@limit_option()
@flag("--refuse", "A sub-graph beyond a limit is an error, instead of being drawn smaller")
def dataset(
    server: Server, dataset: str, max_bytes: int, limit: tuple[str, ...], refuse: bool, **draw: Any
) -> None:
    """Draws one around every seed into a data set; goes on where an earlier call ended"""
    _check(draw)
    max_rows = {}
    for text in limit:
        name, equals, most = text.rpartition("=")
        rows = parse_rows(most) if equals else None
        if rows is None:
            raise Failure("INVALID_ARGUMENT", f"--limit: '{text}' is not COMPONENT=ROWS")
        max_rows[name] = rows
    smaller = 0

    def on_progress(done: SampleProgress) -> None:
        nonlocal smaller
        smaller = done.num_drawn_smaller
        line.show(f"{done.num_graphs} of {done.num_graphs_total} sub-graphs")

    with connected(server) as client, Progress(between_lines=0) as line:
        sub_graphs, seeds = _what_is_drawn(client, draw)
        made = client.samples.make_dataset(
            sub_graphs, dataset, seeds, seed=draw["seed"], epoch=draw["epoch"], max_bytes=max_bytes,
            max_rows=max_rows, draw_smaller=not refuse, on_progress=on_progress,
        )
    print(
        f"data set '{made.name}': {made.num_graphs} sub-graphs, {made.num_bytes} bytes; {smaller} "
        "drawn smaller by this call"
    )


def _check(draw: dict[str, Any]) -> None:
    for name, other in (
        ("seeds_by", "seeds"), ("negatives", "seeds"), ("readout_column", "seeds"),
        ("negatives_per_link", "negatives"), ("avoid", "negatives"),
    ):
        if draw[name] not in (None, "", ()) and not draw[other]:
            raise Misuse(f"--{name.replace('_', '-')} requires --{other}")
    amount = draw["negatives_per_link"]
    if amount is not None and not 0 <= amount <= _MOST_NEGATIVES:
        raise ValueError(f"--negatives-per-link: {amount}, from 0 to {_MOST_NEGATIVES} is possible")
    if amount is not None and draw["negatives"] == "triplet" and amount != int(amount):
        raise ValueError(
            f"--negatives-per-link: {amount}, a whole number is needed where each has the source of a link"
        )
    if draw["edge_time_column"] and draw["node_time_column"]:
        raise Misuse("--edge-time-column excludes --node-time-column")


def _what_is_drawn(client: Client, draw: dict[str, Any]) -> tuple[SubGraphs, Seeds | None]:
    from packhouse.command import seeds
    from packhouse.large.sub_graphs import SubGraphs

    # The server takes either form as bytes.
    with open(draw["spec"], "rb") as file:
        spec = file.read()
    columns = seeds.readout_columns(draw["readout_column"])
    if draw["negatives"] and not columns:
        columns = seeds.readout_columns([seeds.LABEL])
    same = [
        *("seeds_per_graph", "node_time_column", "edge_time_column", "time_window", "latest"),
        *("weight_column", "link_node_set", "link_edge_set", "readout", "merge_parallel"),
    ]
    sub_graphs = SubGraphs(
        graph=draw["graph"], spec=spec, readout_columns=columns, untimed_sets=draw["untimed_set"],
        induced=draw["induced"] or bool(draw["induced_edge_set"]),
        induced_edge_sets=draw["induced_edge_set"], reverse_edge_sets=draw["reverse_edge_set"],
        exclude=_EXCLUDE.get(draw["exclude"] or ""), payload="ids" if draw["ids_only"] else "features",
        **{name: draw[name] for name in same},
    )
    return sub_graphs, seeds.read_seeds(draw, sub_graphs, client) if draw["seeds"] else None
