"""What `packhouse epoch` asks a server, and what it tells of the answer."""

from __future__ import annotations

import contextlib
import types
from typing import Any, Iterator

import pytest

from packhouse.command import epoch, program
from packhouse.command.failures import Misuse
from packhouse.epochs.order import CostBalanced, terms_of
from packhouse.epochs.request import EpochRequest, Segments
from packhouse.v1 import loader_pb2


def filled(capacity: int, efficiency: float) -> Any:
    return types.SimpleNamespace(capacity=capacity, efficiency=efficiency)


def info(**changed: Any) -> Any:
    """An epoch of one shape, of which nothing more is known."""
    shape = types.SimpleNamespace(
        limits={"nodes": 10, "edges": 0}, num_batches=7,
        components={"nodes": filled(10, 0.5), "edges": filled(0, 1)},
    )  # fmt: skip
    usual: dict[str, Any] = {
        "dataset": "mine", "num_graphs": 2000, "num_batches": 7, "num_rejected": 0, "lower_bound": 0,
        "rank_groups": [types.SimpleNamespace(shapes=[shape])], "mixture": [], "segments": None,
        "company": None, "steps": None, "receipt": "", "epoch": 0,
    }  # fmt: skip
    return types.SimpleNamespace(**{**usual, **changed})


SHAPE = "limits       nodes=10, edges=unlimited\nefficiency   nodes 50.00 %\n"


def test_what_an_epoch_would_be_is_told() -> None:
    assert epoch.epoch_text(info()) == f"mine: 2,000 graphs in 7 batches\n{SHAPE}"
    segments = types.SimpleNamespace(num_segments=3, max_graphs=1000, num_tracks=2, loss=0.001)
    steps = types.SimpleNamespace(efficiency=0.9, of_shuffle=0.75, num_ranks=[4, 2])
    company = types.SimpleNamespace(chance=0.001, of_shuffle=0.0005, ratio=2.0)
    whole = info(
        lower_bound=6, num_rejected=1500, segments=segments, steps=steps, company=company, receipt="v1"
    )
    assert epoch.epoch_text(whole) == (
        "mine: 2,000 graphs in 7 batches; at least 6 are needed\n"
        "left out     1,500 graphs beyond the limits\n"
        f"{SHAPE}"
        "segments     3 of at most 1,000 graphs, in 2 tracks; segmentation loses at most 0.1 % of the "
        "batches\n"
        "company      0.1 % of the pairs of a batch meet again in the next epoch; 2.00 times as many as "
        "in a shuffle\n"
        "steps        90.00 % of the time of 6 ranks is spent on batches; 75.00 % in random order\n"
        "receipt      v1\n"
    )
    segments.num_tracks = 1
    told = epoch.epoch_text(info(segments=segments, company=company, epoch=3))
    assert "segments     3 of at most 1,000 graphs, in 1 track\n" in told
    assert "meet again in the epoch before;" in told
    assert {**epoch.epoch_json(whole), "mixture": None, "shapes": None} == {
        "dataset": "mine", "graphs": 2000, "left_out": 1500, "batches": 7, "lower_bound": 6,
        "mixture": None, "shapes": None, "receipt": "v1",
        "segments": {"segments": 3, "tracks": 1, "max_graphs": 1000, "loss": 0.001},
        "company": {"chance": 0.001, "of_shuffle": 0.0005, "ratio": 2.0},
        "steps": {"efficiency": 0.9, "of_shuffle": 0.75, "num_ranks": [4, 2]},
    }  # fmt: skip
    less = epoch.epoch_json(info())
    assert [less[name] for name in ("lower_bound", "segments", "company", "steps")] == [None] * 4
    assert less["shapes"] == [
        {
            "limits": "nodes=10, edges=unlimited", "batches": 7,
            "components": [
                {"component": "nodes", "capacity": 10, "efficiency": 0.5},
                {"component": "edges", "capacity": 0, "efficiency": 1},
            ],
        }
    ]  # fmt: skip


