"""Pieces of graphs are joined, or what is wrong with them is said; without a server."""

from __future__ import annotations

import numpy as np
import pytest

from packhouse import GraphSchema, GraphTable, TensorSpec
from packhouse.data.pieces import join_pieces, whole_schema
from packhouse.data.schema import MAX_TENSORS

WHOLE = GraphSchema(("nodes",), (TensorSpec("x", "int64", "nodes"), TensorSpec("y", "int8", "graphs")))
PIECES = GraphSchema(
    ("nodes",),
    (
        *WHOLE.tensors,
        TensorSpec("#piece", "uint32", "graphs"),
        TensorSpec("#pieces", "uint32", "graphs"),
        TensorSpec("#cut_edges", "uint32", "graphs"),
        TensorSpec("nodes.#row", "uint32", "nodes"),
        TensorSpec("nodes.#inner", "bool", "nodes"),
    ),
)


def piece(number: int, count: int, rows: list[int], graph: int = 7, halo: int = 0) -> GraphTable:
    """One whose first `halo` rows are another's."""
    nodes = len(rows)
    tensors = {
        "x": [10 * row for row in rows],
        "y": [5],
        "#piece": [number],
        "#pieces": [count],
        "#cut_edges": [0],
        "nodes.#row": rows,
        "nodes.#inner": [False] * halo + [True] * (nodes - halo),
    }
    return GraphTable(PIECES, [[nodes]], tensors, [graph])


def test_pieces_are_joined_in_the_order_of_their_graphs() -> None:
    assert whole_schema(PIECES) == WHOLE
    tables = [piece(1, 2, [1, 3, 2], halo=1), piece(0, 1, [0], graph=9), piece(0, 2, [0, 1])]
    whole = join_pieces(tables)
    assert whole.schema == WHOLE
    assert whole.graph_ids.tolist() == [7, 9]
    assert whole.sizes.tolist() == [[4], [1]]
    assert whole.tensors["x"].tolist() == [0, 10, 20, 30, 0]
    assert whole.tensors["y"].tolist() == [5, 5]
    assert join_pieces(tables[1]).graph_ids.tolist() == [9]
    # What is of the graph is the first piece's, whichever comes first.
    tables[0].tensors["y"][:] = 6
    assert join_pieces(tables).tensors["y"].tolist() == [5, 5]


def test_what_does_not_fit_together_is_named() -> None:
    first = piece(0, 2, [0, 1])
    other = GraphTable(WHOLE, [[0]], {"x": [], "y": [1]})
    for tables, words in (
        ([], "there are no tables"),
        ([other], "no tensor '#piece': its graphs are not cut"),
        ([first, other], "the tables have different schemas"),
        ([first, piece(0, 2, [2])], "graph 7: piece 0 is there twice"),
        ([first, piece(1, 3, [2])], "graph 7: has 2 pieces, and 3"),
        ([first], "graph 7: piece 1 of 2 is missing"),
        ([first, piece(1, 2, [3])], "graph 7: its pieces lack rows of 'nodes'"),
        ([first, piece(1, 2, [1])], "graph 7: its pieces lack rows of 'nodes'"),
    ):
        with pytest.raises(ValueError, match=words):
            join_pieces(tables)


def test_tables_refuse_what_is_none_of_them() -> None:
    table = piece(0, 1, [0, 1])
    two = GraphTable.concatenate([table, piece(0, 1, [0], graph=8)])
    assert two.graph_ids.tolist() == [7, 8]
    for call, words in (
        (
            lambda: GraphTable(WHOLE, [[1]], {"x": [1], "y": [1]}, [1, 2]),
            r"graph_ids has shape \(2,\), needs \(1,\)",
        ),
        (lambda: GraphTable(WHOLE, [[1]], {"x": [1]}), "tensor 'y' is missing"),
        (lambda: GraphTable.concatenate([]), "nothing to concatenate"),
        (
            lambda: GraphTable.concatenate([table, GraphTable(WHOLE, [[0]], {"x": [], "y": [1]})]),
            "tables have different schemas",
        ),
        (lambda: table.differing(two), "cannot compare"),
        (lambda: table.differing(GraphTable(WHOLE, [[0]], {"x": [], "y": [1]})), "cannot compare"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert two.graph(1)["x"].tolist() == [0]
    with pytest.raises(IndexError, match="graph 2 of 2"):
        two.graph(2)
    with pytest.raises(KeyError, match="edges"):
        table.rows("edges")


def test_a_schema_has_at_most_so_many_tensors() -> None:
    tensors = [TensorSpec(f"t{number}", "int8", "n") for number in range(MAX_TENSORS + 1)]
    assert len(GraphSchema(("n",), tensors[:-1]).tensors) == MAX_TENSORS
    with pytest.raises(ValueError, match=f"{MAX_TENSORS + 1} tensors, more than {MAX_TENSORS}"):
        GraphSchema(("n",), tensors)
