"""Acknowledgements that do not hold up training. See `Loader`."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from typing import Any, Callable, Final, NamedTuple

from packhouse.base.errors import PackhouseError
from packhouse.base.waiting import HelperThread
from packhouse.calls.retrying import Backoff
from packhouse.v1 import loader_pb2

# The most that one request may have.
_MAX_BATCHES: Final = 65536
# Seconds from one call to the next, for others to gather: a call costs as much as ten batches.
_PAUSE: Final = 0.03


class Lease(NamedTuple):
    """A batch's number, and to whom it was given: small for any batch."""

    epoch: int
    generation: int
    session: int
    number: int
    step: int = 0


class Acknowledger:
    """Sends acknowledgements on a thread of its own; those that have gathered go in one call per
    session.

    A call has the batches of one session, because it shows that this session is alive; a trainer
    may acknowledge batches that several worker processes have read. The first acknowledgement is
    sent at once. Those that come within 30 ms after a call wait for each other until that time is
    over, until there are `gather` of them, or until somebody calls `hurry`.

    Calls that fail because the server is away are tried again, for `retry_timeout` seconds. Then,
    or after any other failure, also one that nobody expected, sending stops until the next method
    that is called has raised the failure. Acknowledgements that were not sent wait to be tried
    again. Thread-safe. An exception that a signal handler raises in any method leaves it sound: an
    acknowledgement may be sent twice then, which the server takes for one.
    """

    def __init__(
        self,
        send: Callable[[Any], Any],
        job: str,
        retry_timeout: float,
        on_failure: Callable[[], None],
        gather: int = 1,
    ) -> None:
        """`send` makes the call `packhouse.v1.LoaderService.Acknowledge` or raises PackhouseError.

        `on_failure` is called, on the thread that sends, when sending stops.
        """
        self._send = send
        self._on_failure = on_failure
        self._job = job
        self._retry_timeout = retry_timeout
        self._gather = gather
        # Its thread is started with _lock.
        self._sender = HelperThread("packhouse-acknowledge", self._work, self._fail)
        # No threading.Condition: its methods are Python's own, and a signal handler that raises in
        # the midst of one may leave the lock held. A lock and a queue are of C.
        self._lock = threading.RLock()
        # Each item lets the thread look again.
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        # Below: guarded by _lock, but for what `add` reads, and adds to `_waiting`.
        # Of those who wait until all is sent, or sending has failed.
        self._flushing: list[queue.SimpleQueue[None]] = []
        self._waiting: deque[Lease] = deque()
        self._sending: list[Lease] = []
        # Whether the thread waits for something to send; else it need not be woken for one more.
        self._is_idle = False
        self._is_hurried = False
        self._closed = False
        self._failure: BaseException | None = None
        # Whether the thread was started and has told no failure since: then it is at work, or tells
        # one, and to look at it for each batch would cost more than all else here. Not once it is closed.
        self.is_sending = False
        # reset() starts a new round; what is of an earlier round no longer matters.
        self._round = 0
        # Of the streams that were opened here, by epoch and generation: the present one, and all.
        self._generation = (0, 0)
        self._session = 0
        self._own_sessions: set[int] = set()
        self._cursor = ""
        # The thread's own.
        self._paused_until = 0.0

    @property
    def cursor(self) -> str:
        """The state of all workers when the last acknowledgement became durable."""
        with self._lock:
            return self._cursor

    def renew(self, epoch: int, generation: int, session: int) -> None:
        """This session has taken over from those that were renewed in this generation before."""
        with self._lock:
            if self._generation != (epoch, generation):
                self._generation = (epoch, generation)
                self._own_sessions.clear()
            self._session = session
            self._own_sessions.add(session)

    def add(self, lease: Lease) -> None:
        """Sends it soon. Raises what sending has failed with; then it waits, too."""
        # Without the lock, as it is called for each batch. The thread says that it is idle, or ends,
        # before it looks at what waits; so one of the two sees what the other one has done.
        self._waiting.append(lease)
        if not self.is_sending:
            with self._lock:
                self._check()
                if self._closed:
                    raise ValueError("the loader is closed")
                self._start()
        if self._is_idle or len(self._waiting) == self._gather:
            self._wakes.put(None)

    def hurry(self) -> None:
        """Sends now what was added, although more may come."""
        with self._lock:
            self._hurry()

    def check(self) -> None:
        """Raises what sending has failed with."""
        # Without the lock, as it is asked for each batch: who sets it wakes the reader afterwards.
        if self._failure is None and not (self._waiting or self._sending):
            return
        with self._lock:
            self._check()
            if (self._waiting or self._sending) and not self._closed:
                self._start()

    def flush(self) -> None:
        """Waits until all that was added is durable. Raises what sending has failed with."""
        told: queue.SimpleQueue[None] = queue.SimpleQueue()
        try:
            while True:
                with self._lock:
                    if self._failure is not None or not (self._waiting or self._sending):
                        self._check()
                        return
                    if self._closed:
                        raise ValueError("the loader is closed")
                    if told not in self._flushing:
                        self._flushing.append(told)
                    self._hurry()
                    self._start()
                told.get()
        finally:
            with self._lock:
                self._flushing = [each for each in self._flushing if each is not told]

    def reset(self) -> None:
        """Forgets what has not been sent, and that sending has failed."""
        with self._lock:
            self._waiting.clear()
            self._sending = []
            self._is_hurried = False
            self._failure = None
            self._round += 1
            self._tell()

    def close(self, timeout: float | None = None) -> bool:
        """Tries once more to send what waits, then ends the thread. Idempotent.

        False if the thread has not ended within `timeout` seconds (None: however long it takes).
        """
        with self._lock:
            if not self._closed and self._failure is None and (self._waiting or self._sending):
                # Of a thread that died. As the interpreter ends, there are no more threads.
                with contextlib.suppress(RuntimeError):
                    self._start()
            self._closed = True
            self.is_sending = False
            self._tell()
        return self._sender.join(timeout)

    def _start(self) -> None:
        self._sender.start()
        self.is_sending = True

    def _check(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            self._tell()
            raise failure

    def _hurry(self) -> None:
        if self._waiting and not self._is_hurried:
            self._is_hurried = True
            self._wakes.put(None)

    def _tell(self) -> None:
        """Lets all look again. With the lock."""
        self._wakes.put(None)
        for told in self._flushing:
            told.put(None)

    def _work(self) -> None:
        while self._turn():
            pass

    def _turn(self) -> bool:
        """Waits for something to send, and sends it. False: the thread is to end."""
        with self._lock:
            # Of a thread that died, or of a turn that failed.
            self._put_back()
        if not self._await_leases():
            return False
        with self._lock:
            requests = self._take()
            started_in = self._round
        failure: BaseException | None = None
        for request in requests:
            failure = self._deliver(request, started_in)
            if failure is not None or self._round != started_in:
                break
        self._paused_until = time.monotonic() + _PAUSE
        if failure is not None:
            self._fail(failure, started_in)
        else:
            with self._lock:
                self._tell_if_idle()
        return True

    def _await_leases(self) -> bool:
        """Waits until there is something to send; False: nothing will come."""
        while True:
            with self._lock:
                self._is_idle = True
                can_send = bool(self._waiting) and self._failure is None
                if self._closed and not can_send:
                    return False
                pause = self._paused_until - time.monotonic()
                is_due = pause <= 0 or len(self._waiting) >= self._gather
                if can_send and (is_due or self._is_hurried or self._closed):
                    self._is_idle = False
                    return True
                self._is_idle = not can_send
            self._wait(pause if can_send else None)

    def _wait(self, timeout: float | None) -> None:
        with contextlib.suppress(queue.Empty):
            self._wakes.get(timeout=timeout)

    def _fail(self, failure: BaseException, started_in: int | None = None) -> None:
        """Sending stops until this is raised, unless it is of an earlier round. Another thread may
        be sending already.
        """
        with self._lock:
            if started_in not in (None, self._round):
                return
            self.is_sending = False
            self._failure = failure
            self._is_idle = True
            for told in self._flushing:
                told.put(None)
        self._on_failure()

    def _put_back(self) -> None:
        """What was to be sent, and was not, waits again. With the lock."""
        self._waiting.extendleft(reversed(self._sending))
        self._sending = []

    def _tell_if_idle(self) -> None:
        if not self._waiting and not self._sending:
            for told in self._flushing:
                told.put(None)

    def _take(self) -> list[Any]:
        """The requests for all that waits, or the first part of it, in the order of _sending."""
        taken: dict[tuple[int, int, int], list[Lease]] = {}
        for _ in range(min(len(self._waiting), _MAX_BATCHES)):
            # In this order: whatever ends this, nothing is forgotten.
            lease = self._waiting[0]
            self._sending.append(lease)
            self._waiting.popleft()
            session = lease.session
            is_own = self._generation == (lease.epoch, lease.generation)
            if is_own and session in self._own_sessions:
                session = self._session
            taken.setdefault((lease.epoch, lease.generation, session), []).append(lease)
        self._is_hurried = self._is_hurried and bool(self._waiting)
        self._sending = [lease for leases in taken.values() for lease in leases]
        return [
            loader_pb2.AcknowledgeRequest(
                job=self._job,
                epoch=epoch,
                generation=generation,
                session=session,
                batches=[lease.number for lease in leases],
            )
            for (epoch, generation, session), leases in taken.items()
        ]

    def _deliver(self, request: Any, started_in: int) -> BaseException | None:
        """The reason why it was not delivered; None if it was, and after a reset."""
        backoff = Backoff(self._retry_timeout, call=f"Acknowledge of job '{self._job}'")
        while True:
            try:
                cursor = self._send(request).cursor
                break
            except PackhouseError as error:
                try:
                    delay = backoff.delay_after(error)
                except PackhouseError as final:
                    return final
                end = time.monotonic() + delay
                while True:
                    with self._lock:
                        if self._round != started_in:
                            return None
                        if self._closed:
                            return error
                    left = end - time.monotonic()
                    if left <= 0:
                        break
                    self._wait(left)
        with self._lock:
            if self._round == started_in:
                self._cursor = cursor
                del self._sending[: len(request.batches)]
        return None
