"""Unary calls of a client: their deadline, their errors, and deletions that are made again."""

from __future__ import annotations

import time
from typing import Any

import grpc

from packhouse.base.errors import PackhouseError
from packhouse.calls.backoff import Backoff


class UnaryCalls:
    """Makes a stub's unary calls. Constant, therefore thread-safe."""

    def __init__(self, address: str, timeout: float) -> None:
        """`address`: where the calls go, for people. `timeout`: the deadline of each, in seconds."""
        self.address = address
        self.timeout = timeout

    def __call__(self, method: Any, request: Any) -> Any:
        """The answer; waits for a connection. Raises PackhouseError."""
        try:
            return method(request, timeout=self.timeout, wait_for_ready=True)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None

    def delete(self, method: Any, request: Any) -> None:
        """Retries, too: NOT_FOUND after a first try that may have worked counts as deleted."""
        backoff = Backoff(self.timeout, call=f"a deletion at {self.address}")
        tries = 0
        while True:
            tries += 1
            try:
                self(method, request)
                return
            except PackhouseError as error:
                if tries > 1 and error.code is grpc.StatusCode.NOT_FOUND:
                    return
                time.sleep(backoff.delay_after(error))
