"""What a real server keeps of jobs, seen by `Client`."""

from __future__ import annotations

import datetime
import itertools

import grpc
import numpy as np
import pytest
from random_graphs import molecules

from packhouse import Client, Loader, LocalServer, PackhouseError

LIMITS = {"nodes": 128, "edges": 288, "graphs": 12}


def test_jobs_are_listed_shown_and_deleted(server: LocalServer, client: Client) -> None:
    table = molecules(np.random.default_rng(0), 60)
    client.datasets.create("jobs/molecules", table.schema)
    client.datasets.append("jobs/molecules", [table])
    client.datasets.seal("jobs/molecules")
    for name in ("jobs/b", "jobs/a", "jobs/c"):
        with Loader(server.address, dataset="jobs/molecules", job=name, limits=LIMITS) as loader:
            taken = len(list(itertools.islice(loader, 2)))
            if name == "jobs/b":
                assert taken == 2
                job = client.jobs.get(name)
                assert job.num_sessions == 1
                assert job.epochs[0].num_batches == len(loader)

    own = [job for job in client.jobs.list(page_size=1) if job.name.startswith("jobs/")]
    assert [job.name for job in own] == ["jobs/a", "jobs/b", "jobs/c"]
    assert own == [client.jobs.get(job.name) for job in own]
    for job in own:
        assert job.num_epochs == len(job.epochs) == 1
        epoch = job.epochs[0]
        assert (epoch.epoch, epoch.dataset) == (0, "jobs/molecules")
        assert not epoch.is_finished
        assert epoch.client
        assert epoch.last_used is not None
        age = datetime.datetime.now(datetime.timezone.utc) - epoch.last_used
        assert age < datetime.timedelta(hours=1)

    client.jobs.delete("jobs/b")
    assert "jobs/b" not in {job.name for job in client.jobs.list()}
    with pytest.raises(PackhouseError) as error:
        client.jobs.get("jobs/b")
    assert error.value.code == grpc.StatusCode.NOT_FOUND
    for name in ("jobs/a", "jobs/c"):
        client.jobs.delete(name)
    client.datasets.delete("jobs/molecules")
