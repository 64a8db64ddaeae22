"""Names that users give are no paths: whatever they are called, nothing beside the data folder changes.

A tree around the folder is watched while hostile names, and names as foreign graphs have them, go
through all RPCs and through the command line. They work, or are refused before anything is done.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import pkgutil
import subprocess
from typing import Any, Iterator

import grpc
import numpy as np
import pytest

import packhouse.v1
from packhouse import (
    Client,
    EdgeRows,
    LocalServer,
    NodeRows,
    PackhouseError,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
    SubGraphs,
)
from packhouse.partition import file_name
from packhouse.sampling import SamplingSpecBuilder
from packhouse.v1 import partitioning_pb2, partitioning_pb2_grpc

# From the files of a partition to beside the data folder.
UP = "../" * 9 + "planted"
DEEP = "a/b/c/d/e/f/g/h"
HOSTILE = (UP, "..", "/planted", "a/../../planted", "-planted", "planted\n", "%2e%2e%2fplanted")
# FB15k-237, Wikidata5M, and what people call things.
FOREIGN = ("/film/film/genre", "P31", "Größe", "a b", "100%", "*", "x" * 40)
CALL_SECONDS = 10.0


def tree(folder: pathlib.Path, but: pathlib.Path) -> dict[str, bytes]:
    """All paths below a folder, except those below another, with the files' bytes."""
    found = {}
    for place, folders, files in os.walk(folder):
        if pathlib.Path(place) == but:
            folders.clear()
            continue
        for name in files:
            path = os.path.join(place, name)
            found[path] = pathlib.Path(path).read_bytes()
        found[place] = b""
    return found


@pytest.fixture
def watched(tmp_path: pathlib.Path) -> Iterator[tuple[LocalServer, pathlib.Path]]:
    """A server whose data folder lies deep in a folder that must not change."""
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    around = tmp_path / DEEP
    around.mkdir(parents=True)
    # What names could reach from there, to be overwritten or read.
    for place in (tmp_path, tmp_path / "a", around):
        (place / "planted").write_text("mine")
    data = around / "data"
    before: dict[str, bytes] = {}
    with LocalServer(data_dir=data) as server:
        before = tree(tmp_path, data)
        yield server, data
        assert tree(tmp_path, data) == before
    assert server.returncode == 0
    assert tree(tmp_path, data) == before
    assert not os.path.exists("/planted"), "in the root"


def messages_of(method: Any) -> Any:
    return importlib.import_module(
        method.input_type.file.name.replace("/", ".").replace(".proto", "_pb2")
    ).__dict__[method.input_type.name]


def fill(message: Any, name: str, depth: int) -> None:
    """Every text of a message, and of those in it, is the name."""
    chosen = set()
    for field in message.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if oneof is not None and oneof.name in chosen:
            continue
        repeated = field.label == field.LABEL_REPEATED
        if field.type == field.TYPE_STRING:
            if repeated:
                getattr(message, field.name).append(name)
            else:
                setattr(message, field.name, name)
        elif field.type == field.TYPE_MESSAGE and depth > 0:
            if field.message_type.GetOptions().map_entry:
                continue
            inner = getattr(message, field.name)
            inner = inner.add() if repeated else inner
            inner.SetInParent()
            fill(inner, name, depth - 1)
        else:
            continue
        if oneof is not None:
            chosen.add(oneof.name)


def services() -> list[Any]:
    found = []
    for module in pkgutil.iter_modules(packhouse.v1.__path__):
        if module.name.endswith("_pb2"):
            loaded = importlib.import_module(f"packhouse.v1.{module.name}")
            found += loaded.DESCRIPTOR.services_by_name.values()
    return found


