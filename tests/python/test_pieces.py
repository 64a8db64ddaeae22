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


RAGGED = GraphSchema(
    ("nodes", "f", "f.d2", "edges"),
    (
        TensorSpec("x", "int16", "nodes"),
        TensorSpec("edge_index", "int64", "edges", (2,), "nodes", layout="rows_last"),
        # Each node has some steps, and each of these some values.
        TensorSpec("f.d1", "int32", "nodes"),
        TensorSpec("f.d2", "uint8", "f.d2"),
        TensorSpec("f", "int8", "f", (2,)),
        TensorSpec("w", "float32", "edges"),
        TensorSpec("y", "int8", "graphs"),
    ),
)
RAGGED_PIECES = GraphSchema(
    RAGGED.components,
    (
        *RAGGED.tensors,
        *(TensorSpec(name, "uint32", "graphs") for name in ("#piece", "#pieces", "#cut_edges")),
        TensorSpec("nodes.#row", "uint32", "nodes"),
        TensorSpec("nodes.#inner", "bool", "nodes"),
        TensorSpec("edges.#row", "uint32", "edges"),
        TensorSpec("edges.#inner", "bool", "edges"),
    ),
)


def random_graph(rng: np.random.Generator) -> dict[str, np.ndarray]:
    nodes, edges = int(rng.integers(1, 9)), int(rng.integers(0, 12))
    steps = rng.integers(0, 3, nodes)
    lengths = rng.integers(0, 3, int(steps.sum()))
    return {
        "x": rng.integers(-99, 99, nodes),
        "edge_index": rng.integers(0, nodes, (2, edges)),
        "f.d1": steps,
        "f.d2": lengths,
        "f": rng.integers(-99, 99, (int(lengths.sum()), 2)),
        "w": rng.random(edges),
        "y": rng.integers(0, 99, 1),
    }


def spans(lengths: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """What lies along these rows, one after the other."""
    ends = np.cumsum(lengths)
    parts = [np.arange(ends[row] - lengths[row], ends[row]) for row in chosen]
    return np.concatenate([np.empty(0, int), *parts]).astype(int)


def cut(rng: np.random.Generator, graph: dict[str, np.ndarray], count: int) -> list[dict[str, np.ndarray]]:
    """Pieces with their rows in any order; an edge is its source's, and some rows are in several."""
    owner = rng.integers(0, count, len(graph["x"]))
    ends = graph["edge_index"]
    pieces = []
    for number in range(count):
        is_inner = owner[ends[0]] == number
        others = rng.permutation(len(owner))[:2]
        nodes = rng.permutation(
            np.unique(np.concatenate([np.flatnonzero(owner == number), *ends[:, is_inner], others]))
        ).astype(int)
        edges = rng.permutation(np.flatnonzero(np.isin(ends, nodes).all(axis=0)))
        local = np.zeros(len(owner), int)
        local[nodes] = np.arange(len(nodes))
        steps = spans(graph["f.d1"], nodes)
        pieces.append(
            {
                "x": graph["x"][nodes],
                "edge_index": local[ends[:, edges]],
                "f.d1": graph["f.d1"][nodes],
                "f.d2": graph["f.d2"][steps],
                "f": graph["f"][spans(graph["f.d2"], steps)],
                "w": graph["w"][edges],
                "y": graph["y"],
                "#piece": np.array([number]),
                "#pieces": np.array([count]),
                "#cut_edges": np.array([0]),
                "nodes.#row": nodes,
                "nodes.#inner": owner[nodes] == number,
                "edges.#row": edges,
                "edges.#inner": is_inner[edges],
            }
        )
    return pieces


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_cut_is_joined(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graphs = [random_graph(rng) for _ in range(3)]
    pieces = [
        (number, piece)
        for number, graph in enumerate(graphs)
        for piece in cut(rng, graph, int(rng.integers(1, 4)))
    ]
    order = rng.permutation(len(pieces)).tolist()
    table = GraphTable.from_graphs(
        RAGGED_PIECES, [pieces[k][1] for k in order], graph_ids=[7 + pieces[k][0] for k in order]
    )
    first = list(dict.fromkeys(pieces[k][0] for k in order))
    expected = GraphTable.from_graphs(
        RAGGED, [graphs[number] for number in first], graph_ids=[7 + number for number in first]
    )
    at = int(rng.integers(0, len(order) + 1))
    assert join_pieces([table.slice(0, at), table.slice(at, len(order))]).equals(expected)


def test_a_ragged_feature_without_lengths_is_named() -> None:
    def with_feature(schema: GraphSchema) -> GraphSchema:
        feature = TensorSpec("f", "int8", "f")
        return GraphSchema(("nodes", "f"), (feature, *schema.tensors))

    table = piece(0, 1, [0])
    with_none = GraphTable(with_feature(PIECES), [[1, 0]], {**table.tensors, "f": []}, [7])
    with pytest.raises(ValueError, match="^the ragged feature 'f' has no lengths$"):
        join_pieces(with_none)
