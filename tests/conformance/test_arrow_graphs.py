"""One large graph from Parquet and Arrow files, by pyarrow itself, into a server."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest

from packhouse import PackhouseError
from packhouse.files import graph_import
from packhouse.files.graph_import import import_graph
from packhouse.v1 import graphs_pb2, source_graph_pb2

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "client"))
from stub_source_graphs import Serving  # noqa: E402



def write(folder: pathlib.Path, files: dict[str, dict[str, object]]) -> pathlib.Path:
    for name, columns in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pyarrow.table(columns)
        parquet.write_table(table, path)
    return folder


PAPERS = {
    "id": ["p0", "p1", "p2"],
    "x": pyarrow.array([[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]], pyarrow.list_(pyarrow.float32(), 2)),
    "title": ["One", "", "Drei"],
    "tags": pyarrow.array([[1], [], [2, 3]], pyarrow.list_(pyarrow.int64())),
    "year": pyarrow.array([2001, 2002, 2003], pyarrow.int16()),
}
GRAPH = {
    "nodes/paper.parquet": PAPERS,
    "edges/author.writes.paper.parquet": {"source": [7, 7, 8], "target": ["p0", "p1", "p1"]},
    "edges/paper.cites.paper.parquet": {
        "source": ["p0", "p2"], "target": ["p1", "p0"], "weight": [0.25, 1.0]},
}


def test_the_schema_follows_from_the_files(tmp_path: pathlib.Path) -> None:
    schema = graph_import.open_files(write(tmp_path, GRAPH)).schema
    assert [each.name for each in schema.node_sets] == ["paper", "author"]
    paper, author = schema.node_sets
    assert paper.id_kind == source_graph_pb2.NODE_ID_KIND_TEXT
    assert author.id_kind == source_graph_pb2.NODE_ID_KIND_INTEGER
    columns = {column.name: column for column in paper.columns}
    assert list(columns["x"].row_shape) == [2]
    assert columns["x"].dtype == graphs_pb2.DATA_TYPE_FLOAT32
    assert columns["title"].text and columns["title"].ragged
    assert columns["tags"].ragged and not columns["tags"].text
    assert columns["year"].dtype == graphs_pb2.DATA_TYPE_INT16
    writes, cites = schema.edge_sets
    assert (writes.name, writes.source, writes.target) == ("writes", "author", "paper")
    assert [column.name for column in cites.columns] == ["weight"]


@pytest.mark.parametrize("request_bytes", [1, 1 << 20])
def test_requests_have_every_row_once_in_order(tmp_path: pathlib.Path, request_bytes: int) -> None:
    files = graph_import.open_files(write(tmp_path, GRAPH))
    data: dict[str, bytes] = {}
    lengths: dict[str, bytes] = {}
    ids = b""
    sources: list[int] = []
    requests = list(files.requests(request_bytes))
    assert len(requests) == (8 if request_bytes == 1 else 3)
    for request in requests:
        for rows in request.nodes:
            ids += rows.ids.text.data
            for column in rows.columns:
                data[column.name] = data.get(column.name, b"") + column.data
                lengths[column.name] = lengths.get(column.name, b"") + column.lengths
        for rows in request.edges:
            if rows.edge_set == "writes":
                sources += np.frombuffer(rows.sources.integers, "<i8").tolist()
    assert ids == b"p0p1p2"
    assert np.frombuffer(data["x"], "<f4").tolist() == [0.5, 1, 2, 3, 4, 5]
    assert data["title"] == b"OneDrei"
    assert np.frombuffer(lengths["title"], "<u4").tolist() == [3, 0, 4]
    assert np.frombuffer(data["tags"], "<i8").tolist() == [1, 2, 3]
    assert np.frombuffer(lengths["tags"], "<u4").tolist() == [1, 0, 2]
    assert np.frombuffer(data["year"], "<i2").tolist() == [2001, 2002, 2003]
    assert sources == [7, 7, 8]


def test_what_cannot_be_sent_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="has neither nodes/ nor edges/"):
        graph_import.open_files(tmp_path)
    write(tmp_path, {"nodes/a.parquet": {"key": [1]}})
    with pytest.raises(ValueError, match=r"a.parquet: has no column 'id'"):
        graph_import.open_files(tmp_path)
    write(tmp_path, {"nodes/a.parquet": {"id": [1, 2], "x": [None, 1.0]}})
    files = graph_import.open_files(tmp_path)
    with pytest.raises(ValueError, match=r"a.parquet: rows 0 to 1: column 'x' has a null"):
        list(files.requests())
    write(tmp_path, {"nodes/a.parquet": {"id": [1.5]}})
    with pytest.raises(ValueError, match=r"column 'id' has type double; ids are int64, or text"):
        list(graph_import.open_files(tmp_path).requests())
    write(tmp_path, {"nodes/a.parquet": {"id": [1], "x": [{"y": 1}]}})
    with pytest.raises(ValueError, match=r"column 'x' has type struct<y: int64>, which cannot"):
        graph_import.open_files(tmp_path)
    write(tmp_path, {"nodes/a.parquet": {"id": [1]},
                     "edges/a.e.a.parquet": {"source": ["x"], "target": ["y"]}})
    with pytest.raises(ValueError, match=r"column 'source' has ids of another kind"):
        graph_import.open_files(tmp_path)


def test_a_graph_is_stored_once_however_often_it_is_sent(tmp_path: pathlib.Path) -> None:
    files = graph_import.open_files(write(tmp_path, GRAPH))
    with Serving() as server:
        server.stub.break_after = 3
        import_graph(server.address, "g", files, request_bytes=1)
        assert server.stub.num_requests == 8
        graph = import_graph(server.address, "g", files, request_bytes=1, seal=True)
        assert server.stub.num_requests == 8
        assert server.stub.rows["g", "paper"] == ["p0", "p1", "p2"]
        assert server.stub.rows["g", "writes"] == [(7, "p0"), (7, "p1"), (8, "p1")]
        other = graph_import.open_files(write(tmp_path / "other", {"nodes/a.parquet": {"id": [1]}}))
        with pytest.raises(PackhouseError, match="has the sets"):
            import_graph(server.address, "g", other)
    assert list(graph.num_nodes) == [3, 2]
    assert list(graph.num_edges) == [3, 2]


def test_rows_of_refused_files_are_told(tmp_path: pathlib.Path) -> None:
    files = graph_import.open_files(write(tmp_path, {
        "nodes/paper.parquet": {"id": [1, 2], "year": [2001, 2002]},
        "edges/paper.cites.paper.parquet": {"source": [1, None], "target": [2, 1]}}))
    with Serving() as server:
        with pytest.raises(ValueError, match="'g' has 2 nodes and 0 edges by now: .* delete it"):
            import_graph(server.address, "g", files)


def test_nodes_without_rows_are_told(tmp_path: pathlib.Path) -> None:
    """pandas writes a column of whole numbers that had a gap as floats: as text other ids."""
    files = graph_import.open_files(write(tmp_path, {
        "nodes/paper.parquet": {"id": ["1", "2", "1"], "year": [2001, 2002, 2001]},
        "edges/paper.cites.paper.parquet": {"source": ["1.0", "2"], "target": ["2.0", "1"]}}))
    with Serving() as server:
        with pytest.warns(UserWarning, match="'paper': of its 4 nodes 2 have no row"):
            import_graph(server.address, "g", files, seal=True)
        import_graph(server.address, "strict", files, appended_only=True)
        assert [each.appended_only for each in server.stub.graphs["strict"].schema.node_sets] == [True]
        import_graph(server.address, "loose", files)
        with pytest.raises(PackhouseError, match="was created without appended_only"):
            import_graph(server.address, "loose", files, appended_only=True)
