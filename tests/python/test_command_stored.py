"""list, show, delete and verify of what a server keeps, with a server that only notes what it is asked."""

from __future__ import annotations

import contextlib
import json
import types
from typing import Any, Iterator

import grpc
import pytest

from packhouse.base.errors import PackhouseError
from packhouse.command import program, stored
from packhouse.command.failures import Failure
from packhouse.stored.dataset import DamagedRecord, Verification


class Kept:
    """What there is of one kind, by name; a name of which only that is known has None."""

    def __init__(self) -> None:
        self.there: dict[str, Any] = {}
        self.calls: list[Any] = []
        self.jobs = self.feedback = self.datasets = self

    def list(self) -> Any:
        return list(self.there.values())

    def get(self, name: str, **arguments: Any) -> Any:
        self.calls.append(("get", name, arguments))
        if name not in self.there:
            raise PackhouseError(grpc.StatusCode.NOT_FOUND, f"{name} is not there")
        if self.there[name] is None:
            raise PackhouseError(grpc.StatusCode.DATA_LOSS, "broken")
        return self.there[name]

    def delete(self, name: str) -> None:
        self.calls.append(("delete", name))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    made = Kept()

    @contextlib.contextmanager
    def connected(_: Any) -> Iterator[Any]:
        yield made

    monkeypatch.setattr(stored, "connected", connected)
    return made


def named(name: str) -> Any:
    return types.SimpleNamespace(
        name=name, num_epochs=2, num_sessions=1, epochs=[], last_used=None, owner=""
    )


def run(*words: str) -> int:
    return program.main([*words, "--server", "s"])


def test_all_and_one_are_shown(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    kept.there = {name: named(name) for name in ("a", "b")}
    assert run("jobs", "list", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["job"] for each in told] == ["a", "b"] and told[0]["num_epochs"] == 2
    assert run("jobs", "list") == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["a", "2"], ["b", "2"]
    ]  # fmt: skip
    assert run("jobs", "show", "b", "--json") == 0
    assert json.loads(capsys.readouterr().out)["job"] == "b"
    assert run("jobs", "show", "b") == 0
    assert capsys.readouterr().out.startswith("b: 2 epochs, 1 streams\n")
    assert run("jobs", "show", "c") == 1
    assert capsys.readouterr().err == "packhouse: c is not there [NOT_FOUND]\n"


def test_what_is_deleted_is_described_first(
    kept: Kept, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless --yes says that it is known; what cannot be read can be deleted all the same."""
    kept.there = {"a": named("a"), "broken": None}
    confirmed: list[Any] = []
    monkeypatch.setattr(stored, "confirm", lambda *words: confirmed.append(words))
    assert run("jobs", "delete", "a", "--yes") == 0
    assert capsys.readouterr().out == "a: deleted\n"
    assert kept.calls == [("delete", "a")] and not confirmed
    kept.calls.clear()
    assert run("jobs", "delete", "a") == 0
    assert confirmed == [("delete job 'a' with 2 epochs, which 1 streams load", False)]
    assert kept.calls == [("get", "a", {}), ("delete", "a")]
    assert run("jobs", "delete", "broken") == 0
    assert confirmed[1] == ("delete job 'broken'", False) and kept.calls[-1] == ("delete", "broken")
    kept.calls.clear()
    assert run("jobs", "delete", "none") == 1
    assert [call[0] for call in kept.calls] == ["get"] and len(confirmed) == 2

    def refuse(*words: Any) -> None:
        raise Failure("CANCELLED", "nothing was done")

    monkeypatch.setattr(stored, "confirm", refuse)
    kept.calls.clear()
    assert run("jobs", "delete", "a") == 1 and ("delete", "a") not in kept.calls


def test_names_that_none_can_have_are_misuse(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (("show",), ("delete", "--yes")):
        assert run("feedback", *verb, "gpu") == 2
        assert capsys.readouterr().err.startswith("packhouse: 'gpu' is not MODEL/DEVICE")
    assert not kept.calls


@pytest.mark.parametrize("verb", ["verify", "fsck"])
@pytest.mark.parametrize("is_sound", [True, False])
def test_damage_fails_a_verification(
    kept: Kept, capsys: pytest.CaptureFixture[str], verb: str, is_sound: bool
) -> None:
    damaged = () if is_sound else (DamagedRecord(3, 7, 1, "a bit"),)
    found = Verification(30, 100, len(damaged), damaged, ())
    kept.verify = lambda name, show: found  # type: ignore[attr-defined]
    assert run("datasets", verb, "mine") == (0 if is_sound else 1)
    text = capsys.readouterr().out
    assert ("a bit" in text) != is_sound
    assert run("datasets", verb, "mine", "--json") == (0 if is_sound else 1)
    json.loads(capsys.readouterr().out)
