"""packhouse admin: what administrators do with a server."""

from __future__ import annotations

import functools
from typing import Any, Sequence

import click

from packhouse.command.arguments import json_option, server_options, value, yes_option
from packhouse.command.connection import Server, ask, connected
from packhouse.command.failures import FAILURE, OK
from packhouse.command.group import Group
from packhouse.command.output import confirm, grouped, percent, tell, TextTable

_LEVELS = ("trace", "debug", "info", "warning", "error", "off")


@click.group("admin", cls=Group)
def command() -> None:
    """Run a server: what it does, its log, its files, its end (docs/security.md)"""


def _ask(server: Server, method: str) -> Any:
    """The answer as the protocol has it: what --json prints."""
    from packhouse.v1 import admin_pb2

    with connected(server) as client:
        return ask(client, f"admin.Admin.{method}", getattr(admin_pb2, f"{method}Request")())


@command.command("status")
@server_options(required=True)
@json_option()
def status(server: Server, as_json: bool) -> None:
    """Version, memory, files, quotas, servers, jobs"""
    answer = _ask(server, "GetServer")
    tell(as_json, message_json(answer), status_text(answer))


@command.command("clients")
@server_options(required=True)
@json_option()
def clients(server: Server, as_json: bool) -> None:
    """Who is connected: calls, streams and leases by principal"""
    answer = _ask(server, "ListClients")
    tell(as_json, message_json(answer), clients_text(answer))


@command.command("log-level")
@click.argument("level", type=click.Choice(_LEVELS), metavar="LEVEL")
@server_options(required=True)
def log_level(level: str, server: Server) -> None:
    """Set the lowest level that is logged: trace, debug, info, warning, error or off"""
    with connected(server) as client:
        before = client.administration.set_log_level(level)
    print(f"log level: {level}, before: {before.name.lower()}")


@command.command("reload")
@server_options(required=True)
@json_option()
def reload(server: Server, as_json: bool) -> int:
    """Read certificates, tokens and the policy again"""
    files = _ask(server, "Reload").files
    tell(as_json, list(map(message_json, files)), files_text(files))
    # What is broken is not in use; whoever reloads wants to know.
    return FAILURE if any(file.failure for file in files) else OK


@command.command("drain")
@server_options(required=True)
@yes_option()
def drain(server: Server, yes: bool) -> None:
    """End the server as SIGTERM does: what is open may end first"""
    with connected(server) as client:
        confirm(f"end the server at {server.address}", yes)
        before = client.administration.drain()
    print("is draining already" if before else "drains")


@command.command("move-job")
@click.argument("job", metavar="JOB")
@value("--to", "HOST:PORT", "The server's --advertise, as `status` lists it", required=True)
@server_options(required=True)
def move_job(job: str, to: str, server: Server) -> None:
    """Move a job to another server of the cluster; its workers go on there"""
    with connected(server) as client:
        client.administration.move_job(job, to)
    print(f"{job}: moved to {to}")


@command.command("snapshot")
@click.argument("name", metavar="NAME")
@server_options(required=True)
@json_option()
def snapshot(name: str, server: Server, as_json: bool) -> None:
    """Copy what is stored into a folder of the server's --snapshot-dir"""
    from packhouse.v1 import admin_pb2

    with connected(server) as client:
        taken = client.administration.snapshot(name)
    answer = admin_pb2.TakeSnapshotResponse(is_done=True, **vars(taken))
    tell(as_json, message_json(answer), snapshot_text(answer))


def message_json(message: Any) -> Any:
    """A message as protobuf writes it in JSON, with the names of its proto; unset fields too."""
    from google.protobuf import json_format

    named = functools.partial(json_format.MessageToDict, message, preserving_proto_field_name=True)
    try:
        return named(always_print_fields_with_no_presence=True)
    except TypeError:  # Before protobuf 5.26.
        return named(including_default_value_fields=True)


def status_text(answer: Any) -> str:
    """Of a `packhouse.v1.GetServerResponse`."""
    from packhouse.v1 import admin_pb2

    level = admin_pb2.LogLevel.Name(answer.log_level).replace("LOG_LEVEL_", "").lower()
    text = (
        f"packhoused {answer.version}, since {_time(answer.started)}"
        f"{', drains' if answer.is_draining else ''}\nlog level: {level}\n"
        f"connections: {answer.num_connections:,}\n\n"
    )
    memory = [
        (share.name, grouped(share.held_bytes), grouped(share.bound_bytes)) for share in answer.memory
    ]
    text += TextTable(["memory", "held bytes", "at most"], memory).render()
    if answer.files:
        text += "\n" + files_text(answer.files)
    if answer.quotas:
        quotas = [
            (of.namespace, of.quota, _amount(of.quota, of.used), _amount(of.quota, of.limit))
            for of in answer.quotas
        ]
        text += "\n" + TextTable(["namespace", "quota", "used", "limit"], quotas).render()
    if answer.members:
        jobs = ", ".join(answer.owned_jobs) or "no job"
        rows = [(one.address, jobs if one.is_this else "ask it") for one in answer.members]
        text += "\n" + TextTable(["server", "owns"], rows).render()
    return text


def _amount(quota: str, number: float) -> str:
    # Of planning, a share.
    return f"{percent(number, 0)} %" if quota == "planning" else grouped(int(number))


def clients_text(answer: Any) -> str:
    """Of a `packhouse.v1.ListClientsResponse`."""
    from packhouse.v1 import admin_pb2

    table = TextTable(["client", "streams", "calls", "workers", "leases", "from"])
    for each in answer.clients:
        others = len(each.peers) - 1
        peers = (each.peers[0] if each.peers else "-") + (f" and {others} others" if others > 0 else "")
        counts = (each.num_streams, each.num_calls, each.num_sessions, each.num_leases)
        table.add_row(each.client, *map(grouped, counts), peers)
    calls = TextTable(["method", "client", "on", "by", "since", "request id"])
    for call in answer.calls:
        on, asked = call.resource or "-", call.request_id or "-"
        way = "lane" if call.transport == admin_pb2.TRANSPORT_LANE else "grpc"
        calls.add_row(call.method, call.client, on, way, _time(call.started), asked)
    text = f"{table.render()}\n{calls.render()}"
    if not answer.workers:
        return text
    workers = TextTable(["job", "epoch", "rank", "client", "leases"])
    for worker in answer.workers:
        rank, client = worker.worker or worker.queue, worker.client or "-"
        workers.add_row(worker.job, worker.epoch, rank, client, grouped(worker.num_leases))
    return f"{text}\n{workers.render()}"


def files_text(files: Sequence[Any]) -> str:
    """Of `packhouse.v1.ServerFile`s."""
    if not files:
        return "no files are read while the server runs\n"
    table = TextTable(["file", "reloads", "expires", "in use"])
    for file in files:
        expires = _time(file.expires) if file.HasField("expires") else "-"
        used = "an earlier content" if file.failure else "yes"
        table.add_row(file.name, grouped(file.num_reloads), expires, used)
    failures = [f"{file.name}: not in use: {file.failure}\n" for file in files if file.failure]
    return table.render() + "".join(failures)


def snapshot_text(answer: Any) -> str:
    """Of a `packhouse.v1.TakeSnapshotResponse`."""
    return (
        f"{answer.folder}: {answer.num_files:,} files, {answer.num_bytes:,} bytes; of "
        f"these {answer.num_kept_files:,} files, {answer.num_kept_bytes:,} bytes were there already\n"
    )


def _time(stamp: Any) -> str:
    return str(stamp.ToDatetime().strftime("%Y-%m-%d %H:%M:%S UTC"))
