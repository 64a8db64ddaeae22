"""Parquet and Arrow files as tables of graphs: those that pyarrow writes."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any, Callable

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from graph_sources import PlainGraph, TypedGraph, of_npz, random_plain, random_typed

from packhouse import Client, GraphTable, LocalServer
from packhouse.files import arrow, npz


def write_stream(table: Any, path: str) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def write_file(table: Any, path: str) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=11)


WRITERS: dict[str, Callable[[Any, str], None]] = {
    "graphs.parquet": lambda table, path: pq.write_table(table, path, row_group_size=9),
    "stream.arrow": write_stream,
    "file.ipc": write_file,
    "graphs.feather": lambda table, path: pyarrow.feather.write_feather(table, path),
}


def columns_of(graphs: list[PlainGraph]) -> dict[str, list[Any]]:
    """As data sets on hubs have them: lists of lists."""
    names = {*graphs[0].nodes, *graphs[0].edges, *graphs[0].whole}
    made: dict[str, list[Any]] = {
        "num_nodes": [graph.num_nodes for graph in graphs],
        "edge_index": [graph.edge_index.tolist() for graph in graphs],
    }
    for name in names:
        made[name] = [
            {**graph.nodes, **graph.edges, **graph.whole}[name].tolist() for graph in graphs
        ]
    return made


def table_of(graphs: list[PlainGraph]) -> Any:
    first = graphs[0]
    types = {}
    for arrays, depth in ((first.nodes, 1), (first.edges, 1), (first.whole, 0)):
        for name, array in arrays.items():
            types[name] = pa.from_numpy_dtype(array.dtype)
            for _ in range(array.ndim):
                types[name] = pa.list_(types[name])
    types["num_nodes"] = pa.int64()
    types["edge_index"] = pa.list_(pa.list_(pa.int64()))
    columns = columns_of(graphs)
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


def assert_same_graphs(table: GraphTable, graphs: list[PlainGraph]) -> None:
    assert len(table) == len(graphs)
    assert table.graph_ids.tolist() == list(range(len(graphs)))
    for number, graph in enumerate(graphs):
        mine = table.graph(number)
        assert table.sizes[number].tolist() == [graph.num_nodes, graph.edge_index.shape[1]]
        assert mine["senders"].tolist() == graph.edge_index[0].tolist()
        assert mine["receivers"].tolist() == graph.edge_index[1].tolist()
        for arrays in (graph.nodes, graph.edges):
            for name, array in arrays.items():
                assert mine[name].dtype == array.dtype
                np.testing.assert_array_equal(mine[name], array)
        for name, array in graph.whole.items():
            np.testing.assert_array_equal(mine[name].reshape(array.shape), array)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("seed", range(2))
def test_graphs_of_every_kind_of_file(tmp_path: pathlib.Path, name: str, seed: int) -> None:
    graphs = list(random_plain(seed, 40))
    path = tmp_path / name
    WRITERS[name](table_of(graphs), str(path))
    assert_same_graphs(arrow.load(path), graphs)
    parts = list(arrow.tables(path, graphs_per_table=6))
    assert max(map(len, parts)) <= 6
    assert_same_graphs(GraphTable.concatenate(parts), graphs)


def test_real_molecules_are_those_of_the_other_file(
    tmp_path: pathlib.Path, shared_data: Callable[[str], pathlib.Path]
) -> None:
    path = shared_data("graphs/molhiv.npz")
    graphs = of_npz(path, 300)
    pq.write_table(table_of(graphs), tmp_path / "molhiv.parquet")
    whole = npz.load(path)
    chosen = np.sort(np.random.default_rng(0).permutation(len(whole))[:300])
    ours, theirs = arrow.load(tmp_path / "molhiv.parquet"), whole.take(chosen)
    assert ours.sizes.tolist() == theirs.sizes.tolist()
    for name in ("senders", "receivers", "x", "edge_attr"):
        np.testing.assert_array_equal(ours.tensors[name], theirs.tensors[name])


def test_pairs_of_ends_and_lists_of_fixed_size(tmp_path: pathlib.Path) -> None:
    pairs = [[[0, 1], [1, 2], [2, 0]], [], [[0, 0]]]
    x = pa.array([[[1.0, 2.0]] * 3, [], [[3.0, 4.0]]], pa.list_(pa.list_(pa.float32(), 2)))
    table = pa.table({"edge_index": pairs, "x": x, "y": pa.array([1, 2, 3], pa.int8())})
    pq.write_table(table, tmp_path / "pairs.parquet")
    read = arrow.load(tmp_path / "pairs.parquet")
    assert read.sizes.tolist() == [[3, 3], [0, 0], [1, 1]]
    assert read.tensors["senders"].tolist() == [0, 1, 2, 0]
    assert read.tensors["receivers"].tolist() == [1, 2, 0, 0]
    assert read.tensors["x"].shape == (4, 2) and read.tensors["x"].dtype == np.float32
    assert read.tensors["y"].tolist() == [1, 2, 3]


PATH, FORK = [[0, 1], [1, 2], [2, 3]], [[0, 1], [0, 2]]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("graphs_per_table", [1, 2, 3, 100])
def test_edges_are_read_in_one_way_in_all_parts(
    tmp_path: pathlib.Path, name: str, graphs_per_table: int
) -> None:
    # Alone, the last graph could have sources 0 and 1, and targets 0 and 2.
    table = pa.table({"num_nodes": [4, 4, 3], "edge_index": [PATH, PATH, FORK]})
    WRITERS[name](table, str(tmp_path / name))
    parts = list(arrow.tables(tmp_path / name, graphs_per_table=graphs_per_table))
    assert parts[-1].tensors["senders"][-2:].tolist() == [0, 0]
    assert parts[-1].tensors["receivers"][-2:].tolist() == [1, 2]


def test_two_lists_are_empty_or_left_out_where_there_is_no_edge(tmp_path: pathlib.Path) -> None:
    lists = pa.array([[], [[0, 0], [1, 2]], [[], []], [[0], [1]]], pa.list_(pa.list_(pa.int64())))
    table = pa.table({"num_nodes": [1, 3, 2, 2], "edge_index": lists})
    pq.write_table(table, tmp_path / "lists.parquet")
    read = arrow.load(tmp_path / "lists.parquet")
    assert read.sizes.tolist() == [[1, 0], [3, 2], [2, 0], [2, 1]]
    assert read.tensors["senders"].tolist() == [0, 0, 0]
    assert read.tensors["receivers"].tolist() == [1, 2, 1]


def test_what_can_be_read_in_two_ways_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "two.parquet"
    pq.write_table(pa.table({"num_nodes": [3, 3], "edge_index": [FORK, FORK]}), path)
    with pytest.raises(ValueError, match="two.parquet: column 'edge_index' has two lists of two"):
        arrow.load(path)
    # Fingerprints of three bits, of molecules that have three atoms.
    columns = {"num_nodes": [3, 3], "edge_index": [PATH, PATH[:2] + [[2, 0]]]}
    pq.write_table(pa.table({**columns, "bits": [[0, 1, 1], [1, 0, 0]]}), path)
    with pytest.raises(ValueError, match="as nodes and as edges and as 3 in each graph: say which"):
        arrow.load(path)
    pq.write_table(pa.table({**columns, "graph_bits": [[0, 1, 1], [1, 0, 0]]}), path)
    assert arrow.load(path).tensors["graph_bits"].tolist() == [[0, 1, 1], [1, 0, 0]]


@pytest.mark.parametrize("graphs_per_table", [1, 2, 100])
def test_all_graphs_say_what_a_list_belongs_to(
    tmp_path: pathlib.Path, graphs_per_table: int
) -> None:
    # The first graph's lists fit everything, the second's the edges alone.
    columns = {
        "num_nodes": [3, 4, 3],
        "edge_index": [[[0, 1], [1, 2], [2, 0]], [[0, 1]], PATH[:2]],
        "bond": [[5, 6, 7], [8], [9, 9]],
        "bits": [[1, 0, 1], [1, 1, 1], [0, 0, 1]],
    }
    pq.write_table(pa.table(columns), tmp_path / "bonds.parquet")
    parts = list(arrow.tables(tmp_path / "bonds.parquet", graphs_per_table=graphs_per_table))
    for part in parts:
        assert {spec.name: spec.component for spec in part.schema.tensors} == {
            "senders": "edges", "receivers": "edges", "bond": "edges", "bits": "graphs"
        }
    read = GraphTable.concatenate(parts)
    assert read.tensors["bond"].tolist() == [5, 6, 7, 8, 9, 9]
    assert read.tensors["bits"].tolist() == columns["bits"]


def test_another_count_beside_edges_is_a_graphs_own(tmp_path: pathlib.Path) -> None:
    columns = {"num_nodes": [4, 3], "num_rings": [0, 1], "edge_index": [PATH, FORK]}
    pq.write_table(pa.table(columns), tmp_path / "rings.parquet")
    read = arrow.load(tmp_path / "rings.parquet")
    assert read.schema.components == ("nodes", "edges")
    assert read.tensors["num_rings"].tolist() == [0, 1]
    assert read.tensors["receivers"].tolist() == [1, 2, 3, 1, 2]


@pytest.mark.parametrize("seed", range(6))
def test_a_file_in_any_parts_is_the_same_graphs(tmp_path: pathlib.Path, seed: int) -> None:
    """Small graphs, of which few say alone what a column is; as pairs and as two lists."""
    random = np.random.default_rng(seed)
    num_nodes = random.integers(1, 4, 30)
    edges = [random.integers(0, nodes, (int(random.integers(0, 4)), 2)) for nodes in num_nodes]
    for as_lists in (False, True):
        columns = {
            "num_nodes": num_nodes,
            "edge_index": pa.array(
                [(one.T if as_lists else one).tolist() for one in edges],
                pa.list_(pa.list_(pa.int64())),
            ),
            "weight": [random.random(len(one)).tolist() for one in edges],
            "charge": [random.random(nodes).tolist() for nodes in num_nodes],
        }
        path = tmp_path / "some.parquet"
        pq.write_table(pa.table(columns), path)
        whole = arrow.load(path)
        assert whole.tensors["senders"].tolist() == np.concatenate(edges)[:, 0].tolist()
        assert whole.tensors["receivers"].tolist() == np.concatenate(edges)[:, 1].tolist()
        for most in (1, 2, 7):
            parts = list(arrow.tables(path, graphs_per_table=most))
            assert GraphTable.concatenate(parts).equals(whole)


def test_types_of_nodes_and_edges(tmp_path: pathlib.Path) -> None:
    graphs: list[TypedGraph] = list(random_typed(3, 25))
    columns: dict[str, Any] = {}
    for name in graphs[0].nodes:
        columns[f"num_{name}"] = [graph.num_nodes[name] for graph in graphs]
    for key in graphs[0].edge_index:
        component = ".".join(key)
        columns[f"num_{component}"] = [len(graph.edge_index[key][0]) for graph in graphs]
        columns[f"{component}.edge_index"] = pa.array(
            [[end.tolist() for end in graph.edge_index[key]] for graph in graphs],
            pa.list_(pa.list_(pa.int32())),
        )
    pq.write_table(pa.table(columns), tmp_path / "typed.parquet")
    table = arrow.load(tmp_path / "typed.parquet")
    for number, graph in enumerate(graphs):
        mine = table.graph(number)
        for key, (source, target) in graph.edge_index.items():
            component = ".".join(key)
            assert mine[f"{component}.source"].tolist() == source.tolist()
            assert mine[f"{component}.target"].tolist() == target.tolist()
    spec = {spec.name: spec for spec in table.schema.tensors}
    assert spec[f"{component}.source"].index_into == key[0]


@pytest.mark.parametrize(
    "columns, words",
    [
        ({"num_nodes": [1], "smiles": ["C"]}, "column 'smiles' has type string, .* leave it out"),
        ({"num_nodes": [1], "x": [None]}, "column 'x' has a null"),
        ({"num_nodes": [2], "x": [[1, 2, 3]]}, "'x' has 3 entries in row 0, which has 2 nodes"),
        ({"num_nodes": [2], "x": [[[1], [1, 2]]]}, "'x' has lists of 1 to 2 entries"),
        ({"y": [1.5]}, "no column says how many nodes"),
        ({"num_nodes": [2.5]}, "column 'num_nodes' is no count"),
        ({"num_nodes": [2], "edge_index": [[[0, 1], [1]]]}, "'edge_index' has neither two lists"),
        (
            {"num_nodes": [1], "edge_index": [[[0], [0]]], "z": [[5.0]]},
            "'z' has as many entries as nodes and as edges",
        ),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: pathlib.Path, columns: dict[str, Any], words: str
) -> None:
    path = tmp_path / "wrong.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(ValueError, match=f"wrong.parquet: .*{words}"):
        arrow.load(path)


def test_a_column_can_be_left_out(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"num_nodes": [1], "smiles": ["C"]}), tmp_path / "text.parquet")
    table = arrow.load(tmp_path / "text.parquet", exclude_columns=["smiles"])
    assert table.sizes.tolist() == [[1, 0]] and not table.tensors


def test_what_is_no_such_file_is_named(tmp_path: pathlib.Path) -> None:
    for name in WRITERS:
        (tmp_path / name).write_bytes(b"no such thing")
        with pytest.raises((ValueError, OSError)):
            arrow.load(tmp_path / name)


def test_the_command_stores_all_files(
    server: LocalServer, client: Client, tmp_path: pathlib.Path
) -> None:
    graphs = list(random_plain(4, 30))
    for number in range(2):
        part = table_of(graphs[15 * number : 15 * (number + 1)])
        pq.write_table(part, tmp_path / f"{number}.parquet")
    command = [sys.executable, "-B", "-m", "packhouse", "ingest", "--server", server.address]
    command += ["--dataset", "parquet", "--seal"]
    files = [str(tmp_path / f"{number}.parquet") for number in range(2)]
    ran = subprocess.run(command + files, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert client.datasets.get("parquet").num_graphs == 30
