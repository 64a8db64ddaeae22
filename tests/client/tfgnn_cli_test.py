"""`packhouse tfgnn` and `packhouse ingest --graph-schema`, run as a user runs them.

PACKHOUSE_SHARED_DATA may name a folder with what the real TF-GNN wrote (tfgnn/); without it those
tests are skipped.
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import warm_command

from packhouse.files import tfrecords

CLI = os.environ.get("PACKHOUSE_CLI", "")
SERVER = os.environ.get("PACKHOUSED", "")
GOLDEN = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA") or "/nonexistent") / "tfgnn"

pytestmark = pytest.mark.skipif(
    not (CLI and SERVER), reason="PACKHOUSE_CLI and PACKHOUSED name the programs to test"
)
needs_goldens = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="PACKHOUSE_SHARED_DATA has no folder tfgnn"
)

SCHEMA = """
context { features { key: "label" value { dtype: DT_INT32 } } }
node_sets { key: "paper" value {
  features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 4 } } } }
  features { key: "title" value { dtype: DT_STRING } }
  features { key: "tags" value { dtype: DT_INT64 shape { dim { size: -1 } } } } } }
node_sets { key: "author" value { } }
edge_sets { key: "writes" value { source: "author" target: "paper" } }
"""


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return warm_command.run(*arguments)


def succeed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(name="schema")
def schema_fixture(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "schema.pbtxt"
    path.write_text(SCHEMA, encoding="utf-8")
    return path


@pytest.fixture(name="server")
def server_fixture(tmp_path: pathlib.Path) -> Iterator[str]:
    """The address of a server with a folder for data."""
    with subprocess.Popen(
        [SERVER, "--listen", "127.0.0.1:0", "--http-listen", "", "--lame-duck", "0s",
         "--data-dir", tmp_path / "data"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            assert ready["event"] == "listening"
            yield ready["grpc"]
        finally:
            process.send_signal(signal.SIGTERM)


def graphs_of(schema: pathlib.Path, files: object) -> list[dict[str, dict[str, dict[str, object]]]]:
    output = succeed("tfgnn", "print", "--graph-schema", schema, "--examples", files, "-n", 0)
    return [json.loads(line) for line in output.splitlines()]


def test_validate_shows_tensors_warns_and_refuses(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "s.pbtxt"
    path.write_text(SCHEMA.replace("size: 4", "size: 1"), encoding="utf-8")
    result = run("tfgnn", "validate", path)
    assert result.returncode == 0
    assert "feature 'x' has the shape [1]" in result.stderr
    assert "paper.title.bytes.d1" in result.stdout
    path.write_text(SCHEMA.replace('target: "paper"', 'target: "papers"'), encoding="utf-8")
    result = run("tfgnn", "validate", path)
    assert result.returncode == 1
    assert f"{path}: graph schema: edge set 'writes': there is no node set 'papers'" in result.stderr


def test_what_is_generated_obeys_the_schema_and_is_the_same_each_time(
    schema: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    output = tmp_path / "made.tfrecord@3"
    succeed("tfgnn", "generate", schema, "-n", 10, "--seed", 5, "--output", output)
    shards = sorted(tmp_path.glob("made.tfrecord-*"))
    assert [path.name for path in shards] == [
        f"made.tfrecord-{shard:05}-of-00003" for shard in range(3)
    ]
    graphs = graphs_of(schema, output)
    assert len(graphs) == 10
    for graph in graphs:
        paper = graph["node_sets"]["paper"]
        features = paper["features"]
        assert isinstance(features, dict)
        assert {len(rows) for rows in features.values()} == {paper["size"]}
        assert all(len(row) == 4 for row in features["x"])
    # Compressed, in one file: the same graphs, in the order in which shards took turns.
    succeed("tfgnn", "generate", schema, "-n", 10, "--seed", 5, "--output", tmp_path / "one.gz")
    with gzip.open(tmp_path / "one.gz") as file:
        assert file.read(1)
    one = graphs_of(schema, tmp_path / "one.gz")
    assert graphs == one[0::3] + one[1::3] + one[2::3]
    succeed("tfgnn", "generate", schema, "-n", 2, "--output", tmp_path / "two.gz@2")
    with gzip.open(tmp_path / "two.gz-00001-of-00002") as file:
        assert file.read(1)
    assert not list(tmp_path.glob("*.part"))


def test_print_has_three_modes(schema: pathlib.Path, tmp_path: pathlib.Path) -> None:
    succeed("tfgnn", "generate", schema, "-n", 3, "--output", tmp_path / "f")
    common = ("tfgnn", "print", "--graph-schema", schema, tmp_path / "f", "-n", 2, "--mode")
    assert len(succeed(*common, "json").splitlines()) == 2
    text = succeed(*common, "textproto")
    assert text.count('key: "nodes/paper.x"') == 2
    table = succeed(*common, "table")
    assert "writes (author -> paper)" in table and "float32[4]" in table


# Of every type that is read in a way of its own.
ALL_TYPES = """
context { features { key: "label" value { dtype: DT_INT32 } } }
node_sets { key: "author" value { } }
node_sets { key: "paper" value {
  features { key: "bf" value { dtype: DT_BFLOAT16 } }
  features { key: "flag" value { dtype: DT_BOOL } }
  features { key: "half" value { dtype: DT_HALF } }
  features { key: "names" value { dtype: DT_STRING shape { dim { size: -1 } } } }
  features { key: "tags" value { dtype: DT_INT64 shape { dim { size: -1 } dim { size: 2 } } } }
  features { key: "title" value { dtype: DT_STRING } }
  features { key: "wide" value { dtype: DT_DOUBLE } }
  features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 2 } dim { size: 3 } } } } } }
