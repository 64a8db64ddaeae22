"""What files of large graphs say is what a server has, or is refused, or told in a line."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import warm_command

from packhouse import Client, LocalServer

pytestmark = pytest.mark.skipif(
    "PACKHOUSE_CLI" not in os.environ or "PACKHOUSED" not in os.environ,
    reason="PACKHOUSE_CLI and PACKHOUSED do not name programs",
)


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    data = tmp_path_factory.mktemp("data")
    with LocalServer(data_dir=data, log=subprocess.DEVNULL) as server:
        yield server


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return warm_command.run(*arguments)


def import_graph(
    server: LocalServer, source: pathlib.Path, name: str, *options: object
) -> subprocess.CompletedProcess[str]:
    return run("graph", "import", source, "--server", server.address, "--graph", name, "--seal",
               "--quiet", *options)


def edges_of(server: LocalServer, graph: str, edge_set: str) -> tuple[list[Any], dict[str, Any]]:
    """Pairs of numbers of nodes, and columns."""
    with Client(server.address) as client:
        rows = client.source_graphs.read_edges(graph, edge_set, columns=None)
        return list(zip(rows.sources.tolist(), rows.targets.tolist())), dict(rows.columns)


def columns_of(server: LocalServer, graph: str, node_set: str, nodes: int) -> dict[str, Any]:
    with Client(server.address) as client:
        found = client.source_graphs.lookup_nodes(
            graph, node_set, numbers=list(range(nodes)), columns=None)
        return dict(found.columns)


def test_ogbs_edges_are_those_of_its_loader(server: LocalServer, tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(1)
    edge = rng.integers(0, 20, (50, 2))
    folder = tmp_path / "ogbl_collab"
    (folder / "raw").mkdir(parents=True)
    year, weight = rng.integers(1990, 2020, 50), rng.integers(0, 1 << 60, 50)
    texts = {"edge": edge, "num-node-list": [[20]], "num-edge-list": [[50]],
             "edge_year": year[:, None], "edge_weight": weight[:, None]}
    for name, table in texts.items():
        text = "".join(",".join(map(str, row)) + "\n" for row in table)
        (folder / "raw" / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "raw" / "notes.txt").write_text("x")
    done = import_graph(server, folder, "collab")
    assert done.returncode == 0, done.stderr
    assert f"{folder}/raw/notes.txt is not read" in done.stderr
    assert "ogbl-collab has each edge once in its files" in done.stderr
    pairs, columns = edges_of(server, "collab", "edges")
    # As OGB's loader repeats them.
    both = np.concatenate([edge, edge[:, ::-1]])
    wanted = zip(both.tolist(), np.tile(year, 2).tolist(), np.tile(weight, 2).tolist())
    found = zip(map(list, pairs), columns["year"].ravel().tolist(),
                columns["weight"].ravel().tolist())
    assert sorted(found) == sorted(wanted)


X = np.ones((3, 1), np.float32)
# Ends that are no node: counted from 1, negative, beyond the size, beyond int32.
WRONG_ENDS = {
    "onebased": ({"nodes/p/x": X, "edges/c/edge_index": np.array([[1, 2, 3], [2, 3, 1]])},
                 "edge 2: source 3"),
    "minus": ({"nodes/p/x": X, "edges/c/edge_index": np.array([[0, -1], [1, 2]])},
              "edge 1: source -1"),
    "sized": ({"nodes/p/#size": np.array([3]), "edges/c/edge_index": np.array([[1, 2], [2, 7]])},
              "edge 1: target 7"),
    "far": ({"nodes/p/x": X, "edges/c/source": np.array([0], np.uint64),
             "edges/c/target": np.array([2**40], np.uint64)}, "edge 0: target 1099511627776"),
    "other": ({"nodes/p/x": X, "nodes/q/#size": np.array(1),
               "edges/p.c.q/edge_index": np.array([[2], [1]])}, "edge 0: target 1"),
}


@pytest.mark.parametrize("name", WRONG_ENDS)
def test_ends_of_numbered_nodes_are_nodes(
    server: LocalServer, tmp_path: pathlib.Path, name: str
) -> None:
    arrays, message = WRONG_ENDS[name]
    path = tmp_path / "graph.npz"
    np.savez(path, **arrays)
    done = import_graph(server, path, f"ends-{name}")
    assert done.returncode == 1
    assert message in done.stderr and "is none of the" in done.stderr


def test_two_numbers_of_nodes_are_refused(server: LocalServer, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "graph.npz"
    np.savez(path, **{"nodes/p/#id": np.array([1, 2, 3]), "nodes/p/#size": np.array([4])})
    done = import_graph(server, path, "two-sizes")
    assert done.returncode == 1 and "4 nodes, '#id' has 3" in done.stderr


def test_rows_of_refused_files_are_told(server: LocalServer, tmp_path: pathlib.Path) -> None:
    """Corrected files would come on top of them: nodes 0 to 3 for ids 1 to 3."""
    path = tmp_path / "graph.npz"
    edges = {"nodes/p/x": X, "edges/c/edge_index": np.array([[1, 2, 3], [2, 3, 1]])}
    np.savez(path, **edges)
    done = import_graph(server, path, "corrected")
    assert done.returncode == 1
    assert "source graph 'corrected' has 3 nodes and 0 edges by now" in done.stderr
    assert "delete it (packhouse graph delete corrected) before corrected ones" in done.stderr
    assert run("graph", "delete", "corrected", "--server", server.address, "--yes").returncode == 0
    np.savez(path, **edges, **{"nodes/p/#id": np.array([1, 2, 3])})
    assert import_graph(server, path, "corrected").returncode == 0
    with Client(server.address) as client:
        assert dict(client.source_graphs.get("corrected").num_nodes) == {"p": 3}


def test_nodes_without_rows_are_told_or_refused(
    server: LocalServer, tmp_path: pathlib.Path
) -> None:
    floats = tmp_path / "floats"
    floats.mkdir()
    (floats / "schema.pbtxt").write_text(
        'node_sets { key: "p" value { features { key: "year" value { dtype: DT_INT64 } } '
        'metadata { filename: "p.csv" } } }\n'
        'edge_sets { key: "c" value { source: "p" target: "p" metadata { filename: "c.csv" } } }\n')
    (floats / "p.csv").write_text("id,year\n1,2001\n2,2002\n3,2003\n")
    # A column of whole numbers that once had a gap, as pandas writes it.
    (floats / "c.csv").write_text("source,target\n1.0,2.0\n2.0,3.0\n")
    ids = tmp_path / "ids.npz"
    np.savez(ids, **{"nodes/p/#id": np.array([10, 20, 30]), "nodes/p/x": X,
                     "edges/c/edge_index": np.array([[10, 20], [20, 31]])})
    # Rows that are there twice do not hide them, whether there are fewer of these or more.
    twice = tmp_path / "twice.npz"
    np.savez(twice, **{"nodes/p/#id": np.array([10, 20, 10, 20, 30, 10, 30]),
                       "edges/c/edge_index": np.array([[10, 20, 8], [20, 31, 9]])})
    once = tmp_path / "once.npz"
    np.savez(once, **{"nodes/p/#id": np.array([30, 10, 30, 20]),
                      "edges/c/edge_index": np.array([np.full(40, 20), np.arange(100, 140)])})
    for source, missing in ((floats, 3), (ids, 1), (twice, 3), (once, 40)):
        done = import_graph(server, source, f"told-{source.stem}")
        assert done.returncode == 0, done.stderr
        line = f"of its {3 + missing} nodes {missing} have no row"
        assert line in done.stderr, done.stderr
        assert "--appended-only" in done.stderr
        refused = import_graph(server, source, f"refused-{source.stem}", "--appended-only")
        assert refused.returncode == 1
        assert "FAILED_PRECONDITION" in refused.stderr and "does not have" in refused.stderr
    # And where there are none, nothing is told.
    np.savez(tmp_path / "full.npz", **{"nodes/p/#id": np.array([30, 10, 30]),
                                       "edges/c/edge_index": np.array([[10], [30]])})
    done = import_graph(server, tmp_path / "full.npz", "full")
    assert (done.returncode, done.stderr) == (0, "")
    # A graph that is there keeps what it was created with.
    assert run("graph", "import", ids, "--server", server.address, "--graph", "open").returncode == 0
    again = import_graph(server, ids, "open", "--appended-only")
    assert again.returncode == 1 and "was created without --appended-only" in again.stderr
    # Nothing is said of a set that has no table.
    np.savez(tmp_path / "edges.npz",
             **{"nodes/p/#size": np.array(2), "edges/p.c.q/edge_index": np.array([[0, 1], [7, 8]])})
    done = import_graph(server, tmp_path / "edges.npz", "edges-only")
    assert (done.returncode, done.stderr) == (0, "")


def test_whole_numbers_of_texts_stay_whole(server: LocalServer, tmp_path: pathlib.Path) -> None:
    numbers = [16777217, 16777219, 1099511627777]
    text = "".join(f"{number}\n" for number in numbers)
    chunks, ogb = tmp_path / "chunks", tmp_path / "ogb"
    chunks.mkdir()
    (ogb / "raw").mkdir(parents=True)
    (chunks / "id.csv").write_text(text)
    (chunks / "e.csv").write_text("0 1\n1 2\n")
    (chunks / "metadata.json").write_text(json.dumps({
        "node_type": ["nodes"], "num_nodes_per_chunk": [[3]], "edge_type": ["nodes:e:nodes"],
        "num_edges_per_chunk": [[2]],
        "edges": {"nodes:e:nodes": {"format": {"name": "csv", "delimiter": " "},
                                    "data": ["e.csv"]}},
        "node_data": {"nodes": {"feat": {"format": {"name": "csv"}, "data": ["id.csv"]}}}}))
    for name, content in (("node-feat", text), ("edge", "0,1\n"), ("num-node-list", "3\n"),
                          ("num-edge-list", "1\n")):
        (ogb / "raw" / f"{name}.csv").write_text(content)
    for folder, options in ((chunks, ()), (ogb, ("--ogb-name", "as-is"))):
        done = import_graph(server, folder, f"whole-{folder.name}", *options)
        assert done.returncode == 0, done.stderr
        column = columns_of(server, f"whole-{folder.name}", "nodes", 3)["feat"]
        assert column.dtype == np.int64 and column.ravel().tolist() == numbers


# One truth for all readers of edges in text. What is None is refused; the rest is read as these pairs.
EDGE_TEXTS: dict[str, tuple[str, bytes, list[tuple[int, int]] | None]] = {
    "plain": (" ", b"0 1\n1 2\n", [(0, 1), (1, 2)]),
    "no end of line": (" ", b"0 1\n1 2", [(0, 1), (1, 2)]),
    "crlf": (" ", b"0 1\r\n1 2\r\n", [(0, 1), (1, 2)]),
    "mark": (" ", b"\xef\xbb\xbf0 1\n1 2\n", [(0, 1), (1, 2)]),
    "mark and crlf": (",", b"\xef\xbb\xbf0,1\r\n1,2\r\n", [(0, 1), (1, 2)]),
    "several blanks": (" ", b"0   1\n1 \t 2\n", [(0, 1), (1, 2)]),
    "blanks around": (" ", b"  0 1 \n\t1 2\t\n", [(0, 1), (1, 2)]),
    "blanks around commas": (",", b" 0 , 1\n1,\t2 \n", [(0, 1), (1, 2)]),
    "empty lines": (" ", b"\n0 1\n\n  \n1 2\n\n", [(0, 1), (1, 2)]),
    "quotes": (",", b'"0","1"\n"1", "2"\n', [(0, 1), (1, 2)]),
    "tabs": ("\t", b"0\t1\n1\t2\n", [(0, 1), (1, 2)]),
    "semicolons": (";", b"0;1\n1;2\n", [(0, 1), (1, 2)]),
    "leading zeros": (",", b"00,01\n1,002\n", [(0, 1), (1, 2)]),
    "no edges": (",", b"", []),
    "blank lines alone": (",", b"\n \n", []),
    "empty field": (",", b"0,1\n1,,2\n", None),
    "delimiter at the end": (",", b"0,1,\n1,2,\n", None),
    "another delimiter": (",", b"0 1\n1 2\n", None),
    "semicolons for commas": (",", b"0;1\n1;2\n", None),
    "three fields": (" ", b"0 1 2\n1 2 0\n", None),
    "one field": (",", b"0\n1\n", None),
    "header": (",", b"source,target\n0,1\n", None),
    "fraction": (",", b"0,1\n1,2.0\n", None),
    "half": (",", b"0,1\n1,1.5\n", None),
    "exponent": (",", b"0,1\n1,2e0\n", None),
    "negative": (",", b"0,1\n1,-1\n", None),
    "beyond": (",", b"0,1\n1,3\n", None),
    "far beyond": (",", b"0,1\n1,4294967297\n", None),
    "beyond int64": (",", b"0,1\n1,18446744073709551617\n", None),
    "sign": (",", b"0,1\n1,+2\n", None),
    "hexadecimal": (",", b"0,1\n1,0x2\n", None),
    "thousands": (",", b'0,1\n1,"1,002"\n', None),
    "words": (",", b"0,1\nnan,2\n", None),
    "nul": (",", b"0,1\n1,\x002\n", None),
    "utf-16": (",", "0,1\n1,2\n".encode("utf-16"), None),
}


def write_chunks(folder: pathlib.Path, table: dict[str, Any], edges: int, nodes: int = 3) -> None:
    (folder / "metadata.json").write_text(json.dumps({
        "graph_name": "g", "node_type": ["_N"], "num_nodes_per_chunk": [[nodes]],
        "edge_type": ["_N:_E:_N"], "num_edges_per_chunk": [[edges]],
        "edges": {"_N:_E:_N": table}}))


def pairs_by_partition(folder: pathlib.Path, tool: str) -> tuple[list[tuple[int, int]] | None, str]:
    """As `packhouse partition` reads them: what it exports again as chunks of arrays."""
    output = folder.parent / f"{tool}-exported"
    done = run("partition", "export", folder, "--format", "chunked", "--output", output)
    if done.returncode != 0:
        return None, done.stderr
    table = json.loads((output / "metadata.json").read_text())["edges"]["_N:_E:_N"]
    found = [np.load(output / name) if table["format"]["name"] == "numpy" else
             np.loadtxt(output / name, dtype=np.int64, ndmin=2,
                        delimiter=table["format"]["delimiter"])
             for name in table["data"]]
    return [tuple(map(int, pair)) for array in found for pair in array.reshape(-1, 2)], ""


@pytest.mark.filterwarnings("ignore:loadtxt")
@pytest.mark.parametrize("name", EDGE_TEXTS)
def test_all_readers_of_edge_texts_read_the_same(
    server: LocalServer, tmp_path: pathlib.Path, name: str
) -> None:
    delimiter, text, wanted = EDGE_TEXTS[name]
    chunks = tmp_path / "chunks"
    chunks.mkdir()
    (chunks / "e.csv").write_bytes(text)
    count = 2 if wanted is None else len(wanted)
    write_chunks(chunks, {"format": {"name": "csv", "delimiter": delimiter}, "data": ["e.csv"]},
                 count)
    graph = "texts-" + "".join(c if c.isalnum() else "-" for c in name)
    done = import_graph(server, chunks, graph)
    found, message = pairs_by_partition(chunks, "chunks")
    if wanted is None:
        assert done.returncode == 1 and f"{chunks}/e.csv" in done.stderr, done.stderr
        assert found is None and f"{chunks}/e.csv" in message, (found, message)
    else:
        assert done.returncode == 0, done.stderr
        assert sorted(edges_of(server, graph, "_E")[0]) == wanted
        assert found == wanted, message
    if delimiter != ",":
        return
    # The same texts in a folder of OGB.
    raw = tmp_path / "ogb" / "raw"
    raw.mkdir(parents=True)
    (raw / "edge.csv.gz").write_bytes(gzip.compress(text))
    (raw / "num-node-list.csv").write_text("3\n")
    (raw / "num-edge-list.csv").write_text(f"{count}\n")
    done = import_graph(server, tmp_path / "ogb", f"{graph}-ogb", "--ogb-name", "as-is")
    if wanted is None:
        assert done.returncode == 1 and f"{raw}/edge.csv.gz" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert sorted(edges_of(server, f"{graph}-ogb", "edges")[0]) == wanted


EDGES = np.array([[0, 1], [2, 0], [1, 2], [2, 2]])
# Files of the same pairs as numpy may write them.
EDGE_ARRAYS: dict[str, Any] = {
    **{dtype: EDGES.astype(dtype) for dtype in
       ("<i8", "<i4", "<u4", "<u8", "<i2", "<u1", ">i8", ">i4", "<f8", "?", "<c8")},
    "fortran": np.asfortranarray(EDGES),
    "transposed": np.ascontiguousarray(EDGES.T).T,
    "fortran, big-endian": np.asfortranarray(EDGES.astype(">i8")),
    "flat": EDGES.ravel(),
    "three columns": np.hstack([EDGES, EDGES[:, :1]]),
    "lists of pairs": EDGES[:, :, None],
}


@pytest.mark.parametrize("name", EDGE_ARRAYS)
def test_readers_of_npy_files_read_what_numpy_wrote_or_say_why_not(
    server: LocalServer, tmp_path: pathlib.Path, name: str
) -> None:
    """Chunks' [edges, 2], and edge_index [2, edges] in a folder and in an archive."""
    array = EDGE_ARRAYS[name]
    graph = "arrays-" + "".join(c if c.isalnum() else "-" for c in name)
    chunks, folder = tmp_path / "chunks", tmp_path / "folder"
    chunks.mkdir()
    np.save(chunks / "e.npy", array)
    write_chunks(chunks, {"format": {"name": "numpy"}, "data": ["e.npy"]}, len(EDGES))
    (folder / "nodes" / "_N").mkdir(parents=True)
    (folder / "edges" / "_E").mkdir(parents=True)
    np.save(folder / "nodes" / "_N" / "#size.npy", np.array(3))
    np.save(folder / "edges" / "_E" / "edge_index.npy", array.T)
    np.savez(tmp_path / "a.npz",
             **{"nodes/_N/#size": np.array(3), "edges/_E/edge_index": np.ascontiguousarray(array.T)})
    wanted = sorted(map(tuple, EDGES.tolist()))
    for source, of in ((chunks, chunks / "e.npy"),
                       (folder, folder / "edges/_E/edge_index.npy"), (tmp_path / "a.npz",) * 2):
        done = import_graph(server, source, f"{graph}-{source.stem}")
        if done.returncode == 0:
            assert sorted(edges_of(server, f"{graph}-{source.stem}", "_E")[0]) == wanted
        else:
            assert str(of) in done.stderr, done.stderr
    found, message = pairs_by_partition(chunks, "arrays")
    assert (found is None and f"{chunks}/e.npy" in message) or sorted(found or []) == wanted
    if name in ("<i8", "<i4", "<u4", "<u8"):
        assert found is not None and done.returncode == 0


