"""The server that a command talks to: one that is named, or one of its own."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from typing import TYPE_CHECKING, Any, Final, Iterator, Mapping, NamedTuple

from packhouse.command.failures import signals_raised

if TYPE_CHECKING:
    from packhouse.calls.credentials import Credentials
    from packhouse.client.facade import Client

# So that a server that hangs is an error.
CALL_SECONDS: Final = 600.0
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


@contextlib.contextmanager
def connected(server: Server) -> Iterator[Client]:
    """A client of the server that was named; otherwise of one that is started for it, and ends with
    it.

    Raises PackhouseError, ValueError or OSError for credentials, FileNotFoundError or RuntimeError
    for an own server.
    """
    with contextlib.ExitStack() as stack:
        address = server.address or stack.enter_context(_own_server())
        credentials = server.credentials()
        from packhouse.client.facade import Client

        client = Client(address, timeout=CALL_SECONDS, credentials=credentials)
        yield stack.enter_context(client)


def ask(client: Client, method: str, request: Any, seconds: float = CALL_SECONDS) -> Any:
    """The answer of a unary method as the protocol has it, as in `planning.Planning.Plan`, for what
    shows all of it. Raises PackhouseError.
    """
    from packhouse.calls.retrying import UnaryCalls

    return UnaryCalls(client._address, seconds)(_method(client, method), request)


def answers(client: Client, method: str, request: Any) -> Iterator[Any]:
    """Those of a method that streams. Raises PackhouseError."""
    import grpc

    from packhouse.base.errors import PackhouseError

    call = _method(client, method)(request, timeout=CALL_SECONDS, wait_for_ready=True)
    try:
        yield from call
    except grpc.RpcError as error:
        raise PackhouseError.of(error) from None
    finally:
        call.cancel()


def _method(client: Client, name: str) -> Any:
    file, service, method = name.split(".")
    module = importlib.import_module(f"packhouse.v1.{file}_pb2_grpc")
    return getattr(getattr(module, f"{service}ServiceStub")(client._servers), method)


@contextlib.contextmanager
def _own_server() -> Iterator[str]:
    """The address of a server that only this user reaches, and that ends with the block."""
    from packhouse.base.local_server import LocalServer

    with signals_raised(), _socket_folder() as folder, tempfile.TemporaryFile() as log:
        server = LocalServer(listen=f"unix:{folder}/socket", arguments=("--http-listen", ""), log=log)
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


def _socket_folder() -> tempfile.TemporaryDirectory[str]:
    """Its path is short enough for a socket."""
    is_long = len(os.fsencode(tempfile.gettempdir())) + len("/packhouse-12345678/socket") > _LONGEST_SOCKET
    parent = "/tmp" if is_long else None
    return tempfile.TemporaryDirectory(prefix="packhouse-", dir=parent, ignore_cleanup_errors=True)
