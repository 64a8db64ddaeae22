"""Laws of the process that makes a trainer's calls: each question gets its own answer, or none."""

from __future__ import annotations

import io
import os
import pickle
import queue
import signal
import socket
import subprocess
import threading
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from packhouse import PackhouseError
from packhouse.epochs import relayed_calls, trainer_calls
from packhouse.epochs.acknowledging import Lease
from packhouse.epochs.relayed_calls import Relay, RelayedChannel, serve_calls
from packhouse.epochs.request import Connecting
from packhouse.epochs.trainer_calls import TrainerCalls
from packhouse.v1 import loader_pb2


class Answers:
    """A process that has said this."""

    def __init__(self, *answers: tuple[Any, ...]) -> None:
        self.stdin = io.BytesIO()
        self.stdout = io.BytesIO(b"".join(map(pickle.dumps, answers)))
        self.is_killed = False

    def kill(self) -> None:
        self.is_killed = True

    def wait(self) -> int:
        return 0


def position(cursor: str) -> bytes:
    return loader_pb2.AcknowledgeResponse(cursor=cursor).SerializeToString()


def ask(calls: TrainerCalls) -> str:
    request = loader_pb2.AcknowledgeRequest()
    return str(calls.call("Acknowledge", request, loader_pb2.AcknowledgeResponse).cursor)


def test_an_answer_to_another_question_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = TrainerCalls(Connecting("nowhere"))
    # As after a question whose answer nobody has read.
    shifted = Answers((1, "ok", position("a")), (1, "ok", position("b")), (2, "ok", position("c")))
    monkeypatch.setattr(calls, "_process", shifted)
    assert ask(calls) == "a"
    with pytest.raises(RuntimeError, match="question 2 got the answer to 1"):
        ask(calls)
    # It is not asked again: another one is.
    assert shifted.is_killed
    started = Answers((3, "ok", position("d")))

    def begin() -> bool:
        monkeypatch.setattr(calls, "_process", started)
        return True

    monkeypatch.setattr(calls, "_begin", begin)
    assert ask(calls) == "d"


class Process(Answers):
    """One that is started, and says this; or has gone, or hears nothing."""

    def __init__(self, *answers: tuple[Any, ...], hears: bool = True, returncode: int = 3) -> None:
        super().__init__(*answers)
        self.hears = hears
        self.returncode: int | None = None
        self._status = returncode
        self._said: list[Any] = []
        self.stdin = self  # type: ignore[assignment]
        self.heard: list[Any] = []
        self.is_closed = False
        self.ending = ""

    def write(self, data: bytes) -> None:
        if not self.hears:
            raise BrokenPipeError
        self._said.append(pickle.loads(data))

    def flush(self) -> None:
        self.heard += self._said
        self._said = []

    def wait(self, timeout: float | None = None) -> int:
        self.returncode = self._status
        return self._status

    def close(self) -> None:
        self.is_closed = True


class Finalizer:
    """As that of weakref, of a process; notes what becomes of it there."""

    def __init__(self, calls: TrainerCalls, end: Any, process: Process, owner: int) -> None:
        assert end is trainer_calls._end and owner == os.getpid()
        self.process = process

    def __call__(self) -> None:
        self.process.ending = "ended"

    def detach(self) -> None:
        self.process.ending = "detached"


def starting(
    monkeypatch: pytest.MonkeyPatch, *processes: Process
) -> tuple[TrainerCalls, list[list[str]]]:
    """Calls by these processes, one after another, and the command of each that was started."""
    left = list(processes)
    commands: list[list[str]] = []

    def start(command: list[str], **arguments: Any) -> Process:
        assert arguments["stdin"] == arguments["stdout"] == subprocess.PIPE
        commands.append(command)
        return left.pop(0)

    monkeypatch.setattr(trainer_calls.subprocess, "Popen", start)
    monkeypatch.setattr(trainer_calls.weakref, "finalize", Finalizer)
    return TrainerCalls(Connecting("nowhere"), "relay"), commands


LEASES = [Lease(0, 1, 2, number, 3) for number in range(5)]
BEGIN = (Connecting("nowhere"), "relay")


def told(*leases: Lease) -> list[Any]:
    return [(0, ("acknowledge", tuple(each))) for each in leases]