def test_what_is_exported_can_be_read_again(server: LocalServer, tmp_path: pathlib.Path) -> None:
    """`partition export` as chunks and as a METIS graph, read by `partition` and `graph import`."""
    rng = np.random.default_rng(2)
    pairs = sorted({(int(a), int(b)) for a, b in rng.integers(0, 30, (90, 2)) if a != b})
    x = rng.normal(size=(30, 3))
    chunks = tmp_path / "chunks"
    chunks.mkdir()
    (chunks / "e.csv").write_text("".join(f"{a} {b}\n" for a, b in pairs))
    np.save(chunks / "x.npy", x)
    (chunks / "metadata.json").write_text(json.dumps({
        "graph_name": "g", "node_type": ["n"], "num_nodes_per_type": [30],
        "edge_type": ["n:e:n"], "num_edges_per_type": [len(pairs)],
        "edges": {"n:e:n": {"format": {"name": "csv", "delimiter": " "}, "data": ["e.csv"]}},
        "node_data": {"n": {"x": {"format": {"name": "numpy"}, "data": ["x.npy"]}}}}))
    for form, number in (("chunked", 1), ("chunked", 3), ("metis", 1)):
        output = tmp_path / f"{form}{number}"
        done = run("partition", "export", chunks, "--format", form, "--chunks", number, "--output",
                   output)
        assert done.returncode == 0, done.stderr
        done = run("partition", output, "--parts", 2, "--json", "--output",
                   tmp_path / f"parts-{form}{number}")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        both = {(min(pair), max(pair)) for pair in pairs}
        assert report["num_nodes"] == 30
        assert report["num_edges"] == (2 * len(both) if form == "metis" else len(pairs))
        if form == "metis":
            continue
        done = import_graph(server, output, f"exported{number}")
        assert done.returncode == 0, done.stderr
        assert sorted(edges_of(server, f"exported{number}", "e")[0]) == pairs
        assert (columns_of(server, f"exported{number}", "n", 30)["x"] == x).all()
