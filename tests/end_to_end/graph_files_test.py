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
    return subprocess.run(
        [os.environ["PACKHOUSE_CLI"], *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )


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
    for source, missing in ((floats, 3), (ids, 1)):
        done = import_graph(server, source, f"told-{source.stem}")
        assert done.returncode == 0, done.stderr
        line = f"of its {3 + missing} nodes at least {missing} have no row"
        assert line in done.stderr, done.stderr
        assert "--appended-only" in done.stderr
        refused = import_graph(server, source, f"refused-{source.stem}", "--appended-only")
        assert refused.returncode == 1
        assert "FAILED_PRECONDITION" in refused.stderr and "does not have" in refused.stderr
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