def test_what_is_kept_is_told_anew_to_each_process_until_a_flush(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Process((1, "ok", b""), (2, "ok", b""))
    second = Process((4, "ok", b""))
    calls, commands = starting(monkeypatch, first, second)
    calls.flush()
    calls.reset()
    assert commands == []
    calls.acknowledge(LEASES[0])
    calls.flush()
    calls.acknowledge(LEASES[1])
    calls.flush()
    calls.acknowledge(LEASES[2])
    assert first.heard == [
        BEGIN,
        *told(LEASES[0]),
        (1, ("flush",)),
        *told(LEASES[1]),
        (2, ("flush",)),
        *told(LEASES[2]),
    ]
    # It dies: its answers end. What was not flushed is told again, and the question asked again.
    calls.flush()
    assert first.is_killed and first.is_closed and first.stdout.closed
    assert second.heard == [BEGIN, *told(LEASES[2]), (4, ("flush",))]
    assert f"serve({os.getpid()})" in commands[0][-1] and len(commands) == 2
    calls.acknowledge(LEASES[3])
    calls.reset()
    assert second.heard[-1] == (0, ("reset",))
    assert calls._kept == []
    calls.close()
    assert (first.ending, second.ending, second.is_killed) == ("detached", "ended", False)
    second.ending = ""
    calls.close()
    assert second.ending == ""


def test_a_process_that_is_gone_twice_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "the process that makes the trainer's calls has ended twice, with exit status 3"
    for use in (ask, lambda calls: calls.acknowledge(LEASES[0])):
        # It ends at once.
        calls, commands = starting(monkeypatch, Process(hears=False), Process())
        with pytest.raises(PackhouseError, match=words) as failed:
            use(calls)
        assert failed.value.code is grpc.StatusCode.UNKNOWN
        assert len(commands) == 1
    calls, commands = starting(monkeypatch, Process(), Process())
    with pytest.raises(PackhouseError, match=words):
        ask(calls)
    assert len(commands) == 2
    # Telling begins another one, which is told what is kept, once.
    first, second = Process(), Process()
    calls, commands = starting(monkeypatch, first, second)
    calls.acknowledge(LEASES[0])
    first.hears = False
    calls.acknowledge(LEASES[1])
    assert second.heard == [BEGIN, *told(LEASES[0], LEASES[1])]

    class Deaf(Process):
        """Hears how it is to connect, and no more."""

        def flush(self) -> None:
            super().flush()
            self.hears = False

    first, second = Process(), Deaf()
    calls, commands = starting(monkeypatch, first, second)
    calls.acknowledge(LEASES[0])
    first.hears = False
    with pytest.raises(PackhouseError, match=words):
        calls.reset()


def test_failures_come_as_they_were_raised_there(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(
        (1, "failed", "NOT_FOUND", "no job"),
        (2, "raised", KeyError("odd")),
        (3, "ok", position("c")),
    )
    calls, commands = starting(monkeypatch, process)
    with pytest.raises(PackhouseError, match="no job") as failed:
        ask(calls)
    assert failed.value.code is grpc.StatusCode.NOT_FOUND
    with pytest.raises(KeyError, match="odd"):
        ask(calls)
    assert ask(calls) == "c"
    assert process.heard[1:] == [
        (number, ("call", "Acknowledge", "AcknowledgeRequest", b"")) for number in (1, 2, 3)
    ]
    assert not process.is_killed and len(commands) == 1


def _interrupted() -> None:
    raise KeyboardInterrupt


def test_what_interrupts_a_question_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Process):
        def flush(self) -> None:
            super().flush()
            if len(self.heard) > 1:
                raise KeyboardInterrupt

    for use in (ask, TrainerCalls.flush, lambda calls: calls.acknowledge(LEASES[0])):
        first, second = Interrupted(), Process((2, "ok", position("c")))
        calls, _ = starting(monkeypatch, first, second)
        calls._kept = [LEASES[4]]
        calls._number = 0
        with pytest.raises(KeyboardInterrupt):
            ask(calls) if use is ask else use(calls)
        assert not first.is_killed
        second.stdout = io.BytesIO(pickle.dumps((calls._number + 1, "ok", position("c"))))
        assert ask(calls) == "c"
        assert first.is_killed
        assert second.heard[1] == told(LEASES[4])[0]
    # So does what interrupts what is only told.
    first, second = Process(), Process((2, "ok", position("c")))
    calls, _ = starting(monkeypatch, first, second)
    calls.acknowledge(LEASES[0])
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(first, "flush", _interrupted)
        calls.acknowledge(LEASES[1])
    second.stdout = io.BytesIO(pickle.dumps((calls._number + 1, "ok", position("c"))))
    assert ask(calls) == "c" and first.is_killed
    first = Interrupted()
    calls, _ = starting(monkeypatch, first)
    with pytest.raises(KeyboardInterrupt):
        ask(calls)
    calls.close()
    assert first.is_killed and calls._process is None


def test_a_few_thousand_are_kept_and_then_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_calls, "_MAX_KEPT", 2)
    process = Process((1, "ok", b""))
    calls, _ = starting(monkeypatch, process)
    for lease in LEASES[:4]:
        calls.acknowledge(lease)
    assert process.heard[1:] == [*told(*LEASES[:2]), (1, ("flush",)), *told(*LEASES[2:4])]
    assert calls._kept == LEASES[2:4]


