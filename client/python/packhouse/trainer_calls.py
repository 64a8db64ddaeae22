"""A trainer's calls, made by a process of their own: gRPC and forks do not go together.

Even if a process closes all its connections, what gRPC leaves behind sometimes breaks processes
that are forked from it later. So a trainer that forks worker processes does not use gRPC.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import weakref
from typing import Any, Final

import grpc

from packhouse.acknowledging import Lease
from packhouse.connecting import Connecting
from packhouse.errors import PackhouseError
from packhouse.load_connection import LoadConnection
from packhouse.v1 import loader_pb2

_PROGRAM: Final = """
import sys
sys.path[:] = {path!r}
from packhouse.trainer_calls import serve
serve()
"""


class TrainerCalls:
    """Acknowledgements and unary calls of `packhouse.v1.LoaderService`. Thread-safe.

    The process starts with the first call, in some tenths of a second. It ends with this object, or
    when the process that it works for has ended. Use from one process.
    """

    def __init__(self, connecting: Connecting) -> None:
        self._connecting = connecting
        self._lock = threading.Lock()
        self._process: Any = None

    def acknowledge(self, lease: Lease) -> None:
        """Sends it soon. The next `flush` or `call` raises what failed."""
        with self._lock:
            self._send(("acknowledge", tuple(lease)))

    def flush(self) -> None:
        """Waits until all acknowledgements are durable. Raises PackhouseError if that failed."""
        with self._lock:
            if self._process is not None:
                self._ask(("flush",))

    def reset(self) -> None:
        """Forgets what has not been sent, and that sending has failed."""
        with self._lock:
            if self._process is not None:
                self._send(("reset",))

    def call(self, method: str, request: Any, answer: Any) -> Any:
        """Makes a call that is safe to retry, and retries it; `answer` is the answer's type. Raises
        PackhouseError.
        """
        with self._lock:
            kind = type(request).__name__
            return answer.FromString(self._ask(("call", method, kind, request.SerializeToString())))

    def _ask(self, message: tuple[Any, ...]) -> bytes:
        self._send(message)
        try:
            kind, *content = pickle.load(self._process.stdout)
        except EOFError:
            raise self._gone() from None
        if kind == "failed":
            code, words = content
            raise PackhouseError(grpc.StatusCode[code], words)
        return bytes(content[0])

    def _send(self, message: tuple[Any, ...]) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # As in local_server.py.
                close_fds=False,
            )
            weakref.finalize(self, _end, self._process, os.getpid())
            message = (self._connecting, message)
        try:
            pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None

    def _gone(self) -> PackhouseError:
        return PackhouseError(
            grpc.StatusCode.UNKNOWN,
            f"the process that acknowledges is gone, with exit status {self._process.wait()}",
        )


def _end(process: Any, owner: int) -> None:
    if os.getpid() == owner:
        # Forked processes have the pipe, too: closing it here does not end it.
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(("end",), process.stdin)
            process.stdin.close()
        process.wait()
        process.stdout.close()


def serve() -> None:
    """The process: answers requests from its standard input until that ends."""
    commands, answers = sys.stdin.buffer, sys.stdout.buffer
    connecting, message = pickle.load(commands)
    connection = LoadConnection(connecting)
    failure: PackhouseError | None = None
    while True:
        kind, *content = message
        if kind == "end":
            break
        if kind == "acknowledge":
            try:
                connection.acknowledger.add(Lease(*content[0]))
            except PackhouseError as error:
                failure = error
        elif kind == "reset":
            connection.acknowledger.reset()
            failure = None
        else:
            try:
                if failure is not None:
                    raise failure
                answer = b""
                if kind == "flush":
                    connection.acknowledger.flush()
                else:
                    method, request, data = content
                    parsed = getattr(loader_pb2, request).FromString(data)
                    answer = connection.call(method, parsed).SerializeToString()
                pickle.dump(("ok", answer), answers)
            except PackhouseError as error:
                failure = None
                pickle.dump(("failed", error.code.name, error.message), answers)
            answers.flush()
        try:
            message = pickle.load(commands)
        except EOFError:
            break
    connection.close()
