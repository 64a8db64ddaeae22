"""What `packhouse graph` prints. Texts end in a line feed unless they are parts of a line."""

from __future__ import annotations

from typing import Any, Sequence

from packhouse.command.dataset_report import version_text
from packhouse.command.readable import bytes_text, grouped
from packhouse.command.tables import TextTable
from packhouse.large.source_graph import (
    SourceColumn,
    SourceEdgeSet,
    SourceGraph,
    SourceGraphState,
    SourceNodeSet,
)
from packhouse.large.source_graphs import SourceGraphVerification


def size_text(graph: SourceGraph) -> str:
    """`1,940 nodes, 21,111 edges, 1.2 MiB`: a part of a line."""
    nodes, edges = _nodes(graph), _edges(graph)
    return f"{grouped(nodes)} nodes, {grouped(edges)} edges, {bytes_text(graph.num_bytes)}"


def graph_line(graph: SourceGraph) -> str:
    """Name, state and size: a line without its end."""
    return f"{graph.name}: {graph.state.name.lower()}, {size_text(graph)}"


def table(graphs: Sequence[SourceGraph]) -> str:
    """One row each. Only the name of a damaged one is known."""
    rows = TextTable(["name", "state", "nodes", "edges", "size", "version"])
    for graph in graphs:
        cells = [graph.name, graph.state.name.lower()]
        if graph.state is not SourceGraphState.DAMAGED:
            cells += [grouped(_nodes(graph)), grouped(_edges(graph))]
            cells += [bytes_text(graph.num_bytes), version_text(graph.version)]
        rows.add_row(*cells)
    return rows.render()


def text(graph: SourceGraph) -> str:
    """Everything about one."""
    lines = [graph_line(graph)]
    if graph.state is SourceGraphState.OPEN:
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
    if graph.state is SourceGraphState.DAMAGED:
        return told
    edge_sets = []
    for edges in graph.schema.edge_sets:
        edge_sets.append(
            {
                "name": edges.name,
                "edges": graph.num_edges.get(edges.name, 0),
                "source": edges.source,
                "target": edges.target,
            }
        )
        if edges.reverse_of:
            edge_sets[-1]["reverse_of"] = edges.reverse_of
        else:
            edge_sets[-1].update(lookup=_lookup(edges), columns=_columns_json(edges.columns))
    return {
        **told,
        "version": version_text(graph.version),
        "nodes": _nodes(graph),
        "edges": _edges(graph),
        "bytes": graph.num_bytes,
        "max_bytes": graph.max_bytes,
        "node_sets": [
            {
                "name": nodes.name,
                "nodes": graph.num_nodes.get(nodes.name, 0),
                "ids": _ids(nodes),
                "appended_only": nodes.appended_only,
                "columns": _columns_json(nodes.columns),
            }
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
        lines.append(f"and {grouped(more)} more damaged pieces")
    told = "no damage" if found.ok else f"{grouped(found.num_damaged)} damaged pieces"
    lines.append(f"{name}: {bytes_text(found.num_bytes)} read: {told}")
    return "".join(f"{line}\n" for line in lines)


def verify_json(name: str, found: SourceGraphVerification) -> dict[str, Any]:
    """The same as an object."""
    return {
        "name": name,
        "undamaged": found.ok,
        "bytes": found.num_bytes,
        "damaged_pieces": found.num_damaged,
        "damaged": list(found.damaged),
    }


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
        {
            "name": column.name,
            "dtype": _type(column),
            "row_shape": list(column.row_shape),
            "ragged": column.ragged,
        }
        for column in columns
    ]


def _type(column: SourceColumn) -> str:
    return "text" if column.text else column.element.name.lower()
