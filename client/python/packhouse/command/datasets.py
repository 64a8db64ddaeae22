"""packhouse datasets: what a server stores."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import click

from packhouse.command.arguments import json_option, server_options
from packhouse.command.connection import Server, connected
from packhouse.command.failures import FAILURE, OK
from packhouse.command.group import Group
from packhouse.command.printing import print_json
from packhouse.command.progress import Progress
from packhouse.command.stored import Stored, add_commands

if TYPE_CHECKING:
    from packhouse.stored.dataset import VerifyProgress


@click.group("datasets", cls=Group)
def command() -> None:
    """List, show, delete or verify the data sets of a server"""


_DATASETS = Stored(
    "NAME",
    "dataset_report",
    "All data sets",
    "Schema, bounds and sizes of a data set",
    "Delete a data set and its graphs",
    all=lambda client: client.datasets.list(),
    get=lambda client, name: client.datasets.get(name, include_histogram=True),
    delete=lambda client, name: client.datasets.delete(name),
)
add_commands(command, _DATASETS)


@command.command("verify")
@click.argument("name", metavar="NAME")
@server_options(required=True)
@json_option()
def verify(name: str, server: Server, as_json: bool) -> int:
    """Read all of a data set: checksums, indices, counts; exit status 1 if it is damaged"""
    from packhouse.command import dataset_report as report

    with connected(server) as connection, Progress() as line:

        def on_progress(done: VerifyProgress) -> None:
            line.show(report.verify_progress(done))

        found = connection.client.datasets.verify(name, on_progress)
    if as_json:
        print_json(report.verify_json(name, found))
    else:
        print(report.verify_text(name, found), end="")
    return OK if found.is_sound else FAILURE


_fsck = copy.copy(verify)
_fsck.hidden = True
command.add_command(_fsck, "fsck")
