"""Several servers with the same data sets and jobs: where the calls of clients and loaders go.

A call about one job goes to its owner, one that is safe to repeat to the next server while one is
away, a loader's to one of the replicas until it is lost.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any, Callable, Final, Sequence, TypeVar

import grpc

from packhouse.base.errors import PackhouseError, passes
from packhouse.calls.channel import ChannelOptions, await_server, service_config
from packhouse.calls.retrying import LONGEST_DELAY

# Names the owner of a job, where another server refuses a call: HOST:PORT.
_OWNER: Final = "packhouse-owner"

# Servers that are asked: when a job changes its owner, two may name each other for a while.
_MAX_ASKED: Final = 3

_T = TypeVar("_T")


def owner_named_by(error: Any) -> str | None:
    """The owner of the job that a failed call was about, if the server has named it."""
    for name, value in error.trailing_metadata() or ():
        if name == _OWNER:
            return str(value)
    return None


class JobCalls:
    """Makes calls of a client; those about another server's job once more, at that server.

    May be used from any thread.
    """

    def __init__(self, channel: grpc.Channel, connect: Callable[[str], grpc.Channel]) -> None:
        """`channel` is the client's own, and stays so; `connect` makes others, by their address."""
        self._channel = channel
        self._connect = connect
        self._lock = threading.Lock()
        # By address, guarded by _lock; kept, as a client asks about few jobs and often.
        self._owners: dict[str, grpc.Channel] = {}
        self._is_closed = False

    def call(self, make: Callable[[grpc.Channel], _T]) -> _T:
        """What `make` returns, given the client's channel or, if its call names the job's owner, one
        to the owner. Raises `grpc.RpcError`, and what else `make` raises.
        """
        channel = self._channel
        num_asked = 1
        while True:
            try:
                return make(channel)
            except grpc.RpcError as error:
                owner = owner_named_by(error)
                if owner is None or num_asked == _MAX_ASKED:
                    raise
            channel = self._channel_to(owner)
            num_asked += 1

    def unary(self, stub: Callable[[grpc.Channel], Any], name: str) -> Callable[..., Any]:
        """The method `name` of a stub, to be called as the stub's own."""

        def method(request: Any, *, timeout: float, wait_for_ready: bool) -> Any:
            def make(channel: grpc.Channel) -> Any:
                # An owner that is gone is not waited for: another server takes its jobs.
                waits = wait_for_ready and channel is self._channel
                return getattr(stub(channel), name)(request, timeout=timeout, wait_for_ready=waits)

            return self.call(make)

        return method

    def close(self) -> None:
        """Disconnects from owners. Idempotent."""
        with self._lock:
            self._is_closed = True
            channels, self._owners = self._owners, {}
        for channel in channels.values():
            channel.close()

    def _channel_to(self, owner: str) -> grpc.Channel:
        with self._lock:
            if self._is_closed:
                raise ValueError("the client is closed")
            if owner not in self._owners:
                self._owners[owner] = self._connect(owner)
            return self._owners[owner]


# Names of gRPC's that have commas of their own, or none.
_SCHEME: Final = re.compile(r"(ipv4|ipv6|dns|unix|unix-abstract|vsock|xds|passthrough):")

# A server that is stopped, or cut off, takes no connection and sends no word. This is noticed before
# another server takes its jobs, after the lease. Servers allow pings this often.
_CALL_OPTIONS: Final[ChannelOptions] = (
    ("grpc.keepalive_time_ms", 1_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.http2.max_pings_without_data", 0),
)

# Milliseconds for a connection to be made. Shorter to a server that was just lost, because others
# name it until its lease has ended; unless it has been slow for long.
_CONNECTING_MS: Final = 2_000
_CONNECTING_AGAIN_MS: Final = 400
_MOST_SHORT_TRIES: Final = 20

# The longest delay between two tries, in seconds, where another server takes the job meanwhile.
_LONGEST_DELAY: Final = 0.5


def addresses_of(address: str) -> list[str]:
    """Those that "HOST:PORT", or several of these with commas between them, stands for.

    Raises PackhouseError with INVALID_ARGUMENT if it names no server.
    """
    addresses = [address] if _SCHEME.match(address) else address.split(",")
    named = [each.strip() for each in addresses if each.strip()]
    if not named:
        raise PackhouseError(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"address {address!r} names no server: it is HOST:PORT or unix:PATH, "
            "or several of these with commas between them",
        )
    return named


class Replicas:
    """The servers of one cluster: "HOST:PORT", or several of these with commas between them.

    Calls go to the owner of the job, once one has been named. Before that, and after it was lost,
    they go to the given addresses in turn: each failure moves on to the next. With one address and
    no redirects, that is always this address. Thread-safe.
    """

    def __init__(self, address: str) -> None:
        self._addresses = addresses_of(address)
        self._lock = threading.Lock()
        self._next = 0
        self._owner: str | None = None
        self._has_owners = False
        # How often in a row the servers were lost.
        self._losses: dict[str, int] = {}

    @property
    def are_several(self) -> bool:
        """Whether there is more than one server, as far as is known."""
        return len(self._addresses) > 1 or self._has_owners

    @property
    def longest_delay(self) -> float:
        """Seconds between two tries."""
        return _LONGEST_DELAY if self.are_several else LONGEST_DELAY

    def options(self, address: str, *, pings: bool) -> ChannelOptions:
        """Options that channels have by default: those of a cluster, once it is known to be one.

        `pings`: the channel is read while it has calls, whatever its user does.
        """
        if not self.are_several:
            return ()
        with self._lock:
            is_short = 0 < self._losses.get(address, 0) <= _MOST_SHORT_TRIES
        connecting = _CONNECTING_AGAIN_MS if is_short else _CONNECTING_MS
        return (
            ("grpc.min_reconnect_backoff_ms", connecting),
            *(_CALL_OPTIONS if pings else ()),
        )

    @property
    def current(self) -> str:
        """Where the next call goes."""
        with self._lock:
            return self._owner or self._addresses[self._next]

    @property
    def owner(self) -> str | None:
        """The owner that was named last, unless it was lost."""
        with self._lock:
            return self._owner

    def redirected(self, owner: str) -> None:
        """A server has named the owner."""
        with self._lock:
            self._owner = owner
            self._has_owners = True

    def lost(self, address: str) -> None:
        """The server at `address` did not answer, or is no longer the owner."""
        with self._lock:
            self._losses[address] = self._losses.get(address, 0) + 1
            if self._owner is not None:
                if self._owner == address:
                    self._owner = None
            elif self._addresses[self._next] == address:
                self._next = (self._next + 1) % len(self._addresses)

    def answered(self, address: str) -> None:
        """The server at `address` has sent what was asked for."""
        # Without the lock, as it is asked for each batch.
        if self._losses:
            with self._lock:
                self._losses.pop(address, None)


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
