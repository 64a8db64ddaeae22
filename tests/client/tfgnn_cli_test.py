"""`packhouse tfgnn` and `packhouse ingest --graph-schema`, run as a user runs them.

PACKHOUSE_SHARED_DATA may name a folder with what the real TF-GNN wrote (tfgnn/); without it those
tests are skipped.
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import signal
import subprocess
from collections.abc import Iterator

import pytest
import warm_command

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
