"""How loaders and evaluations connect: arguments that they have in common."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, TypedDict

from packhouse.base.arguments import whole_number
from packhouse.calls.channel import MAX_MESSAGE_BYTES, ChannelOptions
from packhouse.calls.credentials import Credentials
from packhouse.calls.retrying import DEFAULT_RETRY_TIMEOUT
from packhouse.epochs.request import EpochArguments


class ConnectionArguments(TypedDict, total=False):
    """How to connect, and how batches come.

    - `writable`: batches have arrays of their own, aligned to 64 bytes, that may be written to: see
      `Batch.writable`.
    - `widen`: with `compact`, tensors have the types of the schema; False: the narrow types in which
      they come, as for a device that widens them after the transfer (True).
    - `retry_timeout`: seconds of failing in a row after which a server is given up (300).
    - `timeout`: the deadline of unary calls, in seconds (60).
    - `max_message_bytes`: the largest message that is taken.
    - `options`: gRPC's channel arguments: see `packhouse.calls.channel.make_channel`.
    - `credentials`: for TLS and tokens: see `Credentials`; None for those of the environment.
    """

    writable: bool
    widen: bool
    retry_timeout: float
    timeout: float
    max_message_bytes: int
    options: ChannelOptions
    credentials: Credentials | None


class LoadArguments(EpochArguments, ConnectionArguments, total=False):
    """What `Loader` and `Evaluation` have in common."""


class Connecting(NamedTuple):
    """How to connect; can be sent to another process."""

    address: str
    job: str = ""
    # As the loader's, 0 for the default.
    max_in_flight: int = 0
    retry_timeout: float = DEFAULT_RETRY_TIMEOUT
    timeout: float = 60.0
    max_message_bytes: int = MAX_MESSAGE_BYTES
    options: ChannelOptions = ()
    credentials: Credentials | None = None
    # As ConnectionArguments.
    widen: bool = True


def split(
    arguments: Mapping[str, Any], address: str, job: str = "", max_in_flight: int = 0
) -> tuple[Connecting, bool, dict[str, Any]]:
    """How to connect, whether batches are to be writable, and the other LoadArguments."""
    rest = dict(arguments)
    writable = bool(rest.pop("writable", False))
    given = {
        name: rest.pop(name)
        for name in ("retry_timeout", "timeout", "max_message_bytes", "options", "credentials")
        if name in rest
    }
    given["widen"] = bool(rest.pop("widen", True))
    if "options" in given:
        given["options"] = tuple(given["options"])
    in_flight = whole_number(max_in_flight, "max_in_flight")
    return Connecting(address, job, in_flight, **given), writable, rest
