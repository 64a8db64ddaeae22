"""The law of `packhoused store check`: it says "sound" if and only if a server starts with the folder
and everything in it can be read, whatever was done to one of its files.

Each file in turn is deleted, emptied, cut off, changed by a bit, swapped with another one; a folder is
deleted; a foreign file is added. Here a part of these is tried, drawn by a seed; with
PACKHOUSE_ALL_CASES=1 all are.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import subprocess
from typing import Any, NamedTuple

import numpy as np
import pytest
from server_process import ServerProcess

from packhouse import (
    BatchFeedback,
    Client,
    EdgeRows,
    GraphSchema,
    GraphTable,
    Loader,
    NodeRows,
    PackhouseError,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceGraphState,
    SourceNodeSet,
    SubGraphs,
    TensorSpec,
)

PACKHOUSED = os.environ.get("PACKHOUSED", "")
SEED = 1
NUM_CASES = 36
LIMITS = {"nodes": 16}
SPEC = """
seed_op { op_name: "seed" node_set_name: "n" }
sampling_ops {
  op_name: "a" input_op_names: "seed" edge_set_name: "e" sample_size: 2 strategy: RANDOM_UNIFORM
}
"""

pytestmark = pytest.mark.skipif(not PACKHOUSED, reason="PACKHOUSED names the program to test")


TABLES = [
    GraphTable.from_graphs(
        GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),)),
        [{"x": np.full(1 + i % 5, i, np.float32)} for i in range(count)],
    )
    for count in (40, 30)
]
NUM_NODES = 60


def make_graph(client: Client, name: str) -> None:
    ids = np.arange(NUM_NODES)
    schema = SourceGraphSchema(
        [SourceNodeSet("n", [SourceColumn("x", "float32"), SourceColumn("t", text=True)])],
        [SourceEdgeSet("e", "n", "n")],
    )
    client.source_graphs.create(name, schema)
    nodes = NodeRows("n", ids, {"x": ids.astype(np.float32), "t": [f"node {i}" for i in ids]})
    edges = EdgeRows("e", np.repeat(ids, 2), np.roll(np.repeat(ids, 2), 3))
    client.source_graphs.append(name, [nodes, edges], producer="p")


def loader(address: str, job: str) -> Loader:
    sharing: dict[str, Any] = {"worker": "w"} if job == "dynamic" else {}
    return Loader(
        address, dataset="sealed", job=job, limits=LIMITS, on_existing="resume", **sharing
    )


def fill(address: str) -> Any:
    """One of everything; a position in an epoch."""
    with Client(address) as client:
        for name in ("sealed", "open"):
            client.datasets.create(name, TABLES[0].schema)
            client.datasets.append(name, TABLES, producer="p")
        client.datasets.seal("sealed")
        for name in ("graph", "growing"):
            make_graph(client, name)
        client.source_graphs.seal("graph")
        client.partitions.begin("graph", "parts", 2, assignment=True, mapping=True)
        client.partitions.wait("graph", "parts")
        client.histograms.observe("sizes", [np.array([[1, 2], [3, 4]])], producer="p")
        client.feedback.report("model/cpu", [BatchFeedback({"nodes": 9, "graphs": 2}, 0.1)])
    for job in ("dynamic", "ranked"):
        with loader(address, job) as batches:
            for _ in zip(range(4), batches, strict=False):
                pass
            position = batches.state_dict() if job == "ranked" else None
    return position


def read(address: str, position: Any, folder: pathlib.Path) -> Any:
    """All that a user can: in a form that can be compared. Raises what a user would see."""
    told: dict[str, Any] = {}
    with Client(address) as client:
        for dataset in client.datasets.list():
            if not client.datasets.verify(dataset.name).is_sound:
                raise ValueError(f"data set {dataset.name} is damaged")
            now = client.datasets.get(dataset.name, include_histogram=True)
            again = client.datasets.append(dataset.name, TABLES, producer="p", first_sequence=1)
            told[f"data set {dataset.name}"] = (
                *(now.state, now.num_graphs, now.num_bytes, str(now.histogram)),
                again.num_repeated,
            )
        for graph in client.source_graphs.list():
            if client.source_graphs.verify(graph.name).num_damaged:
                raise ValueError(f"source graph {graph.name} is damaged")
            told[f"source graph {graph.name}"] = (graph.state, graph.num_nodes, graph.num_edges)
            if graph.state is not SourceGraphState.SEALED:
                client.source_graphs.seal(graph.name)
            drawn = list(client.samples.tables(SubGraphs(graph.name, SPEC), range(NUM_NODES)))
            told[f"drawn of {graph.name}"] = {
                name: rows.tolist() for name, rows in GraphTable.concatenate(drawn).tensors.items()
            }
            for listed in client.partitions.list(graph.name):
                found = client.partitions.wait(graph.name, listed.name)
                client.partitions.download(graph.name, listed.name, folder / listed.name)
                files = sorted((folder / listed.name).rglob("*"))
                told[f"partition {listed.name}"] = (
                    *(found.state, found.num_parts),
                    [(path.name, path.read_bytes()) for path in files if path.is_file()],
                )
        told["jobs"] = [
            (job.name, [(each.num_done, each.num_batches) for each in job.epochs])
            for job in client.jobs.list()
        ]
        told["histogram"] = str(client.histograms.get("sizes"))
        told["models"] = str(client.feedback.get("model/cpu"))
    for job in ("ranked", "dynamic"):
        with loader(address, job) as batches:
            told[f"rest of {job}"] = sum(len(batch.graph_ids) for batch in batches)
    with loader(address, "ranked") as batches:
        batches.load_state_dict(position, attempt="2")
        told["from the position"] = sum(len(batch.graph_ids) for batch in batches)
    return told


class Case(NamedTuple):
    """Something that is done to a file, or a folder; and to another one, if it is a swap."""

    what: str
    path: str
    other: str = ""

    def do(self, data: pathlib.Path) -> None:
        path = data / self.path
        if self.what == "delete":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            return
        if self.what == "foreign":
            (path / "foreign").write_bytes(b"something else")
            return
        content = path.read_bytes()
        if self.what == "swap":
            path.write_bytes((data / self.other).read_bytes())
            (data / self.other).write_bytes(content)
            return
        draw = random.Random(str(self))
        if self.what == "empty":
            content = b""
        elif self.what == "truncate":
            content = content[: draw.randrange(1, max(2, len(content)))]
        else:
            place = draw.randrange(len(content))
            changed = content[place] ^ (1 << draw.randrange(8))
            content = content[:place] + bytes([changed]) + content[place + 1 :]
        path.write_bytes(content)


def all_cases(data: pathlib.Path) -> list[Case]:
    draw = random.Random(SEED)
    below = sorted(path.relative_to(data).as_posix() for path in data.rglob("*"))
    files = [path for path in below if (data / path).is_file()]
    folders = [path for path in below if (data / path).is_dir()]
    cases = [Case("foreign", folder) for folder in (".", *folders)]
    cases += [Case("delete", path) for path in below]
    for file in files:
        if (data / file).stat().st_size == 0:
            continue
        cases += [Case(what, file) for what in ("empty", "truncate", "flip", "flip a second")]
        cases.append(Case("swap", file, draw.choice([other for other in files if other != file])))
    return cases


def check(data: pathlib.Path) -> list[str] | None:
    """Damages, in words; None if there are none."""
    done = subprocess.run(
        [PACKHOUSED, "store", "check", "--json", data], capture_output=True, text=True, timeout=120
    )
    if done.returncode == 0:
        assert json.loads(done.stdout)["damages"] == []
        return None
    assert done.returncode == 1, done
    return [done.stdout, done.stderr]


def try_all(data: pathlib.Path, position: Any, folder: pathlib.Path) -> Any:
    """What can be read by a server with the folder, or why not."""
    try:
        with ServerProcess("--data-dir", str(data), "--epoch-retention", "0s") as server:
            return read(server.address, position, folder)
    except (PackhouseError, RuntimeError, ValueError, OSError) as error:
        return f"{type(error).__name__}: {error}"


def test_check_says_sound_if_and_only_if_everything_reads(tmp_path: pathlib.Path) -> None:
    data, work = tmp_path / "data", tmp_path / "work"
    with ServerProcess("--data-dir", str(data)) as server:
        position = fill(server.address)
        server.stop()
    # A first start and end more, after which a server changes nothing.
    with ServerProcess("--data-dir", str(data)) as server:
        server.stop()
    cases = all_cases(data)
    if not os.environ.get("PACKHOUSE_ALL_CASES"):
        cases = random.Random(SEED).sample(cases, NUM_CASES)
    shutil.copytree(data, work / "data")
    expected = try_all(work / "data", position, work / "files")
    assert isinstance(expected, dict), expected
    disagreements = []
    for case in cases:
        shutil.rmtree(work)
        shutil.copytree(data, work / "data")
        case.do(work / "data")
        damages = check(work / "data")
        found = try_all(work / "data", position, work / "files")
        if (damages is None) != (found == expected):
            if isinstance(found, dict):
                found = {key: found.get(key) for key in expected if found.get(key) != expected[key]}
            disagreements.append((case, damages, found))
    assert not disagreements, "\n".join(map(str, disagreements))