def test_any_name_in_any_call(watched: tuple[LocalServer, pathlib.Path]) -> None:
    server, _ = watched
    calls = 0
    with grpc.insecure_channel(server.address) as channel:
        for service in services():
            for method in service.methods:
                request_type = messages_of(method)
                path = f"/{service.full_name}/{method.name}"
                for name in HOSTILE + FOREIGN:
                    for depth in (0, 3):
                        request = request_type()
                        fill(request, name, depth)
                        # A stream that takes more than it is given would wait.
                        call = channel.stream_stream(
                            path, request_type.SerializeToString, lambda answer: answer
                        )(iter([request]), timeout=CALL_SECONDS)
                        try:
                            next(call, None)
                        except grpc.RpcError as error:
                            code = error.code()
                            assert code not in (
                                grpc.StatusCode.UNKNOWN,
                                grpc.StatusCode.INTERNAL,
                                grpc.StatusCode.DATA_LOSS,
                            ), (path, name, error.details())
                        finally:
                            call.cancel()
                        calls += 1
    assert calls > 500


def make_graph(client: Client, graph: str, sets: tuple[str, ...]) -> None:
    """A node set and an edge set of each name, with columns of each name."""
    columns = [SourceColumn(name, "int64") for name in sets]
    schema = SourceGraphSchema(
        [SourceNodeSet(name, columns) for name in sets],
        [
            SourceEdgeSet(f"{name}!", name, sets[(at + 1) % len(sets)], columns)
            for at, name in enumerate(sets)
        ],
    )
    ids = np.arange(20)
    values = {name: ids for name in sets}
    client.source_graphs.create(graph, schema)
    for name in sets:
        client.source_graphs.append(
            graph, [NodeRows(name, ids, values), EdgeRows(f"{name}!", ids, (ids * 3 + 1) % 20, values)]
        )
    client.source_graphs.seal(graph)


