"""A trainer's calls, made by a process of their own: gRPC and forks do not go together.

Even if a process closes all its connections, what gRPC leaves behind sometimes breaks processes
that are forked from it later. So a trainer that forks worker processes does not use gRPC.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import Any, Final

import grpc

from packhouse.base.errors import PackhouseError
from packhouse.base.processes import in_session_of_its_own
from packhouse.epochs.acknowledging import Lease
from packhouse.epochs.load_connection import LoadConnection
from packhouse.epochs.relayed_calls import serve_calls
from packhouse.epochs.request import Connecting
from packhouse.v1 import loader_pb2

_PROGRAM: Final = """
import sys
sys.path[:] = {path!r}
from packhouse.epochs.trainer_calls import serve
serve({trainer})
"""

# Acknowledgements that are kept, at most, to be told to another process if this one dies.
_MAX_KEPT: Final = 4096
# Seconds for a process to end by itself.
_ENDING: Final = 10.0
# Each try to add an acknowledgement raises one failure of those before.
_TRIES: Final = 8
# Seconds between two looks at whether the trainer lives.
_LOOK: Final = 1.0


class TrainerCalls:
    """Acknowledgements and unary calls of `packhouse.v1.LoaderService`. Thread-safe.

    The process starts with the first call, in some tenths of a second. It ends with this object, or
    when the process that it works for has ended, however that did. It has a session of its own:
    what a terminal or a scheduler sends to the trainer's processes does not reach it. If it dies,
    or an exception, as a signal handler's, interrupts a method, another one is started, which is
    told all acknowledgements that may not have been sent. Use from one process.
    """

    def __init__(self, connecting: Connecting, relay: str = "") -> None:
        """`relay`: where that process makes calls for others (`Relay`); "": nowhere."""
        self._connecting = connecting
        self._relay = relay
        self._lock = threading.Lock()
        # Below: guarded by _lock.
        self._process: Any = None
        self._finalizer: Any = None
        # The number of the last question; the answer has it, too.
        self._number = 0
        # Whether something is being said or heard; if it is when the next method comes, that did
        # not end, and nobody knows where in the pipes it was left.
        self._is_busy = False
        # Acknowledgements that may not have been sent.
        self._kept: list[Lease] = []

    def acknowledge(self, lease: Lease) -> None:
        """Sends it soon. The next `flush` or `call` raises what failed; so does one of a few
        thousand of these.
        """
        with self._lock:
            if len(self._kept) >= _MAX_KEPT:
                self._flush()
            self._kept.append(lease)
            self._say(("acknowledge", tuple(lease)))

    def flush(self) -> None:
        """Waits until all acknowledgements are durable. Raises PackhouseError if that failed."""
        with self._lock:
            self._flush()

    def reset(self) -> None:
        """Forgets what has not been sent, and that sending has failed."""
        with self._lock:
            self._kept = []
            if self._process is not None:
                self._say(("reset",))

    def call(self, method: str, request: Any, answer: Any) -> Any:
        """Makes a call that is safe to retry, and retries it; `answer` is the answer's type. Raises
        PackhouseError.
        """
        with self._lock:
            kind = type(request).__name__
            return answer.FromString(self._ask(("call", method, kind, request.SerializeToString())))

    def close(self) -> None:
        """Sends what is acknowledged, for some seconds at most, and ends the process; using this
        again starts another. Idempotent.
        """
        with self._lock:
            if self._is_busy:
                self._drop()
            if self._finalizer is not None:
                self._finalizer()
            self._process = self._finalizer = None

    def _flush(self) -> None:
        if self._process is None and not self._kept:
            return
        self._ask(("flush",))
        self._kept = []

    def _ask(self, question: tuple[Any, ...]) -> bytes:
        for is_last in (False, True):
            self._begin()
            self._number += 1
            try:
                self._is_busy = True
                self._write((self._number, question))
                number, kind, *content = pickle.load(self._process.stdout)
            except (EOFError, BrokenPipeError):
                self._lose(is_last)
                continue
            if number != self._number:
                self._drop()
                raise RuntimeError(f"question {self._number} got the answer to {number}")
            self._is_busy = False
            if kind == "failed":
                code, words = content
                raise PackhouseError(grpc.StatusCode[code], words)
            if kind == "raised":
                raise content[0]
            return bytes(content[0])
        raise AssertionError("unreachable")

    def _say(self, message: tuple[Any, ...]) -> None:
        """Without an answer. What is kept is told anew to each process that is started."""
        for is_last in (False, True):
            if self._begin() and message[0] == "acknowledge":
                return
            try:
                self._is_busy = True
                self._write((0, message))
                self._is_busy = False
                return
            except BrokenPipeError:
                self._lose(is_last)

    def _begin(self) -> bool:
        """Makes sure that there is a process that listens; True: a new one."""
        if self._is_busy:
            self._drop()
        if self._process is not None:
            return False
        self._is_busy = True
        program = _PROGRAM.format(path=sys.path, trainer=os.getpid())
        command, arguments = in_session_of_its_own([sys.executable, "-c", program])
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **arguments
        )
        self._finalizer = weakref.finalize(self, _end, process, os.getpid())
        self._process = process
        try:
            self._write((self._connecting, self._relay))
            for lease in self._kept:
                self._write((0, ("acknowledge", tuple(lease))))
        except BrokenPipeError:
            self._lose(is_last=True)
        self._is_busy = False
        return True

    def _write(self, message: Any) -> None:
        pickle.dump(message, self._process.stdin)
        self._process.stdin.flush()

    def _drop(self) -> None:
        """Ends the process at once: what it was in the midst of is not known."""
        process, finalizer = self._process, self._finalizer
        if process is not None:
            process.kill()
            process.wait()
        self._process = self._finalizer = None
        self._is_busy = False
        if finalizer is not None:
            finalizer.detach()
        if process is not None:
            _close_pipes(process)

    def _lose(self, is_last: bool) -> None:
        """The process is gone. Raises PackhouseError for one that has just been started."""
        process = self._process
        self._drop()
        if is_last:
            raise PackhouseError(
                grpc.StatusCode.UNKNOWN,
                "the process that makes the trainer's calls has ended twice, with exit status "
                f"{process.returncode}",
            )


def _close_pipes(process: Any) -> None:
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            pipe.close()


def _end(process: Any, owner: int) -> None:
    if os.getpid() == owner:
        # Forked processes have the pipe, too: closing it here does not end it.
        with contextlib.suppress(OSError, ValueError):
            pickle.dump((0, ("end",)), process.stdin)
            process.stdin.flush()
        try:
            process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _close_pipes(process)


def serve(trainer: int) -> None:
    """The process: answers requests from its standard input until that ends."""
    with contextlib.suppress(OSError):
        os.setsid()
    for each in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(each, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(trainer,), name="packhouse-ends", daemon=True).start()
    commands, answers = sys.stdin.buffer, sys.stdout.buffer
    connection: LoadConnection | None = None
    failure: BaseException | None = None
    while True:
        try:
            message = pickle.load(commands)
        except EOFError:
            break
        if connection is None:
            connecting, relay = message
            connection = LoadConnection(connecting)
            if relay:
                # Without it, worker processes make their own.
                with contextlib.suppress(OSError):
                    serve_calls(relay, connecting)
            continue
        number, (kind, *content) = message
        if kind == "end":
            break
        if kind == "acknowledge":
            for _ in range(_TRIES):
                try:
                    connection.acknowledger.add(Lease(*content[0]))
                    break
                except Exception as error:  # Of earlier ones. The trainer gets it.
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
                pickle.dump((number, "ok", answer), answers)
            except PackhouseError as error:
                failure = None
                pickle.dump((number, "failed", error.code.name, error.message), answers)
            except Exception as error:
                failure = None
                pickle.dump((number, "raised", _sendable(error)), answers)
            answers.flush()
    if connection is not None:
        connection.close()


def _sendable(error: Exception) -> Exception:
    """The error, or its words if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _end_with(trainer: int) -> None:
    """Ends this process soon after the trainer: a call may be waiting for a server meanwhile."""
    while os.getppid() == trainer:
        time.sleep(_LOOK)
    time.sleep(_ENDING)
    os._exit(1)
