"""Wings that are left out: the build says what does not go together, the server what it was built without."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import urllib.error
import urllib.request
from typing import Iterator

import grpc
import numpy as np
import pytest

from packhouse import (
    Client,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    PackhouseError,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
)
from packhouse.large.source_graph import NodeRows
from packhouse.v1 import (
    dataset_pb2,
    dataset_pb2_grpc,
    graphs_pb2,
    loader_pb2,
    loader_pb2_grpc,
    packing_pb2,
    packing_pb2_grpc,
)

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = GraphSchema(("nodes", "edges"), ())


def built_with(wings: str, folder: pathlib.Path) -> tuple[list[str], str]:
    """The wings that are built for a value of PACKHOUSE_WINGS, and what CMake complains of."""
    script = folder / "wings.cmake"
    script.write_text(
        "cmake_minimum_required(VERSION 3.25)\n"
        f"include({REPOSITORY}/service/wings/wings.cmake)\n"
        "packhouse_wings(built)\n"
        'message(STATUS "${built}")\n',
        encoding="utf-8",
    )
    done = subprocess.run(
        ["cmake", f"-DPACKHOUSE_WINGS={wings}", "-P", str(script)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return [], " ".join(done.stderr.split())
    return done.stdout.removeprefix("--").strip().split(";"), ""


def test_a_wing_needs_those_that_it_stands_on(tmp_path: pathlib.Path) -> None:
    everything, complaint = built_with("all", tmp_path)
    assert complaint == ""
    assert everything == ["tfgnn", "graphs", "partition", "partition_mpi", "cluster", "page"]
    # The order in which they are named says nothing.
    assert built_with(";".join(reversed(everything)), tmp_path) == (everything, "")
    assert built_with("graphs;page;tfgnn", tmp_path) == (["tfgnn", "graphs", "page"], "")
    assert built_with("page", tmp_path) == (["page"], "")
    assert built_with("none", tmp_path) == ([""], "")
    for left_out, above in [
        ("tfgnn", "graphs"),
        ("graphs", "partition"),
        ("partition", "partition_mpi"),
    ]:
        wings = ";".join(wing for wing in everything if wing != left_out)
        built, complaint = built_with(wings, tmp_path)
        assert built == []
        assert f"PACKHOUSE_WINGS: the wing '{above}' stands on '{left_out}', which is left out" in complaint


def test_a_wing_that_there_is_not_is_named(tmp_path: pathlib.Path) -> None:
    built, complaint = built_with("tfgnn;paeg", tmp_path)
    assert built == []
    assert "PACKHOUSE_WINGS: there is no wing 'paeg'; there are tfgnn, graphs, " in complaint


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """packhoused without wings, to its end."""
    return subprocess.run(
        [os.environ["PACKHOUSE_SERVER_WITHOUT_WINGS"], *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


FLAGS = {
    "cluster": [
        *("ledger", "advertise", "ledger-ca", "ledger-cert", "ledger-key", "ledger-lease"),
        *("s3-endpoint", "s3-region", "s3-credentials", "s3-ca"),
        *("cache-dir", "cache-bytes", "sweep-period"),
    ],
    "graphs": ["max-source-graph-bytes", "max-source-graphs", "source-graph-retention"],
    "partition": ["max-running-partitions", "max-waiting-partitions", "max-partition-bytes"],
}


def flags_of(program: str) -> set[str]:
    """All that it would take from a file."""
    done = subprocess.run([program, "--print-config"], capture_output=True, text=True, timeout=60, check=True)
    return {line.split(" = ")[0] for line in done.stdout.splitlines()}


def test_a_flag_of_a_wing_that_is_left_out_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    for wing, flags in FLAGS.items():
        for flag in flags:
            refused = f"--{flag}: this packhoused was built without the wing {wing}"
            file = tmp_path / "packhoused.toml"
            file.write_text(f"{flag} = '3'\n", encoding="ascii")
            variable = "PACKHOUSED_" + flag.upper().replace("-", "_")
            for done in (run(f"--{flag}", "3"), run("--config", str(file)), run(**{variable: "3"})):
                assert (done.returncode, refused in done.stderr) == (2, True), done.stderr


def test_flags_differ_by_those_of_the_wings() -> None:
    """So none of a wing is forgotten in its wing.cmake."""
    without = flags_of(os.environ["PACKHOUSE_SERVER_WITHOUT_WINGS"])
    of_wings = {flag for flags in FLAGS.values() for flag in flags}
    assert flags_of(os.environ["PACKHOUSED"]) - without == of_wings
    text = run("--help").stdout
    assert "--max-streams" in text
    assert not [flag for flag in of_wings if f"\n  --{flag} " in text]


def test_a_store_of_a_wing_that_is_left_out_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    done = run("--store", "s3://bucket/prefix")
    assert done.returncode == 2
    assert "--store s3://bucket/prefix: this packhoused was built without the wing cluster" in done.stderr
    done = run("--store", "ftp://bucket")
    assert done.returncode == 2
    assert "--store ftp://bucket: is not lmdb:DIR" in done.stderr
    done = run("store", "copy", f"lmdb:{tmp_path}/a", f"lmdb:{tmp_path}/b", "--all")
    assert done.returncode == 2
    assert "store copy: this packhoused was built without the wing cluster" in done.stderr
    done = run("store", "check", "s3://bucket")
    assert done.returncode == 1
    assert "s3://bucket: this packhoused was built without the wing cluster" in done.stderr
    assert "copy" not in run("store", "--help").stdout.replace("Snapshot, restore, copy", "")


@pytest.fixture(scope="module", name="server")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """One without wings."""
    binary = os.environ["PACKHOUSE_SERVER_WITHOUT_WINGS"]
    with LocalServer(binary, data_dir=tmp_path_factory.mktemp("data")) as server:
        yield server


def get(server: LocalServer, path: str) -> tuple[int, str]:
    """Status and body of an HTTP page."""
    try:
        with urllib.request.urlopen(f"http://{server.http_address}{path}", timeout=20) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_package_works_with_such_a_server(server: LocalServer) -> None:
    with Client(server.address) as client:
        client.datasets.create("molecules", SCHEMA)
        client.datasets.append("molecules", [GraphTable(SCHEMA, np.array([[3, 2], [5, 4], [2, 1]]))])
        client.datasets.seal("molecules")
    with Loader(server.address, dataset="molecules", job="job", limits={"nodes": 8, "edges": 8}) as loader:
        graphs = [graph for batch in loader for graph in batch.graph_ids]
    assert sorted(graphs) == [0, 1, 2]
    with pytest.raises(PackhouseError, match="epoch.join_parts: .* without the wing partition"):
        with Loader(
            server.address, dataset="molecules", job="parts", limits={"nodes": 8, "edges": 8}, join_parts=True
        ) as loader:
            next(iter(loader))
    with grpc.insecure_channel(server.address) as channel:
        request = loader_pb2.GetEpochRequest(epoch=loader_pb2.EpochSpec(job="drawn", samples=loader_pb2.SampleSpec()))
        with pytest.raises(grpc.RpcError, match="epoch.samples: .* without the wing graphs"):
            loader_pb2_grpc.LoaderServiceStub(channel).GetEpoch(request, timeout=20)


def test_examples_are_refused_by_name(server: LocalServer) -> None:
    with Client(server.address) as client:
        client.datasets.create("plain", SCHEMA)
        client.datasets.append("plain", [GraphTable(SCHEMA, np.array([[3, 2]]))])
        client.datasets.seal("plain")
        client.datasets.create("open", SCHEMA)
    schema = graphs_pb2.TfgnnSchema(text="node_sets { key: 'n' value { } }")
    create = dataset_pb2.CreateDatasetRequest(name="t", tfgnn_schema=schema)
    append = dataset_pb2.AppendRequest(dataset="open", examples=graphs_pb2.Examples(examples=[b""]))
    pack = packing_pb2.PackRequest(open=packing_pb2.PackOpen(tfgnn_schema=schema))
    epoch = loader_pb2.EpochSpec(dataset="plain")
    epoch.rank_groups.add().shapes.add().capacities.add(component="nodes", rows=8)
    with grpc.insecure_channel(server.address) as channel:
        datasets = dataset_pb2_grpc.DatasetServiceStub(channel)
        packing = packing_pb2_grpc.PackingServiceStub(channel)
        loads = loader_pb2_grpc.LoaderServiceStub(channel)
        for field, call in [
            ("tfgnn_schema", lambda: datasets.CreateDataset(create)),
            ("tfgnn_schema", lambda: next(packing.Pack(iter([pack])))),
            ("examples", lambda: next(datasets.Append(iter([append])))),
            ("ExportDataset", lambda: next(datasets.ExportDataset(dataset_pb2.ExportDatasetRequest(name="plain")))),
            ("ExportEpoch", lambda: next(loads.ExportEpoch(loader_pb2.ExportEpochRequest(epoch=epoch)))),
        ]:
            with pytest.raises(grpc.RpcError) as refused:
                call()
            assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
            assert f"{field}: this packhoused was built without the wing tfgnn" in refused.value.details()


def test_a_path_of_a_wing_that_is_left_out_says_so(server: LocalServer) -> None:
    assert get(server, "/healthz")[0] == 200
    assert get(server, "/metrics")[0] == 200
    for path in ("/", "/page.js"):
        assert get(server, path) == (404, "this packhoused was built without the wing page\n")
    assert get(server, "/nothing")[0] == 404


def test_a_method_of_a_wing_that_is_left_out_is_unimplemented(server: LocalServer) -> None:
    with grpc.insecure_channel(server.address) as channel:
        for service, why in [
            ("packhouse.v1.PartitioningService", "this packhoused was built without the wing partition"),
            ("packhouse.v1.SamplingService", "this packhoused was built without the wing graphs"),
            ("packhouse.v1.SourceGraphService", "this packhoused was built without the wing graphs"),
            ("packhouse.v1.NoService", "there is no method "),
        ]:
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(f"/{service}/ListPartitions")(b"", timeout=20)
            assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
            assert why in refused.value.details()
    with Client(server.address) as client:
        with pytest.raises(PackhouseError, match="without the wing partition") as told:
            client.partitions.list("graph")
    assert "ListPartitions" in str(told.value)


def test_source_graphs_of_another_packhoused_stay_and_are_named(tmp_path: pathlib.Path) -> None:
    data = tmp_path / "data"
    schema = SourceGraphSchema([SourceNodeSet("paper")], [SourceEdgeSet("cites", "paper", "paper")])
    with LocalServer(os.environ["PACKHOUSED"], data_dir=data) as server, Client(server.address) as client:
        client.source_graphs.create("g", schema)
        client.source_graphs.append("g", [NodeRows("paper", ids=np.arange(3))])
        client.source_graphs.seal("g")
    why = "this packhoused was built without the wing graphs"
    left_out = f"the source graphs in '{data}/source_graphs' are left out: {why}"
    binary = os.environ["PACKHOUSE_SERVER_WITHOUT_WINGS"]
    arguments = ("--snapshot-dir", str(tmp_path))
    with LocalServer(binary, data_dir=data, arguments=arguments) as server:
        with Client(server.address) as client, pytest.raises(PackhouseError, match=why):
            client.source_graphs.get("g")
        with Client(f"unix:{data}/admin.sock") as client:
            with pytest.raises(PackhouseError, match=re.escape(left_out)):
                client.administration.snapshot("s")
    for command, status, told in [
        (("check", data), 0, left_out),
        (("snapshot", data, tmp_path / "snapshot"), 1, left_out),
        (("repair", data, "--drop-source-graph", "g"), 1, f"source graph 'g': {why}"),
    ]:
        done = run("store", *map(str, command))
        assert (done.returncode, told in done.stderr) == (status, True), done.stderr
    with LocalServer(os.environ["PACKHOUSED"], data_dir=data) as server, Client(server.address) as client:
        assert client.source_graphs.get("g").num_nodes == {"paper": 3}
