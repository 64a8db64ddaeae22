"""Three servers share jobs over etcd: owners are killed, stopped and drained, and jobs are moved, while
workers load.

Each server has a copy of the sealed data set. What workers receive and acknowledge is written down
as it happens, and checked at the end.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import threading
import time
import zlib
from typing import Final, Iterator

import grpc
import pytest

from etcd_process import EtcdProcess, free_port
from replica_process import (
    DATASET,
    Replica,
    addresses,
    cluster,
    copied_folders,
    owner_of,
    sizes_only,
)
from server_process import ServerProcess

from packhouse import (
    BatchFeedback,
    Client,
    ComponentProfile,
    DeviceProfile,
    Evaluation,
    Histogram,
    Loader,
    PackhouseError,
)
from packhouse.v1 import loader_pb2, loader_pb2_grpc, receipts_pb2, receipts_pb2_grpc

_NUM_GRAPHS: Final = 600
_LIMITS: Final = {"nodes": 64, "edges": 64, "graphs": 8}
_LEASE_SECONDS: Final = 3


@pytest.fixture(name="folders", scope="module")
def _folders(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    return copied_folders(tmp_path_factory.mktemp("data"), 4, _NUM_GRAPHS)


@pytest.fixture(name="replicas", scope="module")
def _replicas(
    tmp_path_factory: pytest.TempPathFactory, folders: list[pathlib.Path]
) -> Iterator[list[Replica]]:
    folder = tmp_path_factory.mktemp("cluster")
    with EtcdProcess(folder / "etcd") as etcd:
        with cluster(etcd, folders[:3], folder / "key", _LEASE_SECONDS) as replicas:
            yield replicas


def _loader(address: str, job: str, rank: int = 0, num_ranks: int = 1) -> Loader:
    return Loader(
        address,
        dataset=DATASET,
        job=job,
        seed=3,
        limits=_LIMITS,
        rank=rank,
        num_ranks=num_ranks,
        max_in_flight=2,
        retry_timeout=120,
        # Workers that are killed come again without a state.
        on_existing="resume",
    )


class Books:
    """What all workers received, in the order in which they did."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        # Generation, batch, checksum, the owner's revision, when.
        self.received: list[tuple[int, int, int, int, float]] = []
        self.failures: list[BaseException] = []

    def add(self, generation: int, number: int, content: int, session: int) -> None:
        with self.lock:
            self.received.append((generation, number, content, session >> 20, time.monotonic()))
            self.lock.notify_all()

    def await_count(self, count: int) -> None:
        with self.lock:
            assert self.lock.wait_for(lambda: len(self.received) >= count or self.failures, 120)


def _work(loader: Loader, books: Books, may_go_on: threading.Event | None = None) -> None:
    try:
        with loader:
            for batch in loader:
                content = zlib.crc32(batch.graph_ids.tobytes())
                books.add(batch.generation, batch.number, content, batch.session)
                # Else the epoch would be over before its owner is gone.
                if may_go_on is not None and len(books.received) > 20:
                    may_go_on.wait()
    except BaseException as error:  # noqa: BLE001  # pylint: disable=broad-exception-caught
        with books.lock:
            books.failures.append(error)
            books.lock.notify_all()


@pytest.mark.parametrize("advertised", ["their own", "nobody's"])
def test_of_two_with_one_address_one_goes_on(advertised: str, tmp_path: pathlib.Path) -> None:
    """They start at one moment; whether or not one of them is found at the address."""
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    port = free_port()
    (tmp_path / "key").write_text("ab" * 32)
    with EtcdProcess(tmp_path / "etcd") as etcd, contextlib.ExitStack() as stack:
        servers = []
        for i in range(2):
            arguments = (
                f"--listen=127.0.0.1:{port if advertised == 'their own' and i == 0 else 0}",
                "--http-listen=127.0.0.1:0",
                f"--data-dir={tmp_path / str(i)}",
                f"--ledger=etcd://{etcd.address}/test",
                f"--advertise=127.0.0.1:{port}",
                f"--signing-key={tmp_path / 'key'}",
            )
            with open(tmp_path / f"log{i}", "wb") as log:
                server = subprocess.Popen(
                    [os.environ["PACKHOUSED"], *arguments], stdout=log, stderr=log
                )
            stack.callback(server.wait)
            stack.callback(server.kill)
            servers.append(server)
        # Of each one the end is waited for.
        with concurrent.futures.ThreadPoolExecutor(len(servers)) as waiting:
            ends = [waiting.submit(server.wait, 120) for server in servers]
            done, running = concurrent.futures.wait(
                ends, timeout=120, return_when=concurrent.futures.FIRST_COMPLETED
            )
            assert len(done) == 1 and len(running) == 1
            refused = ends.index(done.pop())
            assert servers[refused].returncode == 1
            words = f"--advertise: another server has the address 127.0.0.1:{port}"
            assert words in (tmp_path / f"log{refused}").read_text()
            assert words not in (tmp_path / f"log{1 - refused}").read_text()
            assert servers[1 - refused].poll() is None
            servers[1 - refused].kill()


