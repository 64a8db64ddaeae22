"""packhouse jobs: what a server keeps of jobs."""

from __future__ import annotations

import click

from packhouse.command.arguments import json_option, server_options, yes_option
from packhouse.command.confirm import confirm
from packhouse.command.connection import Connection, Server, connected
from packhouse.command.printing import print_json
from packhouse.command.group import Group
from packhouse.command.readable import grouped


@click.group("jobs", cls=Group)
def command() -> None:
    """List, show or delete what a server keeps of jobs"""


_job = click.argument("job", metavar="JOB")


@command.command("list")
@server_options(required=True)
@json_option()
def show_all(server: Server, as_json: bool) -> None:
    """All jobs that have epochs"""
    from packhouse.command import job_report as report

    with connected(server) as connection:
        jobs = list(connection.client.jobs.list())
    if as_json:
        print_json([report.job_json(job) for job in jobs])
    else:
        print(report.job_table(jobs), end="")


@command.command("show")
@_job
@server_options(required=True)
@json_option()
def show(job: str, server: Server, as_json: bool) -> None:
    """The epochs of a job, their progress and their loads"""
    from packhouse.command import job_report as report

    with connected(server) as connection:
        found = connection.client.jobs.get(job)
    if as_json:
        print_json(report.job_json(found))
    else:
        print(report.job_text(found), end="")


@command.command("delete")
@_job
@server_options(required=True)
@yes_option()
def delete(job: str, server: Server, yes: bool) -> None:
    """Forget the epochs of a job and their progress. Its loads end"""
    with connected(server) as connection:
        if not yes:
            confirm(_deed(connection, job), yes)
        connection.client.jobs.delete(job)
    print(f"{job}: deleted")


def _deed(connection: Connection, job: str) -> str:
    import grpc

    from packhouse.base.errors import PackhouseError

    try:
        found = connection.client.jobs.get(job)
    except PackhouseError as error:
        if error.code is grpc.StatusCode.NOT_FOUND:
            raise
        return f"delete job '{job}'"
    epochs, streams = grouped(found.num_epochs), grouped(found.num_sessions)
    return f"delete job '{job}' with {epochs} epochs, which {streams} streams load"