edge_sets { key: "writes" value { source: "author" target: "paper"
  features { key: "year" value { dtype: DT_UINT8 } } } }
"""
RECORDS: list[dict[str, Any]] = [
    {
        "context/label": [7], "nodes/author.#size": [1], "nodes/paper.#size": [2],
        "nodes/paper.bf": [1.5, -3.0], "nodes/paper.flag": [1, 0], "nodes/paper.half": [0.5, -2.0],
        "nodes/paper.names": [b"a", b"bc"], "nodes/paper.names.d1": [2, 0],
        "nodes/paper.tags": [4, -5, 6, 0], "nodes/paper.tags.d1": [2, 0],
        "nodes/paper.title": [b"ab", b""], "nodes/paper.wide": [0.25, 1e10],
        "nodes/paper.x": [1.0, 2.0, 3.0, 4.0, float("nan"), *map(float, range(6, 13))],
        "edges/writes.#size": [3], "edges/writes.#source": [0, 0, 0], "edges/writes.#target": [1, 0, 1],
        "edges/writes.year": [200, 10, 30],
    },
    {
        "context/label": [-1], "nodes/author.#size": [2], "nodes/paper.#size": [4],
        "nodes/paper.bf": [0.5] * 4, "nodes/paper.flag": [1, 1, 1, 0],
        "nodes/paper.half": [8.0, 0.25, 0.25, 0.25],
        "nodes/paper.names": [b"long name"], "nodes/paper.names.d1": [0, 1, 0, 0],
        "nodes/paper.tags": [9, 9], "nodes/paper.tags.d1": [0, 0, 0, 1],
        "nodes/paper.title": [b"x", b"yz", b"", b"\xff"], "nodes/paper.wide": [-0.5, 2.0, 2.0, 2.0],
        "nodes/paper.x": list(map(float, range(24))),
        "edges/writes.#size": [1], "edges/writes.#source": [1], "edges/writes.#target": [3],
        "edges/writes.year": [255],
    },
]
GRAPHS: list[dict[str, Any]] = [
    {
        "context": {"label": 7},
        "node_sets": {
            "author": {"size": 1, "features": {}},
            "paper": {"size": 2, "features": {
                "bf": [1.5, -3.0], "flag": [True, False], "half": [0.5, -2.0],
                "names": [["a", "bc"], []], "tags": [[[4, -5], [6, 0]], []], "title": ["ab", ""],
                "wide": [0.25, 1e10],
                "x": [[[1.0, 2.0, 3.0], [4.0, None, 6.0]], [[7.0, 8.0, 9.0], [10.0, 11.0, 12.0]]]}},
        },
        "edge_sets": {"writes": {"size": 3, "source": [0, 0, 0], "target": [1, 0, 1],
                                 "features": {"year": [200, 10, 30]}}},
    },
    {
        "context": {"label": -1},
        "node_sets": {
            "author": {"size": 2, "features": {}},
            "paper": {"size": 4, "features": {
                "bf": [0.5] * 4, "flag": [True, True, True, False], "half": [8.0, 0.25, 0.25, 0.25],
                "names": [[], ["long name"], [], []], "tags": [[], [], [], [[9, 9]]],
                "title": ["x", "yz", "", "\ufffd"], "wide": [-0.5, 2.0, 2.0, 2.0],
                "x": [[[float(6 * i + 3 * j + k) for k in range(3)] for j in range(2)]
                      for i in range(4)]}},
        },
        "edge_sets": {"writes": {"size": 1, "source": [1], "target": [3], "features": {"year": [255]}}},
    },
]


def example(lists: dict[str, list[Any]], prefix: str = "") -> bytes:
    """A serialized tf.Example with lists of texts, of floats and of integers."""

    def varint(number: int) -> bytes:
        number &= (1 << 64) - 1
        return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2]) + varint(len(data)) + data

    features = b""
    for key, values in lists.items():
        if isinstance(values[0], bytes):
            feature = field(1, b"".join(field(1, value) for value in values))
        elif isinstance(values[0], float):
            feature = field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            feature = field(3, field(1, b"".join(map(varint, values))))
        features += field(1, field(1, (prefix + key).encode()) + field(2, feature))
    return field(1, features)


def write(path: pathlib.Path, records: Sequence[bytes]) -> pathlib.Path:
    with tfrecords.Writer([path]) as writer:
        for record in records:
            writer.write(record)
    return path


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.fixture(name="all_types")
def all_types_fixture(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "all.pbtxt"
    path.write_text(ALL_TYPES, encoding="utf-8")
    return path


def test_graphs_are_printed_as_they_are(all_types: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = write(tmp_path / "f", [example(record) for record in RECORDS])
    common = ("tfgnn", "print", "--graph-schema", all_types)

    def texts(output: str) -> list[str]:
        return [json.dumps(json.loads(line), sort_keys=True) for line in output.splitlines()]

    wanted = [json.dumps(graph, sort_keys=True) for graph in GRAPHS]
    assert texts(succeed(*common, file)) == wanted
    assert texts(succeed(*common, file, file, "-n", 3)) == [*wanted, wanted[0]]
    prefixed = write(tmp_path / "p", [example(record, "train/") for record in RECORDS])
    assert texts(succeed(*common, prefixed, "--key-prefix", "train/")) == wanted
    many = write(tmp_path / "many", [example(RECORDS[0])] * 11)
    assert texts(succeed(*common, many)) == wanted[:1] * 10

    parts = succeed(*common, file, "--mode", "textproto").split("# record ")
    assert [part[:2] for part in parts] == ["", "0\n", "1\n"]
    assert [part.count('key: "nodes/paper.half"') for part in parts] == [0, 1, 1]

    rows = words(succeed(*common, file, "--mode", "table"))
    table = []
    types = {"bf": "bfloat16[]", "flag": "bool[]", "half": "float16[]", "names": "string[-1]",
             "tags": "int64[-1,2]", "title": "string[]", "wide": "float64[]", "x": "float32[2,3]"}
    for number, graph in enumerate(GRAPHS):
        table += [["record", str(number)], ["set", "rows", "feature", "type", "first", "values"]]
        table.append(["(context)", "1", "label", "int32[]", f"[{graph['context']['label']}]"])
        authors, papers = (graph["node_sets"][name] for name in ("author", "paper"))
        table.append(["author", str(authors["size"])])
        for name, values in papers["features"].items():
            # Three rows and 70 bytes are shown.
            shown = json.dumps(values[:3], separators=(",", ":"))
            shown = (shown[:70] + "..." if len(shown) > 70 else shown) + " ..." * (len(values) > 3)
            table.append(["paper", str(papers["size"]), name, types[name], *shown.split()])
        writes = graph["edge_sets"]["writes"]
        years = "[" + ",".join(map(str, writes["features"]["year"])) + "]"
        table.append(["writes", "(author", "->", "paper)", str(writes["size"]), "year", "uint8[]", years])
        table.append([])
    assert rows == table


def test_stats_are_those_of_all_values(all_types: pathlib.Path, tmp_path: pathlib.Path) -> None:
    records = [example(RECORDS[i]) for i in (0, 1, 0)]
    write(tmp_path / "f", records)
    sizes = tmp_path / "sizes.csv"
    stats = ("tfgnn", "stats", "--graph-schema", all_types, "--examples")
    least, most = sorted(map(len, records[:2]))
    total = sum(map(len, records))
    first = [
        "3 graphs of 2 distinct sizes", "", "per graph least mean most total",
        f"bytes of the record {least} {total / 3:.6g} {most} {total}",
        "author 1 1.33333 2 4", "paper 2 2.66667 4 8", "writes 1 2.33333 3 7",
    ]
    features = [
        "", "feature type values least mean most",
        "context: label int32[] 3 -1 4.33333 7",
        "paper: bf bfloat16[] 8 -3 -0.125 1.5",
        "paper: flag bool[] 8 0 0.625 1",
        "paper: half float16[] 8 -2 0.71875 8",
        "paper: names string[-1] 5 1 3 9",
        "paper: tags int64[-1,2] 10 -5 2.8 9",
        "paper: title string[] 8 0 1 2",
        "paper: wide float64[] 8 -0.5 2.5e+09 1e+10",
        # One of them is no number: it is counted, and changes nothing else.
        "paper: x float32[2,3] 48 0 8.79167 23",
        "writes: year uint8[] 7 10 105 255",
        "(of strings: their lengths in bytes)",
    ]
    lines = [" ".join(row) for row in words(succeed(*stats, tmp_path / "f", "--sizes", sizes))]
    assert lines == [*first, *features, f"sizes: {sizes}"]
    assert sizes.read_text(encoding="ascii") == (
        "num_author,num_paper,num_writes,count\n1,2,3,2\n2,4,1,1\n")
    lines = [" ".join(row) for row in words(
        succeed(*stats, tmp_path / "f", "--sizes", sizes, "--all-components"))]
    ragged = ["paper.names.bytes.d2 1 1.66667 2 5", "paper.names.bytes 3 5 9 15",
              "paper.tags 1 1.66667 2 5", "paper.title.bytes 2 2.66667 4 8"]
    assert lines == [*first, *ragged, *features, f"sizes: {sizes}"]
    names = ["author", "paper", "writes", *(row.split()[0] for row in ragged)]
    assert sizes.read_text(encoding="ascii") == (
        ",".join(f"num_{name}" for name in names) + ",count\n1,2,3,2,3,2,2,2\n2,4,1,1,9,1,4,1\n")
    write(tmp_path / "none", [])
    lines = [" ".join(row) for row in words(succeed(*stats, tmp_path / "none"))]
    assert lines[0] == "0 graphs of 0 distinct sizes"
    assert lines[3:5] == ["bytes of the record - - - 0", "author - - - 0"]
    assert lines[-3:-1] == ["paper: x float32[2,3] 0 - - -", "writes: year uint8[] 0 - - -"]
    refused = run(*stats, tmp_path / "f", "--sizes", tmp_path / "no" / "sizes.csv")
    assert refused.returncode == 1 and f"{tmp_path}/no/sizes.csv: cannot write: " in refused.stderr


def test_validate_shows_every_tensor(all_types: pathlib.Path) -> None:
    first, *table = succeed("tfgnn", "validate", all_types).splitlines()
    assert first == (
        f"{all_types}: valid: 2 node sets, 1 edge sets; in packhouse 7 components and these tensors")
    assert [" ".join(line.split()) for line in table] == [
        "tensor type along points into", "label int32[] graphs", "paper.bf bfloat16[] paper",
        "paper.flag bool[] paper", "paper.half float16[] paper", "paper.names.bytes.d1 int32[] paper",
        "paper.names.bytes.d2 int32[] paper.names.bytes.d2", "paper.names.bytes uint8[] paper.names.bytes",
        "paper.tags.d1 int32[] paper", "paper.tags int64[2] paper.tags",
        "paper.title.bytes.d1 int32[] paper", "paper.title.bytes uint8[] paper.title.bytes",
        "paper.wide float64[] paper", "paper.x float32[2,3] paper", "writes.source int32[] writes author",
        "writes.target int32[] writes paper", "writes.year uint8[] writes"]


# Graphs 0 and 1 have six nodes of b and an edge, and of a and c six and six, or six and five; graph
# 2 has a node of a and of c. So two of the batches are of 12 nodes of a or c, or of 13.
SIZED = """
node_sets { key: "a" value { } } node_sets { key: "b" value { } } node_sets { key: "c" value { } }
edge_sets { key: "e" value { source: "a" target: "c" } }
"""


@pytest.mark.parametrize(("a", "c", "packs", "saved"), [
    # One node of each end is for padding: 13 of these are too many, and none of b.
    (6, 5, "2", "0.00"), (5, 6, "2", "0.00"), (5, 5, "1", "50.00"),
])
def test_shapes_and_what_packing_into_them_saves(
    tmp_path: pathlib.Path, server: str, a: int, c: int, packs: str, saved: str
) -> None:
    schema = tmp_path / "s.pbtxt"
    schema.write_text(SIZED, encoding="utf-8")

    def sized(a: int, b: int, c: int, e: int) -> bytes:
        lists = {f"nodes/{name}.#size": [size] for name, size in (("a", a), ("b", b), ("c", c))}
        lists |= {"edges/e.#size": [e]}
        if e:
            lists |= {"edges/e.#source": [0] * e, "edges/e.#target": [0] * e}
        return example(lists)

    write(tmp_path / "f", [sized(6, 6, 6, 1), sized(a, 6, c, 1), sized(1, 0, 1, 0)])
    command = ("tfgnn", "size-constraints", "--graph-schema", schema, "--examples", tmp_path / "f",
               "--server", server)
    learn = ("--batch-size", 2, "--sample-size", 1000, "--success-ratio")
    # Four of nine batches have both of the large graphs, and one none.
    told = words(succeed(*command, *learn, 0.5))
    assert told[:8] == [
        "3 graphs, 2 a batch; TF-GNN's totals include room for padding".split(), [],
        ["total", "tight", "fit", "or", "skip"], ["graphs", "3", "3"], ["a", "13", "8"],
        ["b", "12", "6"], ["c", "13", "8"], ["e", "2", "2"]]
    assert told[8:12] == [
        [], "shape batches of TF-GNN batches of packhouse saved".split(),
        ["tight", "2", packs, saved, "%"],
        "fit or skip 2, some skipped 2 0.00 %".split()]
    assert told[12][:5] == "packhouse puts as many graphs".split()
    told = words(succeed(*command, *learn, 0.05))
    assert told[11] == "fit or skip 2, some skipped a graph does not fit".split()
    for option, value, why in (("--batch-size", 0, "batch_size 0 is not in [1, 2147483648]"),
                               ("--success-ratio", 2, "success_ratio 2 is not in [0, 1]"),
                               ("--num-thresholds", 0, "num_thresholds is 0")):
        refused = run(*command, option, value)
        assert (refused.returncode, refused.stdout) == (1, "") and why in refused.stderr


def test_the_commands_own_server_goes_with_it(schema: pathlib.Path, tmp_path: pathlib.Path) -> None:
    succeed("tfgnn", "generate", schema, "-n", 5, "--output", tmp_path / "f")
    command = ("tfgnn", "size-constraints", "--graph-schema", schema, "--examples", tmp_path / "f",
               "--batch-size", 2, "--sample-size", 10)
    with tempfile.TemporaryDirectory() as short:
        for name in ("t", "t" * 90):  # The longer one has no room for the path of a socket.
            folder = pathlib.Path(short) / name
            folder.mkdir()
            done = warm_command.run(*command, TMPDIR=str(folder))
            assert done.returncode == 0, done.stderr
            assert list(folder.iterdir()) == []
        done = warm_command.run(*command, TMPDIR=f"{short}/none")
        assert done.returncode == 1 and f"cannot create {short}/none/packhouse-" in done.stderr
    program = str(pathlib.Path(SERVER).with_name("packhouse-graph"))
    for named in ("/nonexistent", str(tmp_path)):
        done = warm_command.run(*command, PACKHOUSED=named, PACKHOUSE_GRAPH=program)
        assert done.returncode == 1
        assert f"$PACKHOUSED is '{named}', which is no program [NOT_FOUND]" in done.stderr


def test_records_and_files_that_are_not_right_are_named(
    schema: pathlib.Path, all_types: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    good = write(tmp_path / "good", [example(record) for record in RECORDS])
    wrong = write(tmp_path / "wrong", [example(RECORDS[0]), example({"nodes/paper.#size": [-1]})])
    for command in (("print", "-n", 0), ("stats",), ("size-constraints",)):
        refused = run("tfgnn", *command, "--graph-schema", all_types, "--examples", good, wrong)
        assert refused.returncode == 1
        assert (f"packhouse: {wrong}: record 1: key 'nodes/paper.#size': value -1 is not in "
                "[0, 4294967295] [INVALID_ARGUMENT]\n") == refused.stderr
        refused = run("tfgnn", *command, "--graph-schema", tmp_path / "no", "--examples", good)
        assert refused.returncode == 1 and f"{tmp_path}/no: " in refused.stderr
    for output, told in ((tmp_path / "no" / "f", f"{tmp_path}/no/f.part: No such file or directory"),
                         (tmp_path / "f@0", "number of shards, from 1 to 99999")):
        refused = run("tfgnn", "generate", schema, "--output", output)
        assert refused.returncode == 1 and told in refused.stderr
    refused = run("tfgnn", "generate", tmp_path / "no", "--output", tmp_path / "f")
    assert refused.returncode == 1 and f"{tmp_path}/no: " in refused.stderr
    assert not list(tmp_path.glob("f*"))


# What a command does without a flag is what --help says of it.
DEFAULTS = {
    "tfgnn print": {"--num-examples": "10", "--mode": "json"},
    "tfgnn generate": {"--num-examples": "100", "--seed": "0"},
    "tfgnn size-constraints": {
        "--batch-size": "32", "--success-ratio": "0.95", "--sample-size": "100000",
        "--num-thresholds": "1000", "--seed": "0"},
    "tfgnn convert-ogb": {"--shards": "1"},
    "import": {"--lookup": "both", "--duplicates": "refuse"},
    "generate mag": {"--scale": "1", "--seed": "0", "--format": "npy", "--lookup": "both",
                     "--duplicates": "refuse"},
    "partition": {
        "--name": "graph", "--method": "automatic", "--scheme": "k-way", "--objtype": "cut",
        "--quality": "default", "--hops": "1", "--halo": "all", "--trainers": "1",
        "--imbalance": "1.03", "--seed": "1"},
    "partition convert": {"--node-attr-dtype": "float32", "--edge-attr-dtype": "float32"},
    "partition export": {"--format": "metis", "--name": "graph", "--chunks": "1"},
    "partition dglpart": {"--method": "automatic", "--imbalance": "1.03", "--seed": "1"},
    "partition orig-ids": {"--name": "graph"},
}


@pytest.mark.parametrize("command", DEFAULTS)
def test_flags_have_their_defaults(command: str) -> None:
    program = pathlib.Path(SERVER).with_name("packhouse-graph")
    text = subprocess.run(
        [program, *command.split(), "--help"], check=True, capture_output=True, text=True).stdout
    for flag, value in DEFAULTS[command].items():
        # CLI11 writes =VALUE, or [VALUE] in later versions.
        told = re.escape(value)
        assert re.search(rf"{flag} .*(?:={told}\s|\[{told}\])", text), (flag, text)

def test_stats_count_sizes_for_a_plan(schema: pathlib.Path, tmp_path: pathlib.Path) -> None:
    succeed("tfgnn", "generate", schema, "-n", 50, "--output", tmp_path / "f")
    sizes = tmp_path / "sizes.csv"
    output = succeed(
        "tfgnn", "stats", "--graph-schema", schema, "--examples", tmp_path / "f", "--sizes", sizes
    )
    total = sum(graph["node_sets"]["paper"]["size"] for graph in graphs_of(schema, tmp_path / "f"))
    row = next(line for line in output.splitlines() if line.startswith("paper "))
    assert row.split()[-1] == str(total)
    header, *rows = sizes.read_text(encoding="ascii").splitlines()
    assert header == "num_author,num_paper,num_writes,count"
    assert sum(int(row.rsplit(",", 1)[1]) for row in rows) == 50
    assert "packs" in succeed("plan", "--sizes", sizes, "--limit", "paper=20", "--budget-steps", 100)


def test_size_constraints_stand_beside_a_plan(schema: pathlib.Path, tmp_path: pathlib.Path) -> None:
    succeed("tfgnn", "generate", schema, "-n", 200, "--output", tmp_path / "f")
    output = succeed(
        "tfgnn", "size-constraints", "--graph-schema", schema, "--examples", tmp_path / "f",
        "--batch-size", 10, "--sample-size", 1000,
    )
    totals = {line.split()[0]: line.split()[1:] for line in output.splitlines() if line}
    assert totals["graphs"] == ["11", "11"]
    assert totals["paper"][0] == "71" and int(totals["paper"][1]) < 71
    batches = totals["tight"]
    assert batches[0] == "20" and int(batches[1]) < 20


def test_ingest_stores_every_record_once(
    schema: pathlib.Path, tmp_path: pathlib.Path, server: str
) -> None:
    succeed("tfgnn", "generate", schema, "-n", 300, "--output", tmp_path / "f@4")
    ingest = (
        "ingest", tmp_path / "f@4", "--graph-schema", schema, "--server", server,
        "--dataset", "d", "--chunk-bytes", "8KiB",
    )
    assert "stored 300 graphs, 0 had been there" in succeed(*ingest)
    assert "stored 0 graphs, 300 had been there" in succeed(*ingest, "--seal")
    assert "paper.tags" in succeed("datasets", "show", "d", "--server", server)


def test_what_is_exported_is_what_was_ingested(
    schema: pathlib.Path, tmp_path: pathlib.Path, server: str
) -> None:
    succeed("tfgnn", "generate", schema, "-n", 50, "--output", tmp_path / "f")
    succeed(
        "ingest", tmp_path / "f", "--graph-schema", schema, "--server", server, "--dataset", "d"
    )
    succeed(
        "export", "d", "--server", server, "--tfrecord", tmp_path / "out.gz@1", "--graph-schema",
        tmp_path / "out.pbtxt",
    )
    # What packhouse writes has keys in order, so equal graphs have equal bytes.
    succeed("export", "d", "--server", server, "--tfrecord", tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "f").read_bytes()
    assert graphs_of(tmp_path / "out.pbtxt", tmp_path / "out.gz@1") == graphs_of(
        schema, tmp_path / "f"
    )


def test_an_epoch_is_exported_in_its_order(
    schema: pathlib.Path, tmp_path: pathlib.Path, server: str
) -> None:
    succeed("tfgnn", "generate", schema, "-n", 40, "--output", tmp_path / "f")
    succeed(
        "ingest", tmp_path / "f", "--graph-schema", schema, "--server", server, "--dataset", "d",
        "--seal",
    )
    export = ("export", "d", "--server", server, "--tfrecord")
    graphs = graphs_of(schema, tmp_path / "f")
    orders = []
    for seed in (0, 0, 1):
        epoch = ("--epoch", 2, "--seed", seed, "--limit", "graphs=7")
        succeed(*export, tmp_path / "epoch@2", *epoch)
        shards = (graphs_of(schema, tmp_path / f"epoch-0000{shard}-of-00002") for shard in (0, 1))
        # Shards take turns.
        orders.append([graph for pair in zip(*shards) for graph in pair])
        assert sorted(map(repr, orders[-1])) == sorted(map(repr, graphs))
    assert orders[0] == orders[1] != orders[2] and orders[0] != graphs
    # Graphs beyond the limits are not in it.
    small = [graph for graph in graphs if int(str(graph["node_sets"]["paper"]["size"])) <= 4]
    assert 0 < len(small) < len(graphs)
    succeed(*export, tmp_path / "small", "--epoch", 2, "--limit", "paper=4")
    assert sorted(map(repr, graphs_of(schema, tmp_path / "small"))) == sorted(map(repr, small))
    for wrong in (["--epoch", 2], ["--limit", "graphs=7"], ["--seed", 1]):
        assert run(*export, tmp_path / "g", *wrong).returncode == 2
    result = run(*export, tmp_path / "g", "--epoch", 2, "--limit", "nodes=7")
    assert result.returncode == 1 and "nodes" in result.stderr


def test_malformed_records_are_named_or_left_out(
    schema: pathlib.Path, tmp_path: pathlib.Path, server: str
) -> None:
    # Rows of three numbers where the schema has four.
    other = tmp_path / "other.pbtxt"
    other.write_text(SCHEMA.replace("size: 4", "size: 3"), encoding="utf-8")
    succeed("tfgnn", "generate", schema, "-n", 3, "--output", tmp_path / "f-1")
    succeed("tfgnn", "generate", other, "-n", 2, "--output", tmp_path / "f-2")
    succeed("tfgnn", "generate", schema, "-n", 4, "--output", tmp_path / "f-3")
    ingest = (
        "ingest", tmp_path / "f-*", "--graph-schema", schema, "--server", server, "--dataset", "d"
    )
    result = run(*ingest)
    assert result.returncode == 1
    assert f"{tmp_path / 'f-2'}: record 0: key 'nodes/paper.x': " in result.stderr
    result = run(*ingest, "--skip-malformed")
    assert result.returncode == 0, result.stderr
    assert "left out 2 malformed records" in result.stderr
    for record in range(2):
        assert f"{tmp_path / 'f-2'}: record {record}: key 'nodes/paper.x': " in result.stderr
    assert "stored 7 graphs" in result.stdout
    # The same where the records are decoded before they are sent.
    succeed("datasets", "delete", "d", "--server", server, "--yes")
    result = run(*ingest, "--readout", "seed=paper", "--skip-malformed")
    assert f"{tmp_path / 'f-2'}: record 1: key 'nodes/paper.x': " in result.stderr
    assert "stored 7 graphs" in result.stdout


def test_damage_names_file_and_offset(
    schema: pathlib.Path, tmp_path: pathlib.Path, server: str
) -> None:
    succeed("tfgnn", "generate", schema, "-n", 3, "--output", tmp_path / "f")
    damaged = bytearray((tmp_path / "f").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "f").write_bytes(damaged)
    result = run(
        "ingest", tmp_path / "f", "--graph-schema", schema, "--server", server, "--dataset", "d"
    )
    assert result.returncode == 1
    assert f"{tmp_path / 'f'}: record 1 at offset " in result.stderr
    # Nothing of a damaged file is sent.
    assert run("datasets", "show", "d", "--server", server).returncode == 1
    result = run("ingest", f"{tmp_path}/g@2", "--graph-schema", schema, "--server", server,
                 "--dataset", "d")
    assert "g-00000-of-00002 is not there" in result.stderr


@needs_goldens
@pytest.mark.parametrize("name", ["molecules", "mag", "ragged", "readout", "dtypes"])
def test_what_the_library_wrote_is_ingested(name: str, server: str) -> None:
    succeed(
        "ingest", GOLDEN / f"examples/{name}.tfrecord", "--graph-schema",
        GOLDEN / f"schemas/{name}.pbtxt", "--server", server, "--dataset", name, "--seal",
    )
    graphs = len(json.loads((GOLDEN / f"examples/{name}.json").read_text("utf-8"))["graphs"])
    listed = json.loads(succeed("datasets", "show", name, "--server", server, "--json"))
    assert listed["graphs"] == graphs


def test_a_read_out_is_added_from_the_first_node(
    schema: pathlib.Path, tmp_path: pathlib.Path, server: str
) -> None:
    succeed("tfgnn", "generate", schema, "-n", 3, "--output", tmp_path / "f")
    ingest = (
        "ingest", tmp_path / "f", "--graph-schema", schema, "--server", server, "--dataset", "d"
    )
    result = run(*ingest, "--readout", "seed")
    assert "--readout 'seed': must be KEY=NODE_SET" in result.stderr
    succeed(*ingest, "--readout", "seed=paper")
    assert "_readout/seed.source" in succeed("datasets", "show", "d", "--server", server)
