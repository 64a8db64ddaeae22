"""packhouse cluster."""

from __future__ import annotations

import contextlib
import signal
import sys
import time

import click

from packhouse.command.arguments import number, value, whole_number
from packhouse.command.group import Group


@click.group(cls=Group)
def command() -> None:
    """Try several servers that share data sets and jobs."""


@command.command("try")
@number("--servers", "How many servers of packhouse", 2, type=whole_number(1, 16), show_default=True)
@value("--folder", "DIR", "Keeps what is stored; otherwise a temporary folder")
def try_(servers: int, folder: str) -> None:
    """Start a cluster on this machine: etcd, an S3 server and servers of packhouse.

    All of them, with versitygw as the S3 server, listen on loopback until Ctrl-C. The programs are
    found on PATH, or by the variables PACKHOUSE_ETCD, PACKHOUSE_S3_SERVER and PACKHOUSED.
    """
    # The servers may take longer to end than what other commands start.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        _try(servers, folder)


def _try(servers: int, folder: str) -> None:
    from packhouse.base.local_cluster import LocalCluster

    with LocalCluster(folder or None, num_servers=servers) as cluster:
        every = ",".join(cluster.addresses)
        print(f"etcd        {cluster.etcd_address}")
        print(f"S3          {cluster.s3_endpoint}, bucket and prefix {cluster.store}")
        for address, page in zip(cluster.addresses, cluster.http_addresses):
            print(f"packhoused  {address}, its page http://{page}/")
        print(f"logs        {cluster.folder}")
        print(f'Load from any of them: Loader("{every}", ...), or packhouse --server')
        print("Ctrl-C ends all" + ("." if folder else ", and deletes it."))
        sys.stdout.flush()
        while not (ended := cluster.ended()):
            time.sleep(0.2)
        raise RuntimeError(ended)
