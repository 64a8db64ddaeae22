"""Which of several servers a loader's calls go to."""

from __future__ import annotations

import re
import threading
from typing import Final

import grpc

from packhouse.base.errors import PackhouseError
from packhouse.calls.backoff import LONGEST_DELAY
from packhouse.calls.channel import ChannelOptions

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
    def first(self) -> str:
        """One of the given addresses, for calls that any server answers."""
        return self._addresses[0]

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
