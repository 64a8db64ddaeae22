"""How calls fail, and what counts as away: failures that pass by themselves, and what they mean.

The C++ client has the same rows of what is away (client/cpp/away.cc): a test of the structure
compares them. Which calls are safe to make again is said by `service_config()` of
`packhouse.calls.channel`, and by the numbers of producers for those that append and observe.
"""

from __future__ import annotations

from typing import Any, Final

import grpc

# A code, and words of its message in small letters; "": whatever it says. gRPC makes CANCELLED of
# the moment of a server's leaving, DEADLINE_EXCEEDED of one that stands still, and INTERNAL or
# UNKNOWN of a stream that something else than the server has ended. HTTP/2's error 11 is "enhance
# your calm": gRPC ends any call by it when those that are being received take too much memory.
_PASSES: Final = (
    ("UNAVAILABLE", ""),
    ("CANCELLED", ""),
    ("DEADLINE_EXCEEDED", ""),
    ("RESOURCE_EXHAUSTED", "no space left"),
    ("RESOURCE_EXHAUSTED", "disk quota exceeded"),
    ("RESOURCE_EXHAUSTED", "database space exceeded"),
    ("RESOURCE_EXHAUSTED", "rst_stream with error code 11"),
    ("INTERNAL", "rst_stream"),
    ("UNKNOWN", "stream removed"),
)

# Words of gRPC's by which a status is not the server's, and what they mean.
_MEANINGS: Final = (
    ("rst_stream with error code 11", "the server lacked memory, and ended it (--memory-budget)"),
    ("rst_stream", "a proxy has ended the call: see its timeouts (nginx: grpc_read_timeout)"),
    ("http2 header with status", "a proxy answered, which does not reach the server"),
    ("enter idle", "the server ended the connection (--max-connection-age)"),
)


def passes(code: str, message: str) -> bool:
    """Whether a call that is safe to repeat may succeed if it is made again. `code` by its name."""
    words = message.lower()
    return any(code == each and part in words for each, part in _PASSES)


def meaning_of_end(message: str) -> str:
    """What gRPC's words about the end of a call mean, to be put behind them; or ""."""
    words = message.lower()
    return next((f": {meaning}" for part, meaning in _MEANINGS if part in words), "")


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
        """Whether the same call may succeed later, as when the server was away: see `passes`."""
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
