"""packhouse graph: large graphs, from which many small ones are drawn."""

from __future__ import annotations

import copy
import os
import warnings

import click

from packhouse.command.arguments import json_option, option, server_options
from packhouse.command.connection import Server, connected
from packhouse.command.failures import FAILURE, OK
from packhouse.command.group import Group
from packhouse.command.printing import note, print_json
from packhouse.command.readable import bytes_text
from packhouse.command.progress import Progress
from packhouse.command.stored import Stored, add_commands
from packhouse.command.wings import NESTED, Unparsed, become, forwarded


@click.group("graph", cls=Group)
def command() -> None:
    """Work with source graphs: large graphs from which many small ones are drawn"""


_name = click.argument("name", metavar="NAME")
_duplicates = option(
    "--duplicates",
    type=click.Choice(["refuse", "first", "last"]),
    default="refuse",
    metavar="WHICH",
    help="What becomes of a node that is there twice with different rows: refuse (the default), "
    "first or last",
)


@command.command("import", cls=Unparsed)
def import_(words: tuple[str, ...]) -> None:
    """Store a large graph: a unigraph, arrays of numpy, DGL's chunks, a download of OGB, or Parquet and
    Arrow tables. After a crash, run the same command again
    """
    source = next((word for word in words if _has_tables(word)), "")
    if source:
        _import_tables.main([*words], prog_name="packhouse graph import", standalone_mode=False)
    else:
        become("packhouse graph", ["import", *words], "graph import")


def _has_tables(word: str) -> bool:
    """Whether it is a folder with node or edge files that pyarrow reads."""
    endings = (".parquet", ".arrow", ".feather", ".ipc")
    for part in ("nodes", "edges"):
        folder = os.path.join(word, part)
        if os.path.isdir(folder) and any(name.endswith(endings) for name in os.listdir(folder)):
            return True
    return False


@click.command("import", context_settings=NESTED)
@click.argument("source", metavar="SOURCE")
@server_options(required=True)
@option("--graph", required=True, metavar="NAME", help="The source graph, made if it is not there")
@option("--seal", is_flag=True, help="Take no more rows afterwards, and build what is sampled from")
@option(
    "--appended-only",
    is_flag=True,
    help="--seal refuses an edge that ends at a node without a row. Otherwise such a node gets zeros "
    "in every column, and a line tells of it",
)
def _import_tables(source: str, server: Server, graph: str, seal: bool, appended_only: bool) -> None:
    """Store a large graph of Parquet or Arrow files: nodes/SET.parquet with the column id, and
    edges/SOURCE.NAME.TARGET.parquet with source and target; or .arrow, .feather, .ipc. After a crash,
    run the same command again. It goes on and stores nothing twice
    """
    from packhouse.files import graph_import
    from packhouse.files.graph_import import import_graph

    opened = graph_import.open_files(source)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        made = import_graph(
            server.address,
            graph,
            opened,
            seal=seal,
            appended_only=appended_only,
            credentials=server.credentials(),
        )
    for each in told:
        note(str(each.message))
    print(
        f"{made.name}: {sum(made.num_nodes):,} nodes, {sum(made.num_edges):,} edges, "
        f"{made.num_bytes:,} bytes; {'sealed' if made.version else 'open'}"
    )


command.add_command(
    forwarded("generate", "Draw a large graph in the shape of a known one", ["generate"], "packhouse graph")
)


_GRAPHS = Stored(
    "NAME",
    "source_graph_report",
    "All source graphs of a server",
    "Sets, columns, bounds and sizes of a graph",
    "Delete a graph and all its rows",
    all=lambda client: client.source_graphs.list(),
    get=lambda client, name: client.source_graphs.get(name),
    delete=lambda client, name: client.source_graphs.delete(name),
)
add_commands(command, _GRAPHS)


@command.command("seal")
@_name
@server_options(required=True)
@_duplicates
@json_option()
def seal(name: str, server: Server, duplicates: str, as_json: bool) -> None:
    """Take no more rows, and build what is sampled from. If this command is interrupted, the server
    goes on; the same command joins it
    """
    from packhouse.command import source_graph_report as report

    with connected(server) as connection, Progress() as line:
        graph = connection.client.source_graphs.seal(
            name,
            duplicates=duplicates,
            on_progress=lambda share: line.show(f"sealing, {100 * share:.0f} %"),
        )
    if as_json:
        print_json(report.json(graph))
    else:
        print(report.graph_line(graph))


@command.command("verify")
@_name
@server_options(required=True)
@json_option()
def verify(name: str, server: Server, as_json: bool) -> int:
    """Read all of a graph: checksums, and the ends of its edges; exit status 1 if it is damaged"""
    from packhouse.command import source_graph_report as report

    with connected(server) as connection, Progress() as line:
        found = connection.client.source_graphs.verify(
            name, lambda done, total: line.show(f"{bytes_text(done)} of {bytes_text(total)}")
        )
    if as_json:
        print_json(report.verify_json(name, found))
    else:
        print(report.verify_text(name, found), end="")
    return OK if found.ok else FAILURE


_fsck = copy.copy(verify)
_fsck.hidden = True
command.add_command(_fsck, "fsck")
