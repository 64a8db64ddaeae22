"""What `packhouse export` asks of a server that fails now and then, and what it writes."""

from __future__ import annotations

import contextlib
import pathlib
import types
from typing import Any, Iterator

import grpc
import pytest

from packhouse.base.errors import PackhouseError
from packhouse.command import export, program
from packhouse.files import tfrecords


class Exporting:
    """Data sets whose stream of examples ends with an error after so many, once for each number."""

    def __init__(self) -> None:
        self.datasets = self
        self.calls: list[dict[str, Any]] = []
        self.fails_after: list[int] = []
        self.code = grpc.StatusCode.UNAVAILABLE
        self.schema = types.SimpleNamespace(data="node_sets {}")

    def get(self, name: str) -> Any:
        return types.SimpleNamespace(schema=types.SimpleNamespace(components=("nodes", "edges")))

    def export_examples(self, name: str, **arguments: Any) -> Any:
        self.calls.append({"name": name, **arguments})
        first, count = arguments["first_graph"], arguments["num_graphs"]
        numbers = range(first, first + count if count else 5)
        fails_after = self.fails_after.pop(0) if self.fails_after else None

        def examples() -> Iterator[bytes]:
            for place, number in enumerate(numbers):
                if place == fails_after:
                    raise PackhouseError(self.code, "is away")
                yield b"example %d" % number
            if fails_after == len(numbers):
                raise PackhouseError(self.code, "is away")

        made = examples()

        class Stream:
            schema = self.schema
            __iter__ = staticmethod(lambda: made)

            def __enter__(inner) -> Any:  # noqa: N805
                return inner

            def __exit__(inner, *exc_info: object) -> None:  # noqa: N805
                made.close()

        return Stream()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Exporting:
    made = Exporting()

    @contextlib.contextmanager
    def connected(_: Any) -> Iterator[Any]:
        yield made

    monkeypatch.setattr(export, "connected", connected)
    clock = types.SimpleNamespace(monotonic=lambda: 1.0, sleep=lambda seconds: None)
    monkeypatch.setattr(export, "time", clock)
    return made


def exported(path: pathlib.Path, *words: str) -> list[bytes]:
    status = program.main(["export", "mine", "--server", "s", "--tfrecord", str(path), *words])
    assert status == 0
    return [bytes(record.data) for record in tfrecords.read([path])]


@pytest.mark.parametrize("fails_after", [[], [0], [2], [2, 1], [0, 0, 3]])
def test_an_export_goes_on_behind_what_is_written(
    server: Exporting, tmp_path: pathlib.Path, fails_after: list[int]
) -> None:
    server.fails_after = list(fails_after)
    schema = tmp_path / "schema.pbtxt"
    written = exported(tmp_path / "a.tfrecord", "--graph-schema", str(schema))
    assert written == [b"example %d" % number for number in range(5)]
    firsts = [sum(fails_after[:calls]) for calls in range(len(fails_after) + 1)]
    assert server.calls == [{"name": "mine", "first_graph": n, "num_graphs": 0} for n in firsts]
    assert schema.read_text() == "node_sets {}"


def test_some_of_the_graphs_are_exported(
    server: Exporting, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = ("--first-graph", "1", "--num-graphs", "3")
    server.fails_after = [2]
    assert exported(tmp_path / "a", *some) == [b"example 1", b"example 2", b"example 3"]
    asked = [(call["first_graph"], call["num_graphs"]) for call in server.calls]
    assert asked == [(1, 3), (3, 1)]
    told = capsys.readouterr().out
    assert told.startswith("mine: wrote 3 graphs to 1 file; 27 B, ")
    # With the last of them all is there, whatever comes after it.
    server.calls.clear()
    server.fails_after = [3]
    assert len(exported(tmp_path / "b", *some, "--quiet")) == 3 and len(server.calls) == 1
    assert capsys.readouterr().out == ""


def test_other_failures_end_it(
    server: Exporting, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fails_after, server.code = [1], grpc.StatusCode.NOT_FOUND
    assert program.main(["export", "mine", "--server", "s", "--tfrecord", str(tmp_path / "a")]) == 1
    assert capsys.readouterr().err == "packhouse: is away [NOT_FOUND]\n" and len(server.calls) == 1


def test_batches_of_an_epoch_are_asked_for_as_said(server: Exporting, tmp_path: pathlib.Path) -> None:
    limits = ("--epoch", "0", "--limit", "nodes=9", "--limit", "graphs=4")
    exported(tmp_path / "a", *limits)
    exported(tmp_path / "b", *limits, "--seed", "7", "--padding", "tfgnn", "--grouped")
    usual = {"name": "mine", "first_graph": 0, "num_graphs": 0, "epoch": 0, "oversize": "reject"}
    usual["limits"] = {"nodes": 9, "graphs": 4}
    assert server.calls == [
        {**usual, "seed": 0, "padding": "none", "grouped": False},
        {**usual, "seed": 7, "padding": "tfgnn", "grouped": True},
    ]


@pytest.mark.parametrize(
    "words, told, status",
    [
        (("--seed", "0"), "--seed requires --epoch", 2),
        (("--limit", "nodes=1"), "--limit requires --epoch", 2),
        (("--padding", "none"), "--padding requires --epoch", 2),
        (("--grouped",), "--grouped requires --epoch", 2),
        (("--epoch", "0"), "--epoch requires --limit", 2),
        (("--epoch", "0", "--limit", "faces=1"), "--limit 'faces=1': the components are nodes", 1),
    ],
)
def test_what_makes_no_sense_is_named(
    server: Exporting, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...], told: str, status: int,
) -> None:  # fmt: skip
    path = str(tmp_path / "a")
    assert program.main(["export", "mine", "--server", "s", "--tfrecord", path, *words]) == status
    assert capsys.readouterr().err.startswith(f"packhouse: {told}") and not server.calls
