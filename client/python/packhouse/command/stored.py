"""list, show and delete: the commands of what a server keeps by name."""

from __future__ import annotations

import copy
import importlib
from typing import Any, Callable, Mapping, NamedTuple

import click

from packhouse.command.arguments import json_option, server_options, yes_option
from packhouse.command.connection import Server, connected
from packhouse.command.failures import FAILURE, OK
from packhouse.command.output import confirm, Progress, tell


class Stored(NamedTuple):
    """One kind of things. `report`: the module that has `table(things)`, `text(thing)`, `json(thing)`,
    and `deed(name, thing)`, which says what is deleted; None for one that cannot be described.
    """

    # Of the client, with `list`, `get` and `delete`.
    noun: str
    metavar: str
    report: str
    of_list: str
    of_show: str
    of_delete: str
    # For `get`.
    arguments: Mapping[str, Any] = {}
    # Raises Misuse for a name that none can have.
    check: Callable[[str], None] = lambda _name: None

    def of(self, client: Any) -> Any:
        """The noun of this client."""
        return getattr(client, self.noun)

    def get(self, client: Any, name: str) -> Any:
        """One of them."""
        self.check(name)
        return self.of(client).get(name, **self.arguments)


def add_commands(group: click.Group, kind: Stored) -> None:
    """To the group of this kind."""
    argument = click.argument("name", metavar=kind.metavar)

    @group.command("list", help=kind.of_list)
    @server_options(required=True)
    @json_option()
    def show_all(server: Server, as_json: bool) -> None:
        report = _report(kind)
        with connected(server) as client:
            things = list(kind.of(client).list())
        tell(as_json, list(map(report.json, things)), report.table(things))

    @group.command("show", help=kind.of_show)
    @argument
    @server_options(required=True)
    @json_option()
    def show(name: str, server: Server, as_json: bool) -> None:
        with connected(server) as client:
            thing = kind.get(client, name)
        tell(as_json, _report(kind).json(thing), _report(kind).text(thing))

    @group.command("delete", help=kind.of_delete)
    @argument
    @server_options(required=True)
    @yes_option()
    def delete(name: str, server: Server, yes: bool) -> None:
        kind.check(name)
        with connected(server) as client:
            if not yes:
                thing = _described(kind, client, name)
                confirm(_report(kind).deed(name, thing), yes)
            kind.of(client).delete(name)
        print(f"{name}: deleted")


def add_verify(
    group: click.Group, kind: Stored, told: str, read: Callable[[Any, str, Progress], Any]
) -> None:
    """`verify`, and `fsck`, as some look for it. What `read` gives of a client has `is_sound`; the
    report has `verify_text(name, found)` and `verify_json(name, found)`.
    """

    @group.command("verify", help=told)
    @click.argument("name", metavar=kind.metavar)
    @server_options(required=True)
    @json_option()
    def verify(name: str, server: Server, as_json: bool) -> int:
        with connected(server) as client, Progress() as line:
            found = read(client, name, line)
        report = _report(kind)
        tell(as_json, report.verify_json(name, found), report.verify_text(name, found))
        return OK if found.is_sound else FAILURE

    hidden = copy.copy(verify)
    hidden.hidden = True
    group.add_command(hidden, "fsck")


def _report(kind: Stored) -> Any:
    return importlib.import_module(f"packhouse.command.{kind.report}")


def _described(kind: Stored, client: Any, name: str) -> Any:
    """None for what cannot be read: it can be deleted, although only its name is known."""
    import grpc

    from packhouse.base.errors import PackhouseError

    try:
        return kind.get(client, name)
    except PackhouseError as error:
        if error.code is grpc.StatusCode.NOT_FOUND:
            raise
        return None
