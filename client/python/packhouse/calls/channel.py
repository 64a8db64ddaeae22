"""Connections to a server: all are made here, and this module says which calls are retried on them.

Also which addresses are this machine's own, to which no proxy of the environment leads.
"""

from __future__ import annotations

import ipaddress
import json
import os
import pathlib
import re
import socket
import time
from typing import Any, Final, Iterable, Mapping, Sequence

import grpc
import grpc.experimental

import packhouse.v1
from packhouse.base.errors import PackhouseError, meaning_of
from packhouse.base.processes import read_messages_whole
from packhouse.calls.credentials import Credentials

# Those of which gRPC takes the first that is set.
_PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
_SCHEME: Final = re.compile(r"(dns:(///?)?|ipv4:|ipv6:)", re.IGNORECASE)


def is_own(address: str) -> bool:
    """Whether an address in gRPC's form is of this machine: a socket in a folder, a loopback
    address, or one that this machine has. Of names only `localhost` and the machine's are known.
    """
    if address.startswith(("unix:", "unix-abstract:", "vsock:")):
        return True
    host = _host(address)
    if host == "localhost" or host.endswith(".localhost") or host == socket.gethostname().lower():
        return True
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return False
    family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    try:
        # Whoever has an address may bind it.
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
        return True
    except OSError:
        return parsed.is_loopback


def proxy_variable(address: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The variable of the environment by which gRPC may go to that address by an HTTP proxy."""
    if is_own(address):
        return None
    return next((name for name in _PROXIES if environment.get(name)), None)


def _host(address: str) -> str:
    rest = _SCHEME.sub("", address, count=1).rsplit("/", 1)[-1]
    if rest.startswith("["):
        return rest[1:].split("]", 1)[0].lower()
    # HOST:PORT; an IPv6 address without brackets has no port.
    return (rest.rsplit(":", 1)[0] if rest.count(":") == 1 else rest).lower()


# Before any channel is made.
read_messages_whole()

# Room for a batch of large graphs; gRPC's own default of 4 MiB is soon exceeded.
MAX_MESSAGE_BYTES: Final = 64 << 20

# Of gRPC's channel arguments: a name and a value.
ChannelOptions = Sequence[tuple[str, Any]]

_SERVICE_CONFIG: Final = "grpc.service_config"
# Any server answers it, whoever asks, or says why not.
HEALTH_CHECK: Final = "/grpc.health.v1.Health/Check"
# How long one look for a server waits, in seconds: for one that may not be there yet, and for one
# that was there before.
_LOOK: Final = 0.5
_LOOK_AGAIN: Final = 1.0

# Of proto/packhouse/v1, as all clients have it.
_SERVICE_CONFIG_FILE: Final = pathlib.Path(packhouse.v1.__file__).with_name("service_config.json")


def service_config() -> dict[str, Any]:
    """Which calls gRPC itself tries again, and when, in gRPC's own form.

    Calls that are safe to retry are tried five times in a second or two, besides the time to
    connect. Calls that may answer NOT_FOUND or ALREADY_EXISTS because the first try worked are not
    here: their callers handle that. Append and Observe go on by a producer's numbers; Pack cannot
    go on.
    """
    return _parsed(_SERVICE_CONFIG_FILE.read_text(encoding="ascii"))


def make_channel(
    address: str,
    *,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    options: ChannelOptions = (),
    credentials: Credentials | None = None,
    reads_on_callers_thread: bool = False,
) -> grpc.Channel:
    """A connection of its own to HOST:PORT, unix:PATH or another of gRPC's names.

    `credentials`: None for those of the environment (`Credentials.from_environment`); where there
    are none, and with `Credentials()`, it is not encrypted. The environment's `http_proxy` is for
    other machines: a server on this one is reached without it.

    `options` come on top of what is here, and replace it where the name is the same: thus
    `[("grpc.lb_policy_name", "round_robin")]` with an address `dns:///HOST:PORT` spreads calls over
    all servers of that name. The parts of a `grpc.service_config` replace those of
    `service_config()`.

    `reads_on_callers_thread`: server-streaming calls get ten times as many messages a second, and
    each call takes the thread that reads it; for a channel that does nothing else.

    All channels of this package are made here, so that no stream waits for a server that has left
    (see `_LookingChannel`).
    """
    arguments: dict[str, Any] = {
        "grpc.max_receive_message_length": max_message_bytes,
        "grpc.max_send_message_length": max_message_bytes,
        # Otherwise clients of one address share a connection.
        "grpc.use_local_subchannel_pool": 1,
        # A server that restarts is found again soon; the default grows to two minutes.
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.max_reconnect_backoff_ms": 1000,
        # Notices a server that vanished without closing its connections; servers allow pings this
        # often.
        "grpc.keepalive_time_ms": 60_000,
        "grpc.keepalive_timeout_ms": 20_000,
        _SERVICE_CONFIG: json.dumps(service_config()),
    }
    if is_own(address):
        # A proxy of the environment is for other machines; no_proxy often forgets this one.
        arguments["grpc.enable_http_proxy"] = 0
    if reads_on_callers_thread:
        arguments[grpc.experimental.ChannelOptions.SingleThreadedUnaryStream] = 1
    for name, value in options:
        if name == _SERVICE_CONFIG:
            value = json.dumps(service_config() | _parsed(value))
        arguments[name] = value
    if credentials is None:
        credentials = Credentials.from_environment()
    if credentials.tls_server_name:
        arguments.setdefault("grpc.ssl_target_name_override", credentials.tls_server_name)
    channel: grpc.Channel
    if credentials.is_plain:
        channel = grpc.insecure_channel(address, options=_sorted(arguments.items()))
    else:
        channel = grpc.secure_channel(
            address, credentials.to_grpc(), options=_sorted(arguments.items())
        )
    # Where gRPC begins no stream anew, there is nothing to look for.
    return _LookingChannel(channel) if arguments.get("grpc.enable_retries", 1) else channel


class _LookingChannel(grpc.Channel):  # type: ignore[misc]
    """A channel whose streams look for the server before they begin.

    A client hears only in a call that the server has left since the last one. A stream in which gRPC
    hears it is begun anew by gRPC itself, and where no server is by then, it never ends (grpcio 1.51).
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def _looking(self, begin: Any) -> Any:
        look = self._channel.unary_unary(HEALTH_CHECK)

        def look_and_begin(*arguments: Any, **options: Any) -> Any:
            try:
                look(b"", timeout=_LOOK_AGAIN)
            except grpc.RpcError:
                pass  # The stream itself says it.
            return begin(*arguments, **options)

        return look_and_begin

    # As `grpc.Channel` has it.

    def unary_unary(self, *arguments: Any, **options: Any) -> Any:
        return self._channel.unary_unary(*arguments, **options)

    def unary_stream(self, *arguments: Any, **options: Any) -> Any:
        return self._looking(self._channel.unary_stream(*arguments, **options))

    def stream_unary(self, *arguments: Any, **options: Any) -> Any:
        return self._looking(self._channel.stream_unary(*arguments, **options))

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        return self._looking(self._channel.stream_stream(*arguments, **options))

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        self._channel.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Any) -> None:
        self._channel.unsubscribe(callback)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> grpc.Channel:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def await_server(channel: grpc.Channel, address: str, seconds: float) -> None:
    """Waits until a server answers there. Raises PackhouseError with UNAVAILABLE after that time,
    and within a second if one side refuses the other's certificate: waiting does not help then.

    It makes a call, because channel_ready_future looks only five times a second.
    """
    check = channel.unary_unary(HEALTH_CHECK)
    end = time.monotonic() + seconds
    while True:
        left = max(0.0, end - time.monotonic())
        try:
            check(b"", timeout=min(left, _LOOK), wait_for_ready=True)
            return
        except grpc.RpcError as error:
            # Another status is an answer, too.
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                return
        details = _why_not_connected(check)
        if details is None:
            return
        refusal = meaning_of(details)
        if refusal:
            raise PackhouseError(
                grpc.StatusCode.UNAVAILABLE, f"no server at {address}{refusal}"
            ) from None
        if left > _LOOK:
            continue
        variable = proxy_variable(address)
        # By a proxy, nobody here knows what is at the other end.
        why = "" if variable is not None else _why_unreachable(address)
        if "Socket closed" in details or "Connection reset" in details:
            why = (
                ": the server closes the connection: it may want TLS (tls_ca), or a certificate of "
                "the client that its CA has signed (tls_cert, tls_key)"
            )
        if variable is not None:
            why += (
                f"; the call goes by the HTTP proxy of the variable {variable}: no_proxy excepts "
                "servers from it"
            )
        raise PackhouseError(
            grpc.StatusCode.UNAVAILABLE, f"no server at {address} within {seconds:g} s{why}"
        ) from None