def test_a_process_is_asked_to_end_by_its_owner_and_killed_if_it_does_not() -> None:
    class Ending(Process):
        def __init__(self, is_stubborn: bool, hears: bool = True) -> None:
            super().__init__(hears=hears)
            self.waits: list[Any] = []
            self.is_stubborn = is_stubborn

        def wait(self, timeout: float | None = None) -> int:
            self.waits.append(timeout)
            if self.is_stubborn and timeout is not None:
                raise subprocess.TimeoutExpired("x", timeout)
            return 0

    for is_stubborn in (False, True):
        process = Ending(is_stubborn)
        trainer_calls._end(process, os.getpid())
        assert process.heard == [(0, ("end",))]
        assert process.waits == ([10.0, None] if is_stubborn else [10.0])
        assert process.is_killed is is_stubborn and process.is_closed
    gone = Ending(False, hears=False)
    trainer_calls._end(gone, os.getpid())
    assert gone.waits == [10.0]
    # A copy in a forked process leaves it alone.
    other = Ending(False)
    trainer_calls._end(other, os.getpid() + 1)
    assert other.heard == [] and other.waits == []


class Served:
    """What `serve` works with, in its process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failures: Exception) -> None:
        self.log: list[Any] = []
        self.failures = list(failures)
        self.acknowledger = self
        self.is_relayed: list[Any] = []
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(trainer_calls, "LoadConnection", self._connect)
        monkeypatch.setattr(trainer_calls, "serve_calls", self._relay)
        monkeypatch.setattr(trainer_calls.os, "setsid", lambda: self.log.append("setsid"))
        monkeypatch.setattr(trainer_calls.signal, "signal", lambda *how: self.log.append(how))
        self.watches: queue.SimpleQueue[Any] = queue.SimpleQueue()
        monkeypatch.setattr(trainer_calls, "_end_with", self._watch)

    def _connect(self, connecting: Connecting) -> Served:
        self.log.append(connecting)
        return self

    def _watch(self, trainer: int) -> None:
        self.watches.put((trainer, threading.current_thread().daemon))

    def _relay(self, *where: Any) -> None:
        self.is_relayed.append(where)
        raise OSError("no socket")

    def _may_fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def add(self, lease: Lease) -> None:
        self._may_fail()
        self.log.append(lease)

    def reset(self) -> None:
        self.log.append("reset")

    def flush(self) -> None:
        self._may_fail()
        self.log.append("flush")

    def call(self, method: str, request: Any) -> Any:
        self._may_fail()
        self.log.append((method, request))
        return loader_pb2.AcknowledgeResponse(cursor="c")

    def close(self) -> None:
        self.log.append("close")

    def serve(self, *messages: Any) -> list[Any]:
        """What is answered; in `log` is what was done."""

        class Answers(io.BytesIO):
            unsaid = 0

            def write(self, data: Any) -> int:
                self.unsaid += 1
                return super().write(data)

            def flush(self) -> None:
                self.unsaid = 0

        given = Answers()
        asked = io.BytesIO(b"".join(map(pickle.dumps, messages)))
        with self._monkeypatch.context() as patched:
            patched.setattr(trainer_calls.sys, "stdin", SimpleNamespace(buffer=asked))
            patched.setattr(trainer_calls.sys, "stdout", SimpleNamespace(buffer=given))
            trainer_calls.serve(os.getpid())
        assert given.unsaid == 0
        given.seek(0)
        answers = []
        while given.tell() < len(given.getvalue()):
            answers.append(pickle.load(given))
        self.log = [
            each
            for each in self.log
            if not (isinstance(each, tuple) and len(each) == 2 and each[1] is signal.SIG_IGN)
        ]
        return answers


def test_the_process_does_what_it_is_told_and_answers_what_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = Served(monkeypatch)
    request = loader_pb2.AcknowledgeRequest(job="j")
    call = ("call", "Acknowledge", "AcknowledgeRequest", request.SerializeToString())
    assert served.serve(
        BEGIN, (0, ("acknowledge", tuple(LEASES[0]))), (1, ("flush",)), (2, call), (0, ("reset",))
    ) == [(1, "ok", b""), (2, "ok", position("c"))]
    connecting, relay = BEGIN
    assert served.watches.get(timeout=20) == (os.getpid(), True)
    assert served.log == [
        "setsid",
        connecting,
        LEASES[0],
        "flush",
        ("Acknowledge", request),
        "reset",
        "close",
    ]
    assert served.is_relayed == [(relay, connecting)]
    # It ends when it is told to, whatever comes after that; and without a word, at the end.
    assert served.serve((connecting, ""), (0, ("end",)), (1, ("flush",))) == []
    assert len(served.is_relayed) == 1
    assert served.serve() == []
    # A terminal's signals are the trainer's.
    ignored: list[Any] = []
    monkeypatch.setattr(trainer_calls.signal, "signal", lambda *how: ignored.append(how))
    served.serve()
    assert ignored == [
        (each, signal.SIG_IGN)
        for each in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
    ]


def test_what_failed_is_told_once_by_the_next_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    over = PackhouseError(grpc.StatusCode.FAILED_PRECONDITION, "over")
    served = Served(monkeypatch, over, over)
    # It is added all the same.
    answers = served.serve(
        BEGIN, (0, ("acknowledge", tuple(LEASES[0]))), (1, ("flush",)), (2, ("flush",))
    )
    assert answers == [(1, "failed", "FAILED_PRECONDITION", "over"), (2, "ok", b"")]
    assert served.log[2:] == [LEASES[0], "flush", "close"]
    # Not once it is forgotten.
    served = Served(monkeypatch, over)
    assert served.serve(
        BEGIN, (0, ("acknowledge", tuple(LEASES[0]))), (0, ("reset",)), (1, ("flush",))
    ) == [(1, "ok", b"")]
    # A failure that lasts costs that acknowledgement, and no loop without end.
    served = Served(monkeypatch, *[over] * 8)
    served.serve(BEGIN, (0, ("acknowledge", tuple(LEASES[0]))))
    assert LEASES[0] not in served.log and served.failures == []
    # Any other exception comes whole, or as its words.
    served = Served(monkeypatch, KeyError("odd"))
    (_, kind, error), second = served.serve(BEGIN, (1, ("flush",)), (2, ("flush",)))
    assert kind == "raised" and isinstance(error, KeyError) and error.args == ("odd",)
    assert second == (2, "ok", b"")
    served = Served(monkeypatch, KeyError("odd"))
    adding = (0, ("acknowledge", tuple(LEASES[0])))
    (_, kind, error), second = served.serve(BEGIN, adding, (1, ("flush",)), (2, ("flush",)))
    assert kind == "raised" and isinstance(error, KeyError) and second == (2, "ok", b"")

    class Local(Exception):
        pass

    served = Served(monkeypatch, Local("words"))
    ((_, kind, error),) = served.serve(BEGIN, (1, ("flush",)))
    assert kind == "raised" and type(error) is RuntimeError and str(error) == "Local: words"


def test_the_process_ends_soon_after_its_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = [77, 77, 1]
    slept: list[float] = []
    ended: list[int] = []
    monkeypatch.setattr(trainer_calls.os, "getppid", lambda: parents.pop(0))
    monkeypatch.setattr(trainer_calls.time, "sleep", slept.append)
    monkeypatch.setattr(trainer_calls.os, "_exit", ended.append)
    trainer_calls._end_with(77)
    assert parents == [] and slept == [1.0, 1.0, 10.0] and ended == [1]


class Streamed:
    """A call that gives these responses, and then ends, or waits until it is cancelled."""

    def __init__(self, *responses: bytes, ends: bool = True) -> None:
        self._left = list(responses)
        self._ends = ends
        self.cancelled = threading.Event()

    def __iter__(self) -> Streamed:
        return self

    def __next__(self) -> bytes:
        if self._left:
            return self._left.pop(0)
        if not self._ends:
            assert self.cancelled.wait(60)
        raise StopIteration

    def cancel(self) -> None:
        self.cancelled.set()


class NotFound(grpc.RpcError):  # type: ignore[misc]
    """As a call ends."""

    def __init__(self, *metadata: tuple[str, str]) -> None:
        super().__init__()
        self.code = lambda: grpc.StatusCode.NOT_FOUND
        self.details = lambda: "no job" if metadata else None
        pairs = [SimpleNamespace(key=key, value=value) for key, value in metadata]
        self.trailing_metadata = lambda: pairs or None


def test_a_call_that_is_made_elsewhere_gives_and_ends_as_there(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    answers: list[Any] = []

    class Channel:
        def __init__(self, address: str, **how: Any) -> None:
            made.append((address, how))
            if address == "odd":
                raise ValueError("no address")

        def __enter__(self) -> Channel:
            return self

        def __exit__(self, *_: object) -> None:
            made.append("closed")

        def unary_unary(self, method: str) -> Any:
            def call(request: bytes, **words: Any) -> Any:
                made.append((method, request, words))
                if isinstance(answers[0], Exception):
                    raise answers.pop(0)
                return answers.pop(0)

            return call

        unary_stream = unary_unary

    monkeypatch.setattr(relayed_calls, "make_channel", Channel)
    path = str(tmp_path / "calls")
    # Of a process before.
    (tmp_path / "calls").write_bytes(b"")
    mask = os.umask(0o027)
    serve_calls(path, Connecting("nowhere", max_message_bytes=77))
    assert os.umask(mask) == 0o027 and os.stat(path).st_mode & 0o077 == 0
    relay = Relay(path)
    assert not relay.is_left
    channel = relay.channel("there:1", (("option", 1),))
    how = {"max_message_bytes": 77, "options": (("option", 1),), "credentials": None}

    answers.append(b"said")
    say = channel.unary_unary("/m", request_serializer=str.encode, response_deserializer=bytes.decode)
    assert say("asked", timeout=3.0, wait_for_ready=True) == "said"
    assert made == [
        ("there:1", {**how, "reads_on_callers_thread": False}),
        ("/m", b"asked", {"timeout": 3.0, "wait_for_ready": True}),
        "closed",
    ]
    made.clear()
    answers.append(Streamed(b"1", b"", b"3"))
    stream = channel.unary_stream("/s", request_serializer=str.encode)("asked")
    assert list(stream) == [b"1", b"", b"3"] and list(stream) == []
    assert stream.code() is grpc.StatusCode.OK and stream.trailing_metadata() == ()
    assert made[:2] == [
        ("there:1", {**how, "reads_on_callers_thread": True}),
        ("/s", b"asked", {"timeout": None, "wait_for_ready": None}),
    ]
    owner = (("packhouse-owner", "b:1"),)
    for metadata, details in ((owner, "no job"), ((), "")):
        answers.append(NotFound(*metadata))
        with pytest.raises(grpc.RpcError) as failed:
            channel.unary_unary("/m")(b"")
        assert failed.value.code() is grpc.StatusCode.NOT_FOUND
        assert (failed.value.details(), failed.value.trailing_metadata()) == (details, metadata)
    with pytest.raises(grpc.RpcError) as failed:
        RelayedChannel(relay, "odd", ()).unary_unary("/m")(b"")
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    assert failed.value.details() == "no address"
    # Whoever closes its channel ends the call here and there.
    held = Streamed(b"1", ends=False)
    answers.append(held)
    stream = channel.unary_stream("/s")(b"")
    assert next(stream) == b"1" and stream.trailing_metadata() == ()
    channel.close()
    with pytest.raises(grpc.RpcError) as failed:
        next(stream)
    assert failed.value.code() is grpc.StatusCode.CANCELLED
    assert failed.value.details() == "the call was cancelled" and held.cancelled.wait(60)


def test_calls_are_left_to_another_process_for_ten_seconds_after_it_has_gone(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(relayed_calls, "time", SimpleNamespace(monotonic=lambda: now[0]))
    path = str(tmp_path / "calls")
    assert Relay("").is_left and Relay(path).is_left
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        relay = Relay(path)

        def is_left_at(seconds: float) -> bool:
            now[0] = 100.0 + seconds
            with pytest.raises(grpc.RpcError) as failed:
                relay.channel("there:1", ()).unary_unary("/m")(b"")
            assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
            assert failed.value.details() == "the process that makes the trainer's calls has ended"
            return relay.is_left

        assert [is_left_at(seconds) for seconds in (0, 5, 10)] == [False] * 3
        listening.listen()
        with socket.socket(socket.AF_UNIX) as connected:
            relay.connect(connected)
    # It refuses anew.
    assert [is_left_at(seconds) for seconds in (11, 21, 21.5)] == [False, False, True]
