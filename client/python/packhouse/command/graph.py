"""packhouse graph: large graphs, from which many small ones are drawn."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Sequence

import click

from packhouse.command.arguments import choice, flag, json_option, server_options, value
from packhouse.command.connection import Server, connected
from packhouse.command.datasets import version_text
from packhouse.command.group import Group
from packhouse.command.output import bytes_text, fields, grouped, note, Progress, tell, TextTable
from packhouse.command.stored import Stored, add_commands, add_verify
from packhouse.command.wings import NESTED, Unparsed, become, forwarded

if TYPE_CHECKING:
    from packhouse.client.facade import Client
    from packhouse.large.source_graph import (
        SourceColumn, SourceEdgeSet, SourceGraph, SourceNodeSet
    )  # fmt: skip
    from packhouse.large.source_graphs import SourceGraphVerification


@click.group("graph", cls=Group)
def command() -> None:
    """Work with source graphs: large graphs from which many small ones are drawn"""


_name = click.argument("name", metavar="NAME")
# fmt: off
_duplicates = choice("--duplicates", ("refuse", "first", "last"), "What becomes of a node that is there "
                     "twice with different rows: refuse (the default), first or last", default="refuse",
                     metavar="WHICH")
# fmt: on


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
# fmt: off
@value("--graph", "NAME", "The source graph, made if it is not there", required=True)
@flag("--seal", "Take no more rows afterwards, and build what is sampled from")
@flag("--appended-only", "--seal refuses an edge that ends at a node without a row. Otherwise such a "
      "node gets zeros in every column, and a line tells of it")
# fmt: on
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
            server.address, graph, opened, seal=seal, appended_only=appended_only,
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
    "source_graphs", "NAME", "graph", "All source graphs of a server",
    "Sets, columns, bounds and sizes of a graph", "Delete a graph and all its rows",
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
    with connected(server) as client, Progress() as line:
        graph = client.source_graphs.seal(
            name, duplicates=duplicates,
            on_progress=lambda share: line.show(f"sealing, {100 * share:.0f} %"),
        )
    tell(as_json, json(graph), f"{graph_line(graph)}\n")


def _verified(client: Client, name: str, line: Progress) -> SourceGraphVerification:
    return client.source_graphs.verify(
        name, lambda done, total: line.show(f"{bytes_text(done)} of {bytes_text(total)}")
    )


add_verify(
    command,
    _GRAPHS,
    "Read all of a graph: checksums, and the ends of its edges; exit status 1 if it is damaged",
    _verified,
)


# What is printed. Texts end in a line feed unless they are parts of a line.


def size_text(graph: SourceGraph) -> str:
    """`1,940 nodes, 21,111 edges, 1.2 MiB`: a part of a line."""
    nodes, edges = _nodes(graph), _edges(graph)
    return f"{nodes:,} nodes, {edges:,} edges, {bytes_text(graph.num_bytes)}"


def graph_line(graph: SourceGraph) -> str:
    """Name, state and size: a line without its end."""
    return f"{graph.name}: {graph.state.name.lower()}, {size_text(graph)}"


def table(graphs: Sequence[SourceGraph]) -> str:
    """One row each. Only the name of a damaged one is known."""
    rows = TextTable(["name", "state", "nodes", "edges", "size", "version"])
    for graph in graphs:
        cells = [graph.name, graph.state.name.lower()]
        if graph.state.name != "DAMAGED":
            cells += [grouped(_nodes(graph)), grouped(_edges(graph))]
            cells += [bytes_text(graph.num_bytes), version_text(graph.version)]
        rows.add_row(*cells)
    return rows.render()


def text(graph: SourceGraph) -> str:
    """Everything about one."""
    lines = [graph_line(graph)]
    if graph.state.name == "OPEN":
        lines.append(
            "These are rows: a node may be there twice until the graph is sealed, and one that only "
            "edges name is not counted yet."
        )
    bound = f"at most {bytes_text(graph.max_bytes)}" if graph.max_bytes else "none of its own"
    version = version_text(graph.version) or "none until the graph is sealed"
    lines += ["", f"version  {version}", f"bounds   {bound}", "", "node sets"]
    for nodes in graph.schema.node_sets:
        only = ", each must be appended" if nodes.appended_only else ""
        count = grouped(graph.num_nodes.get(nodes.name, 0))
        lines.append(f"{nodes.name}: {count}, {_ids(nodes)} ids{only}")
        lines += map(_column_text, nodes.columns)
    if graph.schema.edge_sets:
        lines += ["", "edge sets"]
    for edges in graph.schema.edge_sets:
        how = f"the reverse of {edges.reverse_of}"
        if not edges.reverse_of:
            by = _lookup(edges)
            how = f"looked up by {'both ends' if by == 'both' else by}"
        count = grouped(graph.num_edges.get(edges.name, 0))
        lines.append(f"{edges.name}: {count} from {edges.source} to {edges.target}, {how}")
        lines += map(_column_text, edges.columns)
    return "".join(f"{line}\n" for line in lines)


def json(graph: SourceGraph) -> dict[str, Any]:
    """The same as an object. A version is a text: JSON's numbers do not hold 64 bits. Of a damaged
    graph there are name and state only.
    """
    told: dict[str, Any] = {"name": graph.name, "state": graph.state.name.lower()}
    if graph.state.name == "DAMAGED":
        return told
    edge_sets = []
    for edges in graph.schema.edge_sets:
        of = {"name": edges.name, "edges": graph.num_edges.get(edges.name, 0)}
        of |= fields(edges, "source target")
        if edges.reverse_of:
            of["reverse_of"] = edges.reverse_of
        else:
            of |= {"lookup": _lookup(edges), "columns": _columns_json(edges.columns)}
        edge_sets.append(of)
    return {
        **told,
        "version": version_text(graph.version),
        "nodes": _nodes(graph),
        "edges": _edges(graph),
        **fields(graph, "bytes=num_bytes max_bytes"),
        "node_sets": [
            {"name": nodes.name, "nodes": graph.num_nodes.get(nodes.name, 0), "ids": _ids(nodes)}
            | {"appended_only": nodes.appended_only, "columns": _columns_json(nodes.columns)}
            for nodes in graph.schema.node_sets
        ],
        "edge_sets": edge_sets,
    }


def deed(name: str, graph: SourceGraph | None) -> str:
    """What its deletion does; None: it cannot be described."""
    return f"delete source graph '{name}'" + (f" with {size_text(graph)}" if graph else "")


def verify_text(name: str, found: SourceGraphVerification) -> str:
    """What was found, and a line that sums it up."""
    lines = list(found.damaged)
    more = found.num_damaged - len(found.damaged)
    if more > 0:
        lines.append(f"and {more:,} more damaged pieces")
    told = "no damage" if found.is_sound else f"{found.num_damaged:,} damaged pieces"
    lines.append(f"{name}: {bytes_text(found.num_bytes)} read: {told}")
    return "".join(f"{line}\n" for line in lines)


def verify_json(name: str, found: SourceGraphVerification) -> dict[str, Any]:
    """The same as an object."""
    told = {"name": name, "undamaged": found.is_sound, "damaged": list(found.damaged)}
    return told | fields(found, "bytes=num_bytes damaged_pieces=num_damaged")


def _nodes(graph: SourceGraph) -> int:
    return sum(graph.num_nodes.values())


def _edges(graph: SourceGraph) -> int:
    """Those of a reversed edge set are those of another one."""
    own = [edges.name for edges in graph.schema.edge_sets if not edges.reverse_of]
    return sum(graph.num_edges.get(name, 0) for name in own)


def _ids(nodes: SourceNodeSet) -> str:
    return "text" if nodes.text_ids else "integer"


def _lookup(edges: SourceEdgeSet) -> str:
    if edges.by_source and edges.by_target:
        return "both"
    return "source" if edges.by_source else "target"


def _column_text(column: SourceColumn) -> str:
    shape = f" {list(column.row_shape)}" if column.row_shape else ""
    ragged = ", ragged" if column.ragged and not column.text else ""
    return f"  {column.name}: {_type(column)}{shape}{ragged}"


def _columns_json(columns: Sequence[SourceColumn]) -> list[dict[str, Any]]:
    return [
        fields(column, "name ragged") | {"dtype": _type(column), "row_shape": list(column.row_shape)}
        for column in columns
    ]


def _type(column: SourceColumn) -> str:
    return "text" if column.text else column.element.name.lower()
