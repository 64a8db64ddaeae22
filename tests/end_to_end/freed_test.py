"""What is deleted is freed: bytes, maps and descriptors are back where they were, for every kind of thing
and every reader that keeps something.
"""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import re
import time
from typing import Any, Callable, Iterator

import numpy as np
import pytest
from server_process import ServerProcess

from packhouse import (
    Client,
    EdgeRows,
    Evaluation,
    GraphSchema,
    GraphTable,
    Loader,
    NodeRows,
    Samples,
    Segments,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
    SubGraphs,
    TensorSpec,
)

NUM_CYCLES = 3
NUM_NODES = 2000
LIMITS = {"nodes": 512}
# In seconds: what is freed is freed in the background, on a machine that has other work.
PATIENCE = 60.0
SPEC = """
seed_op { op_name: "seed" node_set_name: "n" }
sampling_ops {
  op_name: "a" input_op_names: "seed" edge_set_name: "e" sample_size: 2 strategy: RANDOM_UNIFORM
}
"""
TABLE = GraphTable.from_graphs(
    GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes", (64,)),)),
    [{"x": np.full((8, 64), i, np.float32)} for i in range(600)],
)


class World:
    """A server, and what it has of the disk."""

    def __init__(self, folder: pathlib.Path, server: ServerProcess, client: Client) -> None:
        self.folder = folder
        self.server = server
        self.client = client
        self.num_names = 0

    def new_name(self, name: str) -> str:
        self.num_names += 1
        return f"{name}-{self.num_names}"

    def held(self) -> dict[str, int]:
        """Maps and descriptors of files of the folder; bytes of source graphs and data sets."""
        process = pathlib.Path(f"/proc/{self.server.process.pid}")
        name = str(self.folder)
        told: collections.Counter[str] = collections.Counter()
        for line in (process / "maps").read_text(encoding="utf-8").splitlines():
            told["maps"] += name in line
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                told["descriptors"] += name in os.readlink(descriptor)
        graphs = self.folder / "source_graphs"
        told["bytes of source graphs"] = 0
        # Files and folders may go while they are looked at. An empty list of partitions stays.
        for folder, _, names in os.walk(graphs):
            for name_of_file in set(names) - {"LOCK", "graphs", "partition_list"}:
                with contextlib.suppress(FileNotFoundError):
                    told["bytes of source graphs"] += os.stat(
                        os.path.join(folder, name_of_file)
                    ).st_size
        page = self.server.get("/metrics")[1]
        for series in ('packhouse_store_bytes{store="datasets"}', "packhouse_source_graph_bytes"):
            for value in re.findall(rf"^{re.escape(series)} (\S+)$", page, re.MULTILINE):
                told[series] = int(float(value))
        return dict(told)

    def await_held(self, expected: dict[str, int]) -> None:
        """At most that."""
        end = time.monotonic() + PATIENCE
        while True:
            now = self.held()
            if all(now[what] <= most for what, most in expected.items()):
                return
            assert time.monotonic() < end, (expected, now)


