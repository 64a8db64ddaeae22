"""packhouse cluster: a cluster of one's own, on this machine alone, to try one."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Callable, Final, Sequence

import click

from packhouse.base.arguments import names_init_arguments
from packhouse.base.local_server import LocalServer, find_server
from packhouse.command.arguments import number, value, whole_number
from packhouse.command.group import Group

# Of the S3 server, which nobody else reaches.
_ACCESS_KEY: Final = "packhouse"
_SECRET_KEY: Final = "only-on-this-machine"
_BUCKET: Final = "packhouse"

# Seconds for a program to listen, and to end after it was asked to.
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
# Two programs may be given one free port.
_TRIES: Final = 5


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


@names_init_arguments
class LocalCluster:
    """Runs etcd, an S3 server and `num_servers` of packhoused for the length of a `with` block.

    All listen on loopback, on free ports. `addresses` are the servers' gRPC addresses, `http_addresses`
    those of their pages. Leaving the block drains the servers and ends the rest. Their logs are files
    in `folder`, which is a temporary one, and deleted at the end, unless it is given: then a cluster
    that is started there again has what it had. Use from one thread.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, *, num_servers: int = 2
    ) -> None:
        """Raises FileNotFoundError naming the programs that are missing on PATH, and where they are."""
        self._etcd = _program("etcd", "PACKHOUSE_ETCD", "Debian's package etcd-server has it")
        self._s3 = _program(
            "versitygw",
            "PACKHOUSE_S3_SERVER",
            "github.com/versity/versitygw has it, tests/objects/install_s3_server.sh builds it",
        )
        self._packhoused = find_server()
        self._given = None if folder is None else pathlib.Path(folder)
        self._num_servers = num_servers
        self._stack = contextlib.ExitStack()
        self._ended: dict[str, subprocess.Popen[bytes]] = {}
        self._servers: list[LocalServer] = []
        self.folder = pathlib.Path()
        self.etcd_address = ""
        self.s3_endpoint = ""
        self.addresses: list[str] = []
        self.http_addresses: list[str] = []

    def __enter__(self) -> LocalCluster:
        with contextlib.ExitStack() as stack:
            if self._given is None:
                self.folder = pathlib.Path(
                    stack.enter_context(tempfile.TemporaryDirectory(prefix="packhouse-cluster-"))
                )
            else:
                self.folder = self._given.absolute()
                self.folder.mkdir(parents=True, exist_ok=True)
            self._start_etcd(stack)
            self._start_s3(stack)
            self._start_servers(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    @property
    def store(self) -> str:
        """What `--store` says, for `packhoused store` and for more servers."""
        return f"s3://{_BUCKET}/data"

    @property
    def credentials(self) -> pathlib.Path:
        """The file for `--s3-credentials`."""
        return self.folder / "s3_credentials"

    @property
    def ledger(self) -> str:
        """What `--ledger` says."""
        return f"etcd://{self.etcd_address}/packhouse"

    def ended(self) -> str:
        """Which program has ended by itself, with its exit status; "" if all run."""
        for name, process in self._ended.items():
            status = process.poll()
            if status is not None:
                return f"{name} has ended with status {status}: see {self._log(name)}"
        return ""

    def _log(self, name: str) -> pathlib.Path:
        return self.folder / f"{name}.log"

    def _start_etcd(self, stack: contextlib.ExitStack) -> None:
        def arguments() -> list[str]:
            self.etcd_address = f"127.0.0.1:{_free_port()}"
            peer = f"http://127.0.0.1:{_free_port()}"
            return [
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls=http://{self.etcd_address}",
                f"--advertise-client-urls=http://{self.etcd_address}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--auto-compaction-mode=periodic",
                "--auto-compaction-retention=5m",
            ]

        self._start(stack, "etcd", self._etcd, arguments, lambda: self.etcd_address)

    def _start_s3(self, stack: contextlib.ExitStack) -> None:
        buckets = self.folder / "buckets"
        # To this server a folder is a bucket.
        (buckets / _BUCKET).mkdir(parents=True, exist_ok=True)
        (self.folder / "metadata").mkdir(exist_ok=True)
        self.credentials.write_text(
            f"[default]\naws_access_key_id = {_ACCESS_KEY}\n"
            f"aws_secret_access_key = {_SECRET_KEY}\n",
            encoding="ascii",
        )
        address = ""

        def arguments() -> list[str]:
            nonlocal address
            address = f"127.0.0.1:{_free_port()}"
            return [
                *("--port", address, "--quiet", "posix"),
                # Metadata beside the files, since not every file system has attributes for them.
                *("--sidecar", str(self.folder / "metadata"), str(buckets)),
            ]

        self._start(
            stack,
            "s3",
            self._s3,
            arguments,
            lambda: address,
            {"ROOT_ACCESS_KEY": _ACCESS_KEY, "ROOT_SECRET_KEY": _SECRET_KEY},
        )
        self.s3_endpoint = f"http://{address}"

    def _start_servers(self, stack: contextlib.ExitStack) -> None:
        for number in range(self._num_servers):
            name = f"packhoused-{number}"
            cache = self.folder / name
            cache.mkdir(exist_ok=True)
            log = stack.enter_context(self._log(name).open("ab"))
            address = f"127.0.0.1:{_free_port()}"
            server = LocalServer(
                self._packhoused,
                listen=address,
                arguments=[
                    f"--store={self.store}",
                    f"--s3-endpoint={self.s3_endpoint}",
                    f"--s3-credentials={self.credentials}",
                    f"--ledger={self.ledger}",
                    f"--advertise={address}",
                    # The first server makes it.
                    f"--signing-key={self.folder / 'signing.key'}",
                    f"--cache-dir={cache}",
                    "--drain-timeout=5s",
                ],
                log=log,
                start_timeout=_START_SECONDS,
            )
            try:
                stack.enter_context(server)
            except RuntimeError as error:
                raise RuntimeError(f"{error}; its log: {_tail(self._log(name))}") from None
            self._servers.append(server)
            self.addresses.append(server.address)
            self.http_addresses.append(server.http_address)

    def _start(
        self,
        stack: contextlib.ExitStack,
        name: str,
        program: str,
        arguments: Callable[[], Sequence[str]],
        address: Callable[[], str],
        environment: dict[str, str] | None = None,
    ) -> None:
        """Until it listens, and ends it with the stack."""
        log = stack.enter_context(self._log(name).open("ab"))
        for _ in range(_TRIES):
            process = subprocess.Popen(
                [program, *arguments()],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for this process, which ends the others in their order.
                start_new_session=True,
            )
            if _listens(process, address()):
                stack.callback(_end, process)
                self._ended[name] = process
                return
            _end(process)
        raise RuntimeError(f"{program} does not start; its log: {_tail(self._log(name))}")


def _program(name: str, variable: str, origin: str) -> str:
    wanted = os.environ.get(variable) or name
    found = shutil.which(wanted)
    if found is None:
        raise FileNotFoundError(f"no program {wanted!r} on PATH: {origin}; or set {variable} to it")
    return found


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _listens(process: subprocess.Popen[bytes], address: str) -> bool:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: pathlib.Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:].strip() or "empty"
