"""Acknowledgements and back-off, without a server."""

from __future__ import annotations

import sys
import threading
from typing import Any

import grpc
import pytest

from packhouse import PackhouseError
from packhouse.calls.retrying import Backoff
from packhouse.epochs.acknowledging import Acknowledger, Lease
from packhouse.v1 import loader_pb2

AWAY = PackhouseError(grpc.StatusCode.UNAVAILABLE, "away")
OVER = PackhouseError(grpc.StatusCode.FAILED_PRECONDITION, "over")


class Ledger:
    """Answers acknowledgements once it is told to; notes what came."""

    def __init__(self, *failures: BaseException) -> None:
        self.calls: list[tuple[int, int, int, list[int]]] = []
        self.arrived = threading.Semaphore(0)
        self.answer = threading.Semaphore(0)
        self.failures = list(failures)
        self.given_up = 0
        self._busy = threading.Lock()

    def __call__(self, request: Any) -> Any:
        assert self._busy.acquire(blocking=False), "two calls at once"
        self.arrived.release()
        self.answer.acquire()
        self._busy.release()
        if self.failures:
            raise self.failures.pop(0)
        self.calls.append(
            (request.epoch, request.generation, request.session, list(request.batches))
        )
        return loader_pb2.AcknowledgeResponse(cursor=f"cursor {len(self.calls)}")

    def give_up(self) -> None:
        self.given_up += 1

    def acknowledger(self, retry_timeout: float = 60.0, gather: int = 1) -> Acknowledger:
        return Acknowledger(self, "job", retry_timeout, self.give_up, gather)


def test_what_gathers_during_a_call_goes_with_the_next_one() -> None:
    ledger = Ledger()
    acknowledger = ledger.acknowledger()
    acknowledger.flush()
    acknowledger.add(Lease(0, 1, 5, 100))
    ledger.arrived.acquire()
    for number in range(3):
        acknowledger.add(Lease(0, 1, 5, number))
    acknowledger.add(Lease(0, 2, 6, 7))
    acknowledger.add(Lease(1, 2, 6, 8))
    # Where the stream was lost, the next one has taken over.
    acknowledger.renew(0, 2, 6)
    acknowledger.renew(0, 2, 9)
    assert acknowledger.cursor == ""
    for _ in range(4):
        ledger.answer.release()
    acknowledger.flush()
    assert ledger.calls == [
        (0, 1, 5, [100]),
        (0, 1, 5, [0, 1, 2]),
        (0, 2, 9, [7]),
        (1, 2, 6, [8]),
    ]
    assert acknowledger.cursor == "cursor 4"
    acknowledger.close()
    with pytest.raises(ValueError, match="closed"):
        acknowledger.add(Lease(0, 1, 5, 1))


def test_each_batch_is_sent_under_its_own_session() -> None:
    """As for a trainer whose batches several worker processes have read, in turn."""
    ledger = Ledger()
    acknowledger = ledger.acknowledger()
    acknowledger.add(Lease(0, 1, 5, 100))
    ledger.arrived.acquire()
    for number in range(6):
        acknowledger.add(Lease(0, 1, 5 + number % 3, number))
    for _ in range(4):
        ledger.answer.release()
    acknowledger.flush()
    assert ledger.calls == [(0, 1, 5, [100])] + [
        (0, 1, 5 + reader, [reader, reader + 3]) for reader in range(3)
    ]
    acknowledger.close()


def test_what_a_failure_left_unsent_is_sent_later_and_nothing_twice() -> None:
    ledger = Ledger()
    acknowledger = ledger.acknowledger()
    acknowledger.add(Lease(0, 1, 5, 100))
    ledger.arrived.acquire()
    for number in range(6):
        acknowledger.add(Lease(0, 1, 5 + number % 3, number))
    ledger.answer.release()
    ledger.arrived.acquire()
    ledger.answer.release()
    ledger.arrived.acquire()
    ledger.failures = [OVER]
    for _ in range(3):
        ledger.answer.release()
    with pytest.raises(PackhouseError, match="over"):
        acknowledger.flush()
    acknowledger.flush()
    sent = [(session, numbers) for _, _, session, numbers in ledger.calls]
    assert sent == [(5, [100]), (5, [0, 3]), (6, [1, 4]), (7, [2, 5])]
    acknowledger.close()


def test_soon_after_a_call_some_must_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    # A pause that never ends by itself.
    monkeypatch.setattr("packhouse.epochs.acknowledging._PAUSE", 1000.0)
    ledger = Ledger()
    for _ in range(4):
        ledger.answer.release()
    acknowledger = ledger.acknowledger(gather=3)
    # The first one waits for nothing.
    acknowledger.add(Lease(0, 1, 5, 0))
    ledger.arrived.acquire()
    for number in range(1, 4):
        acknowledger.add(Lease(0, 1, 5, number))
    ledger.arrived.acquire()
    acknowledger.add(Lease(0, 1, 5, 4))
    acknowledger.hurry()
    ledger.arrived.acquire()
    acknowledger.add(Lease(0, 1, 5, 5))
    acknowledger.flush()
    acknowledger.close()
    assert ledger.calls == [(0, 1, 5, numbers) for numbers in ([0], [1, 2, 3], [4], [5])]


