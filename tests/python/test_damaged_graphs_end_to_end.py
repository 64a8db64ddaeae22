"""Single bits of a sealed source graph are flipped: every answer is right or DATA_LOSS with its name.

The server lives, starts again, and serves the other graph.
"""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any, Callable

import grpc
import numpy as np
import pytest

from packhouse import (
    Client,
    EdgeRows,
    Loader,
    LocalServer,
    NodeRows,
    PackhouseError,
    Samples,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
    SubGraphs,
)
from packhouse.sampling import SamplingSpecBuilder

NODES = 300
SCHEMA = SourceGraphSchema(
    [SourceNodeSet("n", [SourceColumn("x", "float32", (2,)), SourceColumn("t", "int64")])],
    [SourceEdgeSet("e", "n", "n", [SourceColumn("weight", "float64")])],
)
FLIPS_OF_A_FILE = 2


def make_graph(client: Client, name: str) -> None:
    random = np.random.default_rng(5)
    ids = np.arange(NODES) * 7
    x = np.stack([ids, -ids], 1).astype(np.float32)
    sources = np.repeat(np.arange(NODES), 5)
    targets = (sources + random.integers(1, 20, len(sources))) % NODES
    weights = {"weight": np.arange(len(sources), dtype=np.float64)}
    client.source_graphs.create(name, SCHEMA)
    client.source_graphs.append(
        name,
        [NodeRows("n", ids, {"x": x, "t": ids}), EdgeRows("e", ids[sources], ids[targets], weights)],
    )
    client.source_graphs.seal(name)


def spec(strategy: str) -> Any:
    builder = SamplingSpecBuilder(SCHEMA, strategy)
    seed = builder.seed("n")
    seed.sample(3, "e").sample(2, "e")
    return builder.build()


def tensors(client: Client, sub_graphs: SubGraphs, **seeds: Any) -> list[Any]:
    tables = client.samples.tables(sub_graphs, seeds.get("seeds", range(NODES)), seed=3)
    return [
        (table.sizes.tolist(), {name: rows.tobytes() for name, rows in table.tensors.items()})
        for table in tables
    ]


def questions(server: LocalServer, client: Client, graph: str) -> dict[str, Callable[[], Any]]:
    """What readers ask of a graph, by everything that reads one."""

    def partition() -> Any:
        client.partitions.begin(graph, "p", 3, method="random", mapping=True)
        done = client.partitions.wait(graph, "p")
        if done.error is not None:
            raise done.error
        files = sorted(done.files.items())
        client.partitions.delete(graph, "p")
        return files

    def epoch() -> Any:
        with Loader(
            server.address,
            job=f"job-{graph}-{np.random.default_rng().integers(1 << 60)}",
            samples=Samples(SubGraphs(graph, spec("random_uniform"))),
            limits={"n": 400, "e": 800, "graphs": 64},
            seed=1,
        ) as loader:
            return [batch.sizes.tolist() for batch in loader]

    def lookup() -> Any:
        found = client.source_graphs.lookup_nodes(
            graph, "n", ids=np.arange(NODES) * 7, columns=["x", "t"]
        )
        return found.numbers.tolist(), {k: v.tobytes() for k, v in found.columns.items()}

    def edges() -> Any:
        read = client.source_graphs.read_edges(graph, "e", columns=["weight"])
        return read.sources.tolist(), read.targets.tolist(), read.columns["weight"].tobytes()

    return {
        "get": lambda: client.source_graphs.get(graph).state.name,
        "features": lambda: tensors(client, SubGraphs(graph, spec("random_uniform"))),
        "ids": lambda: tensors(client, SubGraphs(graph, spec("random_uniform"), payload="ids")),
        "weighted": lambda: tensors(client, SubGraphs(graph, spec("top_k"))),
        "induced": lambda: tensors(
            client, SubGraphs(graph, spec("random_uniform"), induced=True, node_time_column="t")
        ),
        "lookup": lookup,
        "edges": edges,
        "epoch": epoch,
        "partition": partition,
    }


def test_every_answer_is_right_or_data_loss(tmp_path: pathlib.Path) -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    sound = tmp_path / "sound"
    with LocalServer(data_dir=sound) as server, Client(server.address) as client:
        make_graph(client, "other")
        folders = set((sound / "source_graphs").iterdir())
        make_graph(client, "hurt")
        expected = {name: ask() for name, ask in questions(server, client, "hurt").items()}
        (folder,) = set((sound / "source_graphs").iterdir()) - folders
    files = sorted(
        path.relative_to(sound)
        for path in folder.rglob("*")
        if path.is_file() and path.stat().st_size and "companion" not in path.parts
    )
    assert len(files) > 10
    random = np.random.default_rng(1)
    damaged = tmp_path / "damaged"
    num_refused = 0
    for file in files:
        for _ in range(FLIPS_OF_A_FILE):
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(sound, damaged)
            content = bytearray((damaged / file).read_bytes())
            bit = int(random.integers(8 * len(content)))
            content[bit // 8] ^= 1 << bit % 8
            (damaged / file).write_bytes(content)
            refused = set()
            # Again after a restart: nothing goes on into a crash.
            for start in range(2):
                with LocalServer(data_dir=damaged) as server, Client(server.address) as client:
                    for name, ask in questions(server, client, "hurt").items():
                        try:
                            answer = ask()
                        except PackhouseError as error:
                            assert error.code is grpc.StatusCode.DATA_LOSS, (file, bit, name, error)
                            assert "'hurt'" in str(error), (file, bit, name, error)
                            refused.add(name)
                        else:
                            assert answer == expected[name], (file, bit, name)
                    if start == 0:
                        for name, ask in questions(server, client, "other").items():
                            ask()
                    listed = {graph.name: graph for graph in client.source_graphs.list()}
                    assert set(listed) == {"hurt", "other"}, (file, bit)
                    assert listed["other"].state.name == "SEALED"
                    assert listed["hurt"].state.name == "DAMAGED", (file, bit)
                assert server.returncode == 0, (file, bit)
            assert refused, (file, bit)
            num_refused += len(refused)
    assert num_refused > len(files)
    with LocalServer(data_dir=damaged) as server, Client(server.address) as client:
        client.source_graphs.delete("hurt")
        make_graph(client, "hurt")
        for name, ask in questions(server, client, "hurt").items():
            assert ask() == expected[name]