@pytest.fixture
def world(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Iterator[World]:
    flags = getattr(request, "param", ())
    with ServerProcess("--data-dir", str(tmp_path / "data"), *flags) as server:
        with Client(server.address) as client:
            yield World(tmp_path / "data", server, client)


def load(world: World, job: str, num_batches: int | None = None, **arguments: Any) -> None:
    """All batches, or some: then the epoch stays as it is. The job stays anyway, of a new name."""
    arguments.setdefault("limits", LIMITS)
    with Loader(world.server.address, job=world.new_name(job), **arguments) as loader:
        for number, _ in enumerate(loader, 1):
            if number == num_batches:
                break


def make_dataset(world: World) -> None:
    world.client.datasets.create("d", TABLE.schema)
    world.client.datasets.append("d", TABLE, chunk_bytes=1 << 18)
    world.client.datasets.seal("d")


def read_dataset(world: World) -> None:
    client, address = world.client, world.server.address
    assert client.datasets.verify("d").is_sound
    client.datasets.get("d", include_histogram=True)
    load(world, "whole", dataset="d")
    load(world, "begun", 2, dataset="d")
    load(world, "dynamic", 2, dataset="d", worker="w")
    load(world, "in-order", 2, dataset="d", in_order=True)
    load(world, "segments", 2, dataset="d", segments=Segments(graphs=200))
    for _ in zip(range(2), Evaluation(address, dataset="d", limits=LIMITS), strict=False):
        pass


def make_source_graph(world: World) -> None:
    ids = np.arange(NUM_NODES)
    schema = SourceGraphSchema(
        [SourceNodeSet("n", [SourceColumn("x", "float32", (16,))])], [SourceEdgeSet("e", "n", "n")]
    )
    graphs = world.client.source_graphs
    graphs.create("g", schema)
    x = np.zeros((NUM_NODES, 16), np.float32)
    edges = EdgeRows("e", np.repeat(ids, 3), np.roll(np.repeat(ids, 3), 7))
    graphs.append("g", [NodeRows("n", ids, {"x": x}), edges])
    graphs.seal("g")


def read_source_graph(world: World) -> None:
    client = world.client
    sub_graphs = SubGraphs("g", SPEC)
    assert client.source_graphs.verify("g").num_damaged == 0
    assert sum(map(len, client.samples.tables(sub_graphs, range(20)))) == 20
    client.samples.estimate_sizes(sub_graphs)
    for job, count in (("windows", 2), ("all-windows", None)):
        load(
            world,
            job,
            count,
            samples=Samples(sub_graphs, window=500),
            limits={"n": 256, "e": 256, "graphs": 64},
        )


def make_partition(world: World) -> None:
    world.client.partitions.begin("g", "p", 3)
    world.client.partitions.wait("g", "p")


def read_partition(world: World, folder: pathlib.Path) -> None:
    world.client.partitions.download("g", "p", folder)


def expect_freed(
    world: World, use: Callable[[], None], delete: Callable[[], None]
) -> None:
    """After each cycle all is as it was before the first; and something was held in between."""
    expected = world.held()
    for _ in range(NUM_CYCLES):
        use()
        held = world.held()
        assert any(held[what] > expected[what] for what in held), held
        delete()
        world.await_held(expected)


def test_a_data_set(world: World) -> None:
    def use() -> None:
        make_dataset(world)
        read_dataset(world)

    expect_freed(world, use, lambda: world.client.datasets.delete("d"))


def test_a_source_graph_and_its_partition(world: World, tmp_path: pathlib.Path) -> None:
    def use() -> None:
        make_source_graph(world)
        read_source_graph(world)
        make_partition(world)
        read_partition(world, tmp_path / world.new_name("downloaded"))

    expect_freed(world, use, lambda: world.client.source_graphs.delete("g"))


def test_a_partition(world: World, tmp_path: pathlib.Path) -> None:
    make_source_graph(world)

    def use() -> None:
        make_partition(world)
        read_partition(world, tmp_path / world.new_name("downloaded"))

    expect_freed(world, use, lambda: world.client.partitions.delete("g", "p"))


def test_made_data_sets(world: World) -> None:
    client = world.client

    def use() -> None:
        make_source_graph(world)
        make_partition(world)
        client.samples.make_dataset(SubGraphs("g", SPEC), "sampled", range(100))
        client.partitions.make_dataset("g", "p", "pieces")
        load(world, "sampled", 2, dataset="sampled", limits={"n": 64, "e": 64, "graphs": 16})
        load(world, "pieces", 1, dataset="pieces", limits={"n": 2000, "e": 9000, "graphs": 3})

    def delete() -> None:
        for name in ("sampled", "pieces"):
            client.datasets.delete(name)
        client.source_graphs.delete("g")

    expect_freed(world, use, delete)


def test_histograms_and_jobs(world: World) -> None:
    """The data set of a deleted job stays, and its epochs hold nothing when it is deleted, too."""

    def use() -> None:
        for number in range(20):
            world.client.histograms.observe(f"h{number}", [np.array([[1, 2], [3, 4]])])
        make_dataset(world)
        load(world, "begun", 2, dataset="d")
        load(world, "whole", dataset="d")

    def delete() -> None:
        for number in range(20):
            world.client.histograms.delete(f"h{number}")
        for job in list(world.client.jobs.list()):
            world.client.jobs.delete(job.name)
        world.client.datasets.delete("d")

    expect_freed(world, use, delete)


@pytest.mark.parametrize(
    "world", [("--dataset-retention", "1s", "--source-graph-retention", "1s")], indirect=True
)
def test_what_nobody_uses_any_more(world: World) -> None:
    """What retention deletes, though it was loaded and drawn from."""

    def use() -> None:
        make_dataset(world)
        load(world, "whole", dataset="d")
        make_source_graph(world)
        sub_graphs = SubGraphs("g", SPEC)
        assert sum(map(len, world.client.samples.tables(sub_graphs, range(20)))) == 20

    expect_freed(world, use, lambda: None)
