"""Partitions of source graphs by a real server."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import grpc
import numpy as np
import pytest

from packhouse import (
    Client,
    EdgeRows,
    Evaluation,
    Loader,
    LocalServer,
    NodeRows,
    PackhouseError,
    PartitionMethod,
    PartitionState,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
)

NODES = 400
SCHEMA = SourceGraphSchema(
    [SourceNodeSet("n", [SourceColumn("x", "float32", (2,)), SourceColumn("train", "bool")])],
    [SourceEdgeSet("e", "n", "n")],
)


def imported_edges() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Sources and targets in the order in which they are imported, which a seal does not keep."""
    random = np.random.default_rng(3)
    # Neighbours are near each other, so that METIS finds something.
    sources = np.repeat(np.arange(NODES), 6)
    return sources, (sources + random.integers(1, 20, len(sources))) % NODES


def make_graph(client: Client, name: str) -> None:
    ids = np.arange(NODES)
    columns = {"x": np.stack([ids, -ids], 1).astype(np.float32), "train": ids % 3 == 0}
    sources, targets = imported_edges()
    client.source_graphs.create(name, SCHEMA)
    client.source_graphs.append(
        name, [NodeRows("n", ids, columns), EdgeRows("e", sources, targets)]
    )
    client.source_graphs.seal(name)


