"""Worker processes that were forked read by a lane, and use no gRPC: another one makes their calls."""

from __future__ import annotations

import errno
import os
import pathlib
import pickle
import signal
import socket
import sys
import threading
import types
from typing import Any, BinaryIO, Iterator

import grpc
import numpy as np
import pytest
from random_graphs import molecules
from test_lane_end_to_end import until
from test_pack_lane_end_to_end import lanes_left, serving

from packhouse import Client, EpochReaders, Loader, LocalServer
from packhouse.epochs import load_connection
from packhouse.epochs.relayed_calls import Relay, RelayedChannel, serve_calls
from packhouse.epochs.request import Connecting

MOLECULES = molecules(np.random.default_rng(1), 600)
ALL_IDS = sorted(MOLECULES.graph_ids.tolist())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    running = serving(tmp_path_factory.mktemp("relays"))
    store(running)
    yield running
    running.stop()


def store(server: LocalServer) -> None:
    with Client(server.address) as client:
        client.datasets.create("molecules", MOLECULES.schema)
        client.datasets.append("molecules", MOLECULES)
        client.datasets.seal("molecules")


def readers(server: LocalServer, job: str, **words: Any) -> EpochReaders:
    return EpochReaders(
        Loader(
            server.address, dataset="molecules", job=job, limits={"nodes": 128, "graphs": 8},
            acknowledge="manual", **words,
        )
    )


def read(epochs: EpochReaders, number: int, count: int, uses_grpc: bool, told: BinaryIO) -> None:
    """A worker process, which tells of each batch, and then how it came."""
    torch_data: Any = types.ModuleType("torch.utils.data")
    torch_data.get_worker_info = lambda: types.SimpleNamespace(id=number, num_workers=count)
    sys.modules["torch.utils.data"] = torch_data
    if not uses_grpc:

        def refuse(*_: Any, **__: Any) -> Any:
            raise AssertionError("a channel is made in a worker process")

        load_connection.make_channel = refuse
    batches: Any = iter(epochs)
    for batch in batches:
        pickle.dump((batch.graph_ids.tolist(), batch.lease), told)
        told.flush()
    pickle.dump(batches._loader.transport, told)
    told.flush()


def forked(epochs: EpochReaders, number: int, count: int, uses_grpc: bool) -> tuple[int, BinaryIO]:
    here, there = os.pipe()
    child = os.fork()
    if child != 0:
        os.close(there)
        return child, os.fdopen(here, "rb")
    try:
        read(epochs, number, count, uses_grpc, os.fdopen(there, "wb"))
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        os._exit(1)


def helper_of(epochs: EpochReaders) -> Any:
    return epochs._calls._process


@pytest.mark.parametrize("count", [1, 3])
def test_forked_workers_use_no_grpc(server: LocalServer, count: int) -> None:
    # The trainer uses it, and is connected.
    with Client(server.address) as client, readers(
        server, f"relay/{count}", lane="required"
    ) as epochs:
        assert client.datasets.get("molecules").num_graphs == len(ALL_IDS)
        for epoch in range(2):
            epochs.set_epoch(epoch)
            workers = [forked(epochs, number, count, uses_grpc=False) for number in range(count)]
            ids: list[int] = []
            for child, told in workers:
                while not isinstance(said := pickle.load(told), str):
                    ids += said[0]
                    epochs.acknowledge(said[1])
                assert said == "lane"
                assert os.waitpid(child, 0)[1] == 0
            assert sorted(ids) == ALL_IDS
            epochs.flush()
            assert epochs.epoch_info().num_done == epochs.epoch_info().num_batches
    until(lambda: lanes_left(server) == 0)


def test_without_a_lane_workers_make_their_calls(tmp_path: pathlib.Path) -> None:
    laneless = serving(tmp_path, "--lane", "")
    try:
        store(laneless)
        with readers(laneless, "relay/none") as epochs:
            epochs.set_epoch(0)
            child, told = forked(epochs, 0, 1, uses_grpc=True)
            ids: list[int] = []
            while not isinstance(said := pickle.load(told), str):
                ids += said[0]
                epochs.acknowledge(said[1])
            assert said == "bytes" and sorted(ids) == ALL_IDS
            assert os.waitpid(child, 0)[1] == 0
    finally:
        laneless.stop()


@pytest.mark.parametrize("killed_at", [1, 5, 12])
def test_who_is_killed_costs_no_batch(server: LocalServer, killed_at: int) -> None:
    """The process that makes the calls, then the worker: each graph comes, and nothing stays."""
    with readers(server, f"relay/killed/{killed_at}") as epochs:
        epochs.set_epoch(0)
        done: set[int] = set()
        for victim in ("calls", "worker", ""):
            child, told = forked(epochs, 0, 1, uses_grpc=False)
            num_read = 0
            while True:
                try:
                    said = pickle.load(told)
                except EOFError:
                    assert victim == "worker"
                    break
                if isinstance(said, str):
                    break
                assert not done & set(said[0])
                done |= set(said[0])
                epochs.acknowledge(said[1])
                num_read += 1
                if num_read == killed_at and victim == "calls":
                    helper_of(epochs).kill()
                    # The trainer's next step starts another.
                    epochs.flush()
                if num_read == killed_at and victim == "worker":
                    epochs.flush()
                    os.kill(child, signal.SIGKILL)
                    break
            told.close()
            os.waitpid(child, 0)
            epochs.flush()
            if victim == "calls":
                assert sorted(done) == ALL_IDS
                done.clear()
                epochs.set_epoch(1)
            epochs._write_orders()
        assert sorted(done) == ALL_IDS
    until(lambda: lanes_left(server) == 0)


def test_who_calls_is_answered_after_descriptors_and_threads_were_used_up(
    server: LocalServer, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, start = socket.socket.accept, threading.Thread.start
    failures = [OSError(errno.EMFILE, "no descriptor is free"), RuntimeError("no thread is free")]

    def accept_later(listening: socket.socket) -> Any:
        if failures and isinstance(failures[0], OSError):
            raise failures.pop(0)
        return accept(listening)

    def start_later(thread: threading.Thread) -> None:
        if failures and thread.name == "packhouse-relay":
            raise failures.pop(0)
        start(thread)

    monkeypatch.setattr(socket.socket, "accept", accept_later)
    monkeypatch.setattr(threading.Thread, "start", start_later)
    path = str(tmp_path / "calls")
    serve_calls(path, Connecting(server.address))
    list_datasets = RelayedChannel(Relay(path), server.address, ()).unary_unary(
        "/packhouse.v1.DatasetService/ListDatasets"
    )
    with pytest.raises(grpc.RpcError) as lost:
        list_datasets(b"", timeout=20)
    assert lost.value.code() == grpc.StatusCode.UNAVAILABLE
    assert b"molecules" in list_datasets(b"", timeout=20)
    assert not failures
