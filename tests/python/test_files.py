"""Files of graphs, and the command that stores them."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
import zipfile
from typing import Any

import numpy as np
import pytest

from packhouse import Client, GraphTable, LocalServer
from packhouse.files import file_kinds, mds_files, npz, reading as files

ARRAYS: dict[str, Any] = {
    "node_offsets": np.array([0, 2, 5]),
    "edge_offsets": np.array([0, 1, 3]),
    "edge_index": np.array([[0, 1, 2], [1, 0, 2]]),
    "x": np.arange(10, dtype=np.float32).reshape(5, 2),
}


def packhouse(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "-m", "packhouse", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_several_files_are_one_data_set(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "a.npz", **ARRAYS)
    np.savez(tmp_path / "b.npz", **ARRAYS)
    tables = list(files.tables([tmp_path / "a.npz", tmp_path / "b.npz"]))
    whole = GraphTable.concatenate(tables)
    assert whole.graph_ids.tolist() == [0, 1, 2, 3]
    one = npz.load(tmp_path / "a.npz")
    assert whole.tensors["x"].tolist() == 2 * one.tensors["x"].tolist()
    np.savez(tmp_path / "c.npz", **{**ARRAYS, "x": np.zeros((5, 3))})
    with pytest.raises(ValueError, match="c.npz: its graphs differ from those of .*a.npz"):
        list(files.tables([tmp_path / "a.npz", tmp_path / "c.npz"]))


@pytest.mark.parametrize("ending", [".pt", ".pth"])
def test_a_pickle_is_not_read(tmp_path: pathlib.Path, ending: str) -> None:
    """Not even opened: what is in it would run."""
    ran = tmp_path / "ran"
    made = tmp_path / f"data{ending}"

    class Program:
        def __reduce__(self) -> Any:
            return pathlib.Path.touch, (ran,)

    made.write_bytes(pickle.dumps(Program()))
    with pytest.raises(PermissionError, match="is a pickle: .*--trust-pickle"):
        files.tables([made])
    output = packhouse("ingest", made, "--dataset", "x")
    assert output.returncode == 1 and "--trust-pickle" in output.stderr
    assert not ran.exists()


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["graphs/data.pkl", "graphs/data/0"], "a file of torch.save"),
        (["x.npy", "y.npy"], "an archive of numpy's arrays"),
        (["x.npy", "readme"], "a zip archive"),
        ([], "a zip archive"),
    ],
)
def test_an_archive_is_known_by_what_is_in_it(
    tmp_path: pathlib.Path, names: list[str], what: str
) -> None:
    path = tmp_path / "graphs"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"0")
    kind = file_kinds.kind_of(path)
    assert kind is not None and kind[0] == what


def test_unknown_files_are_refused_before_any_is_read(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="graphs.zip: its ending tells of no kind of file"):
        files.tables([tmp_path / "missing.npz", "graphs.zip"])
    with pytest.raises(ValueError, match="a.npz: nothing can be left out of files of this kind"):
        files.tables(["a.npz"], exclude=["x"])


def test_an_ingest_that_is_repeated_stores_nothing_twice(
    server: LocalServer, client: Client, tmp_path: pathlib.Path
) -> None:
    """As after a failure: open still, and with a part of the graphs stored."""
    np.savez(tmp_path / "graphs.npz", **ARRAYS)
    for _ in range(3):
        ingest = ("ingest", "--server", server.address, "--dataset", "repeated")
        output = packhouse(*ingest, tmp_path / "graphs.npz")
        assert output.returncode == 0, output.stderr
    assert client.datasets.get("repeated").num_graphs == 2


def test_a_command_stores_a_file_once(
    server: LocalServer, client: Client, tmp_path: pathlib.Path
) -> None:
    np.savez(tmp_path / "graphs.npz", **ARRAYS)
    (tmp_path / "sizes.csv").write_text("num_nodes,num_edges\n3,4\n5,6\n")
    ingest = ("ingest", "--server", server.address, "--dataset", "from-a-file")
    for _ in range(2):
        output = packhouse(*ingest, tmp_path / "graphs.npz", "--seal")
        assert output.returncode == 0, output.stderr
        assert output.stdout.startswith("from-a-file: 2 graphs, ")
        assert output.stdout.splitlines()[0].endswith("; sealed")
        assert "x: float32" in output.stdout
    assert client.datasets.get("from-a-file").num_graphs == 2
    other = packhouse(*ingest, tmp_path / "sizes.csv")
    assert other.returncode == 1
    assert other.stderr == (
        "packhouse: data set 'from-a-file' exists and has another schema: it has a tensor 'senders', "
        "which the first of these graphs lacks [INVALID_ARGUMENT]\n"
    )


def test_a_mistyped_command_gets_a_suggestion() -> None:
    output = packhouse("igest", "graphs.npz")
    assert output.returncode == 2
    assert "there is no command 'igest'; did you mean 'ingest'?" in output.stderr


BROKEN_INDEXES: list[tuple[str, str]] = [
    ("", "Expecting value"),
    ("[]", "list indices"),
    ("{}", "'shards'"),
    ('{"shards": [{"format": "csv"}]}', "a shard has the format 'csv', not 'mds'"),
    ('{"shards": [{"format": "mds", "raw_data": {}}]}', "neither raw_data nor zip_data"),
    ('{"shards": [{"format": "mds", "raw_data": {"bytes": 1}}]}', "'basename'"),
    ('{"shards": [{"format": "mds", "raw_data": "a"}]}', "string indices"),
]


@pytest.mark.parametrize("content, words", BROKEN_INDEXES)
def test_a_broken_index_of_shards_is_named(
    tmp_path: pathlib.Path, content: str, words: str
) -> None:
    """Also where the shards before are whole: never fewer graphs without a word."""
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(ValueError, match=f"index.json: is no index of MDS shards: .*{words}"):
        list(mds_files.items(str(tmp_path), trust_pickle=False))
