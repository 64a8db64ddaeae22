"""Two servers share data sets over a real etcd and a real S3 server: `--store s3://`."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time
import urllib.request
from typing import Any, Final, Iterator

import grpc
import numpy as np
import pytest

from etcd_process import EtcdProcess, free_port
from replica_process import owner_of
from s3_process import BUCKET, S3Process
from server_process import ServerProcess

from packhouse import (
    Client,
    DatasetState,
    DType,
    Evaluation,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    PackhouseError,
    PackOptions,
    Samples,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceGraphState,
    SourceNodeSet,
    SubGraphs,
    TensorSpec,
)
from packhouse.large.source_graph import EdgeRows, NodeRows

_SCHEMA: Final = GraphSchema(tensors=(TensorSpec("x", DType.FLOAT32, "nodes", (16,)),))
_LIMITS: Final = {"nodes": 64, "edges": 64, "graphs": 8}
STORE: Final = f"s3://{BUCKET}/data/sets"
# Of one namespace.
_RETENTION: Final = tuple(
    f"--{what}-retention=brief=2s" for what in ("dataset", "source-graph", "histogram")
)


def graphs(first_id: int, count: int) -> GraphTable:
    """The same for the same arguments."""
    rng = np.random.default_rng(first_id)
    sizes = np.stack([rng.integers(1, 12, count), np.zeros(count, np.int64)], axis=1)
    rows = rng.random((int(sizes[:, 0].sum()), 16), np.float32)
    ids = np.arange(first_id, first_id + count, dtype=np.uint64)
    return GraphTable(_SCHEMA, sizes.astype(np.uint32), {"x": rows}, ids)


TABLES: Final = tuple(graphs(1000 * part, 100) for part in range(6))


class Sharing(LocalServer):
    """One of the servers, with a cache of its own; killed at the end of a `with` block."""

    def __init__(
        self, etcd: EtcdProcess, s3: S3Process, folder: pathlib.Path, name: str, *arguments: str
    ) -> None:
        if "PACKHOUSED" not in os.environ:
            pytest.skip("PACKHOUSED does not name a server program")
        self.advertised = f"127.0.0.1:{free_port()}"
        self.cache = folder / name / "cache"
        super().__init__(
            listen=self.advertised,
            arguments=(
                *shared_arguments(etcd, s3),
                f"--store={STORE}",
                f"--advertise={self.advertised}",
                "--ledger-lease=3s",
                f"--signing-key={folder / 'key'}",
                f"--cache-dir={self.cache}",
                "--drain-timeout=5s",
                *_RETENTION,
                *arguments,
            ),
            log=subprocess.DEVNULL,
            start_timeout=60.0,
        )
        self.cache.parent.mkdir()

    def __enter__(self) -> Sharing:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def metric(self, name: str) -> float:
        """A metric without labels."""
        with urllib.request.urlopen(f"http://{self.http_address}/metrics", timeout=20) as page:
            lines = page.read().decode().splitlines()
        (value,) = (line.split()[1] for line in lines if line.startswith(f"{name} "))
        return float(value)


def shared_arguments(etcd: EtcdProcess, s3: S3Process, prefix: str = "test") -> tuple[str, ...]:
    """Of servers and of `packhoused store copy`."""
    return (
        f"--s3-endpoint={s3.endpoint}",
        f"--s3-credentials={s3.credentials}",
        f"--ledger=etcd://{etcd.address}/{prefix}",
    )



class World:
    """What all tests share."""

    def __init__(self, etcd: EtcdProcess, s3: S3Process, servers: list[Sharing]) -> None:
        self.etcd = etcd
        self.s3 = s3
        self.servers = servers

    @property
    def key(self) -> pathlib.Path:
        """The signing key that all servers have."""
        return self.servers[0].cache.parent.parent / "key"

    @property
    def addresses(self) -> str:
        return ",".join(server.advertised for server in self.servers)


@pytest.fixture(name="world", scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("shared")
    with S3Process(folder / "s3") as s3, EtcdProcess(folder / "etcd") as etcd:
        with Sharing(etcd, s3, folder, "a") as first, Sharing(etcd, s3, folder, "b") as second:
            yield World(etcd, s3, [first, second])


def fill(address: str, name: str, seal: bool = True) -> None:
    """The data set that all tests load."""
    with Client(address) as client:
        client.datasets.create(name, _SCHEMA)
        for table in TABLES:
            client.datasets.append(name, [table], producer="p", first_sequence=1 + TABLES.index(table))
        if seal:
            client.datasets.seal(name)


def digest_of(batch: Any) -> str:
    """Of all bytes of a batch."""
    digest = hashlib.sha256()
    for array in (batch.graph_ids, batch.sizes, *batch.tensors.values()):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def digests(address: str, name: str, epoch: int = 0) -> list[tuple[int, str]]:
    """Of all batches, in order."""
    epoch_of = Evaluation(address, dataset=name, seed=7, epoch=epoch, limits=_LIMITS)
    return [(batch.number, digest_of(batch)) for batch in epoch_of]


_NODES: Final = 3000
_SAMPLES: Final = Samples(
    SubGraphs(
        "team/g",
        """
        seed_op { op_name: "seed" node_set_name: "n" }
        sampling_ops { op_name: "a" input_op_names: "seed" edge_set_name: "e" sample_size: 4
                       strategy: RANDOM_UNIFORM }
        sampling_ops { op_name: "b" input_op_names: "a" edge_set_name: "e" sample_size: 3
                       strategy: RANDOM_UNIFORM }
        """,
    ),
    window=300,
)
_SAMPLED: Final[dict[str, Any]] = {
    "samples": _SAMPLES,
    "seed": 5,
    "limits": {"e": 96, "n": 80, "graphs": 24},
    "padding": "masked",
}


def build_source_graph(client: Client, name: str, seal: bool = True) -> None:
    """The same for the same name."""
    ids = np.arange(_NODES)
    sources = np.repeat(ids, ids % 11)
    targets = np.random.default_rng(0).integers(0, _NODES, len(sources))
    schema = SourceGraphSchema(
        (SourceNodeSet("n", (SourceColumn("x", "float32", (64,)),)),),
        (SourceEdgeSet("e", "n", "n"),),
    )
    client.source_graphs.create(name, schema)
    x = np.repeat(ids, 64).reshape(_NODES, 64).astype(np.float32)
    rows = [NodeRows("n", ids, {"x": x}), EdgeRows("e", sources, targets)]
    client.source_graphs.append(name, rows, producer="p")
    if seal:
        client.source_graphs.seal(name)


def sampled(addresses: str, job: str) -> dict[int, str]:
    """Of all batches of a sampled epoch, by their numbers."""
    with Loader(addresses, job=job, **_SAMPLED) as loader:
        return {batch.number: digest_of(batch) for batch in loader if not batch.is_padding}


@pytest.fixture(name="embedded", scope="module")
def _embedded(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, list[tuple[int, str]]]:
    """A folder of the embedded mode, and what its server gives."""
    folder = tmp_path_factory.mktemp("embedded")
    with ServerProcess(f"--store=lmdb:{folder}") as server:
        fill(server.address, "set")
        given = digests(server.address, "set")
        with Client(server.address) as client:
            build_source_graph(client, "team/g")
        (folder / "sampled.json").write_text(json.dumps(sampled(server.address, "job")))
        server.stop()
    return folder, given


def given_samples(folder: pathlib.Path) -> dict[int, str]:
    """What the embedded mode's server has sampled."""
    given = json.loads((folder / "sampled.json").read_text())
    return {int(number): digest for number, digest in given.items()}


