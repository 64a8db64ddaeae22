"""`packhouse graph import`, `graph generate` and `tfgnn convert-ogb`, run as a user runs them.

PACKHOUSE_SHARED_DATA may name a folder with graphs from outside; without it those tests are
skipped. The server keeps what it gets in memory, so that the tests see every row.
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
import warm_command

from packhouse.v1 import source_graph_pb2 as v1
from stub_source_graphs import Serving

CLI = os.environ.get("PACKHOUSE_CLI", "")
SHARED = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA") or "/nonexistent")
UNIGRAPH = SHARED / "tfgnn" / "unigraph"
CHUNKED = SHARED / "partition" / "chunked"
DEBIAN = SHARED / "partition" / "bench" / "debian_depends.npz"

pytestmark = pytest.mark.skipif(
    not CLI, reason="PACKHOUSE_CLI names the program to test"
)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return warm_command.run(*arguments)


def succeed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(name="server")
def server_fixture() -> Iterator[Serving]:
    with Serving() as serving:
        yield serving


def import_graph(server: Serving, source: object, name: str, *options: object) -> str:
    return succeed("graph", "import", source, "--server", server.address, "--graph", name,
                   "--seal", *options)


def rows_of(output: str) -> dict[str, int]:
    """The rows of each set in the table that an import prints."""
    found = re.findall(r"^ *(\w+) +([\d,]+)", output, re.MULTILINE)
    return {name: int(rows.replace(",", "")) for name, rows in found}


MAG = {"paper": 736, "author": 1135, "institution": 9, "field_of_study": 60,
       "cites": 5416, "writes": 7146, "affiliated_with": 1044, "has_topic": 7505, "written": 7146}


def test_a_generated_graph_is_stored_from_files_as_it_is_right_away(
    server: Serving, tmp_path: pathlib.Path
) -> None:
    scale = ("--scale", 0.001, "--seed", 3)
    direct = succeed("graph", "generate", "mag", *scale, "--server", server.address,
                     "--graph", "direct", "--seal")
    assert rows_of(direct).items() >= MAG.items()
    for form in ("npy", "unigraph"):
        folder = tmp_path / form
        succeed("graph", "generate", "mag", *scale, "--output", folder, "--format", form)
        reverse = ("--reverse", "written=writes") if form == "npy" else ()
        assert rows_of(import_graph(server, folder, form, *reverse)).items() >= MAG.items()
    for duplicates, told in (("refuse", v1.DUPLICATE_NODES_REFUSE), ("first", v1.DUPLICATE_NODES_FIRST),
                             ("last", v1.DUPLICATE_NODES_LAST)):
        import_graph(server, folder, duplicates, "--duplicates", duplicates)
        assert server.stub.duplicates[duplicates] == told
    assert server.stub.duplicates["npy"] == v1.DUPLICATE_NODES_REFUSE
    result = run("graph", "generate", "mag")
    assert result.returncode == 2
    assert "either --output, or --server and --graph" in result.stderr


def test_a_generated_graph_goes_where_it_is_told(server: Serving, tmp_path: pathlib.Path) -> None:
    generate = ("graph", "generate", "mag", "--scale", 0.001)
    at, graph, output = ("--server", server.address), ("--graph", "g"), ("--output", tmp_path / "npy")
    # A server without a graph says nothing of where it goes.
    assert succeed(*generate, *output, *at) == f"{output[1]}: wrote 1,940 nodes and 21,111 edges\n"
    for words in ((), at, graph, (*at, *graph, "--output", tmp_path / "other")):
        result = run(*generate, *words)
        assert result.returncode == 2
        assert "either --output, or --server and --graph" in result.stderr
    assert server.stub.graphs == {} and not (tmp_path / "other").exists()
    result = run("graph", "generate", "mag", "--scale", 0, *output)
    assert result.returncode == 2 and "--scale 0: must be above 0" in result.stderr
    (tmp_path / "file").touch()
    for form, named in (("npy", "x/nodes/author"), ("unigraph", "x")):
        result = run(*generate, "--output", tmp_path / "file" / "x", "--format", form)
        assert result.returncode == 1
        assert f"{tmp_path}/file/{named}: Not a directory [UNAVAILABLE]" in result.stderr


@pytest.fixture(name="small")
def small_fixture(tmp_path: pathlib.Path) -> pathlib.Path:
    """Three nodes and two edges."""
    path = tmp_path / "small.npz"
    np.savez(path, **{"nodes/p/x": np.arange(3), "edges/e/edge_index": np.array([[0, 1], [1, 2]])})
    return path


def test_what_an_import_is_told_the_server_is_told(server: Serving, small: pathlib.Path) -> None:
    def told(name: str, *options: object) -> tuple[object, ...]:
        succeed("graph", "import", small, "--server", server.address, "--graph", name, *options)
        graph = server.stub.graphs[name]
        (producer,) = (each for of, each in server.stub.last if of == name)
        return (graph.schema.edge_sets[0].lookup, graph.schema.node_sets[0].appended_only,
                graph.max_bytes, graph.state, re.sub("-[0-9a-f]{16}-", "-SOURCE-", producer),
                server.stub.forget_after[producer])

    both, opened, week = v1.EDGE_LOOKUP_BOTH, v1.SOURCE_GRAPH_STATE_OPEN, 7 * 24 * 60 * 60
    producer = f"import-SOURCE-{4 << 20}"
    assert told("plain") == (both, False, 0, opened, producer, week)
    assert told("source", "--lookup", "source", "--appended-only") == (
        v1.EDGE_LOOKUP_BY_SOURCE, True, 0, opened, producer, week)
    assert told("target", "--lookup", "target", "--max-bytes", "3KiB", "--producer", "me") == (
        v1.EDGE_LOOKUP_BY_TARGET, False, 3072, opened, "me", 0)
    for name, value, size in (("least", "4KiB", 4096), ("most", "32MiB", 32 << 20)):
        assert told(name, "--chunk-bytes", value)[4] == f"import-SOURCE-{size}"
    assert told("sealed", "--seal")[3] == v1.SOURCE_GRAPH_STATE_SEALED
    for option, value, bounds in (
        ("--chunk-bytes", 4095, "4.0 KiB to 32.0 MiB"), ("--chunk-bytes", "33554433", "4.0 KiB to 32.0 MiB"),
        ("--chunk-bytes", "many", "4.0 KiB to 32.0 MiB"), ("--max-bytes", "0", "1 B to 4.0 EiB"),
    ):
        result = run("graph", "import", small, "--server", server.address, "--graph", "no", option, value)
        assert result.returncode == 2
        assert f"{option} '{value}': must be a number of bytes from {bounds}" in result.stderr
    result = run("graph", "import", small, "--server", server.address, "--graph", "no", "--reverse", "e")
    assert result.returncode == 2 and "--reverse 'e': must be NAME=EDGE_SET" in result.stderr
    assert "no" not in server.stub.graphs


def test_an_import_tells_what_it_stored(server: Serving, small: pathlib.Path) -> None:
    command = ("graph", "import", small, "--server", server.address, "--graph", "g")

    def check(output: str, present: int, state: str) -> None:
        first, *table = output.splitlines()
        assert re.fullmatch(f"g: 3 nodes and 2 edges, {present} of these rows had been there; "
                            r"[1-9]\d* B in \d+\.\d\d s", first), first
        assert [line.split() for line in table] == [
            ["set", "rows", "from", "to"], ["p", "3"], ["e", "2", "p", "p"],
            [f"{state},", "0", "B", "on", "disk"]]

    check(succeed(*command), 0, "open")
    # Another client created it just now.
    server.stub.absent = 1
    check(succeed(*command), 5, "open")
    assert server.stub.rows["g", "p"] == [0, 1, 2] and server.stub.rows["g", "e"] == [(0, 1), (1, 2)]
    check(succeed(*command, "--seal"), 5, "sealed")
    # Nor of what is tried again.
    server.stub.break_after = server.stub.num_requests + 1
    done = run(*command[:-1], "quiet", "--seal", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nodes_without_rows_are_told_as_far_as_they_are_known(
    server: Serving, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "ids.npz"
    np.savez(path, **{"nodes/p/#id": np.array([10, 20, 10]),
                      "edges/c/edge_index": np.array([[10, 20, 8], [20, 31, 9]])})
    for status, many in ((None, "3"), (grpc.StatusCode.PERMISSION_DENIED, "at least 2")):
        server.stub.refuse_lookups = status
        done = run("graph", "import", path, "--server", server.address, "--graph", f"g{many[-1]}",
                   "--seal", "--quiet")
        assert done.returncode == 0
        assert done.stderr == (
            f"packhouse: node set 'p': of its 5 nodes {many} have no row: edges end at ids that its "
            "table does not have, and their columns are zeros; --appended-only refuses such edges, and "
            "names one\n")
    # Files that are refused before a row is sent leave nothing to tell of.
    np.savez(path, **{"nodes/p/#id": np.array([1 << 63], np.uint64)})
    done = run("graph", "import", path, "--server", server.address, "--graph", "none")
    assert done.returncode == 1
    assert done.stderr == (
        f"packhouse: {path}: array 'nodes/p/#id': {1 << 63} is no int64 [INVALID_ARGUMENT]\n")


def test_an_import_that_is_interrupted_goes_on_and_stores_nothing_twice(
    server: Serving, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "mag"
    succeed("graph", "generate", "mag", "--scale", 0.001, "--output", folder)
    server.stub.break_after = 5
    command = ("graph", "import", folder, "--server", server.address, "--graph", "g",
               "--chunk-bytes", "16KiB")
    result = run(*command, "--seal")
    assert result.returncode == 0, result.stderr
    assert "gone for a moment" in result.stderr
    assert server.stub.num_requests > 20
    rows = server.stub.rows
    assert rows["g", "paper"] == list(range(736))
    assert rows["g", "author"] == list(range(1135))
    for name in ("source", "target"):
        wanted = np.load(folder / f"edges/paper.cites.paper/{name}.npy").tolist()
        assert [ends[name == "target"] for ends in rows["g", "cites"]] == wanted
    for name in ("feat", "labels", "year"):
        wanted_bytes = np.load(folder / f"nodes/paper/{name}.npy").tobytes()
        assert server.stub.columns["g", "paper", name] == wanted_bytes
    # Once more: it is sealed.
    result = run(*command)
    assert result.returncode == 1
    assert "source graph 'g' is sealed" in result.stderr


def test_rows_that_are_there_are_told(server: Serving, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "mag"
    succeed("graph", "generate", "mag", "--scale", 0.001, "--output", folder)
    command = ("graph", "import", folder, "--server", server.address, "--graph", "g")
    assert "1,940 nodes and 21,111 edges, 0 of these rows had been there" in succeed(*command)
    assert ", 23,051 of these rows had been there" in succeed(*command)
    other = tmp_path / "other"
    succeed("graph", "generate", "mag", "--scale", 0.001, "--output", other, "--format", "unigraph")
    result = run("graph", "import", other, "--server", server.address, "--graph", "g")
    assert result.returncode == 1
    assert "has the node set author with integers as ids and columns ()" in result.stderr


@pytest.mark.skipif(not UNIGRAPH.is_dir(), reason=f"{UNIGRAPH} is missing")
def test_the_golden_unigraph_is_stored_whole(server: Serving) -> None:
    truth = json.loads((UNIGRAPH / "ground_truth.json").read_text())
    rows = rows_of(import_graph(server, UNIGRAPH, "golden"))
    assert {name: rows[name] for name in truth["nodes"]} == truth["nodes"]
    for name, edges in truth["edges"].items():
        assert rows[name] == len(edges)
    assert rows["written"] == rows["writes"]


@pytest.mark.skipif(not CHUNKED.is_dir(), reason=f"{CHUNKED} is missing")
def test_dgls_chunks_are_stored_whole(server: Serving) -> None:
    rows = rows_of(import_graph(server, CHUNKED / "metadata.json", "chunks"))
    assert (rows["item"], rows["buys"], rows["follows"]) == (150, 500, 420)


@pytest.mark.skipif(not DEBIAN.is_file(), reason=f"{DEBIAN} is missing")
def test_debians_dependencies_are_stored_whole(server: Serving, tmp_path: pathlib.Path) -> None:
    arrays = np.load(DEBIAN)
    path = tmp_path / "debian.npz"
    named = {"nodes/package/#size": arrays["num_nodes"], "edges/depends/source": arrays["src"],
             "edges/depends/target": arrays["dst"], "edges/depends/kind": arrays["kind"]}
    np.savez_compressed(path, **named)
    rows = rows_of(import_graph(server, path, "debian"))
    assert (rows["package"], rows["depends"]) == (63_666, 333_672)


@pytest.mark.parametrize(
    ("node_sets", "edges", "named"),
    [
        # Node sets are known: what stands between them is the name, and all may have dots.
        (["u", "i"], ["u.v1.0.i"], ["v1.0"]),
        (["u.x", "i.y"], ["u.x.rated.by.i.y"], ["rated.by"]),
        # With one node set dots belong to the name, unless an end is that set.
        (["n"], ["film.genre.x", "e"], ["e", "film.genre.x"]),
        (["n"], ["n.e.n"], ["e"]),
    ],
)
def test_relations_with_dots_keep_their_names(
    server: Serving, tmp_path: pathlib.Path, node_sets: list[str], edges: list[str], named: list[str]
) -> None:
    arrays = {f"nodes/{name}/#size": np.array(3) for name in node_sets}
    arrays |= {f"edges/{name}/edge_index": np.array([[0, 1], [1, 2]]) for name in edges}
    np.savez(tmp_path / "g.npz", **arrays)
    name = f"dots-{len(node_sets)}-{edges[0]}"
    import_graph(server, tmp_path / "g.npz", name)
    shown = json.loads(succeed("graph", "show", name, "--server", server.address, "--json"))
    assert sorted(edge_set["name"] for edge_set in shown["edge_sets"]) == named
    assert sorted(node_set["name"] for node_set in shown["node_sets"]) == sorted(node_sets)


def test_a_name_that_can_be_read_in_two_ways_is_refused(
    server: Serving, tmp_path: pathlib.Path
) -> None:
    arrays = {f"nodes/{name}/#size": np.array(3) for name in ("a", "a.b", "c")}
    np.savez(tmp_path / "g.npz", **arrays, **{"edges/a.b.e.c/edge_index": np.array([[0], [1]])})
    refused = run("graph", "import", tmp_path / "g.npz", "--server", server.address, "--graph", "two")
    assert refused.returncode == 1
    assert "'a' 'b.e' 'c'" in refused.stderr and "'a.b' 'e' 'c'" in refused.stderr


def test_a_download_of_ogb_becomes_a_unigraph(server: Serving, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "ogbn_mag"
    files = {
        "raw/num-node-dict": "author,paper\n2,3\n",
        "raw/triplet-type-list": "author,writes,paper\npaper,cites,paper\n",
        "raw/relations/author___writes___paper/edge": "0,1\n1,2\n1,0\n",
        "raw/relations/author___writes___paper/num-edge-list": "3\n",
        "raw/relations/paper___cites___paper/edge": "0,2\n",
        "raw/relations/paper___cites___paper/num-edge-list": "1\n",
        "raw/node-feat/paper/node-feat": "0.5,1\n2,-1\n0,0\n",
        "raw/node-feat/paper/node_year": "2015\n2018\n2019\n",
        "raw/node-label/paper/node-label": "3\n1\n3\n",
        "split/time/paper/train": "0\n",
        "split/time/paper/test": "2\n",
    }
    for name, content in files.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content.encode()))
    # What is not read is named: other splits, and files of torch beside the texts.
    for name in ("split/venue/paper/train.csv.gz", "split/time/split_dict.pt", "split/time/paper/valid.pt",
                 "split/time/nodetype-has-split.csv.gz"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    output = tmp_path / "unigraph"
    done = run("tfgnn", "convert-ogb", folder, "--output", output, "--shards", 2,
               "--reverse", "written=writes")
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if str(folder / "split") in line]
    assert [re.sub(r"^\W*(packhouse: )?", "", line) for line in notes] == [
        f"{folder}/split/venue is not read: the seeds are those of {folder}/split/time",
        *(f"{folder}/split/time/{name} is not read: in Python, torch.load() gives what it has"
          for name in ("paper/valid.pt", "split_dict.pt"))]
    assert "ogbn-mag has files edge_reltype.csv.gz, and here there is none" in done.stderr
    assert sorted(path.name for path in output.iterdir()) == [
        "edges-cites.tfrecords-00000-of-00002", "edges-cites.tfrecords-00001-of-00002",
        "edges-writes.tfrecords-00000-of-00002", "edges-writes.tfrecords-00001-of-00002",
        "graph_schema.pbtxt",
        "nodes-author.tfrecords-00000-of-00002", "nodes-author.tfrecords-00001-of-00002",
        "nodes-paper.tfrecords-00000-of-00002", "nodes-paper.tfrecords-00001-of-00002",
        "seeds-test.csv", "seeds-train.csv",
    ]
    assert (output / "seeds-test.csv").read_text() == "id\npaper2\n"
    assert "valid" in succeed("tfgnn", "validate", output / "graph_schema.pbtxt")
    for source in (folder, output):
        reverse = ("--reverse", "written=writes") if source == folder else ()
        rows = rows_of(import_graph(server, source, source.name, *reverse))
        assert (rows["paper"], rows["writes"], rows["written"], rows["cites"]) == (3, 3, 3, 1)
    bad = folder / "raw/relations/paper___cites___paper/edge.csv.gz"
    bad.write_bytes(gzip.compress(b"0,3\n"))
    result = run("tfgnn", "convert-ogb", folder, "--output", tmp_path / "bad")
    assert result.returncode == 1
    assert f"{bad}: line 1: field 2: target 3 is none of the 3 nodes" in result.stderr
    assert not (tmp_path / "bad" / "graph_schema.pbtxt").exists()


def test_a_download_of_one_kind_becomes_a_unigraph(server: Serving, tmp_path: pathlib.Path) -> None:
    folder, output = tmp_path / "ogbn_arxiv", tmp_path / "out"
    files = {"raw/num-node-list": "3\n", "raw/num-edge-list": "1\n", "raw/edge": "0,1\n",
             "raw/node_year": "1\n2\n3\n", "split/time/train": "2\n", "split/time/valid": "1\n0\n"}
    for name, content in files.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content.encode()))
    convert = ("tfgnn", "convert-ogb", folder, "--output")
    assert succeed(*convert, output) == f"{output}: wrote 3 nodes and 1 edges, with graph_schema.pbtxt\n"
    assert sorted(path.name for path in output.iterdir()) == [
        "edges-edges.tfrecords", "graph_schema.pbtxt", "nodes-nodes.tfrecords", "seeds-train.csv",
        "seeds-valid.csv"]
    # Of one set, ids are plain numbers.
    assert (output / "seeds-train.csv").read_text() == "id\n2\n"
    assert (output / "seeds-valid.csv").read_text() == "id\n1\n0\n"
    import_graph(server, output, "one")
    assert server.stub.rows["one", "nodes"] == ["0", "1", "2"]
    assert server.stub.rows["one", "edges"] == [("0", "1")]

    def refused(*words: object) -> str:
        result = run(*convert, *words)
        assert result.returncode == 1, result.stderr
        return result.stderr

    assert "--reverse 'x': must be NAME=EDGE_SET" in refused(tmp_path / "a", "--reverse", "x")
    (tmp_path / "file").touch()
    assert f"{tmp_path}/file/x: Not a directory" in refused(tmp_path / "file" / "x")
    (tmp_path / "b" / "seeds-valid.csv").mkdir(parents=True)
    assert f"{tmp_path}/b/seeds-valid.csv: Is a directory" in refused(tmp_path / "b")
    # Each file that is cut is named.
    for name in files:
        path = folder / f"{name}.csv.gz"
        whole = path.read_bytes()
        path.write_bytes(whole[:-6])
        told = refused(tmp_path / "c")
        assert told.startswith(f"packhouse: {path}: ") and "unexpected end of file" in told, told
        path.write_bytes(whole)
    assert not (tmp_path / "c" / "graph_schema.pbtxt").exists()


def test_what_a_server_does_not_do_is_told(server: Serving, tmp_path: pathlib.Path) -> None:
    schema = tmp_path / "s.pbtxt"
    schema.write_text('node_sets { key: "p" value { } }')
    succeed("tfgnn", "generate", schema, "-n", 3, "--output", tmp_path / "f")
    result = run("tfgnn", "size-constraints", "--graph-schema", schema, "--examples", tmp_path / "f",
                 "--server", server.address, "--sample-size", 1)
    assert result.returncode == 1 and "[UNIMPLEMENTED]" in result.stderr
