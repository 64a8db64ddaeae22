"""Laws of the process that makes a trainer's calls: each question gets its own answer, or none."""

from __future__ import annotations

import io
import pickle
from typing import Any

import pytest

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