def test_partitions_and_samples_of_any_names(
    watched: tuple[LocalServer, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    server, data = watched
    sets = HOSTILE + FOREIGN
    with Client(server.address) as client:
        make_graph(client, "g", sets)
        client.partitions.begin(
            "g", "p", 2, method="random", mapping=True, assignment=True, formats=["npy"]
        )
        done = client.partitions.wait("g", "p")
        assert done.state.name == "DONE", done
        for name in sets:
            file = file_name(name)
            assert f"mapping/nodes/{file}.npy" in done.files
            assert f"assignment/{file}.txt" in done.files
        target = sets[1]
        edges = file_name(f"{sets[0]}:{sets[0]}!:{target}")
        assert f"mapping/edges/{edges}.npy" in done.files
        for path in (UP, "..", "x" * 5000, "x/" * 3000 + "x", "part0", "part0/", "/etc/passwd", "\0"):
            request = partitioning_pb2.ReadPartitionFileRequest(graph="g", name="p", path=path)
            with grpc.insecure_channel(server.address) as channel:
                stub = partitioning_pb2_grpc.PartitioningServiceStub(channel)
                with pytest.raises(grpc.RpcError) as refused:
                    stub.ReadPartitionFile(request)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND, refused.value
            assert str(data) not in refused.value.details()
        # Components of graphs have names of fewer characters.
        with pytest.raises(PackhouseError, match="INVALID_ARGUMENT: .*component name"):
            client.partitions.make_dataset("g", "p", "parts")
        for name in sets:
            spec = SamplingSpecBuilder(client.source_graphs.get("g").schema, "random_uniform")
            spec.seed(name).sample(3, f"{name}!")
            try:
                assert len(list(client.samples.tables(SubGraphs("g", spec.build()), [1]))) == 1
            except PackhouseError as error:
                assert "characters of [A-Za-z" in str(error)
        # Partitions that are called so.
        for name in sets:
            with pytest.raises(PackhouseError, match="INVALID_ARGUMENT"):
                client.partitions.begin("g", name + "/", 2)
        client.partitions.delete("g", "p")
        client.source_graphs.delete("g")
    assert not list(data.rglob("*planted*")), "it is deleted with its graph"


def write_chunked(folder: pathlib.Path, sets: tuple[str, ...]) -> None:
    folder.mkdir()
    types = [f"{name}:{name}:{name}" for name in sets]
    (folder / "e.csv").write_text("".join(f"{n} {(n + 1) % 9}\n" for n in range(9)))
    np.save(folder / "w.npy", np.arange(9.0))
    table = {"format": {"name": "numpy"}, "data": ["w.npy"]}
    edges = {"format": {"name": "csv", "delimiter": " "}, "data": ["e.csv"]}
    metadata = {
        "graph_name": "g",
        "node_type": list(sets),
        "num_nodes_per_type": [9] * len(sets),
        "edge_type": types,
        "num_edges_per_type": [9] * len(sets),
        "edges": {name: edges for name in types},
        "node_data": {name: {"w": table} for name in sets},
        "edge_data": {name: {"w": table} for name in types},
    }
    (folder / "metadata.json").write_text(json.dumps(metadata))


def test_names_in_files_of_the_command(tmp_path: pathlib.Path) -> None:
    if "PACKHOUSE_CLI" not in os.environ:
        pytest.skip("PACKHOUSE_CLI does not name the program")
    place = tmp_path / DEEP
    place.mkdir(parents=True)
    sets = tuple(name for name in HOSTILE + FOREIGN)
    write_chunked(place / "graph", sets)
    outputs = {"plain", "full", "again", "chunked"}

    def run(*arguments: str) -> None:
        ran = subprocess.run(
            [os.environ["PACKHOUSE_CLI"], "partition", *arguments],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, (arguments, ran.stderr)

    before = tree(tmp_path, place)
    run("graph", "--parts", "2", "--output", "plain")
    run(
        *("graph", "--parts", "2", "--output", "full", "--mapping", "--write-assignment"),
        *("--orig-ids", "--format", "npy", "--format", "safetensors"),
    )
    run("graph", "--assignment", "full/assignment", "--output", "again", "--write-assignment")
    run("export", "graph", "--format", "chunked", "--output", "chunked")
    assert (place / "again/assignment" / f"{file_name(UP)}.txt").read_bytes() == (
        place / "full/assignment" / f"{file_name(UP)}.txt"
    ).read_bytes()
    assert {path.name for path in place.iterdir()} == outputs | {"graph"}
    assert tree(tmp_path, place) == before
    for name in ("../planted", "..", "a/b"):
        ran = subprocess.run(
            [
                *(os.environ["PACKHOUSE_CLI"], "partition", "export", "graph"),
                *("--format", "parmetis", "--output", "texts", "--name", name),
            ],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode != 0 and "the graph's name" in ran.stderr, ran.stderr
    assert {path.name for path in place.iterdir()} == outputs | {"graph"}


def test_relations_of_knowledge_graphs_are_imported(
    watched: tuple[LocalServer, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    if "PACKHOUSE_CLI" not in os.environ:
        pytest.skip("PACKHOUSE_CLI does not name the program")
    server, _ = watched
    # As FB15k-237 has them: compound ones have a dot.
    relations = ("/film/film/genre", "/people/person/spouse_s./people/marriage/type_of_union")
    arrays = {"nodes/entity/#size": np.array(9)}
    for at, relation in enumerate(relations):
        edge_index = np.array([[0, 1, 2 + at], [3, 4, 5]])
        arrays[f"edges/entity.{relation}.entity/edge_index"] = edge_index
    file = tmp_path / DEEP / "data/fb.npz"
    np.savez(file, **arrays)
    imported = subprocess.run(
        [os.environ["PACKHOUSE_CLI"], "graph", "import", str(file)]
        + ["--server", server.address, "--graph", "fb", "--seal"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert imported.returncode == 0, imported.stderr
    with Client(server.address) as client:
        schema = client.source_graphs.get("fb").schema
        assert {edges.name for edges in schema.edge_sets} == set(relations)
        for at, relation in enumerate(relations):
            assert client.source_graphs.read_edges("fb", relation).sources.tolist() == [0, 1, 2 + at]
        client.partitions.begin("fb", "p", 2, method="random", mapping=True, formats=["npy"])
        assert client.partitions.wait("fb", "p").state.name == "DONE"
