"""Running a server: `Client.administration`. Needs the role admin, or a client of the server's socket
for administrators, `Client("unix:/data/admin.sock")` (docs/security.md).
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Callable, Sequence

import grpc

from packhouse.base.arguments import Choice, names_arguments
from packhouse.base.errors import PackhouseError
from packhouse.calls.lane import Transport
from packhouse.calls.servers import JobCalls
from packhouse.v1 import admin_pb2, admin_pb2_grpc


class LogLevel(Choice):
    """The lowest level that a server logs."""

    TRACE = admin_pb2.LOG_LEVEL_TRACE
    DEBUG = admin_pb2.LOG_LEVEL_DEBUG
    INFO = admin_pb2.LOG_LEVEL_INFO
    WARNING = admin_pb2.LOG_LEVEL_WARNING
    ERROR = admin_pb2.LOG_LEVEL_ERROR
    OFF = admin_pb2.LOG_LEVEL_OFF


@dataclasses.dataclass(frozen=True)
class ServerFile:
    """A file, or some that belong together, that a server reads again while it runs.

    `failure`: why its present content is not in use ("": it is). `expires`: when the content in
    use ceases to be good (None: never).
    """

    name: str
    failure: str
    expires: datetime.datetime | None
    num_reloads: int


@dataclasses.dataclass(frozen=True)
class QuotaUse:
    """What a namespace uses of a quota; of "planning", shares in [0, 1]."""

    namespace: str
    quota: str
    used: float
    limit: float


@dataclasses.dataclass(frozen=True)
class ServerStatus:
    """What a server is and holds. `memory`: held and allowed bytes of each share of its budget.

    `members`: addresses of the servers that share the jobs (none: it is alone). `owned_jobs`: the jobs
    that this one of them owns now.
    """

    version: str
    started: datetime.datetime
    is_draining: bool
    log_level: LogLevel
    num_connections: int
    memory: dict[str, tuple[int, int]]
    files: tuple[ServerFile, ...]
    quotas: tuple[QuotaUse, ...]
    members: tuple[str, ...] = ()
    owned_jobs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ConnectedClient:
    """A principal, or an address for those who have shown nothing, and what it has open."""

    client: str
    is_principal: bool
    peers: tuple[str, ...]
    num_streams: int
    num_calls: int
    num_sessions: int
    num_leases: int
    num_lane_streams: int = 0


@dataclasses.dataclass(frozen=True)
class OpenCall:
    """A call that is open. `resource`: what its first request names. `transport`: how its batches go.
    """

    client: str
    peer: str
    method: str
    is_stream: bool
    resource: str
    request_id: str
    trace: str
    started: datetime.datetime
    transport: Transport = "bytes"


@dataclasses.dataclass(frozen=True)
class LoadingWorker:
    """A worker that loads an epoch. `queue`: of batches, which is its rank or, dynamic, its rank group."""

    client: str
    job: str
    epoch: int
    queue: int
    worker: str
    session: int
    num_leases: int


@dataclasses.dataclass(frozen=True)
class Connected:
    """Who is connected to a server."""

    clients: tuple[ConnectedClient, ...]
    calls: tuple[OpenCall, ...]
    workers: tuple[LoadingWorker, ...]


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A snapshot, as far as it is made. `folder` is on the server's machine."""

    folder: str
    num_files: int
    num_bytes: int
    num_kept_files: int
    num_kept_bytes: int
    total_bytes: int


