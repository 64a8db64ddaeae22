"""What the server's log says, and that nobody waits for its reader."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import signal
from typing import Any

import grpc
import numpy as np
import pytest
from server_process import ServerProcess

from packhouse import (
    BatchFeedback,
    Client,
    ComponentProfile,
    DeviceProfile,
    EdgeRows,
    GraphSchema,
    GraphTable,
    NodeRows,
    PackhouseError,
    PackOptions,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
    SubGraphs,
    TensorSpec,
)

SIZES = np.array([[1, 0], [2, 0]])
SAMPLING_SPEC = """
seed_op { op_name: "seed" node_set_name: "n" }
sampling_ops {
  op_name: "a" input_op_names: "seed" edge_set_name: "e" sample_size: 2 strategy: RANDOM_UNIFORM
}
"""


def events(log: pathlib.Path) -> list[dict[str, Any]]:
    """All lines: each is a JSON object."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def test_a_life_is_told_from_the_addresses_to_the_end(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    bounds = {"max-connections": 80, "max-connections-per-client": 70, "max-streams-per-connection": 9}
    with log.open("w") as file, ServerProcess(
        *("--data-dir", str(tmp_path / "data"), "--lane", f"unix:{tmp_path}/lane"),
        *("--lame-duck=1ms", "--drain-timeout=7s"),
        *(f"--{name}={value}" for name, value in bounds.items()),
        log=file,
    ) as server:  # fmt: skip
        metrics = server.get("/metrics")[1]
        text = metrics if isinstance(metrics, str) else metrics.decode()
        assert [line for line in text.splitlines() if line.startswith("packhouse_ready{")] == [
            f'packhouse_ready{{reason="{reason}"}} 1' for reason in ("datasets", "delivery", "draining")
        ]
        # Of those that wait the one with the least number is taken first.
        for sent in (signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM):
            server.process.send_signal(sent)
        assert server.process.wait(60) == 0
    told = events(log)
    for line in told:
        assert line.pop("time")
    listening = told[0]
    assert listening.pop("http").startswith("127.0.0.1:")
    assert listening.pop("commit") and listening.pop("version")
    assert told == [
        {
            "level": "info", "event": "listening", "grpc": server.address,
            "admin": f"unix:{tmp_path}/data/admin.sock", "lane": f"unix:{tmp_path}/lane",
            **{name.replace("-", "_"): value for name, value in bounds.items()},
        },
        {"level": "info", "event": "reloading", "signal": "SIGHUP"},
        {"level": "info", "event": "signal ignored", "signal": "SIGUSR1",
         "message": "it has no meaning here"},
        {"level": "info", "event": "draining", "signal": "SIGTERM", "lame_duck_ms": 1,
         "timeout_ms": 7000},
        {"level": "info", "event": "drained"},
    ]  # fmt: skip


@pytest.mark.parametrize("flag", ["--data-dir", "--signing-key"])
def test_a_key_that_is_none_is_no_other_one(tmp_path: pathlib.Path, flag: str) -> None:
    """Cursors that were given out would be refused, and nobody would know why."""
    key = tmp_path / "signing.key"
    key.write_text("not a key\n", encoding="ascii")
    log = tmp_path / "log"
    with log.open("w") as file, pytest.raises(RuntimeError, match="ended before"):
        ServerProcess(flag, str(tmp_path if flag == "--data-dir" else key), log=file)
    assert events(log)[-1]["message"] == f"--signing-key: '{key}' is no key of 64 hexadecimal digits"
    assert key.read_text(encoding="ascii") == "not a key\n"


