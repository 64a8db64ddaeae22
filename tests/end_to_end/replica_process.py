"""packhoused as one of several servers that share jobs over etcd."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import signal
import subprocess
from typing import Final, Iterator

import grpc
import numpy as np

from etcd_process import EtcdProcess, free_port

from packhouse import Client, GraphSchema, GraphTable, LocalServer
from packhouse.v1 import loader_pb2, loader_pb2_grpc

DATASET: Final = "shared"


def sizes_only(num_graphs: int) -> GraphTable:
    """Graphs without tensors: the laws are about who gets which batch."""
    random = np.random.default_rng(19)
    sizes = random.integers(1, 20, size=(num_graphs, 2), dtype=np.uint32)
    return GraphTable(GraphSchema(("nodes", "edges")), sizes)


def copied_folders(
    parent: pathlib.Path, count: int, num_graphs: int, packhoused: str | None = None
) -> list[pathlib.Path]:
    """Data folders that all have the same sealed data set, DATASET."""
    first = parent / "copy0"
    table = sizes_only(num_graphs)
    with LocalServer(packhoused, data_dir=first, log=subprocess.DEVNULL) as server:
        with Client(server.address) as client:
            client.create_dataset(DATASET, table.schema)
            client.append(DATASET, [table])
            client.seal_dataset(DATASET)
    copies = [first, *(parent / f"copy{i}" for i in range(1, count))]
    for copy in copies[1:]:
        shutil.copytree(first, copy)
    return copies


class Replica(LocalServer):
    """One of the servers, on a port of its own for good; killed at the end of a `with` block."""

    def __init__(
        self,
        etcd: EtcdProcess,
        folder: pathlib.Path,
        key: pathlib.Path,
        lease_seconds: int,
        packhoused: str | None = None,
    ) -> None:
        address = f"127.0.0.1:{free_port()}"
        super().__init__(
            packhoused,
            listen=address,
            data_dir=folder,
            arguments=(
                f"--ledger=etcd://{etcd.address}/test",
                f"--advertise={address}",
                f"--ledger-lease={lease_seconds}s",
                f"--signing-key={key}",
                "--drain-timeout=5s",
            ),
            log=subprocess.DEVNULL,
            start_timeout=60.0,
        )
        self.advertised = address

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def send(self, sent: signal.Signals) -> None:
        """A signal to the program, which must run."""
        assert self._process is not None
        self._process.send_signal(sent)


@contextlib.contextmanager
def cluster(
    etcd: EtcdProcess,
    folders: list[pathlib.Path],
    key: pathlib.Path,
    lease_seconds: int,
    packhoused: str | None = None,
) -> Iterator[list[Replica]]:
    """A replica on each folder."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(Replica(etcd, folder, key, lease_seconds, packhoused))
            for folder in folders
        ]


def addresses(replicas: list[Replica]) -> str:
    """As loaders take them."""
    return ",".join(replica.advertised for replica in replicas)


def owner_of(replicas: list[Replica], job: str) -> Replica:
    """Who answers for the job; asks until somebody does. Not by a Client, which asks the owner."""
    request = loader_pb2.GetJobRequest(job=job)
    while True:
        for replica in replicas:
            options = (("grpc.enable_retries", 0),)
            with grpc.insecure_channel(replica.advertised, options) as channel:
                try:
                    loader_pb2_grpc.LoaderServiceStub(channel).GetJob(request, timeout=10)
                except grpc.RpcError as error:
                    if error.code() is grpc.StatusCode.NOT_FOUND:
                        return replica
                else:
                    return replica
