"""Source graphs of a real server."""

from __future__ import annotations

import grpc
import numpy as np
import pytest

from packhouse import (
    Client,
    DuplicateNodes,
    EdgeRows,
    NodeRows,
    PackhouseError,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceGraphState,
    SourceNodeSet,
)

SCHEMA = SourceGraphSchema(
    [
        SourceNodeSet(
            "paper",
            [SourceColumn("x", "float32", (2,)), SourceColumn("t", "int16", ragged=True)],
        ),
        SourceNodeSet("author", [SourceColumn("name", text=True)], text_ids=True),
    ],
    [
        SourceEdgeSet("writes", "author", "paper", [SourceColumn("when", "int64")]),
        SourceEdgeSet("written", "paper", "author", reverse_of="writes"),
        SourceEdgeSet("cites", "paper", "paper", by_source=False),
    ],
)


def rows() -> list[NodeRows | EdgeRows]:
    return [
        EdgeRows("writes", ["bob", "alice", b"bob"], [70, 6, -5], {"when": [100, 200, 300]}),
        NodeRows("paper", [70, -5], {"x": [[1, 2], [3, 4]], "t": [[7, 8, 9], []]}),
        EdgeRows("cites", np.array([70, -5]), np.array([-5, 70], np.int32)),
        NodeRows("author", ["bob"], {"name": ["Bob"]}),
    ]


def expect(code: grpc.StatusCode, *words: str) -> pytest.RaisesContext[PackhouseError]:
    pattern = "".join(f"(?=.*{word})" for word in words)
    return pytest.raises(PackhouseError, match=f"(?s)^{code.name}: {pattern}")


def test_rows_in_numbers_out(client: Client) -> None:
    graphs = client.source_graphs
    created = graphs.create("graphs/a", SCHEMA, max_bytes=1 << 30)
    assert created.state is SourceGraphState.OPEN
    assert created.schema.edge_set("cites").by_source is False
    assert created.schema == graphs.get("graphs/a").schema
    # One row a request: many requests are under way at the same time.
    totals = graphs.append("graphs/a", rows(), producer="p", request_bytes=1)
    assert (totals.num_nodes, totals.num_edges, totals.num_repeated) == (3, 5, 0)
    again = graphs.append("graphs/a", rows(), producer="p", first_sequence=1, request_bytes=1)
    assert (again.num_nodes, again.num_edges, again.num_repeated) == (0, 0, 8)
    assert (again.total_nodes, again.total_edges, again.next_sequence) == (3, 5, 9)
    with pytest.raises(PackhouseError, match="sequence 2 of producer 'p'") as taken:
        graphs.append("graphs/a", rows(), producer="p", first_sequence=2, request_bytes=1)
    assert taken.value.code is grpc.StatusCode.ALREADY_EXISTS
    done: list[float] = []
    sealed = graphs.seal("graphs/a", on_progress=done.append)
    assert all(0 <= each <= 1 for each in done)
    assert sealed.state is SourceGraphState.SEALED and sealed.version != 0
    assert sealed.num_nodes == {"paper": 3, "author": 2}
    assert sealed.num_edges == {"writes": 3, "written": 3, "cites": 2}

    papers = graphs.lookup_nodes("graphs/a", "paper", ids=[70, 7, -5, 6], columns=None)
    assert papers.numbers.tolist() == [2, 2**32 - 1, 0, 1]
    assert papers.columns["x"].tolist() == [[1, 2], [0, 0], [3, 4], [0, 0]]
    assert [each.tolist() for each in papers.columns["t"]] == [[7, 8, 9], [], [], []]
    authors = graphs.lookup_nodes("graphs/a", "author", numbers=[0, 1], columns=["name"])
    assert authors.ids == [b"alice", b"bob"]
    assert authors.columns["name"] == [b"", b"Bob"]
    writes = graphs.read_edges("graphs/a", "writes", columns=None)
    assert writes.sources.tolist() == [0, 1, 1]
    assert writes.targets.tolist() == [1, 0, 2]
    assert writes.columns["when"].tolist() == [200, 300, 100]
    written = graphs.read_edges("graphs/a", "written", 1, 1, columns=["when"])
    assert (written.sources.tolist(), written.targets.tolist()) == ([0], [1])
    assert written.columns["when"].tolist() == [300]

    assert graphs.verify("graphs/a").is_sound
    assert "graphs/a" in [each.name for each in graphs.list(page_size=1)]
    graphs.delete("graphs/a")
    with expect(grpc.StatusCode.NOT_FOUND, "graphs/a"):
        graphs.get("graphs/a")


def test_refusals_name_what_is_wrong(client: Client) -> None:
    graphs = client.source_graphs
    graphs.create("graphs/b", SCHEMA)
    for bad, words in (
        (NodeRows("papers", [1]), "there is no node set 'papers'"),
        (NodeRows("paper", [1], {"x": [[1, 2]]}), "column 't' of node set 'paper' is missing"),
        (NodeRows("paper", [1], {"x": [[1, 2]], "t": [[]], "y": [1]}), "no column 'y'"),
        (NodeRows("paper", [1], {"x": [[1, 2, 3]], "t": [[]]}), "rows have shape"),
        (NodeRows("paper", [1, 2], {"x": [[1, 2]], "t": [[], []]}), "x has 1 rows of 2"),
        (NodeRows("paper", [1.5], {"x": [[1, 2]], "t": [[]]}), "does not fit"),
        (NodeRows("author", [1], {"name": ["x"]}), "neither str nor bytes"),
        (EdgeRows("writes", ["a"], [1, 2], {"when": [1]}), "targets has 2 rows of 1"),
    ):
        with pytest.raises(ValueError, match=words):
            graphs.append("graphs/b", bad)
    with expect(grpc.StatusCode.INVALID_ARGUMENT, "reverses 'writes'"):
        graphs.append("graphs/b", EdgeRows("written", [1], ["a"]))
    with pytest.raises(ValueError, match="duplicates: 'any'"):
        graphs.seal("graphs/b", duplicates="any")
    with expect(grpc.StatusCode.FAILED_PRECONDITION, "not sealed"):
        graphs.lookup_nodes("graphs/b", "paper", ids=[1])
    for x in (1, 2):
        paper = NodeRows("paper", [5], {"x": [[x, x]], "t": [[]]})
        graphs.append("graphs/b", paper, producer=str(x))
    with expect(grpc.StatusCode.FAILED_PRECONDITION, "node 5 of node set 'paper'", "'x' differs"):
        graphs.seal("graphs/b")
    graphs.seal("graphs/b", duplicates=DuplicateNodes.LAST)
    found = graphs.lookup_nodes("graphs/b", "paper", numbers=[0], columns=["x"])
    assert found.columns["x"].tolist() == [[2, 2]]
    with expect(grpc.StatusCode.OUT_OF_RANGE, "row 0 is 1"):
        graphs.lookup_nodes("graphs/b", "paper", numbers=[1])
    with expect(grpc.StatusCode.FAILED_PRECONDITION, "is sealed"):
        graphs.append("graphs/b", NodeRows("author", ["a"], {"name": ["A"]}))
    graphs.delete("graphs/b")
