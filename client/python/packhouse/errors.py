"""How calls fail."""

from __future__ import annotations

from typing import Any

import grpc


class EpochFinishedError(ValueError):
    """An epoch was finished before a loader came to it: it would give no batch."""


class PackhouseError(Exception):
    """A call ended with a status other than OK.

    `code` is the `grpc.StatusCode`, `message` the server's words. UNAVAILABLE and
    RESOURCE_EXHAUSTED may be retried with back-off; INVALID_ARGUMENT, OUT_OF_RANGE and
    FAILED_PRECONDITION need a different call first.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message

    @staticmethod
    def of(error: Any) -> PackhouseError:
        """Wraps a `grpc.RpcError` that carries a status."""
        return PackhouseError(error.code(), error.details() or "")