def test_what_one_was_told_the_other_serves(
    world: World, embedded: tuple[pathlib.Path, list[tuple[int, str]]]
) -> None:
    """With the bytes of the embedded mode, whoever is asked."""
    first, second = world.servers
    fill(first.advertised, "set", seal=False)
    with Client(second.advertised) as client:
        assert client.datasets.get("set").num_graphs == 600
        # What the other one has answered is not appended again.
        again = client.datasets.append("set", [TABLES[5]], producer="p", first_sequence=6)
        assert again.num_appended == 0
        assert client.datasets.seal("set").state is DatasetState.SEALED
        assert client.datasets.verify("set").is_sound
    with Client(first.advertised) as client:
        with pytest.raises(PackhouseError, match="sealed"):
            client.datasets.append("set", [TABLES[0]])
        assert [each.name for each in client.datasets.list()] == ["set"]
    assert digests(second.advertised, "set") == embedded[1]
    assert digests(first.advertised, "set") == embedded[1]
    received = []
    loader = Loader(
        world.addresses, dataset="set", job="job", seed=7, limits=_LIMITS, rank=0, num_ranks=1
    )
    with loader:
        received = [batch.number for batch in loader]
    assert sorted(received) == [number for number, _ in sorted(embedded[1])]


def test_a_cache_that_is_lost_is_filled_again(
    world: World, embedded: tuple[pathlib.Path, list[tuple[int, str]]]
) -> None:
    second = world.servers[1]
    second.stop()
    assert second.returncode == 0
    assert list(second.cache.glob("*.chunk"))
    shutil.rmtree(second.cache)
    second.start()
    assert second.metric("packhouse_object_cache_misses_total") == 0
    assert digests(second.advertised, "set") == embedded[1]
    assert second.metric("packhouse_object_cache_misses_total") == len(
        list(second.cache.glob("*.chunk"))
    )
    # A cache that is there is used by the next process.
    second.stop()
    second.start()
    assert digests(second.advertised, "set") == embedded[1]
    assert second.metric("packhouse_object_cache_misses_total") == 0
    assert second.metric("packhouse_object_cache_hits_total") > 0


