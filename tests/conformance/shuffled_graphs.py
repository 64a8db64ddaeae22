"""A source graph whose nodes and edges have other numbers than rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from packhouse import Client, SourceColumn, SourceEdgeSet, SourceGraphSchema, SourceNodeSet
from packhouse.large.source_graph import EdgeRows, NodeRows

NODES, EDGES = 40, 300


def import_shuffled(
    client: Client, name: str, sets: tuple[str, str], columns: tuple[str, str]
) -> dict[str, np.ndarray[Any, Any]]:
    """Imports it: one set of nodes and one of edges, each with a feature.

    Gives the features of both sets by row, and as `ends` the rows of each edge's ends.
    """
    random = np.random.default_rng(4)
    nodes, edges = sets
    ids = random.permutation(NODES) * 7 - 30
    ends = random.integers(0, NODES, (2, EDGES))
    features = {nodes: random.normal(size=(NODES, 3)), edges: random.normal(size=(EDGES, 2))}
    schema = SourceGraphSchema(
        (SourceNodeSet(nodes, (SourceColumn(columns[0], "float64", (3,)),)),),
        (SourceEdgeSet(edges, nodes, nodes, (SourceColumn(columns[1], "float64", (2,)),)),),
    )
    client.source_graphs.create(name, schema)
    client.source_graphs.append(
        name,
        [
            NodeRows(nodes, ids, {columns[0]: features[nodes]}),
            EdgeRows(edges, ids[ends[0]], ids[ends[1]], {columns[1]: features[edges]}),
        ],
        producer="one",
    )
    client.source_graphs.seal(name)
    numbers = client.source_graphs.lookup_nodes(name, nodes, ids=ids).numbers
    assert numbers.tolist() != list(range(NODES))
    return {**features, "ends": ends}
