"""packhoused as one of several servers that share jobs over etcd."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import signal
import subprocess
from typing import Final, Iterator, Protocol, Sequence, TypeVar

import grpc
import numpy as np

from etcd_process import EtcdProcess, free_port
from namespaces import Machine

from packhouse import Client, GraphSchema, GraphTable, LocalServer
from packhouse.base.local_server import find_server
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
    with LocalServer(packhoused, data_dir=first, log=subprocess.DEVNULL) as server:
        with Client(server.address) as client:
            fill(client, num_graphs)
    copies = [first, *(parent / f"copy{i}" for i in range(1, count))]
    for copy in copies[1:]:
        shutil.copytree(first, copy)
    return copies


def fill(client: Client, num_graphs: int) -> None:
    """Makes DATASET, and seals it."""
    table = sizes_only(num_graphs)
    client.datasets.create(DATASET, table.schema)
    client.datasets.append(DATASET, [table])
    client.datasets.seal(DATASET)


class Replica(LocalServer):
    """One of the servers, on a port of its own for good; killed at the end of a `with` block."""

    def __init__(
        self,
        etcd: EtcdProcess,
        folder: pathlib.Path,
        key: pathlib.Path,
        lease_seconds: int,
        packhoused: str | None = None,
        *,
        machine: Machine | None = None,
        shared_store: Sequence[str] = (),
    ) -> None:
        """`folder`: of its copy of the data sets, or, with the flags of a shared store, its cache."""
        self._machine = machine
        host = "127.0.0.1" if machine is None else machine.host
        address = f"{host}:{free_port()}"
        super().__init__(
            self._program(packhoused),
            listen=address,
            data_dir=None if shared_store else folder,
            arguments=(
                *(*shared_store, f"--cache-dir={folder}") * bool(shared_store),
                *("--insecure",) * (machine is not None),
                f"--ledger=etcd://{etcd.address}/test",
                f"--advertise={address}",
                f"--ledger-lease={lease_seconds}s",
                f"--signing-key={key}",
                "--drain-timeout=5s",
                # All workers have one address, and count as one client. Connections that were cut
                # count until the server has noticed it.
                "--max-streams-per-connection=16",
            ),
            log=subprocess.DEVNULL,
            start_timeout=60.0,
        )
        self.advertised = address
        self.folder = folder

    def _program(self, packhoused: str | None) -> str:
        program = str(find_server(packhoused))
        return program if self._machine is None else self._machine.command(program)

    def become(self, packhoused: str) -> None:
        """Another program, from the next start on."""
        self._binary = self._program(packhoused)

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
    *,
    machines: Sequence[Machine] = (),
    shared_store: Sequence[str] = (),
    num_started: int | None = None,
) -> Iterator[list[Replica]]:
    """A replica on each folder, and on each machine if there are any; only the first so many run."""
    with contextlib.ExitStack() as stack:
        replicas = [
            Replica(
                *(etcd, folder, key, lease_seconds, packhoused),
                machine=machines[i] if machines else None,
                shared_store=shared_store,
            )
            for i, folder in enumerate(folders)
        ]
        for replica in replicas:
            stack.callback(replica.kill)
        for replica in replicas[:num_started]:
            replica.start()
        yield replicas


def addresses(replicas: list[Replica]) -> str:
    """As loaders take them."""
    return ",".join(replica.advertised for replica in replicas)


class Advertised(Protocol):
    """A server that others share jobs with."""

    @property
    def advertised(self) -> str: ...


Server = TypeVar("Server", bound=Advertised)


def owner_of(replicas: Sequence[Server], job: str) -> Server:
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
