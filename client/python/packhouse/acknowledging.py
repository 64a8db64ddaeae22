"""Acknowledgements that do not hold up training. See `Loader`."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, Callable, Final, NamedTuple

from packhouse.backoff import Backoff
from packhouse.errors import PackhouseError
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
    or after another failure, sending stops until the next method that is called has raised the
    failure. Acknowledgements that were not sent wait to be tried again. Thread-safe.
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
        # The lock itself is entered in a fifth of the time, and for each batch.
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        # Below: guarded by _condition.
        self._thread: threading.Thread | None = None
        self._waiting: deque[Lease] = deque()
        self._sending: list[Lease] = []
        # Whether the thread waits for something to send; else it need not be woken for one more.
        self._is_idle = False
        self._is_hurried = False
        self._closed = False
        self._failure: PackhouseError | None = None
        # reset() starts a new round; what is of an earlier round no longer matters.
        self._round = 0
        # Of the streams that were opened here, by epoch and generation: the present one, and all.
        self._generation = (0, 0)
        self._session = 0
        self._own_sessions: set[int] = set()
        self._cursor = ""

    @property
    def cursor(self) -> str:
        """The state of all workers when the last acknowledgement became durable."""
        with self._condition:
            return self._cursor

    def renew(self, epoch: int, generation: int, session: int) -> None:
        """This session has taken over from those that were renewed in this generation before."""
        with self._condition:
            if self._generation != (epoch, generation):
                self._generation = (epoch, generation)
                self._own_sessions.clear()
            self._session = session
            self._own_sessions.add(session)

    def add(self, lease: Lease) -> None:
        """Sends it soon. Raises PackhouseError if sending has failed."""
        with self._lock:
            if self._failure is not None:
                self._check()
            if self._closed:
                raise ValueError("the loader is closed")
            self._waiting.append(lease)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="packhouse-acknowledge", daemon=True
                )
                self._thread.start()
            if self._is_idle or len(self._waiting) == self._gather:
                self._condition.notify_all()

    def hurry(self) -> None:
        """Sends now what was added, although more may come."""
        with self._condition:
            self._hurry()

    def check(self) -> None:
        """Raises PackhouseError if sending has failed."""
        # Without the lock, as it is asked for each batch: who sets it wakes the reader afterwards.
        if self._failure is not None:
            with self._condition:
                self._check()

    def flush(self) -> None:
        """Waits until all that was added is durable. Raises PackhouseError if that fails."""
        with self._condition:
            self._hurry()
            self._condition.wait_for(
                lambda: self._failure is not None or not (self._waiting or self._sending)
            )
            self._check()

    def reset(self) -> None:
        """Forgets what has not been sent, and that sending has failed."""
        with self._condition:
            self._waiting.clear()
            self._is_hurried = False
            self._failure = None
            self._round += 1
            self._condition.notify_all()

    def close(self) -> None:
        """Tries once more to send what waits, then ends the thread. Idempotent."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _check(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            self._condition.notify_all()
            raise failure

    def _hurry(self) -> None:
        if self._waiting and not self._is_hurried:
            self._is_hurried = True
            self._condition.notify_all()

    def _run(self) -> None:
        paused_until = 0.0
        while True:
            with self._condition:
                self._is_idle = True
                self._condition.wait_for(
                    lambda: self._closed or (self._waiting and self._failure is None)
                )
                self._is_idle = False
                if not self._waiting or self._failure is not None:
                    return
                self._condition.wait_for(
                    lambda: (
                        self._closed or self._is_hurried or len(self._waiting) >= self._gather
                    ),
                    timeout=max(0.0, paused_until - time.monotonic()),
                )
                if not self._waiting:
                    continue
                requests = self._take()
                started_in = self._round
            failure: PackhouseError | None = None
            for request in requests:
                failure = self._deliver(request, started_in)
                if failure is not None or self._round != started_in:
                    break
            with self._condition:
                if self._round == started_in:
                    self._failure = failure
                    self._waiting.extendleft(reversed(self._sending))
                self._sending = []
                failed = self._failure is not None
                self._condition.notify_all()
            if failed:
                self._on_failure()
            paused_until = time.monotonic() + _PAUSE

    def _take(self) -> list[Any]:
        """The requests for all that waits, or the first part of it, in the order of _sending."""
        taken: dict[tuple[int, int, int], list[Lease]] = {}
        for _ in range(min(len(self._waiting), _MAX_BATCHES)):
            lease = self._waiting.popleft()
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

    def _deliver(self, request: Any, started_in: int) -> PackhouseError | None:
        """The reason why it was not delivered; None if it was, and after a reset."""
        backoff = Backoff(self._retry_timeout)
        failure: PackhouseError | None = None
        cursor = ""
        while True:
            try:
                cursor = self._send(request).cursor
                break
            except PackhouseError as error:
                try:
                    delay = backoff.delay_after(error)
                except PackhouseError as final:
                    failure = final
                    break
                with self._condition:
                    failure = error
                    if self._closed or self._round != started_in:
                        break
                    self._condition.wait_for(
                        lambda: self._closed or self._round != started_in, timeout=delay
                    )
                    failure = None
                    if self._round != started_in:
                        break
        with self._condition:
            if self._round == started_in and failure is None:
                self._cursor = cursor
                del self._sending[: len(request.batches)]
        return failure