def test_a_failure_is_raised_once_and_nothing_is_forgotten() -> None:
    ledger = Ledger(AWAY, AWAY, OVER)
    acknowledger = ledger.acknowledger()
    acknowledger.add(Lease(0, 1, 5, 3))
    for _ in range(4):
        ledger.answer.release()
    with pytest.raises(PackhouseError, match="over"):
        acknowledger.flush()
    assert ledger.given_up == 1
    acknowledger.flush()
    assert ledger.calls == [(0, 1, 5, [3])]
    acknowledger.close()


@pytest.mark.parametrize("failure", [OSError, ValueError, MemoryError, KeyboardInterrupt])
def test_what_nobody_expected_is_raised_and_sending_goes_on(failure: type[BaseException]) -> None:
    """Whatever a call ends with: whoever waits gets it, and what was not sent is sent later."""
    ledger = Ledger(failure())
    acknowledger = ledger.acknowledger()
    ledger.answer.release(2)
    acknowledger.add(Lease(0, 1, 5, 1))
    with pytest.raises(failure):
        acknowledger.flush()
    acknowledger.flush()
    assert ledger.calls == [(0, 1, 5, [1])]
    assert acknowledger.close(60)


def test_a_reset_forgets_what_was_not_sent() -> None:
    ledger = Ledger(AWAY)
    acknowledger = ledger.acknowledger()
    acknowledger.add(Lease(0, 1, 5, 3))
    ledger.arrived.acquire()
    acknowledger.add(Lease(0, 1, 5, 4))
    acknowledger.reset()
    ledger.answer.release()
    acknowledger.flush()
    acknowledger.check()
    acknowledger.add(Lease(0, 2, 6, 3))
    ledger.answer.release()
    acknowledger.flush()
    assert ledger.calls == [(0, 2, 6, [3])]
    acknowledger.close()


def test_closing_sends_what_waits_but_does_not_wait_for_a_server() -> None:
    ledger = Ledger(AWAY)
    acknowledger = ledger.acknowledger()
    acknowledger.add(Lease(0, 1, 5, 3))
    for _ in range(2):
        ledger.answer.release()
    acknowledger.close()
    acknowledger.close()
    # Whether it was tried once or twice depends on who was faster.
    assert ledger.calls in ([], [(0, 1, 5, [3])])

    ledger = Ledger()
    acknowledger = ledger.acknowledger()
    acknowledger.add(Lease(0, 1, 5, 3))
    ledger.answer.release()
    acknowledger.close()
    assert ledger.calls == [(0, 1, 5, [3])]


def test_delays_grow_until_it_is_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("packhouse.calls.retrying.time.monotonic", lambda: now[0])
    backoff = Backoff(10)
    bounds = [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    for bound in bounds:
        delay = backoff.delay_after(AWAY)
        assert bound / 2 <= delay <= bound
    now[0] += 9.9
    assert backoff.delay_after(AWAY) <= 0.1 + 1e-9
    now[0] += 0.1
    with pytest.raises(PackhouseError, match="away"):
        backoff.delay_after(AWAY)
    backoff.succeeded()
    assert backoff.delay_after(AWAY) <= 0.05
    with pytest.raises(PackhouseError, match="over"):
        backoff.delay_after(OVER)


class Asleep(Exception):
    """The thread waits, and nobody has woken it."""


class Wakes:
    """What wakes the thread, which is this one here."""

    def __init__(self) -> None:
        self.count = 0

    def put(self, _: None) -> None:
        self.count += 1

    def get(self, timeout: float | None = None) -> None:
        if self.count == 0:
            raise Asleep
        self.count -= 1


def test_what_is_added_while_the_thread_looks_for_it_is_found() -> None:
    """At each line of the thread: `add` takes no lock."""
    code = Acknowledger._await_leases.__code__
    num_found = 0
    for line in sorted({line for _, _, line in code.co_lines() if line}):
        acknowledger = Ledger().acknowledger(gather=8)
        wakes: Any = Wakes()
        acknowledger._wakes = wakes
        acknowledger.is_sending = True
        has_added = False

        def trace(frame: Any, event: str, arg: Any) -> Any:
            nonlocal has_added
            if frame.f_code is not code:
                return None
            if event == "line" and frame.f_lineno == line and not has_added:
                has_added = True
                acknowledger.add(Lease(0, 1, 5, 1))
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert acknowledger._await_leases()
            num_found += 1
        except Asleep:
            assert not has_added, line
        finally:
            sys.settrace(before)
    assert num_found > 4
