"""Files that are not what a command reads: told for what they are, never taken for something else.

One law for every command that takes a file: it ends by itself with status 1 or 2, names the file, and
says what it is and what to do in readable text: no traceback, no byte that a terminal would act on.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import pathlib
import pickle
import random
import sqlite3
import subprocess
import zipfile
from collections.abc import Iterator

import numpy as np
import pytest
import warm_command

from packhouse import LocalServer

pytestmark = pytest.mark.skipif(
    "PACKHOUSE_CLI" not in os.environ or "PACKHOUSED" not in os.environ,
    reason="PACKHOUSE_CLI and PACKHOUSED do not name programs",
)


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    data = tmp_path_factory.mktemp("data")
    with LocalServer(data_dir=data, log=subprocess.DEVNULL) as server:
        yield server


def _database() -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("create table graphs (nodes int)")
        if not hasattr(database, "serialize"):  # Before Python 3.11.
            return b"SQLite format 3\0" + bytes(80)
        return database.serialize()


def _zip(names: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in names.items():
            archive.writestr(name, content)
    return file.getvalue()


def _npz(**arrays: object) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _npy(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)  # type: ignore[arg-type]
    return file.getvalue()


# What is said of a file somewhere in the message; empty: any reason will do.
KINDS: dict[str, tuple[bytes, str]] = {
    "graph.h5": (b"\x89HDF\r\n\x1a\n" + bytes(range(256)), "HDF5"),
    "graph.db": (_database(), "SQLite"),
    "graph.pkl": (pickle.dumps({"edge_index": [[0], [1]]}, protocol=4), "pickle"),
    "old.pkl": (pickle.dumps([1, 2], protocol=2), "pickle"),
    "graph.graphml": (b'<?xml version="1.0"?>\n<graphml><graph/></graphml>\n', "XML"),
    "bare.graphml": (b"<graphml><graph/></graphml>\n", "GraphML"),
    "graph.gml": (b"graph [\n  node [ id 0 ]\n]\n", "GML"),
    "one.npy": (_npy(np.arange(6)), "array of numpy"),
    "graph.parquet": (b"PAR1" + bytes(40) + b"PAR1", ""),
    "graph.arrow": (b"ARROW1\0\0" + bytes(40), ""),
    "graph.bin": (bytes(random.Random(1).randrange(256) for _ in range(600)), ""),
    "zeros": (bytes(100), ""),
    "escapes.csv": (b"\x1b]0;owned\x07num_nodes,\x1b[31mnum_edges\n\x1b[2J1,\x9b2\n", ""),
    "latin.csv": ("Knoten;Länge\n1;2\n".encode("latin-1"), ""),
    "utf16.csv": ("num_nodes,num_edges\n1,2\n".encode("utf-16"), ""),
    "empty.csv": (b"", ""),
    "cut.csv.gz": (gzip.compress(b"num_nodes,num_edges\n" + b"1,2\n" * 500)[:-12], ""),
    "words.csv": (b"num_nodes,num_edges\none,two\n", ""),
    "long.csv": (b"x" * (3 << 20), ""),
    "graph.zip": (_zip({"readme.txt": b"hello"}), ""),
    "cut.npz": (_npz(node_offsets=np.arange(2000), edge_offsets=np.arange(2000))[:9000], ""),
    "objects.npz": (_npz(node_offsets=np.array([{}, {}], object)), ""),
    "strange.npz": (_npz(**{"../../x": np.arange(3)}), ""),
    "list.json": (b'[{"nodes": 1}]\n', ""),
    "deep.json": (b"[" * 100000, ""),
    "metadata.json": (b'{"node_type": 3}\n', ""),
    "cut.pbtxt": (b'node_sets { key: "a', ""),
    "edges.txt": (b"0 1\n1 2\n", ""),
    "binary.pb": (b"\x0a\x05hello\x12\xff\xff\xff\xff\x0f", ""),
    "nodes.tfrecord": (b"\x10\0\0\0\0\0\0\0\1\2\3\4half", ""),
}

# In place of FILE the path; a list stands for one command.
COMMANDS = [
    ["plan", "--sizes", "FILE", "--limit", "nodes=100"],
    ["tune", "--sizes", "FILE", "--max", "nodes=100"],
    ["histogram", "--sizes", "FILE"],
    ["pack", "--sizes", "FILE", "--limit", "nodes=100"],
    ["pack", "--sizes", "GOOD", "--device", "FILE"],
    ["plan", "--sizes", "GOOD", "--limit", "nodes=100", "--warm-start", "FILE"],
    ["ingest", "FILE", "--server", "SERVER", "--dataset", "d"],
    ["ingest", "FILE", "--server", "SERVER", "--dataset", "d", "--graph-schema", "SCHEMA"],
    ["ingest", "GOOD", "--server", "SERVER", "--dataset", "d", "--graph-schema", "FILE"],
    ["graph", "import", "FILE", "--server", "SERVER", "--graph", "g"],
    ["partition", "FILE", "--parts", "2", "--output", "OUT"],
    ["partition", "export", "FILE", "--output", "OUT"],
    ["partition", "restore", "FILE", "--partition", "FILE", "--output", "OUT"],
    ["partition", "convert", "--schema", "FILE", "--input-dir", "DIR", "--graph-name", "g",
     "--num-parts", "1", "--num-node-weights", "1", "--output", "OUT"],
    ["tfgnn", "validate", "FILE"],
    ["tfgnn", "print", "FILE", "--graph-schema", "SCHEMA"],
    ["tfgnn", "stats", "FILE", "--graph-schema", "SCHEMA"],
    ["policy", "check", "FILE"],
    ["convert-chunked", "FILE", "--output", "OUT"],
]
# What reads these files without an error, for what they are.
TAKES = {
    ("empty.csv", "tfgnn"),
    ("empty.csv", "ingest FILE --server SERVER --dataset d --graph"),
    ("empty.csv", "ingest GOOD"),
}


@pytest.fixture(name="words", scope="module")
def words_fixture(server: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("good")
    (folder / "good.csv").write_text("num_nodes,num_edges\n1,2\n3,4\n")
    (folder / "schema.pbtxt").write_text(
        'node_sets { key: "n" value { features { key: "x" value { dtype: DT_INT64 } } } }\n')
    return {"GOOD": str(folder / "good.csv"), "SCHEMA": str(folder / "schema.pbtxt"),
            "SERVER": server.address, "DIR": str(folder)}


def faults(status: int, output: str, path: pathlib.Path, told: str) -> list[str]:
    """What is wrong with the answer."""
    strange = {c for c in output if (not c.isprintable() and c not in "\n\t") or c == "\ufffd"}
    wrong = {
        f"status {status}": status not in (1, 2),
        "a traceback": "Traceback" in output or "terminate called" in output,
        f"bytes {strange}": bool(strange),
        "the file is not named": path.name not in output,
        f"{told!r} is not told": told not in output,
        "too long": len(output) > 4000,
    }
    return [f"{path.name}: {what}: {output[:400]}" for what, is_so in wrong.items() if is_so]


def with_words(command: list[str], words: dict[str, str], path: pathlib.Path) -> list[str]:
    places = {**words, "FILE": str(path), "OUT": str(path.parent / "out")}
    return [places.get(word, word) for word in command]


def run(words: list[str]) -> tuple[int, str]:
    """Exit status, and all that is printed."""
    if words[0] == "policy":  # It works on the disk: it is the server's program.
        done = subprocess.run(
            [os.environ["PACKHOUSED"], *words],
            stdin=subprocess.DEVNULL, capture_output=True, errors="replace", timeout=120, check=False)
    else:
        done = warm_command.run(*words)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_command_line_tells_what_a_file_is(
    tmp_path: pathlib.Path, words: dict[str, str], command: list[str]
) -> None:
    # Of a file that a command looks for by its ending, or reads as a graph or sizes, it says the kind.
    says_kinds = command[0] in ("plan", "tune", "histogram", "pack", "ingest", "graph", "partition")
    says_kinds = says_kinds and command[1] in ("--sizes", "FILE", "import", "export")
    says_kinds = says_kinds and "FILE" in command[:3] and "--graph-schema" not in command
    wrong: list[str] = []
    for name, (content, told) in KINDS.items():
        if any(name == file and " ".join(command).startswith(start) for file, start in TAKES):
            continue
        path = tmp_path / name
        path.write_bytes(content)
        status, output = run(with_words(command, words, path))
        wrong += faults(status, output, path, told if says_kinds else "")
        assert not (tmp_path / "out").exists()
    # A folder, and what is not there.
    for path in (tmp_path, tmp_path / "none"):
        wrong += faults(*run(with_words(command, words, path)), path, "")
    assert not wrong, "\n".join(wrong)
