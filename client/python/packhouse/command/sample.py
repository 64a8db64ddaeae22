"""packhouse sample: sub-graphs around nodes of a large graph."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable

import click

from packhouse.command.arguments import (
    BYTES,
    NUMBER,
    NUMBER_32,
    limit_option,
    option,
    parse_rows,
    server_options,
)
from packhouse.command.connection import Server, connected
from packhouse.command.failures import Failure, Misuse
from packhouse.command.group import Group

if TYPE_CHECKING:
    from packhouse.client.facade import Client
    from packhouse.large.sub_graphs import SampleProgress, Seeds, SubGraphs


@click.group("sample", cls=Group)
def command() -> None:
    """Draw sub-graphs around nodes of a large graph"""


_MOST_NEGATIVES = 10**6
_EXCLUDE = {"self": "self", "reverse-types": "reverse_types"}
_OPTIONS = (
    server_options(required=True),
    option("--graph", required=True, metavar="NAME", help="The source graph, which must be sealed"),
    option(
        "--spec",
        required=True,
        metavar="FILE",
        help="File with a TF-GNN SamplingSpec, text or binary",
    ),
    option("--seed", type=NUMBER, default=0, metavar="N", help="The number that decides the draw"),
    option("--epoch", type=NUMBER, default=0, metavar="N", help="Another epoch, another draw"),
    option(
        "--seeds-per-graph",
        type=NUMBER_32,
        default=1,
        metavar="N",
        help="Seeds that share a sub-graph; by default 1",
    ),
    option(
        "--ids-only",
        is_flag=True,
        help="Rows, numbers and ids of nodes and edges instead of features",
    ),
    option(
        "--seeds",
        metavar="FILE",
        help="CSV with a header: a column 'id' ('row', 'number') of nodes, or 'source' and 'target' "
        "of links; 'time'; readout columns. By default all nodes of the seeds' set",
    ),
    option(
        "--seeds-by",
        type=click.Choice(["id", "row", "number"]),
        metavar="KIND",
        help="What --seeds calls nodes by: id, row or number; by default id",
    ),
    option(
        "--negatives",
        type=click.Choice(["binary", "triplet"]),
        metavar="KIND",
        help="Draws links that are not in --seeds: 'binary', both ends, or 'triplet', the targets; "
        "their feature 'label' is 0, that of the others 1",
    ),
    option("--negatives-per-link", type=float, default=None, metavar="NUMBER", help="By default 1"),
    option(
        "--avoid",
        metavar="FILE",
        help="CSV of links, as --seeds, that a negative one must not be; by default it may be any, as "
        "with PyG",
    ),
    option(
        "--readout",
        is_flag=True,
        help="A node set '_readout' with a row for each seed; links have it always",
    ),
    option(
        "--readout-column",
        multiple=True,
        metavar="NAME=DTYPE",
        help="A feature of '_readout' from the column NAME of --seeds; may be repeated",
    ),
    option(
        "--link-edge-set",
        metavar="NAME",
        help="The edge set whose edges the links are or would be",
    ),
    option("--link-node-set", metavar="NAME", help="Instead of it: the node set of both ends of links"),
    option(
        "--exclude",
        type=click.Choice(list(_EXCLUDE)),
        metavar="KIND",
        help="'self': the edges that a sub-graph's own links are are not drawn; 'reverse-types': nor "
        "those back",
    ),
    option(
        "--reverse-edge-set",
        multiple=True,
        metavar="NAME",
        help="For --exclude reverse-types: one more set of edges back; may be repeated",
    ),
    option(
        "--node-time-column",
        metavar="NAME",
        help="Temporal: an edge is as late as the node that it leads to",
    ),
    option(
        "--edge-time-column",
        metavar="NAME",
        help="Temporal: no edge later than the sub-graph's time ('time' in --seeds)",
    ),
    option(
        "--untimed-set",
        multiple=True,
        metavar="NAME",
        help="A set without the time column, which is never late; may be repeated",
    ),
    option(
        "--time-window",
        type=NUMBER,
        default=0,
        metavar="N",
        help="No edge that is more than this earlier than the sub-graph's time",
    ),
    option("--latest", is_flag=True, help="The latest edges instead of random ones"),
    option(
        "--weight-column",
        metavar="NAME",
        help="Of TOP_K and RANDOM_WEIGHTED; by default #weight, or else weight",
    ),
    option("--induced", is_flag=True, help="All edges between nodes that were drawn"),
    option(
        "--induced-edge-set",
        multiple=True,
        metavar="NAME",
        help="Of this edge set only; may be repeated",
    ),
    option(
        "--merge-parallel",
        is_flag=True,
        help="Of parallel edges that are drawn one is there, as in TF-GNN",
    ),
)


def _draw_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for each in reversed(_OPTIONS):
        function = each(function)
    return function


@command.command("estimate")
@_draw_options
@option(
    "--graphs",
    type=NUMBER_32,
    default=0,
    metavar="N",
    help="How many are drawn; by default 2000",
)
@option(
    "--histogram",
    metavar="NAME",
    help="Counts the sizes in the histogram of this name, for plan and tune",
)
def estimate(server: Server, graphs: int, histogram: str, **draw: Any) -> None:
    """Draws some, and shows their sizes"""
    _check(draw)
    with connected(server) as connection:
        sub_graphs, seeds = _what_is_drawn(connection.client, draw)
        found = connection.client.samples.estimate_sizes(
            sub_graphs,
            seeds,
            num_graphs=graphs,
            seed=draw["seed"],
            epoch=draw["epoch"],
            histogram=histogram,
        )
    from packhouse.command.dataset_report import histogram_summary

    print(
        f"{found.histogram.num_graphs} of {found.num_graphs} sub-graphs around {found.num_seeds} "
        f"seeds, {found.bytes_per_graph:.0f} bytes each\n"
    )
    print(histogram_summary(found.histogram), end="")


@command.command("dataset")
@_draw_options
@option("--dataset", required=True, metavar="NAME", help="The name of the data set")
@option(
    "--max-bytes",
    type=BYTES,
    default=0,
    metavar="BYTES",
    help="The most bytes that it may take on disk",
)
@limit_option()
@option(
    "--refuse",
    is_flag=True,
    help="A sub-graph beyond a limit is an error, instead of being drawn smaller",
)
def dataset(
    server: Server,
    dataset: str,
    max_bytes: int,
    limit: tuple[str, ...],
    refuse: bool,
    **draw: Any,
) -> None:
    """Draws one around every seed into a data set; goes on where an earlier call ended"""
    _check(draw)
    max_rows = {}
    for text in limit:
        name, equals, value = text.rpartition("=")
        rows = parse_rows(value) if equals else None
        if rows is None:
            raise Failure("INVALID_ARGUMENT", f"--limit: '{text}' is not COMPONENT=ROWS")
        max_rows[name] = rows
    smaller = 0

    def on_progress(done: SampleProgress) -> None:
        nonlocal smaller
        smaller = done.num_drawn_smaller
        told = f"\r{done.num_graphs} of {done.num_graphs_total} sub-graphs"
        print(told, end="", flush=True, file=sys.stderr)

    with connected(server) as connection:
        sub_graphs, seeds = _what_is_drawn(connection.client, draw)
        try:
            made = connection.client.samples.make_dataset(
                sub_graphs,
                dataset,
                seeds,
                seed=draw["seed"],
                epoch=draw["epoch"],
                max_bytes=max_bytes,
                max_rows=max_rows,
                draw_smaller=not refuse,
                on_progress=on_progress,
            )
        finally:
            print(file=sys.stderr)
    print(
        f"data set '{made.name}': {made.num_graphs} sub-graphs, {made.num_bytes} bytes; {smaller} "
        "drawn smaller by this call"
    )


def _check(draw: dict[str, Any]) -> None:
    for name, other in (
        ("seeds_by", "seeds"),
        ("negatives", "seeds"),
        ("readout_column", "seeds"),
        ("negatives_per_link", "negatives"),
        ("avoid", "negatives"),
    ):
        if draw[name] not in (None, "", ()) and not draw[other]:
            raise Misuse(f"--{name.replace('_', '-')} requires --{other}")
    amount = draw["negatives_per_link"]
    if amount is not None and not 0 <= amount <= _MOST_NEGATIVES:
        raise ValueError(f"--negatives-per-link: {amount}, from 0 to {_MOST_NEGATIVES} is possible")
    if amount is not None and draw["negatives"] == "triplet" and amount != int(amount):
        raise ValueError(
            f"--negatives-per-link: {amount}, a whole number is needed where each has the source of a "
            "link"
        )
    if draw["edge_time_column"] and draw["node_time_column"]:
        raise Misuse("--edge-time-column excludes --node-time-column")


def _what_is_drawn(client: Client, draw: dict[str, Any]) -> tuple[SubGraphs, Seeds | None]:
    from packhouse.command import seeds
    from packhouse.large.sub_graphs import SubGraphs

    with open(draw["spec"], "rb") as file:
        spec = file.read()
    columns = seeds.readout_columns(draw["readout_column"])
    if draw["negatives"] and not columns:
        columns = seeds.readout_columns([seeds.LABEL])
    sub_graphs = SubGraphs(
        graph=draw["graph"],
        # The server takes either form as bytes.
        spec=spec,
        seeds_per_graph=draw["seeds_per_graph"],
        induced=draw["induced"] or bool(draw["induced_edge_set"]),
        induced_edge_sets=draw["induced_edge_set"],
        node_time_column=draw["node_time_column"],
        edge_time_column=draw["edge_time_column"],
        untimed_sets=draw["untimed_set"],
        time_window=draw["time_window"],
        latest=draw["latest"],
        weight_column=draw["weight_column"],
        link_node_set=draw["link_node_set"],
        link_edge_set=draw["link_edge_set"],
        exclude=_EXCLUDE.get(draw["exclude"] or ""),
        reverse_edge_sets=draw["reverse_edge_set"],
        readout=draw["readout"],
        readout_columns=columns,
        merge_parallel=draw["merge_parallel"],
        payload="ids" if draw["ids_only"] else "features",
    )
    if not draw["seeds"]:
        return sub_graphs, None
    amount = draw["negatives_per_link"]
    file_ = seeds.SeedsFile(
        path=draw["seeds"],
        by=draw["seeds_by"] or "id",
        negatives=draw["negatives"] or "",
        amount=1.0 if amount is None else amount,
        seed=draw["seed"],
        avoid=draw["avoid"],
    )
    return sub_graphs, seeds.read_seeds(file_, sub_graphs, client)
