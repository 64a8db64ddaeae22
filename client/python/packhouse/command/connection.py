"""The server that a command talks to: one that is named, or one of its own."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, Final, Iterator, Mapping, NamedTuple

from packhouse.command.signals import raised

if TYPE_CHECKING:
    import grpc

    from packhouse.client.facade import Client
    from packhouse.calls.credentials import Credentials
    from packhouse.calls.servers import Servers

# So that a server that hangs is an error.
CALL_SECONDS: Final = 600.0
CONNECT_SECONDS: Final = 10.0
# A socket's path has at most 107 bytes.
_LONGEST_SOCKET: Final = 107
_LAST_WORDS: Final = 2000


class Server(NamedTuple):
    """What the options say: addresses, "" for a server of the command's own, and credentials."""

    address: str = ""
    security: Mapping[str, Any] = {}

    def credentials(self) -> Credentials:
        """The options, and what they leave open as the environment has it."""
        from packhouse.calls.credentials import Credentials

        # The command's own server is reached by nobody else.
        return Credentials.from_environment(**self.security) if self.address else Credentials()


class Connection:
    """To the first of the servers that answers."""

    def __init__(self, channel: grpc.Channel, address: str, servers: Servers, server: Server) -> None:
        self.address = address
        self._channel = channel
        self._servers = servers
        self._server = server
        self._closing = contextlib.ExitStack()

    def call(self, method: str, request: Any, seconds: float = CALL_SECONDS) -> Any:
        """The answer of a unary method, as in `planning.Planning.Plan`. Calls that are safe to repeat
        go on at the next server while one is away. Raises PackhouseError.
        """
        from packhouse.calls.retrying import UnaryCalls

        return UnaryCalls(self.address, seconds)(self._method(method), request)

    def stream(self, method: str, request: Any) -> Iterator[Any]:
        """The answers of a method that streams. Raises PackhouseError."""
        import grpc

        from packhouse.base.errors import PackhouseError

        call = self._method(method)(request, timeout=CALL_SECONDS, wait_for_ready=True)
        try:
            yield from call
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
        finally:
            call.cancel()

    def _method(self, name: str) -> Any:
        file, service, method = name.split(".")
        module = importlib.import_module(f"packhouse.v1.{file}_pb2_grpc")
        return getattr(getattr(module, f"{service}ServiceStub")(self._servers), method)

    @functools.cached_property
    def client(self) -> Client:
        """The package's client of the same servers, for all that it does already. Takes 0.1 s to
        import.
        """
        from packhouse.client.facade import Client

        client = Client(
            self._server.address or self.address,
            timeout=CALL_SECONDS,
            credentials=self._server.credentials(),
        )
        return self._closing.enter_context(client)

    def close(self) -> None:
        """Disconnects. Idempotent."""
        self._closing.close()
        self._servers.close()
        self._channel.close()


@contextlib.contextmanager
def connected(server: Server) -> Iterator[Connection]:
    """A connection to a server that was named; otherwise to one that is started for it, and ends
    with it.

    Raises PackhouseError, ValueError or OSError for credentials, FileNotFoundError or RuntimeError
    for an own server.
    """
    with contextlib.ExitStack() as stack:
        address = server.address or stack.enter_context(_own_server())
        credentials = server.credentials()
        from packhouse.calls.channel import make_channel
        from packhouse.calls.servers import Servers, addresses_of, first_that_answers

        def connect(to: str) -> grpc.Channel:
            return make_channel(to, credentials=credentials)

        addresses = addresses_of(address)
        channel, first = first_that_answers(connect, addresses, CONNECT_SECONDS)
        servers = Servers(channel, first, connect, addresses)
        connection = Connection(channel, first, servers, server)
        stack.callback(connection.close)
        yield connection


@contextlib.contextmanager
def _own_server() -> Iterator[str]:
    """The address of a server that only this user reaches, and that ends with the block."""
    from packhouse.base.local_server import LocalServer

    with raised(), _socket_folder() as folder, tempfile.TemporaryFile() as log:
        server = LocalServer(
            listen=f"unix:{folder}/socket", arguments=("--http-listen", ""), log=log
        )
        try:
            server.start()
        except RuntimeError as error:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_WORDS))
            words = log.read().decode(errors="replace").strip()
            raise RuntimeError(f"{error}{': ' if words else ''}{words}") from None
        try:
            yield server.address
        finally:
            server.kill()


@contextlib.contextmanager
def _socket_folder() -> Iterator[str]:
    """A folder that goes with the block, whose path is short enough for a socket."""
    folder = tempfile.mkdtemp(prefix="packhouse-")
    if len(os.fsencode(folder)) + len("/socket") > _LONGEST_SOCKET:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="packhouse-", dir="/tmp")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
