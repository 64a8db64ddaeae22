"""What etcd and S3 may do, and operators: a cluster goes on, or says what is wrong."""

from __future__ import annotations

import pathlib
import re
import time
import urllib.error
import urllib.request
from typing import Any, Callable, Final, Iterator

import numpy as np
import pytest

from certificates import Authority
from away_test import once_told
from etcd_process import EtcdProcess, free_port
from s3_process import S3Process
from server_process import ServerProcess
from shared_datasets_test import (
    STORE,
    TABLES,
    Sharing,
    World,
    digests,
    fill,
    graphs,
    shared_arguments,
    started,
)

from packhouse import (
    Client,
    DType,
    GraphSchema,
    GraphTable,
    Loader,
    PackhouseError,
    PackOptions,
    Segments,
    TensorSpec,
)

_LIMITS: Final[dict[str, Any]] = {"nodes": 64, "edges": 64, "graphs": 8}
# Seconds for what takes some turns of a second each.
_PATIENCE: Final = 60.0


@pytest.fixture(name="world")
def _world(tmp_path: pathlib.Path) -> Iterator[World]:
    with S3Process(tmp_path / "s3") as s3, EtcdProcess(tmp_path / "etcd") as etcd:
        with Sharing(etcd, s3, tmp_path, "a") as server:
            yield World(etcd, s3, [server])


def _readiness(server: Sharing, path: str = "/readyz") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{server.http_address}{path}", timeout=20) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def _await(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not is_so():
        assert time.monotonic() < deadline


def _loader(server: Sharing, job: str, **arguments: Any) -> Loader:
    return Loader(
        *(server.advertised,),
        **{"dataset": "set", "job": job, "seed": 7, "limits": _LIMITS, "rank": 0, "num_ranks": 1}
        | arguments,
        on_existing="resume",
    )


def test_sessions_end_when_etcd_was_restored(world: World, tmp_path: pathlib.Path) -> None:
    """As docs/cluster.md says: the servers are stopped first."""
    (server,) = world.servers
    fill(server.advertised, "set")
    numbers = [number for number, _ in digests(server.advertised, "set")]
    backup = tmp_path / "backup"
    with _loader(server, "job") as loader:
        batches = iter(loader)
        before = [next(batches).number for _ in range(5)]
        loader.flush()
        world.etcd.take_backup(backup)
        # Acknowledged, and forgotten by the backup.
        lost = [next(batches).number for _ in range(10)]
        server.stop()
        world.etcd.restore(backup)
        assert world.etcd.put("test/life", f"{int(time.time())}-of-the-test")
        server.start()
        with pytest.raises(PackhouseError, match="restored from a backup") as refused:
            for _ in range(len(numbers)):
                next(batches)
        assert refused.value.code.name == "FAILED_PRECONDITION"
    # Whoever comes anew gets all that the backup does not know as done, and nothing else.
    with _loader(server, "job") as loader:
        after = [batch.number for batch in loader]
    assert sorted(after) == sorted(set(numbers) - set(before[:4]))
    assert set(lost) - set(before[:4]) <= set(after)


def test_a_server_that_runs_on_when_etcd_was_restored_ends(
    world: World, tmp_path: pathlib.Path
) -> None:
    (server,) = world.servers
    fill(server.advertised, "set")
    backup = tmp_path / "backup"
    world.etcd.take_backup(backup)
    fill(server.advertised, "later")
    world.etcd.restore(backup)
    assert world.etcd.put("test/life", f"{int(time.time())}-of-the-test")
    process = server._process
    assert process is not None
    assert process.wait(_PATIENCE) == 1
    server.kill()
    server.start()
    with Client(server.advertised) as client:
        assert [each.name for each in client.datasets.list()] == ["set"]
    fill(server.advertised, "later")


def test_a_life_that_is_none_is_refused(world: World, tmp_path: pathlib.Path) -> None:
    assert world.etcd.put("test/life", "yesterday")
    done = started(*_arguments(world, tmp_path, "127.0.0.1:1"))
    assert done.returncode == 1
    assert "'yesterday'" in done.stderr and "seconds since 1970" in done.stderr


