"""packhouse jobs: what a server keeps of jobs."""

from __future__ import annotations

import click

from packhouse.command.group import Group
from packhouse.command.stored import Stored, add_commands


@click.group("jobs", cls=Group)
def command() -> None:
    """List, show or delete what a server keeps of jobs"""


_JOBS = Stored(
    "JOB",
    "job_report",
    "All jobs that have epochs",
    "The epochs of a job, their progress and their loads",
    "Forget the epochs of a job and their progress. Its loads end",
    all=lambda client: client.jobs.list(),
    get=lambda client, name: client.jobs.get(name),
    delete=lambda client, name: client.jobs.delete(name),
)
add_commands(command, _JOBS)
