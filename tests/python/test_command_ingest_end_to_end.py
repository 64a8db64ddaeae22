"""`packhouse ingest`: what it stores, says and refuses. Kills are in tests/end_to_end/ingest_test.py."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pytest

from packhouse import Client, GraphTable, LocalServer
from packhouse.command.program import main
from packhouse.files import npz, tfrecords
from packhouse.frameworks.tfgnn.schemas import ExampleMessage

ARRAYS: dict[str, Any] = {
    "node_offsets": np.array([0, 2, 5, 9]),
    "edge_offsets": np.array([0, 1, 3, 6]),
    "edge_index": np.array([[0, 1, 2, 0, 1, 2], [1, 0, 2, 1, 2, 3]]),
    "x": np.arange(18, dtype=np.float32).reshape(9, 2),
}


@pytest.fixture(name="ingest")
def ingest_fixture(server: LocalServer, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command: its status, output and errors."""

    def ingest(dataset: str, *words: object) -> tuple[int, str, str]:
        arguments = ["ingest", "--server", server.address, "--dataset", dataset, *map(str, words)]
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return ingest


@pytest.fixture(name="source")
def source_fixture(tmp_path: pathlib.Path) -> pathlib.Path:
    np.savez(tmp_path / "graphs.npz", **ARRAYS, fold=np.array([7, 7, 1]))
    return tmp_path / "graphs.npz"


def test_groups_are_stored_with_their_graphs(
    ingest: Any, client: Client, source: pathlib.Path
) -> None:
    status, _, errors = ingest("cli/groups", source, "--groups", "fold")
    assert (status, errors) == (0, "")
    dataset = client.datasets.get("cli/groups")
    assert dataset.grouped and "fold" not in [spec.name for spec in dataset.schema.tensors]
    np.savez(source.with_name("other.npz"), **ARRAYS)
    status, _, errors = ingest("cli/groups", source.with_name("other.npz"))
    assert status == 1
    assert "is grouped, the source has no group ids (--groups) [FAILED_PRECONDITION]" in errors
    status, _, errors = ingest("cli/groups", source.with_name("sizes.csv"), "--groups", "fold")
    assert status == 1 and "cannot open" in errors


def test_the_schema_that_was_found_is_told(ingest: Any, source: pathlib.Path) -> None:
    """What each column is taken for, so that another reading of a file is seen at once."""
    status, out, _ = ingest("cli/told", source, "--seal")
    assert status == 0
    told = out[out.index("  components: ") :]
    assert told.splitlines() == [
        "  components: nodes, edges",
        "  senders: int32 of edges, into nodes",
        "  receivers: int32 of edges, into nodes",
        "  x: float32 [2] of nodes",
        "  fold: int64 of graphs",
    ]


