"""Jobs of loaders on a server, and their epochs: `Client.jobs`."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Iterator

from packhouse.base.arguments import names_arguments, whole_number
from packhouse.calls.retrying import UnaryCalls
from packhouse.calls.servers import JobCalls
from packhouse.v1 import loader_pb2, loader_pb2_grpc


def _last_used(message: Any) -> datetime.datetime | None:
    if not message.HasField("last_used"):
        return None
    return datetime.datetime.fromtimestamp(message.last_used.seconds, datetime.timezone.utc)


@dataclasses.dataclass(frozen=True)
class JobEpoch:
    """One epoch of a job: `num_done` of its batches are acknowledged in `generation`.

    `num_sessions` streams load it now. `client` opened it, by its address ("": not known).
    `last_used` is in UTC, to an hour or so (None: not known).
    """

    epoch: int
    generation: int
    num_done: int
    num_batches: int
    dataset: str
    num_sessions: int
    client: str
    last_used: datetime.datetime | None
    num_segments: int = 0
    """0: it is not planned in segments."""
    segmentation_loss: float = 0.0
    """Segmentation costs at most this part of the batches."""

    @property
    def is_finished(self) -> bool:
        """Whether every batch is done."""
        return self.num_done == self.num_batches

    @staticmethod
    def from_proto(message: Any) -> JobEpoch:
        """Reads a `packhouse.v1.JobEpoch`."""
        return JobEpoch(
            epoch=message.epoch,
            generation=message.generation,
            num_done=message.num_done,
            num_batches=message.num_batches,
            dataset=message.dataset,
            num_sessions=message.num_sessions,
            client=message.client,
            last_used=_last_used(message),
            num_segments=message.num_segments,
            segmentation_loss=message.segmentation_loss,
        )


@dataclasses.dataclass(frozen=True)
class Job:
    """A job and its `epochs`, the highest number first; only the latest of `num_epochs` if there
    are very many.
    """

    name: str
    epochs: tuple[JobEpoch, ...]
    num_epochs: int
    num_sessions: int
    last_used: datetime.datetime | None
    # HOST:PORT of the server that owns it; empty: nobody owns it now, or there is one server.
    owner: str = ""

    @staticmethod
    def from_proto(message: Any) -> Job:
        """Reads a `packhouse.v1.Job`."""
        return Job(
            name=message.job,
            epochs=tuple(map(JobEpoch.from_proto, message.epochs)),
            num_epochs=message.num_epochs,
            num_sessions=message.num_sessions,
            last_used=_last_used(message),
            owner=message.owner,
        )


@names_arguments
class Jobs:
    """A server's jobs, each with the epochs that it has begun (see `Loader`).

    Get it by `Client.jobs`. Thread-safe. Where servers share jobs, calls about one go to the server
    that has it.
    """

    def __init__(self, channel: Any, call: UnaryCalls, jobs: JobCalls) -> None:
        """`channel` may be of several servers; `jobs` finds the owner of a job."""
        self._stub = loader_pb2_grpc.LoaderServiceStub(channel)
        self._call = call
        self._get = jobs.unary(loader_pb2_grpc.LoaderServiceStub, "GetJob")
        self._delete = jobs.unary(loader_pb2_grpc.LoaderServiceStub, "DeleteJob")

    def list(self, page_size: int = 0) -> Iterator[Job]:
        """All jobs by name, asked for in pages (0: of the server's choice) as you iterate."""
        token = ""
        while True:
            request = loader_pb2.ListJobsRequest(page_size=whole_number(page_size, "page_size"), page_token=token)
            response = self._call(self._stub.ListJobs, request)
            yield from map(Job.from_proto, response.jobs)
            token = response.next_page_token
            if not token:
                return

    def get(self, job: str) -> Job:
        """What the server keeps of a job. Errors: NOT_FOUND."""
        return Job.from_proto(self._call(self._get, loader_pb2.GetJobRequest(job=job)))

    def delete(self, job: str) -> None:
        """Forgets a job's epochs and acknowledgements (see `Loader`). Errors: NOT_FOUND."""
        self._call.delete(self._delete, loader_pb2.DeleteJobRequest(job=job))