@pytest.mark.parametrize("fault", ["killed", "stopped", "drained", "moved"])
def test_an_epoch_outlives_its_owner(fault: str, replicas: list[Replica]) -> None:
    """Every batch is received, with the same bytes each time, in one generation; all are done."""
    job = f"job-{fault}"
    books = Books()
    may_go_on = threading.Event()
    workers = [
        threading.Thread(
            target=_work, args=(_loader(addresses(replicas), job, rank, 2), books, may_go_on)
        )
        for rank in range(2)
    ]
    for worker in workers:
        worker.start()
    books.await_count(10)
    owner = owner_of(replicas, job)
    left = [replica for replica in replicas if replica is not owner]
    fault_at = time.monotonic()
    if fault == "killed":
        owner.kill()
    elif fault == "moved":
        # To the one that nobody would choose.
        with _administration(owner) as client:
            client.administration.move_job(job, left[1].advertised)
    else:
        owner.send(signal.SIGSTOP if fault == "stopped" else signal.SIGTERM)
    may_go_on.set()
    for worker in workers:
        worker.join()
    assert not books.failures, books.failures
    next_owner = owner_of(left, job)
    with Client(next_owner.advertised) as client:
        (epoch,) = client.jobs.get(job).epochs
    assert epoch.num_done == epoch.num_batches
    if fault == "stopped":
        _a_stopped_owner_changes_nothing(owner, left, job, books)
    elif fault == "moved":
        assert next_owner is left[1]
        with _administration(owner) as client:
            assert job not in client.administration.status().owned_jobs
    else:
        owner.stop()
        owner.start()
    assert len({generation for generation, *_ in books.received}) == 1
    contents = collections.defaultdict(set)
    for _, number, content, _, _ in books.received:
        contents[number].add(content)
    assert all(len(each) == 1 for each in contents.values()), "other bytes"
    assert set(range(epoch.num_batches)) <= contents.keys()
    first_owner = min(revision for _, _, _, revision, _ in books.received)
    takeover = min(at for *_, revision, at in books.received if revision > first_owner)
    print(f"takeover of a {fault} owner's job: {takeover - fault_at:.2f} s")


def _administration(replica: Replica) -> Client:
    return Client(f"unix:{replica.folder}/admin.sock")


def _owners(replica: Replica, jobs: list[str]) -> list[str]:
    with Client(replica.advertised) as client:
        listed = {job.name: job.owner for job in client.jobs.list()}
    return [listed.get(job, "") for job in jobs]


