"""Connections that say nothing."""

from __future__ import annotations

import contextlib
import socket
from typing import Iterator

import grpc
from abuse import Abuse, Row, law, scenario
from hostile import Forwarder, address_of, own_channel, raw_unary


@scenario
def silent_connections(abuse: Abuse) -> Iterator[Row]:
    """Connections to the gRPC port that send nothing leave another client its calls."""
    count = 50 if abuse.is_short else 2000
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(abuse.server())
        for _ in range(count):
            stack.enter_context(socket.create_connection(address_of(server.address)))
        other = stack.enter_context(Forwarder(server.address, 2))
        channel = stack.enter_context(own_channel(other.address))
        call = raw_unary(channel, "packhouse.v1.HistogramService/GetHistogram")
        code = None
        try:
            call(b"", timeout=20)
        except grpc.RpcError as error:
            code = error.code()
        answered = code is grpc.StatusCode.INVALID_ARGUMENT or code is grpc.StatusCode.NOT_FOUND
        yield law(
            f"a call beside {count} silent connections", str(code), "is answered", answered
        )
