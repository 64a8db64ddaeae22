"""packhouse jobs: what a server keeps of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import click

from packhouse.command.group import Group
from packhouse.command.output import fields, grouped, small_percent, TextTable
from packhouse.command.stored import Stored, add_commands

if TYPE_CHECKING:
    from packhouse.stored.jobs import Job, JobEpoch

_FOR_PEOPLE = "%Y-%m-%d %H:%M UTC"
_FOR_PROGRAMS = "%Y-%m-%dT%H:%M:%SZ"


@click.group("jobs", cls=Group)
def command() -> None:
    """List, show or delete what a server keeps of jobs"""


_JOBS = Stored(
    "jobs", "JOB", "jobs", "All jobs that have epochs",
    "The epochs of a job, their progress and their loads",
    "Forget the epochs of a job and their progress. Its loads end",
)
add_commands(command, _JOBS)


def table(jobs: Sequence[Job]) -> str:
    """One row each. Owners are named where several servers share the jobs."""
    columns = ["job", "epochs", "finished", "streams", "last used"]
    has_owners = any(job.owner for job in jobs)
    rows = TextTable(columns + ["owner"] * has_owners)
    for job in jobs:
        finished = grouped(sum(epoch.is_finished for epoch in job.epochs))
        # Of a job with very many epochs only the latest are told.
        if job.num_epochs != len(job.epochs):
            finished = f"at least {finished}"
        cells = [job.name, grouped(job.num_epochs), finished, grouped(job.num_sessions)]
        cells.append(_last_used(job, _FOR_PEOPLE))
        rows.add_row(*cells, *[job.owner] * has_owners)
    return rows.render()


def text(job: Job) -> str:
    """Each epoch of one job."""
    columns = ["epoch", "done", "batches", "generation", "streams", "data set", "opened by", "last used"]
    if any(epoch.num_segments for epoch in job.epochs):
        columns += ["segments", "lost to them"]
    rows = TextTable(columns)
    for epoch in job.epochs:
        cells = [str(epoch.epoch), grouped(epoch.num_done), grouped(epoch.num_batches)]
        cells += [str(epoch.generation), grouped(epoch.num_sessions), epoch.dataset, epoch.client]
        cells.append(_last_used(epoch, _FOR_PEOPLE))
        if epoch.num_segments:
            cells += [grouped(epoch.num_segments), small_percent(epoch.segmentation_loss)]
        rows.add_row(*cells)
    owner = f", with {job.owner}" if job.owner else ""
    told = (
        f"{job.name}: {job.num_epochs:,} epochs, {job.num_sessions:,} streams{owner}\n\n{rows.render()}"
    )
    earlier = job.num_epochs - len(job.epochs)
    return told + (f"and {earlier:,} earlier ones\n" if earlier > 0 else "")


def json(job: Job) -> dict[str, Any]:
    """The same as an object; what is not known is null."""
    told = fields(job, "job=name num_epochs streams=num_sessions")
    told |= {"last_used": _last_used(job, _FOR_PROGRAMS) or None, "owner": job.owner or None}
    told["epochs"] = [
        fields(epoch, "epoch generation done=num_done batches=num_batches dataset streams=num_sessions")
        | {
            "client": epoch.client or None,
            "last_used": _last_used(epoch, _FOR_PROGRAMS) or None,
            "segments": epoch.num_segments or None,
            "segmentation_loss": epoch.segmentation_loss if epoch.num_segments else None,
        }
        for epoch in job.epochs
    ]
    return told


def deed(name: str, job: Job | None) -> str:
    """What its deletion does; None: it cannot be described."""
    if job is None:
        return f"delete job '{name}'"
    epochs, streams = grouped(job.num_epochs), grouped(job.num_sessions)
    return f"delete job '{name}' with {epochs} epochs, which {streams} streams load"


def _last_used(of: Job | JobEpoch, form: str) -> str:
    return of.last_used.strftime(form) if of.last_used is not None else ""
