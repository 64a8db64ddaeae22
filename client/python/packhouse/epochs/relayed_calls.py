"""Calls that another process makes, for one that must not use gRPC: a worker that was forked.

The process that makes a trainer's calls (`trainer_calls.py`) listens at a socket in a file. Who
connects says one call, and gets its responses and how it ended. Batches come by a lane meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import struct
import threading
import time
import weakref
from typing import Any, BinaryIO, Callable, Final, Iterator, NamedTuple

import grpc

from packhouse.base.errors import PackhouseError
from packhouse.calls.channel import make_channel
from packhouse.epochs.request import Connecting

# Before each piece: whether it is a response, and its bytes.
_PIECE: Final = struct.Struct("<?Q")
# Seconds for the trainer to start another process.
_PATIENCE: Final = 10.0
# Seconds between tries to take a caller.
_PAUSE: Final = 0.05
_LOST: Final = "the process that makes the trainer's calls has ended"


class _Question(NamedTuple):
    address: str
    options: tuple[Any, ...]
    method: str
    is_stream: bool
    request: bytes
    timeout: float | None
    wait_for_ready: bool | None


class _End(NamedTuple):
    """As of a call."""

    code: str
    details: str
    trailing_metadata: tuple[tuple[str, Any], ...]


class Relay:
    """Where such calls are made. Thread-safe."""

    def __init__(self, path: str) -> None:
        self.path = path
        # Whether calls are made here: there is none, or none for long, or batches come by no lane.
        self.is_left = not path or not os.path.exists(path)
        self._refuses_since: float | None = None

    def connect(self, connection: socket.socket) -> None:
        """Raises OSError while the process is not there: its trainer starts another soon."""
        try:
            connection.connect(self.path)
            self._refuses_since = None
        except OSError:
            now = time.monotonic()
            since = self._refuses_since = self._refuses_since or now
            self.is_left = now - since > _PATIENCE
            raise

    def channel(self, address: str, options: tuple[Any, ...]) -> RelayedChannel:
        return RelayedChannel(self, address, options)


class RelayedChannel:
    """A `grpc.Channel` as far as `LoadConnection` uses it."""

    def __init__(self, relay: Relay, address: str, options: tuple[Any, ...]) -> None:
        self._relay = relay
        self._address = address
        self._options = options
        self._calls: weakref.WeakSet[_RelayedCall] = weakref.WeakSet()

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] = bytes,
        response_deserializer: Callable[[bytes], Any] = bytes,
        **_: Any,
    ) -> Callable[..., Any]:
        def start(request: Any, **words: Any) -> Any:
            (response,) = self._begin(method, False, request_serializer(request), **words)
            return response_deserializer(response)

        return start

    def unary_stream(
        self, method: str, request_serializer: Callable[[Any], bytes] = bytes, **_: Any
    ) -> Callable[..., Any]:
        def start(request: Any, **words: Any) -> _RelayedCall:
            return self._begin(method, True, request_serializer(request), **words)

        return start

    def _begin(
        self,
        method: str,
        is_stream: bool,
        request: bytes,
        timeout: float | None = None,
        wait_for_ready: bool | None = None,
    ) -> _RelayedCall:
        question = _Question(
            self._address, self._options, method, is_stream, request, timeout, wait_for_ready
        )
        call = _RelayedCall(self._relay, question)
        self._calls.add(call)
        return call

    def close(self) -> None:
        """Ends its calls."""
        for call in list(self._calls):
            call.cancel()


class _RelayedCall(grpc.RpcError, Iterator[bytes]):  # type: ignore[misc]
    """A call, which is also the error that it ends with, as gRPC's. `cancel` is thread-safe."""

    def __init__(self, relay: Relay, question: _Question) -> None:
        super().__init__()
        self._end: _End | None = None
        self._is_cancelled = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._pieces = self._socket.makefile("rb")
        try:
            relay.connect(self._socket)
            _write(self._socket, False, pickle.dumps(tuple(question)))
        except OSError:
            self._lose()

    def __next__(self) -> bytes:
        while self._end is None:
            try:
                is_response, data = _read(self._pieces)
            except (OSError, EOFError):
                self._lose()
            else:
                if is_response:
                    return data
                self._end = _End(*pickle.loads(data))
                self._socket.close()
        if self._end.code == grpc.StatusCode.OK.name:
            raise StopIteration
        raise self

    def _lose(self) -> None:
        if self._is_cancelled:
            self._end = _End(grpc.StatusCode.CANCELLED.name, "the call was cancelled", ())
        else:
            self._end = _End(grpc.StatusCode.UNAVAILABLE.name, _LOST, ())
        self._socket.close()

    def code(self) -> grpc.StatusCode:
        assert self._end is not None
        return grpc.StatusCode[self._end.code]

    def details(self) -> str:
        assert self._end is not None
        return self._end.details

    def trailing_metadata(self) -> tuple[tuple[str, Any], ...]:
        return () if self._end is None else self._end.trailing_metadata

    def cancel(self) -> None:
        self._is_cancelled = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def serve_calls(path: str, connecting: Connecting) -> None:
    """Makes calls for who connects to `path`, on threads, until this process ends."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    # Of one that was killed.
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    before = os.umask(0o077)
    try:
        listening.bind(path)
    finally:
        os.umask(before)
    listening.listen()

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:  # No descriptor is free. Who calls waits until one is.
                time.sleep(_PAUSE)
                continue
            try:
                threading.Thread(
                    target=_answer, args=(connection, connecting), name="packhouse-relay", daemon=True
                ).start()
            except RuntimeError:  # Nor is a thread. Who calls is told, and tries again.
                connection.close()

    threading.Thread(target=accept, name="packhouse-relays", daemon=True).start()


def _answer(connection: socket.socket, connecting: Connecting) -> None:
    with connection, contextlib.suppress(OSError, EOFError):
        question = _Question(*pickle.loads(_read(connection.makefile("rb"))[1]))
        end = _End(grpc.StatusCode.OK.name, "", ())
        try:
            for response in _responses(connection, connecting, question):
                _write(connection, True, response)
        except grpc.RpcError as error:
            call: Any = error
            metadata = tuple((each.key, each.value) for each in call.trailing_metadata() or ())
            end = _End(call.code().name, call.details() or "", metadata)
        except (ValueError, PackhouseError) as error:
            end = _End(grpc.StatusCode.UNAVAILABLE.name, str(error), ())
        _write(connection, False, pickle.dumps(tuple(end)))


def _responses(
    connection: socket.socket, connecting: Connecting, question: _Question
) -> Iterator[bytes]:
    channel = make_channel(
        question.address,
        max_message_bytes=connecting.max_message_bytes,
        options=question.options,
        credentials=connecting.credentials,
        reads_on_callers_thread=question.is_stream,
    )
    words = {"timeout": question.timeout, "wait_for_ready": question.wait_for_ready}
    with channel:
        if not question.is_stream:
            yield channel.unary_unary(question.method)(question.request, **words)
            return
        call = channel.unary_stream(question.method)(question.request, **words)

        def cancel_at_end() -> None:
            with contextlib.suppress(OSError):
                connection.recv(1)
            call.cancel()

        threading.Thread(target=cancel_at_end, name="packhouse-relay-end", daemon=True).start()
        yield from call


def _write(connection: socket.socket, is_response: bool, data: bytes) -> None:
    connection.sendall(_PIECE.pack(is_response, len(data)) + data)


def _read(pieces: BinaryIO) -> tuple[bool, bytes]:
    """Raises EOFError at the end."""
    head = pieces.read(_PIECE.size)
    if len(head) == _PIECE.size:
        is_response, size = _PIECE.unpack(head)
        data = pieces.read(size)
        if len(data) == size:
            return is_response, data
    raise EOFError
