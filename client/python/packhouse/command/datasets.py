"""packhouse datasets: what a server stores."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import click

from packhouse.command.arguments import json_option, server_options, yes_option
from packhouse.command.confirm import confirm
from packhouse.command.connection import Server, connected
from packhouse.command.failures import FAILURE, OK
from packhouse.command.printing import print_json
from packhouse.command.group import Group
from packhouse.command.readable import bytes_text, grouped
from packhouse.command.progress import Progress

if TYPE_CHECKING:
    from packhouse.client.facade import Client
    from packhouse.stored.dataset import VerifyProgress


@click.group("datasets", cls=Group)
def command() -> None:
    """List, show, delete or verify the data sets of a server"""


_name = click.argument("name", metavar="NAME")


@command.command("list")
@server_options(required=True)
@json_option()
def show_all(server: Server, as_json: bool) -> None:
    """All data sets"""
    from packhouse.command import dataset_report as report

    with connected(server) as connection:
        datasets = list(connection.client.datasets.list())
    if as_json:
        print_json([report.dataset_json(dataset) for dataset in datasets])
    else:
        print(report.dataset_table(datasets), end="")


@command.command("show")
@_name
@server_options(required=True)
@json_option()
def show(name: str, server: Server, as_json: bool) -> None:
    """Schema, bounds and sizes of a data set"""
    from packhouse.command import dataset_report as report

    with connected(server) as connection:
        dataset = connection.client.datasets.get(name, include_histogram=True)
    if as_json:
        print_json(report.dataset_json(dataset))
    else:
        print(report.dataset_text(dataset), end="")


@command.command("delete")
@_name
@server_options(required=True)
@yes_option()
def delete(name: str, server: Server, yes: bool) -> None:
    """Delete a data set and its graphs"""
    with connected(server) as connection:
        if not yes:
            confirm(_deed(connection.client, name), yes)
        connection.client.datasets.delete(name)
    print(f"{name}: deleted")


def _deed(client: Client, name: str) -> str:
    import grpc

    from packhouse.base.errors import PackhouseError

    try:
        dataset = client.datasets.get(name)
    except PackhouseError as error:
        if error.code is grpc.StatusCode.NOT_FOUND:
            raise
        # A damaged data set can be deleted, although only its name is known.
        return f"delete data set '{name}'"
    graphs, size = grouped(dataset.num_graphs), bytes_text(dataset.num_bytes)
    return f"delete data set '{name}' with {graphs} graphs, {size}"


@command.command("verify")
@_name
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
