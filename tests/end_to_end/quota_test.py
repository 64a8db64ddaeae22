"""Quotas of namespaces, as clients see them."""

from __future__ import annotations

import itertools
import pathlib
import queue

import grpc
import numpy as np
import pytest
from server_process import ServerProcess

from packhouse import (
    Client,
    GraphSchema,
    GraphTable,
    NodeRows,
    PackhouseError,
    SourceColumn,
    SourceGraphSchema,
    SourceNodeSet,
    TensorSpec,
)
from packhouse.v1 import dataset_pb2, dataset_pb2_grpc

POLICY = """
version: 1
roles:
- {role: owner, principals: [anonymous], namespaces: ["*"]}
namespaces:
  team: {quotas: {datasets: 2, disk_bytes: 100KiB, streams: 1}}
  large: {quotas: {source_graphs: 1, disk_bytes: 200KiB}}
"""
SCHEMA = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))


def test_each_quota_names_itself_its_bound_and_the_value(tmp_path: pathlib.Path) -> None:
    (tmp_path / "policy").write_text(POLICY, encoding="ascii")
    with ServerProcess(
        *("--data-dir", str(tmp_path / "data"), "--policy", str(tmp_path / "policy"))
    ) as server, Client(server.address) as client:

        def refusal(name: str) -> str:
            with pytest.raises(PackhouseError) as refused:
                client.datasets.create(name, SCHEMA)
            assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            return refused.value.message

        for name in ("team/a", "team/b", "other/a", "teams/a", "plain"):
            client.datasets.create(name, SCHEMA)
        assert refusal("team/c") == "namespace 'team': the quota 'datasets' is 2, it would become 3"
        client.datasets.delete("team/b")
        client.datasets.create("team/b", SCHEMA)

        table = GraphTable(
            SCHEMA, np.full((10, 1), 500, np.uint32), {"x": np.zeros(5000, np.float32)}
        )
        with pytest.raises(PackhouseError) as refused:
            for number in itertools.count():
                client.datasets.append("team/a", table, producer=f"p{number}")
        assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "namespace 'team': the quota 'disk_bytes' is 102400, it would" in str(refused.value)
        assert 20_000 < client.datasets.get("team/a").num_bytes <= 102_400
        client.datasets.append("other/a", table, producer="p")

    # Streams: the first is told that it is open before the second begins.
    with ServerProcess(
        *("--data-dir", str(tmp_path / "data"), "--policy", str(tmp_path / "policy"))
    ) as server, grpc.insecure_channel(server.address) as channel:
        stub = dataset_pb2_grpc.DatasetServiceStub(channel)
        request = dataset_pb2.AppendRequest(dataset="team/b")
        requests: queue.Queue[dataset_pb2.AppendRequest | None] = queue.Queue()
        requests.put(request)
        first = stub.Append(iter(requests.get, None))
        next(first)
        with pytest.raises(grpc.RpcError) as beyond:
            list(stub.Append(iter((request,))))
        assert beyond.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "namespace 'team': the quota 'streams' is 1, 1 are open" in beyond.value.details()
        assert list(stub.Append(iter((dataset_pb2.AppendRequest(dataset="plain"),))))
        requests.put(None)
        assert not list(first)


def test_a_source_graph_beyond_a_quota_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "policy").write_text(POLICY, encoding="ascii")
    schema = SourceGraphSchema([SourceNodeSet("paper", [SourceColumn("x", "float32", (64,))])], [])
    with ServerProcess(
        *("--data-dir", str(tmp_path / "data"), "--policy", str(tmp_path / "policy"))
    ) as server, Client(server.address) as client:
        graphs = client.source_graphs
        graphs.create("large/a", schema)
        with pytest.raises(PackhouseError) as refused:
            graphs.create("large/b", schema)
        assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refused.value.message == (
            "namespace 'large': the quota 'source_graphs' is 1, it would become 2"
        )
        # What is there is found there, not refused; other namespaces have their own quotas.
        with pytest.raises(PackhouseError) as there:
            graphs.create("large/a", schema)
        assert there.value.code is grpc.StatusCode.ALREADY_EXISTS
        graphs.create("larger/b", schema)
        client.datasets.create("large/not-a-source-graph", SCHEMA)
        graphs.delete("large/a")
        graphs.create("large/b", schema)

        rows = NodeRows("paper", range(100), {"x": np.zeros((100, 64), np.float32)})
        with pytest.raises(PackhouseError) as full:
            for number in itertools.count():
                graphs.append("large/b", [rows], producer=f"p{number}")
        assert full.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "namespace 'large': the quota 'disk_bytes' is 204800, it would" in str(full.value)
        used = [
            line
            for line in server.get("/metrics")[1].splitlines()
            if line.startswith("packhouse_namespace_quota_used") and '"large"' in line
        ]
        assert 'packhouse_namespace_quota_used{namespace="large",quota="source_graphs"} 1' in used
