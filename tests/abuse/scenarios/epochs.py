"""Epochs that nobody finishes, and workers that all come at once."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import subprocess
import sys
import time
from typing import Final, Iterator

import grpc
from abuse import Abuse, Row, figure, law, scenario
from hostile import Forwarder, own_channel
from packhouse.v1 import (
    dataset_pb2,
    dataset_pb2_grpc,
    loader_pb2,
    loader_pb2_grpc,
)

_WORKERS: Final = 64
_DELAYED_BATCHES: Final = pathlib.Path(__file__).parents[1] / "delayed_batches.py"


def _seal_dataset(channel: grpc.Channel, graphs: int) -> None:
    stub = dataset_pb2_grpc.DatasetServiceStub(channel)
    stub.CreateDataset(dataset_pb2.CreateDatasetRequest(name="small"))
    request = dataset_pb2.AppendRequest(dataset="small")
    request.graphs.sizes.num_graphs = graphs
    request.graphs.sizes.counts = bytes(graphs * 8)
    for _ in stub.Append(iter([request])):
        pass
    stub.SealDataset(dataset_pb2.SealDatasetRequest(name="small"))


def _epoch(job: str, epoch: int) -> loader_pb2.LoadRequest:
    request = loader_pb2.LoadRequest(max_in_flight=1)
    request.epoch.dataset = "small"
    request.epoch.job = job
    request.epoch.epoch = epoch
    shape = request.epoch.rank_groups.add().shapes.add()
    shape.capacities.add(component="graphs", rows=1)
    return request


def _open(stub: loader_pb2_grpc.LoaderServiceStub, request: loader_pb2.LoadRequest) -> str:
    """How the first answer of a load comes: "OK", or the error's name."""
    stream = stub.Load(request, timeout=20)
    try:
        next(stream)
    except grpc.RpcError as error:
        return str(error.code().name)
    finally:
        stream.cancel()
    return "OK"


@scenario
def epochs_that_nobody_finishes(abuse: Abuse) -> Iterator[Row]:
    """A client that begins epochs and finishes none leaves the others theirs."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            abuse.server("--max-epochs=40", "--max-epochs-per-client=25", data=True)
        )
        hostile = stack.enter_context(own_channel(server.address))
        _seal_dataset(hostile, 8)
        stub = loader_pb2_grpc.LoaderServiceStub(hostile)
        answers = []
        for epoch in range(60):
            request = _epoch(f"job-{epoch}", epoch)
            request.ranked.num_ranks = 1
            answers.append(_open(stub, request))
        opened = answers.count("OK")
        rest = sorted(set(answers[opened:]))
        yield law(
            "epochs that one client has begun",
            f"{opened}, then {', '.join(rest)}",
            "25, then RESOURCE_EXHAUSTED",
            opened == 25 and rest == ["RESOURCE_EXHAUSTED"],
        )
        other = stack.enter_context(Forwarder(server.address, 2))
        channel = stack.enter_context(own_channel(other.address))
        request = _epoch("another", 0)
        request.ranked.num_ranks = 1
        answer = _open(loader_pb2_grpc.LoaderServiceStub(channel), request)
        yield law("another client's epoch", answer, "OK", answer == "OK")
        for epoch in range(25):
            stub.DeleteJob(loader_pb2.DeleteJobRequest(job=f"job-{epoch}"))
        request = _epoch("again", 0)
        request.ranked.num_ranks = 1
        answer = _open(stub, request)
        yield law("an epoch once the others are deleted", answer, "OK", answer == "OK")


class _Delays:
    """What delayed_batches.py sees, in a process of its own."""

    def __init__(self, address: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(_DELAYED_BATCHES), address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Delays:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def end(self) -> list[tuple[float, float]]:
        """Of each batch: when it was asked for (time.monotonic()), how late it came, in seconds."""
        said, _ = self._process.communicate(timeout=20)
        batches: list[tuple[float, float]] = json.loads(said)
        return batches


def _commits(page: str) -> int:
    """Of the ledger, since the server's start."""
    return sum(
        int(float(value))
        for value in re.findall(r'packhouse_commits_total\{[^}]*delivery[^}]*\} (\S+)', page)
    )


@scenario
def workers_that_join_at_once(abuse: Abuse) -> Iterator[Row]:
    """64 workers of a job share commits, and hold up no timer meanwhile."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(abuse.server(data=True))
        channel = stack.enter_context(own_channel(server.address))
        _seal_dataset(channel, 256)
        stub = loader_pb2_grpc.LoaderServiceStub(channel)
        most_commits = 0
        rounds = 0
        failed: list[str] = []
        quiet = stack.enter_context(_Delays(server.address))
        time.sleep(0.2 if abuse.is_short else 2.0)
        busy_from = time.monotonic()
        until = time.monotonic() + (0.5 if abuse.is_short else abuse.seconds / 2)
        while time.monotonic() < until or rounds == 0:
            rounds += 1
            request = _epoch("together", rounds)
            # Planned before, so that they all come to the ledger at once.
            stub.GetEpoch(loader_pb2.GetEpochRequest(epoch=request.epoch))
            before = _commits(server.get("/metrics")[1])
            streams = []
            for rank in range(_WORKERS):
                request.ranked.rank = rank
                request.ranked.num_ranks = _WORKERS
                streams.append(stub.Load(request, timeout=20))
            for stream in streams:
                try:
                    next(stream)
                except grpc.RpcError as error:
                    failed.append(str(error))
            commits = _commits(server.get("/metrics")[1]) - before
            most_commits = max(most_commits, commits)
            for stream in streams:
                stream.cancel()
            stub.DeleteJob(loader_pb2.DeleteJobRequest(job="together"))
        busy_until = time.monotonic()
        batches = quiet.end()
        idle = max((late for sent, late in batches if sent < busy_from), default=0.0)
        late = max((late for sent, late in batches if busy_from <= sent < busy_until), default=0.0)
        yield law(
            f"workers that could not join, of {rounds} times {_WORKERS}",
            f"{len(failed)} {failed[:1]}",
            "0",
            not failed,
        )
        # However fast the disk is: workers that come one by one wait for each other.
        yield figure(
            f"commits of {_WORKERS} joins, at most", str(most_commits), "3", most_commits <= 3
        )
        yield figure(
            "a batch later than its max_delay, at most",
            f"{1000 * late:.1f} ms, idle {1000 * idle:.1f} ms",
            "5 ms and what it is when idle",
            late <= idle + 0.005,
        )
