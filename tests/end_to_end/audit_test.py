"""What was done is in the audit log, and what is asked for in the access log."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import resource
import stat
import time
import unicodedata
from typing import Any

import grpc
import numpy as np
import pytest
from certificates import hash_of, replace
from server_process import ServerProcess

from packhouse import GraphSchema, TensorSpec
from packhouse.v1 import dataset_pb2, dataset_pb2_grpc, packing_pb2, packing_pb2_grpc

POLICY = """
version: 1
roles:
- {role: owner, principals: [alice], namespaces: [team]}
- {role: viewer, principals: [bob], namespaces: [team]}
"""


def lines_of(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def call(address: str, token: str, method: str, name: str) -> grpc.StatusCode:
    """How a call of a method that takes a name ends."""
    schema = GraphSchema(("nodes", "edges"), (TensorSpec("x", "float32", "nodes"),)).to_proto()
    with grpc.insecure_channel(address) as channel:
        stub = dataset_pb2_grpc.DatasetServiceStub(channel)
        request = getattr(dataset_pb2, f"{method}Request")(name=name)
        if method == "CreateDataset":
            request.schema.CopyFrom(schema)
        try:
            getattr(stub, method)(
                request,
                metadata=(
                    ("authorization", f"Bearer {token}"),
                    ("x-request-id", f"of {method}".replace(" ", "-")),
                    ("traceparent", "00-a-b-01"),
                ),
            )
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


@pytest.fixture
def arguments(tmp_path: pathlib.Path) -> tuple[str, ...]:
    (tmp_path / "tokens").write_text(f"alice {hash_of('a')}\nbob {hash_of('b')}\n")
    (tmp_path / "policy").write_text(POLICY)
    return (
        *("--data-dir", str(tmp_path / "data"), "--token-file", str(tmp_path / "tokens")),
        *("--policy", str(tmp_path / "policy"), "--audit-log", str(tmp_path / "audit")),
        *("--access-log", str(tmp_path / "access"), "--access-log-every", "2"),
    )


def test_changes_and_refusals_are_in_the_audit_log(
    tmp_path: pathlib.Path, arguments: tuple[str, ...]
) -> None:
    with ServerProcess(*arguments) as server:
        address = server.address
        assert call(address, "a", "CreateDataset", "team/x") is grpc.StatusCode.OK
        assert call(address, "b", "GetDataset", "team/x") is grpc.StatusCode.OK
        assert call(address, "b", "DeleteDataset", "team/x") is grpc.StatusCode.PERMISSION_DENIED
        # A call that would change nothing, too, if it is refused.
        assert call(address, "b", "GetDataset", "other/x") is grpc.StatusCode.PERMISSION_DENIED
        assert call(address, "a", "DeleteDataset", "team/x") is grpc.StatusCode.OK
        assert call(address, "a", "DeleteDataset", "team/x") is grpc.StatusCode.NOT_FOUND
        assert call(address, "c", "GetDataset", "team/x") is grpc.StatusCode.UNAUTHENTICATED
        # Probes ask all the time: they are in no log.
        with grpc.insecure_channel(address) as channel:
            assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"")
    # A server that starts again goes on in the same files.
    with ServerProcess(*arguments):
        pass
    audit = lines_of(tmp_path / "audit")
    assert [
        (line["principal"], line["method"], line["resource"], line["outcome"]) for line in audit
    ] == [
        ("alice", "CreateDataset", "team/x", "OK"),
        ("bob", "DeleteDataset", "team/x", "PERMISSION_DENIED"),
        ("bob", "GetDataset", "other/x", "PERMISSION_DENIED"),
        ("alice", "DeleteDataset", "team/x", "OK"),
        ("alice", "DeleteDataset", "team/x", "NOT_FOUND"),
        ("", "GetDataset", "", "UNAUTHENTICATED"),
    ]
    first = audit[0]
    assert first["peer"].startswith("ipv4:127.0.0.1:")
    assert first["request_id"] == "of-CreateDataset"
    assert first["traceparent"] == "00-a-b-01"
    assert first["ms"] >= 0
    ago = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.strptime(
        first["time"], "%Y-%m-%dT%H:%M:%S.%fZ"
    ).replace(tzinfo=datetime.timezone.utc)
    assert datetime.timedelta() <= ago < datetime.timedelta(minutes=10)
    assert "no right 'own' on data set 'team/x'" in audit[1]["message"]
    assert "message" not in first
    # Who may read the server's group may read it, and nobody else.
    assert stat.S_IMODE((tmp_path / "audit").stat().st_mode) & 0o027 == 0
    # One of two calls, whatever it is.
    assert [line["method"] for line in lines_of(tmp_path / "access")] == [
        *("CreateDataset", "DeleteDataset", "DeleteDataset", "GetDataset")
    ]


def test_refusals_of_strangers_are_bounded_and_counted(
    tmp_path: pathlib.Path, arguments: tuple[str, ...]
) -> None:
    """Nobody fills the disk without credentials; the next line says how many were left out."""
    audit = tmp_path / "audit"
    num_calls = 0
    with ServerProcess(*arguments) as server, grpc.insecure_channel(server.address) as channel:
        get = channel.unary_unary("/packhouse.v1.DatasetService/GetDataset")
        while num_calls <= 100 or "left_out" not in lines_of(audit)[-1]:
            num_calls += 1
            with pytest.raises(grpc.RpcError) as refused:
                get(b"", metadata=(("authorization", "Bearer c"), ("x-request-id", str(num_calls))))
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert num_calls < 20_000
    lines = lines_of(audit)
    left_out = [line.get("left_out", 0) for line in lines]
    assert left_out[:100] == [0] * 100
    # Two calls may end in another order than they were begun.
    assert int(lines[-1]["request_id"]) - 2 <= len(lines) + sum(left_out) <= num_calls


def test_a_renamed_log_is_opened_anew(tmp_path: pathlib.Path, arguments: tuple[str, ...]) -> None:
    with ServerProcess(*arguments) as server:
        assert call(server.address, "a", "CreateDataset", "team/x") is grpc.StatusCode.OK
        os.rename(tmp_path / "audit", tmp_path / "audit.1")
        end = time.monotonic() + 30
        while not (tmp_path / "audit").exists():
            assert time.monotonic() < end
        assert call(server.address, "a", "DeleteDataset", "team/x") is grpc.StatusCode.OK
    assert [line["method"] for line in lines_of(tmp_path / "audit.1")] == ["CreateDataset"]
    assert [line["method"] for line in lines_of(tmp_path / "audit")] == ["DeleteDataset"]


def test_a_line_that_did_not_fit_spoils_no_other(
    tmp_path: pathlib.Path, arguments: tuple[str, ...]
) -> None:
    audit = tmp_path / "audit"
    with ServerProcess(*arguments) as server:
        kept = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)

        def delete(number: int) -> None:
            code = call(server.address, "a", "DeleteDataset", f"team/n{number}")
            assert code is grpc.StatusCode.NOT_FOUND

        delete(0)
        line = audit.stat().st_size
        # As a disk that is full after one and a half more lines.
        most = line * 5 // 2
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, kept[1]))
        for number in range(1, 6):
            delete(number)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, kept)
        for number in range(6, 8):
            delete(number)
    resources = [line["resource"] for line in lines_of(audit)]
    assert resources == [f"team/n{number}" for number in (0, 1, 6, 7)]
    # As after a process that ended while it wrote.
    with audit.open("a", encoding="ascii") as file:
        file.write('{"time":"2026')
    with ServerProcess(*arguments) as server:
        assert call(server.address, "a", "DeleteDataset", "team/n8") is grpc.StatusCode.NOT_FOUND
    assert json.loads(audit.read_text(encoding="ascii").splitlines()[-1])["resource"] == "team/n8"


def test_no_character_of_a_name_acts_on_whoever_reads_the_log(
    tmp_path: pathlib.Path, arguments: tuple[str, ...]
) -> None:
    controls = [
        chr(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")
    ]
    with (tmp_path / "stderr").open("w+", encoding="utf-8") as log:
        with ServerProcess(*arguments, log=log) as server:
            for at in range(0, len(controls), 20):
                call(server.address, "b", "DeleteDataset", f"team/{''.join(controls[at:at + 20])}")
    names = "".join(str(line["resource"]) for line in lines_of(tmp_path / "audit"))
    assert set(controls) <= set(names)
    for name in ("audit", "access", "stderr"):
        text = (tmp_path / name).read_bytes().decode()
        assert not set(controls) & set(text.replace("\n", "")), name


def test_lines_that_cannot_be_written_are_told_of(
    tmp_path: pathlib.Path, arguments: tuple[str, ...]
) -> None:
    full = [word if word != str(tmp_path / "audit") else "/dev/full" for word in arguments]
    with ServerProcess(*full) as server:
        assert 'packhouse_file_broken{file="audit log"} 0' in server.get("/metrics")[1]
        # The call itself is served.
        assert call(server.address, "a", "CreateDataset", "team/x") is grpc.StatusCode.OK
        end = time.monotonic() + 30
        while 'packhouse_file_broken{file="audit log"} 1' not in server.get("/metrics")[1]:
            assert time.monotonic() < end


def test_callers_without_credentials_cannot_fill_the_log(
    tmp_path: pathlib.Path, arguments: tuple[str, ...]
) -> None:
    with ServerProcess(*arguments) as server, grpc.insecure_channel(server.address) as channel:
        stub = dataset_pb2_grpc.DatasetServiceStub(channel)
        began = time.monotonic()
        number = 0

        def has_left_out() -> bool:
            return any("left_out" in line for line in lines_of(tmp_path / "audit"))

        # Until a line tells of others that were left out. Now and then the server ends the connection
        # of such a client, and calls do not reach it.
        while number < 150 or not has_left_out():
            with pytest.raises(grpc.RpcError) as refused:
                stub.ListDatasets(
                    dataset_pb2.ListDatasetsRequest(),
                    metadata=(("x-request-id", str(number)),),
                    wait_for_ready=True,
                )
            number += refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        seconds = time.monotonic() - began
    lines = lines_of(tmp_path / "audit")
    assert 100 <= len(lines) <= 100 + 10 * seconds + 1
    # Up to the last line each call has a line, or counts as left out; a call may end a little later
    # than the next one begins.
    calls = int(lines[-1]["request_id"]) + 1
    accounted = len(lines) + sum(line.get("left_out", 0) for line in lines)
    assert calls - 2 <= accounted <= calls + 2


def test_a_policy_takes_effect_while_the_server_runs(
    tmp_path: pathlib.Path, arguments: tuple[str, ...]
) -> None:
    with ServerProcess(*arguments) as server:
        denied = grpc.StatusCode.PERMISSION_DENIED
        assert call(server.address, "b", "CreateDataset", "team/x") is denied
        replace(tmp_path / "policy", b"version: 1\nroles: nonsense\n")
        end = time.monotonic() + 30
        while 'packhouse_file_broken{file="policy"} 1' not in server.get("/metrics")[1]:
            assert time.monotonic() < end
        assert call(server.address, "a", "CreateDataset", "team/x") is grpc.StatusCode.OK
        replace(tmp_path / "policy", POLICY.replace("viewer", "owner").encode())
        while call(server.address, "b", "DeleteDataset", "team/x") is denied:
            assert time.monotonic() < end


def test_what_does_not_change_anything_is_not_audited(
    tmp_path: pathlib.Path, arguments: tuple[str, ...]
) -> None:
    with ServerProcess(*arguments) as server, grpc.insecure_channel(server.address) as channel:
        capacity = {"component": "nodes", "rows": 9}
        requests = [
            packing_pb2.PackRequest(open={"limits": {"capacities": [capacity]}}),
            packing_pb2.PackRequest(
                sizes={"num_graphs": 1, "counts": np.ones(2, np.uint32).tobytes()}
            ),
        ]
        stream = packing_pb2_grpc.PackingServiceStub(channel).Pack(
            iter(requests), metadata=(("authorization", "Bearer a"),)
        )
        assert any(response.HasField("batch") for response in stream)
    assert lines_of(tmp_path / "audit") == []
