"""Rows of source graphs as messages, and back, without a server."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from packhouse import SourceColumn, SourceEdgeSet, SourceGraphSchema, SourceNodeSet
from packhouse.large import source_graph
from packhouse.large.source_graph import EdgeRows, NodeRows, columns_of, exact_array, ids_of
from packhouse.v1 import source_graph_pb2

COLUMNS = (
    SourceColumn("x", "float32", (2,)),
    SourceColumn("steps", "int16", (3,), ragged=True),
    SourceColumn("name", text=True),
)
SCHEMA = SourceGraphSchema(
    (
        SourceNodeSet("a", COLUMNS),
        SourceNodeSet("b", (), text_ids=True, appended_only=True),
    ),
    (
        SourceEdgeSet("to", "a", "b", (SourceColumn("w", "bool"),), by_target=False),
        SourceEdgeSet("from", "b", "a", reverse_of="to", by_source=False),
        SourceEdgeSet("both", "b", "b"),
    ),
)


def requests(rows: NodeRows | EdgeRows, request_bytes: int = 1 << 20) -> list[Any]:
    return list(source_graph.requests_of(rows, SCHEMA, request_bytes))


def test_a_schema_is_what_its_message_says() -> None:
    assert SourceGraphSchema.from_proto(SCHEMA.to_proto()) == SCHEMA
    assert SCHEMA.node_set("b") is SCHEMA.node_sets[1]
    assert SCHEMA.edge_set("from") is SCHEMA.edge_sets[1]
    for look, kind in ((SCHEMA.node_set, "node"), (SCHEMA.edge_set, "edge")):
        with pytest.raises(ValueError, match=f"there is no {kind} set 'c'"):
            look("c")
    unseen = SourceGraphSchema((), (SourceEdgeSet("e", "a", "a", by_source=False, by_target=False),))
    with pytest.raises(ValueError, match="edge set 'e': neither by_source nor by_target"):
        unseen.to_proto()
    # A server may say nothing of how edges are looked up.
    message = SCHEMA.to_proto()
    message.edge_sets[0].ClearField("lookup")
    read = SourceGraphSchema.from_proto(message).edge_sets[0]
    assert read.by_source and read.by_target


def a_rows(count: int) -> NodeRows:
    """Row i has i steps and a name of i letters."""
    return NodeRows(
        "a",
        np.arange(count) * 3 - 1,
        {
            "x": np.arange(2 * count).reshape(count, 2),
            "steps": [np.full((i, 3), i) for i in range(count)],
            "name": ["x" * i if i % 2 else b"y" * i for i in range(count)],
        },
    )


# A row of seven has 8 bytes of its id, 8 of x, and of what has lengths 18 + 4 and 3 + 4 on average.
ROW_BYTES = 45


@pytest.mark.parametrize(
    "request_bytes, rows_each",
    [(1, 1), (2 * ROW_BYTES, 2), (3 * ROW_BYTES - 1, 2), (3 * ROW_BYTES, 3), (1 << 20, 7)],
)
def test_rows_are_cut_and_come_back_whole(request_bytes: int, rows_each: int) -> None:
    made = requests(a_rows(7), request_bytes)
    sizes = [len(ids_of(request.nodes[0].ids)) for request in made]
    assert sizes == [min(rows_each, 7 - start) for start in range(0, 7, rows_each)]
    ids: list[int] = []
    columns: dict[str, list[Any]] = {"x": [], "steps": [], "name": []}
    for request in made:
        (part,) = request.nodes
        assert part.node_set == "a" and not request.edges
        ids += ids_of(part.ids).tolist()
        for name, values in columns_of(part.columns, COLUMNS).items():
            columns[name] += [each if name == "name" else each.tolist() for each in values]
    assert ids == [-1, 2, 5, 8, 11, 14, 17]
    assert columns["x"] == [[2 * i, 2 * i + 1] for i in range(7)]
    assert columns["steps"] == [[[i] * 3] * i for i in range(7)]
    assert columns["name"] == [(b"x" if i % 2 else b"y") * i for i in range(7)]


def test_a_request_has_no_more_rows_than_a_server_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_graph, "_MOST_ROWS", 3)
    assert [len(ids_of(each.nodes[0].ids)) for each in requests(a_rows(7))] == [3, 3, 1]


def test_edges_have_the_ids_of_both_ends() -> None:
    rows = EdgeRows("to", [7, -1, 7], ["b", b"cc", np.bytes_(b"")], {"w": [True, 0, 1.0]})
    (request,) = requests(rows)
    (part,) = request.edges
    assert part.edge_set == "to" and not request.nodes
    assert ids_of(part.sources).tolist() == [7, -1, 7] and ids_of(part.targets) == [b"b", b"cc", b""]
    read = columns_of(part.columns, SCHEMA.edge_set("to").columns)
    assert np.asarray(read["w"]).tolist() == [True, False, True]
    assert requests(EdgeRows("both", [], [])) == []


def test_ragged_rows_may_come_as_values_and_lengths() -> None:
    steps = np.arange(12, dtype=np.int16).reshape(4, 3)
    given = {"x": np.zeros((3, 2)), "name": [""] * 3}
    (one,) = requests(NodeRows("a", [1, 2, 3], {**given, "steps": (steps, [1, 0, 3])}))
    (two,) = requests(NodeRows("a", [1, 2, 3], {**given, "steps": [steps[:1], [], steps[1:]]}))
    assert one == two
    read = columns_of(one.nodes[0].columns, COLUMNS)["steps"]
    assert [each.tolist() for each in read] == [steps[:1].tolist(), [], steps[1:].tolist()]
    # Two rows in a list are two rows.
    (both,) = requests(
        NodeRows("a", [1, 2], {"x": np.zeros((2, 2)), "name": ["", ""], "steps": [steps, steps]})
    )
    assert [len(each) for each in columns_of(both.nodes[0].columns, COLUMNS)["steps"]] == [4, 4]
    none = source_graph_pb2.SourceColumnRows(name="steps")
    assert columns_of([none], COLUMNS)["steps"] == []


GIVEN: dict[str, Any] = {"x": [[1, 2]], "steps": [[]], "name": ["n"]}
REFUSED: list[tuple[NodeRows | EdgeRows, str]] = [
    (NodeRows("a", [[1]], GIVEN), r"ids of node set 'a': shape \(1, 1\), needs one axis"),
    (NodeRows("a", [1], {**GIVEN, "x": [[1, 2, 3]]}), r"'x' of node set 'a': rows have .* \(3,\), .* \(2,\)"),
    (NodeRows("a", [1], {**GIVEN, "steps": ([[1, 2, 3]], [2])}), "1 steps, the lengths add up to 2"),
    (NodeRows("a", [1], {**GIVEN, "steps": ([[1, 2, 3]], [1.5])}), "lengths: 1.5 .float64. does not fit"),
    (NodeRows("a", [1], {**GIVEN, "steps": ([[1, 2]], [1])}), r"rows have shape \(2,\), the schema .* \(3,\)"),
    (NodeRows("a", [1], {**GIVEN, "name": "n"}), "'n' is one text, not a sequence of them"),
    (NodeRows("a", [1], {**GIVEN, "name": b"n"}), "b'n' is one text"),
    (NodeRows("a", [1], {**GIVEN, "name": [1]}), "1 is neither str nor bytes"),
    (NodeRows("a", [1], {**GIVEN, "name": ["n", "m"]}), "node set 'a': name has 2 rows of 1"),
    (NodeRows("a", [1], {**GIVEN, "z": [1], "y": [1]}), "node set 'a' has no column 'y'"),
    (NodeRows("a", [1], {"x": [[1, 2]], "steps": [[]]}), "column 'name' of node set 'a' is missing"),
    (NodeRows("a", ["1"], GIVEN), "ids of node set 'a': <U1 does not fit into int64"),
    (NodeRows("b", [1]), "ids of node set 'b': 1 is neither"),
    (EdgeRows("to", ["x"], ["x"], {"w": [1]}), "sources of edge set 'to': <U1 does not fit"),
    (EdgeRows("to", [1], [2], {"w": [1]}), "targets of edge set 'to': 2 is neither str nor bytes"),
    (EdgeRows("to", [1], ["2"], {"w": [2]}), "column 'w' of edge set 'to': 2 .int64. does not fit"),
]


@pytest.mark.parametrize("rows, words", REFUSED)
def test_what_a_schema_does_not_have_is_named(rows: NodeRows | EdgeRows, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        requests(rows)


def test_numbers_take_another_type_only_if_they_fit() -> None:
    for values, dtype, expected in (
        ([1.0, -2.0], "int8", [1, -2]),
        ([True, False], "int64", [1, 0]),
        ([0, 1], "bool", [False, True]),
        (np.array([3], np.uint64), "int64", [3]),
        ([1, 2], "float16", [1.0, 2.0]),
        ([0.1], "float32", [float(np.float32(0.1))]),
        ([np.inf, -np.inf], "float16", [np.inf, -np.inf]),
        ([], "int32", []),
        (np.zeros(0, "U1"), "int32", []),
    ):
        array = exact_array(values, np.dtype(dtype), "w")
        assert array.dtype == dtype and array.tolist() == expected
    assert np.isnan(exact_array([np.nan], np.dtype("float32"), "w")).all()
    kept = np.array([5], "<i8")
    assert exact_array(kept, np.dtype("<i8"), "w") is kept
    for values, dtype, words in (
        ([1.0, 2.5, 3.5], "int8", r"w: 2.5 \(float64\) does not fit into int8"),
        ([1, 300], "int8", r"w: 300 \(int64\)"),
        ([-1], "uint8", "w: -1"),
        ([np.nan], "int32", "w: nan"),
        ([1.0, 1e39], "float32", r"w: 1e\+39 \(float64\) does not fit into float32"),
        ([(1 << 24) + 1], "float32", "w: 16777217"),
        ([2], "bool", "w: 2"),
        (["a"], "int8", "w: <U1 does not fit into int8"),
        ([1j], "float64", "w: complex128 does not fit into float64"),
    ):
        with pytest.raises(ValueError, match=words):
            exact_array(values, np.dtype(dtype), "w")


def test_ids_and_columns_alone_are_whole() -> None:
    for ids, text in (([5, -1, 7], False), ([b"a", b"", b"cc"], True), ([], False)):
        proto = source_graph_pb2.NodeIds()
        source_graph.ids_to_proto(ids, text, proto)
        read = ids_of(proto)
        assert (read if isinstance(read, list) else read.tolist()) == ids
        assert proto.HasField("text") == text
    made = source_graph.column_bytes([[1, 2], [3, 4]], COLUMNS[0], "x")
    assert np.frombuffer(made, "<f4").tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="of seeds: rows have shape"):
        source_graph.column_bytes([1, 2], COLUMNS[0], "x of seeds")