def test_sources_follow_one_another_and_none_is_stored_twice(
    ingest: Any, client: Client, source: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    np.savez(tmp_path / "more.npz", **{**ARRAYS, "x": ARRAYS["x"] + 1}, fold=np.array([1, 2, 3]))
    for name, before in ((source, 0), (tmp_path / "more.npz", 3)):
        status, output, errors = ingest("cli/several", name)
        assert status == 0
        assert "stored 3 graphs, 0 had been there" in output
        assert (f"had {before} graphs before" in errors) == bool(before)
    for name in (tmp_path / "more.npz", source):
        status, output, errors = ingest("cli/several", name, "--seal")
        assert (status, errors) == (0, "")
        assert "stored 0 graphs, 3 had been there" in output
        assert output.splitlines()[0].endswith("; sealed")
    assert client.datasets.get("cli/several").num_graphs == 6
    # By its content, whatever it is called; another cut is another source.
    moved = source.rename(tmp_path / "moved")
    status, output, _ = ingest("cli/several", moved)
    assert "stored 0 graphs, 3 had been there" in output
    status, _, errors = ingest("cli/several", moved, "--chunk-bytes", "4KiB")
    assert status == 1 and "[FAILED_PRECONDITION]" in errors


def test_bounds_are_those_of_the_data_set(
    ingest: Any, client: Client, source: pathlib.Path
) -> None:
    rows = ("--max-rows", "nodes=3")
    status, _, errors = ingest("cli/bounds", source, *rows, "--max-bytes", "1MiB")
    assert status == 1 and "[OUT_OF_RANGE]" in errors
    assert dict(client.datasets.get("cli/bounds").max_rows) == {"nodes": 3}
    for words, told in (
        (("--max-rows", "nodes=4"), "was created with max_rows nodes=3, wanted is nodes=4"),
        (("--max-bytes", "2MiB"), "was created with max_bytes 1048576, wanted is 2097152"),
        ((*rows, "--oversize", "partition"), "was created without cutting graphs"),
    ):
        status, _, errors = ingest("cli/bounds", source, *words)
        assert status == 1 and told in errors, errors
    for words, told in (
        (("--max-rows", "faces=4"), "--max-rows 'faces=4': the components are nodes, edges"),
        (("--oversize", "partition"), "--oversize needs --max-rows"),
        (("--chunk-bytes", "1KiB"), "must be a number of bytes from 4.0 KiB to 32.0 MiB"),
    ):
        status, _, errors = ingest("cli/bounds", source, *words)
        assert status == 2 and told in errors, errors


def test_graphs_that_the_server_cuts_are_stored_once(
    ingest: Any, client: Client, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "path.npz"
    np.savez(
        path,
        node_offsets=np.array([0, 40, 42]),
        edge_offsets=np.array([0, 39, 40]),
        edge_index=np.array([[*range(39), 0], [*range(1, 40), 1]]),
    )
    cut = ("--max-rows", "nodes=16", "--oversize", "partition")
    status, output, _ = ingest("cli/cut", path, *cut)
    assert status == 0
    found = re.search(r"stored as ([\d,]+) graphs with their pieces", output)
    assert found is not None and int(found[1]) > 2
    status, output, _ = ingest("cli/cut", path, *cut)
    assert "stored 0 graphs, 2 had been there" in output
    assert client.datasets.get("cli/cut").num_graphs == int(found[1])


def test_graphs_that_cannot_be_stored_leave_no_data_set(
    ingest: Any, client: Client, tmp_path: pathlib.Path
) -> None:
    """One end of an edge is no node: the server names it."""
    path = tmp_path / "wrong.npz"
    np.savez(path, **{**ARRAYS, "edge_index": ARRAYS["edge_index"] + 2})
    status, _, errors = ingest("cli/wrong", path)
    assert status == 1 and "receivers" in errors or "senders" in errors
    assert "cli/wrong" not in [dataset.name for dataset in client.datasets.list()]


def test_several_files_and_kinds_are_one_data_set(
    ingest: Any, client: Client, source: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    np.savez(tmp_path / "more.npz", **ARRAYS, fold=np.array([1, 2, 3]))
    status, output, _ = ingest("cli/joined", source, tmp_path / "more.npz")
    assert status == 0 and "stored 6 graphs, 0 had been there" in output
    status, output, _ = ingest("cli/joined", source, tmp_path / "more.npz")
    assert "stored 0 graphs, 6 had been there" in output
    expected = GraphTable.concatenate([npz.load(source), npz.load(tmp_path / "more.npz")])
    assert client.datasets.get("cli/joined").num_graphs == len(expected) == 6
    (tmp_path / "sizes").write_text("num_nodes,num_edges\n3,4\n5,6\n")
    status, output, _ = ingest("cli/text", tmp_path / "sizes", "--quiet")
    assert (status, output) == (0, "")
    assert client.datasets.get("cli/text").num_graphs == 2


SCHEMA = """
node_sets { key: "n" value { features { key: "x" value { dtype: DT_INT64 } } } }
"""


def record(values: list[int], prefix: str = "") -> bytes:
    """A tf.Example of a graph with a node for each value."""
    message = ExampleMessage()
    features = message.features.feature
    features[f"{prefix}nodes/n.#size"].int64_list.value.append(len(values))
    features[f"{prefix}nodes/n.x"].int64_list.value.extend(values)
    return bytes(message.SerializeToString())


def test_records_may_have_a_prefix_and_get_a_read_out(
    ingest: Any, client: Client, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "schema.pbtxt").write_text(SCHEMA)
    of_schema = ("--graph-schema", tmp_path / "schema.pbtxt")
    with tfrecords.Writer([str(tmp_path / "plain")]) as plain:
        with tfrecords.Writer([str(tmp_path / "prefixed")]) as prefixed:
            for values in ([3, 4], [5], [6, 7, 8]):
                plain.write(record(values))
                prefixed.write(record(values, "in/"))
    assert ingest("cli/plain", tmp_path / "plain", *of_schema)[0] == 0
    status, output, _ = ingest(
        "cli/prefixed", tmp_path / "prefixed", *of_schema, "--key-prefix", "in/"
    )
    assert status == 0 and "stored 3 graphs" in output
    assert (
        client.datasets.get("cli/prefixed").schema == client.datasets.get("cli/plain").schema
    )
    status, _, _ = ingest(
        "cli/readout", tmp_path / "plain", *of_schema, "--readout", "seed=n", "--seal"
    )
    dataset = client.datasets.get("cli/readout", include_histogram=True)
    assert status == 0
    assert dataset.schema.components == ("_readout", "n", "_readout/seed")
    assert dataset.histogram is not None
    assert dataset.histogram.totals == {"_readout": 3, "n": 6, "_readout/seed": 3}
    for words, told in (
        (("--readout", "seed"), "--readout 'seed': must be KEY=NODE_SET"),
        (("--readout", "seed=m"), "the schema has no node set 'm'"),
        (("--groups", "g"), "--groups names an array; records have none"),
    ):
        status, _, errors = ingest("cli/wrong-words", tmp_path / "plain", *of_schema, *words)
        assert status == 1 and told in errors, errors


def test_a_graph_without_the_node_of_a_read_out_is_named(
    ingest: Any, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "schema.pbtxt").write_text(SCHEMA)
    with tfrecords.Writer([str(tmp_path / f"f-0000{k}-of-00002") for k in range(2)]) as writer:
        for values in ([1], [2], [3], []):
            writer.write(record(values))
    status, _, errors = ingest(
        "cli/no-node", f"{tmp_path / 'f'}@2", "--graph-schema", tmp_path / "schema.pbtxt",
        "--readout", "seed=n",
    )  # fmt: skip
    assert status == 1
    assert f"{tmp_path / 'f-00001-of-00002'}: record 1: has no node of 'n' for --readout" in errors
