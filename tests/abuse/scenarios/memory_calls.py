"""Connections and calls by the thousands, which say nothing, take what they may and no more."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Callable, Final, Iterator

import grpc
from abuse import Abuse, Row, figure, law, scenario
from hostile import Forwarder, MemorySampler, anonymous_bytes, own_channel, raw_unary

from scenarios.memory import await_return

_HOSTILE_CALLS: Final = pathlib.Path(__file__).resolve().parents[1] / "hostile_calls.py"
_NGINX_CONFIG: Final = pathlib.Path(__file__).resolve().parents[3] / "deploy/nginx/packhouse.conf"
_MIB: Final = 1 << 20
_BUDGET: Final = 512 * _MIB
_BOUND: Final = int(_BUDGET * 1.15) + 128 * _MIB
_LEFT: Final = 64 * _MIB

_GET: Final = "packhouse.v1.HistogramService/GetHistogram"
_CHECK: Final = "grpc.health.v1.Health/Check"


# What the configuration needs around it, to run as anybody in a folder of its own.
_NGINX_MAIN: Final = """
daemon off;
pid {folder}/pid;
error_log /dev/null crit;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  client_body_temp_path {folder}/client;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
{packhouse}
}}
"""


@contextlib.contextmanager
def _nginx(server: str) -> Iterator[str]:
    """nginx as deploy/nginx configures it, in front of `server`: its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    packhouse = _NGINX_CONFIG.read_text()
    for told, here in (("listen 50051 http2", f"listen {address} http2"), ("127.0.0.1:50052", server)):
        assert packhouse.count(told) == 1, told
        packhouse = packhouse.replace(told, here)
    with tempfile.TemporaryDirectory() as folder:
        main = pathlib.Path(folder) / "nginx.conf"
        main.write_text(_NGINX_MAIN.format(folder=folder, packhouse=packhouse))
        path = f"{os.environ.get('PATH', '')}:/usr/sbin"
        process = subprocess.Popen(
            ["nginx", "-p", folder, "-c", str(main)], env={**os.environ, "PATH": path}
        )
        try:
            with grpc.insecure_channel(address) as channel:
                raw_unary(channel, _CHECK)(b"", timeout=60, wait_for_ready=True)
            yield address
            assert process.poll() is None, "nginx has ended"
        finally:
            # Its workers end with it, which they do not if it is killed.
            process.terminate()
            process.wait()