def test_a_job_is_moved_to_any_server(replicas: list[Replica]) -> None:
    """It stays there while the server lives, also when nobody loads; and nothing is done twice."""
    jobs = ["job-moved-a", "job-moved-b"]
    done: dict[str, list[int]] = {job: [] for job in jobs}
    for to in (*replicas, *reversed(replicas)):
        for job in jobs:
            owner = owner_of(replicas, job)
            if not done[job]:
                with pytest.raises(PackhouseError) as refused, _administration(owner) as client:
                    client.administration.move_job(job, to.advertised)
                assert refused.value.code is grpc.StatusCode.NOT_FOUND
            with _loader(addresses(replicas), job) as loader:
                batches = iter(loader)
                # What is not acknowledged comes again.
                done[job] += [next(batches).number for _ in range(3)][:-1]
                loader.flush()
            owner = owner_of(replicas, job)
            for _ in range(2):  # Also where it is already.
                with _administration(owner) as client:
                    client.administration.move_job(job, to.advertised)
                owner = to
            # Whoever is asked knows.
            for replica in replicas:
                with Client(replica.advertised) as client:
                    assert client.jobs.get(job).owner == to.advertised
        for replica in replicas:
            while _owners(replica, jobs) != [to.advertised] * len(jobs):
                pass
        with _administration(to) as client:
            status = client.administration.status()
        assert set(jobs) <= set(status.owned_jobs)
        assert status.members == tuple(sorted(replica.advertised for replica in replicas))
    for job in jobs:
        with _loader(addresses(replicas), job) as loader:
            done[job] += [batch.number for batch in loader]
        assert sorted(done[job]) == list(range(len(done[job])))
    owner = owner_of(replicas, jobs[0])
    with _administration(owner) as client:
        with pytest.raises(PackhouseError, match="no server of the cluster has 'x:1'") as refused:
            client.administration.move_job(jobs[0], "x:1")
    assert refused.value.code is grpc.StatusCode.NOT_FOUND
    # When that server has gone, the job is anybody's.
    owner.stop()
    assert owner_of([each for each in replicas if each is not owner], jobs[0]) is not owner
    owner.start()


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [os.environ["PACKHOUSE_CLI"], *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.skipif("PACKHOUSE_CLI" not in os.environ, reason="PACKHOUSE_CLI names no program")
def test_the_command_shows_owners_and_moves_a_job(replicas: list[Replica]) -> None:
    job = "job-command"
    with _loader(addresses(replicas), job) as loader:
        next(iter(loader))
    owner = owner_of(replicas, job)
    to = next(each for each in replicas if each is not owner)

    def move(at: Replica, address: str) -> subprocess.CompletedProcess[str]:
        socket = f"unix:{at.folder}/admin.sock"
        return _command("admin", "move-job", job, "--to", address, "--server", socket)

    refused = move(owner, "x:1")
    assert refused.returncode == 1
    assert "no server of the cluster has 'x:1'" in refused.stderr
    for at in (owner, to):  # Also where it is already.
        moved = move(at, to.advertised)
        assert moved.returncode == 0, moved.stderr
        assert to.advertised in moved.stdout
    for replica in replicas:
        # Lists are a moment old.
        while True:
            listed = _command("jobs", "list", "--server", replica.advertised)
            assert listed.returncode == 0, listed.stderr
            words = [line.split() for line in listed.stdout.splitlines()]
            if any({job, to.advertised} <= set(row) for row in words):
                break
        shown = _command("jobs", "show", job, "--server", replica.advertised)
        assert shown.returncode == 0 and to.advertised in shown.stdout, shown
    status = _command("admin", "status", "--server", f"unix:{to.folder}/admin.sock")
    assert status.returncode == 0, status.stderr
    for replica in replicas:
        assert replica.advertised in status.stdout


def _a_stopped_owner_changes_nothing(
    owner: Replica, left: list[Replica], job: str, books: Books
) -> None:
    """It goes on after its lease, and is refused what it wanted to write then."""
    owner.send(signal.SIGCONT)
    old = min((revision for _, _, _, revision, _ in books.received))
    generation = books.received[0][0]
    request = loader_pb2.AcknowledgeRequest(
        job=job, epoch=0, generation=generation, session=old << 20, batches=[0]
    )
    with grpc.insecure_channel(owner.advertised) as channel:
        stub = loader_pb2_grpc.LoaderServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.Acknowledge(request, wait_for_ready=True, timeout=60)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE, refused.value.details()
    named = dict(refused.value.trailing_metadata()).get("packhouse-owner")
    assert named in [None, *(replica.advertised for replica in left)]


def test_cursors_are_good_at_every_server(replicas: list[Replica]) -> None:
    """What one owner has said is done is done for the next one."""
    job = "job-cursor"
    done = set()
    with _loader(addresses(replicas), job) as loader:
        for batch in loader:
            done.add(batch.number)
            if len(done) == 7:
                break
        state = loader.state_dict()
    owner = owner_of(replicas, job)
    owner.send(signal.SIGTERM)
    with _loader(addresses(replicas), job) as loader:
        loader.load_state_dict(state)
        rest = [batch.number for batch in loader]
        total = loader.epoch_info().num_batches
    assert sorted(rest) == sorted(set(range(total)) - done)
    owner.stop()
    owner.start()


def test_acknowledgements_need_nobody_who_loads(replicas: list[Replica]) -> None:
    """All workers may be saving their state when the owner goes: whoever is asked takes the job."""
    job = "job-saved"
    with _loader(addresses(replicas), job) as loader:
        batch = next(iter(loader))
    request = loader_pb2.AcknowledgeRequest(
        job=job, epoch=0, generation=batch.generation, batches=[batch.number + 5]
    )
    owner = owner_of(replicas, job)
    owner.kill()
    left = [replica for replica in replicas if replica is not owner]
    until = time.monotonic() + 20 * _LEASE_SECONDS
    refusals = set()
    for replica in itertools.cycle(left):
        assert time.monotonic() < until, refusals
        with grpc.insecure_channel(replica.advertised) as channel:
            try:
                answer = loader_pb2_grpc.LoaderServiceStub(channel).Acknowledge(request, timeout=10)
            except grpc.RpcError as refused:
                assert refused.code() is grpc.StatusCode.UNAVAILABLE, refused
                refusals.add(refused.details())
            else:
                assert answer.num_new == 1
                break
    owner.start()


def test_every_server_makes_the_same_plan_and_bytes(replicas: list[Replica]) -> None:
    """Of an epoch that belongs to no job, so that each server makes its own."""
    receipts = set()
    contents = set()
    for replica in replicas:
        spec = _loader(replica.advertised, "any").settings.request.of_epoch(0)
        spec.job = ""
        with grpc.insecure_channel(replica.advertised) as channel:
            stub = loader_pb2_grpc.LoaderServiceStub(channel)
            request = loader_pb2.GetEpochRequest(epoch=spec)
            receipts.add(stub.GetEpoch(request, wait_for_ready=True, timeout=60).receipt)
        evaluation = Evaluation(replica.advertised, dataset=DATASET, seed=3, limits=_LIMITS)
        contents.add(tuple(tuple(batch.graph_ids) for batch in evaluation))
    assert len(receipts) == 1
    assert len(contents) == 1


def test_the_same_bytes_as_alone(folders: list[pathlib.Path], replicas: list[Replica]) -> None:
    """A server of a cluster gives what a server alone gives."""
    alone, shared = Books(), Books()
    with ServerProcess(f"--data-dir={folders[3]}") as server:
        _work(_loader(server.address, "job"), alone)
    _work(_loader(addresses(replicas), "job"), shared)
    assert not alone.failures and not shared.failures
    assert [each[1:3] for each in alone.received] == [each[1:3] for each in shared.received]


def test_calls_about_a_job_name_its_owner(replicas: list[Replica]) -> None:
    """Batches are made again by the owner of their job; the others say who that is."""
    job = "job-rebuilt"
    books = Books()
    _work(_loader(addresses(replicas), job), books)
    owner = owner_of(replicas, job)
    request = receipts_pb2.RebuildBatchesRequest(job=job, epoch=0, numbers=[1])
    for replica in replicas:
        with grpc.insecure_channel(replica.advertised) as channel:
            stub = receipts_pb2_grpc.ReceiptServiceStub(channel)
            call = stub.RebuildBatches(request, wait_for_ready=True, timeout=60)
            if replica is owner:
                assert len(list(call)) == 2  # `opened`, and the batch.
                continue
            with pytest.raises(grpc.RpcError) as refused:
                list(call)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            named = dict(refused.value.trailing_metadata())["packhouse-owner"]
            assert named == owner.advertised


def test_a_client_of_any_server_asks_the_owner(replicas: list[Replica]) -> None:
    """The same answers about a job at every server, which are those of its owner."""
    job = "job-asked"
    books = Books()
    _work(_loader(addresses(replicas), job), books)
    assert not books.failures, books.failures
    owner = owner_of(replicas, job)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(replica.advertised)) for replica in replicas]
        for client in clients:
            (epoch,) = client.jobs.get(job).epochs
            assert epoch.num_done == epoch.num_batches == len(books.received)
            (batch,) = client.receipts.batches(job, 0, [books.received[0][1]])
            assert zlib.crc32(batch.graph_ids.tobytes()) == books.received[0][2]
        stranger = clients[(replicas.index(owner) + 1) % len(replicas)]
        stranger.jobs.delete(job)
        for client in clients:
            with pytest.raises(PackhouseError) as refused:
                client.jobs.get(job)
            assert refused.value.code is grpc.StatusCode.NOT_FOUND


