"""Where the calls of a client go, if there are several servers with the same data sets and jobs."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Final, Sequence

import grpc

from packhouse.base.errors import PackhouseError, passes
from packhouse.calls.channel import await_server, service_config
from packhouse.calls.job_owner import owner_named_by


def _safe_methods() -> frozenset[str]:
    return frozenset(
        f"/{name['service']}/{name['method']}"
        for config in service_config()["methodConfig"]
        for name in config["name"]
    )


def first_that_answers(
    connect: Callable[[str], grpc.Channel], addresses: Sequence[str], seconds: float
) -> tuple[grpc.Channel, str]:
    """A channel to one of the servers, and its address.

    Raises PackhouseError with UNAVAILABLE after that time, which they have in equal parts.
    """
    failures = []
    for address in addresses:
        channel = connect(address)
        try:
            await_server(channel, address, seconds / len(addresses))
            return channel, address
        except PackhouseError as error:
            channel.close()
            failures.append(error)
        except BaseException:
            channel.close()
            raise
    if len(failures) == 1:
        raise failures[0]
    raise PackhouseError(
        grpc.StatusCode.UNAVAILABLE, "; ".join(failure.message for failure in failures)
    )


class Servers:
    """As a channel to one server, of which stubs are made; unary calls that are safe to repeat go on
    at the next server while one is away.

    Those are the calls of `service_config()`, and away is what `passes` says. All others, and
    streams, are made at the first server. May be used from any thread.
    """

    def __init__(
        self,
        home: grpc.Channel,
        address: str,
        connect: Callable[[str], grpc.Channel],
        addresses: Sequence[str],
    ) -> None:
        """`home`: a channel to `address`, one of the `addresses`; it stays the caller's. `connect`
        makes channels to the others.
        """
        self._home = home
        self._connect = connect
        self._lock = threading.Lock()
        # Guarded by _lock: by address.
        self._channels: dict[str, grpc.Channel] = {address: home}
        self._addresses: Final = tuple(addresses)
        self._next = self._addresses.index(address)
        self._safe = _safe_methods() if len(self._addresses) > 1 else frozenset()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._addresses)

    def current(self) -> tuple[str, grpc.Channel]:
        """Where the next call goes. Raises ValueError after `close`."""
        with self._lock:
            if not self._channels:
                raise ValueError("the client is closed")
            address = self._addresses[self._next]
            if address not in self._channels:
                self._channels[address] = self._connect(address)
            return address, self._channels[address]

    def leave(self, address: str) -> None:
        """The server there is away: the next call goes to the next one."""
        with self._lock:
            if self._addresses[self._next] == address:
                self._next = (self._next + 1) % len(self._addresses)

    def close(self) -> None:
        """Disconnects from all but the first. Idempotent."""
        with self._lock:
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            if channel is not self._home:
                channel.close()

    # What stubs ask of a channel.

    def unary_unary(self, method: str, *serializers: Any, **options: Any) -> Any:
        """As `grpc.Channel` has it."""
        if method not in self._safe:
            return self._home.unary_unary(method, *serializers, **options)
        return _SafeCall(self, method, serializers, options)

    def unary_stream(self, *arguments: Any, **options: Any) -> Any:
        """As `grpc.Channel` has it."""
        return self._home.unary_stream(*arguments, **options)

    def stream_unary(self, *arguments: Any, **options: Any) -> Any:
        """As `grpc.Channel` has it."""
        return self._home.stream_unary(*arguments, **options)

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        """As `grpc.Channel` has it."""
        return self._home.stream_stream(*arguments, **options)


class _SafeCall:
    """A method that may be called again elsewhere."""

    def __init__(
        self, servers: Servers, method: str, serializers: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self._servers = servers
        self._method = method
        self._serializers = serializers
        self._options = options

    def __call__(self, request: Any, *, timeout: float, wait_for_ready: bool = False) -> Any:
        """Asks each server once; then, with `wait_for_ready`, waits for one for the rest of the time."""
        end = time.monotonic() + timeout
        for number in range(self._servers.count + 1):
            is_last = number == self._servers.count
            address, channel = self._servers.current()
            call = channel.unary_unary(self._method, *self._serializers, **self._options)
            left = max(0.001, end - time.monotonic()) if is_last else timeout
            try:
                return call(request, timeout=left, wait_for_ready=is_last and wait_for_ready)
            except grpc.RpcError as error:
                is_away = passes(error.code().name, error.details() or "")
                # Another server's job is no sign that this one is away.
                if is_last or not is_away or owner_named_by(error) is not None:
                    raise
            self._servers.leave(address)
        raise AssertionError("unreachable")