def test_each_data_set_of_a_mixture_is_told() -> None:
    mixed = [
        types.SimpleNamespace(dataset="a", num_graphs=1000, efficiency={"nodes": 0.25}, num_rejected=0),
        types.SimpleNamespace(dataset="b", num_graphs=9, efficiency={"nodes": 0.5}, num_rejected=3000),
    ]
    assert epoch.epoch_text(info(mixture=mixed)).endswith(
        "of which     a: 1,000 graphs, nodes 25.00 %\n"
        "of which     b: 9 graphs, nodes 50.00 %, 3,000 left out\n"
    )


def test_mixing_is_off_or_a_ratio() -> None:
    assert epoch._mixing_of("") is None and epoch._mixing_of("off") is False
    assert epoch._mixing_of("1") == 1 and epoch._mixing_of("2.5") == 2.5
    for text in ("0.99", "inf", "nan", "much", "-2"):
        with pytest.raises(Misuse) as raised:
            epoch._mixing_of(text)
        assert raised.value.message == (
            f"--mixing: {text!r} is neither off nor a finite number of at least 1"
        )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests; each is answered with an epoch of a data set of that name."""
    made: list[Any] = []

    @contextlib.contextmanager
    def connected(_: Any) -> Iterator[Any]:
        schema = types.SimpleNamespace(components=("nodes", "edges"))
        get = lambda name: types.SimpleNamespace(schema=schema)  # noqa: E731
        yield types.SimpleNamespace(datasets=types.SimpleNamespace(get=get))

    def ask(client: Any, method: str, request: Any, seconds: float) -> Any:
        assert method == "loader.Loader.GetEpoch" and request.company
        made.append(request.epoch)
        return loader_pb2.Epoch(num_batches=7)

    monkeypatch.setattr(epoch, "connected", connected)
    monkeypatch.setattr(epoch, "ask", ask)
    return made


def run(*words: str) -> int:
    return program.main(["epoch", "mine", "--server", "s", *words])


def test_an_epoch_is_asked_for_as_said(asked: list[Any]) -> None:
    limits = ("--limit", "nodes=9", "--limit", "graphs=4")
    usual: dict[str, Any] = {"dataset": "mine", "oversize": "reject", "mixing": None, "order": None}
    usual |= {"limits": {"nodes": 9, "graphs": 4}, "seed": 0, "padding": "none", "segments": None}
    balanced = CostBalanced(terms_of("edges + 0.5*nodes"), 2)
    for words, number, changed in (
        ((), 0, {}),
        (("--seed", "7", "--epoch", "3", "--padding", "graph"), 3, {"seed": 7, "padding": "graph"}),
        (("--segments", "100", "--tracks", "2"), 0, {"segments": Segments(100, 2)}),
        (("--segments", "0"), 0, {"segments": Segments(0, 0)}),
        (("--mixing", "off"), 0, {"mixing": False}),
        (("--mixing", "1.5"), 0, {"mixing": 1.5}),
        (("--order", "edges + 0.5*nodes", "--ranks", "2"), 0, {"order": balanced}),
    ):
        assert run(*limits, *words) == 0
        expected = EpochRequest({**usual, **changed}, job="").of_epoch(number)
        assert asked.pop() == expected and not asked


@pytest.mark.parametrize(
    "words, told",
    [
        (("--tracks", "2"), "--tracks are of segments: it needs --segments"),
        (("--order", "cost"), "--order and --ranks need each other"),
        (("--ranks", "2"), "--order and --ranks need each other"),
        (("--order", "a b", "--ranks", "2"), "--order: "),
        (("--mixing", "0.5"), "--mixing: '0.5' is neither"),
        (("--limit", "faces=1"), "--limit 'faces=1': the components are nodes, edges and graphs"),
    ],
)
def test_what_makes_no_sense_is_named(
    asked: list[Any], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert run("--limit", "nodes=9", *words) == 2
    assert capsys.readouterr().err.startswith(f"packhouse: {told}") and not asked