def test_s3_may_go_and_come_back(
    world: World, embedded: tuple[pathlib.Path, list[tuple[int, str]]]
) -> None:
    """What is in the cache is loaded on; nothing that was accepted is lost."""
    first = world.servers[0]
    with Client(first.advertised) as client:
        client.datasets.create("during", _SCHEMA)
        client.datasets.append("during", [TABLES[0]], producer="p", first_sequence=1)
        world.s3.kill()
        assert digests(first.advertised, "set") == embedded[1]
        with pytest.raises(PackhouseError) as refused:
            client.datasets.append(
                "during", [TABLES[1]], producer="p", first_sequence=2, retry_timeout=0.1
            )
        assert refused.value.code.name == "UNAVAILABLE"
        assert "S3" in str(refused.value)
        assert world.s3.start()
        client.datasets.append("during", [TABLES[1]], producer="p", first_sequence=2)
        assert client.datasets.get("during").num_graphs == 200
        assert client.datasets.verify("during").is_sound
        client.datasets.delete("during")


def test_acknowledgements_do_not_wait_for_s3(world: World) -> None:
    """Joins do not either, even behind two appends for each thread that waits for a store."""
    first = world.servers[0].advertised
    with Client(first) as client:
        client.datasets.create("silent", _SCHEMA)

    def append(address: str) -> None:
        with Client(address) as client:
            client.datasets.append("silent", [TABLES[0]])

    received = []

    def load() -> None:
        loader = Loader(world.addresses, dataset="set", job="job-silent", seed=7, limits=_LIMITS)
        with loader:
            received.extend(batch.number for batch in loader)

    appends = [
        threading.Thread(target=append, args=(server.advertised,))
        for server in world.servers
        for _ in range(16)
    ]
    loading = threading.Thread(target=load)
    with world.s3.silent():
        for thread in (*appends, loading):
            thread.start()
        loading.join(timeout=30)
        has_ended = not loading.is_alive()
    for thread in (*appends, loading):
        thread.join()
    assert has_ended
    assert len(received) == len(set(received)) > 0
    with Client(first) as client:
        assert client.datasets.get("silent").num_graphs == 100 * len(appends)
        client.datasets.delete("silent")


def test_plans_do_not_wait_for_s3(world: World) -> None:
    """Calls about data sets do not either, while more loads than may plan at once wait for objects."""
    first, second = world.servers
    names = [f"cold-{i}" for i in range(4)]
    for name in names:
        fill(first.advertised, name)
    misses = "packhouse_object_cache_misses_total"
    before = second.metric(misses)
    given: list[int] = []
    loads = [
        threading.Thread(target=lambda name=name: given.append(len(digests(second.advertised, name))))
        for name in names
    ]
    with Client(second.advertised, timeout=30) as client:
        sizes = client.datasets.get("cold-0", include_histogram=True).histogram
        assert sizes is not None
        with world.s3.silent():
            for thread in loads:
                thread.start()
            while second.metric(misses) < before + 4:
                pass
            assert client.plan(sizes, limits=_LIMITS).best.packs > 0
            assert len(list(client.datasets.list())) >= len(names)
            assert client.datasets.get(names[1]).num_graphs == 600
        for thread in loads:
            thread.join()
        assert len(given) == len(names) and len(set(given)) == 1
        for name in names:
            client.datasets.delete(name)


