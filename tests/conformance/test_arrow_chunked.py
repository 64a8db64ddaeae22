"""A graph in DGL's chunked layout with Parquet files, which pyarrow has written."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

from packhouse.__main__ import main
from packhouse.files import chunked_parquet

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

EDGES = np.array([[0, 1], [2, 0], [1, 1], [2, 2]])
RNG = np.random.default_rng(0)
FEATURES = {
    "flat": np.arange(3, dtype=np.int16),
    "matrix": RNG.random((3, 5), np.float32),
    "cube": RNG.random((3, 2, 4)),
    "mask": np.array([True, False, True]),
}


def write_as_dgl(path: pathlib.Path, array: np.ndarray) -> None:
    """As DGL's ParquetArrayParser: columns, and the shape as metadata."""
    flat = array.reshape(len(array), int(np.prod(array.shape[1:])))
    table = pyarrow.table({str(i): flat[:, i] for i in range(flat.shape[1])})
    parquet.write_table(table.replace_schema_metadata({"shape": str(array.shape)}), path)


def metadata(node_data: object, edge_files: list[str]) -> str:
    edges = {"a:r:a": {"format": {"name": "parquet"}, "data": edge_files}}
    return json.dumps({
        "graph_name": "g", "node_type": ["a"], "num_nodes_per_type": [3],
        "edge_type": ["a:r:a"], "num_edges_per_type": [4],
        "edges": edges, "node_data": {"a": node_data}, "edge_data": {},
    })


def test_every_table_is_converted(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "chunked"
    folder.mkdir()
    write_as_dgl(folder / "e0.parquet", EDGES[:1])
    write_as_dgl(folder / "e1.parquet", EDGES[1:])
    node_data = {}
    for name, array in FEATURES.items():
        write_as_dgl(folder / f"{name}.parquet", array)
        node_data[name] = {"format": {"name": "parquet"}, "data": [f"{name}.parquet"]}
    # Others write lists; without a shape there are two dimensions.
    lists = pyarrow.array(FEATURES["matrix"].tolist(), pyarrow.list_(pyarrow.float32()))
    parquet.write_table(pyarrow.table({"v": lists}), folder / "lists.parquet")
    node_data["lists"] = {"format": {"name": "parquet"}, "data": ["lists.parquet"]}
    np.save(folder / "kept.npy", FEATURES["cube"])
    node_data["kept"] = {"format": {"name": "numpy"}, "data": ["kept.npy"]}
    (folder / "metadata.json").write_text(metadata(node_data, ["e0.parquet", "e1.parquet"]))

    output = tmp_path / "out"
    assert main(["convert-chunked", str(folder), "--output", str(output)]) == 0
    assert "7 Parquet files" in capsys.readouterr().out
    made = json.loads((output / "metadata.json").read_text())

    def rows(table: dict[str, object]) -> np.ndarray:
        assert table["format"] == {"name": "numpy"}
        return np.concatenate([np.load(output / name) for name in table["data"]])  # type: ignore

    np.testing.assert_array_equal(rows(made["edges"]["a:r:a"]), EDGES)
    of_nodes = made["node_data"]["a"]
    for name, array in FEATURES.items():
        got = rows(of_nodes[name])
        assert (got.dtype, got.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(got, array)
    np.testing.assert_array_equal(rows(of_nodes["lists"]), FEATURES["matrix"])
    np.testing.assert_array_equal(rows(of_nodes["kept"]), FEATURES["cube"])
    assert not list(tmp_path.glob("*.partial"))
    assert main(["convert-chunked", str(folder), "--output", str(output)]) == 1
    assert "is there already" in capsys.readouterr().err


@pytest.mark.skipif("PACKHOUSE_CLI" not in os.environ, reason="PACKHOUSE_CLI names no program")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_what_is_converted_can_be_partitioned(tmp_path: pathlib.Path, dtype: str) -> None:
    write_as_dgl(tmp_path / "e.parquet", EDGES.astype(dtype))
    write_as_dgl(tmp_path / "x.parquet", FEATURES["cube"])
    data = {"x": {"format": {"name": "parquet"}, "data": ["x.parquet"]}}
    (tmp_path / "metadata.json").write_text(metadata(data, ["e.parquet"]))
    assert chunked_parquet.convert(tmp_path, tmp_path / "out") == 2
    done = subprocess.run(
        [os.environ["PACKHOUSE_CLI"], "partition", "export", tmp_path / "out", "--format", "chunked",
         "--output", tmp_path / "again"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = json.loads((tmp_path / "again" / "metadata.json").read_text())

    def rows(table: dict[str, object]) -> np.ndarray:
        names = table["data"]
        assert table["format"] == {"name": "numpy"} and isinstance(names, list)
        return np.concatenate([np.load(tmp_path / "again" / name) for name in names])

    assert sorted(rows(made["edges"]["a:r:a"]).tolist()) == sorted(EDGES.tolist())
    np.testing.assert_array_equal(rows(made["node_data"]["a"]["x"]), FEATURES["cube"])


@pytest.mark.parametrize(("columns", "words"), [
    ({"s": [0, 1, 2]}, "has 1 columns; edges have two"),
    ({"s": [0, None], "t": [1, 1]}, "column 's' has a null"),
    ({"s": [0.5], "t": [1.0]}, "ids of type float64"),
    ({"s": ["x"], "t": ["y"]}, "column 's' has type string"),
    ({"s": [0], "t": [1.0]}, "column 't' has type float64, the first one int64"),
])
def test_what_is_no_edge_is_named(
    tmp_path: pathlib.Path, columns: dict[str, list[object]], words: str
) -> None:
    parquet.write_table(pyarrow.table(columns), tmp_path / "e.parquet")
    (tmp_path / "metadata.json").write_text(metadata({}, ["e.parquet"]))
    with pytest.raises(ValueError, match=words) as refused:
        chunked_parquet.convert(tmp_path, tmp_path / "out")
    assert "e.parquet" in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_rows_of_other_lengths_and_tables_without_rows(tmp_path: pathlib.Path) -> None:
    write_as_dgl(tmp_path / "e.parquet", EDGES[:0])
    uneven = pyarrow.array([[1], [2, 3], [4, 5, 6]], pyarrow.list_(pyarrow.int64()))
    parquet.write_table(pyarrow.table({"v": uneven}), tmp_path / "x.parquet")
    data = {"x": {"format": {"name": "parquet"}, "data": ["x.parquet"]}}
    (tmp_path / "metadata.json").write_text(metadata(data, ["e.parquet"]))
    with pytest.raises(ValueError, match="lists of different lengths"):
        chunked_parquet.convert(tmp_path, tmp_path / "out")
    (tmp_path / "metadata.json").write_text(metadata({}, ["e.parquet"]))
    assert chunked_parquet.convert(tmp_path, tmp_path / "out") == 1
    assert np.load(tmp_path / "out" / "0-0.npy").shape == (0, 2)
    (tmp_path / "metadata.json").write_text("[]")
    with pytest.raises(ValueError, match="metadata.json"):
        chunked_parquet.convert(tmp_path, tmp_path / "other")