def files_in(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def expect(code: grpc.StatusCode, words: str) -> pytest.RaisesContext[PackhouseError]:
    return pytest.raises(PackhouseError, match=f"(?s)^{code.name}: .*{words}")


def test_mappings_lead_to_the_rows_that_were_imported(client: Client, tmp_path: pathlib.Path) -> None:
    random = np.random.default_rng(9)
    ids = random.permutation(50) * 3
    sources, targets = (ids[random.integers(0, 50, 400)] for _ in range(2))
    schema = SourceGraphSchema(
        [SourceNodeSet("n", [SourceColumn("label", "int64")])],
        [SourceEdgeSet("e", "n", "n", [SourceColumn("row", "int64")])],
    )
    client.source_graphs.create("partitions/rows", schema)
    rows = {"row": np.arange(400)}
    client.source_graphs.append(
        "partitions/rows", [NodeRows("n", ids, {"label": ids}), EdgeRows("e", sources, targets, rows)], producer="one"
    )
    client.source_graphs.seal("partitions/rows")
    client.partitions.begin(
        "partitions/rows", "two", 2, method="random", mapping=True, formats=["npy"]
    )
    client.partitions.wait("partitions/rows", "two")
    client.partitions.download("partitions/rows", "two", tmp_path / "two")
    # What a trainer made in the order of new ids goes back to the rows that it came from: the same
    # as by the command, for which the rows of its files are the ids.
    mapping = np.load(tmp_path / "two/mapping/edges/n:e:n.npy")
    assert sorted(mapping.tolist()) == list(range(400))
    edge_map = json.loads((tmp_path / "two/two.json").read_text())["edge_map"]["n:e:n"]
    made = [
        np.load(tmp_path / f"two/part{part}/edge_feat/n:e:n/row.npy")[: end - begin]
        for part, (begin, end) in enumerate(edge_map)
    ]
    assert np.concatenate(made).tolist() == mapping.tolist()
    nodes = np.load(tmp_path / "two/mapping/nodes/n.npy")
    assert sorted(nodes.tolist()) == list(range(50))
    label = [np.load(tmp_path / f"two/part{p}/node_feat/n/label.npy") for p in range(2)]
    assert np.concatenate(label).tolist() == ids[nodes].tolist()


@pytest.mark.parametrize("method", ["metis", "streaming", "random"])
def test_parts_come_back(client: Client, tmp_path: pathlib.Path, method: str) -> None:
    graph = f"partitions/{method}"
    make_graph(client, graph)
    begun = client.partitions.begin(
        graph,
        "four",
        4,
        method=method,
        balance_node_sets={"n": ["train"]},
        formats=["npy"],
        mapping=True,
    )
    assert (begun.graph, begun.name, begun.num_parts) == (graph, "four", 4)
    seen: list[float] = []
    done = client.partitions.wait(graph, "four", lambda each: seen.append(each.share_done))
    assert seen == sorted(seen) and seen[-1] == 1
    report = done.report
    assert report is not None and report.method is PartitionMethod.of(method, "method")
    assert sum(part.num_inner_nodes for part in report.parts) == NODES == report.num_nodes
    assert sum(part.num_cut_edges for part in report.parts) == report.num_cut_edges > 0

    def fail(folder: pathlib.Path) -> None:
        assert (folder / "four.json").exists() and not (tmp_path / "four").exists()
        raise KeyError

    # Who finishes it comes before its name; without it there is none.
    with pytest.raises(KeyError):
        client.partitions.download(graph, "four", tmp_path / "four", fail)
    assert not (tmp_path / "four").exists()
    downloaded = client.partitions.download(graph, "four", tmp_path / "four")
    files = files_in(tmp_path / "four")
    assert {path: len(data) for path, data in files.items()} == downloaded.files
    assert {"four.json", "part0/graph.dgl", "part3/edge_feat.dgl"} <= files.keys()
    order = np.load(tmp_path / "four" / "mapping" / "nodes" / "n.npy")
    rows = [
        np.load(tmp_path / "four" / f"part{part}" / "node_feat" / "n" / "x.npy")
        for part in range(4)
    ]
    assert np.concatenate(rows)[:, 0].tolist() == order.tolist()
    assert sorted(order.tolist()) == list(range(NODES))
    with pytest.raises(FileExistsError):
        client.partitions.download(graph, "four", tmp_path / "four")

    # The same words find it; made again, it has the same bytes.
    same = client.partitions.begin(
        graph,
        "four",
        4,
        method=method,
        balance_node_sets={"n": ["train"]},
        formats=["npy"],
        mapping=True,
    )
    assert same.state is PartitionState.DONE
    with expect(grpc.StatusCode.ALREADY_EXISTS, "'four'"):
        client.partitions.begin(graph, "four", 5)
    assert [each.name for each in client.partitions.list(graph)] == ["four"]
    client.partitions.delete(graph, "four")
    with expect(grpc.StatusCode.NOT_FOUND, "'four'"):
        client.partitions.get(graph, "four")
    client.partitions.begin(
        graph,
        "four",
        4,
        method=method,
        balance_node_sets={"n": ["train"]},
        formats=["npy"],
        mapping=True,
    )
    client.partitions.wait(graph, "four")
    client.partitions.download(graph, "four", tmp_path / "again")
    assert files_in(tmp_path / "again") == files

    client.source_graphs.delete(graph)
    with expect(grpc.StatusCode.NOT_FOUND, graph):
        client.partitions.get(graph, "four")


def test_refusals_name_what_is_wrong(client: Client, tmp_path: pathlib.Path) -> None:
    with expect(grpc.StatusCode.NOT_FOUND, "'partitions/none'"):
        client.partitions.begin("partitions/none", "a", 2)
    client.source_graphs.create("partitions/open", SCHEMA)
    with expect(grpc.StatusCode.FAILED_PRECONDITION, "'partitions/open'"):
        client.partitions.begin("partitions/open", "a", 2)
    assert client.partitions.list("partitions/open") == ()
    make_graph(client, "partitions/b")
    for arguments, words in (
        ({"name": "a b", "num_parts": 2}, "'a b'"),
        ({"name": "a", "num_parts": 0}, "num_parts is 0"),
        ({"name": "a", "num_parts": 2, "num_hops": 17}, "num_hops is 17"),
        ({"name": "a", "num_parts": 2, "num_hops": 2, "halo": "in_edges"}, "num_hops is 2"),
        ({"name": "a", "num_parts": 2, "imbalance": 0.5}, "imbalance is 0.5"),
        ({"name": "a", "num_parts": 2, "graph_forms": ["x"]}, "graph_forms: 'x'"),
        ({"name": "a", "num_parts": 300, "trainers_per_machine": 300}, "90000"),
        ({"name": "a", "num_parts": 2, "balance_node_sets": {"m": ["train"]}}, "'m'"),
    ):
        with expect(grpc.StatusCode.INVALID_ARGUMENT, words):
            client.partitions.begin("partitions/b", **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="method: 'best'"):
        client.partitions.begin("partitions/b", "a", 2, method="best")
    client.source_graphs.delete("partitions/b")
    client.source_graphs.delete("partitions/open")


def test_goes_on_after_a_kill(mortal_server: LocalServer, tmp_path: pathlib.Path) -> None:
    with Client(mortal_server.address) as client:
        make_graph(client, "g")
        begun = [
            client.partitions.begin("g", name, parts, method="random", formats=["npy"])
            for name, parts in (("a", 40), ("b", 4))
        ]
    mortal_server.kill()
    mortal_server.start()
    with Client(mortal_server.address) as client:
        for partition in begun:
            done = client.partitions.wait("g", partition.name)
            assert done.report is not None and len(done.report.parts) == partition.num_parts
            client.partitions.download("g", partition.name, tmp_path / partition.name)
        # What was never interrupted has the same bytes.
        client.partitions.delete("g", "a")
        client.partitions.begin("g", "a", 40, method="random", formats=["npy"])
        client.partitions.wait("g", "a")
        client.partitions.download("g", "a", tmp_path / "again")
    assert files_in(tmp_path / "again") == files_in(tmp_path / "a")


def cut_finely(client: Client, graph: str) -> None:
    make_graph(client, graph)
    client.partitions.begin(graph, "fine", 40, method="streaming", files=False)
    done = client.partitions.wait(graph, "fine")
    assert set(done.files) == {"report.json", "parts.npy"}
    assert done.report is not None
    assert sum(part.num_cut_edges for part in done.report.parts) == done.report.num_cut_edges


def test_parts_are_batches_with_the_edges_between_them(
    server: LocalServer, client: Client
) -> None:
    graph = "partitions/fine"
    cut_finely(client, graph)
    seen: list[int] = []
    dataset = client.partitions.make_dataset(
        graph, "fine", "parts", on_progress=lambda each: seen.append(each.num_parts)
    )
    assert dataset.num_graphs == 40 == seen[-1]
    assert client.partitions.make_dataset(graph, "fine", "parts").version == dataset.version
    with expect(grpc.StatusCode.FAILED_PRECONDITION, "parts"):
        client.partitions.make_dataset(graph, "fine", "parts", halo=True)
    # It is all in the data set.
    read = client.source_graphs.read_edges(graph, "e")
    edges = list(zip(read.sources.tolist(), read.targets.tolist()))
    imported = list(zip(*(ends.tolist() for ends in imported_edges())))
    assert edges != imported
    client.source_graphs.delete(graph)

    limits = {"n": 120, "e": 600, "graphs": 16}
    loader = Loader(
        server.address, job="joined", dataset="parts", join_parts=True, limits=limits, seed=3
    )
    orders = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        nodes: list[int] = []
        order = []
        num_edges = 0
        for batch in loader:
            numbers = batch["n.#number"]
            assert len(numbers) <= 120 and len(batch["e.source"]) <= 600
            assert batch["n.x"][:, 0].tolist() == numbers.tolist()
            nodes += numbers.tolist()
            order.append(batch.graph_ids.tolist())
            ends = list(zip(numbers[batch["e.source"]], numbers[batch["e.target"]]))
            assert ends == [edges[number] for number in batch["e.#number"]]
            assert ends == [imported[row] for row in batch["e.#row"]]
            assert batch["n.#row"].tolist() == numbers.tolist()
            inside = set(numbers.tolist())
            expected = sum(source in inside and target in inside for source, target in edges)
            assert len(ends) == expected
            num_edges += len(ends)
        assert sorted(nodes) == list(range(NODES))
        orders.append(order)
    assert orders[0] != orders[1]
    info = loader.epoch_info()
    assert info.num_graphs == 40 and info.joined_parts is not None
    assert info.joined_parts.num_inner_edges + info.joined_parts.num_restored_edges == num_edges
    assert info.joined_parts.num_restored_edges > 0
    loader.close()
    evaluation = Evaluation(server.address, dataset="parts", join_parts=True, limits=limits)
    for _ in range(2):
        nodes = [node for batch in evaluation for node in batch["n.#number"].tolist()]
        assert sorted(nodes) == list(range(NODES))


def test_parts_with_a_halo_are_whole_graphs(server: LocalServer, client: Client) -> None:
    graph = "partitions/halo"
    cut_finely(client, graph)
    dataset = client.partitions.make_dataset(graph, "fine", "halos", halo=True, ids=True)
    assert "e/cut" not in dataset.schema.components
    loader = Loader(
        server.address, job="halos", dataset="halos", limits={"n": 4000, "e": 4000, "graphs": 8}
    )
    inner: list[int] = []
    num_edges = 0
    for batch in loader:
        inner += batch["n.#number"][batch["n.#inner"].astype(bool)].tolist()
        rows = batch["e.#row"]
        sources, targets = (batch["n.#row"][batch[f"e.{end}"]] for end in ("source", "target"))
        assert (imported_edges()[0][rows] == sources).all()
        assert (imported_edges()[1][rows] == targets).all()
        num_edges += len(batch["e.source"])
    assert sorted(inner) == list(range(NODES)) and num_edges == 6 * NODES
    loader.close()
    client.source_graphs.delete(graph)


def test_the_example_learns_from_clusters(server: LocalServer) -> None:
    """Without PyG the feed is ours alone; every node comes once an epoch."""
    examples = pathlib.Path(__file__).parents[2] / "client" / "python" / "examples"
    ran = subprocess.run(
        [sys.executable, "-B", examples / "train_clusters.py", "--address", server.address]
        + ["--nodes", "3000", "--parts", "100", "--epochs", "6"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    last = re.search(
        r"packhouse epoch 6: \d+ batches, 3000 nodes, \d+ edges, test accuracy ([\d.]+)", ran.stdout
    )
    # Of features alone it is about 0.6.
    assert last and float(last[1]) > 0.8, ran.stdout