def test_every_server_lists_all_jobs(replicas: list[Replica]) -> None:
    """Those of others too, as their owners have said."""
    names = [f"listed/job{i}" for i in range(4)]
    for job in names:
        with _loader(addresses(replicas), job) as loader:
            next(iter(loader))
    for left in (names, names[1:]):
        for replica in replicas:
            with Client(replica.advertised) as client:
                listed: list[str] = []
                while listed != left:
                    jobs = [job for job in client.jobs.list(3) if job.name.startswith("listed/")]
                    assert all(job.num_epochs == 1 and job.last_used for job in jobs)
                    listed = [job.name for job in jobs]
        with Client(replicas[0].advertised) as client, contextlib.suppress(PackhouseError):
            client.jobs.delete(names[0])


def test_what_a_device_costs_is_known_to_every_server(replicas: list[Replica]) -> None:
    """Told to any of them, in turn; the law is the same, and limits are chosen by it anywhere."""
    measured_as = "shared/gin/cpu"
    shapes = [(8, 16), (16, 48), (32, 64), (64, 64), (64, 128), (128, 256)]
    for i, (nodes, edges) in enumerate(shapes):
        with Client(replicas[i % len(replicas)].advertised) as client:
            told = client.feedback.report(
                measured_as,
                [
                    BatchFeedback(
                        {"nodes": nodes, "edges": edges, "graphs": 8},
                        seconds=0.001 + 1e-4 * nodes + 1e-5 * edges,
                        peak_bytes=1_000_000 + 1000 * nodes + 100 * edges,
                    )
                ],
            )
            assert told == i + 1
    profile = DeviceProfile(
        {
            "nodes": ComponentProfile(max_rows=256, min_rows=16, multiple_of=8),
            "edges": ComponentProfile(max_rows=512, min_rows=16, multiple_of=8),
        },
        measured_as=measured_as,
    )
    sizes = Histogram.from_sizes(sizes_only(_NUM_GRAPHS).sizes)
    laws = []
    tuned = []
    for replica in replicas:
        with Client(replica.advertised) as client:
            laws.append(client.feedback.get(measured_as))
            assert [each.model for each in client.feedback.list()] == ["shared/gin"]
            tuned.append(client.tune(sizes, profile).shapes)
    assert laws[0].num_reports == len(shapes)
    assert laws == laws[:1] * len(replicas)
    assert tuned == tuned[:1] * len(replicas)
    # A job whose limits learn between two epochs, from what another server than its owner was told,
    # and although the owner is killed.
    job = "job-adaptive"
    with Loader(
        addresses(replicas),
        dataset=DATASET,
        job=job,
        seed=3,
        device_profile=profile,
        adaptive=True,
        retry_timeout=120,
    ) as loader:
        assert list(loader)
        (first,) = loader.epoch_info().rank_groups
        owner = owner_of(replicas, job)
        left = [replica for replica in replicas if replica is not owner]
        with Client(left[0].advertised) as client:
            rows = {name: rows for name, rows in first.shapes[0].limits.items() if rows}
            client.feedback.report(measured_as, [BatchFeedback(rows, out_of_memory=True)])
        owner.kill()
        loader.set_epoch(1)
        assert list(loader)
        (second,) = loader.epoch_info().rank_groups
        assert second.shapes != first.shapes
    owner.start()
    with Client(replicas[0].advertised) as client:
        client.feedback.delete(measured_as)
    with Client(replicas[1].advertised) as client, pytest.raises(PackhouseError) as gone:
        client.feedback.get(measured_as)
    assert gone.value.code is grpc.StatusCode.NOT_FOUND


def test_every_server_knows_the_plan_of_a_receipt(replicas: list[Replica]) -> None:
    """Of an epoch of another server's job, too."""
    job = "job-receipt"
    with _loader(addresses(replicas), job) as loader:
        next(iter(loader))
        receipt = loader.epoch_info().receipt
    plans = []
    for replica in replicas:
        with Client(replica.advertised) as client:
            while True:
                # Its owner says within a second that there is the job.
                try:
                    plans.append(client.receipts.plan(receipt))
                    break
                except PackhouseError as error:
                    assert error.code is grpc.StatusCode.NOT_FOUND
    assert plans[0].best.receipt == receipt
    assert all(plan.best.packs == plans[0].best.packs for plan in plans)


def test_what_is_not_shared_is_refused(replicas: list[Replica]) -> None:
    """By name: changes of data sets, source graphs."""
    table = sizes_only(1)
    with Client(replicas[0].advertised) as client:
        with pytest.raises(PackhouseError, match="copy of the data sets"):
            client.datasets.create("another", table.schema)
        with pytest.raises(PackhouseError, match="--ledger"):
            list(client.source_graphs.list())
