"""A loader's server that is silent is noticed while the loader waits, and only then."""

from __future__ import annotations

import queue
import threading

import pytest

from packhouse.calls.retrying import SilenceWatch
from packhouse.calls.servers import Replicas
from packhouse.epochs.load_connection import LoadConnection
from packhouse.epochs.request import Connecting

_PERIOD = 0.002


class _Server:
    """Says whether it lives as it was told to; the watch asks it."""

    def __init__(self) -> None:
        self.lives = True
        self.asked = threading.Semaphore(0)
        self.silent = threading.Event()
        self.watch = SilenceWatch(self._ask, self.silent.set, lambda: None, _PERIOD)

    def _ask(self) -> bool:
        self.asked.release()
        return self.lives


def test_who_waits_for_long_asks_again() -> None:
    """As long as the server answers, nothing is told."""
    server = _Server()
    server.watch.start()
    server.watch.waiting = 1
    for _ in range(3):
        assert server.asked.acquire(timeout=60)
    assert not server.silent.is_set()
    server.watch.close()


def test_silence_is_told_while_it_is_waited_for() -> None:
    """Who waits is told so."""
    server = _Server()
    server.lives = False
    server.watch.waiting = 7
    server.watch.start()
    assert server.silent.wait(60)
    server.watch.close()


@pytest.mark.parametrize("failure", [OSError, ValueError, MemoryError, KeyboardInterrupt])
def test_what_nobody_expected_ends_the_wait_and_the_next_one_is_watched(
    failure: type[BaseException],
) -> None:
    """Whatever asking raises: who waits tries again, and is watched as before."""
    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def ask() -> bool:
        raise failure

    watch = SilenceWatch(ask, lambda: told.put("silent"), lambda: told.put("ended"), _PERIOD)
    watch.waiting = 1
    for _ in range(3):
        watch.start()
        assert [told.get(timeout=60) for _ in range(2)] == ["silent", "ended"]
    watch.close()


def test_what_came_meanwhile_is_no_silence() -> None:
    """An answer that comes while the server is asked is an answer."""
    silent = threading.Event()
    asked = threading.Event()

    def ask() -> bool:
        # The next wait has begun.
        watch.waiting += 1
        asked.set()
        return False

    watch = SilenceWatch(ask, silent.set, lambda: None, _PERIOD)
    watch.waiting = 1
    watch.start()
    assert asked.wait(60)
    watch.close()
    assert not silent.is_set()


def test_a_late_verdict_ends_only_the_call_that_was_asked_for() -> None:
    """The next call may have begun before the silent one is ended."""

    class Call:
        is_cancelled = False

        def cancel(self) -> None:
            self.is_cancelled = True

    connection = LoadConnection(Connecting("a:1,b:1"))
    ends = connection._silence._on_silence
    asked, later = Call(), Call()
    connection._load, connection._load_address = asked, "a:1"
    # So a:1 is not the one to wait for, and is not asked.
    connection._replicas.redirected("b:1")
    assert not connection._silence._lives()
    connection._load = later
    ends()
    assert asked.is_cancelled and not later.is_cancelled
    assert connection._silent_load is asked
    connection._load = None
    connection.close()


def test_a_lost_server_is_given_less_time() -> None:
    """Until it answers again; one that is lost again and again may only be slow."""

    def connecting(servers: Replicas) -> int:
        return int(dict(servers.options("b:1", pings=False))["grpc.min_reconnect_backoff_ms"])

    servers = Replicas("a:1,b:1")
    first = connecting(servers)
    servers.lost("b:1")
    assert connecting(servers) < first
    servers.answered("b:1")
    assert connecting(servers) == first
    for _ in range(100):
        servers.lost("b:1")
    assert connecting(servers) == first


def test_pings_are_for_channels_that_somebody_reads() -> None:
    """Nobody takes the answers of a stream whose caller trains; one server alone needs no pings."""
    assert not Replicas("a:1").options("a:1", pings=True)
    ping = "grpc.keepalive_time_ms"
    assert ping in dict(Replicas("a:1,b:1").options("a:1", pings=True))
    assert ping not in dict(Replicas("a:1,b:1").options("a:1", pings=False))
