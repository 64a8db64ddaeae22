"""Partitions that packhouse writes, loaded by DGL in the mode in which it verifies them.

PACKHOUSE_CLI names the command line. The graphs: DGL's golden inputs, the packages of Debian, and one
in the size of ogbn-products, each cut by METIS.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Callable

import numpy as np
import pytest

os.environ["DGL_DIST_DEBUG"] = "1"

import dgl  # noqa: E402  (reads the variable)
import torch  # noqa: E402

CLI = os.environ.get("PACKHOUSE_CLI", "")
pytestmark = pytest.mark.skipif(not CLI, reason="PACKHOUSE_CLI does not name the program")

SharedData = Callable[[str], pathlib.Path]


def write_homogeneous(
    folder: pathlib.Path, source: np.ndarray, target: np.ndarray, num_nodes: int
) -> pathlib.Path:
    """The graph in the chunked layout, with a feature that says which node each row is of."""
    folder.mkdir()
    np.save(folder / "edges.npy", np.stack([source, target], 1))
    np.save(folder / "node.npy", np.arange(num_nodes, dtype=np.int64))
    np.save(folder / "mask.npy", np.arange(num_nodes) % 10 == 0)
    numpy = {"name": "numpy"}
    meta = {
        "graph_name": "g",
        "node_type": ["_N"],
        "edge_type": ["_N:_E:_N"],
        "num_nodes_per_type": [num_nodes],
        "num_edges_per_type": [len(source)],
        "edges": {"_N:_E:_N": {"format": numpy, "data": ["edges.npy"]}},
        "node_data": {
            "_N": {
                "node": {"format": numpy, "data": ["node.npy"]},
                "mask": {"format": numpy, "data": ["mask.npy"]},
            }
        },
        "edge_data": {},
    }
    (folder / "metadata.json").write_text(json.dumps(meta), encoding="utf-8")
    return folder


def partition(graph: pathlib.Path, out: pathlib.Path, *options: object) -> pathlib.Path:
    command = [CLI, "partition", graph, "--name", "g", "--output", out, *options]
    subprocess.run([str(word) for word in command], check=True, timeout=600, capture_output=True)
    return out / "g.json"


def check_with_dgl(path: pathlib.Path, source: np.ndarray, target: np.ndarray) -> None:
    """Every part loads, its book agrees with its ids, and each edge joins what it joined."""
    num_parts = json.loads(path.read_text(encoding="utf-8"))["num_parts"]
    edges_seen = 0
    for number in range(num_parts):
        loaded = dgl.distributed.load_partition(str(path), number)
        graph, node_features, _, book = loaded[:4]
        inner = graph.ndata["inner_node"].bool()
        assert book.num_partitions() == num_parts
        ids = graph.ndata[dgl.NID]
        assert (book.nid2partid(ids[inner]) == number).all()
        if num_parts > 1:
            assert (book.nid2partid(ids) == graph.ndata["part_id"]).all()
        original = graph.ndata["orig_id"]
        assert torch.equal(node_features["_N/node"], original[inner])
        ends = graph.edges(order="eid")
        edge = graph.edata["orig_id"].numpy()
        np.testing.assert_array_equal(original[ends[0]].numpy(), source[edge])
        np.testing.assert_array_equal(original[ends[1]].numpy(), target[edge])
        edges_seen += int(graph.edata["inner_edge"].sum())
        graph.formats(["csc"]).in_degrees()
    assert edges_seen == len(source)


@pytest.mark.parametrize("options", [("--hops", 1), ("--hops", 2), ("--graph-formats", "csc")])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_golden_input(
    shared_data: SharedData, tmp_path: pathlib.Path, parts: int, options: tuple[object, ...]
) -> None:
    data = np.load(shared_data("partition/input/homo.npz"))
    source, target = data["src"], data["dst"]
    graph = write_homogeneous(tmp_path / "graph", source, target, int(data["num_nodes"]))
    path = partition(graph, tmp_path / "out", "--method", "metis", "--parts", parts, *options)
    check_with_dgl(path, source, target)


def test_types(shared_data: SharedData, tmp_path: pathlib.Path) -> None:
    """The chunked graph with three node types, one of them absent from most parts."""
    graph = shared_data("partition/chunked/metadata.json").parent
    path = partition(graph, tmp_path / "out", "--parts", 8, "--method", "metis")
    script = shared_data("partition/load_with_dgl.py")
    subprocess.run([sys.executable, str(script), str(path)], check=True, timeout=300)


def test_debian(shared_data: SharedData, tmp_path: pathlib.Path) -> None:
    data = np.load(shared_data("partition/bench/debian_depends.npz"))
    source, target = data["src"].astype(np.int64), data["dst"].astype(np.int64)
    graph = write_homogeneous(tmp_path / "graph", source, target, int(data["num_nodes"]))
    path = partition(
        graph, tmp_path / "out", "--method", "metis", "--parts", 16,
        "--balance-ntypes", "mask", "--balance-edges",
    )
    check_with_dgl(path, source, target)


def test_products_like(tmp_path: pathlib.Path) -> None:
    """244,903 nodes and 6.2 million edges, most of them within clusters."""
    rng = np.random.default_rng(0)
    num_nodes, num_edges = 244_903, 6_190_000
    source = rng.integers(0, num_nodes, num_edges)
    near = (source // 500 * 500 + rng.integers(0, 500, num_edges)) % num_nodes
    target = np.where(rng.random(num_edges) < 0.8, near, rng.integers(0, num_nodes, num_edges))
    graph = write_homogeneous(tmp_path / "graph", source, target, num_nodes)
    path = partition(graph, tmp_path / "out", "--method", "metis", "--parts", 16)
    check_with_dgl(path, source, target)