def test_failures_and_deletions_say_who_asked(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    flags = ("--data-dir", str(tmp_path / "data"))
    with log.open("w") as file, ServerProcess(*flags, log=file) as server:
        with Client(server.address) as client:
            for _ in range(50):
                with pytest.raises(PackhouseError):
                    client.datasets.get("none")
            with pytest.raises(PackhouseError):
                client.histograms.delete('a "name"\n' + "x" * 1000)
            client.datasets.create("graphs", GraphSchema(("nodes",), ()))
            client.datasets.delete("graphs")
            client.histograms.observe("sizes", [SIZES])
            client.histograms.delete("sizes")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
    lines = events(log)
    for line in lines:
        assert list(line)[:3] == ["time", "level", "event"]
    failed = [line for line in lines if line["event"] == "call failed"]
    first = [line for line in failed if line["method"] == "GetDataset"]
    # One more for each ten seconds that it took.
    assert 5 <= len(first) < 50
    assert first[0]["client"] == "127.0.0.1"
    assert first[0]["code"] == "NOT_FOUND"
    assert "'none'" in first[0]["message"]
    assert first[0]["level"] == "info"
    assert first[0]["ms"] >= 0
    (second,) = [line for line in failed if line["method"] == "DeleteHistogram"]
    assert "\n" not in second["message"]
    assert len(second["message"]) < 300
    left_out = [line for line in lines if line["event"] == "log lines suppressed"]
    assert {line["of"] for line in left_out} == {"127.0.0.1 GetDataset NOT_FOUND"}
    told = sum(line["count"] for line in left_out) + sum(x.get("suppressed", 0) for x in first)
    assert told == 50 - len(first)
    deleted = [line for line in lines if line["event"] == "deleted"]
    assert [(line["client"], line["kind"], line["name"]) for line in deleted] == [
        ("127.0.0.1", "data set", "graphs"),
        ("127.0.0.1", "histogram", "sizes"),
    ]


def test_what_expires_is_told(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    # As the log and as the metrics name them.
    kinds = {
        "dataset": "dataset",
        "histogram": "histogram",
        "model": "measured_model",
        "source_graph": "source_graph",
    }
    flags = [f"--{flag}-retention=1s" for flag in ("dataset", "histogram", "model", "source-graph")]
    with log.open("w") as file, ServerProcess(
        "--data-dir", str(tmp_path / "data"), *flags, log=file
    ) as server:
        with Client(server.address) as client:
            client.datasets.create("thing", GraphSchema(("nodes",), ()))
            client.histograms.observe("thing", [SIZES])
            client.feedback.report("thing/cpu", [BatchFeedback({"nodes": 1, "graphs": 1}, seconds=1)])
            client.source_graphs.create("thing", SourceGraphSchema([SourceNodeSet("n")], []))
        for each in kinds.values():
            while f"\npackhouse_{each}s_expired_total 1\n" not in server.get("/metrics")[1]:
                pass
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
    lines = events(log)
    assert {line["level"] for line in lines} == {"info"}
    expired = [line for line in lines if line["event"] == "expired"]
    assert all(line["unused_ms"] >= 1000 for line in expired)
    told = {kind: line[kind] for line in expired for kind in kinds if kind in line}
    assert told == {kind: "thing/cpu" if kind == "model" else "thing" for kind in kinds}


def test_calls_that_come_to_their_end_are_no_failures(tmp_path: pathlib.Path) -> None:
    """What the client asks beside, and answers that come in pieces: it leaves none before its end."""
    log = tmp_path / "log"
    x = TensorSpec("x", "float32", "nodes")
    table = GraphTable.from_graphs(
        GraphSchema(("nodes",), (x,)), [{"x": np.full(3, i, np.float32)} for i in range(8)]
    )
    schema = SourceGraphSchema([SourceNodeSet("n")], [SourceEdgeSet("e", "n", "n")])
    ids = np.arange(20)
    with log.open("w") as file, ServerProcess(
        "--data-dir", str(tmp_path / "data"), log=file
    ) as server:
        with Client(server.address) as client:
            client.datasets.create("d", table.schema)
            for _ in range(2):
                client.datasets.append("d", table, producer="p")
                client.histograms.observe("h", [SIZES], producer="p")
            client.datasets.seal("d")
            assert client.datasets.verify("d").is_sound
            client.tune("h", DeviceProfile({"nodes": ComponentProfile(max_rows=8)}))
            graphs = client.source_graphs
            graphs.create("g", schema)
            graphs.append("g", [NodeRows("n", ids), EdgeRows("e", ids, ids[::-1])], producer="p")
            graphs.seal("g")
            assert graphs.verify("g").num_damaged == 0
            sub_graphs = SubGraphs("g", SAMPLING_SPEC)
            assert sum(map(len, client.samples.tables(sub_graphs, seeds=[1, 2, 3]))) == 3
            client.samples.make_dataset(sub_graphs, "sampled", seeds=[1, 2, 3])
            client.partitions.begin("g", "parts", 2)
            client.partitions.wait("g", "parts")
            client.partitions.make_dataset("g", "parts", "pieces")
            assert sum(map(len, client.pack(table, PackOptions({"nodes": 9})))) == 8
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
    assert [line for line in events(log) if line["event"] == "call failed"] == []


def test_a_failed_call_carries_its_request_and_its_trace(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with log.open("w") as file, ServerProcess(log=file) as server:
        with grpc.insecure_channel(server.address) as channel:
            for method, kind in (("/packhouse.v1.HistogramService/DeleteHistogram", "unary"),
                                 ("/packhouse.v1.LoaderService/Load", "stream")):
                call = channel.unary_unary if kind == "unary" else channel.unary_stream
                metadata = (("x-request-id", method), ("traceparent", trace))
                with pytest.raises(grpc.RpcError):
                    list(call(method)(b"", metadata=metadata))
        # Its log is whole once it has ended by itself: lines are written beside the calls, and one
        # of a stream after its status.
        server.stop()
    failed = [line for line in events(log) if line["event"] == "call failed"]
    assert len(failed) == 2
    for line in failed:
        assert line["request_id"].startswith("/packhouse.v1.")
        assert line["trace"] == trace


def test_a_log_that_nobody_reads_holds_up_nobody() -> None:
    read, write = os.pipe()
    try:
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        with ServerProcess(log=write) as server, Client(server.address) as client:
            # Deletions of one client have a bound of a thousand lines: many pipes full.
            for i in range(200):
                client.histograms.observe(f"sizes{i}", [SIZES])
                client.histograms.delete(f"sizes{i}")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(20) == 0
    finally:
        os.close(read)
        os.close(write)
