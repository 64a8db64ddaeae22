"""Jobs of loaders on a server: `Client.jobs`."""

from __future__ import annotations

from typing import Any, Iterator

from packhouse.calls.retrying import UnaryCalls
from packhouse.calls.servers import JobCalls
from packhouse.stored.job import Job
from packhouse.v1 import loader_pb2, loader_pb2_grpc


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
            request = loader_pb2.ListJobsRequest(page_size=page_size, page_token=token)
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