@names_arguments
class Administration:
    """Calls of AdminService. Errors, as PackhouseError: PERMISSION_DENIED.

    May be used by several threads.
    """

    def __init__(
        self, channel: grpc.Channel, unary: Callable[..., Any], job_calls: JobCalls
    ) -> None:
        self._stub = admin_pb2_grpc.AdminServiceStub(channel)
        self._unary = unary
        self._move_job = job_calls.unary(admin_pb2_grpc.AdminServiceStub, "MoveJob")

    def status(self) -> ServerStatus:
        """What the server is and holds."""
        status = self._unary(self._stub.GetServer, admin_pb2.GetServerRequest())
        return ServerStatus(
            version=status.version,
            started=_time(status.started),
            is_draining=status.is_draining,
            log_level=LogLevel(status.log_level),
            num_connections=status.num_connections,
            memory={share.name: (share.held_bytes, share.bound_bytes) for share in status.memory},
            files=_files(status),
            quotas=tuple(
                QuotaUse(each.namespace, each.quota, each.used, each.limit)
                for each in status.quotas
            ),
            members=tuple(each.address for each in status.members),
            owned_jobs=tuple(status.owned_jobs),
        )

    def clients(self) -> Connected:
        """Who is connected: calls, streams and leases by principal."""
        found = self._unary(self._stub.ListClients, admin_pb2.ListClientsRequest())
        return Connected(
            clients=tuple(
                ConnectedClient(
                    each.client,
                    each.is_principal,
                    tuple(each.peers),
                    each.num_streams,
                    each.num_calls,
                    each.num_sessions,
                    each.num_leases,
                    each.num_lane_streams,
                )
                for each in found.clients
            ),
            calls=tuple(
                OpenCall(
                    each.client,
                    each.peer,
                    each.method,
                    each.is_stream,
                    each.resource,
                    each.request_id,
                    each.trace,
                    _time(each.started),
                    "lane" if each.transport == admin_pb2.TRANSPORT_LANE else "bytes",
                )
                for each in found.calls
            ),
            workers=tuple(
                LoadingWorker(
                    each.client,
                    each.job,
                    each.epoch,
                    each.queue,
                    each.worker,
                    each.session,
                    each.num_leases,
                )
                for each in found.workers
            ),
        )

    def set_log_level(self, level: LogLevel | str) -> LogLevel:
        """Sets the lowest level that is logged until the server ends; returns the one before."""
        request = admin_pb2.SetLogLevelRequest(level=LogLevel.of(level, "level"))
        return LogLevel(self._unary(self._stub.SetLogLevel, request).before)

    def reload(self) -> Sequence[ServerFile]:
        """Has the server read its certificates, tokens and policy again; what became of each."""
        return _files(self._unary(self._stub.Reload, admin_pb2.ReloadRequest()))

    def drain(self) -> bool:
        """Begins the end of the server, as SIGTERM does. Whether it had begun before."""
        return bool(self._unary(self._stub.Drain, admin_pb2.DrainRequest()).was_draining)

    def move_job(self, job: str, address: str) -> None:
        """Moves a job to the server of the cluster at `address`, one of `ServerStatus.members`.

        Its workers go on there; nothing is lost. Further errors: NOT_FOUND for the job or the server;
        FAILED_PRECONDITION if this server shares its jobs with no other; UNAVAILABLE if etcd does not
        answer: the job may have moved or not.
        """
        self._unary(self._move_job, admin_pb2.MoveJobRequest(job=job, address=address))

    def snapshot(
        self, name: str, on_progress: Callable[[Snapshot], None] | None = None
    ) -> Snapshot:
        """Copies what is stored into the folder `name` of the server's `--snapshot-dir`.

        Waits for as long as that takes; a call that was broken off goes on with the same name.
        Further errors: INVALID_ARGUMENT for a bad name; FAILED_PRECONDITION without such a folder.
        """
        try:
            for response in self._stub.TakeSnapshot(admin_pb2.TakeSnapshotRequest(name=name)):
                now = Snapshot(
                    response.folder,
                    response.num_files,
                    response.num_bytes,
                    response.num_kept_files,
                    response.num_kept_bytes,
                    response.total_bytes,
                )
                if response.is_done:
                    return now
                if on_progress is not None:
                    on_progress(now)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
        raise PackhouseError(grpc.StatusCode.INTERNAL, "the server did not say that it is done")


def _files(message: Any) -> tuple[ServerFile, ...]:
    return tuple(
        ServerFile(
            each.name,
            each.failure,
            _time(each.expires) if each.HasField("expires") else None,
            each.num_reloads,
        )
        for each in message.files
    )


def _time(stamp: Any) -> datetime.datetime:
    moment: datetime.datetime = stamp.ToDatetime(tzinfo=datetime.timezone.utc)
    return moment