def _arguments(
    world: World, folder: pathlib.Path, advertised: str, key: pathlib.Path | None = None
) -> tuple[str, ...]:
    return (
        *shared_arguments(world.etcd, world.s3),
        f"--store={STORE}",
        f"--cache-dir={folder / 'other'}",
        f"--advertise={advertised}",
        f"--signing-key={key or world.key}",
    )


def test_a_server_starts_while_s3_is_away(world: World) -> None:
    (server,) = world.servers
    fill(server.advertised, "set")
    fill(server.advertised, "other")
    given = digests(server.advertised, "set")
    server.stop()
    world.s3.kill()
    server.start()
    # Its lease may have ended while it waited for S3.
    _await(lambda: _readiness(server)[0] == 200)
    assert digests(server.advertised, "set") == given
    with Client(server.advertised) as client:
        client.datasets.create("new", graphs(0, 1).schema)
        with pytest.raises(PackhouseError, match="has not answered since"):
            client.datasets.append("new", [graphs(0, 5)], producer="p", first_sequence=1, retry_timeout=0.1)
        assert world.s3.start()
        client.datasets.append("new", [graphs(0, 5)], producer="p", first_sequence=1)
        assert client.datasets.get("new").num_graphs == 5
        assert client.datasets.verify("new").is_sound


def test_a_second_server_with_one_address_is_refused(world: World, tmp_path: pathlib.Path) -> None:
    (server,) = world.servers
    fill(server.advertised, "set")
    loader = _loader(server, "job")
    batches = iter(loader)
    next(batches)
    done = started(*_arguments(world, tmp_path, server.advertised))
    assert done.returncode == 1
    assert f"--advertise: another server has the address {server.advertised}" in done.stderr
    # The first one has noticed nothing.
    assert len(list(batches)) > 0
    loader.close()
    # One that was killed is no other server.
    server.kill()
    server.start()
    assert _readiness(server)[0] == 200


def test_another_signing_key_is_refused(world: World, tmp_path: pathlib.Path) -> None:
    done = started(*_arguments(world, tmp_path, "127.0.0.1:1", tmp_path / "another_key"))
    assert done.returncode == 1
    assert f"--signing-key: is not that of the server {world.servers[0].advertised}" in done.stderr


def test_another_bound_is_told_by_the_server_that_comes(
    world: World, tmp_path: pathlib.Path
) -> None:
    (first,) = world.servers
    log = tmp_path / "log"
    with log.open("wb") as file, ServerProcess(
        *_arguments(world, tmp_path, f"127.0.0.1:{free_port()}"), "--max-measured-models=7", log=file
    ):
        pass
    lines = [each for each in log.read_text().splitlines() if "servers of the cluster differ" in each]
    (line,) = [each for each in lines if "--max-measured-models" in each]
    assert first.advertised in line


def test_a_segment_beyond_the_cache_is_refused_at_once(world: World) -> None:
    (server,) = world.servers
    server.stop()
    server._arguments += ("--cache-bytes=1MiB",)
    server.start()
    schema = GraphSchema(tensors=(TensorSpec("x", DType.FLOAT32, "nodes", (256,)),))
    sizes = np.tile(np.array([16, 0], np.uint32), (100, 1))
    with Client(server.advertised) as client:
        client.datasets.create("set", schema)
        # Of 1.6 MiB in each object.
        for part in range(4):
            rows = np.full((1600, 256), part, np.float32)
            client.datasets.append("set", [GraphTable(schema, sizes, {"x": rows})])
        client.datasets.seal("set")
    with _loader(server, "job", segments=Segments(graphs=100)) as loader:
        with pytest.raises(PackhouseError, match=r"segment 0 of \d+: .* more than the 1048576") as no:
            next(iter(loader))
    assert no.value.code.name == "RESOURCE_EXHAUSTED"


def test_a_full_etcd_is_told(tmp_path: pathlib.Path) -> None:
    arguments = ("--quota-backend-bytes=4194304",)
    with S3Process(tmp_path / "s3") as s3:
        with EtcdProcess(tmp_path / "etcd", arguments=arguments) as etcd:
            with Sharing(etcd, s3, tmp_path, "a") as server:
                assert _readiness(server) == (200, "ready\n")
                etcd.fill()
                _await(lambda: _readiness(server)[0] == 503)
                assert "etcd takes nothing more" in _readiness(server)[1]
                # Not as a lost lease, which has an alert of its own.
                metrics = _readiness(server, "/metrics")[1]
                assert re.findall(r'_ready{reason="(\w+)"} 0', metrics) == ["ledger"]
                etcd.make_room()
                _await(lambda: _readiness(server)[0] == 200)


