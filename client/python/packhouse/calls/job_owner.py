"""Calls about one job, where several servers share the jobs: its owner answers them."""

from __future__ import annotations

import threading
from typing import Any, Callable, Final, TypeVar

import grpc

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
