"""Which of several servers a loader's calls go to."""

from __future__ import annotations

import re
import threading
from typing import Final

from packhouse.channel import ChannelOptions

# Names of gRPC's that have commas of their own, or none.
_SCHEME: Final = re.compile(r"(ipv4|ipv6|dns|unix|unix-abstract|vsock|xds|passthrough):")

# A server that is stopped, or cut off, takes no connection and sends no word. This is noticed before
# another server takes its jobs, which it does after 10 s by default. Servers allow pings this often.
CLUSTER_OPTIONS: Final[ChannelOptions] = (
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.min_reconnect_backoff_ms", 2_000),
)


class Replicas:
    """The servers of one cluster: "HOST:PORT", or several of these with commas between them.

    Calls go to the owner of the job, once one has been named. Before that, and after it was lost,
    they go to the given addresses in turn: each failure moves on to the next. With one address and
    no redirects, that is always this address. Thread-safe.
    """

    def __init__(self, address: str) -> None:
        addresses = [address] if _SCHEME.match(address) else address.split(",")
        self._addresses = [each.strip() for each in addresses if each.strip()] or [address]
        self._lock = threading.Lock()
        self._next = 0
        self._owner: str | None = None
        self._has_owners = False

    @property
    def options(self) -> ChannelOptions:
        """Options that channels have by default: those of a cluster, once it is known to be one."""
        return CLUSTER_OPTIONS if len(self._addresses) > 1 or self._has_owners else ()

    @property
    def first(self) -> str:
        """One of the given addresses, for calls that any server answers."""
        return self._addresses[0]

    @property
    def current(self) -> str:
        """Where the next call goes."""
        with self._lock:
            return self._owner or self._addresses[self._next]

    def redirected(self, owner: str) -> None:
        """A server has named the owner."""
        with self._lock:
            self._owner = owner
            self._has_owners = True

    def lost(self, address: str) -> None:
        """The server at `address` did not answer, or is no longer the owner."""
        with self._lock:
            if self._owner is not None:
                if self._owner == address:
                    self._owner = None
            elif self._addresses[self._next] == address:
                self._next = (self._next + 1) % len(self._addresses)