def test_clients_go_on_over_a_full_etcd(tmp_path: pathlib.Path) -> None:
    """With one line of warning each, and without an error."""
    arguments = ("--quota-backend-bytes=4194304",)
    with S3Process(tmp_path / "s3") as s3:
        with EtcdProcess(tmp_path / "etcd", arguments=arguments) as etcd:
            with Sharing(etcd, s3, tmp_path, "a") as server:
                fill(server.advertised, "set")
                seen: list[int] = []
                with _loader(server, "job") as loader, once_told(etcd.make_room) as told:
                    for number, batch in enumerate(loader):
                        seen += batch.graph_ids.tolist()
                        if number == 2:
                            etcd.fill()
                        # Durable, each by itself.
                        loader.state_dict()
                assert sorted(seen) == sorted(id for table in TABLES for id in table.graph_ids)
                assert "Acknowledge of job 'job' fails" in told[0] and len(told) == 1
                with Client(server.advertised) as client:
                    client.datasets.create("more", graphs(0, 1).schema)
                    etcd.fill()
                    # What needs nothing of etcd goes on meanwhile.
                    packed = client.pack([graphs(0, 50)], PackOptions(_LIMITS))
                    assert sum(map(len, packed)) == 50
                    with once_told(etcd.make_room) as told:
                        client.datasets.append("more", [graphs(0, 50)], producer="p")
                    assert client.datasets.get("more").num_graphs == 50
                    assert f"Append to 'more' at {server.advertised} fails" in told[0]
                    assert len(told) == 1 and "database space exceeded" in told[0]
                    etcd.fill()
                    with once_told(etcd.make_room) as told:
                        assert client.histograms.observe("h", [[[1, 2], [3, 4]]], producer="p") == (2, 2)
                    assert f"Observe of 'h' at {server.advertised} fails" in told[0]
                    assert len(told) == 1 and "database space exceeded" in told[0]


def test_etcd_and_s3_on_this_machine_are_reached_without_a_proxy(tmp_path: pathlib.Path) -> None:
    with S3Process(tmp_path / "s3") as s3, EtcdProcess(tmp_path / "etcd") as etcd:
        server = Sharing(etcd, s3, tmp_path, "a")
        with pytest.MonkeyPatch.context() as patch:
            for name in ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy"):
                patch.setenv(name, "http://127.0.0.1:1")
            for name in ("no_proxy", "NO_PROXY"):
                patch.delenv(name, raising=False)
            server.start()
        try:
            fill(server.advertised, "set")
            assert len(digests(server.advertised, "set")) > 0
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("has_tls", "arguments", "wanted"),
    [
        (True, ("--ledger-ca={other}",), "certificate is not signed by"),
        (False, ("--ledger-ca={right}",), "speaks plain text"),
        (True, (), "may want TLS"),
    ],
)
def test_what_is_wrong_with_tls_is_told(
    tmp_path: pathlib.Path, has_tls: bool, arguments: tuple[str, ...], wanted: str
) -> None:
    right, other = Authority(tmp_path / "right"), Authority(tmp_path / "other")
    certificate = right.sign("etcd", "DNS:localhost", "IP:127.0.0.1")
    folder = tmp_path / "etcd"
    etcd = EtcdProcess(folder, compacting=False)
    with etcd:
        address = etcd.address
        if has_tls:
            etcd.kill(0)
            etcd.serve_tls(certificate.certificate, certificate.key)
            address = etcd.address
        done = started(
            f"--ledger=etcd://{address}/test",
            *(
                each.format(right=right.certificate, other=other.certificate)
                for each in arguments
            ),
            *("--advertise=127.0.0.1:1", f"--signing-key={tmp_path / 'key'}"),
            f"--data-dir={tmp_path / 'data'}",
        )
    assert done.returncode == 1
    assert wanted in done.stderr, done.stderr
