"""A loader's connection. See `Loader` and `Evaluation`."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from typing import Any, Callable, Final

import grpc

from packhouse.base.errors import PackhouseError
from packhouse.calls.channel import HEALTH_CHECK, make_channel
from packhouse.calls.lane import Lane, Transport, is_worth_asking
from packhouse.calls.retrying import Backoff, SilenceWatch
from packhouse.calls.servers import Replicas, owner_named_by
from packhouse.data.batch import ReceivedBatch, received_by_protobuf
from packhouse.data.reading import Reader, new_reader, parse_response
from packhouse.epochs.acknowledging import Acknowledger
from packhouse.epochs.relayed_calls import Relay
from packhouse.epochs.request import Connecting
from packhouse.v1 import loader_pb2, loader_pb2_grpc

_LOAD_METHOD: Final = "/packhouse.v1.LoaderService/Load"

# The server's, for max_in_flight 0.
_DEFAULT_IN_FLIGHT: Final = 16

# Seconds in which a server that lives answers a question that costs it nothing.
_SILENCE: Final = 2.0

# Seconds that closing waits for a server that does not answer: who presses Ctrl-C waits as long.
_CLOSING: Final = 3.0

# Connections of processes that this one was forked from: neither use nor close them.
_INHERITED: Final[list[Any]] = []


class _Calls:
    """A channel for unary calls, and how many are under way."""

    def __init__(self, address: str, channel: grpc.Channel) -> None:
        self.address = address
        self.channel = channel
        self.stub = loader_pb2_grpc.LoaderServiceStub(channel)
        self.num_users = 0


class LoadConnection:
    """A stream of batches and calls beside it, in the process that made it.

    Retries for `retry_timeout` seconds what fails because the server is away. Goes to the owner of
    the job, where several servers share the jobs (`Replicas`). Use from one thread; only `call` and
    the acknowledger are thread-safe.
    """

    def __init__(self, connecting: Connecting, *, writable: bool = False) -> None:
        """Connects with the first call. `writable`: batches are, see `Batch.writable`."""
        self.pid = os.getpid()
        self._connecting = connecting
        # Of a worker process: it uses no gRPC as long as batches come by a lane.
        self._relay = Relay(connecting.relay)
        self._replicas = Replicas(connecting.address)
        self._closed = False
        # Whether a channel was made: then what it needs, as the files of `credentials`, was there.
        self._has_connected = False
        # Below, for unary calls, those of any thread: guarded by _lock.
        self._lock = threading.Lock()
        self._calls: _Calls | None = None
        self.acknowledger = Acknowledger(
            lambda request: self._call_once("Acknowledge", request),
            connecting.job,
            connecting.retry_timeout,
            self.interrupt,
            # The server goes on sending meanwhile.
            gather=max(1, (connecting.max_in_flight or _DEFAULT_IN_FLIGHT) // 2),
        )
        # For Load alone. Anew after a failure: gRPC would wait longer and longer with an old one.
        self._load_channel: Any = None
        self._load: Any = None
        self._load_address = ""
        # Of the present call: how many responses have come by it, and its lane, if it has one.
        self._num_responses = 0
        self._lane: Lane | None = None
        # It ended without a word that the next response comes by the call.
        self._has_lost_lane = False
        # How the last call's batches came.
        self._transport: Transport = "bytes"
        # A server that took too long to open a lane is not asked again.
        self._avoids_lane = False
        # Whether another server has named the one that is asked now.
        self._is_redirected = False
        self._is_writable = writable
        self._reader: Reader = new_reader(is_loaded=True, writable=writable, widen=connecting.widen)
        # Whether the reader of Load is to look why nothing may come: since its last `check`.
        self._woken = False
        # The call that was cancelled because its server is silent.
        self._silent_load: Any = None
        # What is asked before Load, until it is answered.
        self._question: Any = None
        # The call for which the server is asked whether it lives: of the watching thread.
        self._asked_load: Any = None
        self._silence = SilenceWatch(self._lives, self._end_silent_load, self.interrupt)
        self._num_waits = 0

    @property
    def longest_delay(self) -> float:
        """Seconds to wait at most before another try."""
        return self._replicas.longest_delay

    @property
    def transport(self) -> Transport:
        """How batches come, or came by the last call."""
        return self._transport

    def call(self, method: str, request: Any) -> Any:
        """Makes a unary call that is safe to retry, and retries it. Raises PackhouseError."""
        backoff = Backoff(self._connecting.retry_timeout, call=self.describe(method))
        while True:
            try:
                return self._call_once(method, request)
            except PackhouseError as error:
                time.sleep(backoff.delay_after(error))

    def get_epoch(self, request: Any) -> Any:
        """The `packhouse.v1.Epoch`, asked for once by the thread that waits for batches; `interrupt`
        ends it. Raises PackhouseError.
        """

        def ask(stub: Any, timeout: float) -> Any:
            self._question = stub.GetEpoch.future(request, timeout=timeout)
            if self._woken:
                # Who woke it may have found no question yet.
                self._question.cancel()
            try:
                return self._question.result()
            except grpc.FutureCancelledError:
                raise PackhouseError(
                    grpc.StatusCode.UNAVAILABLE, "the wait for the epoch was ended"
                ) from None
            finally:
                self._question = None

        return self._make_once(ask)

    def describe(self, method: str) -> str:
        """A call and where it goes, for people."""
        return f"{method} at {self._replicas.current}"

    def receive(self, make_request: Callable[[], Any]) -> Any:
        """The next batch, or another `packhouse.v1.LoadResponse`; makes a call if there is none.

        Raises PackhouseError, UNAVAILABLE also if the stream ends; ValueError if a batch
        contradicts itself. After any other exception, as a signal handler's, what was received may
        be lost: call `abandon`.
        """
        lane = self._lane
        # Who woke it may have found no lane yet, but finds the call.
        if lane is not None and self._num_responses >= lane.num_before and not self._woken:
            self._num_waits += 1
            self._silence.waiting = self._num_waits
            try:
                batch = lane.receive()
            finally:
                self._silence.waiting = 0
            # None: the next response comes by the call.
            if batch is not None:
                return batch
            if lane.has_ended:
                self._lane = None
                self._has_lost_lane = True
        received = self._receive_here(make_request)
        while isinstance(received, loader_pb2.LoadRedirect):
            self.leave()
            # Two servers may name each other for a while: the caller waits, as for any failure.
            if self._is_redirected:
                self._is_redirected = False
                self._replicas.lost(self._load_address)
                raise PackhouseError(
                    grpc.StatusCode.UNAVAILABLE,
                    f"{self._load_address}, which another server named, names {received.address}",
                )
            self._is_redirected = True
            self._replicas.redirected(received.address)
            received = self._receive_here(make_request)
        self._is_redirected = False
        return received

    def _receive_here(self, make_request: Callable[[], Any]) -> Any:
        """The same by the call, from one server; a redirect is returned."""
        if self._closed:
            raise ValueError("the loader is closed")
        try:
            if self._load is None:
                address = self._replicas.current
                if self._load_channel is not None and address != self._load_address:
                    self._load_channel.close()
                    self._load_channel = None
                if self._load_channel is None:
                    self._load_address = address
                    self._load_channel = self._make_channel(address, reads_on_callers_thread=True)
                start_load = self._load_channel.unary_stream(
                    _LOAD_METHOD, request_serializer=loader_pb2.LoadRequest.SerializeToString
                )
                request = make_request()
                lane = "off" if self._avoids_lane else self._connecting.lane
                request.lane = is_worth_asking(address, lane)
                self._num_responses = 0
                self._has_lost_lane = False
                self._load = start_load(request)
            if self._replicas.are_several:
                self._silence.start()
            load = self._load
            if self._woken:
                # Who woke it may have found no call yet.
                load.cancel()
            self._num_waits += 1
            self._silence.waiting = self._num_waits
            try:
                response: bytes = next(load)
            finally:
                self._silence.waiting = 0
            self._replicas.answered(self._load_address)
        except StopIteration:
            self._lose()
            raise PackhouseError(
                grpc.StatusCode.UNAVAILABLE, "the stream ended before the epoch did"
            ) from None
        except grpc.RpcError as error:
            # Not chained: the error is the call, and would keep it alive.
            failure = PackhouseError.of(error)
        else:
            if self._has_lost_lane:
                # Batches may be missing that the lane had, or would have had.
                raise PackhouseError(
                    grpc.StatusCode.UNAVAILABLE, "the lane ended before its call did"
                )
            self._num_responses += 1
            received = self._reader.read(response) or self._parse(response)
            if self._transport == "lane" and isinstance(received, ReceivedBatch):
                # All batches of a lane may be written to, those that come beside it too.
                return received.writable()
            return received
        if self._silent_load is load:
            failure = PackhouseError(
                grpc.StatusCode.UNAVAILABLE, f"{self._load_address} does not answer"
            )
            self._lose()
        elif self._woken:
            failure = PackhouseError(grpc.StatusCode.UNAVAILABLE, "the wait for a batch was ended")
        elif failure.passes and failure.code is not grpc.StatusCode.CANCELLED:
            self._lose()
        raise failure

    def _lose(self) -> None:
        """The next Load goes elsewhere, if there is somewhere else."""
        self._is_redirected = False
        self._replicas.lost(self._load_address)

    def finish(self) -> None:
        """Reads the end of the call after the end of the epoch; the next epoch uses the same
        connection.
        """
        self._num_waits += 1
        self._silence.waiting = self._num_waits
        try:
            for _ in self._load:
                pass
            self._load = None
            self._close_lane()
        except grpc.RpcError:  # All has come, however the stream ends.
            self.leave()
        finally:
            self._silence.waiting = 0

    def leave(self) -> None:
        """Ends Load, if it runs."""
        if self._load is not None:
            self.abandon()

    def abandon(self, *, is_interrupted: bool = False) -> None:
        """Ends Load, and its connection, in whatever state they are; may be called again.

        `is_interrupted`: an exception may have come in the midst of gRPC's work.
        """
        load, channel = self._load, self._load_channel
        try:
            self._close_lane()
            if load is not None:
                load.cancel()
            if channel is not None:
                channel.close()
            if load is not None and is_interrupted:
                # On a thread: of what gRPC waits for, something may have been lost.
                threading.Thread(
                    target=_drain, args=(load,), name="packhouse-drain", daemon=True
                ).start()
            elif load is not None:
                _drain(load)
        finally:
            self._load = self._load_channel = None

    def check(self) -> None:
        """Raises what acknowledging has failed with. To be called before `receive`: whatever fails
        from now on ends that wait, though it may not have begun.
        """
        self._woken = False
        # Without a call, as this is asked for each batch.
        if not self.acknowledger.is_sending:
            self.acknowledger.check()

    def interrupt(self) -> None:
        """Ends what another thread waits for in `receive`, or will before its next `check`; that
        raises PackhouseError.
        """
        # Before the call is looked for: its reader looks the other way round.
        self._woken = True
        self._cancel(self._load)

    def close(self) -> None:
        """Tries for some seconds to send the waiting acknowledgements, and disconnects. Idempotent.
        """
        if self.pid != os.getpid():
            _INHERITED.append(self)
            return
        self._silence.close()
        self.abandon(is_interrupted=is_foreign(sys.exc_info()[1]))
        has_ended = self.acknowledger.close(_CLOSING)
        with self._lock:
            self._closed = True
            calls, self._calls = self._calls, None
        if calls is not None:
            # Ends the call that waits, too.
            calls.channel.close()
        if not has_ended:
            self.acknowledger.close(_CLOSING)

    def _parse(self, data: bytes) -> Any:
        response = parse_response(loader_pb2.LoadResponse, data)
        if response.HasField("redirect"):
            return response.redirect
        if response.HasField("opened"):
            self._open_lane(response.opened)
        if not response.HasField("batch"):
            return response
        batch = received_by_protobuf(response.batch.batch, response.batch)
        batch = batch.as_wanted(widen=self._connecting.widen)
        return batch.writable() if self._is_writable else batch

    def _open_lane(self, opened: Any) -> None:
        """Raises PackhouseError if there is none, and must be one."""
        self._transport = "bytes"
        why = "the server does not know lanes"
        code = grpc.StatusCode.FAILED_PRECONDITION
        if opened.HasField("lane"):
            why = opened.lane.refusal
        if opened.lane.token:
            try:
                self._lane = Lane(opened.lane, self._reader, self._parse)
                self._transport = "lane"
                return
            except socket.timeout:
                why = "the server does not take the connection"
                # It may have, meanwhile, and then ends the call.
                self._avoids_lane = self._connecting.lane != "required"
            except (ConnectionAbortedError, ConnectionResetError):
                # A short evaluation: its call has sent all, and has ended for the server.
                return
            except OSError as error:
                why = f"{opened.lane.socket_path}: {error.strerror or error}"
                if isinstance(error, ConnectionRefusedError):
                    # It has gone, if it was here.
                    code = grpc.StatusCode.UNAVAILABLE
        if self._connecting.lane == "required":
            raise PackhouseError(
                code, f"lane 'required': {self._load_address} gives none: {why}"
            )
        if not self._relay.is_left:
            # So much is not for another process to hand on.
            self._relay.is_left = True
            raise PackhouseError(
                grpc.StatusCode.UNAVAILABLE, f"{self._load_address} gives no lane: {why}"
            )

    def _close_lane(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.close()

    def _cancel(self, load: Any) -> None:
        """Ends a call, and what waits for its lane or before it. From any thread."""
        if load is not None:
            load.cancel()
        question = self._question
        if question is not None:
            question.cancel()
        lane = self._lane
        if lane is not None:
            lane.interrupt()

    def _lives(self) -> bool:
        """Whether the server that Load waits for answers, and is still the one to wait for."""
        # Before the address: the call may not have been made there, but then nobody waits for it.
        self._asked_load = self._load
        if self._replicas.owner not in (None, self._load_address):
            return False
        with self._lock:
            if self._closed:
                return True
            calls = self._take_calls(self._load_address)
        is_away = False
        try:
            calls.channel.unary_unary(HEALTH_CHECK)(b"", timeout=_SILENCE, wait_for_ready=True)
        except grpc.RpcError as error:
            # Whatever else it says, it says something.
            is_away = error.code() in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            )
        except ValueError:  # Closed meanwhile.
            pass
        finally:
            self._leave_calls(calls, is_away)
        return not is_away

    def _end_silent_load(self) -> None:
        # Not the present call, which may be a later one, to a server that nobody has asked.
        load, self._asked_load = self._asked_load, None
        if load is not None:
            self._silent_load = load
            self._cancel(load)

    def _make_channel(
        self, address: str, *, reads_on_callers_thread: bool = False
    ) -> Any:
        try:
            # All calls are safe to retry; they are retried here, for longer than gRPC does.
            options = (
                ("grpc.enable_retries", 0),
                *self._replicas.options(address, pings=not reads_on_callers_thread),
                *self._connecting.options,
            )
            if not self._relay.is_left:
                return self._relay.channel(address, options)
            channel = make_channel(
                address,
                max_message_bytes=self._connecting.max_message_bytes,
                options=options,
                credentials=self._connecting.credentials,
                reads_on_callers_thread=reads_on_callers_thread,
            )
        except (OSError, ValueError) as error:
            if not self._has_connected:
                raise
            # A file that was there before: whoever renews it puts it back.
            raise PackhouseError(
                grpc.StatusCode.UNAVAILABLE, f"no connection to {address} can be made: {error}"
            ) from error
        self._has_connected = True
        return channel

    def _call_once(self, method: str, request: Any) -> Any:
        return self._make_once(
            lambda stub, timeout: getattr(stub, method)(request, timeout=timeout)
        )

    def _make_once(self, make: Callable[[Any, float], Any]) -> Any:
        with self._lock:
            if self._closed:
                raise ValueError("the loader is closed")
            calls = self._take_calls(self._replicas.current)
        is_away = False
        try:
            return make(calls.stub, self._connecting.timeout)
        except grpc.RpcError as error:
            failure = PackhouseError.of(error)
            is_away = failure.code in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            )
            if is_away:
                owner = owner_named_by(error)
                if owner is not None:
                    self._replicas.redirected(owner)
                else:
                    self._replicas.lost(calls.address)
        finally:
            self._leave_calls(calls, is_away)
        raise failure

    def _take_calls(self, address: str) -> _Calls:
        """The calls to that server, and one user more. With the lock."""
        if self._calls is not None and self._calls.address != address:
            # Its last user closes it.
            unused, self._calls = self._calls, None
            if unused.num_users == 0:
                unused.channel.close()
        if self._calls is None:
            self._calls = _Calls(address, self._make_channel(address))
        self._calls.num_users += 1
        return self._calls

    def _leave_calls(self, calls: _Calls, is_away: bool) -> None:
        """After `is_away` the next call has a channel of its own: an old one would wait longer and
        longer. The last of the threads that use that one closes it."""
        with self._lock:
            if is_away and self._calls is calls:
                self._calls = None
            calls.num_users -= 1
            is_last = calls.num_users == 0 and self._calls is not calls
        if is_last:
            calls.channel.close()


def is_foreign(error: BaseException | None) -> bool:
    """Whether it may be a signal handler's, raised in the midst of anything."""
    return error is not None and not isinstance(error, (PackhouseError, ValueError, GeneratorExit))


def _drain(load: Any) -> None:
    """Hears out a call that has ended. Until then gRPC keeps the connection, even when no object is
    left: nobody else listens where calls are read on their caller's thread.
    """
    state, hear = getattr(load, "_state", None), getattr(load, "_consume_next_event", None)
    while hear is not None and getattr(state, "due", None):
        hear()
