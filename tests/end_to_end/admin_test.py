"""AdminService as administrators use it: from Python, from the command line, and refused to others."""

from __future__ import annotations

import json
import os
import pathlib
import stat
import subprocess
from typing import Any

import grpc
import numpy as np
import pytest
from certificates import hash_of, replace
from server_process import ServerProcess

from packhouse import (
    Client,
    GraphSchema,
    GraphTable,
    Loader,
    PackhouseError,
    PackOptions,
    TensorSpec,
)
from packhouse.planning.pack_options import limits_to_proto
from packhouse.stored.administration import LogLevel
from packhouse.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    dataset_pb2,
    dataset_pb2_grpc,
    loader_pb2,
    loader_pb2_grpc,
)

_SCHEMA = GraphSchema(("nodes",), ())
_LIMITS = {"nodes": 8, "graphs": 4}


def run(*arguments: str, program: str) -> subprocess.CompletedProcess[str]:
    if program not in os.environ:
        pytest.skip(f"{program} does not name a program")
    return subprocess.run(
        [os.environ[program], *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def on_disk(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`packhoused store`."""
    return run("store", *arguments, program="PACKHOUSED")


def store(client: Client, name: str, num_graphs: int = 40) -> None:
    client.datasets.create(name, _SCHEMA)
    client.datasets.append(name, GraphTable(_SCHEMA, np.full((num_graphs, 1), 4, np.uint32)))
    client.datasets.seal(name)


def loader(server: ServerProcess, job: str = "job", epoch: int = 0) -> Loader:
    made = Loader(
        server.address, dataset="team/d", job=job, seed=1, rank=0, num_ranks=1, limits=_LIMITS
    )
    made.set_epoch(epoch)
    return made


def code_of(call: Any, *arguments: Any, **options: Any) -> tuple[grpc.StatusCode, str]:
    try:
        result = call(*arguments, **options)
        if hasattr(result, "__next__"):
            list(result)
    except grpc.RpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


@pytest.mark.parametrize("program", ["PACKHOUSE_CLI", "PACKHOUSED"])
def test_what_a_server_does_and_what_it_is_told(program: str, tmp_path: pathlib.Path) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run("admin", *arguments, program=program)

    data = tmp_path / "data"
    arguments = (
        *("--data-dir", str(data), "--snapshot-dir", str(tmp_path / "copies")),
        *("--channelz", "--lame-duck", "0s", "--lane", f"unix:{tmp_path}/lane"),
    )
    (tmp_path / "copies").mkdir()
    socket = f"unix:{tmp_path}/admin.sock"
    with ServerProcess(*arguments, "--admin-listen", socket) as server, Client(
        server.address
    ) as client, Client(socket) as local:
        admin = local.administration
        store(client, "team/d")
        client.histograms.observe("team/sizes", np.full((5, 2), 3, np.uint32))
        status = admin.status()
        assert status.version and not status.is_draining and status.num_connections >= 1
        assert set(status.memory) == {"pending", "unsent", "working"}
        assert status.log_level is LogLevel.INFO
        assert admin.set_log_level("debug") is LogLevel.INFO
        assert admin.status().log_level is LogLevel.DEBUG

        with loader(server) as loading:
            batches = iter(loading)
            next(batches)
            next(batches)
            found = admin.clients()
            (worker,) = found.workers
            assert (worker.job, worker.epoch, worker.queue) == ("job", 0, 0)
            assert worker.num_leases >= 1
            load = next(call for call in found.calls if call.method == "Load")
            assert load.is_stream and load.resource == "team/d" and load.peer.startswith("ipv4")
            asking = next(call for call in found.calls if call.method == "ListClients")
            assert not asking.is_stream
            assert (load.transport, asking.transport) == (loading.transport, "bytes")
            assert loading.transport == "lane"
            # Who asks comes through the socket.
            (entry,) = (each for each in found.clients if each.client != "unix")
            assert entry.client == "127.0.0.1" and not entry.is_principal
            assert entry.num_sessions == 1 and entry.num_leases == worker.num_leases
            assert entry.num_lane_streams == 1
            graphs = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
            with client.open_pack(graphs, PackOptions({"nodes": 9})) as packing:
                assert packing.opened
                (pack,) = (call for call in admin.clients().calls if call.method == "Pack")
                assert pack.transport == packing.transport == "lane"
            with client.open_pack(graphs, PackOptions({"nodes": 9}, lane="off")) as packing:
                assert packing.opened
                assert "bytes" in [
                    call.transport for call in admin.clients().calls if call.method == "Pack"
                ]
            shown = command("clients", "--server", socket)
            assert shown.returncode == 0 and "Load" in shown.stdout and "team/d" in shown.stdout

        # Not yet in the file of the data folder.
        assert not (data / "histograms").exists()
        taken = admin.snapshot("monday")
        assert pathlib.Path(taken.folder).parent == tmp_path / "copies" and taken.num_files > 0
        for name in ("", "../out", ".hidden", "a/b"):
            with pytest.raises(PackhouseError) as refused:
                admin.snapshot(name)
            assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT
        again = command("snapshot", "tuesday", "--server", socket)
        assert again.returncode == 0, again.stderr
        assert on_disk("check", str(tmp_path / "copies" / "tuesday")).returncode == 0
        shown = command("status", "--json", "--server", socket)
        assert json.loads(shown.stdout)["log_level"] == "LOG_LEVEL_DEBUG"
        assert command("log-level", "info", "--server", socket).stdout == (
            "log level: info, before: debug\n"
        )
        with grpc.insecure_channel(socket) as channel:
            servers = channel.unary_unary("/grpc.channelz.v1.Channelz/GetServers")
            # The server, with its counts of calls.
            assert len(servers(b"")) > 8
            assert code_of(servers, b"\xff")[0] is grpc.StatusCode.INVALID_ARGUMENT
        drained = command("drain", "--yes", "--server", socket)
        assert drained.returncode == 0 and drained.stdout == "drains\n"
        assert server.process.wait(60) == 0
    # Histograms outlive the server, and are in the snapshot.
    restored = on_disk("restore", taken.folder, str(tmp_path / "restored"))
    assert restored.returncode == 0, restored.stderr
    for folder in (data, tmp_path / "restored"):
        checked = json.loads(on_disk("check", "--json", str(folder)).stdout)
        assert checked["histograms"] == 1 and checked["damages"] == []
        with ServerProcess("--data-dir", str(folder)) as server, Client(server.address) as client:
            assert client.histograms.get("team/sizes").num_graphs == 5
    with ServerProcess(
        "--admin-listen", f"unix:{tmp_path}/admin.sock"
    ), grpc.insecure_channel(f"unix:{tmp_path}/admin.sock") as channel:
        stub = admin_pb2_grpc.AdminServiceStub(channel)
        request = admin_pb2.TakeSnapshotRequest(name="x")
        assert code_of(stub.TakeSnapshot, request)[0] is grpc.StatusCode.FAILED_PRECONDITION
        # Without the flag there is no such service.
        servers = channel.unary_unary("/grpc.channelz.v1.Channelz/GetServers")
        assert code_of(servers, b"")[0] is grpc.StatusCode.UNIMPLEMENTED


def test_no_address_administers(tmp_path: pathlib.Path) -> None:
    # Loopback, IPv6's too, and a socket that is for clients: a proxy on the machine has them all.
    for address in ("127.0.0.1:0", "[::1]:0", f"unix:{tmp_path}/clients.sock"):
        with ServerProcess("--listen", address, "--admin-listen=") as server:
            with grpc.insecure_channel(server.address) as channel:
                stub = admin_pb2_grpc.AdminServiceStub(channel)
                for method, request in (
                    (stub.GetServer, admin_pb2.GetServerRequest()),
                    (stub.ListClients, admin_pb2.ListClientsRequest()),
                    (stub.SetLogLevel, admin_pb2.SetLogLevelRequest(level=3)),
                    (stub.Reload, admin_pb2.ReloadRequest()),
                    (stub.Drain, admin_pb2.DrainRequest()),
                    (stub.MoveJob, admin_pb2.MoveJobRequest(job="x", address="x:1")),
                    (stub.TakeSnapshot, admin_pb2.TakeSnapshotRequest(name="x")),
                ):
                    code, why = code_of(method, request)
                    assert code is grpc.StatusCode.PERMISSION_DENIED and "--admin-listen" in why
            assert server.process.poll() is None


def test_where_the_socket_of_administrators_is(tmp_path: pathlib.Path) -> None:
    def listening(*arguments: str, **environment: str) -> str:
        with pytest.MonkeyPatch.context() as patch, (tmp_path / "log").open("w+") as log:
            patch.delenv("XDG_RUNTIME_DIR", raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            with ServerProcess(*arguments, log=log) as server:
                # Another thread writes it.
                text = ""
                while '"listening"' not in text or not text.endswith("\n"):
                    text = (tmp_path / "log").read_text(encoding="utf-8")
            lines = map(json.loads, text.splitlines())
            found = next(line for line in lines if line["event"] == "listening")
            address = str(found["admin"])
            if address:
                # Killed, it leaves the file; the next server takes its place.
                path = address.removeprefix("unix:")
                assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            return address.replace(str(server.process.pid), "PID")

    data = tmp_path / "d"
    for _ in range(2):
        assert listening("--data-dir", str(data)) == f"unix:{data}/admin.sock"
    assert listening() == ""
    assert listening(XDG_RUNTIME_DIR=str(tmp_path)) == f"unix:{tmp_path}/packhoused-PID.sock"
    assert listening("--data-dir", str(data), "--admin-listen=") == ""
    # It is not asked for: without it, the server serves.
    assert listening(XDG_RUNTIME_DIR=str(tmp_path / "none")) == ""
    # A path that a socket cannot have takes nothing away but the socket.
    deep = tmp_path / ("x" * 100)
    assert listening("--data-dir", str(deep)) == ""
    given = f"unix:{tmp_path}/given"
    assert listening("--admin-listen", given) == given
    with ServerProcess("--admin-listen", given):
        assert "another process listens there" in refused("--admin-listen", given)
    assert "is not unix:/path" in refused("--admin-listen", "127.0.0.1:0")
    assert "cannot listen" in refused("--admin-listen", f"unix:{tmp_path}/none/x")


def refused(*arguments: str) -> str:
    done = subprocess.run(
        [os.environ["PACKHOUSED"], "--listen=127.0.0.1:0", "--http-listen=", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (1, 2)
    return done.stderr


def test_only_administrators_administer(tmp_path: pathlib.Path) -> None:
    tokens, policy = tmp_path / "tokens", tmp_path / "policy"
    tokens.write_text(f"alice {hash_of('a')}\noperator {hash_of('o')}\n", encoding="ascii")
    text = (
        "version: 1\nroles:\n"
        "- {role: admin, principals: [alice], namespaces: [team]}\n"
        "- {role: admin, principals: [operator], namespaces: ['*']}\n"
    )
    policy.write_text(text, encoding="ascii")
    with ServerProcess(
        *("--token-file", str(tokens), "--policy", str(policy), "--channelz", "--lame-duck", "0s")
    ) as server, grpc.insecure_channel(server.address) as channel:
        stub = admin_pb2_grpc.AdminServiceStub(channel)
        alice, operator = ((("authorization", f"Bearer {token}"),) for token in "ao")
        for method, request in (
            (stub.GetServer, admin_pb2.GetServerRequest()),
            (stub.ListClients, admin_pb2.ListClientsRequest()),
            (stub.SetLogLevel, admin_pb2.SetLogLevelRequest(level=3)),
            (stub.Reload, admin_pb2.ReloadRequest()),
            (stub.Drain, admin_pb2.DrainRequest()),
            (stub.MoveJob, admin_pb2.MoveJobRequest(job="x", address="x:1")),
            (stub.TakeSnapshot, admin_pb2.TakeSnapshotRequest(name="x")),
            (channel.unary_unary("/grpc.channelz.v1.Channelz/GetServers"), b""),
        ):
            code, why = code_of(method, request)
            assert code is grpc.StatusCode.UNAUTHENTICATED, why
            # The role in one namespace is not enough.
            code, why = code_of(method, request, metadata=alice)
            assert code is grpc.StatusCode.PERMISSION_DENIED
            # The job is named where there is one.
            assert "gives principal 'alice' no right 'administer' on " in why
        calls = stub.ListClients(admin_pb2.ListClientsRequest(), metadata=operator)
        # A call that has just been answered may still be there.
        assert ("operator", True) in [(each.client, each.is_principal) for each in calls.clients]
        # A broken file is told, and stays out of use.
        replace(policy, b"version: 1\nroles: 3\n")
        files = stub.Reload(admin_pb2.ReloadRequest(), metadata=operator).files
        (broken,) = (each for each in files if each.failure)
        assert broken.name == "policy" and "'roles' is no list" in broken.failure
        bad = admin_pb2.SetLogLevelRequest(level=0)
        code, why = code_of(stub.SetLogLevel, bad, metadata=operator)
        assert code is grpc.StatusCode.INVALID_ARGUMENT and "level: 0" in why
        assert not stub.Drain(admin_pb2.DrainRequest(), metadata=operator).was_draining
        assert server.process.wait(60) == 0


def test_cursors_and_page_tokens_are_the_servers_own(tmp_path: pathlib.Path) -> None:
    data = tmp_path / "data"
    with ServerProcess("--data-dir", str(data)) as server, Client(server.address) as client:
        for name in ("team/d", "team/e", "team/f"):
            store(client, name)
        with loader(server) as loading:
            batches = iter(loading)
            for _ in range(3):
                next(batches)
            state = loading.state_dict()
        key = data / "signing.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        with grpc.insecure_channel(server.address) as channel:
            stub = dataset_pb2_grpc.DatasetServiceStub(channel)
            page = stub.ListDatasets(dataset_pb2.ListDatasetsRequest(page_size=1))
            token = page.next_page_token
            following = dataset_pb2.ListDatasetsRequest(page_size=1, page_token=token)
            assert stub.ListDatasets(following).datasets[0].name == "team/e"
            # Of another list, by hand, and cut.
            for bad in ("team/e", token[:-1], "team/f" + token[6:]):
                code, why = code_of(
                    stub.ListDatasets, dataset_pb2.ListDatasetsRequest(page_token=bad)
                )
                assert code is grpc.StatusCode.INVALID_ARGUMENT and "page_token" in why
            jobs = loader_pb2_grpc.LoaderServiceStub(channel)
            code, why = code_of(jobs.ListJobs, loader_pb2.ListJobsRequest(page_token=token))
            assert code is grpc.StatusCode.INVALID_ARGUMENT and "page_token" in why

    def outcome(cursor: str, *arguments: str, folder: pathlib.Path = data) -> tuple[str, str]:
        with ServerProcess("--data-dir", str(folder), *arguments) as again:
            with Client(again.address) as client:
                if folder is not data:
                    store(client, "team/d")
            with loader(again) as going_on:
                going_on.load_state_dict({"epoch": state["epoch"], "cursor": cursor})
                try:
                    next(iter(going_on))
                except PackhouseError as error:
                    return error.code.name, error.message
        return "OK", ""

    cursor = str(state["cursor"])
    unsigned = cursor.rpartition(".")[0]
    assert outcome(cursor)[0] == "OK"  # After a restart.
    code, why = outcome(cursor[:-1] + ("A" if cursor[-1] != "A" else "Q"))
    assert code == "INVALID_ARGUMENT" and "cursor: its signature is wrong" in why
    code, why = outcome(cursor, folder=tmp_path / "other")
    assert code == "INVALID_ARGUMENT" and "another server gave it" in why
    code, why = outcome(unsigned)
    assert code == "INVALID_ARGUMENT" and "cursor: is not signed" in why


def test_quotas_of_what_is_not_on_the_disk(tmp_path: pathlib.Path) -> None:
    policy = tmp_path / "policy"
    policy.write_text(
        "version: 1\nroles:\n- {role: admin, principals: [anonymous], namespaces: ['*']}\n"
        "namespaces:\n  team: {quotas: {source_graphs: 0, histograms: 1, epochs: 1,"
        " pending_bytes: 2KiB, planning: 50%}}\n",
        encoding="ascii",
    )
    with ServerProcess(
        *("--data-dir", str(tmp_path / "data"), "--policy", str(policy))
    ) as server, Client(server.address) as client:
        store(client, "team/d")
        sizes = np.full((5, 1), 3, np.uint32)
        client.histograms.observe("team/h", sizes, components=("nodes",))
        with pytest.raises(PackhouseError) as refused:
            client.histograms.observe("team/i", sizes, components=("nodes",))
        assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "namespace 'team': the quota 'histograms' is 1, it would become 2" in str(
            refused.value
        )
        client.histograms.observe("other/i", sizes, components=("nodes",))

        with loader(server, job="team/run") as loading:
            next(iter(loading))
        with grpc.insecure_channel(server.address) as channel:
            request = loader_pb2.LoadRequest()
            request.epoch.job = "team/run"
            request.epoch.epoch = 1
            request.epoch.dataset = "team/d"
            request.epoch.seed = 1
            group = request.epoch.rank_groups.add()
            group.shapes.add().CopyFrom(limits_to_proto(_LIMITS))
            request.ranked.num_ranks = 1
            code, why = code_of(loader_pb2_grpc.LoaderServiceStub(channel).Load, request)
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED, why
        assert "namespace 'team': the quota 'epochs' is 1, it would become 2" in why

        many = GraphTable(_SCHEMA, np.full((2000, 1), 1, np.uint32))
        options = PackOptions(limits={"nodes": 1 << 20}, histogram="team/h")
        with pytest.raises(PackhouseError) as refused:
            list(client.pack(many, options))
        assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "its quota 'pending_bytes', at most 2048" in str(refused.value)

        used = {(each.namespace, each.quota): each for each in client.administration.status().quotas}
        assert set(quota for _, quota in used) == {
            *("source_graphs", "histograms", "epochs", "pending_bytes", "planning")
        }
        assert (used["team", "histograms"].used, used["team", "histograms"].limit) == (1, 1)
        metrics = server.get("/metrics")[1]
        for line in (
            'packhouse_namespace_quota_used{namespace="team",quota="epochs"} 1',
            'packhouse_namespace_quota_limit{namespace="team",quota="planning"} 0.5',
            'packhouse_namespace_quota_limit{namespace="team",quota="source_graphs"} 0',
        ):
            assert line in metrics