@contextlib.contextmanager
def _hostile(
    address: str, kind: str, connections: int, calls: int, confirms: bool = True
) -> Iterator[None]:
    """Until its end all connections are held."""
    process = subprocess.Popen(
        [
            *(sys.executable, str(_HOSTILE_CALLS), address, kind),
            *("--connections", str(connections), "--calls", str(calls)),
            *(() if confirms else ("--unconfirmed",)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == "going\n"
        yield
        assert process.stdout.readline() == "done\n"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _probe(address: str, ended: threading.Event, codes: list[grpc.StatusCode]) -> None:
    """What another client is told, who asks for the server's health and for something else."""
    for number in itertools.count():
        with own_channel(address, number) as channel:
            for method in (_CHECK, _GET):
                try:
                    raw_unary(channel, method)(b"", timeout=60)
                    codes.append(grpc.StatusCode.OK)
                except grpc.RpcError as error:
                    codes.append(error.code())
        if ended.wait(0.2):
            return


def _run(
    abuse: Abuse,
    kinds: dict[str, tuple[str, int, int]],
    confirms: bool,
    row: Callable[..., Row],
    flags: tuple[str, ...] = (),
    front: Callable[[str], contextlib.AbstractContextManager[str]] = contextlib.nullcontext,
) -> Iterator[Row]:
    """RssAnon with clients of each kind, which have so many connections with so many calls.

    They connect to what `front` has put before the server's address.
    """
    server_flags = ("--memory-budget", str(_BUDGET), *flags)
    with abuse.server(*server_flags) as server, front(server.address) as address:
        pid = server.process.pid
        start = anonymous_bytes(pid)
        with Forwarder(address, 2) as other:
            for name, (kind, connections, calls) in kinds.items():
                ended = threading.Event()
                codes: list[grpc.StatusCode] = []
                prober = threading.Thread(target=_probe, args=(other.address, ended, codes))
                with MemorySampler(pid) as memory:
                    with _hostile(address, kind, connections, calls, confirms):
                        prober.start()
                        ended.wait(abuse.seconds / len(kinds))
                    ended.set()
                    prober.join()
                alive = server.process.poll() is None
                yield row(
                    name,
                    f"peak {memory.peak >> 20} MiB" if alive else "the process has ended",
                    f"{_BOUND >> 20} MiB",
                    alive and memory.peak <= _BOUND,
                )
                answered = {grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND}
                yield row(
                    f"{name}: another client's {len(codes)} calls",
                    ", ".join(sorted({code.name for code in codes})),
                    "answered",
                    len(codes) >= 2 and set(codes) <= answered,
                )
                if not alive:
                    return
        now, passed = await_return(pid, start)
        yield figure(
            "after all have gone",
            f"{now >> 20} MiB, {start >> 20} at the start, after {passed:.1f} s",
            f"{(start + _LEFT) >> 20} MiB",
            now <= start + _LEFT,
        )


@scenario
def calls_and_connections(abuse: Abuse) -> Iterator[Row]:
    """RssAnon keeps to the law, others are served meanwhile, and memory comes back."""
    many, some = (40, 100) if abuse.is_short else (4000, 400)
    kinds = {
        f"{many} silent connections": ("silent", many, 0),
        f"{many} idle connections": ("idle", many, 0),
        f"{some} connections of 1000 watches": ("watch", some, 1000),
        f"{some} connections of 1000 calls without requests": ("begun", some, 1000),
        f"{some} connections of 1000 calls of no method": ("unknown", some, 1000),
        f"{some} connections of 1000 answers that are not read": ("unread", some, 1000),
        f"{some} connections of calls with 10,000 fields": ("fields", some, 50),
        f"{some} connections of calls with headers of 15 KB": ("large", some, 50),
    }
    yield from _run(abuse, kinds, True, law)


def _beyond_http2(
    abuse: Abuse,
    row: Callable[..., Row],
    flags: tuple[str, ...] = (),
    front: Callable[[str], contextlib.AbstractContextManager[str]] = contextlib.nullcontext,
) -> Iterator[Row]:
    """Clients that get around gRPC's bound on the calls of a connection, and on their headers."""
    some, calls = (8, 1000) if abuse.is_short else (400, 1000)
    kinds = {
        f"{some} connections of {calls} calls without requests": ("begun", some, calls),
        f"{some} connections of {calls} answers that are not read": ("unread", some, calls),
    }
    if not abuse.is_short:
        kinds["64 connections of calls with 10,000 fields"] = ("fields", 64, 50)
    yield from _run(abuse, kinds, False, row, flags, front)
    yield from _run(
        abuse,
        {f"{some} connections of {calls} calls cancelled at once": ("cancelled", some, calls)},
        True,
        row,
        flags,
        front,
    )


@scenario
def calls_beyond_http2(abuse: Abuse) -> Iterator[Row]:
    """Clients that break HTTP/2, with nothing in front of the server.

    gRPC makes calls for as long as such a client's bytes come, before the server hears of the first
    one, so how far this goes depends on the machine's speed. A short run has few connections.
    """
    yield from _beyond_http2(abuse, figure)


@scenario
def calls_beyond_http2_at_nginx(abuse: Abuse) -> Iterator[Row]:
    """The same clients, when nginx is in front: the law holds for them, too."""
    flags = ("--max-connections-per-client", "1000000", "--max-streams-per-connection", "1")
    yield from _beyond_http2(abuse, law, flags, _nginx)
