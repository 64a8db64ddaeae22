"""How calls fail."""

from __future__ import annotations

from typing import Any

import grpc

from packhouse.base.away import meaning_of_end, passes


class EpochFinishedError(ValueError):
    """An epoch was finished before a loader came to it: it would give no batch."""


class EpochBegunError(ValueError):
    """A part of an epoch was done before a loader came to it: only the rest would come."""


class PackhouseError(Exception):
    """A call ended with a status other than OK.

    `code` is the `grpc.StatusCode`, `message` the server's words. UNAVAILABLE and
    RESOURCE_EXHAUSTED may be retried with back-off (`passes`: it is known to pass by itself);
    INVALID_ARGUMENT, OUT_OF_RANGE and FAILED_PRECONDITION need a different call first.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message

    @property
    def passes(self) -> bool:
        """Whether the same call may succeed later, as when the server was away: `packhouse.base.away`."""
        return passes(self.code.name, self.message)

    @staticmethod
    def of(error: Any) -> PackhouseError:
        """Wraps a `grpc.RpcError` that carries a status."""
        details = error.details() or ""
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            details += meaning_of(details)
        details += meaning_of_end(details)
        return PackhouseError(error.code(), details)


def meaning_of(details: str) -> str:
    """What gRPC's words about TLS mean, to be put behind them: which side refused, and why; or ""."""
    words = details.lower().replace("_", " ")
    if "certificate verify failed" in words:
        return ": this client refuses the server's certificate, which none of its CAs (tls_ca) signed"
    if "is not in peer certificate" in words:
        return (
            ": this client refuses the server's certificate, which is for another name "
            "(tls_server_name)"
        )
    if "wrong version number" in words:
        return ": this client wants TLS, and the server speaks plain text"
    if "certificate required" in words or "bad certificate" in words or "unknown ca" in words:
        return ": the server refuses this client's certificate, or wants one (tls_cert, tls_key)"
    return ""