def copy(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`packhoused store copy`."""
    return subprocess.run(
        [os.environ["PACKHOUSED"], "store", "copy", *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )


def test_data_sets_move_between_stores(
    world: World, embedded: tuple[pathlib.Path, list[tuple[int, str]]], tmp_path: pathlib.Path
) -> None:
    """There and back, and with the same batches."""
    folder, given = embedded
    with Client(world.servers[0].advertised) as client:
        client.datasets.delete("set")
    flags = shared_arguments(world.etcd, world.s3)
    done = copy(f"lmdb:{folder}", STORE, "--all", *flags)
    assert done.returncode == 0, done.stderr
    assert "set: 600 graphs in 6 records, of which 0 were there" in done.stdout
    assert "team/g: a source graph of" in done.stdout
    done = copy(f"lmdb:{folder}", STORE, "set", *flags)
    assert "of which 6 were there" in done.stdout, done.stdout + done.stderr
    assert "source graph" not in done.stdout
    assert digests(world.servers[1].advertised, "set") == given
    done = copy(STORE, f"lmdb:{tmp_path / 'back'}", "set", *flags)
    assert done.returncode == 0, done.stderr
    done = copy(STORE, f"lmdb:{tmp_path / 'back'}", "--source-graph", "team/g", *flags)
    assert done.returncode == 0, done.stderr
    with ServerProcess(f"--data-dir={tmp_path / 'back'}") as server:
        assert digests(server.address, "set") == given
        assert sampled(server.address, "job") == given_samples(folder)
    done = copy(f"lmdb:{tmp_path / 'missing'}", STORE, "set", *flags)
    assert done.returncode == 1 and "no data folder" in done.stderr
    done = copy(f"lmdb:{folder}", STORE, "set")
    assert done.returncode == 1 and "--ledger" in done.stderr


def test_any_server_samples_a_source_graph(
    world: World, embedded: tuple[pathlib.Path, list[tuple[int, str]]]
) -> None:
    """One that was copied into the store, with the bytes of the embedded mode; the cache may go."""
    given = given_samples(embedded[0])
    flags = shared_arguments(world.etcd, world.s3)
    done = copy(f"lmdb:{embedded[0]}", STORE, "--source-graph=team/g", *flags)
    assert done.returncode == 0, done.stderr
    (moved,) = (line for line in done.stdout.splitlines() if line.startswith("team/g: "))
    num_bytes = moved.split(" of ")[1].split()[0]
    assert moved.endswith(f"of which {num_bytes} were there"), "by the test before"
    first, second = world.servers
    tables = []
    # Each job has an owner; both servers own some.
    owners = set()
    for number in range(30):
        assert sampled(world.addresses, f"of-{number}") == given
        owners.add(owner_of(world.servers, f"of-{number}").advertised)
        if len(owners) == 2:
            break
    assert len(owners) == 2
    for server in world.servers:
        with Client(server.advertised) as client:
            assert [graph.name for graph in client.source_graphs.list()] == ["team/g"]
            graph = client.source_graphs.get("team/g")
            assert graph.state is SourceGraphState.SEALED
            assert graph.num_nodes == {"n": _NODES}
            assert client.source_graphs.verify("team/g").is_sound
            assert client.source_graphs.lookup_nodes("team/g", "n", ids=[17]).numbers[0] == 17
            drawn = client.samples.tables(_SAMPLES.sub_graphs, np.arange(100), seed=1)
            tables.append([table.tensors["n.x"].tobytes() for table in drawn])
            assert client.samples.estimate_sizes(_SAMPLES.sub_graphs, num_graphs=50).num_seeds == _NODES
            made = client.samples.make_dataset(
                _SAMPLES.sub_graphs, f"of-{world.servers.index(server)}", seeds=np.arange(50)
            )
            assert made.num_graphs == 50
            client.datasets.delete(made.name)
    assert tables[0] == tables[1]
    second.stop()
    shutil.rmtree(second.cache)
    second.start()
    with Client(second.advertised) as client:
        drawn = client.samples.tables(_SAMPLES.sub_graphs, np.arange(100), seed=1)
        assert [table.tensors["n.x"].tobytes() for table in drawn] == tables[0]
    assert second.metric("packhouse_object_cache_misses_total") > 0


def test_a_source_graph_is_built_by_one_server(world: World) -> None:
    """And then read by all. Elsewhere rows are refused, with the address of that server."""
    first, second = world.servers
    with Client(first.advertised) as builder, Client(second.advertised) as other:
        build_source_graph(builder, "built", seal=False)
        assert other.source_graphs.get("built").state is SourceGraphState.OPEN
        for call in (
            lambda: other.source_graphs.append("built", NodeRows("n", [0], {"x": [[0.0] * 64]})),
            lambda: other.source_graphs.seal("built"),
        ):
            with pytest.raises(PackhouseError, match=first.advertised) as refused:
                call()
            assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION
        first.kill()
        first.start()
        assert builder.source_graphs.seal("built").state is SourceGraphState.SEALED
        sub_graphs = dataclasses.replace(_SAMPLES.sub_graphs, graph="built")
        drawn = [
            [table.tensors["n.x"].tobytes() for table in client.samples.tables(sub_graphs, range(9))]
            for client in (builder, other)
        ]
        assert drawn[0] == drawn[1]
        other.source_graphs.delete("built")
        with pytest.raises(PackhouseError, match="there is none"):
            builder.source_graphs.get("built")


def test_a_sampled_epoch_goes_on_at_another_server(
    world: World, embedded: tuple[pathlib.Path, list[tuple[int, str]]]
) -> None:
    """Its owner is killed in the middle, twice: each batch once, with the same bytes."""
    given = given_samples(embedded[0])
    seen: dict[int, str] = {}
    killed = 0
    loader = Loader(world.addresses, job="sampled", rank=0, num_ranks=1, **_SAMPLED)
    with loader:
        for position, batch in enumerate(loader):
            if batch.is_padding:
                continue
            assert batch.number not in seen
            seen[batch.number] = digest_of(batch)
            if position in (len(given) // 4, len(given) // 2):
                owner = owner_of(world.servers, "sampled")
                owner.kill()
                owner.start()
                killed += 1
    assert killed == 2
    assert seen == given


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A server that must not start."""
    return subprocess.run(
        [os.environ["PACKHOUSED"], "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )


def test_stores_that_do_not_belong_together_are_refused(
    world: World, tmp_path: pathlib.Path
) -> None:
    """To a server with another etcd, all objects would be orphans."""
    fill(world.addresses, "kept")
    with Client(world.addresses) as client:
        of_kept = f"{client.datasets.get('kept').id:016x}"

    def kept_objects() -> list[pathlib.Path]:
        """Of others, servers of the world may be deleting some."""
        return [path for path in world.s3.objects() if of_kept in str(path)]

    kept = kept_objects()
    assert kept
    arguments = (
        *(f"--store={STORE}", f"--cache-dir={tmp_path / 'cache'}", "--advertise=refused.invalid:1"),
        f"--signing-key={world.key}",
    )
    done = started(*arguments, *shared_arguments(world.etcd, world.s3, "another"))
    assert done.returncode == 1
    assert "do not belong together" in done.stderr
    assert kept_objects() == kept
    # One process has a cache.
    arguments = (*arguments, f"--cache-dir={world.servers[0].cache}")
    done = started(*arguments, *shared_arguments(world.etcd, world.s3))
    assert done.returncode == 1
    assert "is open in another process" in done.stderr
    # It was a member for a moment; nobody is sent there any more.
    members = world.etcd.values("test/member/")
    assert len(members) >= len(world.servers)
    assert not any(b"refused.invalid" in member for member in members)


_CLUSTER: Final = (
    *("--store=s3://b", "--ledger=etcd://e", "--cache-dir=c"),
    *("--advertise=127.0.0.1:1", "--signing-key=k"),
)


@pytest.mark.parametrize(
    "arguments, wanted",
    [
        (("--store=s3://b", "--cache-dir=c"), "--store s3://: needs --ledger"),
        (("--store=ftp://b",), "neither lmdb:DIR nor s3://"),
        (("--store=s3://key:secret@b",), "has an '@'"),
        (("--cache-dir=c",), "--cache-dir: needs --store s3://"),
        (("--s3-endpoint=e",), "--s3-endpoint: needs --store s3://"),
        (("--store=lmdb:one", "--data-dir=two"), "--data-dir is two"),
        (("--store=s3://b", "--ledger=etcd://e"), "needs --cache-dir"),
        (
            ("--store=s3://b", "--ledger=etcd://e", "--cache-dir=c", "--data-dir=d"),
            "--data-dir: not with --store s3://",
        ),
        *(
            (
                ("--ledger=etcd://e", "--data-dir=d", "--advertise=a:1", "--signing-key=k", flag),
                f"{flag.partition('=')[0]}: not with --ledger and --data-dir",
            )
            for flag in ("--dataset-retention=1h", "--source-graph-retention=team=1h")
        ),
        *(
            ((*_CLUSTER, flag), f"{flag.partition('=')[0]}: {why}")
            for flag, why in (
                ("--snapshot-dir=s", "needs --data-dir"),
            )
        ),
        (
            ("--store=s3://b", "--ledger=etcd://e", "--cache-dir=c", "--s3-endpoint=http://far"),
            "needs https://, or --insecure",
        ),
    ],
)
def test_flags_are_refused_by_name(arguments: tuple[str, ...], wanted: str) -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    done = started(*arguments)
    assert done.returncode == 2
    assert wanted in done.stderr
    assert "secret" not in done.stderr


def test_histograms_are_of_all_servers(world: World) -> None:
    """Counted by any, seen by all, also what streams count; a request that is sent again counts once."""
    first, second = world.servers
    sizes = TABLES[0].sizes
    with Client(first.advertised) as one, Client(second.advertised) as other:
        assert one.histograms.observe("team/sizes", sizes, producer="p").num_graphs == 100
        before = other.histograms.get("team/sizes")
        assert before.num_graphs == 100
        assert before.totals == {"nodes": int(sizes[:, 0].sum()), "edges": 0}
        again = other.histograms.observe("team/sizes", sizes, producer="p", first_sequence=1)
        assert again.num_counted == 0
        assert other.histograms.observe("team/sizes", sizes, producer="q").num_graphs == 200
        after = one.histograms.get("team/sizes")
        assert after.num_graphs == 200
        assert after.revision > before.revision > 0
        assert one.plan("team/sizes", _LIMITS).best is not None
        options = PackOptions(limits=_LIMITS, histogram="streamed")
        with other.pack(TABLES[1], options) as stream:
            assert sum(len(batch.graph_ids) for batch in stream) == 100
        deadline = time.monotonic() + 30
        while _count(one, "streamed") != 100:
            assert time.monotonic() < deadline
        other.histograms.delete("team/sizes")
        with pytest.raises(PackhouseError, match="none named"):
            one.histograms.get("team/sizes")


def test_what_no_server_uses_is_deleted(world: World) -> None:
    """As long as one uses it, none deletes it."""
    first, second = world.servers
    kinds = ("datasets", "source_graphs", "histograms")

    def expired() -> list[float]:
        names = [f"packhouse_{kind}_expired_total" for kind in kinds]
        return [sum(server.metric(name) for server in world.servers) for name in names]

    fill(world.addresses, "long/set")
    # Everything was used since.
    used = time.monotonic()
    fill(world.addresses, "brief/set")
    sub_graphs = dataclasses.replace(_SAMPLES.sub_graphs, graph="brief/g")
    with Client(first.advertised) as one, Client(second.advertised) as other:
        build_source_graph(one, "brief/g")
        one.histograms.observe("brief/sizes", TABLES[0].sizes)
        end = time.monotonic() + 10
        begun = used
        try:
            while begun < end:
                assert digests(second.advertised, "brief/set")
                assert other.histograms.get("brief/sizes").num_graphs == 100
                assert list(other.samples.tables(sub_graphs, range(10)))
                used, begun = begun, time.monotonic()
        except PackhouseError as error:
            # On a busy machine the uses themselves may be too far apart.
            assert error.code is grpc.StatusCode.NOT_FOUND and time.monotonic() - used > 2, error
        deadline = time.monotonic() + 60
        while expired() != [1, 1, 1]:
            assert time.monotonic() < deadline
        names = [each.name for each in one.datasets.list()]
        assert "brief/set" not in names and "long/set" in names
        assert "brief/g" not in [each.name for each in other.source_graphs.list()]
        assert _count(other, "brief/sizes") == 0


def _count(client: Client, histogram: str) -> int:
    try:
        return client.histograms.get(histogram).num_graphs
    except PackhouseError as error:
        if error.code is not grpc.StatusCode.NOT_FOUND:
            raise
        return 0


def test_a_cache_keeps_its_bound(world: World) -> None:
    folder = world.servers[0].cache.parent.parent
    nodes = np.full((8, 2), (1500, 0), np.uint32)
    rows = np.random.default_rng(0).random((8 * 1500, 16), np.float32)
    names = ("of-the-cache/a", "of-the-cache/b")
    with Client(world.servers[0].advertised) as client:
        for name in names:
            client.datasets.create(name, _SCHEMA)
            client.datasets.append(name, [GraphTable(_SCHEMA, nodes, {"x": rows})])
            client.datasets.seal(name)
    # There is room for one of both.
    bound = 1 << 20
    with Sharing(world.etcd, world.s3, folder, "small", f"--cache-bytes={bound}") as small:
        for name in names:
            limits = {"nodes": 1500, "graphs": 1}
            assert len(list(Evaluation(small.advertised, dataset=name, limits=limits))) == 8
            kept = sum(each.stat().st_size for each in small.cache.glob("*.chunk"))
            assert bound / 2 < kept <= bound
        assert small.metric("packhouse_object_cache_bound_bytes") == bound
        # Of the disk of the cache.
        assert small.metric("packhouse_disk_free_bytes") > 0


def test_partitions_are_made_at_one_server_and_read_at_all(
    world: World, tmp_path: pathlib.Path
) -> None:
    """Through kills of the server that makes them; deleted, they leave nothing."""
    first, second = world.servers
    cut: dict[str, Any] = {"num_parts": 40, "method": "streaming", "mapping": True}
    with ServerProcess(f"--store=lmdb:{tmp_path / 'embedded'}") as alone:
        with Client(alone.address) as client:
            build_source_graph(client, "cut/g")
            client.partitions.begin("cut/g", "fine", **cut)
            client.partitions.wait("cut/g", "fine")
            client.partitions.download("cut/g", "fine", tmp_path / "given")
        alone.stop()
    with Client(first.advertised) as maker, Client(second.advertised) as other:
        build_source_graph(maker, "cut/g")
        maker.partitions.begin("cut/g", "fine", **cut)
        # Wherever it is killed, it goes on there; and the other one names it meanwhile.
        for _ in range(3):
            first.kill()
            gone = other.partitions.get("cut/g", "fine")
            if gone.state.name == "FAILED":
                assert first.advertised in str(gone.error)
            first.start()
        maker.partitions.wait("cut/g", "fine")
        other.partitions.download("cut/g", "fine", tmp_path / "shared")
        assert files_below(tmp_path / "shared") == files_below(tmp_path / "given")
        # The one that made it need not be there.
        first.kill()
        assert [each.name for each in other.partitions.list("cut/g")] == ["fine"]
        other.partitions.make_dataset("cut/g", "fine", "clusters")
        options: dict[str, Any] = {"join_parts": True, "padding": "graph", "seed": 7}
        options["limits"] = {"n": 800, "e": 9000, "graphs": 64}
        with Loader(second.advertised, job="clusters", dataset="clusters", **options) as loader:
            joined = [batch for batch in loader if not batch.is_padding]
        assert sorted(int(part) for batch in joined for part in batch.graph_ids) == list(range(40))
        other.partitions.make_dataset("cut/g", "fine", "halos", halo=True)
        assert other.datasets.get("halos").num_graphs == 40
        first.start()
        assert checked(world, STORE)["damages"] == []
        for name in ("clusters", "halos"):
            other.datasets.delete(name)
        other.source_graphs.delete("cut/g")
    # With the graph its partitions go; a new one of its name has none.
    with Client(first.advertised) as maker, Client(second.advertised) as other:
        build_source_graph(maker, "cut/g")
        assert not other.partitions.list("cut/g")
        # One that is at work is ended from elsewhere.
        maker.partitions.begin("cut/g", "fine", **cut)
        other.partitions.cancel("cut/g", "fine")
        # Its server hears of it a moment later.
        deadline = time.monotonic() + 30
        while (state := maker.partitions.get("cut/g", "fine").state.name) == "RUNNING":
            assert time.monotonic() < deadline
        assert state in ("CANCELLED", "DONE")
        other.partitions.delete("cut/g", "fine")
        assert not maker.partitions.list("cut/g")
        maker.source_graphs.delete("cut/g")
        assert checked(world, STORE)["damages"] == []


def files_below(folder: pathlib.Path) -> dict[str, bytes]:
    """By their paths."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_snapshot_of_running_servers_is_restored(world: World, tmp_path: pathlib.Path) -> None:
    """A cluster that is made of it gives the same, and there is no snapshot without an object."""

    def store(command: str, *arguments: str, prefix: str = "test", status: int = 0) -> str:
        done = subprocess.run(
            [
                *(os.environ["PACKHOUSED"], "store", command, *arguments),
                *shared_arguments(world.etcd, world.s3, prefix),
            ],
            capture_output=True, text=True, timeout=240, check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    fill(world.addresses, "snapped/set")
    given = digests(world.addresses, "snapped/set")
    folder = world.key.parent
    with Client(world.addresses) as client:
        build_source_graph(client, "snapped/g")
        client.histograms.observe("snapped/sizes", TABLES[0].sizes)
    snapshot = str(tmp_path / "snapshot")
    assert "bytes" in store("snapshot", STORE, snapshot)
    with Client(world.addresses) as client:
        client.datasets.delete("snapped/set")
    into = f"s3://{BUCKET}/restored"
    store("restore", snapshot, into, prefix="restored")
    assert "is restored into an empty" in store(
        "restore", snapshot, into, prefix="restored", status=1
    )
    arguments = (f"--store={into}", f"--ledger=etcd://{world.etcd.address}/restored")
    with Sharing(world.etcd, world.s3, folder, "restored", *arguments) as restored:
        assert digests(restored.advertised, "snapped/set") == given
        with Client(restored.advertised) as client:
            assert client.histograms.get("snapped/sizes").num_graphs == 100
            sub_graphs = dataclasses.replace(_SAMPLES.sub_graphs, graph="snapped/g")
            assert list(client.samples.tables(sub_graphs, range(10)))
            client.datasets.create("new", _SCHEMA)
        assert "sound" in store("check", into, prefix="restored")
        assert "stop all servers first" in store("repair", into, prefix="restored", status=1)
        restored.stop()
    path = next(path for path in world.s3.objects() if "/restored/d/" in str(path))
    written = path.read_bytes()
    path.unlink()
    another = str(tmp_path / "another")
    assert "DATA_LOSS" in store("snapshot", into, another, prefix="restored", status=1)
    store("restore", another, f"s3://{BUCKET}/nothing", prefix="nothing", status=1)
    # Keys that are damaged are put right, and given up if somebody says so.
    path.write_bytes(written)
    repair = functools.partial(store, "repair", into, prefix="restored")
    assert "nothing to repair" in repair()
    world.etcd.put("restored/ds/name/snapped/set", "?")
    world.etcd.put("restored/feedback/count", "9")
    refused = repair(status=1)
    assert "--accept-missing costs " in refused and "data set 'snapped/set'" in refused
    assert "data set" in store("check", into, prefix="restored", status=1)
    told = repair("--accept-missing")
    assert "it costs data set 'snapped/set'" in told and "nothing is lost" in told
    assert "sound" in store("check", into, prefix="restored")
    assert "for folders" in repair("--drop-source-graph=g", status=1)


def checked(world: World, *arguments: str, status: int = 0) -> dict[str, Any]:
    """What `packhoused store check` tells, while the servers run."""
    done = subprocess.run(
        [
            *(os.environ["PACKHOUSED"], "store", "check", "--json", *arguments),
            *shared_arguments(world.etcd, world.s3),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_a_check_names_what_is_damaged_beside_servers(
    world: World, embedded: tuple[pathlib.Path, list[tuple[int, str]]]
) -> None:
    """And finds nothing while data sets come, grow and go."""
    fill(world.addresses, "checked")
    with Client(world.servers[0].advertised) as client:
        build_source_graph(client, "checked/g")
    loader = Loader(
        world.addresses, dataset="checked", job="checked", limits=_LIMITS, rank=0, num_ranks=1
    )
    with loader:
        next(iter(loader))
    ended = threading.Event()

    def change() -> None:
        with Client(world.servers[1].advertised) as client:
            while not ended.is_set():
                client.datasets.create("comes", _SCHEMA)
                client.datasets.append("comes", [TABLES[0]])
                client.histograms.observe("comes", TABLES[0].sizes)
                client.datasets.delete("comes")

    changing = threading.Thread(target=change)
    changing.start()
    try:
        told = [checked(world, STORE) for _ in range(3)]
    finally:
        ended.set()
        changing.join()
    with Client(world.addresses) as client:
        of_checked = f"{client.datasets.get('checked').id:016x}"
        assert told[2]["datasets"] - len(list(client.datasets.list())) in (0, 1)
    assert [each["damages"] for each in told] == [[], [], []]
    assert told[0]["source_graphs"] > 0 and told[0]["ledger_records"] > 0
    # A server with a copy of a data folder shares the rest.
    told_of_folder = checked(world, str(embedded[0]))
    assert told_of_folder["datasets"] == 1
    assert told_of_folder["ledger_records"] > told[2]["ledger_records"]
    chunk = [path for path in world.s3.objects() if f"{of_checked}/c/" in str(path)][0]
    written = chunk.read_bytes()
    chunk.write_bytes(written[:-1] + bytes([written[-1] ^ 1]))
    damages = checked(world, STORE, status=1)["damages"]
    chunk.unlink()
    damages += checked(world, STORE, status=1)["damages"]
    assert len(damages) >= 2
    for damage in damages:
        assert damage["file"] == STORE and "data set 'checked'" in damage["cost"], damage
    with Client(world.addresses) as client:
        client.datasets.delete("checked")
        client.source_graphs.delete("checked/g")
    assert checked(world, STORE)["damages"] == []
    done = started("store", "check", "s3://elsewhere")
    assert "--ledger" in done.stderr


def test_a_server_that_is_killed_in_an_append_loses_nothing(world: World) -> None:
    """Last, since it ends a server. What was answered is there, and the rest is sent elsewhere."""
    first, second = world.servers
    with Client(first.advertised) as client:
        client.datasets.create("killed", _SCHEMA)
        client.datasets.append("killed", [TABLES[0]], producer="p", first_sequence=1)
    first.kill()
    with Client(second.advertised) as client:
        client.datasets.append("killed", TABLES[:3], producer="p", first_sequence=1)
        assert client.datasets.get("killed").num_graphs == 300
        assert client.datasets.verify("killed").is_sound