def _why_not_connected(check: Any) -> str | None:
    """What gRPC says to a call that does not wait for a connection; None if there is an answer."""
    try:
        check(b"", timeout=2)
    except grpc.RpcError as error:
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            return error.details() or ""
    return None


def _why_unreachable(address: str) -> str:
    """What a plain connection meets there; "" if that is not known."""
    path = address[len("unix:") :] if address.startswith("unix:") else ""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        if path:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_LOOK)
                connection.connect(path)
        elif host and port.isdecimal() and "/" not in address:
            socket.create_connection((host, int(port)), _LOOK).close()
        else:
            return ""
    except socket.gaierror:
        return f": the name {host!r} is not resolved"
    except ConnectionRefusedError:
        return ": the connection is refused: no server listens there"
    except FileNotFoundError:
        return ": there is no such socket"
    except socket.timeout:
        return ": nothing answers there, as behind a firewall"
    except (OSError, OverflowError) as error:
        return f": {getattr(error, 'strerror', None) or error}"
    return ": what listens there does not answer as gRPC"


def _parsed(config: str) -> dict[str, Any]:
    parsed = json.loads(config)
    if not isinstance(parsed, dict):
        raise ValueError(f"{_SERVICE_CONFIG} is no JSON object: {config!r}")
    return parsed


def _sorted(arguments: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return sorted(arguments, key=lambda argument: argument[0])
